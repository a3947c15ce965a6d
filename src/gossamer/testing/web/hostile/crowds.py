"""What no site does alone: many that do the same at once, and one that speaks for others. Rows 51, 52 and 54 to 63.

The numbers here are small, so that a crawl of the whole catalogue stays short. `burst`, `slow_large` and the others
take larger ones: `./check campaign` plays those.
"""

import asyncio
import contextlib
import gzip

from gossamer.testing.web.hostile.site import (
    CLOSE,
    HTML,
    Expected,
    Pace,
    Place,
    Play,
    Site,
    answer,
    body,
    document,
    dribble,
    links,
    page,
    redirect,
    response_head,
    robots_file,
    write,
)
from gossamer.testing.web.server import Connection

#: Sites of a row that act together.
CROWD = 8
#: What each of them sends.
CROWD_BYTES = 1 << 20
#: How long the first of a burst waits for the others, in ticks; whoever comes later finds nobody, and gets its page.
_BURST_TICKS = 4
#: Subdomains of one site, and sites whose robots.txt leads to one victim.
SUBDOMAINS = 6
REFLECTORS = 4
#: Addresses of one /24: of AS112 (RFC 7534), which nobody crawls; the crawl is to be led to the server anyway.
PREFIX = "192.31.196."
LITERALS = tuple(f"{PREFIX}{number}" for number in range(10, 16))
#: Crashes the HTML parser: the parts of a table just at its cap on nesting, behind tags that end nothing and so hide
#: how deep it is; see docs/design.md, "Bodies and pages".
PARSER_CRASH = "<div></x>" * 508 + "<table><tfoot><tr></tfoot><a><p><a>"
POISONED = 2
#: As long as a path may be, in as many segments; and as many links as are taken from a page.
LONG_BASE = "/".join(["0123456789" * 9 + "-base"] * 19)
LONG_LINKS = 6000
#: Sites of the farm: each names the next three.
FARM = 13
#: A day, and more than the longest Crawl-delay that is kept.
SILENCE_SECONDS, CRAWL_DELAY_SECONDS = 86_400, 301
_OK = "HTTP/1.1 200 OK"
_NEVER = "User-agent: *\nDisallow: /\n"


def sites() -> dict[int, Site]:
    return {
        51: _same_at_each("h51", CROWD, burst(CROWD, CROWD_BYTES), Expected.DONE),
        52: _same_at_each("h52", CROWD, slow_large(CROWD_BYTES), Expected.TIMEOUT, Expected.TIME),
        54: _tarpits(),
        55: _closed_subdomains(),
        56: _reflectors(),
        57: {f"{address}/page": _page(Expected.DONE) for address in LITERALS},
        58: _robots_bombs(),
        59: _same_at_each("h59", POISONED, body(PARSER_CRASH.encode()), Expected.PARSE, Expected.DONE),
        60: {"h60.test/": Place(play=page(_PATTERN_PAGE), expected=(Expected.DONE,), links=_PATTERN_LINKS)}
        | {"h60.test/*": _page()},
        61: _tenants(),
        62: {
            "h62.test/links": Place(play=long_links("www.h62.test"), expected=(Expected.DONE,)),
            "www.h62.test/*": _page(),
        },
        63: {f"h63-{number}.test/": _farm(number) for number in range(FARM)},
    }


def burst(crowd: int, size: int) -> Play:
    """All but the last byte at once; the last one when so many are there, or when nobody comes any more."""
    head = response_head(_OK, HTML, ("Content-Length", str(size)), CLOSE)
    text = (b"<p>and so on, and so on</p>\n" * (size // 28 + 1))[: size - 1]
    meeting = _Meeting(crowd)

    async def play(connection: Connection, pace: Pace) -> None:
        await write(connection, (head, text))
        await connection.drain()
        await meeting.join(_BURST_TICKS * pace.tick_seconds)
        connection.write(b"\n")
        connection.close()

    return play


class _Meeting:
    """Ends for all at once when the last of a crowd has come; the next one begins a new meeting."""

    def __init__(self, crowd: int) -> None:
        self._crowd = crowd
        self._arrived = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def join(self, patience_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._arrived == self._crowd:
            # The catalogue is made once, and several servers may play it.
            self._loop, self._arrived, self._everybody = loop, 0, asyncio.Event()
        everybody = self._everybody
        self._arrived += 1
        if self._arrived == self._crowd:
            everybody.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await everybody.wait()


def slow_large(size: int) -> Play:
    """Nearly all of a large body at once, and then a byte per tick: it is kept for as long as it takes."""
    head = response_head(_OK, HTML, ("Content-Length", str(size)))
    return dribble(head + b"<p>" + b"slow and large " * ((size - size // 10) // 15), b" ")


def long_links(host: str, count: int = LONG_LINKS) -> Play:
    """Some kilobytes that stand for megabytes: a base of the greatest length, and short links."""
    text = f'<base href="http://{host}/{LONG_BASE}/">' + "".join(
        f'<a href="k{number:x}">l</a>' for number in range(count)
    )
    return body(gzip.compress(text.encode(), 9), HTML[1], ("Content-Encoding", "gzip"))


def _same_at_each(name: str, count: int, play: Play, *expected: Expected) -> Site:
    return {f"{name}-{number}.test/page": Place(play=play, expected=expected) for number in range(count)}


def _page(*expected: Expected) -> Place:
    return Place(play=page(document("A page", "<p>and nothing else</p>")), expected=expected)


def _tarpits() -> Site:
    """Slow in the head, in the body, and in each of the requests for robots.txt."""
    return {
        "h54-patient.test/robots.txt": Place(play=_late(redirect("/rules"), 1)),
        "h54-patient.test/rules": Place(play=_late(robots_file("User-agent: *\nAllow: /\n"), 1)),
        "h54-patient.test/page": Place(play=_late(page(document("Late", "at last")), 2), expected=(Expected.DONE,)),
        "h54-robots.test/robots.txt": Place(play=_late(redirect("/rules"), 1)),
        "h54-robots.test/rules": Place(play=dribble(response_head(_OK, ("Content-Length", "100000")), b"# \n")),
        "h54-robots.test/page": _page(Expected.ROBOTS_UNREACHABLE),
        "h54-body.test/page": Place(
            play=dribble(response_head(_OK, HTML, ("Content-Length", "1000000")), b"<p>"),
            expected=(Expected.TIMEOUT,),
        ),
    }


def _late(play: Play, ticks: int) -> Play:
    async def wait(connection: Connection, pace: Pace) -> None:
        await asyncio.sleep(ticks * pace.tick_seconds)
        await play(connection, pace)

    return wait


def _closed_subdomains() -> Site:
    site: Site = {}
    for number in range(SUBDOMAINS):
        host = f"n{number}.h55.test"
        site |= {f"{host}/robots.txt": Place(play=robots_file(_NEVER)), f"{host}/page": _page(Expected.DISALLOWED)}
    return site


def _reflectors() -> Site:
    """The victim closes everything; what is sent to it is a search, which costs it dearly."""
    site: Site = {
        "h56-victim.test/robots.txt": Place(play=robots_file(_NEVER)),
        "h56-victim.test/search": Place(play=_late(page(document("Found", "an expensive page")), 1)),
    }
    for number in range(REFLECTORS):
        host = f"h56-{number}.test"
        site[f"{host}/robots.txt"] = Place(play=redirect(f"http://h56-victim.test/search?q={number}"))
        site[f"{host}/page"] = _page(Expected.ROBOTS_UNREACHABLE, Expected.DONE)
    return site


def _robots_bombs() -> Site:
    # One rule of half a megabyte that compresses to some hundred bytes; the first one closes everything.
    robots_bomb = b"User-agent: *\nDisallow: /\nDisallow: x?/" + b"*{" * 255_000 + b"\n"
    bomb = body(gzip.compress(robots_bomb, 9), "text/plain", ("Content-Encoding", "gzip"))
    site: Site = {}
    for number in range(CROWD):
        host = f"h58-{number}.test"
        site |= {f"{host}/robots.txt": Place(play=bomb), f"{host}/page": _page(Expected.DISALLOWED)}
    return site


#: On which a pattern with a repeat in a repeat, such as `/([a-z]+/?)+\.pdf$`, tries every way to divide the letters.
_PATTERN_LINKS = {f"/{'a' * 60}!": Expected.DONE, f"/{'a/' * 3}{'a' * 60}.html": Expected.DONE}
_PATTERN_PAGE = document("Letters", links(_PATTERN_LINKS))


def _tenants() -> Site:
    """One host of a site asks for silence; its neighbour has asked for nothing."""
    return {
        "greedy.h61.test/page": Place(
            play=answer(429, "later", ("Retry-After", str(SILENCE_SECONDS))), expected=(Expected.RETRY,)
        ),
        "www.h61.test/page": _page(Expected.DONE),
        "www.h61.test/other": _page(Expected.DONE),
        "greedy.h61-delay.test/robots.txt": Place(
            play=robots_file(f"User-agent: *\nCrawl-delay: {CRAWL_DELAY_SECONDS}\n")
        ),
        "greedy.h61-delay.test/page": _page(Expected.CRAWL_DELAY),
        "www.h61-delay.test/page": _page(Expected.DONE),
        "www.h61-delay.test/other": _page(Expected.DONE),
    }


def _farm(number: int) -> Place:
    more = range(3 * number + 1, min(3 * number + 4, FARM))
    text = document("A farm", links(f"http://h63-{other}.test/" for other in more))
    return Place(play=page(text), expected=(Expected.DONE,))
