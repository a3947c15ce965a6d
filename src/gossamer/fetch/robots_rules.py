"""The rules of one robots.txt for one agent, compiled once, and the verdict on each URL (RFC 9309, 2.2.2 and 2.2.3).

Both sides of a comparison are brought to one spelling first: an octet that no URI may hold is percent-encoded, an
encoded unreserved octet is decoded, hexadecimal digits are upper case. The RFC wants reserved characters encoded on
both sides; we decode them on both sides, which makes the same strings equal and leaves the usual URL untouched. The
slash and the question mark are the exception: they have a meaning in a path, so `%2F` is not `/` there. Only within the
query of a rule that spells out its `?` are the two the same, as the second line of the RFC's own table has it.

Nothing here backtracks: a pattern is a head, some pieces and a tail, looked for from left to right with `str.find`.
"""

import re
from collections.abc import Iterable
from enum import Enum, StrEnum

import msgspec

#: Reserved characters that mean the same encoded or not: RFC 3986's, without those that cut a URL into its parts.
_RESERVED_DATA = "!$&'()*+,;:=@[]"
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_HEX = "0123456789ABCDEFabcdef"

#: Every spelling of a percent-encoded octet that is not the one we compare, and what we compare instead.
_RESPELLED = {
    f"%{high}{low}": spelled
    for high in _HEX
    for low in _HEX
    if (octet := chr(int(high + low, 16)))
    and (spelled := octet if octet in _UNRESERVED + _RESERVED_DATA else f"%{high}{low}".upper()) != f"%{high}{low}"
}
#: Matches exactly the keys of `_RESPELLED`, so that a long path of `%D0%B0…` costs one scan and no call per octet.
_TO_RESPELL = re.compile(
    "%(?:2[146-9A-Ea-e]|3[0-9ABDabd]|4[0-9A-Fa-f]|5[0-9ABDFabdf]|6[1-9A-Fa-f]|7[0-9AEae]|[0-9A-F][a-f]|[a-f][0-9A-Fa-f])"
)
#: What a URI cannot hold as it is (RFC 3986, section 2). A stray `%` stays as it is on both sides.
_TO_ENCODE = re.compile(r"[^!$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")
_ORIGIN = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//[^/?#]*")
_ENCODED_SLASH = "%2F"
_STARS = re.compile(rb"\*+")
_CUT_CODE = re.compile(rb"%[0-9A-Fa-f]?\Z")

#: Longest rule that is kept as it is: twice the longest line that Google reads, 16 times the longest URL by default.
RULE_BYTES = 32 << 10
#: Most wildcards of a rule; real ones have five at most. What a rule of the greatest length has is a hundred times as
#: much, and each piece between two of them takes up to a hundred bytes when it is compiled.
MOST_WILDCARDS = 256
#: Most rules with wildcards of one file. Each is asked for every URL, which comes to some milliseconds; a file with
#: more of them for us disallows everything.
MOST_PATTERNS = 10_000
#: The size of a rule that was cut, for precedence: it beats every Allow.
_CUT_SIZE = 1 << 30

# What compiled rules take beside their strings, measured with tracemalloc and rounded up.
_RULES_BYTES = 600
_RECORD_BYTES = 130
_LITERAL_BYTES = 60
_PATTERN_BYTES = 240
_STRING_BYTES = 56


class Reason(StrEnum):
    """Why a verdict is what it is."""

    RULE = "rule"
    #: The file is not clear, and one way to read it denies; RFC 9309 does not say, so we keep out.
    DOUBTFUL_RULE = "doubtful-rule"
    NO_RULE_MATCHES = "no-rule-matches"
    NO_GROUP = "no-group"
    EMPTY = "empty"
    ROBOTS_TXT = "robots-txt"


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """May this URL be fetched; `rule` and `line` (counted from 1) name what decided, or are None when no rule did."""

    allowed: bool
    reason: Reason
    rule: str | None = None
    line: int | None = None


class Field(Enum):
    """The fields we know: RFC 9309's three, and two of its "other records"."""

    AGENT = "user-agent"
    ALLOW = "allow"
    DISALLOW = "disallow"
    DELAY = "crawl-delay"
    SITEMAP = "sitemap"


class Record(msgspec.Struct, frozen=True, gc=False):
    """A line that says something: who is meant, a rule, a delay. `value` is in octets, trimmed and not normalised.

    One that is not `sure` is how a generous reader takes a line that the RFC cannot read.
    """

    line: int
    field: Field
    value: bytes
    sure: bool = True
    is_cut: bool = False
    """By `bounded`: it matches more than its line says."""

    @property
    def allows(self) -> bool:
        return self.field is Field.ALLOW

    @property
    def text(self) -> str:
        """As a tidy file would have it. It comes from the web: escape it before it meets a terminal."""
        return f"{self.field.value.capitalize()}: {self.value.decode(errors='replace')}"


class Pattern(msgspec.Struct, frozen=True):
    """A path pattern cut at its `*`: a head, pieces that follow anywhere in this order, and (if anchored) a tail.

    Matches in time linear in the target, whatever the pattern.
    """

    head: str
    pieces: tuple[str, ...]
    tail: str
    starred: bool
    anchored: bool
    #: The longest of the strings above. Most patterns do not match, and its absence tells so in one step.
    longest: str
    #: The octets of the pattern in its compared spelling, `*` and `$` included: the RFC's measure of being specific.
    size: int

    def matches(self, target: str) -> bool:
        if not target.startswith(self.head):
            return False
        position = len(self.head)
        for piece in self.pieces:
            found = target.find(piece, position)
            if found < 0:
                return False
            position = found + len(piece)
        if not self.anchored:
            return True
        if not self.starred:
            return len(target) == position
        return len(target) - len(self.tail) >= position and target.endswith(self.tail)


class Reading(msgspec.Struct, frozen=True):
    """One way to read a file, as rules ready to be matched. Built by `compile_rules`, asked by `Rules`.

    Patterns without a wildcard are looked up by the prefixes of the target, longest first, so that a file of fifty
    thousand rules costs no more than its number of different lengths.
    """

    literals: dict[str, Record]
    lengths: tuple[int, ...]
    wildcards: tuple[tuple[Pattern, Record], ...]
    slashed: tuple[tuple[Pattern, Record], ...]

    def deciding(self, target: str) -> Record | None:
        """The rule with the most octets that matches; of two equally long, the one that allows."""
        best = None
        size = -1
        for length in self.lengths:
            best = self.literals.get(target[:length])
            if best is not None:
                size = length
                break
        best, size = _longer(self.wildcards, target, best, size)
        if self.slashed:
            path, mark, query = target.partition("?")
            best, size = _longer(self.slashed, path + mark + query.replace(_ENCODED_SLASH, "/"), best, size)
        return best


class Rules(msgspec.Struct, frozen=True):
    """What one robots.txt says to one agent. Fetchers keep one per origin and ask `verdict` for each URL.

    `readings` holds the file as the RFC reads it, and, where that differs, as a generous reader would (misspelt fields,
    missing colons, several names on a line). A URL is allowed only if both allow it.
    """

    readings: tuple[Reading, ...]
    #: The reason given when no rule matches.
    otherwise: Reason
    #: Seconds; None when the file asks for none.
    crawl_delay: float | None = None
    #: What a cache holds by keeping this, at most: a test compares it with what the interpreter allocates.
    size_bytes: int = 0

    def verdict(self, url: str) -> Verdict:
        """`url` is a whole URL, or a path with or without query; any string gives an answer."""
        target = compared_target(url)
        if target == "/robots.txt":
            return _ROBOTS_TXT
        rule = self.readings[0].deciding(target)
        if rule is None or rule.allows:
            for reading in self.readings[1:]:
                doubtful = reading.deciding(target)
                if doubtful is not None and not doubtful.allows:
                    return Verdict(allowed=False, reason=Reason.DOUBTFUL_RULE, rule=doubtful.text, line=doubtful.line)
        if rule is None:
            return Verdict(allowed=True, reason=self.otherwise)
        return Verdict(allowed=rule.allows, reason=Reason.RULE, rule=rule.text, line=rule.line)


_ROBOTS_TXT = Verdict(allowed=True, reason=Reason.ROBOTS_TXT)


def compared_target(url: str) -> str:
    """The path and query of `url` in the spelling that patterns are compared in; it starts with a slash."""
    origin = _ORIGIN.match(url)
    path = (url[origin.end() :] if origin else url).partition("#")[0]
    return _spelled(path if path.startswith("/") else "/" + path)


def bounded(value: bytes) -> tuple[bytes, bool]:
    """A rule's path within our limits, and whether it was cut for that. If so, it matches at least what it did."""
    if len(value) <= RULE_BYTES and value.count(b"*") <= MOST_WILDCARDS:
        return value, False
    cut = _STARS.sub(b"*", value[:RULE_BYTES])
    if cut.count(b"*") > MOST_WILDCARDS:
        cut = b"*".join(cut.split(b"*", MOST_WILDCARDS)[:MOST_WILDCARDS])
    # What ends a pattern or an encoded octet must not be taken for more than it was.
    return _CUT_CODE.sub(b"", cut.rstrip(b"*$")) + b"*", True


def compile_pattern(octets: bytes) -> Pattern:
    """`*` is any run of octets and `$` at the end is the end; anything else, a `$` elsewhere too, is itself."""
    return _pattern(_cut(octets), anchored=octets.endswith(b"$"))


def compile_rules(rules: Iterable[Record]) -> Reading:
    """`rules` are Allow and Disallow records with a path; their order does not matter (section 2.2.2)."""
    literals: dict[str, Record] = {}
    wildcards: list[tuple[Pattern, Record]] = []
    slashed: list[tuple[Pattern, Record]] = []
    for rule in rules:
        if len(wildcards) + len(slashed) > MOST_PATTERNS:
            everything = Record(rule.line, Field.DISALLOW, b"*", is_cut=True)
            return Reading({}, (), ((_pattern(["", ""], anchored=False, is_cut=True), everything),), ())
        parts = _cut(rule.value)
        anchored = rule.value.endswith(b"$")
        if b"?" in rule.value and (plain := _plain_slashes(parts)) is not None:
            slashed.append((_pattern(plain, anchored=anchored, is_cut=rule.is_cut), rule))
        elif anchored or len(parts) > 1:
            wildcards.append((_pattern(parts, anchored=anchored, is_cut=rule.is_cut), rule))
        elif (known := literals.get(parts[0])) is None or (rule.allows and not known.allows):
            literals[parts[0]] = rule
    for patterns in (wildcards, slashed):
        patterns.sort(key=lambda item: (-item[0].size, not item[1].allows))
    lengths = tuple(sorted({len(text) for text in literals}, reverse=True))
    return Reading(literals=literals, lengths=lengths, wildcards=tuple(wildcards), slashed=tuple(slashed))


def _cut(octets: bytes) -> list[str]:
    """The parts between the wildcards in their compared spelling; an encoded `*` or `$` is decoded after the cut."""
    text = octets.decode("ascii") if octets.isascii() else _encoded_octets(octets)
    return [_spelled(part) for part in text.removesuffix("$").split("*")]


def _plain_slashes(parts: list[str]) -> list[str] | None:
    """The parts with the slashes of the query decoded; None if it has none, encoded or not. One part holds a `?`."""
    marked = next(index for index, part in enumerate(parts) if "?" in part)
    path, mark, query = parts[marked].partition("?")
    queries = [query, *parts[marked + 1 :]]
    if not any("/" in part or _ENCODED_SLASH in part for part in queries):
        return None
    first, *others = [part.replace(_ENCODED_SLASH, "/") for part in queries]
    return [*parts[:marked], path + mark + first, *others]


def _pattern(parts: list[str], *, anchored: bool, is_cut: bool = False) -> Pattern:
    head, *pieces = parts
    starred = bool(pieces)
    size = _CUT_SIZE if is_cut else sum(map(len, parts)) + len(pieces) + anchored
    tail = pieces.pop() if starred and anchored else ""
    # A run of `*` is one `*`: the empty pieces between them would match anywhere.
    found = tuple([piece for piece in pieces if piece])
    longest = max(parts, key=len)
    return Pattern(head=head, pieces=found, tail=tail, starred=starred, anchored=anchored, longest=longest, size=size)


def _longer(
    patterns: tuple[tuple[Pattern, Record], ...], target: str, best: Record | None, size: int
) -> tuple[Record | None, int]:
    """The first of `patterns` (most specific first) that matches and beats `best`, or `best` itself."""
    for pattern, rule in patterns:
        if pattern.size < size:
            break
        if pattern.longest in target and (pattern.size > size or rule.allows) and pattern.matches(target):
            return rule, pattern.size
    return best, size


def rules_bytes(readings: Iterable[Reading]) -> int:
    """What the compiled rules of one file take, at most."""
    total = _RULES_BYTES
    records: dict[int, int] = {}
    for reading in readings:
        total += sum(_LITERAL_BYTES + _string_bytes(text) for text in reading.literals)
        # Readings share their records.
        records |= {id(rule): len(rule.value) for rule in reading.literals.values()}
        for pattern, rule in (*reading.wildcards, *reading.slashed):
            total += _PATTERN_BYTES + _string_bytes(pattern.head) + _string_bytes(pattern.tail)
            total += sum(8 + _string_bytes(piece) for piece in pattern.pieces)
            records[id(rule)] = len(rule.value)
    return total + _RECORD_BYTES * len(records) + sum(records.values())


def _string_bytes(text: str) -> int:
    # The interpreter has each string of one character once.
    return _STRING_BYTES + len(text) if len(text) > 1 else 0


def _spelled(text: str) -> str:
    if _TO_ENCODE.search(text):
        text = _TO_ENCODE.sub(_encoded, text)
    if "%" in text:
        text = _TO_RESPELL.sub(_respelled, text)
    return text


def _encoded(run: re.Match[str]) -> str:
    # A lone surrogate is no character, but a string from anywhere may hold one, and must not raise here.
    return "".join([f"%{octet:02X}" for octet in run[0].encode(errors="surrogatepass")])


def _respelled(code: re.Match[str]) -> str:
    return _RESPELLED[code[0]]


def _encoded_octets(octets: bytes) -> str:
    """Octets outside ASCII are encoded one by one: the file may be in any encoding, and its URLs in the same one."""
    return "".join([chr(octet) if octet < 0x80 else f"%{octet:02X}" for octet in octets])
