"""The sinks: the files in which pages end up, each page exactly once, whatever is killed and when.

    sink.py     what a sink is, and what it gets of a page
    jsonl.py    pages as lines of JSON
    commit.py   the moment from which pages count, and what is done after a death

A parser writes pages to open files. They count from the moment a commit record stands in the data directory, which
names how far each file counts, which segments of the spool are in it, and which URLs are finished by it. What a record
asks for may be done any number of times, so whoever comes after a death does it again; what lies beyond it in the files
is cut.
"""
