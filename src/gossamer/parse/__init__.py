"""Parsing: from the bytes of a response to what a page says.

    page.py     the steps below, in their order
    decode.py   content encodings undone, within a cap
    charset.py  the character encoding found, the bytes made text
    guard.py    markup that would make the parser grow without bound, written away
    html.py     base URL, links, title, description, robots directives
    text.py     plain text and main text

Nothing here raises on any input: what is wrong with a page is in the result, with its reason.
"""
