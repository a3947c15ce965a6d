"""An answer read from bytes, however they are cut; and an exchange that is looked at as time goes by."""

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gossamer.config import FetchSettings
from gossamer.fetch.byte_budget import ByteBudget
from gossamer.fetch.exchange import GRACE_SECONDS, OTHER_BODY_SECONDS, WINDOW_SECONDS, Exchange
from gossamer.fetch.media_types import is_wanted, is_wanted_by_start
from gossamer.fetch.response import HEAD_BYTES, MOST_HEADERS, OTHER_BODY_BYTES, Response
from gossamer.records import Reason

WANTED = frozenset({b"text/html", b"text/plain"})
OK = b"HTTP/1.1 200 OK\r\n"


def read(*pieces: bytes, most: int = 1000, wanted: frozenset[bytes] | None = None, ends: bool = False) -> Response:
    response = Response(most, wanted)
    for piece in pieces:
        if not response.is_over:
            response.feed(piece)
    if ends:
        response.end()
    return response


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_an_answer_is_the_same_however_its_bytes_are_cut(size: int) -> None:
    data = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
        + OK
        + b"Content-Type: text/html\r\nX-ODD-Case:  two  \r\nX-Odd-Case: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"5\r\nhello\r\n6;name=value\r\n world\r\n0\r\nX-Trailer: late\r\n\r\nbeyond"
    )
    response = read(*(data[at : at + size] for at in range(0, len(data), size)), wanted=WANTED)
    assert (response.status, response.body, response.truncated, response.failure) == (200, b"hello world", "", None)
    assert response.status_line == b"HTTP/1.1 200 OK"
    assert response.headers == [
        (b"Content-Type", b"text/html"),
        (b"X-ODD-Case", b"two"),
        (b"X-Odd-Case", b"3"),
        (b"Transfer-Encoding", b"chunked"),
    ]


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"HTTP/1.0 200 Fine\r\n", b"HTTP/1.0 200 Fine"),
        (b"HTTP/1.1 200 \r\n", b"HTTP/1.1 200 "),
        (b"HTTP/1.1 200\r\n", b"HTTP/1.1 200 "),
        (b"HTTP/1.1 200 O\xff\x01 K\t \r\n", b"HTTP/1.1 200 O\xff\x01 K\t "),
        (b"HTTP/1.1 200 O\0K\n", b"HTTP/1.1 200 O K"),
        (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.0 200\r\n", b"HTTP/1.0 200 "),
        (b"HTTP/1.1 102\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 No\r\n", b"HTTP/1.1 404 No"),
    ],
)
def test_the_status_line_is_kept_and_nothing_of_what_came_before_it(line: bytes, kept: bytes, size: int) -> None:
    data = line + b"X: y\r\nContent-Length: 0\r\n\r\n"
    response = read(*(data[at : at + size] for at in range(0, len(data), size)))
    assert (response.is_over, response.status_line) == (True, kept)
    assert response.headers == [(b"X", b"y"), (b"Content-Length", b"0")]


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_a_header_is_one_line_whatever_is_in_it(size: int) -> None:
    data = OK + b"X: one\r\n\ttwo\r\n   three\r\nY: \r\n four\n five\r\nZ: \0six\0seven\0\r\nContent-Length: 0\r\n\r\n"
    response = read(*(data[at : at + size] for at in range(0, len(data), size)))
    assert response.is_over
    assert dict(response.headers) == {
        b"X": b"one\ttwo   three",
        b"Y": b"four five",
        b"Z": b"six seven",
        b"Content-Length": b"0",
    }
    assert read(OK + b"X: one\rtwo\r\n\r\n").failure is not None


def test_a_body_is_whole_up_to_the_cap_and_cut_beyond_it() -> None:
    head = OK + b"Content-Length: %d\r\n\r\n"
    whole = read(head % 1000 + b"x" * 1000)
    assert (whole.is_over, whole.truncated, whole.body_bytes) == (True, "", 1000)
    cut = read(head % 1001, b"x" * 1000, b"yz")
    assert (cut.is_over, cut.truncated, cut.body) == (True, "length", b"x" * 1000)
    endless = read(OK + b"\r\n", *[b"x" * 300] * 9)
    assert (endless.is_over, endless.truncated, len(endless.body)) == (True, "length", 1000)


def test_the_end_of_the_connection_is_the_end_of_a_body_only_if_nothing_else_is() -> None:
    assert read(OK + b"\r\nall", ends=True).truncated == ""
    assert read(OK + b"Content-Length: 9\r\n\r\npart", ends=True).truncated == "disconnect"
    assert read(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n", ends=True).truncated == "disconnect"
    nothing = read(OK + b"Content-Length: 9\r\n\r\n", ends=True)
    assert nothing.failure is not None
    assert nothing.failure[0] is Reason.RESET


OTHER = [b"301 Moved", b"400 Bad", b"404 Not Found", b"500 Oops", b"999 Denied"]


@pytest.mark.parametrize("status", OTHER)
def test_an_answer_that_is_no_page_has_its_body_too(status: bytes) -> None:
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: image/png\r\n"
    for framed in (b"Content-Length: 5\r\n\r\nsorry", b"Transfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n0\r\n\r\n"):
        response = read(head + framed, wanted=WANTED)
        assert (response.is_over, response.failure, response.truncated) == (True, None, "")
        assert (response.status, response.body, response.is_declined) == (int(status[:3]), b"sorry", False)
    until_close = read(head + b"\r\n", b"sorry", wanted=WANTED, ends=True)
    assert (until_close.is_over, until_close.body, until_close.truncated) == (True, b"sorry", "")


def test_the_body_of_what_is_no_page_has_a_cap_of_its_own() -> None:
    piece = b"x" * (OTHER_BODY_BYTES // 4)
    long = read(b"HTTP/1.1 404 No\r\n\r\n", *[piece] * 9, most=100 * OTHER_BODY_BYTES)
    assert (long.is_over, long.truncated, long.body_bytes) == (True, "length", OTHER_BODY_BYTES)
    short = read(b"HTTP/1.1 404 No\r\n\r\n", *[b"x" * 600] * 9, most=1000)
    assert (short.is_over, short.truncated, short.body_bytes) == (True, "length", 1000)


@pytest.mark.parametrize("status", OTHER)
@pytest.mark.parametrize("part", [b"", b"sor"])
def test_whatever_becomes_of_its_body_a_status_that_is_no_page_stays_an_answer(status: bytes, part: bytes) -> None:
    head = b"HTTP/1.1 " + status + b"\r\n"
    chunk = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
    ended = read(head + b"Content-Length: 9\r\n\r\n" + part, ends=True)
    cut = read(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk, ends=True)
    garbage = read(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk, b"no chunk\r\n")
    framing = read(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk, b"1;" + b"x" * 70_000)
    slow = read(head + b"\r\n" + part)
    slow.fail(Reason.TIMEOUT, "too slow")
    reset = read(head + b"\r\n" + part)
    reset.cut("disconnect", Reason.RESET, "reset")
    found = [(one.failure, one.status, one.body, one.truncated) for one in (ended, cut, garbage, framing, slow, reset)]
    expected = [(None, int(status[:3]), part, word) for word in ["disconnect"] * 4 + ["time", "disconnect"]]
    assert found == expected


@pytest.mark.parametrize("status", [b"429 Too Many", b"503 Busy"])
def test_a_busy_answer_is_over_with_its_head(status: bytes) -> None:
    response = read(b"HTTP/1.1 " + status + b"\r\nContent-Length: 1000000\r\n\r\nbody")
    assert (response.is_over, response.failure, response.body, response.truncated) == (True, None, b"", "")


def test_answers_without_a_body_are_whole() -> None:
    for data in (
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        OK + b"Content-Length: 0\r\n\r\n",
    ):
        response = read(data, wanted=WANTED)
        assert (response.is_over, response.failure, response.truncated) == (True, None, "")


@pytest.mark.parametrize("size", [1, 1000, 1 << 18])
def test_a_head_has_its_limit_in_bytes_however_it_comes(size: int) -> None:
    response = Response(1000, None)
    sent, piece = 0, OK + b"X: " + b"x" * (size - 3)
    while not response.is_over and sent < 4 * HEAD_BYTES:
        response.feed(piece)
        sent, piece = sent + len(piece), b"x" * size
    assert response.failure is not None
    assert response.failure[0] is Reason.TOO_LARGE
    assert sent <= HEAD_BYTES + len(OK) + size


def test_a_head_has_its_limit_in_headers() -> None:
    header = b"A: b\r\n"
    assert read(OK + header * MOST_HEADERS + b"\r\n", ends=True).failure is None
    failed = read(OK + header * (MOST_HEADERS + 1) + b"\r\n").failure
    assert failed is not None
    assert failed[0] is Reason.TOO_LARGE


def test_a_body_right_behind_a_long_head_is_not_taken_for_head() -> None:
    long = OK + b"X: " + b"x" * (HEAD_BYTES - len(OK) - 3 - 4) + b"\r\n\r\n"
    assert len(long) == HEAD_BYTES
    assert read(long + b"y" * 200_000, most=1 << 20, ends=True).body_bytes == 200_000


def test_tiny_chunks_are_fine_and_framing_without_end_is_not() -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    honest = read(head, *[b"1\r\nx\r\n" * 1000] * 300, most=1 << 20)
    assert (honest.failure, honest.body_bytes) == (None, 300_000)
    for framing in (b"1;" + b"x" * 60 + b"\r\ny\r\n", b"1" + b" " * 200 + b"\r\ny\r\n"):
        failed = read(head, *[framing * 500] * 100, most=1 << 20)
        assert failed.failure is not None
        assert failed.failure[0] is Reason.PROTOCOL
    trailers = read(head, b"10000\r\n" + b"x" * 65536 + b"\r\n0\r\n", *[b"A: b\r\n" * 1000] * 100, most=1 << 20)
    assert trailers.failure == (Reason.PROTOCOL, "chunk extensions or trailers without end")


@pytest.mark.parametrize(
    ("headers", "body", "is_declined"),
    [
        (b"Content-Type: text/html; charset=utf-8\r\n", b"%PDF", False),
        (b"content-type:TEXT/HTML\r\n", b"", False),
        (b"Content-Type: image/png\r\n", b"<html>", True),
        (b"Content-Type: application/octet-stream\r\n", b"\n <!DOCTYPE html><p>", False),
        (b"Content-Type: application/octet-stream\r\n", b"just words", True),
        (b"Content-Type: application/octet-stream\r\nContent-Encoding: gzip\r\n", b"\x1f\x8b", True),
        (b"", b"<html>", False),
        (b"", b"just words", False),
        (b"", b"", False),
        (b"", b"\x89PNG\r\n\x1a\n\0\0", True),
        (b"Content-Encoding: gzip\r\n", b"\x1f\x8b\x08\0", False),
    ],
)
def test_only_what_is_wanted_is_downloaded(headers: bytes, body: bytes, *, is_declined: bool) -> None:
    response = read(OK + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body, wanted=WANTED)
    assert (response.is_over, response.is_declined) == (True, is_declined)
    assert response.body == (b"" if is_declined else body)
    assert read(OK + headers + b"\r\n" + body, ends=True).is_declined is False


@pytest.mark.parametrize(
    ("wanted", "content_type", "is_downloaded"),
    [
        (b"image/*", b"Image/PNG; x=y", True),
        (b"image/*", b"text/html", False),
        (b"image/*", b"imagery/png", False),
        (b"text/*", b"text/html", True),
        (b"*/*", b"video/mp4", True),
        (b"*/*", b"application/octet-stream", True),
        (b"*/*", b"", True),
        (b"application/*", b"application/octet-stream", True),
    ],
)
def test_a_wildcard_stands_for_every_subtype_or_every_type(
    wanted: bytes, content_type: bytes, *, is_downloaded: bool
) -> None:
    response = read(
        OK + b"Content-Type: %b\r\nContent-Length: 2\r\n\r\n\0\1" % content_type, wanted=frozenset({wanted})
    )
    assert (response.is_declined, response.body) == ((False, b"\0\1") if is_downloaded else (True, b""))


def test_a_wildcard_also_decides_by_the_first_bytes() -> None:
    assert is_wanted_by_start(b"application/octet-stream", frozenset({b"text/*"}), b"<html>")
    assert not is_wanted_by_start(b"application/octet-stream", frozenset({b"image/*"}), b"<html>")


def test_a_declined_body_is_not_waited_for() -> None:
    assert read(OK + b"Content-Type: video/mp4\r\nContent-Length: 1000000\r\n\r\n", wanted=WANTED).is_declined
    unlabelled = read(OK + b"\r\n", b"\0" * 511, wanted=WANTED)
    assert not unlabelled.is_over
    unlabelled.feed(b"\0")
    assert (unlabelled.is_declined, unlabelled.truncated, unlabelled.body_bytes) == (True, "", 0)
    short = read(OK + b"Content-Length: 90\r\n\r\n\0\0", wanted=WANTED, ends=True)
    assert (short.is_declined, short.truncated) == (True, "")


def test_html_is_known_by_how_it_begins() -> None:
    for start in (b"<p>", b"<a href=x>", b"\xef\xbb\xbf<HTML>", b"\r\n\t<!-- x -->\n<body>", b"<?xml ?>", b"<b>"):
        assert is_wanted_by_start(b"application/octet-stream", WANTED, start), start
    for start in (b"", b"<abbr>", b"<pre", b"text <html>", b"<html", b"{}"):
        assert not is_wanted_by_start(b"application/octet-stream", WANTED - {b"text/plain"}, start), start
    assert is_wanted(b"text/plain", frozenset({b"text/html"}), is_encoded=False) is False


# Time. The clock of an exchange stands still; `check` is told what time it is.

NOW = 1000.0
#: Large enough for all that is played here.
BUDGET = ByteBudget(1 << 30, largest_body_bytes=1 << 20, readers=100)


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.fetch.exchange.time", SimpleNamespace(monotonic=lambda: NOW))


def exchange(play: Callable[[Exchange, float], None], settings: FetchSettings, ends_in: float = 60.0) -> Response:
    async def run() -> Response:
        loop = asyncio.get_running_loop()
        found = Exchange(
            b"GET",
            Response(1 << 20, None),
            loop=loop,
            settings=settings,
            stream=None,
            ends_at=NOW + ends_in,
            sent=lambda: None,
            budget=BUDGET,
        )
        found.connected()
        play(found, NOW)
        assert found.ended.done() == found.response.is_over
        return found.response

    return asyncio.run(run())


def feed(found: Exchange, data: bytes) -> None:
    found.received(memoryview(data))


@pytest.mark.usefixtures("standing_clock")
def test_a_connection_that_is_not_made_in_time_is_given_up() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        settings = FetchSettings(connect_timeout_seconds=3)
        found = Exchange(
            b"",
            Response(1, None),
            loop=loop,
            settings=settings,
            stream=None,
            ends_at=NOW + 60,
            sent=lambda: None,
            budget=BUDGET,
        )
        found.check(NOW + 2.9)
        assert not found.ended.done()
        found.check(NOW + 3.1)
        assert found.ended.done()
        assert found.response.failure == (Reason.TIMEOUT, "no connection within 3.1 s")
        assert found.connected_at is None

    asyncio.run(run())


@pytest.mark.usefixtures("standing_clock")
def test_a_head_that_does_not_come_is_given_up() -> None:
    def play(found: Exchange, now: float) -> None:
        feed(found, OK)
        found.check(now + 4.9)
        assert not found.response.is_over
        feed(found, b"A: b\r\n")
        found.check(now + 5.1)

    failure = exchange(play, FetchSettings(header_timeout_seconds=5)).failure
    assert failure is not None
    assert failure[0] is Reason.TIMEOUT


@pytest.mark.usefixtures("standing_clock")
@pytest.mark.parametrize(("rate", "is_kept"), [(2000, True), (900, False)])
def test_a_body_keeps_its_pace_or_is_given_up(rate: int, *, is_kept: bool) -> None:
    """One tick a second; a body that goes on until time is up is kept if it came well."""
    last = 0.0

    def play(found: Exchange, now: float) -> None:
        nonlocal last
        feed(found, OK + b"\r\n")
        while not found.response.is_over:
            last += 1
            feed(found, b"x" * rate)
            found.check(now + last)

    response = exchange(play, FetchSettings(min_rate_bytes=1024), ends_in=40)
    if is_kept:
        assert (response.truncated, response.failure, last) == ("time", None, 40)
    else:
        assert response.failure is not None
        assert response.failure[0] is Reason.TIMEOUT
        assert last <= GRACE_SECONDS + WINDOW_SECONDS + 1


@pytest.mark.usefixtures("standing_clock")
def test_a_slow_beginning_is_forgiven_and_a_stall_after_much_is_kept() -> None:
    def play(found: Exchange, now: float) -> None:
        feed(found, OK + b"\r\n")
        found.check(now + GRACE_SECONDS - 1)
        feed(found, b"x" * 100_000)
        for tick in range(100):
            found.check(now + GRACE_SECONDS + 0.25 * tick)

    response = exchange(play, FetchSettings(min_rate_bytes=1024))
    assert (response.truncated, response.body_bytes) == ("time", 100_000)


@pytest.mark.usefixtures("standing_clock")
def test_the_body_of_what_is_no_page_is_waited_for_a_short_time_only() -> None:
    """However well it comes: no worker is held for as long as by a page."""
    last = 0.0

    def play(found: Exchange, now: float) -> None:
        nonlocal last
        feed(found, b"HTTP/1.1 404 No\r\nContent-Length: 1000000\r\n\r\n")
        while not found.response.is_over:
            last += 1
            feed(found, b"x" * 5000)
            found.check(now + last)

    response = exchange(play, FetchSettings())
    assert (response.failure, response.status, response.truncated) == (None, 404, "time")
    assert OTHER_BODY_SECONDS <= last <= OTHER_BODY_SECONDS + 1

    def stall(found: Exchange, now: float) -> None:
        feed(found, b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 9\r\n\r\n")
        found.check(now + 2.1)

    moved = exchange(stall, FetchSettings(), ends_in=2)
    assert (moved.failure, moved.status, moved.truncated, moved.body) == (None, 302, "time", b"")


def test_a_fault_of_ours_reaches_whoever_waits_and_leaves_nothing_open() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        told: list[dict[str, object]] = []

        def fail() -> None:
            raise IndexError

        loop.set_exception_handler(lambda _, context: told.append(context))
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = Exchange(
                b"GET",
                Response(1, None),
                loop=loop,
                settings=FetchSettings(),
                stream=None,
                ends_at=loop.time() + 60,
                sent=fail,
                budget=BUDGET,
            )
            found.connect(server.getsockname(), memoryview(bytearray(64)))
            assert found.descriptor is not None
            with pytest.raises(IndexError):
                await found.ended
        assert found.descriptor is None
        assert [type(context["exception"]) for context in told] == [IndexError]

    asyncio.run(run())


def test_time_spent_waiting_for_room_is_not_charged_to_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to a phase, nor to the pace of its body, nor to the whole."""
    now = NOW
    monkeypatch.setattr("gossamer.fetch.exchange.time", SimpleNamespace(monotonic=lambda: now))
    settings = FetchSettings(fetch_timeout_seconds=60.0, header_timeout_seconds=15.0)
    budget = ByteBudget(10 << 20, largest_body_bytes=1 << 20, readers=1, robots_bytes=0)

    async def run() -> None:
        nonlocal now
        found = Exchange(
            b"GET",
            Response(1 << 20, None),
            loop=asyncio.get_running_loop(),
            settings=settings,
            stream=None,
            ends_at=NOW + 60.0,
            sent=lambda: None,
            budget=budget,
        )
        found.connected()
        assert found.room() > 0
        now += 14.0
        budget.used_bytes = budget.limit_bytes
        assert found.room() == 0
        now += 25.0
        found.check(now)
        assert not found.ended.done()
        budget.give_back(budget.limit_bytes)
        # One second is left for the head.
        found.check(now + 0.9)
        assert not found.ended.done()
        feed(found, OK + b"Content-Length: 1000000\r\n\r\n" + bytes(900_000))
        assert found.first_byte_seconds == 14.0
        # Its pace is looked at ten seconds later; of the whole time, 14 seconds are used.
        found.check(now + 9.9)
        feed(found, bytes(50_000))
        found.check(now + 45.9)
        assert not found.ended.done()
        found.check(now + 46.1)
        assert found.ended.done()
        assert (found.response.failure, found.response.truncated) == (None, "time")

    asyncio.run(run())


def test_nobody_waits_for_room_for_longer_than_a_request_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = NOW
    monkeypatch.setattr("gossamer.fetch.exchange.time", SimpleNamespace(monotonic=lambda: now))
    budget = ByteBudget(10 << 20, largest_body_bytes=1 << 20, readers=1, robots_bytes=0)
    budget.used_bytes = budget.limit_bytes

    async def run() -> None:
        nonlocal now
        found = Exchange(
            b"GET",
            Response(1 << 20, None),
            loop=asyncio.get_running_loop(),
            settings=FetchSettings(fetch_timeout_seconds=60.0),
            stream=None,
            ends_at=NOW + 60.0,
            sent=lambda: None,
            budget=budget,
        )
        found.connected()
        assert found.room() == 0
        found.check(now + 59.9)
        assert not found.ended.done()
        found.check(now + 60.1)
        assert found.ended.done()
        assert found.response.failure is not None
        assert (found.response.failure[0], found.gave_up_waiting) == (Reason.OUR_SHORTAGE, True)

    asyncio.run(run())
