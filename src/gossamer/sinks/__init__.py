"""The sinks: the files in which pages and outcomes end up, each exactly once, whatever is killed and when.

    sink.py      what a sink is, and what it gets of an outcome
    growing.py   a file that grows and can be cut back
    warc.py      what was asked and answered, as archives have it; cdxj.py and surt.py are its index
    columns.py   the two tables, column by column
    redirect.py  where a redirect leads, for both
    pages.py     the table of pages; log.py that of all outcomes
    parquet.py   what both have in common; parts.py says which files count, merge.py and footer.py make few of many
    commit.py    the moment from which all of it counts, and what is done after a death

A parser writes to open files. What it writes counts from the moment a commit record stands in the data directory, which
names how far each file counts, which segments of the spool are in it, and which URLs are finished by it. What a record
asks for may be done any number of times, so whoever comes after a death does it again; what lies beyond it in the files
is cut.
"""
