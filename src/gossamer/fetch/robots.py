"""robots.txt, the pure half: what the answer to its request means, what the file says, and to whom (RFC 9309).

    access_for(status)  ->  Access.PARSE  ->  parse(body)  ->  Robots.for_agent(token)  ->  Rules.verdict(url)

`parse` turns lines into records and judges nothing; `for_agent` picks the groups of one agent and compiles their rules,
once per origin; `verdict` (in `robots_rules`) is the call per URL. None of them raises, whatever the bytes.

Where the RFC speaks it is followed to the letter. Where it is silent (a misspelt or colon-less field, several names on
a User-agent line, a path without its slash, markup around a line, a name outside the RFC's alphabet) the file has two
readings, the RFC's and a generous one, and a URL is allowed only if both allow it. Records that belong to the generous
reading alone are not `sure`. Misspelt Allow lines have no part in either.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

import msgspec

from gossamer.fetch.robots_rules import (
    RULE_BYTES,
    Field,
    Reason,
    Record,
    Rules,
    Verdict,
    bounded,
    compile_pattern,
    compile_rules,
    rules_bytes,
)
from gossamer.records import RobotsCopy

#: RFC 9309 section 2.5: a limit must be at least this. Real files beyond it are accidents; what fits is parsed whole.
PARSE_LIMIT_BYTES = 500 * 1024
#: In a file over the limit, a longer line is junk: it is skipped and not counted, so the rules after it still hold.
#: Thirty times the longest URL we admit, so that no rule we could need is that long.
LONG_LINE_BYTES = 64 * 1024
#: A site with more has an index of them; the rest is reached through that.
SITEMAP_LIMIT = 500
#: As long as the longest URL that is admitted to the frontier.
SITEMAP_URL_LIMIT = 2000
#: RFC 9309 section 2.3.1.2: at least five redirects in a row are followed.
REDIRECT_LIMIT = 5
#: RFC 9309 section 2.4: a copy should not be used for longer than a day, unless the file cannot be had.
COPY_LIMIT_SECONDS = 24 * 3600
#: For so long after that day it serves while the file cannot be had. Longer outages than a day are rarely temporary.
OLD_COPY_SECONDS = 24 * 3600

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Access(Enum):
    """What follows from the answer to a request for robots.txt."""

    PARSE = "parse"
    FOLLOW = "follow"
    ALLOW_ALL = "allow-all"
    #: The server asks for fewer requests: send it none for a while, then ask for robots.txt again.
    BACK_OFF = "back-off"
    #: Nothing may be fetched unless an old copy serves (`old_copy_until`), and robots.txt is to be asked for again.
    DISALLOW_ALL = "disallow-all"


def access_for(status: int | None, *, redirects_followed: int = 0, loop: bool = False) -> Access:
    """RFC 9309 section 2.3.1; where it names no status, the answer that keeps us out.

    `status` is None when no whole answer came: time-out, refused, reset, no address, a redirect without usable target.
    `loop` says that this redirect leads to where we have been.
    """
    if status is None:
        return Access.DISALLOW_ALL
    if status in _REDIRECTS:
        return Access.ALLOW_ALL if loop or redirects_followed >= REDIRECT_LIMIT else Access.FOLLOW
    if status == 429:
        return Access.BACK_OFF
    if 400 <= status <= 499:
        return Access.ALLOW_ALL
    # 206 is a piece that nobody asked for: the rules may stand in the rest. Beyond 599 is 5xx (RFC 9110 section 15).
    if 200 <= status <= 299 and status != 206:
        return Access.PARSE
    return Access.DISALLOW_ALL


def old_copy_until(copy: RobotsCopy) -> float:
    """Until when the last good file serves while no other can be had; 0 if there is none.

    That an origin had no robots.txt is no file, and says nothing about a time when it cannot be asked.
    """
    return copy.fetched_at + COPY_LIMIT_SECONDS + OLD_COPY_SECONDS if copy.body else 0.0


def is_old_copy_used(copy: RobotsCopy, now: float) -> bool:
    """Whether the last good file decides, though the last answer was none."""
    return copy.access == Access.DISALLOW_ALL.value and old_copy_until(copy) > now


class Robots(msgspec.Struct, frozen=True):
    """A parsed file: its records in order, for any agent. Made by `parse`; ask `for_agent` once and keep the answer."""

    records: tuple[Record, ...]
    #: Absolute http and https URLs, each once, in the order of the file; they belong to no group.
    sitemaps: tuple[str, ...]

    def for_agent(self, agent: str) -> Rules:
        """`agent` is a product token, or a whole User-Agent header that is reduced to one by `product_token`."""
        sure = [record for record in self.records if record.sure]
        strict = _groups_of(sure, product_token(agent) or "", _named)
        loose = _groups_of(self.records, _loose_name(agent), _named_loosely)
        readings = [compile_rules(strict.rules)]
        if loose.rules != strict.rules:
            readings.append(compile_rules(loose.rules))
        otherwise = Reason.NO_RULE_MATCHES if strict.found or loose.found else Reason.NO_GROUP
        return Rules(
            readings=tuple(readings),
            otherwise=otherwise if self.records else Reason.EMPTY,
            crawl_delay=max((d for d in (strict.delay, loose.delay) if d is not None), default=None),
            size_bytes=rules_bytes(readings),
        )

    def verdict(self, agent: str, url: str) -> Verdict:
        """For a single question; a crawl asks `for_agent` once per file instead."""
        return self.for_agent(agent).verdict(url)


def parse(body: bytes) -> Robots:
    """The body as it came, decompressed, up to whatever cap it was downloaded under."""
    records: list[Record] = []
    sitemaps: dict[str, None] = {}
    for number, line in enumerate(_lines(_utf8(body)), start=1):
        if not line:
            continue
        said = line.partition(b"#")[0]
        key, colon, value = said.partition(b":")
        field = _FIELDS.get(key.strip().lower()) if colon else None
        value = value.strip()
        if field is Field.SITEMAP:
            if len(sitemaps) < SITEMAP_LIMIT and len(value) <= SITEMAP_URL_LIMIT and _ABSOLUTE.match(value):
                sitemaps[value.decode(errors="replace")] = None
        elif field is Field.ALLOW or field is Field.DISALLOW:
            records.extend(_rule_records(number, field, value))
        elif field is not None:
            records.append(Record(number, field, value[:RULE_BYTES]))
        elif _MAYBE_MISSPELT.match(said):
            records.extend(_doubtful_records(number, said))
    return Robots(records=tuple(records), sitemaps=tuple(sitemaps))


def kept_part(body: bytes) -> bytes:
    """What `parse` reads of it: at most `PARSE_LIMIT_BYTES`, which say the same as the whole, line by line."""
    if len(body) <= PARSE_LIMIT_BYTES:
        return body
    text = b"\n".join(_lines(_utf8(body)))
    # A mark that was not the first thing in the file is no mark there either.
    return _WHOLE_MARK + text if _UTF8_MARK.match(text) else text


def product_token(agent: str) -> str | None:
    """The name by which groups are found (RFC 9309 section 2.2.1), or None where a string holds none.

    It is the first product of a User-Agent header, or, as in the RFC's own example, the one after `compatible;`, less
    its version. Names with anything but letters, `_` and `-` are no product tokens: no group is surely theirs.
    """
    found = _COMPATIBLE.search(agent) or _PRODUCT.fullmatch(agent)
    return found[1].lower() if found and _IDENTIFIER.fullmatch(found[1]) else None


_FIELDS = {field.value.encode(): field for field in Field}
_ABSOLUTE = re.compile(rb"https?://[^\s/?#]", re.IGNORECASE)
_MARKUP = re.compile(r"</?[A-Za-z!][^<>]*>")
_MARKUP_OCTETS = re.compile(_MARKUP.pattern.encode())
_IDENTIFIER = re.compile(r"[A-Za-z_-]+")
_COMPATIBLE = re.compile(r"\bcompatible;[ \t]*([^\s/;,()]+)")
_PRODUCT = re.compile(r"([^\s/;,()]+)(?:/.*|\s+\(.*)?", re.DOTALL)
_FIRST_WORD = re.compile(r"[^\s/;,()]+")
_BETWEEN_NAMES = re.compile(r"[\s,;]+")
#: Whoever allows the index page means the directory too; the RFC is silent, but all the readers that we know agree.
_INDEX_PAGES = (b"/index.html", b"/index.htm")
#: Misspellings seen in the wild of the two fields that can keep us out. Repetitions are bounded: no long backtracking.
_MISSPELT = re.compile(
    rb"(?:(?P<agent>us[a-z]{0,4}[ \t_-]{0,3}ag[ent]{2,4}s?)"
    rb"|(?P<disallow>d[aei]{0,3}[sz]{0,3}[ \t_-]?a{0,3}l{1,4}[aoew]{2,3}s?))"
    rb"(?P<colon>[ \t]*:|[ \t]+|(?=/))(?P<value>.*)",
    re.IGNORECASE | re.DOTALL,
)
#: Lets most of the lines that we do not know pass without a closer look.
_MAYBE_MISSPELT = re.compile(rb"\s*[dDuU<]")
#: The mark of UTF-8, or as much of it as an editor has left.
_UTF8_MARK = re.compile(rb"\xef(?:\xbb\xbf?)?")
_WHOLE_MARK = b"\xef\xbb\xbf"
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")


def _utf8(body: bytes) -> bytes:
    """The text as UTF-8 without marks and NULs. The RFC allows no other encoding, and lets us bridge the mismatch."""
    encoding = None
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in body:
        # ASCII in UTF-16 is every second octet NUL; a quarter of one side and hardly any of the other is no accident.
        sample = body[:1024]
        even, odd = sample[::2].count(0), sample[1::2].count(0)
        if max(even, odd) * 4 > len(sample) // 2 > min(even, odd) * 16:
            encoding = "utf-16-be" if even > odd else "utf-16-le"
    text = body.decode(encoding, errors="replace").encode(errors="replace") if encoding else body
    mark = _UTF8_MARK.match(text)
    return text[mark.end() if mark else 0 :].replace(b"\0", b"")


def _lines(text: bytes) -> Iterable[bytes]:
    return text.splitlines() if len(text) <= PARSE_LIMIT_BYTES else _first_lines(text)


def _first_lines(text: bytes) -> Iterator[bytes]:
    """Whole lines only: half a line would be another rule. A long line comes out empty, so that numbers stay right."""
    room = PARSE_LIMIT_BYTES
    for found in _LINE.finditer(text):
        line = found[1]
        if len(line) > LONG_LINE_BYTES:
            said = line.partition(b"#")[0]
            line = said if len(said) <= LONG_LINE_BYTES else b""
        room -= len(line) + 1
        if room < 0:
            return
        yield line


def _rule_records(line: int, field: Field, value: bytes) -> Iterator[Record]:
    """RFC 9309's grammar wants a slash first, its section 5.1 has a `*`. Any other path matches nothing.

    What is too long, or has too many wildcards, disallows more than it says and allows nothing.
    """
    value, is_cut = bounded(value)
    if is_cut and field is Field.ALLOW:
        return
    yield Record(line, field, value, is_cut=is_cut)
    if field is Field.ALLOW and value.endswith(_INDEX_PAGES):
        yield Record(line, field, value[: value.rindex(b"/") + 1] + b"$")
    if field is Field.DISALLOW:
        path = _likely_path(value)
        if path and path != value:
            yield Record(line, field, path, sure=False, is_cut=is_cut)


def _likely_path(value: bytes) -> bytes:
    words = (_MARKUP_OCTETS.sub(b" ", value) if b"<" in value else value).split()
    if not words:
        return b""
    return words[0] if words[0].startswith((b"/", b"*")) else b"/" + words[0]


def _doubtful_records(line: int, said: bytes) -> Iterator[Record]:
    found = _MISSPELT.match(_MARKUP_OCTETS.sub(b" ", said).strip() if b"<" in said else said.strip())
    if found is None:
        return
    value, is_cut = bounded(found["value"].strip())
    if found["agent"]:
        yield Record(line, Field.AGENT, value, sure=False)
    elif found["colon"].endswith(b":") or value.startswith((b"/", b"*")):
        # Without a colon, words that happen to begin like the field are prose unless a path follows.
        yield Record(line, Field.DISALLOW, _likely_path(value), sure=False, is_cut=is_cut)


#: Whom a User-agent line names, as bits, because one line can name both.
_NOBODY, _AGENT, _EVERYONE = 0, 1, 2


class _Groups(msgspec.Struct, frozen=True):
    """The merged groups that one agent obeys in one reading; `found` is False when there are none, not even for `*`."""

    found: bool
    rules: list[Record]
    delay: float | None


def _groups_of(records: Iterable[Record], name: str, named_by: Callable[[bytes, str], int]) -> _Groups:
    """Section 2.2.1: all groups that name the agent, merged; only if there is none, all those for `*`.

    Neither a Crawl-delay nor an unknown line ends a run of User-agent lines (section 2.2.4), but a delay is meant for
    the lines directly before it, not for those that follow.
    """
    rules: dict[int, list[Record]] = {_AGENT: [], _EVERYONE: []}
    delays: dict[int, float] = {}
    found = addressed = delayed = _NOBODY
    names_go_on = delay_goes_on = False
    for record in records:
        if record.field is Field.AGENT:
            named = named_by(record.value, name)
            addressed = addressed | named if names_go_on else named
            delayed = delayed | named if delay_goes_on else named
            found |= named
            names_go_on = delay_goes_on = True
        elif record.field is Field.DELAY:
            delay_goes_on = False
            delay = _seconds(record.value)
            if delay is not None:
                delays.update({who: max(delay, delays.get(who, 0.0)) for who in rules if delayed & who})
        else:
            names_go_on = delay_goes_on = False
            if record.value and addressed:
                for who, theirs in rules.items():
                    if addressed & who:
                        theirs.append(record)
    obeyed = _AGENT if found & _AGENT else _EVERYONE
    return _Groups(found=bool(found), rules=rules[obeyed], delay=delays.get(obeyed))


def _named(value: bytes, token: str) -> int:
    """By the letter. A `*` after a name changes nothing: the RFC does not know it, but all readers take it so."""
    if value == b"*":
        return _EVERYONE
    return _AGENT if token and value.rstrip(b"*").lower() == token.encode() else _NOBODY


def _named_loosely(value: bytes, name: str) -> int:
    """As if a line may hold several names, versions, a comment, markup, a `*` or digits within a name, any script."""
    text = value.decode(errors="replace").lower()
    if "*" not in text and name not in text:
        return _NOBODY
    text = _MARKUP.sub(" ", text).partition("(")[0]
    words = [word.partition("/")[0] for word in _BETWEEN_NAMES.split(text)]
    leading = _IDENTIFIER.match(text)
    named = _EVERYONE if "*" in words else _NOBODY
    if name and (
        name in words
        or (leading is not None and leading[0] == name)
        or any("*" in word and word != "*" and compile_pattern(f"{word}$".encode()).matches(name) for word in words)
    ):
        named |= _AGENT
    return named


def _loose_name(agent: str) -> str:
    found = _COMPATIBLE.search(agent) or _FIRST_WORD.search(agent)
    return found[found.re.groups].lower() if found else ""


def _seconds(value: bytes) -> float | None:
    try:
        delay = float(_MARKUP_OCTETS.sub(b"", value))
    except ValueError:
        return None
    return delay if math.isfinite(delay) and delay >= 0 else None
