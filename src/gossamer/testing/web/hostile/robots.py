"""What stands in the way of robots.txt, what stands in it, and servers that ask for a pause: rows 37 to 41."""

import codecs
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from gossamer.testing.web.hostile.site import (
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
    raw,
    redirect,
    response_head,
    robots_file,
    silence,
    streamed,
)
from gossamer.testing.web.server import Connection

RULES = "User-agent: *\nDisallow: /closed\n"
LARGE_FILE_BYTES = 10_000_000
LONG_LINE_BYTES = 1_000_000
#: In days, beyond any clamp.
TEN_YEARS_DAYS = 3650


def sites() -> dict[int, Site]:
    return {37: _failing(), 38: _refusing(), 39: _files(), 40: _redirected(), 41: _later()}


def _failing() -> Site:
    never = (Expected.ROBOTS_UNREACHABLE,)
    failures: dict[str, Play] = {
        "s500": answer(500, "broken"),
        "s503": answer(503, "busy", ("Retry-After", "1")),
        "s599": answer(599, "odd"),
        "silent": silence,
        "dribble": dribble(response_head("HTTP/1.1 200 OK", ("Content-Length", "100000")), RULES.encode()),
        "reset": raw(reset=True),
        "refused": raw(reset=True),
        "cut": raw(response_head("HTTP/1.1 200 OK", ("Content-Length", "100000")), b"User-agent: *\nAllow: /\n"),
        "noise": raw(b"\x00\xff" * 500),
    }
    site: Site = {}
    for word, play in failures.items():
        site |= _origin(f"{word}.h37.test", play, {"page": never})
    return site


def _refusing() -> Site:
    site: Site = {}
    for status in (400, 401, 403, 404, 410, 451):
        site |= _origin(f"s{status}.h38.test", answer(status, "none"), {"page": (Expected.DONE,)})
    for word, retry_after in {"s429": "2", "s429-long": "86400"}.items():
        # A site of its own for each: both hold their whole site back.
        host = f"{word}.h38.test" if word == "s429" else "h38-long.test"
        site |= _origin(
            host,
            answer(429, "too many", ("Retry-After", retry_after)),
            {"page": (Expected.RETRY, Expected.ROBOTS_UNREACHABLE)},
        )
    return site


def _files() -> Site:
    rules = RULES.encode()

    def large() -> Iterable[bytes]:
        yield rules
        filler = b"# nothing but filler in this line\n" * 1000
        yield from (filler for _ in range(LARGE_FILE_BYTES // len(filler)))
        # Beyond what is read of any file.
        yield b"Disallow: /\n"

    files: dict[str, Play] = {
        "large": streamed(large),
        "mark": body(codecs.BOM_UTF8 + rules, "text/plain"),
        "utf-16": body(RULES.encode("utf-16"), "text/plain"),
        "nul": body(rules.replace(b"agent", b"ag\0ent").replace(b"/closed", b"\0/closed"), "text/plain"),
        "cr": body(rules.replace(b"\n", b"\r"), "text/plain"),
        "long-line": body(b"#" * LONG_LINE_BYTES + b"\n" + rules, "text/plain"),
        "long-rule": body(
            b"User-agent: *\nDisallow: /" + b"x" * LONG_LINE_BYTES + b"\nDisallow: /closed\n", "text/plain"
        ),
        "binary-first": body(bytes(range(128, 256)) * 8 + b"\n" + rules, "text/plain"),
        "as-html": body(rules, "text/html"),
    }
    site: Site = {}
    outcomes = {"open": (Expected.DONE,), "closed": (Expected.DISALLOWED,)}
    for word, play in files.items():
        site |= _origin(f"{word}.h39.test", play, outcomes)
    allowed = {"open": (Expected.DONE,), "closed": (Expected.DONE,)}
    site |= _origin("html.h39.test", page(document("A page", "<p>Not a robots.txt at all</p>")), allowed)
    return site | _origin("empty.h39.test", robots_file(""), allowed)


def _redirected() -> Site:
    holds = {"open": (Expected.DONE,), "closed": (Expected.DISALLOWED,)}
    as_if_missing = {"open": (Expected.DONE,), "closed": (Expected.DONE,)}
    site: Site = {}
    for word, hops, outcomes in (("five", 5, holds), ("six", 6, as_if_missing)):
        host = f"{word}.h40.test"
        site |= _origin(host, redirect("/hop?1", 301), outcomes)
        site |= {
            f"{host}/hop?{hop}": Place(play=redirect(f"/hop?{hop + 1}") if hop < hops else robots_file(RULES))
            for hop in range(1, hops + 1)
        }
    site |= _origin("loop.h40.test", redirect("/robots.txt"), as_if_missing)
    site |= _origin("cross.h40.test", redirect("http://h40-rules.test/robots.txt"), holds)
    site |= _origin("h40-rules.test", robots_file(RULES), {})
    site |= _origin(
        "scheme.h40.test", redirect("ftp://h40-rules.test/robots.txt"), {"page": (Expected.ROBOTS_UNREACHABLE,)}
    )
    return site | _origin(
        "private.h40.test", redirect("http://169.254.169.254/robots.txt"), {"page": (Expected.ROBOTS_UNREACHABLE,)}
    )


def _later() -> Site:
    """Each of them a site of its own: a server's wish for a pause holds the whole site."""

    def in_future(**ahead: float) -> Callable[[], str]:
        return lambda: format_datetime(datetime.now(UTC) + timedelta(**ahead), usegmt=True)

    wishes: dict[str, Callable[[], str | None]] = {
        "seconds": lambda: "2",
        "none": lambda: None,
        "date": in_future(seconds=3),
        "past": in_future(days=-1),
        "far": in_future(days=TEN_YEARS_DAYS),
        "many-seconds": lambda: str(TEN_YEARS_DAYS * 86400),
        "many-digits": lambda: "9" * 5000,
        "zero": lambda: "0",
        "negative": lambda: "-5",
        "fraction": lambda: "1.5",
        "garbage": lambda: "after lunch",
        "bad-date": lambda: "Mon, 99 Foo 2026 25:61:61 GMT",
    }
    site: Site = {}
    for word, wish in wishes.items():
        for status in (429, 503):
            host = f"h41-{word}-{status}.test"
            site[f"{host}/"] = Place(play=_not_now(status, wish), expected=(Expected.RETRY,))
    site["h41-alternating.test/"] = Place(play=_alternating(429, lambda: "1"), expected=(Expected.RETRY, Expected.DONE))
    return site


def _not_now(status: int, wish: Callable[[], str | None]) -> Play:
    async def play(connection: Connection, pace: Pace) -> None:
        value = wish()
        await answer(status, "later", *([] if value is None else [("Retry-After", value)]))(connection, pace)

    return play


def _alternating(status: int, wish: Callable[[], str | None]) -> Play:
    """Refuses every other request, so that whoever asks again is served; each server process counts by itself."""
    is_refused = False

    async def play(connection: Connection, pace: Pace) -> None:
        nonlocal is_refused
        is_refused = not is_refused
        if is_refused:
            await _not_now(status, wish)(connection, pace)
        else:
            connection.respond(200, [HTML], document("Now", "it goes").encode())

    return play


def _origin(host: str, robots: Play, outcomes: Mapping[str, tuple[Expected, ...]]) -> Site:
    """A host with that robots.txt, and pages of which the fate is known; its own home page is one more like them."""
    site: Site = {f"{host}/robots.txt": Place(play=robots)}
    site |= {
        f"{host}/{path}": Place(play=page(document(path, "")), expected=expected) for path, expected in outcomes.items()
    }
    site[f"{host}/"] = Place(play=page(document(host, links(f"/{path}" for path in outcomes))))
    return site
