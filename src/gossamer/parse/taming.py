"""Markup made safe for the tree builder: the shapes that let a small page grow without bound are written away.

The parser caps nesting at 512 itself, and attributes, comments, entities and foster parenting cost it linear time. What
is left, because the HTML standard asks for it:

* Formatting elements (`<b>`, `<font …>`) that are still open when their paragraph ends are made again in every later
  one: k of them and n paragraphs make k * n elements. Renamed to `<span>`, which is never made again, they
  mean the same to links and text.
* A late `<html …>` or `<body …>` adds its attributes to the first one's, each compared with all that are there.
  Renamed to `<div …>` it is an ordinary element.

And one mistake of the parser (1.15.4): where its cap on nesting falls inside a table or a template, it forgets that an
element was not pushed, empties its stack and reads the word before it: a clean crash, every time. In long pages that
are so deep, tables are renamed to `<div>` too. That is a guess from the tags as written, and it is not made on short
pages, where it would cost as much as the parse: a crafted page of 3 KB still kills the process. Whoever calls this for
the web must survive the death of its process on a page.

Nothing is cut: links, text and order stay. Only literal markup inside a script, a title or an attribute of such a page
may read `<span` for `<b` afterwards.
"""

import re
from collections import Counter
from enum import StrEnum
from typing import NamedTuple

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
#: takes, and far above real pages (a few dozen). Looked at in pages longer than most: it takes as long as the parse.
MAX_TABLE_DEPTH = 400
MIN_DEEP_CHARACTERS = 150_000

#: Looked at together: of a well-formed page about half of them are start tags, far from the depth that counts.
_TAGS_AT_A_TIME = 128

#: The shortest start tag and the shortest text: `<p>` and what follows it cannot come more often than this.
_SHORTEST_TAG = 3

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
_ROOTS = frozenset({"html", "body"})

# Written with classes, not with IGNORECASE, and with looks ahead (at the first two letters, at the length) that settle
# most tags: four times as fast, and this one runs over every page.
_SUSPECT = re.compile(
    r"<(?=[bBcCeEfFhHiInNsStTuU][\t\n\f\r /imotIMOT])(?=[a-zA-Z]{1,6}[\t\n\f\r /])" rf"({_STYLED}|{_ROOT})"
)
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
    scorable: bool
    """Whether the article may be looked for."""


def tame(markup: str) -> Safe:
    """The page made safe to parse; links, text and order are what they were."""
    suspects = _SUSPECT.findall(markup)
    roots = [tag for tag in suspects if tag[:4].lower() in _ROOTS]
    tamed: tuple[Taming, ...] = ()
    if len(roots) > MAX_ROOTS or not all(map(_is_harmless, roots)):
        markup = _with_few_roots(markup)
        tamed = (Taming.ROOTS,)
        # Those that hid something are gone.
        suspects = _SUSPECT.findall(markup)
    styled = [tag for tag in suspects if tag[:4].lower() not in _ROOTS]
    if len(markup) > MIN_DEEP_CHARACTERS and _TABLE.search(markup) is not None and _is_deep(markup):
        markup = _TABLE_END.sub("</div", _TABLE_START.sub("<div", markup))
        tamed = (*tamed, Taming.TABLES)
    # Each question is dearer than the one before it, and clears most of the pages that come to it.
    open_at_once = MAX_PLAIN_FORMATTING + len(styled)
    most_tags = len(markup) // _SHORTEST_TAG
    if most_tags > MAX_SCORED_TAGS or open_at_once * most_tags > MAX_REMADE_ELEMENTS:
        most_tags = markup.count("<")
        if open_at_once * most_tags > MAX_REMADE_ELEMENTS and _is_remade(markup, most_tags, styled):
            markup = _FORMATTING_END.sub("</span", _FORMATTING_START.sub("<span", markup))
            tamed = (*tamed, Taming.FORMATTING)
            styled = []
    return Safe(markup, tamed, bool(styled), most_tags <= MAX_SCORED_TAGS)


def _is_harmless(root: str) -> bool:
    """Whether it has few attributes, and none of them hides a suspect: the parser may see that outside of any tag."""
    return root.endswith(">") and ("<" not in root or _SUSPECT.search(root) is None)


def _is_remade(markup: str, tags: int, styled: list[str]) -> bool:
    """Whether formatting elements may be made again more often than is allowed; `styled` are those with attributes."""
    # For them to be made again something must have closed over them, and that had a start tag.
    starts = tags - markup.count("</")
    # Those of which only the name is known may all differ.
    whole = [tag for tag in styled if tag.endswith(">")]
    styled_open = MAX_ALIKE * len(set(whole)) + len(styled) - len(whole)
    if (MAX_PLAIN_FORMATTING + styled_open) * starts <= MAX_REMADE_ELEMENTS:
        return False
    written = _FORMATTING_START.findall(markup)
    return min(MAX_ALIKE * len(set(written)) + styled_open, len(written)) * starts > MAX_REMADE_ELEMENTS


def _is_deep(markup: str) -> bool:
    """Whether more than `MAX_TABLE_DEPTH` elements may be open at once, taking end tags at their word."""
    tags = _TAG.findall(markup)
    return _may_be_deep(tags) and _deepens(tags)


def _may_be_deep(tags: list[str]) -> bool:
    """The same, asked of many tags at a time as if their start tags all came last: clears most, at half the price."""
    still_open: dict[str, int] = {}
    for start in range(0, len(tags), _TAGS_AT_A_TIME):
        ended: dict[str, int] = {}
        begun: dict[str, int] = {}
        for tag, count in Counter(tags[start : start + _TAGS_AT_A_TIME]).items():
            name = tag.lower()
            if name[0] == "/":
                ended[name[1:]] = ended.get(name[1:], 0) + count
            elif name not in _SHALLOW:
                begun[name] = begun.get(name, 0) + count
        if sum(still_open.values()) + sum(begun.values()) > MAX_TABLE_DEPTH:
            return True
        for name in ended.keys() & still_open.keys():
            still_open[name] = max(still_open[name] - ended[name], 0)
        for name, count in begun.items():
            still_open[name] = still_open.get(name, 0) + count
    return False


def _deepens(tags: list[str]) -> bool:
    still_open: dict[str, int] = {}
    depth = 0
    for tag in map(str.lower, tags):
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
