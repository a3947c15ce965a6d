"""One site of the simulated web: how many resources of each kind it has, where they stand, and how to find one back.

A site's resources are numbered, kind after kind. The open pages come first and form a tree under the home page (number
0): page p links to 2p+1 and 2p+2. Every other linked resource hangs as a leaf on one of them, so nothing that a crawler
may be kept from fetching ever cuts off anything else. The orphans come last: nothing links to them.
"""

import hashlib
import re
import struct
from bisect import bisect_right
from enum import StrEnum

import msgspec

#: 2^32 divided by the golden ratio, made odd: multiplying by it spreads consecutive numbers over the high bits.
SPREAD = 0x9E3779B1
#: Another odd number without pattern, so that the seed and the index cannot stand in for one another.
_OTHER_SPREAD = 0x85EBCA77

#: Sixteen, so that four bits choose one. `catalogue` is the one whose slashes pages write as character references.
SECTIONS = (
    *("news", "blog", "shop", "wiki", "archive", "people", "topics", "catalogue"),
    *("2024/11", "2025/03", "help", "en/docs", "fr", "media", "events", "forum/threads"),
)
#: Sixty-four, without digits behind a hyphen: the number that follows is how a path is found back. Some hold escapes
#: that canonicalising must keep (é, a space, 日本, a percent sign) or a tilde, which may be written escaped as well.
_WORDS = (
    "about account answer apple autumn bicycle bridge budget camera candle castle circle city cloud coast copper "
    "cotton country engine evening family farmer forest garden glass harbour history island journey kitchen ladder "
    "letter library market meadow method mirror morning museum notebook ocean orchard painting pepper planet railway "
    "record river season silver station summer theatre traffic valley village walnut window winter"
)
WORDS = (*_WORDS.split(), "caf%C3%A9", "a%20b", "%E6%97%A5%E6%9C%AC", "100%25", "~user")[-64:]
SUFFIXES = (".html", ".html", ".html", "/", "", ".php", "?view=full", ".html?lang=en&view=print")
FILE_TYPES = (
    (".pdf", "application/pdf"),
    (".jpg", "image/jpeg"),
    (".zip", "application/zip"),
    (".png", "image/png"),
)
REDIRECT_STATUSES = (301, 302, 301, 303, 307, 302, 301, 308)
ERROR_STATUSES = (500, 502, 500, 504)

#: By the low ten bits of a page's look: how its path begins.
STARTS = tuple(f"/{SECTIONS[look & 15]}/{WORDS[look >> 4]}-" for look in range(1_024))

_NUMBER = re.compile(r"-([1-9][0-9]{0,8})(?=[./?]|$)")
_HOPS = re.compile(r"/go/([1-9])/")


class Kind(StrEnum):
    """What stands at a URL."""

    PAGE = "page"
    PRIVATE = "private"
    """A page under /private/, which many robots.txt disallow."""
    BUSY = "busy"
    """A page that answers 429 or 503 at first."""
    REDIRECT = "redirect"
    MISSING = "missing"
    """A link leads there, and the answer is 404."""
    ERROR = "error"
    """A 5xx, however often it is asked."""
    FILE = "file"
    """Not HTML."""
    ORPHAN = "orphan"
    """A page that nothing links to."""
    ROBOTS = "robots"
    """robots.txt itself, or what it redirects to."""
    SITEMAP = "sitemap"
    NOWHERE = "nowhere"
    """Nothing that the web knows of: 404."""


#: The kinds that answer with a page of links (a busy one in the end).
PAGES = frozenset({Kind.PAGE, Kind.PRIVATE, Kind.BUSY, Kind.ORPHAN})

#: The order of the numbers. All but the orphans are linked.
_ORDER = (
    *(Kind.PAGE, Kind.PRIVATE, Kind.BUSY, Kind.REDIRECT),
    *(Kind.MISSING, Kind.ERROR, Kind.FILE, Kind.ORPHAN),
)
_FOLDERS = {
    Kind.PRIVATE: "private",
    Kind.BUSY: "busy",
    Kind.REDIRECT: "go",
    Kind.MISSING: "gone",
    Kind.ERROR: "oops",
    Kind.FILE: "files",
    Kind.ORPHAN: "attic",
}


def draws(count: int, *key: object) -> tuple[int, ...]:
    """`count` numbers of 32 bits that follow from the key alone: the only source of chance in this web."""
    text = "/".join(map(str, key))
    return struct.unpack(f"<{count}I", hashlib.shake_128(text.encode()).digest(4 * count))


def share(draw: int) -> float:
    """A draw as a number from 0 to 1, 1 excluded."""
    return draw / (1 << 32)


def site_salt(seed: int, index: int) -> int:
    """What tells the paths of one site from those of another. Cheap: a page needs it for every site it links to."""
    return ((index + 1) * SPREAD ^ (seed + 1) * _OTHER_SPREAD) & 0xFFFFFFFF


def page_path(salt: int, number: int) -> str:
    """With the query; of open pages only."""
    if number == 0:
        return "/"
    look = (number ^ salt) * SPREAD >> 16
    return f"{STARTS[look & 1023]}{number}{SUFFIXES[look >> 10 & 7]}"


class Site(msgspec.Struct, frozen=True, gc=False):
    """One site, cheap enough (some microseconds) to be made anew for every request. Only `Web.site` makes one."""

    index: int
    name: str
    scheme: str
    hosts: tuple[str, ...]
    """The first is the site's name. The others hold leaves only, so that their robots.txt cuts off nothing else."""
    ends: tuple[int, ...]
    """Of each kind, in the order of the numbers: the first number that is not of it."""
    salt: int
    has_sitemap: bool

    @property
    def open_pages(self) -> int:
        return self.ends[0]

    @property
    def linked(self) -> int:
        """How many numbers are linked: 0 to this, excluded."""
        return self.ends[-2]

    @property
    def resources(self) -> int:
        return self.ends[-1]

    def kind(self, number: int) -> Kind:
        return _ORDER[bisect_right(self.ends, number)]

    def look(self, number: int) -> int:
        """24 bits that decide how a resource looks: its words, host, status."""
        return (number ^ self.salt) * SPREAD >> 16 & 0xFFFFFF

    def path(self, number: int) -> str:
        """With the query. The first hop of a redirect."""
        if number < self.ends[0]:
            return page_path(self.salt, number)
        look = self.look(number)
        word = WORDS[look >> 4 & 63]
        kind = self.kind(number)
        if kind is Kind.REDIRECT:
            return self.hop_path(number, self.hops(number))
        suffix = FILE_TYPES[look & 3][0] if kind is Kind.FILE else SUFFIXES[look >> 10 & 7]
        return f"/{_FOLDERS[kind]}/{word}-{number}{suffix}"

    def hops(self, number: int) -> int:
        """Half of the redirects lead straight to a page; no chain is longer than four."""
        return (1, 1, 2, 1, 3, 1, 4, 2)[self.look(number) >> 10 & 7]

    def hop_path(self, number: int, hops_left: int) -> str:
        return f"/go/{hops_left}/{WORDS[self.look(number) >> 4 & 63]}-{number}"

    def host(self, number: int) -> str:
        if len(self.hosts) == 1 or 2 * number + 1 < self.ends[0]:
            return self.hosts[0]
        look = self.look(number)
        return self.hosts[0] if look >> 13 & 3 else self.hosts[1 + (look >> 15) % (len(self.hosts) - 1)]

    def url(self, number: int) -> str:
        return f"{self.scheme}://{self.host(number)}{self.path(number)}"

    def find(self, host: str, target: str) -> tuple[int, int] | None:
        """The number of what stands at a path and query, and the hops left if it is a redirect."""
        if target == "/" and host == self.hosts[0]:
            return 0, 0
        match = _NUMBER.search(target)
        if match is None:
            return None
        number = int(match[1])
        if number >= self.ends[-1] or host != self.host(number):
            return None
        if self.kind(number) is Kind.REDIRECT:
            hops = _HOPS.match(target)
            hops_left = min(int(hops[1]), self.hops(number)) if hops else 1
            return (number, hops_left) if target == self.hop_path(number, hops_left) else None
        return (number, 0) if target == self.path(number) else None


def ends(pages: int, shares: tuple[float, ...], chances: tuple[int, ...]) -> tuple[int, ...]:
    """Where each kind ends. A share that comes to no whole number is rounded up on some sites and down on others.

    `shares` follow the order of the kinds, from PRIVATE on. Private, busy and orphaned pages are among the `pages`; the
    others come on top of them.
    """
    counts = [int(pages * part + share(chance)) for part, chance in zip(shares, chances, strict=True)]
    # The home page is always open.
    left = pages - 1
    for position in (0, 1, 6):
        counts[position] = min(counts[position], left)
        left -= counts[position]
    found = [left + 1]
    for count in counts:
        found.append(found[-1] + count)
    return tuple(found)


def least_open_pages(pages: int, shares: tuple[float, ...]) -> int:
    """What `ends` leaves open on every site, however its chances fall."""
    return max(1, pages - sum(int(pages * shares[position]) + 1 for position in (0, 1, 6)))
