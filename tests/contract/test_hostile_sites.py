"""Every row of the hostile table that is played now really does what the table says: shown with bare sockets.

One server plays them all, in a thread with an event loop of its own; what it calls slow is a twentieth of a second.
"""

import asyncio
import gzip
import re
import socket
import ssl
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import pytest
import zstandard

from gossamer.fetch.robots import Access, access_for, parse
from gossamer.parse.decode import decode_body
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile import bodies as hostile_bodies
from gossamer.testing.web.hostile import crowds
from gossamer.testing.web.hostile import heads as hostile_heads
from gossamer.testing.web.hostile import links as hostile_links
from gossamer.testing.web.hostile import pages as hostile_pages
from gossamer.testing.web.hostile import redirects as hostile_redirects
from gossamer.testing.web.hostile.catalogue import (
    MEANINGS,
    document,
    expectations,
    hostile_seeds,
    hostile_sites,
    link_expectations,
    outcomes,
    played,
    tls_hosts,
)
from gossamer.testing.web.hostile.row import Player
from gossamer.testing.web.hostile.site import Expected, Pace
from gossamer.testing.web.hostile.table import ROWS
from gossamer.testing.web.resolver import special_names
from gossamer.testing.web.server import SimulatedWeb
from gossamer.url import Refusal, Url, canonicalise

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
#: What a crawler decodes by default.
CAP_BYTES = 10 * MIB
#: Of the open web by their own number; the address inside is loopback.
CARRIERS = {ip_address("64:ff9b::7f00:1"), ip_address("2002:7f00:1::"), ip_address("::7f00:1")}
PACE = Pace(tick_seconds=0.05, longest_seconds=600)
#: For whatever comes at once, on a machine that is busy.
PATIENCE_SECONDS = 60.0
#: Nothing has come for so long: it is silent. A machine that is busy makes this no shorter.
SILENCE_SECONDS = 0.3

#: By row: the tests that show it.
SHOWN: dict[int, list[str]] = {
    # What only DNS plays is shown in test_resolver.py.
    15: ["test_names_lead_to_private_addresses"],
    17: ["test_a_name_rebinds_from_public_to_private", "test_public_and_private_come_together"],
    18: ["test_a_farm_has_every_name_on_one_address"],
    19: [
        "test_a_name_that_stalls_is_never_answered_and_holds_up_nobody",
        "test_a_late_answer_comes_late",
        "test_failures_have_their_codes",
        "test_a_garbled_answer_is_cut_inside_a_record",
        "test_a_zero_time_to_live_is_zero",
        "test_a_hundred_addresses_are_cut_over_plain_udp_and_whole_over_edns_and_tcp",
        "test_alias_loops_have_no_end_and_no_address",
        "test_an_alias_chain_ends_at_an_address",
    ],
    # What the store's own server does is shown by the nemesis.
    53: ["test_nothing_is_lost_when_the_store_stands_still_under_large_bodies"],
}

Test = TypeVar("Test", bound=Callable[..., None])


def row(*numbers: int) -> Callable[[Test], Test]:
    def note(test: Test) -> Test:
        for number in numbers:
            SHOWN.setdefault(number, []).append(test.__name__)
        return test

    return note


class Served(NamedTuple):
    """A running server, seen from outside."""

    http_port: int
    https_port: int
    authority: Path


class Answer(NamedTuple):
    """What came over the wire, and how it ended: `end`, `reset`, `limit` (we left) or `silent` (nothing more came)."""

    data: bytes
    ended: str
    pieces: int

    @property
    def head(self) -> str:
        return self.data.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def status(self) -> int:
        return int(self.head.split(" ", 2)[1][:3])

    def values(self, name: str) -> list[str]:
        lines = self.head.split("\r\n")[1:]
        return [value.strip() for key, _, value in (line.partition(":") for line in lines) if key.lower() == name]

    def value(self, name: str) -> str:
        (value,) = self.values(name)
        return value


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    started, found, stop = threading.Event(), list[Served](), list[Callable[[], object]]()

    async def serve() -> None:
        web = SimulatedWeb(
            Web(sites=2, pages=2),
            hostile=hostile_sites(PACE),
            tls_hostile=tls_hosts(),
            log_directory=tmp_path_factory.mktemp("hostile"),
        )
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(stopped.set))
        async with web:
            found.append(Served(web.http_port, web.https_port, web.ca_certificate))
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(PATIENCE_SECONDS)
        yield found[0]
    finally:
        for call in stop:
            call()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def connect(served: Served, scheme: str, host: str) -> socket.socket:
    plain = connected(served.https_port if scheme == "https" else served.http_port)
    if scheme == "http":
        return plain
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return secured(plain, context, host)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def secured(plain: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def get(
    served: Served, url: str, *, limit: int = 4 * MIB, seconds: float = PATIENCE_SECONDS, cookie: str = ""
) -> Answer:
    """Asks for `url` as it is written and reads until the end, `limit` bytes, or nothing comes for `seconds`."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    extra = f"Cookie: {cookie}\r\n" if cookie else ""
    with connect(served, scheme, host) as client:
        client.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n".encode("latin-1"))
        client.settimeout(seconds)
        return receive(client, limit)


def receive(client: socket.socket, limit: int, *, kept: int | None = None) -> Answer:
    """Of more than `kept` bytes only the beginning is kept."""
    data, count, pieces, ended = list[bytes](), 0, 0, "limit"
    try:
        while count < limit:
            piece = client.recv(256 * 1024)
            if not piece:
                ended = "end"
                break
            if kept is None or count < kept:
                data.append(piece)
            count, pieces = count + len(piece), pieces + 1
    except ConnectionResetError:
        ended = "reset"
    except TimeoutError:
        ended = "silent"
    return Answer(b"".join(data), ended, pieces)


class Anchors(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs += [value or "" for name, value in attrs if tag == "a" and name == "href"]


def hrefs(answer: Answer) -> list[str]:
    return Anchors(answer.body.decode()).hrefs


def canonical(reference: str, base: str) -> Url:
    found = canonicalise(base)
    assert isinstance(found, Url)
    url = canonicalise(reference, found)
    assert isinstance(url, Url), (reference, url)
    return url


def verdict(reference: str, base: str) -> Expected:
    """What becomes of a link before anything is connected to."""
    found = canonicalise(base)
    assert isinstance(found, Url)
    url = canonicalise(reference, found)
    return Expected(f"dropped:{url.reason}") if isinstance(url, Refusal) else Expected.DONE


def urls(number: int) -> dict[str, tuple[Expected, ...]]:
    return {url: words for url, words in expectations().items() if f"h{number:02}" in urlsplit(url).netloc}


# The table.


def test_the_table_has_all_rows_in_order() -> None:
    assert [found.number for found in ROWS] == list(range(1, 64))
    assert len({found.hazard for found in ROWS}) == 63
    assert [found.number for found in ROWS if found.later] == [18, 30, 49]


def test_every_row_of_now_has_a_player_and_a_test() -> None:
    now = [found for found in ROWS if not found.later]
    elsewhere = {Player.PURE, Player.STORE}
    assert [found.number for found in now if found.player not in elsewhere and found.number not in played()] == []
    assert [found.number for found in now if not SHOWN.get(found.number)] == []
    files = ("contract/test_resolver.py", "crawl/test_nemesis.py", f"contract/{Path(__file__).name}")
    tests = "".join((ROOT / "tests" / name).read_text("utf-8") for name in files)
    assert [name for names in SHOWN.values() for name in names if f"def {name}(" not in tests] == []


def test_every_row_says_which_outcomes_are_right() -> None:
    assert [found.number for found in ROWS if not outcomes(found, played().get(found.number, {}))] == []
    assert set(MEANINGS) == set(Expected)
    used = {word for found in ROWS for word in outcomes(found, played().get(found.number, {}))}
    assert used == set(Expected)


def test_the_page_about_the_table_is_current() -> None:
    """What `document()` gives is written there, to the letter."""
    assert (ROOT / "docs" / "hostile.md").read_text("utf-8") == document()


def test_every_url_of_the_table_is_found_from_the_home_page_of_its_site(served: Served) -> None:
    """Or of its host; where the hazard is the home page, it is a seed itself."""
    found = set(hostile_seeds())
    for seed in hostile_seeds():
        answer = get(served, seed)
        if answer.status == 200:
            found |= {canonical(href, seed).text for href in hrefs(answer)}
    for url in list(found):
        # One page further, on the hosts whose home page has the links.
        if urlsplit(url).path == "/" and url.startswith("http://") and not url.endswith((".h19.test/", ".h17.test/")):
            found |= {canonical(href, url).text for href in hrefs(get(served, url, limit=MIB))}
    for url in [url for url in found if url.startswith("http://h12.test/")]:
        found |= set(follow(served, url, hostile_redirects.HOPS))
    wanted = {canonical(url, url).text for url in expectations()}
    assert wanted - found == set()


def test_every_url_of_the_table_is_played(served: Served) -> None:
    """Each answers with something of its own, unless it is the silence that is played, or the end of a connection."""
    nothing = [
        url
        for url in expectations()
        if "stall.h43" not in url and "tls10" not in url
        for answer in [get(served, url, limit=1, seconds=SILENCE_SECONDS if "/silence" in url else PATIENCE_SECONDS)]
        if not answer.data or answer.data.startswith(b"HTTP/1.1 404")
    ]
    assert {urlsplit(url).netloc + urlsplit(url).path for url in nothing} == {
        *("h43.test/silence", "h44.test/reset-at-once", "h44.test/end-at-once")
    }


def test_robots_txt_stands_in_nobodys_way_where_it_is_not_the_hazard(served: Served) -> None:
    hosts = {urlsplit(url).netloc for url in (*expectations(), *hostile_seeds()) if url.startswith("http:")}
    hazards = ("h37.test", "h38.test", "h38-long.test", "h39.test", "h40.test", "h40-rules.test", "h50.test")
    crowd = re.compile(r"h54-|h55\.|h56-|h58-|greedy\.h61-delay\.")
    others = {host for host in hosts if not host.endswith((*hazards, "closed.h13.test")) and not crowd.search(host)}
    assert len(others) > 80
    statuses = {host: get(served, f"http://{host}/robots.txt").status for host in others}
    assert {host for host, status in statuses.items() if access_for(status) is not Access.ALLOW_ALL} == set()


# Bodies.


@row(1)
def test_an_endless_body_goes_on_past_every_cap(served: Served) -> None:
    plain = get(served, "http://h01.test/no-length", limit=12 * MIB)
    assert (plain.status, plain.ended, plain.values("content-length")) == (200, "limit", [])
    assert len(plain.body) > CAP_BYTES
    chunked = get(served, "http://h01.test/chunked", limit=12 * MIB)
    assert chunked.ended == "limit"
    assert chunked.value("transfer-encoding") == "chunked"
    body, chunks = chunked.body, 0
    while chunks < 20:
        size, _, body = body.partition(b"\r\n")
        assert body[int(size, 16) :][:2] == b"\r\n"
        body, chunks = body[int(size, 16) + 2 :], chunks + 1


@row(2)
def test_a_dribble_dribbles(served: Served) -> None:
    def pieces(path: str) -> list[bytes]:
        with connect(served, "http", "h02.test") as client:
            client.sendall(f"GET /{path} HTTP/1.1\r\nHost: h02.test\r\n\r\n".encode())
            found = [client.recv(4096) for _ in range(9)]
        # One byte each, or more where this machine had other things to do.
        assert [piece for piece in found[1:] if not 0 < len(piece) < 1000] == []
        return found

    assert pieces("body")[0].startswith(b"HTTP/1.1 200 OK\r\n")
    head = b"".join(pieces("head"))
    assert head.startswith(b"HTTP/1.1")
    assert b"\r\n\r\n" not in head
    assert b"".join(pieces("chunks")).partition(b"\r\n\r\n")[2].startswith(b"1\r\nx\r\n")


@row(4)
def test_a_gzip_bomb_inflates_to_the_last_of_its_256_mebibytes(served: Served) -> None:
    answer = get(served, "http://h04.test/zeros")
    assert (answer.ended, len(answer.body)) == ("end", int(answer.value("content-length")))
    assert len(answer.body) < MIB
    stream, inflated, data = zlib.decompressobj(31), 0, answer.body
    while data:
        inflated += len(stream.decompress(data, MIB))
        data = stream.unconsumed_tail
    # With its checksum: a reader that goes all the way is not told that anything is wrong.
    assert (stream.eof, inflated) == (True, hostile_bodies.BOMB_BYTES)
    members = get(served, "http://h04.test/members").body
    assert members.count(b"\x1f\x8b\x08") == hostile_bodies.MANY_MEMBERS
    assert gzip.decompress(members[:2000]) == b""


@row(5)
def test_bombs_of_other_codings_inflate_past_the_cap_from_a_few_kilobytes(served: Served) -> None:
    small = get(served, "http://h05.test/br").body
    stream, inflated = brotli.Decompressor(), 0
    piece = stream.process(small, output_buffer_limit=MIB)
    while piece:
        inflated += len(piece)
        piece = stream.process(b"", output_buffer_limit=MIB)
    assert (len(small) < 4096, stream.is_finished(), inflated) == (True, True, hostile_bodies.BOMB_BYTES)
    small = get(served, "http://h05.test/zstd").body
    reader = zstandard.ZstdDecompressor().stream_reader(small)
    assert len(small) < 10_000
    assert sum(len(reader.read(MIB)) for _ in range(300)) == hostile_bodies.BOMB_BYTES
    for path, wbits in (("deflate", 15), ("raw-deflate", -15)):
        inflater = zlib.decompressobj(wbits)
        assert len(inflater.decompress(get(served, f"http://h05.test/{path}").body, CAP_BYTES + 1)) > CAP_BYTES
    window = get(served, "http://h05.test/zstd-window").body
    assert zstandard.get_frame_parameters(window).window_size == 128 * MIB
    with pytest.raises(zstandard.ZstdError, match="too much memory"):
        zstandard.get_frame_parameters(get(served, "http://h05.test/zstd-largest-window").body)


@row(6)
def test_a_thousand_layers_are_really_there(served: Served) -> None:
    for path, layers in (("two", 2), ("three", 3), ("thousand", 1000)):
        answer = get(served, f"http://h06.test/{path}")
        assert answer.value("content-encoding").split(", ") == ["gzip"] * layers
        data = answer.body
        for _ in range(layers):
            data = gzip.decompress(data)
        assert data == hostile_bodies.compressible_page()


@row(4, 5, 6, 10, 11)
def test_bodies_decode_to_the_outcome_that_is_expected(served: Served) -> None:
    wrong = []
    for url, expected in (urls(4) | urls(5) | urls(6) | urls(10) | urls(11)).items():
        answer = get(served, url)
        found = decode_body(answer.body, answer.value("content-encoding"), CAP_BYTES)
        word = f"truncated:{found.truncated}" if found.truncated else "done:raw" if found.fallback else "done"
        if word not in expected:
            wrong.append((url, word, expected))
    assert wrong == []


@row(7)
def test_a_redirect_carries_a_bomb(served: Served) -> None:
    answer = get(served, "http://h07.test/gzip")
    assert (answer.status, answer.value("location")) == (302, "/landed?gzip")
    assert len(zlib.decompressobj(31).decompress(answer.body, CAP_BYTES + 1)) > CAP_BYTES
    other = get(served, "http://h07.test/br")
    assert (other.status, decode_body(other.body, "br", CAP_BYTES).truncated) == (302, "length")
    assert get(served, "http://h07.test/landed?gzip").status == 200


@row(10)
def test_damaged_bodies_are_damaged(served: Served) -> None:
    page = hostile_bodies.compressible_page()
    with pytest.raises(EOFError):
        gzip.decompress(get(served, "http://h10.test/cut").body)
    with pytest.raises(gzip.BadGzipFile, match="CRC"):
        gzip.decompress(get(served, "http://h10.test/checksum").body)
    with pytest.raises(zlib.error):
        gzip.decompress(get(served, "http://h10.test/damaged").body)
    prefix = zlib.decompressobj(31).decompress(get(served, "http://h10.test/cut").body)
    assert 0 < len(prefix) < len(page)
    assert page.startswith(prefix)


@row(11)
def test_content_encodings_lie(served: Served) -> None:
    page = hostile_bodies.compressible_page()
    for path, coding in (("plain-as-gzip", "gzip"), ("plain-as-br", "br"), ("unknown", "utf-8")):
        answer = get(served, f"http://h11.test/{path}")
        assert (answer.value("content-encoding"), answer.body) == (coding, page)


@row(44)
def test_answers_break_off_by_reset_and_by_end(served: Served) -> None:
    reset = get(served, "http://h44.test/reset")
    assert (reset.ended, len(reset.body)) == ("reset", hostile_bodies.PREFIX_BYTES)
    assert int(reset.value("content-length")) > len(reset.body)
    ended = get(served, "http://h44.test/end")
    assert (ended.ended, len(ended.body)) == ("end", hostile_bodies.PREFIX_BYTES)
    half = get(served, "http://h44.test/half-chunk")
    assert half.ended == "end"
    assert int(half.body.partition(b"\r\n")[0], 16) > len(half.body)
    last = get(served, "http://h44.test/no-last-chunk")
    size, _, chunk = last.body.partition(b"\r\n")
    # A whole chunk, and no word of it having been the last.
    assert (last.ended, int(size, 16), chunk[-2:]) == ("end", len(chunk) - 2, b"\r\n")
    assert get(served, "http://h44.test/reset-at-once")[:2] == (b"", "reset")
    assert get(served, "http://h44.test/end-at-once")[:2] == (b"", "end")
    cut = get(served, "http://h44.test/end-in-head")
    assert (cut.ended, b"\r\n\r\n" in cut.data) == ("end", False)


# Heads.


@row(3)
def test_heads_are_huge(served: Served) -> None:
    assert max(map(len, get(served, "http://h03.test/long-line").head.split("\r\n"))) >= 1_000_000
    assert max(map(len, get(served, "http://h03.test/long-name").head.split("\r\n"))) >= 1_000_000
    assert len(get(served, "http://h03.test/many").head.split("\r\n")) > hostile_heads.MANY_HEADERS
    assert len(get(served, "http://h03.test/large-in-all").head) > 800_000
    for path in ("endless", "endless-line", "endless-status"):
        answer = get(served, f"http://h03.test/{path}", limit=MIB)
        assert (answer.ended, b"\r\n\r\n" in answer.data) == ("limit", False)
    assert get(served, "http://h03.test/endless-line", limit=MIB).data.count(b"\n") == 2


@row(8)
def test_content_lengths_lie(served: Served) -> None:
    small = get(served, "http://h08.test/too-small")
    stated = int(small.value("content-length"))
    # What follows is an answer that a client would take for that to its next request.
    assert small.body[stated:].startswith(b"HTTP/1.1 200 OK\r\n")
    for path in ("too-big", "gigantic"):
        big = get(served, f"http://h08.test/{path}")
        assert (big.ended, int(big.value("content-length")) > len(big.body) > 0) == ("end", True)
    for path, value in (("negative", "-1"), ("words", "thousand"), ("underscore", "1_0"), ("empty", "")):
        assert get(served, f"http://h08.test/{path}").value("content-length") == value
    assert get(served, "http://h08.test/plus").value("content-length")[0] == "+"
    assert len(get(served, "http://h08.test/many-digits").value("content-length")) == 1_000_000
    with pytest.raises(ValueError, match="limit"):
        int(get(served, "http://h08.test/many-digits-short").value("content-length"))
    first, second = get(served, "http://h08.test/two-different").values("content-length")
    assert first != second
    first, second = get(served, "http://h08.test/two-equal").values("content-length")
    assert first == second


@row(9)
def test_chunks_are_broken(served: Served) -> None:
    def chunked(path: str) -> bytes:
        answer = get(served, f"http://h09.test/{path}", limit=MIB)
        assert "chunked" in answer.value("transfer-encoding")
        return answer.body

    assert int(chunked("huge-size").partition(b"\r\n")[0], 16) == 1 << 63
    assert int(chunked("huger-size").partition(b"\r\n")[0], 16) > 1 << 10_000
    assert chunked("negative-size").startswith(b"-5\r\n")
    assert chunked("not-hex").startswith(b"0x10\r\n")
    assert chunked("no-line-end").startswith(b"5\r\nhelloworld")
    assert b"\r" not in chunked("bare-newlines")
    assert b"\r\n" not in chunked("endless-extension")
    extensions = chunked("endless-extensions")
    assert extensions.count(b"1;") > 10_000
    trailers = chunked("endless-trailers").partition(b"\r\n0\r\n")[2]
    assert len(trailers) > MIB // 2
    assert b"\r\n\r\n" not in trailers
    assert get(served, "http://h09.test/length-and-chunks").value("content-length") == "5"
    assert get(served, "http://h09.test/chunked-twice").value("transfer-encoding") == "chunked, chunked"


@row(45)
def test_answers_are_not_quite_http(served: Served) -> None:
    starts = {
        "no-head": b"<!doctype html>",
        "no-status-line": b"Content-Type: ",
        "colon": b"HTTP/1.1 200: OK\r\n",
        "no-reason": b"HTTP/1.1 200\r\n",
        "status-999": b"HTTP/1.1 999 ",
        "status-words": b"HTTP/1.1 OK\r\n",
        "http-5": b"HTTP/5.0 ",
        "icy": b"ICY 200 OK\r\n",
        "folded": b"HTTP/1.1 200 OK\r\nX-Folded: one\r\n\ttwo\r\n",
        "folded-first": b"HTTP/1.1 200 OK\r\n folded",
        "no-colon": b"HTTP/1.1 200 OK\r\nno colon here\r\n",
        "space-before-colon": b"HTTP/1.1 200 OK\r\nServer : x\r\n",
        "bare-newlines": b"HTTP/1.1 200 OK\nContent-Type",
        "nul-in-header": b"HTTP/1.1 200 OK\r\nX-Nul: a\0b",
        "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 ",
        "switching": b"HTTP/1.1 101 ",
        "noise": bytes(range(256)),
    }
    answers = {path: get(served, f"http://h45.test/{path}") for path in starts}
    assert [path for path, answer in answers.items() if not answer.data.startswith(starts[path])] == []
    assert {answer.ended for answer in answers.values()} == {"end"}
    assert b"\r" not in answers["bare-newlines"].data
    assert answers["interim"].data.count(b"HTTP/1.1 200 OK") == 1
    many = get(served, "http://h45.test/many-interim").data
    assert many.count(b"HTTP/1.1 100 Continue\r\n\r\n") == hostile_heads.MANY_INTERIM
    assert b"HTTP/1.1 200 OK" in many
    endless = get(served, "http://h45.test/endless-interim", limit=MIB)
    assert (endless.ended, b" 200 " in endless.data) == ("limit", False)
    assert set(starts) | {"many-interim", "endless-interim"} == {urlsplit(url).path[1:] for url in urls(45)}


@row(46)
def test_escapes_stand_raw_in_heads_and_titles(served: Served) -> None:
    headers = get(served, "http://h46.test/headers")
    assert headers.data.partition(b"\r\n")[0].count(b"\x1b") == 3
    assert b"Server: canary-46\x1b" in headers.data
    split = get(served, "http://h46.test/split")
    assert split.body == b"INFO forged line\r\n"
    assert "\x1b" in get(served, "http://h46.test/content-type").value("content-type")
    title = get(served, "http://h46.test/title").body.decode()
    assert {"\x1b", "\r", "\n", "\u202e", "\x07"} < set(title)
    assert "%0d%0aSet-Cookie" in get(served, "http://h46.test/location").value("location")


@row(47)
def test_cookies_are_wanted_and_thrown(served: Served) -> None:
    wall = get(served, "http://h47.test/wall")
    assert (wall.status, wall.value("location")) == (302, "/wall")
    assert get(served, "http://h47.test/wall", cookie=wall.value("set-cookie")).status == 200
    assert len(get(served, "http://h47.test/many").values("set-cookie")) == hostile_heads.MANY_HEADERS
    assert any("Domain=test;" in value for value in get(served, "http://h47.test/public-suffix").values("set-cookie"))
    assert "Domain=h46.test" in get(served, "http://h47.test/other-site").value("set-cookie")
    assert len(get(served, "http://h47.test/malformed").values("set-cookie")) == 3


# Redirects.


def follow(served: Served, url: str, most: int) -> list[str]:
    """The URLs of a chain of redirects, the last one answered otherwise or one too many."""
    chain = [url]
    while len(chain) <= most:
        answer = get(served, chain[-1])
        if answer.status not in {301, 302}:
            break
        chain.append(canonical(answer.value("location"), chain[-1]).text)
    return chain


@row(12)
def test_redirects_go_in_circles(served: Served) -> None:
    assert follow(served, "http://h12.test/self", 4) == ["http://h12.test/self"] * 5
    assert follow(served, "http://h12.test/one", 3) == ["http://h12.test/one", "http://h12.test/two"] * 2
    assert follow(served, "http://h12.test/fragment", 4) == ["http://h12.test/fragment"] * 5
    assert len(follow(served, "http://h12.test/chain?0", 100)) == hostile_redirects.CHAIN_LENGTH + 1
    grown = follow(served, "http://h12.test/grow", 20)
    assert (len(grown), len(set(grown))) == (21, 21)
    cookies = list[str]()
    for _ in range(5):
        answer = get(served, "http://h12.test/cookies", cookie="; ".join(cookies))
        assert (answer.status, answer.value("location")) == (302, "http://h12.test/cookies")
        assert answer.value("set-cookie") not in cookies
        cookies.append(answer.value("set-cookie"))


@row(12, 13, 47)
def test_redirects_lead_where_the_table_says(served: Served) -> None:
    stated = {
        (url, reference)
        for url, reference in link_expectations()
        if expectations().get(url) == (Expected.REDIRECT,) and any(f"//h{number}." in url for number in (12, 13, 47))
    }
    wrong = [(url, target) for url, target in stated if get(served, url).value("location") != target]
    # From http it swings to https first.
    assert wrong == [("http://h13.test/swing", "http://h13.test/swing")]
    assert len(stated) > 10


@row(13)
def test_redirects_lead_elsewhere(served: Served) -> None:
    assert follow(served, "http://h13.test/to-https", 3)[1:] == ["https://h13.test/landed"]
    assert follow(served, "https://h13.test/to-http", 3)[1:] == ["http://h13.test/landed"]
    swing = follow(served, "http://h13.test/swing", 3)
    assert swing == ["http://h13.test/swing", "https://h13.test/swing"] * 2
    for path in ("to-host", "to-site"):
        first, last = follow(served, f"http://h13.test/{path}", 3)
        assert urlsplit(first).netloc != urlsplit(last).netloc
        assert get(served, last).status == 200
    closed = follow(served, "http://h13.test/to-closed", 3)[-1]
    rules = get(served, urljoin(closed, "/robots.txt")).body
    assert not parse(rules).verdict("Gossamer", closed).allowed


@row(14, 15, 16)
def test_redirects_lead_out_of_the_web_and_inwards(served: Served) -> None:
    wrong = []
    for number in (14, 15, 16):
        for where, place in played()[number].items():
            if place.expected != (Expected.REDIRECT,):
                continue
            ((url, expected),) = place.links.items()
            location = get(served, f"http://{where}").value("location").encode("latin-1").decode()
            word = verdict(location, f"http://{where}")
            if location != url or word is not (Expected.DONE if expected is Expected.ADDRESS else expected):
                wrong.append((where, location, word))
    assert wrong == []
    schemes = {url.partition(":")[0] for place in played()[14].values() for url in place.links}
    assert {"file", "data", "javascript", "ftp", "gopher"} < schemes


@row(15, 16)
def test_addresses_that_are_linked_are_not_of_the_open_web(served: Served) -> None:
    for number in (15, 16):
        base = f"http://h{number}.test/links"
        found = [canonical(href, base) for href in hrefs(get(served, base))]
        assert len(found) == len(played()[number][f"h{number}.test/links"].links) > 20
        literals = [url.host.strip("[]") for url in found if not url.host.endswith((".h15.test", "localhost"))]
        inward = {ip_address(host) for host in literals} - CARRIERS
        assert [address for address in inward if address.is_global and not address.is_multicast] == []
    for spelling, address in hostile_redirects.SPELLINGS.items():
        assert canonical(f"http://{spelling}/", "http://h16.test/").host == address


# Links.


@row(14, 20, 21, 22, 23, 24, 25, 50)
def test_links_stand_in_the_page_as_the_table_has_them(served: Served) -> None:
    """And come out of canonicalising as expected, as far as that is decided there."""
    wrong = []
    decided = {Expected.SCHEME, Expected.NOT_A_URL, Expected.TOO_LONG}
    for number in (20, 21, 22, 23, 24, 25, 50):
        where = f"h{number}.test/links"
        expected = played()[number][where].links
        found = hrefs(get(served, f"http://{where}"))
        wrong += [(where, href[:80]) for href in expected if href not in found]
        for href, word in expected.items():
            verdict_now = verdict(href, f"http://{where}")
            if verdict_now is not (word if word in decided else Expected.DONE):
                wrong.append((where, f"{href[:80]} {verdict_now}"))
    assert wrong == []


@row(20, 21, 22, 25)
def test_what_strange_links_lead_to_is_there(served: Served) -> None:
    wrong = []
    for number in (20, 21, 22, 25):
        base = f"http://h{number}.test/links"
        for href, word in played()[number][base.partition("://")[2]].links.items():
            if word is Expected.DONE:
                url = canonical(href, base)
                if get(served, url.text).status != 200:
                    wrong.append((href, url.text))
    assert wrong == []


@row(20)
def test_every_spelling_of_a_host_is_one_host() -> None:
    hosts = hostile_links.HOSTS
    assert {spelling: canonical(f"http://{spelling}/", "http://h20.test/").host for spelling in hosts} == hosts
    assert len(set(hosts.values())) < len(hosts)


@row(22)
def test_credentials_stand_in_links_and_redirects(served: Served) -> None:
    found = [*hrefs(get(served, "http://h22.test/links")), get(served, "http://h22.test/redirect").value("location")]
    assert [hostile_links.SECRET in reference for reference in found] == [True] * 3
    assert {canonical(reference, "http://h22.test/").text for reference in found} == {"http://h22.test/inside"}


@row(24)
def test_urls_grow_with_every_page(served: Served) -> None:
    assert max(map(len, hrefs(get(served, "http://h24.test/links")))) > 1_000_000
    url, lengths = "http://h24.test/grow?from=%2F", list[int]()
    for _ in range(6):
        (href,) = hrefs(get(served, url))
        url = canonical(href, url).text
        lengths.append(len(url))
    assert lengths == sorted(set(lengths))
    assert "%2525" in url


@row(26, 27, 28, 29, 30)
def test_traps_have_no_end(served: Served) -> None:
    """Going on at each page's first link that is new, a client never comes to the end of a trap."""
    for number in (26, 27, 28, 29, 30):
        (url,) = (
            canonical(href, seed).text for seed in [f"http://h{number}.test/"] for href in hrefs(get(served, seed))
        )
        seen = {url}
        for _ in range(15):
            answer = get(served, url)
            assert (answer.status, answer.ended) == (200, "end")
            new = [canonical(href, url).text for href in hrefs(answer)]
            url = next(found for found in new if found not in seen)
            seen.add(url)
        assert len(seen) == 16


@row(26)
def test_the_calendar_has_a_month_after_the_last(served: Served) -> None:
    assert "/calendar?y=9999&m=12" in hrefs(get(served, "http://h26.test/calendar?y=9999&m=11"))
    assert "/calendar?y=10000&m=1" in hrefs(get(served, "http://h26.test/calendar?y=9999&m=12"))


@row(27)
def test_sessions_are_new_on_every_page(served: Served) -> None:
    first = hrefs(get(served, "http://h27.test/shop;jsessionid=0"))
    second = hrefs(get(served, f"http://h27.test{first[0]}"))
    assert not set(first) & set(second)
    assert {re.sub(r"[0-9a-f]{24,}", "", href) for href in first} == {
        re.sub(r"[0-9a-f]{24,}", "", href) for href in second
    }


@row(28)
def test_segments_repeat(served: Served) -> None:
    url = "http://h28.test/a/b/"
    for _ in range(4):
        url = canonical(hrefs(get(served, url))[0], url).text
    assert url == "http://h28.test" + "/a/b" * 5 + "/"


@row(29)
def test_facets_come_in_every_order(served: Served) -> None:
    found = hrefs(get(served, "http://h29.test/items?colour=1&size=2"))
    assert "/items?size=2&colour=1" in found
    assert len(set(found)) > 15


@row(30)
def test_a_soft_404_is_the_same_page_everywhere(served: Served) -> None:
    pages = [get(served, f"http://h30.test/{path}") for path in ("a", "b/c?d")]
    assert {page.status for page in pages} == {200}
    assert len({re.sub(r"/[0-9a-f]{12}/", "", page.body.decode()) for page in pages}) == 1
    assert pages[0].body != pages[1].body


@row(18)
def test_the_farm_has_more_hosts_on_every_page(served: Served) -> None:
    found = hrefs(get(served, "http://farm.test/"))
    assert len({urlsplit(href).netloc for href in found}) == 50
    assert not set(found) & set(hrefs(get(served, found[0])))


@row(31)
def test_a_million_links_are_a_million(served: Served) -> None:
    for path, count in (("many", hostile_links.SOME_LINKS), ("million", hostile_links.MANY_LINKS)):
        answer = get(served, f"http://h31.test/{path}", limit=100 * MIB)
        assert (answer.ended, answer.body.count(b"<a href=/p/")) == ("end", count)
    assert get(served, "http://h31.test/p/999999").status == 200


@row(48)
def test_refreshes_and_bases_are_odd(served: Served) -> None:
    def text(path: str) -> str:
        return get(served, f"http://h48.test/{path}").body.decode()

    assert "0; url=/self" in text("self")
    assert ("url=/two" in text("one"), "URL='/one'" in text("two")) == (True, True)
    assert int(re.findall(r"content=\"(-?\d+)", text("far"))[0]) == 10**9
    assert int(re.findall(r"content=\"(-?\d+)", text("negative"))[0]) < 0
    assert "url=javascript:" in text("script")
    assert "169.254.169.254" in text("base-private")
    assert text("base-twice").count("<base ") == 2
    assert ("data:" in text("base-data"), "//other.h48.test" in text("base-other")) == (True, True)


@row(50)
def test_patterns_are_costly(served: Served) -> None:
    rules = get(served, "http://h50.test/robots.txt").body
    assert max(line.count(b"*") for line in rules.splitlines()) == 200
    # Ours takes linear time: otherwise this would not end.
    longest = "http://h50.test/" + "a" * 1900
    assert parse(rules).verdict("Gossamer", longest).allowed
    assert not parse(rules).verdict("Gossamer", "http://h50.test/closed").allowed
    assert max(map(len, hrefs(get(served, "http://h50.test/links")))) > 100_000


# Pages.


@row(32)
def test_nesting_is_deep(served: Served) -> None:
    for path, tag in (("div", b"<div>"), ("table", b"<td>"), ("list", b"<li>"), ("font", b"<font>"), ("svg", b"<g>")):
        answer = get(served, f"http://h32.test/{path}")
        assert (answer.ended, answer.body.count(tag)) == ("end", hostile_pages.DEPTH)
        assert answer.body.count(b"</") == answer.body.count(b"</a>") + 1
        assert answer.body.rstrip().endswith(b"the bottom</a>")


@row(33)
def test_markup_is_costly(served: Served) -> None:
    pages = {urlsplit(url).path[1:]: get(served, url, limit=20 * MIB) for url in urls(33)}
    assert {page.ended for page in pages.values()} == {"end"}
    assert pages["adoption"].body.count(b"<a><i>") == 30_000
    assert pages["formatting"].body.count(b"<b><p>") == 30_000
    assert len(max(pages["attribute"].body.split(b'"'), key=len)) == hostile_pages.ATTRIBUTE_BYTES
    assert len(set(re.findall(rb"a\d+=1", pages["attributes"].body))) == 100_000
    assert (b"<!--" in pages["comment"].body, b"-->" in pages["comment"].body) == (True, False)
    assert b"</script>" not in pages["script"].body
    assert [path for path, page in pages.items() if hostile_pages.LINK.encode() not in page.body] == []


@row(34)
def test_charsets_are_wrong_absent_and_unknown(served: Served) -> None:
    pages = {urlsplit(url).path[1:]: get(served, url) for url in urls(34)}

    def charset(path: str) -> str:
        return pages[path].value("content-type").partition("charset=")[2]

    with pytest.raises(UnicodeDecodeError):
        pages["wrong"].body.decode(charset("wrong"))
    with pytest.raises(LookupError):
        pages["unknown"].body.decode(charset("unknown"))
    with pytest.raises(LookupError, match="not a text encoding"):
        pages["not-a-charset"].body.decode(charset("not-a-charset"))
    assert (charset("none"), pages["no-type"].values("content-type")) == ("", [])
    assert pages["utf-16"].body.decode("utf-16") == hostile_pages.TEXT
    assert pages["utf-16-no-mark"].body.decode("utf-16-be") == hostile_pages.TEXT
    assert pages["utf-32"].body.decode("utf-32") == hostile_pages.TEXT
    assert pages["two-marks"].body.startswith(b"\xef\xbb\xbf\xef\xbb\xbf<")
    with pytest.raises(UnicodeDecodeError, match="truncated"):
        pages["odd-utf-16"].body.decode(charset("odd-utf-16"))
    assert pages["empty"].value("content-type").endswith("charset=")
    assert (charset("quotes"), charset("replacement")) == ('"utf-8', "iso-2022-kr")
    assert 'charset="utf-16"' in pages["meta-lies"].body.decode("utf-8")
    assert (charset("mark-disagrees"), pages["mark-disagrees"].body[:3]) == ("utf-16le", b"\xef\xbb\xbf")
    assert (charset("utf-7"), "Übergrößenträger" in pages["utf-7"].body.decode("utf-7")) == ("utf-7", True)
    assert (charset("conflict"), b'charset="utf-8"' in pages["conflict"].body) == ("shift_jis", True)


@row(35)
def test_control_bytes_are_in_the_page(served: Served) -> None:
    assert get(served, "http://h35.test/nul").body.count(b"\0") == 2
    assert set(range(32)) | {0x7F} <= set(get(served, "http://h35.test/controls").body)
    assert set(get(served, "http://h35.test/only-nul").body) == {0}
    for path in ("surrogates", "half-a-letter"):
        with pytest.raises(UnicodeDecodeError):
            get(served, f"http://h35.test/{path}").body.decode()


@row(36)
def test_types_are_mislabelled(served: Served) -> None:
    starts = {"pdf": b"%PDF-", "image": b"\x89PNG", "gzip": b"\x1f\x8b", "zip": b"PK\x03\x04"}
    for kind, start in starts.items():
        answer = get(served, f"http://h36.test/{kind}-as-html")
        assert (answer.value("content-type"), answer.body[: len(start)]) == ("text/html", start)
    for kind, label in (("octets", "application/octet-stream"), ("image", "image/png"), ("text", "text/plain")):
        answer = get(served, f"http://h36.test/html-as-{kind}")
        assert (answer.value("content-type"), answer.body[:15]) == (label, b"<!doctype html>")
    assert get(served, "http://h36.test/html-as-nothing").values("content-type") == []
    assert get(served, "http://h36.test/html-as-nonsense").value("content-type") == "html;;; charset"
    assert get(served, "http://h36.test/type-in-capitals").value("content-type").startswith("TEXT/HTML")
    assert get(served, "http://h36.test/nothing-as-html").body == b""


# robots.txt, and pauses.


@row(37)
def test_robots_txt_fails_in_every_way(served: Served) -> None:
    ways = {urlsplit(url).netloc.partition(".")[0] for url in urls(37)}
    answers = {way: get(served, f"http://{way}.h37.test/robots.txt") for way in ways - {"silent", "dribble"}}
    answers["silent"] = get(served, "http://silent.h37.test/robots.txt", seconds=SILENCE_SECONDS)
    assert {way: answers[way].status for way in ("s500", "s503", "s599")} == {"s500": 500, "s503": 503, "s599": 599}
    assert {access_for(status) for status in (500, 503, 599, None)} == {Access.DISALLOW_ALL}
    assert answers["silent"][:2] == (b"", "silent")
    assert answers["reset"][:2] == answers["refused"][:2] == (b"", "reset")
    with connect(served, "http", "") as client:
        client.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: dribble.h37.test\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
        assert 0 < len(client.recv(4096)) < 1000
    cut = answers["cut"]
    assert len(cut.body) < int(cut.value("content-length"))
    # Taken for whole, the half would allow everything.
    assert parse(cut.body).verdict("Gossamer", "/").allowed
    assert not answers["noise"].data.startswith(b"HTTP")
    # The name that the resolver has on an address where nothing listens.
    assert special_names()["refused.h37.test"]("refused.h37.test", 0).records[0].data == bytes((127, 0, 0, 2))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.http_port), timeout=PATIENCE_SECONDS).close()


@row(38)
def test_robots_txt_is_refused(served: Served) -> None:
    for url, words in urls(38).items():
        answer = get(served, urljoin(url, "/robots.txt"))
        wanted = Access.ALLOW_ALL if words == (Expected.DONE,) else Access.BACK_OFF
        assert access_for(answer.status) is wanted, url
        if answer.status == 429:
            assert int(answer.value("retry-after")) in {2, 86400}
    assert len(urls(38)) == 8


@row(39)
def test_odd_robots_txt_files_mean_what_is_expected(served: Served) -> None:
    wrong = []
    for url, words in urls(39).items():
        rules = parse(get(served, urljoin(url, "/robots.txt"), limit=20 * MIB).body)
        if rules.verdict("Gossamer", url).allowed is not (words == (Expected.DONE,)):
            wrong.append(url)
    assert wrong == []
    assert set(urls(39).values()) == {(Expected.DONE,), (Expected.DISALLOWED,)}


@row(39)
def test_robots_txt_files_are_odd(served: Served) -> None:
    def file(word: str) -> bytes:
        return get(served, f"http://{word}.h39.test/robots.txt", limit=20 * MIB).body

    assert len(file("large")) > 9_900_000
    assert (file("mark")[:3], file("utf-16")[:2]) == (b"\xef\xbb\xbf", b"\xff\xfe")
    assert (b"\0" in file("nul"), b"\n" in file("cr")) == (True, False)
    assert max(map(len, file("long-line").splitlines())) == 1_000_000
    assert max(map(len, file("long-rule").splitlines())) > 1_000_000
    assert (file("html")[:15], file("empty")) == (b"<!doctype html>", b"")


@row(40)
def test_robots_txt_is_elsewhere(served: Served) -> None:
    def hops(word: str) -> list[str]:
        return follow(served, f"http://{word}.h40.test/robots.txt", 10)[1:]

    assert [len(hops(word)) for word in ("five", "six", "loop", "cross")] == [5, 6, 10, 1]
    assert hops("cross") == ["http://h40-rules.test/robots.txt"]
    for last in (hops("five")[-1], hops("six")[-1], hops("cross")[-1]):
        assert not parse(get(served, last).body).verdict("Gossamer", "/closed").allowed
    assert get(served, "http://scheme.h40.test/robots.txt").value("location").startswith("ftp:")
    assert "169.254." in get(served, "http://private.h40.test/robots.txt").value("location")


@row(41)
def test_servers_ask_for_pauses_of_every_kind(served: Served) -> None:
    asked = {url: get(served, url) for url in urls(41) if "alternating" not in url}
    assert {answer.status for answer in asked.values()} == {429, 503}

    def wish(word: str) -> str:
        return asked[f"http://h41-{word}-429.test/"].value("retry-after")

    assert [wish(word) for word in ("seconds", "zero", "negative", "fraction")] == ["2", "0", "-5", "1.5"]
    near, past, far = (parsedate_to_datetime(wish(word)) for word in ("date", "past", "far"))
    assert past < near < far
    # Each counts from the moment at which it was asked for.
    assert int(wish("many-seconds")) // 86400 == round((far - near).total_seconds() / 86400) == 3650
    assert len(wish("many-digits")) == 5000
    for word in ("garbage", "bad-date"):
        with pytest.raises(ValueError, match="date"):
            parsedate_to_datetime(wish(word))
    assert asked["http://h41-none-503.test/"].values("retry-after") == []
    # Each is a site of its own, so that none waits for another's pause.
    assert len({canonical(url, url).site for url in asked}) == len(asked)
    statuses = [get(served, "http://h41-alternating.test/").status for _ in range(4)]
    assert (sorted(statuses), statuses[:2]) == ([200, 200, 429, 429], statuses[2:])


# TLS and silence.


@row(42)
def test_certificates_are_bad_in_their_own_way(served: Served) -> None:
    trusting = ssl.create_default_context(cafile=str(served.authority))
    reasons = {
        "expired": "certificate has expired",
        "not-yet": "certificate is not yet valid",
        "self-signed": "self-signed certificate",
        "wrong-host": "certificate is not valid for",
    }
    for word, reason in reasons.items():
        host = f"{word}.h42.test"
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            secured(connected(served.https_port), trusting, host).close()
        assert reason in caught.value.verify_message.lower().replace("hostname mismatch, ", "")
        # Whoever does not verify is served.
        assert get(served, f"https://{host}/").status == 200
    with secured(connected(served.https_port), trusting, "h42.test") as good:
        assert good.version() == "TLSv1.3"


@row(42)
def test_an_old_server_speaks_tls_1_0_and_nothing_else(served: Served) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)version|unsupported|alert|protocol"):
        get(served, "https://tls10.h42.test/")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = ssl.TLSVersion.TLSv1
    with secured(connected(served.https_port), old, "tls10.h42.test") as client:
        assert client.version() == "TLSv1"
        client.sendall(b"GET / HTTP/1.1\r\nHost: tls10.h42.test\r\nConnection: close\r\n\r\n")
        assert receive(client, MIB).status == 200


@row(43)
def test_a_handshake_stalls_and_holds_up_nobody(served: Served) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = context.wrap_bio(incoming, outgoing, server_hostname="stall.h43.test")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    with connected(served.https_port) as stalled:
        stalled.sendall(outgoing.read())
        assert get(served, "https://h43.test/").status == 200
        stalled.settimeout(SILENCE_SECONDS)
        with pytest.raises(TimeoutError):
            stalled.recv(1)


@row(43)
def test_a_request_meets_silence(served: Served) -> None:
    for url in ("http://h43.test/silence", "https://h43.test/silence?tls"):
        assert get(served, url, seconds=SILENCE_SECONDS)[:2] == (b"", "silent")


@row(17, 19)
def test_names_that_are_hard_to_resolve_have_their_pages(served: Served) -> None:
    for number in (17, 19):
        named = {f"http://{name}/" for name in special_names() if name.endswith(f".h{number}.test")}
        assert set(hrefs(get(served, f"http://h{number}.test/"))) == named == set(urls(number))
        assert get(served, next(iter(named))).status == 200


# What many do at once.


@row(51)
def test_a_burst_ends_for_all_when_the_last_of_the_crowd_has_come(tmp_path: Path) -> None:
    def client(web: SimulatedWeb) -> None:
        served = Served(web.http_port, 0, tmp_path)
        waiting = [connect(served, "http", "") for _ in range(crowds.CROWD)]
        try:
            for number, crawler in enumerate(waiting):
                crawler.sendall(f"GET /page HTTP/1.1\r\nHost: h51-{number}.test\r\n\r\n".encode())
                if number < crowds.CROWD - 1:
                    answer = receive(crawler, len(BURST_HEAD) + crowds.CROWD_BYTES - 1)
                    assert (answer.ended, answer.body[:3]) == ("limit", b"<p>")
                    crawler.settimeout(SILENCE_SECONDS / crowds.CROWD)
                    assert receive(crawler, 1).ended == "silent"
                    crawler.settimeout(PATIENCE_SECONDS)
            assert len(receive(waiting[-1], 4 * MIB).body) == crowds.CROWD_BYTES
            assert [receive(crawler, 10).data for crawler in waiting[:-1]] == [b"\n"] * (crowds.CROWD - 1)
        finally:
            for crawler in waiting:
                crawler.close()

    # Nobody waits so long that the burst would end without the last one.
    assert run(client, tmp_path, Pace(tick_seconds=PATIENCE_SECONDS, longest_seconds=600)) == 0


BURST_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n" % crowds.CROWD_BYTES
)


@row(52)
def test_most_of_a_large_body_comes_at_once_and_the_rest_never(served: Served) -> None:
    most = crowds.CROWD_BYTES * 8 // 10
    for url in urls(52):
        with connect(served, "http", "") as client:
            host = urlsplit(url).netloc
            client.sendall(f"GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            answer = receive(client, most)
            assert (answer.value("content-length"), answer.ended) == (str(crowds.CROWD_BYTES), "limit")


@row(54)
def test_tarpits_are_slow_in_every_phase_and_end_or_do_not(served: Served) -> None:
    for url in ("http://h54-patient.test/robots.txt", "http://h54-patient.test/rules", "http://h54-patient.test/page"):
        began_at = time.monotonic()
        assert get(served, url).ended == "end"
        assert time.monotonic() - began_at >= PACE.tick_seconds
    assert get(served, "http://h54-robots.test/robots.txt").value("location") == "/rules"
    for url in ("http://h54-robots.test/rules", "http://h54-body.test/page"):
        answer = get(served, url, limit=250)
        assert (answer.status, answer.ended) == (200, "limit")
        assert answer.pieces > 10


@row(55, 58)
def test_subdomains_and_bombs_close_everything(served: Served) -> None:
    hosts = [f"n{number}.h55.test" for number in range(crowds.SUBDOMAINS)]
    for host in hosts:
        assert not parse(get(served, f"http://{host}/robots.txt").body).verdict("Gossamer", "/page").allowed
    for number in range(crowds.CROWD):
        answer = get(served, f"http://h58-{number}.test/robots.txt")
        assert len(answer.body) < 1000
        assert len(gzip.decompress(answer.body)) > 500_000
        assert gzip.decompress(answer.body).startswith(b"User-agent: *\nDisallow: /\n")


@row(56)
def test_robots_txt_leads_to_a_search_of_a_site_that_wants_no_crawler(served: Served) -> None:
    for number in range(crowds.REFLECTORS):
        (target,) = follow(served, f"http://h56-{number}.test/robots.txt", 1)[1:]
        assert target == f"http://h56-victim.test/search?q={number}"
        assert get(served, target).status == 200
    assert not parse(get(served, "http://h56-victim.test/robots.txt").body).verdict("Gossamer", "/search").allowed


@row(57)
def test_many_addresses_of_one_prefix_are_served(served: Served) -> None:
    networks = {
        ip_network(f"{urlsplit(url).netloc}/24", strict=False) for url in hrefs(get(served, "http://h57.test/"))
    }
    assert len(networks) == 1
    assert {get(served, f"http://{address}/page").status for address in crowds.LITERALS} == {200}


@row(59)
def test_poison_pages_are_the_known_one(served: Served) -> None:
    assert len(urls(59)) == crowds.POISONED
    assert {get(served, url).body for url in urls(59)} == {crowds.PARSER_CRASH.encode()}


@row(60)
def test_links_are_costly_for_a_pattern_that_backtracks(served: Served) -> None:
    pattern = re.compile(r"/([a-z]+/?)+\.pdf$")
    found = hrefs(get(served, "http://h60.test/"))
    assert found == [*link_expectations_of("http://h60.test/")]
    # With twenty letters it takes a moment, and each further one doubles it.
    for href in found:
        assert not pattern.search(href[:20])
        assert len(href) > 60
        assert get(served, f"http://h60.test{href}").status == 200


def link_expectations_of(url: str) -> list[str]:
    return [reference for where, reference in link_expectations() if where == url]


@row(61)
def test_one_host_asks_for_silence_and_its_neighbours_do_not(served: Served) -> None:
    greedy = get(served, "http://greedy.h61.test/page")
    assert (greedy.status, greedy.value("retry-after")) == (429, "86400")
    rules = parse(get(served, "http://greedy.h61-delay.test/robots.txt").body).for_agent("Gossamer")
    assert rules.crawl_delay == 301
    neighbours = [url for url in urls(61) if "//www." in url]
    assert len(neighbours) == 4
    assert {get(served, url).status for url in neighbours} == {200}


@row(62)
def test_short_links_under_a_long_base_are_megabytes(served: Served) -> None:
    answer = get(served, "http://h62.test/links")
    text = gzip.decompress(answer.body).decode()
    (base,) = re.findall(r'<base href="([^"]*)">', text)
    targets = [canonical(href, base).text for href in Anchors(text).hrefs]
    assert len(set(targets)) == crowds.LONG_LINKS
    assert max(map(len, targets)) < 2000
    assert sum(map(len, targets)) > 200 * len(answer.body)
    assert get(served, targets[0]).status == 200


@row(63)
def test_every_site_of_the_farm_is_named_by_another(served: Served) -> None:
    named = {href for number in range(crowds.FARM) for href in hrefs(get(served, f"http://h63-{number}.test/"))}
    assert named == {f"http://h63-{number}.test/" for number in range(1, crowds.FARM)}


# What holds for all of them.


def run(client: Callable[[SimulatedWeb], None], directory: Path, pace: Pace) -> int:
    """Blocking code against a server of its own; answers how many tasks are left, if they do not end."""

    async def serve() -> int:
        before = len(asyncio.all_tasks())
        web = SimulatedWeb(Web(sites=1, pages=1), hostile=hostile_sites(pace), https=False, log_directory=directory)
        async with web:
            await asyncio.to_thread(client, web)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(asyncio.all_tasks()) > before and time.monotonic() < deadline:  # noqa: ASYNC110 (nothing tells)
                await asyncio.sleep(0.02)
            return len(asyncio.all_tasks()) - before

    return asyncio.run(serve())


ENDLESS = (
    *("h01.test/no-length", "h01.test/chunked", "h02.test/body", "h02.test/head", "h03.test/endless"),
    *("h09.test/endless-trailers", "h43.test/silence", "h45.test/endless-interim", "silent.h37.test/robots.txt"),
)


def test_whatever_has_no_end_ends_when_the_client_leaves(tmp_path: Path) -> None:
    def client(web: SimulatedWeb) -> None:
        served = Served(web.http_port, 0, tmp_path)
        for place in ENDLESS:
            with connect(served, "http", "") as left:
                host, _, path = place.partition("/")
                left.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                if "silen" not in place:
                    assert left.recv(10)

    assert run(client, tmp_path, Pace(tick_seconds=0.05)) == 0


def test_whatever_has_no_end_ends_after_its_longest_time(tmp_path: Path) -> None:
    def client(web: SimulatedWeb) -> None:
        served = Served(web.http_port, 0, tmp_path)
        for place in ENDLESS:
            host, _, path = place.partition("/")
            with connect(served, "http", host) as waiting:
                waiting.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert receive(waiting, 1 << 40, kept=0).ended == "reset", place

    assert run(client, tmp_path, Pace(tick_seconds=0.05, longest_seconds=0.2)) == 0


def test_clients_that_do_not_read_hold_up_nobody(tmp_path: Path) -> None:
    def client(web: SimulatedWeb) -> None:
        served = Served(web.http_port, 0, tmp_path)
        waiting = [connect(served, "http", "") for _ in range(30)]
        try:
            for number, idle in enumerate(waiting):
                host, path = (("h01.test", "no-length"), ("h31.test", "million"), ("h04.test", "zeros"))[number % 3]
                idle.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            for _ in range(5):
                assert get(served, "http://h13.test/landed").status == 200
        finally:
            for idle in waiting:
                idle.close()

    assert run(client, tmp_path, Pace()) == 0
