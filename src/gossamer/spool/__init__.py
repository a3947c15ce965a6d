"""The spool: what carries outcomes from fetchers to parsers, as files that outlive both.

    directory.py  where segments are, and how they change hands
    segment.py    what is in a segment's file, and in its name
    writer.py     a fetcher's end: outcomes are gathered, written, and handed over once the store knows of them
    recovery.py   what is done with the segments of the dead
    suspects.py   what is known of segments and pages that did harm to their readers
    pressure.py   how much may wait, and how fetchers are slowed down
    room.py       the hard limit: whether a segment may be written

A fetcher writes a segment into `open/` and tells the store which URLs are in it. The store may refuse some, because
they are not this fetcher's any more; they become void, and the segment moves to `ready/`. A parser claims it, and
deletes it with the commit that its pages are part of. The order is what keeps each page: first the file, then the
store's word for it, then `ready/`; and at the end first the store's word, then the file.
"""
