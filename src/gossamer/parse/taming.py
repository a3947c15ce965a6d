"""Markup made safe for the tree builder: the shapes that let a small page grow without bound are written away.

The parser caps nesting at 512 itself, and attributes, comments, entities and foster parenting cost it linear time. What
is left, because the HTML standard asks for it:

* Formatting elements (`<b>`, `<font …>`) that are still open when their paragraph ends are made again in every later
  one: k of them and n paragraphs make k * n elements. Renamed to `<span>`, which is never made again, they
  mean the same to links and text.
* A late `<html …>` or `<body …>` adds its attributes to the first one's, each compared with all that are there.
  Renamed to `<div …>` it is an ordinary element.

And one mistake of the parser (1.15.4): where its cap on nesting falls inside a table or a template, it forgets that an
element was not pushed, empties its stack and reads the word before it: a clean crash, every time. In pages that are so
deep, tables are renamed to `<div>` too. That is a guess from the tags as written, and a page that also ends what it
never began escapes it: a crafted one of 5 KB still kills the process. Whoever calls this for the web must survive the
death of its process on a page.

All this is asked of a glance first (glance.py), which clears nearly every page. Nothing is cut: links, text and order
stay. Only literal markup inside a script, a title or an attribute of such a page may read `<span` for `<b` afterwards.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from gossamer.parse.glance import Glance, glance

#: Elements that the tree may hold beyond what was written. One costs about 130 bytes, so this is some 200 MB at worst.
MAX_REMADE_ELEMENTS = 1_500_000

#: Formatting elements that are alike, in name and attributes, of which no more can be open at once: the standard's
#: "Noah's Ark clause".
MAX_ALIKE = 3

#: Formatting elements without attributes that can be open at once: fourteen kinds less `a`, of which there is only ever
#: one.
MAX_PLAIN_FORMATTING = 13 * MAX_ALIKE + 1

#: Documents pasted into one another have a few `<html …>` and `<body …>`, each with a handful of attributes. As many as
#: these together are compared in a millisecond.
MAX_ROOTS = 16
MAX_ROOT_ATTRIBUTES = 32

#: An article is not looked for in a page with more tags: that takes time in tags times depth, 1.4 s on the worst page.
#: Real ones of 1 MiB have up to 60,000.
MAX_SCORED_TAGS = 100_000

#: Elements left open at once before a page with tables counts as deep: below the parser's 512 by more than a table
#: takes, and far above real pages (a few dozen).
MAX_TABLE_DEPTH = 400

_SPACE = r"[\t\n\f\r ]"
_FORMATTING = (
    "(?:[bBiIsSuU]|[eE][mM]|[tT][tT]|[bB][iI][gG]|[cC][oO][dD][eE]|[fF][oO][nN][tT]|[nN][oO][bB][rR]"
    "|[sS](?:[mM][aA][lL][lL]|[tT][rR](?:[oO][nN][gG]|[iI][kK][eE])))"
)
# To the letter of https://html.spec.whatwg.org/#before-attribute-name-state: a looser one would see a tag end where the
# parser reads on. Possessive, so that no page makes it go back.
_ATTRIBUTE = (
    rf"""[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r />=]*+"""
    rf"""(?:{_SPACE}*+={_SPACE}*+(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>)))?+"""
)
# The same for tags without a `<` in them. What is read as one of these hides no other tag, wherever it really stands:
# in a comment or a script an open quote means nothing to the parser.
_PLAIN_ATTRIBUTE = (
    rf"""[\t\n\f\r /]*+[^\t\n\f\r /><][^\t\n\f\r />=<]*+"""
    rf"""(?:{_SPACE}*+={_SPACE}*+(?:"[^"<]*+"|'[^'<]*+'|[^\t\n\f\r >"'<][^\t\n\f\r ><]*+|(?=>))|(?!{_SPACE}*+=))"""
)
# The whole tag where its attributes are few (or without `<`), otherwise its name alone.
_ROOT_NAME = "(?:[hH][tT][mM][lL]|[bB][oO][dD][yY])"
_ROOT = rf"{_ROOT_NAME}(?:(?:{_ATTRIBUTE}){{0,{MAX_ROOT_ATTRIBUTES}}}+[\t\n\f\r /]*+>)?+"
_PLAIN_ROOT = rf"{_ROOT_NAME}(?:(?:{_PLAIN_ATTRIBUTE}){{0,{MAX_ROOT_ATTRIBUTES}}}+[\t\n\f\r /]*+>)?+"
_STYLED = rf"{_FORMATTING}(?=[\t\n\f\r /])(?:(?:{_PLAIN_ATTRIBUTE})*+[\t\n\f\r /]*+>)?+"

# Where what belongs into tables means something.
_TABLE = re.compile(r"<[tT](?:[aA][bB][lL]|[eE][mM][pP][lL][aA][tT])[eE][\t\n\f\r />]")
_TABLE_START = re.compile(r"<(?:table|caption|colgroup|col|tbody|thead|tfoot|tr|td|th)(?=[\s/>])", re.IGNORECASE)
_TABLE_END = re.compile(r"</(?:table|caption|colgroup|col|tbody|thead|tfoot|tr|td|th)(?=[\s/>])", re.IGNORECASE)
# All tags but the most frequent ones of those that do not pile up.
_TAG = re.compile(r"<(?!/?(?:t[dhr]|li|p)[\t\n\f\r />])(/?[a-zA-Z][^\t\n\f\r />]*)")
# Void, closed by the next of their kind, or leaves of drawings: these do not pile up.
_SHALLOW_NAMES = (
    "area base br col embed hr img input link meta param source track wbr p li dt dd option optgroup tr td th tbody "
    "thead tfoot colgroup path use circle ellipse line rect polygon polyline stop html head body"
)
_SHALLOW = frozenset(_SHALLOW_NAMES.split())

_ROOT_AT = re.compile(f"<{_ROOT}".encode())
_STYLED_START = re.compile(rf"<(?=[bBcCeEfFiInNsStTuU][\t\n\f\r /imotIMOT])(?=[a-zA-Z]{{1,6}}[\t\n\f\r /]){_STYLED}")
_ROOT_START = re.compile(rf"<(?=[a-zA-Z]{{4}}[\t\n\f\r /]){_PLAIN_ROOT}")
_FORMATTING_START = re.compile(rf"<{_FORMATTING}(?=[\t\n\f\r />])")
_FORMATTING_END = re.compile(rf"</{_FORMATTING}(?=[\t\n\f\r />])")


class Taming(StrEnum):
    """What had to be written away or left unread so that a page could be parsed within bounds."""

    FORMATTING = "formatting"
    ROOTS = "roots"
    TABLES = "tables"
    ATTRIBUTES = "attributes"
    SCORING = "scoring"


class Safe(NamedTuple):
    """Markup whose tree is linear in its length, and what was changed for that: nothing, on an ordinary page."""

    markup: str
    tamed: tuple[Taming, ...]
    styled_formatting: bool
    """Whether formatting elements with attributes may be left in it."""
    anchors: int
    """How many `<a>` are written in it, at most."""
    scorable: bool
    """Whether the article may be looked for."""


def tame(markup: str, encoded: bytes | None = None) -> Safe:
    """The page made safe to parse; links, text and order are what they were. `encoded` is the same page in UTF-8."""
    seen, encoded = _seen(markup, encoded)
    tamed: tuple[Taming, ...] = ()
    if len(seen.roots) > MAX_ROOTS or not all(_is_short_root(encoded, place) for place in seen.roots):
        renamed = _with_few_roots(markup)
        # A glance takes `<body-cell>` for one, too.
        if renamed != markup:
            markup = renamed
            tamed = (Taming.ROOTS,)
            seen, encoded = _seen(markup, None)
    if seen.table_depth > MAX_TABLE_DEPTH and _TABLE.search(markup) is not None and _is_deep(markup):
        markup = _TABLE_END.sub("</div", _TABLE_START.sub("<div", markup))
        tamed = (*tamed, Taming.TABLES)
    styled = seen.formatting > 0
    # For one to be made again something must have closed over it, and that had a start tag.
    open_at_once = MAX_PLAIN_FORMATTING + seen.formatting
    if open_at_once * seen.starts > MAX_REMADE_ELEMENTS and _is_remade(markup, seen.starts):
        markup = _FORMATTING_END.sub("</span", _FORMATTING_START.sub("<span", markup))
        tamed = (*tamed, Taming.FORMATTING)
        styled = False
    return Safe(markup, tamed, styled, seen.anchors, seen.tags <= MAX_SCORED_TAGS)


def _seen(markup: str, encoded: bytes | None) -> tuple[Glance, bytes]:
    if encoded is None:
        encoded = markup.encode("utf-8", "surrogatepass")
    return glance(encoded), encoded


def _is_short_root(encoded: bytes, place: int) -> bool:
    """Whether the tag at this place is a root with few attributes, or none at all."""
    tag = _ROOT_AT.match(encoded, place)
    return tag is None or tag[0].endswith(b">")


def _is_remade(markup: str, starts: int) -> bool:
    """Whether formatting elements may be made again more often than is allowed, each by one of so many start tags."""
    styled = _STYLED_START.findall(markup)
    # Those of which only the name is known may all differ.
    whole = [tag for tag in styled if tag.endswith(">")]
    styled_open = MAX_ALIKE * len(set(whole)) + len(styled) - len(whole)
    if (MAX_PLAIN_FORMATTING + styled_open) * starts <= MAX_REMADE_ELEMENTS:
        return False
    written = _FORMATTING_START.findall(markup)
    return min(MAX_ALIKE * len(set(written)) + styled_open, len(written)) * starts > MAX_REMADE_ELEMENTS


def _is_deep(markup: str) -> bool:
    """Whether more than `MAX_TABLE_DEPTH` elements are open at once, taking end tags at their word, name by name."""
    still_open: dict[str, int] = {}
    depth = 0
    for tag in map(str.lower, _TAG.findall(markup)):
        if tag[0] == "/":
            count = still_open.get(tag[1:])
            if count:
                still_open[tag[1:]] = count - 1
                depth -= 1
        elif tag not in _SHALLOW:
            still_open[tag] = still_open.get(tag, 0) + 1
            depth += 1
            if depth > MAX_TABLE_DEPTH:
                return True
    return False


def _with_few_roots(markup: str) -> str:
    kept = 0

    def rename(match: re.Match[str]) -> str:
        nonlocal kept
        tag = match[0]
        kept += 1
        # Both names have four letters.
        return tag if kept <= MAX_ROOTS and tag.endswith(">") else f"<div{tag[5:]}"

    return _ROOT_START.sub(rename, markup)
