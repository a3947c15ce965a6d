"""The text of a page: all that is visible, and the article alone.

Called by html.py with the tree it has already read the facts from, because the tree is used up here: what a reader does
not see is removed, and elements that the renderer would lay out (tables in padded columns, quotations indented level by
level: quadratic on hostile pages, noise on others) are renamed to plain blocks.
"""

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from turbohtml import Document, Element, PlainText, Text

#: Characters of `class` and `id` that the article scoring may read from elements the parser can multiply: it takes
#: 0.16 µs for each, and without a bound 18 KB of markup cost it 3 s.
MAX_SCORED_CHARACTERS = 1_000_000

_INVISIBLE = frozenset(
    {"script", "style", "template", "noscript", "iframe", "noembed", "noframes", "textarea", "select", "datalist"}
)
_BLOCKS = frozenset({"table", "caption", "thead", "tbody", "tfoot", "blockquote", "dl", "dd", "dt", "ol"})
_ROW = "tr"
_CELLS = frozenset({"td", "th"})

#: The elements that `texts` wants to see.
LAID_OUT = _INVISIBLE | _BLOCKS | {_ROW}
FORMATTING = frozenset({"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"})

_OPTIONS = PlainText(bullet="")
#: No page can say this: the parser drops NUL from text or replaces it.
_PLACE_OF_ARTICLE = "\0"

_C0 = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n")
_C1_IN_UTF8 = re.compile(rb"\xc2[\x80-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Texts(NamedTuple):
    """Both texts of a page as UTF-8, free of control characters."""

    plain: bytes
    main: bytes


def texts(document: Document, laid_out: Iterable[Element], *, scorable: bool) -> Texts:
    """The visible text, blocks on lines of their own, and the article's part of it ("" where nothing reads as one).

    `laid_out` are the elements of that name in the document. `scorable`: whether to look for an article at all.
    """
    blocks: list[Element] = []
    rows: list[Element] = []
    for element in laid_out:
        tag = element.tag
        if tag == _ROW:
            rows.append(element)
        elif tag in _BLOCKS:
            blocks.append(element)
        else:
            element.decompose()
    article = document.main_content() if scorable else None
    for element in blocks:
        element.tag = "div"
    for row in rows:
        _flatten(row)
    if article is None:
        return Texts(encoded(document.to_text(_OPTIONS)), b"")
    if article.tag in {"body", "html"} or not isinstance(article.parent, Element):
        return Texts(encoded(document.to_text(_OPTIONS)), encoded(article.to_text(_OPTIONS)))
    # The article is most of the page, so it is rendered once, apart, and set into the rest.
    article.replace_with(Element("div", None, [Text(_PLACE_OF_ARTICLE)]))
    main = encoded(article.to_text(_OPTIONS))
    before, place, after = document.to_text(_OPTIONS).partition(_PLACE_OF_ARTICLE)
    return Texts(b"".join((encoded(before), main, encoded(after))) if place else encoded(before), main)


def encoded(text: str) -> bytes:
    """As UTF-8, without control characters (tab and newline stay)."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode()
    # Of bytes they are taken away five times as fast as of characters.
    return _C1_IN_UTF8.sub(b"", data.translate(None, _C0))


def clean(text: str) -> str:
    """The same as text."""
    return encoded(text).decode()


def _flatten(row: Element) -> None:
    """A row becomes a block, with a space between its cells."""
    row.tag = "div"
    # Most rows are cells with a text each, and nothing else: then the text is enough. Not looked at further than that
    # takes, because tables stand in one another.
    children = len(row)
    if list(map(type, islice(row.descendants, 2 * children + 1))) == [Element, Text] * children:
        # The space at its end keeps it apart from what may stand behind the table in an outer cell.
        row.set_text(" ".join([*row.strings, ""]))
        return
    for cell in list(row):
        if isinstance(cell, Element) and cell.tag in _CELLS:
            cell.append(Text(" "))
