"""What hostile sites are made of: places that misbehave, what is expected of a crawler there, and bounds on both.

A site is a dictionary from places (`h08.test/too-small`, host and path) to what is played there. A place is looked for
with its query, then without, then as `host/*`, then as `*/*`. Whatever a site does ends when the
client leaves (the server cancels it), or after `Pace.longest_seconds`.
"""

import asyncio
import html
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from itertools import chain

import msgspec

from gossamer.testing.web.server import Connection

#: What is written at a time: large enough to be cheap, small enough that a connection holds little memory.
BLOCK_BYTES = 64 * 1024
HTML = ("Content-Type", "text/html; charset=utf-8")
#: Closed after the answer: on a connection that was misused nothing more can be understood.
CLOSE = ("Connection", "close")


class Expected(StrEnum):
    """What becomes of a URL in a crawler that survives it: the words of outcomes, reason behind the colon."""

    DONE = "done"
    RAW = "done:raw"
    LINKS_CAPPED = "done:links-capped"
    NOT_PARSED = "done:not-parsed"
    LENGTH = "truncated:length"
    CUT = "truncated:disconnect"
    TIME = "truncated:time"
    UNEXPECTED_END = "truncated:unexpected-end"
    CHECKSUM = "truncated:checksum"
    CORRUPT = "truncated:corrupt"
    REDIRECT = "redirect"
    RETRY = "retry"
    STATUS = "failed:status"
    TIMEOUT = "failed:timeout"
    PROTOCOL = "failed:protocol"
    HEADERS = "failed:headers"
    DISCONNECT = "failed:disconnect"
    TLS = "failed:tls"
    DNS = "failed:dns"
    PARSE = "failed:parse"
    ADDRESS = "refused:address"
    SCHEME = "dropped:scheme"
    NOT_A_URL = "dropped:not-a-url"
    TOO_LONG = "dropped:too-long"
    HOPS = "dropped:hops"
    SEEN = "dropped:seen"
    TRAP = "dropped:trap"
    BUDGET = "dropped:budget"
    MEDIA_TYPE = "dropped:media-type"
    DISALLOWED = "dropped:robots"
    ROBOTS_UNREACHABLE = "dropped:robots-unreachable"
    CRAWL_DELAY = "dropped:crawl-delay"


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How slow the slow ones are. The defaults are beyond every limit of a crawler; tests choose smaller ones."""

    longest_seconds: float = 120.0
    """Nothing is played for longer: then the connection is reset."""
    tick_seconds: float = 1.0
    """Between the bytes of a dribble."""


#: Plays one place once; the pace is that of the whole web.
Play = Callable[[Connection, Pace], Awaitable[None]]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What is played at one place. Without `expected` it is scenery: served, and not linked from the home page."""

    play: Play
    expected: tuple[Expected, ...] = ()
    """The outcomes that are right, the best first."""
    links: Mapping[str, Expected] = {}
    """Where the hazard lies in where the place leads: what becomes of each reference in it, as it is written there."""
    scheme: str = "http"


Site = dict[str, Place]


async def play(site: Site, pace: Pace, connection: Connection) -> None:
    """What the server calls for every request to one of the site's hosts."""
    try:
        async with asyncio.timeout(pace.longest_seconds):
            await _find(site, connection.host, connection.target)(connection, pace)
    except TimeoutError:
        connection.abort()


def _find(site: Site, host: str, target: str) -> Play:
    path = target.partition("?")[0]
    # Where robots.txt is no hazard itself there is none, and everything is allowed.
    wide = () if path == "/robots.txt" else (f"{host}/*", "*/*")
    for place in (f"{host}{target}", f"{host}{path}", *wide):
        if place in site:
            return site[place].play
    return page(home_page(site)) if path == "/" else answer(404, "nothing here")


def home_page(site: Site) -> str:
    urls = [f"{found.scheme}://{place}" for place, found in site.items() if found.expected]
    return document("A hostile site", links(url for url in urls if not url.endswith("*")))


def document(title: str, body: str) -> str:
    return f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"


def links(hrefs: Iterable[str]) -> str:
    return "\n".join(f'<p><a href="{html.escape(href)}">a link</a></p>' for href in hrefs)


def page(text: str) -> Play:
    return body(text.encode())


def computed(make: Callable[[str], str]) -> Play:
    """A page made of the target (path and query) that was asked for."""

    async def play(connection: Connection, _pace: Pace) -> None:
        connection.respond(200, [HTML], make(connection.target).encode())

    return play


def streamed(make: Callable[[], Iterable[bytes]], *headers: tuple[str, str]) -> Play:
    """A page too large to be kept; it ends with the connection."""

    async def play(connection: Connection, _pace: Pace) -> None:
        await write(connection, chain([response_head("HTTP/1.1 200 OK", HTML, *headers, CLOSE)], make()))
        connection.close()

    return play


def body(data: bytes, content_type: str | None = HTML[1], *headers: tuple[str, str]) -> Play:
    """A well-formed answer, whatever is in it; written in blocks, so that a large one waits for its reader."""
    typed = [("Content-Type", content_type)] if content_type is not None else []

    async def play(connection: Connection, _pace: Pace) -> None:
        head = response_head("HTTP/1.1 200 OK", *typed, ("Content-Length", str(len(data))), *headers, CLOSE)
        await write(connection, (head, data))
        connection.close()

    return play


def answer(status: int, text: str = "", *headers: tuple[str, str]) -> Play:
    async def play(connection: Connection, _pace: Pace) -> None:
        connection.respond(status, [HTML, *headers], document(str(status), text).encode())

    return play


def robots_file(text: str) -> Play:
    return body(text.encode(), "text/plain; charset=utf-8")


def redirect(location: str, status: int = 302) -> Play:
    return answer(status, "elsewhere", ("Location", location))


def raw(*pieces: bytes, reset: bool = False) -> Play:
    """These bytes and no others, then the end of the connection, orderly or not."""

    async def play(connection: Connection, pace: Pace) -> None:
        await write(connection, pieces)
        if reset:
            # A reset overtakes what the client has not read yet.
            await asyncio.sleep(pace.tick_seconds / 4 if pieces else 0)
            connection.abort()
        else:
            connection.close()

    return play


def endless(first: bytes, again: bytes) -> Play:
    """`first`, then `again` until the client leaves."""

    async def play(connection: Connection, _pace: Pace) -> None:
        # Whole blocks: a short piece again and again would be all system calls.
        block = again * max(1, BLOCK_BYTES // len(again))
        connection.write(first)
        while not connection.is_closing:
            connection.write(block)
            await connection.drain()
            # A reader as fast as we are never makes `drain` wait, and other sites want their turn.
            await asyncio.sleep(0)

    return play


def dribble(first: bytes, slowly: bytes) -> Play:
    """`first` at once, then one byte per tick, over and over."""

    async def play(connection: Connection, pace: Pace) -> None:
        connection.write(first)
        at = 0
        while not connection.is_closing:
            connection.write(slowly[at : at + 1])
            at = (at + 1) % len(slowly)
            await connection.drain()
            await asyncio.sleep(pace.tick_seconds)

    return play


async def silence(_connection: Connection, _pace: Pace) -> None:
    """Until the client leaves: then the server cancels it."""
    await asyncio.Event().wait()


async def write(connection: Connection, pieces: Iterable[bytes]) -> None:
    """As fast as the client reads, and no further when it has left.

    Others have their turn before each block and not after the last one: a client that has got it all, and leaves, must
    not look as if it had left before.
    """
    for piece in pieces:
        for at in range(0, len(piece), BLOCK_BYTES):
            await connection.drain()
            if connection.is_closing:
                return
            connection.write(piece[at : at + BLOCK_BYTES])


def response_head(status_line: str, *headers: tuple[str, str]) -> bytes:
    lines = [status_line, *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
