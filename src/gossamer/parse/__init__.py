"""Parsing: from the bytes of a response to what a page says, and from there to committed pages and admitted links.

One page:

    page.py        the steps below, in their order
    decode.py      content encodings undone, within a cap
    charset.py     the character encoding found, the bytes made text
    glance.py      its tags looked at together: how many, how deep, how many of a suspect kind
    taming.py      markup that would make the parser grow without bound, written away
    html.py        base URL, links, title, description, robots directives
    text.py        plain text and main text

A parser process:

    worker.py      the way of a segment: claimed, read, its links admitted, its pages written, committed
    record.py      an outcome read: what the sinks get of it, and its links
    candidates.py  links and redirects made candidates
    batch.py       some outcomes of a segment on their way
    page_reader.py how one page is read: here, or guarded
    guarded.py     pages read by a process that may die; isolated.py is that process
    failures.py    what is done with a segment that cannot be parsed
    room.py        waiting for disk, descriptors, memory
    note.py        which segment and page is in work, for whoever finds the process dead

Nothing here raises on any input: what is wrong with a page is in the result, with its reason.
"""
