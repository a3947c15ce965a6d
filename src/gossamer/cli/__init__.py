"""The command line: one file per command. It parses what was typed, calls the stages, prints; it decides nothing.

Data goes to standard output, everything else to standard error. Exit codes: 0 done; 1 an answer was "no" (a URL that is
refused); 2 bad usage, with one line that names the value, its source and what is allowed.
"""
