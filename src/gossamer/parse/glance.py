"""What can be told of a page's markup without reading it: how many tags, how deep, how many of a suspect kind.

taming.py asks this of every page, and reads on only where the answer is not small. Each `<` is judged by the three
bytes behind it, all at once, wherever it stands: in a comment or a script too. So the counts are never too low. The
depth may be: it takes end tags at their word, and a page that ends what it never began is deeper than it says.
"""

from functools import cache
from typing import Final, NamedTuple

import numpy as np

#: What the bytes behind a `<` say. Of start tags: whether it may stay open (or does not pile up), and some by name.
_NO_TAG, _SHALLOW_END, _END, _SHALLOW, _START, _ROOT, _FORMATTING, _ANCHOR, _TABLE = range(9)
_FIRST_START: Final = _SHALLOW
#: How each changes the depth.
_STEPS: Final = np.array([0, 0, -1, 0, 1, 0, 1, 1, 1], np.int8)

#: Counted where attributes may follow; of the longer ones everywhere, because three letters do not tell.
_FORMATTING_NAMES: Final = ("b", "i", "s", "u", "em", "tt", "big", "code", "font", "nobr", "small", "strike", "strong")
_ROOT_NAMES: Final = ("html", "body")
#: Where what belongs into tables means something. What else begins so is taken for one of them.
_TABLE_NAMES: Final = ("table", "template")
#: Void, closed by the next of their kind, or leaves of drawings, as far as three letters tell them from others.
_SHALLOW_NAMES: Final = (
    *("area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "optgroup"),
    *("option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr"),
    *("circle", "ellipse", "line", "path", "polygon", "rect", "stop", "use"),
)
#: Of these, the two letters that an end tag shows are also those of an element that stays open.
_AMBIGUOUS_ENDS: Final = frozenset({"ar", "ba", "co", "em", "in", "me", "st"})

_LETTERS: Final = 3
_LETTERS_MASK: Final = np.uint32(0xFFFFFF)
#: Makes a capital small. It also makes `)` of a tab, and so on: what stands for one may then be taken for the other.
_SMALL: Final = 0x20
_SMALL_LETTERS: Final = np.uint32(_SMALL << 16 | _SMALL << 8 | _SMALL)
_SPACES: Final = tuple(byte | _SMALL for byte in b"\t\n\f\r /")
_ENDS: Final = (*_SPACES, ord(">"))


class Glance(NamedTuple):
    """The counts of one page."""

    tags: int
    starts: int
    """Of them, those that are no end tags, comments or the like."""
    formatting: int
    """Formatting elements that may have attributes."""
    anchors: int
    """`<a>`, with or without."""
    roots: list[int]
    """Where `<html` and `<body` stand in the bytes, and what begins like them."""
    table_depth: int
    """How many elements are open at once, at most; 0 where nothing begins like a table or a template."""


def glance(encoded: bytes) -> Glance:
    """Look at markup in UTF-8."""
    length = len(encoded) - _LETTERS
    if length <= 0:
        return Glance(0, 0, 0, 0, [], 0)
    (places,) = (np.frombuffer(encoded, np.uint8, length) == ord("<")).nonzero()
    if not len(places):
        return Glance(0, 0, 0, 0, [], 0)
    # Four bytes from each place on, the `<` first.
    behind = np.ndarray(length, ">u4", encoded, strides=(1,))[places].astype(np.uint32)
    behind &= _LETTERS_MASK
    behind |= _SMALL_LETTERS
    kinds = _all_kinds()[behind]
    counts = np.bincount(kinds, minlength=len(_STEPS)).tolist()
    return Glance(
        len(places),
        sum(counts[_FIRST_START:]),
        counts[_FORMATTING],
        counts[_ANCHOR],
        places[kinds == _ROOT].tolist() if counts[_ROOT] else [],
        _depth(kinds) if counts[_TABLE] else 0,
    )


def _depth(kinds: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> int:
    steps = np.cumsum(_STEPS[kinds], dtype=np.int32)
    # Below its start no page can climb.
    return int((steps - np.minimum(np.minimum.accumulate(steps), 0)).max())


@cache
def _all_kinds() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The kind for each three bytes, made for the first page in 0.4 ms. Of its 16 MB only the pages that begin with a
    letter or `/` are ever touched, so it takes 2 MB of memory."""
    kinds = np.zeros((256, 256, 256), np.uint8)
    for letter in range(ord("a"), ord("z") + 1):
        kinds[letter] = _START
    kinds[ord("/")] = _END

    def put(name: str, kind: int, ends: tuple[int, ...] = _ENDS) -> None:
        first, *others = name[:_LETTERS].encode()
        if len(others) == 2:
            kinds[first, others[0], others[1]] = kind
        elif others:
            kinds[first, others[0], ends] = kind
        else:
            kinds[first, ends, :] = kind

    for name in (*_SHALLOW_NAMES, *_ROOT_NAMES):
        put(name, _SHALLOW)
        if name[:2] not in _AMBIGUOUS_ENDS:
            put(f"/{name}", _SHALLOW_END)
    for name in _FORMATTING_NAMES:
        put(name, _FORMATTING, _SPACES)
    put("a", _ANCHOR)
    for name in _ROOT_NAMES:
        put(name, _ROOT)
    for name in _TABLE_NAMES:
        put(name, _TABLE)
    return kinds.reshape(-1)
