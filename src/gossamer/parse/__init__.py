"""Parsing: from the bytes of a response to what a page says.

    decode.py   content encodings undone, within a cap
    charset.py  the character encoding found, the bytes made text
    html.py     base URL, links, title, description, robots directives
    text.py     plain text and main text

Nothing here raises on any input: what is wrong with a page is in the result, with its reason.
"""
