"""The simulated web over real sockets: read by curl, by raw requests, in one process and in several."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from gossamer.errors import UsageError
from gossamer.testing.web.access_log import Request, read
from gossamer.testing.web.graph import Web
from gossamer.testing.web.pages import Pages
from gossamer.testing.web.policies import Policy, everywhere
from gossamer.testing.web.processes import WebProcesses
from gossamer.testing.web.server import Connection, SimulatedWeb, bound_socket
from gossamer.testing.web.sites import Kind

WEB = Web(
    seed=2, sites=6, pages=12, https_share=0.5, robots=everywhere(Policy.OPEN), median_bytes=20_000, busy_share=0.2
)
HTTP_SITE = next(index for index in range(6) if WEB.home(index).startswith("http:"))
HTTPS_SITE = next(index for index in range(6) if WEB.home(index).startswith("https:"))


@pytest.fixture
def curl() -> str:
    found = shutil.which("curl")
    if found is None:
        reason = "there is no curl on this machine"
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(f"{reason} (with CI set this is a failure)")
        pytest.skip(reason)
    return found


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def request(url: str, *headers: str, method: str = "GET") -> bytes:
    host, slash, target = url.partition("://")[2].partition("/")
    return "\r\n".join([f"{method} {slash}{target} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


async def answer(reader: asyncio.StreamReader, *, has_body: bool = True) -> tuple[int, str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = int(head.lower().partition("content-length: ")[2].partition("\r")[0] or 0)
    return int(head.split()[1]), head, await reader.readexactly(length) if has_body else b""


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 (what is waited for knows of no event)
        await asyncio.sleep(0.01)


def served(test: Callable[[SimulatedWeb], Awaitable[None]], directory: Path, **options: object) -> list[Request]:
    """Runs a test against a server in this process; what was written down."""

    async def run() -> None:
        async with SimulatedWeb(WEB, log_directory=directory, **options) as simulated:  # type: ignore[arg-type]
            await test(simulated)

    asyncio.run(run())
    return list(read(directory.glob("access-*.log")))


@pytest.mark.parametrize("index", [HTTP_SITE, HTTPS_SITE])
@pytest.mark.parametrize("accepted", ["", "gzip", "br"])
def test_curl_gets_the_page_that_the_graph_promises(curl: str, tmp_path: Path, index: int, accepted: str) -> None:
    url = WEB.site(index).url(1)
    with WebProcesses(WEB, log_directory=tmp_path) as running:
        ran = subprocess.run(
            [
                *(curl, "--silent", "--show-error", "--fail", "--cacert", str(running.ca_certificate)),
                *("--connect-to", f":80:127.0.0.1:{running.http_port}"),
                *("--connect-to", f":443:127.0.0.1:{running.https_port}"),
                *(("--compressed", "--header", f"Accept-Encoding: {accepted}") if accepted else ()),
                url,
            ],
            capture_output=True,
            check=False,
        )
    if accepted == "br" and b"Unrecognized content encoding" in ran.stderr:
        pytest.skip("this curl has no brotli")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == Pages(WEB).page(WEB.site(index), 1, {})[1]
    (logged,) = read(running.log_files)
    assert (logged.status, logged.aborted, logged.user_agent.split("/")[0]) == (200, False, "curl")
    assert f"{logged.scheme}://{logged.host}{logged.path}" == url


def test_one_connection_carries_many_requests_even_if_sent_ahead(tmp_path: Path) -> None:
    urls = [WEB.site(HTTP_SITE).url(number) for number in range(3)] * 40

    async def test(simulated: SimulatedWeb) -> None:
        async with connection(simulated.http_port) as (reader, writer):
            writer.write(b"".join(request(url) for url in urls))
            for url in urls:
                status, _, body = await answer(reader)
                assert (status, body[-8:]) == (200, b"</html>\n")
                assert f"of {url.split('/')[2]}".encode() in body

    log = served(test, tmp_path)
    assert [one.path for one in log] == ["/" + url.split("/", 3)[3] for url in urls]
    assert all(before.ended_at_ns <= after.ended_at_ns for before, after in pairwise(log))
    assert len({one.client_port for one in log}) == 1


def test_a_connection_is_closed_when_either_side_says_so(tmp_path: Path) -> None:
    async def ask(port: int, *headers: str) -> bytes:
        async with connection(port) as (reader, writer):
            writer.write(request(WEB.home(HTTP_SITE), *headers))
            return await reader.read()

    async def by_client(simulated: SimulatedWeb) -> None:
        assert b"Connection: close\r\n" in await ask(simulated.http_port, "Connection: close")

    async def by_server(simulated: SimulatedWeb) -> None:
        assert b"Connection: close\r\n" in await ask(simulated.http_port)

    assert len(served(by_client, tmp_path / "a")) == 1
    assert len(served(by_server, tmp_path / "b", keep_alive=False)) == 1


def test_head_has_the_length_and_not_the_body_and_304_has_neither(tmp_path: Path) -> None:
    async def test(simulated: SimulatedWeb) -> None:
        async with connection(simulated.http_port) as (reader, writer):
            writer.write(request(WEB.home(HTTP_SITE)))
            _, full, body = await answer(reader)
            writer.write(request(WEB.home(HTTP_SITE), method="HEAD"))
            status, head, _ = await answer(reader, has_body=False)
            assert (status, f"Content-Length: {len(body)}\r\n" in head) == (200, True)
            tag = full.partition("ETag: ")[2].partition("\r")[0]
            writer.write(request(WEB.home(HTTP_SITE), f"If-None-Match: {tag}"))
            status, head, _ = await answer(reader)
            assert (status, "Content-Length" in head) == (304, False)

    assert [(one.status, one.body_bytes > 0) for one in served(test, tmp_path)] == [
        (200, True),
        (200, False),
        (304, False),
    ]


def test_every_kind_of_answer_is_what_the_graph_says(tmp_path: Path) -> None:
    site = WEB.site(HTTP_SITE)
    urls = [site.url(number) for number in range(site.resources)]
    urls += [
        f"http://{site.name}/robots.txt",
        f"http://{site.name}/nothing",
        WEB.home(HTTPS_SITE).replace("https", "http"),
    ]
    urls += ["http://elsewhere.example/"]

    async def test(simulated: SimulatedWeb) -> None:
        async with connection(simulated.http_port) as (reader, writer):
            for url in urls:
                known = WEB.answer(url)
                writer.write(request(url))
                status, head, _ = await answer(reader)
                assert status == known.status, url
                assert head.partition("Location: ")[2].partition("\r")[0] == (known.location or "")
                assert ("Retry-After: " in head) == (known.kind is Kind.BUSY)
                if known.kind is Kind.BUSY:
                    writer.write(request(url))
                    assert (await answer(reader))[0] == 200

    assert len(served(test, tmp_path)) > len(urls)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\nHost: s0.test\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: s0.test\r\n\r\n", 400),
        (b"GET /" + b"a" * 70_000, 431),
        (b"POST / HTTP/1.1\r\nHost: s0.test\r\nContent-Length: 5\r\n\r\nhello", 405),
    ],
)
def test_nonsense_is_refused_and_the_connection_closed(tmp_path: Path, sent: bytes, status: int) -> None:
    async def test(simulated: SimulatedWeb) -> None:
        async with connection(simulated.http_port) as (reader, writer):
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                assert (await answer(reader))[0] == status
                assert await reader.read() in {b"", b"HTTP/1.1 400 Bad Request\r\n"}

    served(test, tmp_path)


def test_a_client_that_does_not_read_holds_up_nobody_and_is_written_down_as_cut_off(tmp_path: Path) -> None:
    large = msgspec.structs.replace(WEB, median_bytes=900_000, size_sigma=0.01)

    async def run() -> None:
        async with SimulatedWeb(large, log_directory=tmp_path) as simulated:
            idle = socket.socket()
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            idle.connect(("127.0.0.1", simulated.http_port))
            idle.sendall(request(large.home(HTTP_SITE), "User-Agent: idle"))
            async with connection(simulated.http_port) as (reader, writer):
                writer.write(request(large.home(HTTP_SITE), "User-Agent: eager"))
                assert (await answer(reader))[0] == 200
            idle.close()
            await until(lambda: sum(simulated.answered.values()) == 2)

    asyncio.run(run())
    log = {one.user_agent: one for one in read([tmp_path / "access-0.log"])}
    assert not log["eager"].aborted
    assert log["idle"].aborted
    assert log["eager"].body_bytes > 800_000


def test_latency_delays_one_connection(tmp_path: Path) -> None:
    slow = msgspec.structs.replace(WEB, latency_median_seconds=0.05, latency_sigma=0.0001)

    async def run() -> None:
        async with (
            SimulatedWeb(slow, log_directory=tmp_path) as simulated,
            connection(simulated.http_port) as (reader, writer),
        ):
            writer.write(request(slow.home(HTTP_SITE)))
            assert (await answer(reader))[0] == 200

    asyncio.run(run())
    (only,) = read([tmp_path / "access-0.log"])
    assert (only.status, only.aborted) == (200, False)
    assert only.ended_at_ns - only.started_at_ns > 0.04e9


def test_a_client_that_leaves_before_its_answer_is_cut_off(tmp_path: Path) -> None:
    slow = msgspec.structs.replace(WEB, latency_median_seconds=600)

    async def run() -> None:
        async with SimulatedWeb(slow, log_directory=tmp_path) as simulated:
            async with connection(simulated.http_port) as (_, writer):
                writer.write(request(slow.home(HTTP_SITE)))
            await until(lambda: sum(simulated.answered.values()) == 1)

    asyncio.run(run())
    (only,) = read([tmp_path / "access-0.log"])
    assert (only.scheme, only.status, only.aborted) == ("http", 0, True)


def test_a_client_that_says_goodbye_over_tls_before_its_answer_is_cut_off(tmp_path: Path) -> None:
    slow = msgspec.structs.replace(WEB, latency_median_seconds=600)

    async def run() -> None:
        async with SimulatedWeb(slow, log_directory=tmp_path) as simulated:
            trusting = ssl.create_default_context(cafile=str(simulated.ca_certificate))
            host = slow.home(HTTPS_SITE).partition("://")[2].rstrip("/")
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", simulated.https_port, ssl=trusting, server_hostname=host
            )
            writer.write(request(slow.home(HTTPS_SITE)))
            writer.close()
            await until(lambda: sum(simulated.answered.values()) == 1)
            assert await reader.read() == b""

    asyncio.run(run())
    (only,) = read([tmp_path / "access-0.log"])
    assert (only.scheme, only.status, only.aborted) == ("https", 0, True)


def test_a_log_directory_is_of_one_run(tmp_path: Path) -> None:
    async def test(simulated: SimulatedWeb) -> None:
        async with connection(simulated.http_port) as (reader, writer):
            writer.write(request(WEB.home(HTTP_SITE)))
            assert (await answer(reader))[0] == 200

    (tmp_path / "access-1.log").write_text("of an earlier run")
    assert len(served(test, tmp_path)) == 1
    assert len(served(test, tmp_path)) == 1


def test_a_behaviour_plays_its_site_and_ends_when_the_client_leaves(tmp_path: Path) -> None:
    ended = []

    async def endless(connection: Connection) -> None:
        try:
            connection.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not connection.is_closing:
                connection.write(b"x" * 10_000)
                await connection.drain()
        finally:
            ended.append(connection.target)

    async def polite(connection: Connection) -> None:
        connection.respond(418, [("X-Host", connection.host)], b"tea")

    async def rude(connection: Connection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await asyncio.sleep(0.02)
        connection.abort()

    async def test(simulated: SimulatedWeb) -> None:
        async with connection(simulated.http_port) as (reader, writer):
            for _ in range(2):
                writer.write(request("http://sub.polite.test/"))
                status, head, body = await answer(reader)
                assert (status, "X-Host: sub.polite.test" in head, body) == (418, True, b"tea")
            writer.write(request("http://endless.test/for-ever"))
            await reader.readexactly(1_000_000)
        await until(lambda: bool(ended))
        async with connection(simulated.http_port) as (reader, writer):
            writer.write(request("http://rude.test/"))
            with pytest.raises(ConnectionResetError):
                await reader.read(-1)

    hostile = {"endless.test": endless, "polite.test": polite, "rude.test": rude}
    log = served(test, tmp_path, hostile=hostile)
    assert ended == ["/for-ever"]
    assert [(one.status, one.aborted) for one in log] == [(418, False), (418, False), (200, True), (200, True)]
    assert log[2].body_bytes >= 1_000_000


def test_any_name_has_a_certificate_and_a_hostile_one_shows_its_own(tmp_path: Path) -> None:
    async def handshake(simulated: SimulatedWeb, name: str) -> str:
        trust = ssl.create_default_context(cafile=simulated.ca_certificate)
        opening = asyncio.open_connection("127.0.0.1", simulated.https_port, ssl=trust, server_hostname=name)
        _, writer = await asyncio.wait_for(opening, 60 if name != "silent.test" else 0.1)
        writer.close()
        return "good"

    async def test(simulated: SimulatedWeb) -> None:
        for name in ("s0.test", "www.s5.test", "a.b.c.h01.test", "localhost"):
            assert await handshake(simulated, name) == "good"
        with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
            await handshake(simulated, "forged.test")
        with pytest.raises(TimeoutError):
            await handshake(simulated, "silent.test")

    served(
        test,
        tmp_path,
        tls_hostile={
            "forged.test": lambda authority: authority.context(authority.leaf(["forged.test"], self_signed=True)),
            "silent.test": lambda _: None,
        },
    )


def test_several_processes_share_the_ports_and_each_writes_its_own_log(tmp_path: Path) -> None:
    async def ask(port: int) -> None:
        async with connection(port) as (reader, writer):
            writer.write(request(WEB.home(HTTP_SITE)))
            assert (await answer(reader))[0] == 200

    async def ask_often(port: int) -> None:
        await asyncio.gather(*(ask(port) for _ in range(40)))

    with WebProcesses(WEB, log_directory=tmp_path, processes=2) as running:
        asyncio.run(ask_often(running.http_port))
        pids = running.pids
    assert len(list(read(running.log_files))) == 40
    assert all(list(read([file])) for file in running.log_files)
    assert sum(totals.answered[200] for totals in running.totals) == 40
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert msgspec.json.decode((tmp_path / "web.json").read_bytes(), type=Web) == WEB


def test_server_processes_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from gossamer.testing.web.graph import Web\n"
        "from gossamer.testing.web.processes import WebProcesses\n"
        "with WebProcesses(Web(sites=1), log_directory=pathlib.Path(sys.argv[1]), https=False) as running:\n"
        "    print(running.http_port, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        parent.kill()

    async def port_is_free() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(UsageError), bound_socket(port, shared=False):
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"something still listens on port {port}")

    asyncio.run(port_is_free())


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with bound_socket(0, shared=True) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        for processes in (1, 2):
            with (
                pytest.raises(UsageError, match=f"port {port} .*in use"),
                WebProcesses(WEB, log_directory=tmp_path, http_port=port, processes=processes),
            ):
                pass


def test_the_command_says_where_it_listens_and_in_the_end_what_it_served(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gossamer", "simweb", "--sites", "3", "--pages", "5", "--json"]
    command += ["--log-directory", str(tmp_path / "log"), "--seeds", str(tmp_path / "seeds"), "--resolver-port", "0"]
    with subprocess.Popen([*command, "--hostile"], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            facts = json.loads(running.stdout.readline())
            seeds = (tmp_path / "seeds").read_text().split()
            assert seeds[:3] == Web(sites=3, pages=5).seeds()
            assert len(seeds) > 20

            async def ask() -> None:
                async with connection(facts["http_port"]) as (reader, writer):
                    writer.write(request(seeds[0]))
                    assert (await answer(reader))[0] == 200

            asyncio.run(ask())
        finally:
            running.send_signal(signal.SIGTERM)
            said = json.loads(running.stdout.read())
            assert running.wait(60) == 0
    assert (said["requests"], said["by_status"]) == (1, {"200": 1})
    assert len(list(read(map(Path, facts["log_files"])))) == 1
    assert facts["resolver_port"] > 0
