"""The client against the simulated web with its hostile sites: real sockets, one event loop for both sides.

The URLs of the hostile table are fetched once, all by one client; the tests look at what came of them.
"""

import asyncio
import contextlib
import gc
import os
import re
import resource
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
import pytest

from gossamer.config import FetchSettings
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.exchange import OTHER_BODY_SECONDS, Exchange
from gossamer.fetch.meter import FetchType
from gossamer.fetch.names import Resolution
from gossamer.records import Answer, Reason
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import expectations, hostile_sites, tls_hosts
from gossamer.testing.web.hostile.redirects import PRIVATE_HOSTS, SPELLINGS
from gossamer.testing.web.hostile.site import Expected, Pace
from gossamer.testing.web.resolver import PRIVATE_ADDRESSES, Resolver
from gossamer.testing.web.server import Connection, SimulatedWeb
from gossamer.url import Url, canonicalise
from tests.contract.played_clock import advance_loop, client_clock

MIB = 1 << 20
MEDIA_TYPES = frozenset(FetchSettings().media_types.split())
USER_AGENT = "Gossamer/0 (+crawl@example.org)"
TIMEOUT_SECONDS = 600.0
#: Some address of the open web. Nothing is ever sent there: where it is used, connections go to loopback.
PUBLIC_ADDRESS = "8.8.8.8"

#: Rows that end in the client; what is wrong with the others, robots.txt, links or parser find out.
ROWS = (1, 2, 3, 7, 8, 9, 12, 13, 14, 36, 41, 42, 43, 44, 45, 46, 47)
#: Rows whose hazard is in the content encoding, which the client leaves as it is.
ENCODED_ROWS = (4, 5, 6, 10, 11)
FAILURES = {
    Reason.TIMEOUT: Expected.TIMEOUT,
    Reason.PROTOCOL: Expected.PROTOCOL,
    Reason.TOO_LARGE: Expected.HEADERS,
    Reason.RESET: Expected.DISCONNECT,
    Reason.TLS: Expected.TLS,
}

T = TypeVar("T")


class Fetched(NamedTuple):
    results: dict[str, Answer | Failure]
    descriptors_before: int
    descriptors_after: int


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def descriptors_after(before: int) -> int:
    """Once the server has noticed who left, and the resolver's own thread has closed its sockets."""
    deadline = time.monotonic() + 60
    while descriptors() > before and time.monotonic() < deadline:  # noqa: ASYNC110 (there is nothing to be told by)
        await asyncio.sleep(0.01)
    return descriptors()


def url(text: str) -> Url:
    found = canonicalise(text)
    assert isinstance(found, Url)
    return found


def row(text: str) -> int:
    found = re.search(r"\bh(\d\d)", urlsplit(text).netloc)
    return int(found[1]) if found else 0


def word(result: Answer | Failure) -> Expected:
    """The table's word for what the client made of a URL."""
    if isinstance(result, Failure):
        return FAILURES[result.reason]
    if result.is_declined:
        return Expected.MEDIA_TYPE
    if result.status in {429, 503}:
        return Expected.RETRY
    if 300 <= result.status < 400:
        return Expected.REDIRECT
    if not 200 <= result.status < 300:
        return Expected.STATUS
    return Expected(f"truncated:{result.truncated}") if result.truncated else Expected.DONE


@contextlib.asynccontextmanager
async def simulated(directory: Path) -> AsyncIterator[SimulatedWeb]:
    async with SimulatedWeb(
        Web(sites=2, pages=2),
        hostile=hostile_sites(Pace(tick_seconds=0.05, longest_seconds=1000)),
        tls_hostile=tls_hosts(),
        log_directory=directory,
    ) as web:
        yield web


def settings_for(web: SimulatedWeb, **changes: Any) -> FetchSettings:
    settings = FetchSettings(
        connect_to=f"http=127.0.0.1:{web.http_port},https=127.0.0.1:{web.https_port}",
        # Nobody waits so long: where a time-out is wanted, the clock is put ahead.
        fetch_timeout_seconds=TIMEOUT_SECONDS,
        dns_timeout_seconds=TIMEOUT_SECONDS,
        connect_timeout_seconds=TIMEOUT_SECONDS,
        tls_timeout_seconds=TIMEOUT_SECONDS,
        header_timeout_seconds=TIMEOUT_SECONDS,
    )
    return msgspec.structs.replace(settings, **changes)


def run(play: Callable[[SimulatedWeb], Coroutine[Any, Any, T]], directory: Path) -> T:
    """In a loop of its own; what the loop had to complain of, such as an error that nobody fetched, fails the test."""
    complaints: list[str] = []

    async def main() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        async with simulated(directory) as web:
            return await play(web)

    found = asyncio.run(main())
    gc.collect()
    assert complaints == []
    return found


async def get(
    client: Client, text: str, *, max_body_bytes: int = MIB, media_types: frozenset[str] | None = MEDIA_TYPES
) -> Answer | Failure:
    return await client.get(url(text), max_body_bytes=max_body_bytes, media_types=media_types)


async def reason_of(client: Client, text: str) -> Reason | None:
    result = await get(client, text)
    return result.reason if isinstance(result, Failure) else None


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 (there is nothing to be told by)
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Fetched:
    async def play(web: SimulatedWeb) -> Fetched:
        wanted = [text for text in expectations() if row(text) in ROWS + ENCODED_ROWS]
        before = descriptors()
        async with Client(settings_for(web), user_agent=USER_AGENT) as client:
            asking = {text: asyncio.ensure_future(get(client, text)) for text in wanted}
            await asyncio.wait([task for text, task in asking.items() if expectations()[text] != (Expected.TIMEOUT,)])
            await until(lambda: all(map(waits_for_server, client._exchanges)))
            clock.advance(TIMEOUT_SECONDS)
            results = await asyncio.gather(*asking.values())
        return Fetched(dict(zip(wanted, results, strict=True)), before, await descriptors_after(before))

    with pytest.MonkeyPatch.context() as patched:
        clock = client_clock(patched)
        return run(play, tmp_path_factory.mktemp("web"))


def waits_for_server(exchange: Exchange) -> bool:
    """It is connected, and TLS is established with everybody who does not stall just then."""
    is_established = exchange.scheme == "http" or exchange.tls_seconds is not None
    return exchange.connected_at is not None and (is_established or b"Host: stall.h43.test" in exchange.request)


# The hostile table.


@pytest.mark.parametrize("number", ROWS)
def test_every_hostile_url_ends_as_the_table_says(fetched: Fetched, number: int) -> None:
    same = {Expected.NOT_PARSED: Expected.DONE, Expected.DISALLOWED: Expected.DONE}
    expected = {text: words for text, words in expectations().items() if row(text) == number}
    assert expected
    wrong = {
        text: (word(fetched.results[text]), fetched.results[text])
        for text, words in expected.items()
        if word(fetched.results[text]) not in {same.get(found, found) for found in words}
    }
    assert wrong == {}


@pytest.mark.parametrize("number", ENCODED_ROWS)
def test_a_content_encoding_is_left_as_it_came(fetched: Fetched, number: int) -> None:
    results = {text: result for text, result in fetched.results.items() if row(text) == number}
    assert results
    for result in results.values():
        assert isinstance(result, Answer)
        length = next(int(value) for name, value in result.headers if name.lower() == b"content-length")
        assert (result.status, result.truncated, len(result.body)) == (200, "", length)


def test_nothing_is_left_open_after_all_of_it(fetched: Fetched) -> None:
    assert fetched.descriptors_after <= fetched.descriptors_before


def test_a_failure_says_what_happened_and_how_long_it_took(fetched: Fetched) -> None:
    failures = {text: result for text, result in fetched.results.items() if isinstance(result, Failure)}
    assert all(result.detail.isprintable() and result.detail for result in failures.values())
    assert all((result.was_sent, result.address) == (True, "127.0.0.1") for result in failures.values())
    silent = failures["http://h43.test/silence"].times
    assert silent.dns is not None
    assert silent.connect is not None
    assert (silent.tls, silent.first_byte) == (None, None)
    assert failures["https://stall.h43.test/"].times.tls is None
    assert failures["https://h43.test/silence?tls"].times.tls is not None


def test_an_answer_has_all_its_phases(fetched: Fetched) -> None:
    plain, secure = fetched.results["http://h46.test/title"], fetched.results["https://expired.h42.test/"]
    assert isinstance(plain, Answer)
    assert isinstance(secure, Answer)
    assert (plain.times.tls, plain.is_verified, secure.is_verified) == (None, False, False)
    assert secure.times.tls is not None
    assert secure.times.first_byte is not None
    assert secure.times.total >= secure.times.tls + secure.times.first_byte


# Answers that are no pages.


async def play_missing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says 404, and then something else by the path."""
    path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
    writer.write(b"HTTP/1.0 404 Gone  Away\r\nContent-Type: image/png\r\n")
    writer.write(b"Content-Length: 9\r\n\r\n" if path in {"/whole", "/short", "/silent"} else b"\r\n")
    writer.write({"/whole": b"not there", "/short": b"not", "/silent": b"", "/reset": b"no"}.get(path, b"x"))
    with contextlib.suppress(ConnectionError):
        await writer.drain()
        while path in {"/endless", "/dribble"}:
            writer.write(b"x" * (65536 if path == "/endless" else 1))
            await writer.drain()
            await asyncio.sleep(0.05 * (path == "/dribble"))
        if path == "/silent":
            await reader.read()
    if path == "/reset":
        # What was written is to arrive before the reset does.
        await asyncio.sleep(0.05)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    writer.close()


def test_an_answer_that_is_no_page_is_kept_with_what_comes_of_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ("whole", "short", "reset", "endless", "silent", "dribble")
    clock = client_clock(monkeypatch)

    def is_slow(exchange: Exchange) -> bool:
        """All has come that comes before the time-out."""
        is_dribble = exchange.request.startswith(b"GET /dribble")
        return exchange.response.is_head_complete and exchange.response.body_bytes >= (2 if is_dribble else 0)

    async def main() -> dict[str, Answer | Failure]:
        server = await asyncio.start_server(play_missing, "127.0.0.1", 0)
        settings = FetchSettings(
            connect_to=f"127.0.0.1:{server.sockets[0].getsockname()[1]}",
            fetch_timeout_seconds=TIMEOUT_SECONDS,
            connect_timeout_seconds=TIMEOUT_SECONDS,
            header_timeout_seconds=TIMEOUT_SECONDS,
        )
        async with server, Client(settings, user_agent=USER_AGENT) as client:
            asking = [
                asyncio.ensure_future(get(client, f"http://a.test/{path}", max_body_bytes=10 * MIB)) for path in paths
            ]
            await asyncio.wait(asking[:-2])
            await until(lambda: all(map(is_slow, client._exchanges)))
            clock.advance(OTHER_BODY_SECONDS)
            results = await asyncio.gather(*asking)
        # The server's side of it all notices, and ends.
        await until(lambda: len(asyncio.all_tasks()) == 1)
        return dict(zip(paths, results, strict=True))

    results = asyncio.run(main())
    found = {
        path: (len(result.body), result.truncated)
        for path, result in results.items()
        if isinstance(result, Answer)
        if (result.status, result.status_line, result.is_declined) == (404, b"HTTP/1.0 404 Gone  Away", False)
    }
    dribbled, _ = found["dribble"]
    assert 1 < dribbled < MIB
    assert found == {
        "whole": (9, ""),
        "short": (3, "disconnect"),
        "silent": (0, "time"),
        "reset": (2, "disconnect"),
        "endless": (MIB, "length"),
        "dribble": (dribbled, "time"),
    }


# What is asked, and of whom.


def test_a_request_says_who_asks_and_nothing_of_anybody_else(tmp_path: Path) -> None:
    seen: list[tuple[str, str, dict[str, str]]] = []

    async def remember(connection: Connection) -> None:
        seen.append((connection.method, connection.target, dict(connection.headers)))
        connection.respond(200, [("Content-Type", "text/html"), ("Set-Cookie", "a=b")], b"page")

    async def main() -> list[Answer | Failure]:
        async with (
            SimulatedWeb(Web(sites=1, pages=1), hostile={"echo.test": remember}, log_directory=tmp_path) as web,
            Client(settings_for(web), user_agent=USER_AGENT) as client,
        ):
            return [
                await get(client, "http://user:secret@Echo.test/a%20b?c=%7C|d#fragment"),
                await get(client, "https://echo.test:8443/", media_types=None),
                await get(client, "http://echo.test/", media_types=frozenset({"image/*", "text/html"})),
                await get(client, "http://echo.test/", media_types=frozenset({"*/*"})),
            ]

    results = asyncio.run(main())
    assert [isinstance(result, Answer) and result.body for result in results] == [b"page"] * 4
    common = {"user-agent": USER_AGENT, "accept-encoding": "gzip, br, zstd", "connection": "close"}
    accept = "application/xhtml+xml,text/html,text/plain,*/*;q=0.1"
    assert seen == [
        ("GET", "/a%20b?c=%7C|d", {"host": "echo.test", "accept": accept} | common),
        ("GET", "/", {"host": "echo.test:8443", "accept": "*/*"} | common),
        ("GET", "/", {"host": "echo.test", "accept": "image/*,text/html,*/*;q=0.1"} | common),
        ("GET", "/", {"host": "echo.test", "accept": "*/*"} | common),
    ]


@pytest.mark.parametrize("host", [*PRIVATE_HOSTS, *SPELLINGS, "localhost", "any.localhost", "[fd00::1]:8080"])
def test_a_private_address_is_refused_before_any_rewriting(host: str) -> None:
    async def main() -> Answer | Failure:
        # Nobody listens there: a connection would be a failure of another kind.
        async with Client(FetchSettings(connect_to="127.0.0.1:1"), user_agent=USER_AGENT) as client:
            return await get(client, f"http://{host}/")

    result = asyncio.run(main())
    assert isinstance(result, Failure)
    assert (result.reason, result.was_sent) == (Reason.BLOCKED_ADDRESS, False)
    assert result.address in result.detail


@pytest.mark.parametrize("fetch_type", ["page", "robots"])
@pytest.mark.parametrize("host", ["a.test", "8.8.8.8", "[2400::1]", "localhost"])
def test_a_port_that_no_web_server_has_is_refused_before_any_rewriting(
    host: str, fetch_type: FetchType, tmp_path: Path
) -> None:
    async def play(web: SimulatedWeb) -> list[Answer | Failure]:
        settings = settings_for(web, allow_private_addresses=True)
        own = msgspec.structs.replace(settings, blocked_ports="8080")
        found = []
        for given, ports in ((settings, (6379, 22)), (own, (8080, 6379))):
            async with Client(given, user_agent=USER_AGENT) as client:
                for port in ports:
                    url = canonicalise(f"http://{host}:{port}/")
                    assert isinstance(url, Url)
                    found.append(await client.get(url, max_body_bytes=MIB, fetch_type=fetch_type))
        return found

    *refused, taken = run(play, tmp_path)
    assert isinstance(taken, Answer)
    for port, result in zip((6379, 22, 8080), refused, strict=True):
        assert isinstance(result, Failure)
        assert (result.reason, result.was_sent) == (Reason.BLOCKED_ADDRESS, False)
        assert result.detail == f"port {port} is one of blocked_ports"


def test_a_name_is_judged_by_what_it_resolves_to(tmp_path: Path) -> None:
    async def play(web: SimulatedWeb) -> tuple[dict[str, Reason | None], list[Answer | Failure]]:
        async with Resolver(public_address=PUBLIC_ADDRESS) as resolver:
            settings = settings_for(web, resolver=f"127.0.0.1:{resolver.port}")
            async with Client(settings, user_agent=USER_AGENT) as client:
                private = {word: await reason_of(client, f"http://{word}.h15.test/") for word in PRIVATE_ADDRESSES}
                mixed = [await get(client, f"http://{word}.h17.test/") for word in ("mixed", "two-families", "rebind")]
            async with Client(settings, user_agent=USER_AGENT) as client:
                return private, [*mixed, await get(client, "http://rebind.h17.test/")]

    private, results = run(play, tmp_path)
    assert set(private.values()) == {Reason.BLOCKED_ADDRESS}
    *reached, rebound = results
    # The connections went to the simulated web, in place of the address that was judged.
    assert [(isinstance(result, Answer), result.address) for result in reached] == [(True, PUBLIC_ADDRESS)] * 3
    assert isinstance(rebound, Failure)
    assert (rebound.reason, rebound.address, rebound.was_sent) == (Reason.BLOCKED_ADDRESS, "127.0.0.1", False)


def test_trouble_with_names_is_dns_trouble_and_was_no_request(tmp_path: Path) -> None:
    async def play(web: SimulatedWeb) -> dict[str, Answer | Failure]:
        async with Resolver(late_seconds=0.2) as resolver:
            settings = settings_for(web, resolver=f"127.0.0.1:{resolver.port}", allow_private_addresses=True)
            texts = [text for text in expectations() if text.endswith(".h19.test/")]
            async with Client(settings, user_agent=USER_AGENT) as client:
                asking = {text: asyncio.ensure_future(get(client, text)) for text in texts}
                await asyncio.wait([task for text, task in asking.items() if text != "http://stall.h19.test/"])
                advance_loop(TIMEOUT_SECONDS)
                results = dict(zip(texts, await asyncio.gather(*asking.values()), strict=True))
                return results | {"long label": await get(client, f"http://{'x' * 64}.test/")}

    results = run(play, tmp_path)
    answered = {text for text, result in results.items() if isinstance(result, Answer)}
    assert answered == {f"http://{word}.h19.test/" for word in ("late", "zero-ttl", "many", "chain")}
    failures = [result for result in results.values() if isinstance(result, Failure)]
    assert {(result.reason, result.was_sent) for result in failures} == {(Reason.DNS, False)}


def test_without_rewriting_the_resolved_address_and_the_port_of_the_url_are_connected_to(tmp_path: Path) -> None:
    """The first address refuses, so the next one is tried."""

    async def play(web: SimulatedWeb) -> list[Answer | Failure]:
        async with Resolver(public_address="127.0.0.2") as resolver:
            settings = settings_for(
                web, connect_to="", resolver=f"127.0.0.1:{resolver.port}", allow_private_addresses=True
            )
            async with Client(settings, user_agent=USER_AGENT) as client:
                return [
                    await get(client, f"http://{host}:{web.http_port}/")
                    for host in ("mixed.h17.test", "127.0.0.1", "refused.h37.test")
                ]

    mixed, literal, refused = run(play, tmp_path)
    assert (isinstance(mixed, Answer), mixed.address) == (True, "127.0.0.1")
    assert (isinstance(literal, Answer), literal.address) == (True, "127.0.0.1")
    assert isinstance(refused, Failure)
    assert (refused.reason, refused.address, refused.was_sent) == (Reason.CONNECT, "127.0.0.2", True)


def test_the_own_store_is_never_connected_to(tmp_path: Path) -> None:
    async def play(web: SimulatedWeb) -> list[Reason | None]:
        settings = settings_for(web, connect_to="", allow_private_addresses=True)
        own = frozenset({("127.0.0.1", web.http_port)})
        async with Client(settings, user_agent=USER_AGENT, forbidden_endpoints=own) as client:
            hosts = ("127.0.0.1", "0.0.0.0", "localhost", "[::ffff:127.0.0.1]")
            return [await reason_of(client, f"http://{host}:{web.http_port}/") for host in hosts]

    assert run(play, tmp_path) == [Reason.BLOCKED_ADDRESS] * 4


# TLS.


def test_with_verification_only_a_good_certificate_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(web: SimulatedWeb) -> tuple[Answer | Failure, dict[str, Reason | None]]:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.ca_certificate))
        async with Client(settings_for(web, verify_tls=True), user_agent=USER_AGENT) as client:
            bad = [text for text in expectations() if row(text) == 42]
            return await get(client, "https://h13.test/landed"), {text: await reason_of(client, text) for text in bad}

    good, bad = run(play, tmp_path)
    assert isinstance(good, Answer)
    assert (good.status, good.is_verified) == (200, True)
    assert len(bad) == 5
    assert set(bad.values()) == {Reason.TLS}


def test_a_server_that_does_not_speak_tls_is_a_tls_failure() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def main() -> list[Reason | None]:
        reasons = []
        for behaviour in (answer, hang_up):
            server = await asyncio.start_server(behaviour, "127.0.0.1", 0)
            settings = FetchSettings(connect_to=f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            async with server, Client(settings, user_agent=USER_AGENT) as client:
                reasons.append(await reason_of(client, "https://a.test/"))
            await asyncio.sleep(0.05)
        return reasons

    plain, closed = asyncio.run(main())
    assert plain is Reason.TLS
    # A connection that is closed with bytes unread is reset.
    assert closed in {Reason.TLS, Reason.RESET}


# Our own limits.


def test_running_out_of_descriptors_is_our_shortage_and_no_request(tmp_path: Path) -> None:
    async def play(web: SimulatedWeb) -> tuple[Answer | Failure, Answer | Failure]:
        async with Client(settings_for(web), user_agent=USER_AGENT) as client:
            await get(client, "http://h13.test/landed")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            # The lowest free number is the one that a new descriptor would get.
            lowest_free = os.open("/dev/null", os.O_RDONLY)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            try:
                starved = await get(client, "http://h13.test/landed")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            return starved, await get(client, "http://h13.test/landed")

    starved, after = run(play, tmp_path)
    assert isinstance(starved, Failure)
    assert (starved.reason, starved.was_sent) == (Reason.OUR_SHORTAGE, False)
    assert isinstance(after, Answer)


def test_a_connection_that_is_never_accepted_is_given_up() -> None:
    async def main(port: int) -> Answer | Failure:
        settings = FetchSettings(connect_to=f"127.0.0.1:{port}", connect_timeout_seconds=0.2)
        async with Client(settings, user_agent=USER_AGENT) as client:
            return await get(client, "http://a.test/")

    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listening.getsockname()[1]
        # With its queue full, the kernel leaves further requests unanswered.
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        result = asyncio.run(main(port))
    assert isinstance(result, Failure)
    assert (result.reason, result.was_sent, result.times.connect) == (Reason.TIMEOUT, True, None)


@pytest.mark.parametrize(
    "text",
    [
        "http://h43.test/silence",
        "https://h43.test/silence?tls",
        "https://stall.h43.test/",
        "http://h02.test/body",
        "http://h01.test/no-length",
        "http://stall.h19.test/",
    ],
)
def test_a_request_that_is_cancelled_leaves_nothing_open(tmp_path: Path, text: str) -> None:
    async def play(web: SimulatedWeb) -> tuple[int, int]:
        async with Resolver(public_address=PUBLIC_ADDRESS) as resolver:
            # Only the stalling name is asked for: the others go straight to the simulated web.
            changes = {"resolver": f"127.0.0.1:{resolver.port}"} if "h19" in text else {}
            async with Client(settings_for(web, **changes), user_agent=USER_AGENT) as client:
                await get(client, "http://127.0.0.1/")
                before = descriptors()
                asking = asyncio.ensure_future(get(client, text, max_body_bytes=1 << 40))
                await asyncio.sleep(0.1)
                assert not asking.done()
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
                assert not client._exchanges or "h19" not in text
            return before, await descriptors_after(before)

    before, after = run(play, tmp_path)
    assert after <= before


def test_leaving_the_client_ends_what_is_open(tmp_path: Path) -> None:
    async def play(web: SimulatedWeb) -> tuple[int, list[bool]]:
        async with Client(settings_for(web), user_agent=USER_AGENT) as client:
            asking = [
                asyncio.ensure_future(get(client, f"{scheme}://h43.test/silence?tls")) for scheme in ("http", "https")
            ]
            await asyncio.sleep(0.1)
        results = await asyncio.gather(*asking)
        return len(client._exchanges), [isinstance(result, Failure) for result in results]

    assert run(play, tmp_path) == (0, [True, True])


def test_a_request_ends_with_its_visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = client_clock(monkeypatch)

    async def play(web: SimulatedWeb) -> list[Answer | Failure]:
        async with Client(settings_for(web), user_agent=USER_AGENT) as client:
            silent = url("http://h43.test/silence")
            ends_at = clock.monotonic() + 300.0
            asking = asyncio.ensure_future(client.get(silent, max_body_bytes=MIB, ends_at=ends_at))
            await until(lambda: any(exchange.connected_at for exchange in client._exchanges))
            clock.advance(301.0)
            return [await asking, await client.get(silent, max_body_bytes=MIB, ends_at=ends_at)]

    ended, late = run(play, tmp_path)
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.was_sent) == (Reason.TIMEOUT, True)
    assert isinstance(late, Failure)
    assert (late.reason, late.detail, late.was_sent) == (Reason.TIMEOUT, "no time was left to connect", False)


class TwoAddresses(Client):
    """All names have two addresses."""

    async def resolve(self, url: Url) -> Resolution:  # noqa: ARG002
        return Resolution(("127.0.0.2", "127.0.0.1"))


def test_every_address_of_a_name_needs_a_turn_before_it_is_tried() -> None:
    """Nothing listens at the first, and the second has no turn."""
    asked: list[str] = []
    connected: list[str] = []

    def has_turn(address: str) -> bool:
        asked.append(address)
        return len(asked) < 2

    def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append("127.0.0.1")
        writer.close()

    async def play() -> Answer | Failure:
        server = await asyncio.start_server(note, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = FetchSettings(allow_private_addresses=True)
        async with server, TwoAddresses(settings, user_agent=USER_AGENT) as client:
            return await client.get(url(f"http://two.test:{port}/"), max_body_bytes=MIB, may_connect=has_turn)

    result = asyncio.run(play())
    assert asked == ["127.0.0.2", "127.0.0.1"]
    assert isinstance(result, Failure)
    assert (result.reason, result.address, connected) == (Reason.CONNECT, "127.0.0.2", [])


def test_a_server_is_not_connected_to_without_a_turn_at_its_address(tmp_path: Path) -> None:
    asked: list[str] = []

    def refuse(address: str) -> bool:
        asked.append(address)
        return False

    async def play(web: SimulatedWeb) -> list[Answer | Failure]:
        found = []
        async with Resolver(public_address=PUBLIC_ADDRESS) as resolver:
            for changes, text in (
                ({"resolver": f"127.0.0.1:{resolver.port}"}, "http://mixed.h17.test/"),
                ({}, f"http://{PUBLIC_ADDRESS}/"),
                ({}, "http://[2a00:1450:4001::1]/"),
                # Its own address is not known: there is nothing to ask about.
                ({}, "http://s0.test/"),
            ):
                async with Client(settings_for(web, **changes), user_agent=USER_AGENT) as client:
                    found.append(await client.get(url(text), max_body_bytes=MIB, may_connect=refuse))
            assert web.answered.total() == 1
        return found

    *refused, answered = run(play, tmp_path)
    assert asked == [PUBLIC_ADDRESS, PUBLIC_ADDRESS, "2a00:1450:4001::1"]
    assert [(result.reason, result.was_sent) for result in refused if isinstance(result, Failure)] == [
        (Reason.SERVER_ADDRESS, False)
    ] * 3
    assert isinstance(answered, Answer)
