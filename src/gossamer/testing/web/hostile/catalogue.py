"""The hostile catalogue, put together: what the server plays, what is expected at each URL, and the table as a page.

Each row that the server plays is a site of its own, `h01.test` and so on, so that no row waits for another.
"""

from functools import cache, partial

from gossamer.testing.web.certificates import TlsBehaviour
from gossamer.testing.web.hostile import bodies, crowds, heads, links, pages, redirects, robots, tls
from gossamer.testing.web.hostile.row import Row
from gossamer.testing.web.hostile.site import Expected, Pace, Site, play
from gossamer.testing.web.hostile.table import ROWS
from gossamer.testing.web.server import Behaviour

_THEMES = (bodies, crowds, heads, links, pages, redirects, robots, tls)


@cache
def played() -> dict[int, Site]:
    """By row: its places. Made once, because the bombs take a third of a second."""
    return dict(sorted(item for theme in _THEMES for item in theme.sites().items()))


def hostile_sites(pace: Pace | None = None) -> dict[str, Behaviour]:
    """By registrable domain: what the server plays for all hosts under it."""
    domains: dict[str, Behaviour] = {}
    for number, site in played().items():
        behaviour = partial(play, site, pace or Pace())
        domains |= dict.fromkeys(_domains(number, site), behaviour)
    return domains


def tls_hosts() -> dict[str, TlsBehaviour]:
    """By host: those that show the server's bad certificates, or none at all."""
    return tls.tls_hosts()


def hostile_seeds() -> list[str]:
    """Where a crawl of the catalogue begins: the home page of each site."""
    return [f"http://{domain}/" for number, site in played().items() for domain in _domains(number, site)]


def expectations() -> dict[str, tuple[Expected, ...]]:
    """The URLs of the catalogue at which something is expected: the outcomes that are right, the best first."""
    return {
        f"{place.scheme}://{where}": place.expected
        for site in played().values()
        for where, place in site.items()
        if place.expected and not where.endswith("*")
    }


def row_urls(number: int) -> list[str]:
    """The URLs of one row at which something is expected."""
    return [f"{place.scheme}://{where}" for where, place in played()[number].items() if place.expected]


def link_expectations() -> dict[tuple[str, str], Expected]:
    """The same for references: by the URL where one stands (a link, a Location) and its text, what becomes of it."""
    return {
        (f"{place.scheme}://{where}", reference): word
        for site in played().values()
        for where, place in site.items()
        for reference, word in place.links.items()
    }


def document() -> str:
    """The table as docs/hostile.md has it, to the letter."""
    sites = played()
    rows = [
        f"| H{row.number:02} | {'later' if row.later else 'now'} | {row.player} | {row.hazard} | {row.played} "
        f"| {row.answer}{f' *(later: {row.later})*' if row.later else ''} "
        f"| {', '.join(f'`{word}`' for word in outcomes(row, sites.get(row.number, {})))} |"
        for row in ROWS
    ]
    words = [f"| `{word}` | {meaning} |" for word, meaning in MEANINGS.items()]
    return "\n".join([_INTRODUCTION, *rows, _WORDS, *words, ""])


def outcomes(row: Row, site: Site) -> tuple[Expected, ...]:
    """All that is right somewhere in a row: at its URLs, and of the links in its pages."""
    found = {word for place in site.values() for word in (*place.expected, *place.links.values())}
    return tuple(sorted(found or row.expected))


def _domains(number: int, site: Site) -> list[str]:
    hosts = (place.partition("/")[0] for place in site)
    domains = {_domain(host) for host in hosts}
    return sorted(domains | ({f"h{number:02}.test"} if "farm.test" not in domains else set()))


def _domain(host: str) -> str:
    if host == "*":
        return "farm.test"  # of which the hosts are without number
    # An address is a site of its own.
    return host if host.replace(".", "").isdecimal() else ".".join(host.split(".")[-2:])


MEANINGS = {
    Expected.DONE: "stored as a page",
    Expected.RAW: "stored as a page; the content encoding was not undone, or not wholly",
    Expected.LINKS_CAPPED: "stored as a page; links beyond the limit are counted and left alone",
    Expected.NOT_PARSED: "stored; it is not HTML and no parser sees it",
    Expected.LENGTH: "stored up to a limit of ours, and marked",
    Expected.CUT: "what came before the connection broke is stored, and marked",
    Expected.TIME: "what came before its time was over is stored, and marked: enough for the least rate",
    Expected.UNEXPECTED_END: "what could be decoded is stored: the compressed stream ends early",
    Expected.CHECKSUM: "what could be decoded is stored: the sum at its end differs",
    Expected.CORRUPT: "what could be decoded is stored: the stream is damaged, or asks for absurd memory",
    Expected.REDIRECT: "recorded; the target is a new candidate",
    Expected.RETRY: "goes back to its queue, and the site waits",
    Expected.STATUS: "recorded with its status, which is no page's",
    Expected.TIMEOUT: "given up: too slow, or silent",
    Expected.PROTOCOL: "given up: this is not HTTP",
    Expected.HEADERS: "given up: the head is too large",
    Expected.DISCONNECT: "given up: the connection ended before there was an answer",
    Expected.TLS: "given up: no TLS connection, or not one that may be trusted",
    Expected.DNS: "given up: the name has no address",
    Expected.PARSE: "stored, and given up by the parser within its limits",
    Expected.ADDRESS: "not connected to: the address is not of the open web",
    Expected.SCHEME: "never admitted: neither http nor https",
    Expected.NOT_A_URL: "never admitted: the URL standard makes no URL of it",
    Expected.TOO_LONG: "never admitted: longer than the longest URL",
    Expected.HOPS: "not followed: one redirect too many",
    Expected.SEEN: "not followed: this crawl has it already",
    Expected.TRAP: "never admitted: it looks like a trap",
    Expected.BUDGET: "some are fetched, those beyond the site's share are dropped",
    Expected.MEDIA_TYPE: "not downloaded: not a type that is wanted",
    Expected.DISALLOWED: "not requested: robots.txt disallows it",
    Expected.ROBOTS_UNREACHABLE: "not requested: there is no answer about robots.txt",
    Expected.CRAWL_DELAY: "not requested: its origin asks for a longer Crawl-delay than is kept",
}

_INTRODUCTION = """# The hostile catalogue

What the web does to a crawler, and what ours is to make of it. The simulated web plays every row but two, each on a
site of its own: row 8 begins at `http://h08.test/`, whose home page links to its variants (`/too-small`, …).
Rows that need a feature to come are marked *later*. This page is made from the table in the code.

From row 51 on it is not one site that is hostile but many at once, or one that speaks for others: what is bounded at
each site has to be bounded for all of them together. The catalogue plays these in small numbers; `./check campaign`
in full ones.

*Survived* means: the process lives, its event loop never lags by a second, memory stays bounded, other sites are
unharmed, and the outcome says what happened.

| row | when | played by | hazard | what it does | answer | outcomes that are right |
|---|---|---|---|---|---|---|"""

_WORDS = """
## The words

Where a row has several, `expectations()` names those of each URL, the best first, and `link_expectations()` those of
links and redirects. A row that the resolver plays needs it: without it those names are ordinary ones.

| outcome | meaning |
|---|---|"""
