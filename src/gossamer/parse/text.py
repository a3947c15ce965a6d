"""The text of a page: all that is visible, and the article alone.

Called by html.py with the tree it has already read the facts from, because the tree is used up here: what a reader does
not see is removed, and elements that the renderer would lay out (tables in padded columns, quotations indented level by
level: quadratic on hostile pages, noise on others) are renamed to plain blocks.
"""

import re
from typing import NamedTuple

from turbohtml import Document, Element, PlainText, Text

#: Characters of `class` and `id` that the article scoring may read from elements the parser can multiply: it takes
#: 0.16 µs for each, and without a bound 18 KB of markup cost it 3 s.
MAX_SCORED_CHARACTERS = 1_000_000

_INVISIBLE = ("noscript", "iframe", "noembed", "noframes", "textarea", "select", "datalist")
_FORMATTING = ("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u")
_BLOCKS = ("table", "caption", "thead", "tbody", "tfoot", "tr", "blockquote", "dl", "dd", "dt", "ol")
_CELLS = ("td", "th")

_OPTIONS = PlainText(bullet="")
#: No page can say this: the parser drops NUL from text or replaces it.
_PLACE_OF_ARTICLE = "\0"

_C0 = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n")
_C1_IN_UTF8 = re.compile(rb"\xc2[\x80-\x9f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Texts(NamedTuple):
    """Both texts of a page, free of control characters; `scored` is false where styling hints had to be left unread."""

    plain: str
    main: str
    scored: bool


def texts(document: Document, *, styled_formatting: bool, scorable: bool) -> Texts:
    """The visible text, blocks on lines of their own, and the article's part of it ("" where nothing reads as one).

    `styled_formatting`: whether formatting elements other than `a` may have attributes; only then are they looked at.
    `scorable`: whether to look for an article at all.
    """
    for element in list(document.iter_elements(_INVISIBLE)):
        element.decompose()
    scored, article = True, None
    if scorable:
        scored = _bound_scoring(document, _FORMATTING if styled_formatting else ("a",))
        article = document.main_content()
    _flatten(document)
    if article is None:
        plain, main = document.to_text(_OPTIONS), ""
    elif article.tag in {"body", "html"} or not isinstance(article.parent, Element):
        plain, main = document.to_text(_OPTIONS), article.to_text(_OPTIONS)
    else:
        # The article is most of the page, so it is rendered once, apart, and set into the rest.
        article.replace_with(Element("div", None, [Text(_PLACE_OF_ARTICLE)]))
        main = article.to_text(_OPTIONS)
        before, place, after = document.to_text(_OPTIONS).partition(_PLACE_OF_ARTICLE)
        plain = f"{before}{main}{after}" if place else before
    cleaned = clean(plain)
    # The article is part of the page: what is not in the one is not in the other.
    return Texts(cleaned, main if cleaned is plain else clean(main), scored)


def clean(text: str) -> str:
    """Text without control characters (tab and newline stay) that can be written as UTF-8."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
        encoded = text.encode()
    # Bytes are searched five times as fast as characters, and nearly no page has anything to remove.
    if len(encoded.translate(None, _C0)) == len(encoded) and _C1_IN_UTF8.search(encoded) is None:
        return text
    return _CONTROL.sub("", text)


def _bound_scoring(document: Document, multiplied: tuple[str, ...]) -> bool:
    """Whether the article scoring is cheap as it is; otherwise `class` and `id` go from what the parser multiplies."""
    characters = 0
    for element in document.iter_elements(multiplied):
        characters += len(element.attr("class") or "") + len(element.attr("id") or "")
        if characters > MAX_SCORED_CHARACTERS:
            break
    else:
        return True
    for element in list(document.iter_elements(multiplied)):
        attributes = element.attrs
        # Deleted unread: there may be a hundred thousand of them, each a megabyte.
        for name in ("class", "id"):
            if name in attributes:
                del attributes[name]
    return False


def _flatten(document: Document) -> None:
    for element in list(document.iter_elements(_BLOCKS)):
        element.tag = "div"
    for element in list(document.iter_elements(_CELLS)):
        element.tag = "span"
        # The parser can leave a cell of a broken template beside the root, where no text may stand.
        if isinstance(element.parent, Element):
            element.insert_after(Text(" "))
