"""What a fetcher makes of the answers to its requests for robots.txt, and what it keeps of them."""

import asyncio
import gc
import gzip
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import msgspec
import pytest
import zstandard

from gossamer.config import PolitenessSettings
from gossamer.fetch import robots_cache, robots_file
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.meter import FetchType
from gossamer.fetch.robots import COPY_LIMIT_SECONDS, PARSE_LIMIT_BYTES, Access, parse
from gossamer.fetch.robots_cache import RobotsCache, Standing
from gossamer.fetch.robots_copies import Change
from gossamer.fetch.robots_file import BODY_LIMIT_BYTES
from gossamer.fetch.robots_request import RobotsLimits
from gossamer.fetch.robots_rules import Rules
from gossamer.frontier import store_clock
from gossamer.frontier.politeness import ROBOTS_TRIES
from gossamer.frontier.store_clock import StoreClock
from gossamer.records import Answer, PhaseTimes, Reason, RobotsCopy
from gossamer.url import Url, canonicalise

BACKOFF_SECONDS = 10.0
RULES = b"User-agent: *\nDisallow: /closed\nCrawl-delay: 3\n"
STORE_TIME = 1_000_000.0
NOW = 1_000.0


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's clock stands still."""
    monkeypatch.setattr(store_clock, "time", SimpleNamespace(monotonic=lambda: NOW))


def url(text: str = "http://a.test/page") -> Url:
    found = canonicalise(text)
    assert isinstance(found, Url)
    return found


def answer(status: int = 200, body: bytes = b"", truncated: str = "", **headers: str) -> Answer:
    return Answer(
        url="",
        fetched_at=0.0,
        request=b"",
        status_line=f"HTTP/1.1 {status} ".encode(),
        status=status,
        headers=tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()),
        body=body,
        truncated=truncated,
        address="192.0.2.1",
    )


def failure(reason: Reason, times: PhaseTimes = PhaseTimes()) -> Failure:  # noqa: B008 (frozen)
    return Failure(reason=reason, detail="as told", address="", times=times, was_sent=False)


class Script(Client):
    """The network's edge: gives the answers that it was told, and knows what it was asked for."""

    def __init__(self, *answers: Answer | Failure) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.ends_at: list[float | None] = []

    async def get(
        self,
        url: Url,
        *,
        max_body_bytes: int,
        media_types: frozenset[str] | None = None,
        fetch_type: FetchType = "page",
        ends_at: float | None = None,
        may_connect: Callable[[str], bool] | None = None,
    ) -> Answer | Failure:
        if may_connect is not None and not may_connect("192.0.2.1"):
            return failure(Reason.SERVER_ADDRESS)
        self.ends_at.append(ends_at)
        assert (max_body_bytes, media_types, fetch_type) == (BODY_LIMIT_BYTES, None, "robots")
        self.asked.append(url.text)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def cache_of(client: Client) -> tuple[RobotsCache, list[RobotsCopy]]:
    clock = StoreClock()
    clock.sample(STORE_TIME, asked_at=NOW, answered_at=NOW)
    saved: list[RobotsCopy] = []
    settings = PolitenessSettings(backoff_seconds=BACKOFF_SECONDS)
    cache = RobotsCache(client, clock, settings, saved.append, lambda *_: None, chance=lambda: 0.5)
    return cache, saved


def asked(
    *answers: Answer | Failure, failures: int = 0, path: str = "/page"
) -> tuple[Standing | Failure, list[RobotsCopy]]:
    cache, saved = cache_of(Script(*answers))
    before = Standing(None, 0.0, 0.0, failures)
    return asyncio.run(cache.ask(url(f"http://a.test{path}"), before, [], RobotsLimits())), saved


def standing_after(*answers: Answer | Failure, failures: int = 0, path: str = "/page") -> Standing:
    found, saved = asked(*answers, failures=failures, path=path)
    assert isinstance(found, Standing)
    assert [(copy.origin, copy.expires_at, copy.failures) for copy in saved] == [
        ("http://a.test", found.expires_at, found.failures)
    ]
    return found


def allows(cache: RobotsCache, path: str, origin: str = "http://a.test") -> bool:
    standing = cache.known(origin, origin + path)
    assert standing is not None
    assert standing.verdict is not None
    return standing.verdict.allowed


def what_is_allowed(*answers: Answer | Failure) -> tuple[bool, bool]:
    """Whether /open and /closed may be fetched, by the answer to the request."""
    cache, _ = cache_of(Script(*answers))
    assert isinstance(asyncio.run(cache.ask(url(), None, [], RobotsLimits())), Standing)
    return allows(cache, "/open"), allows(cache, "/closed")


def test_a_good_file_is_compiled_and_saved_for_a_day() -> None:
    assert what_is_allowed(answer(body=RULES)) == (True, False)
    found, saved = asked(answer(body=RULES))
    assert isinstance(found, Standing)
    assert (found.verdict is not None and found.verdict.allowed, found.crawl_delay) == (True, 3)
    (copy,) = saved
    assert (copy.access, copy.body, copy.failures) == ("parse", RULES, 0)
    assert copy.expires_at == copy.fetched_at + COPY_LIMIT_SECONDS
    assert copy.fetched_at == STORE_TIME


# A file that was good and cannot be had any more


class Days:
    """A cache whose clock is set by hours since its start, with the store's copies."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *answers: Answer | Failure,
        settings: PolitenessSettings = PolitenessSettings(backoff_seconds=BACKOFF_SECONDS),  # noqa: B008 (frozen)
    ) -> None:
        self.hours = 0.0
        self._settings = settings
        clock = StoreClock()
        clock.sample(STORE_TIME, asked_at=NOW, answered_at=NOW)
        monkeypatch.setattr(store_clock, "time", SimpleNamespace(monotonic=lambda: NOW + 3600.0 * self.hours))
        self.client = Script(*answers)
        self.stored: dict[str, RobotsCopy] = {}
        self._clock = clock
        self.cache = self.started_anew()

    def started_anew(self) -> RobotsCache:
        self.cache = RobotsCache(self.client, self._clock, self._settings, self._save, self._change, chance=lambda: 0.5)
        return self.cache

    def _save(self, copy: RobotsCopy) -> None:
        self.stored[copy.origin] = copy

    def _change(self, origin: str, change: Change) -> None:
        self.stored[origin] = msgspec.structs.replace(self.stored[origin], **change)

    def ask(self, hours: float, path: str = "/open") -> Standing:
        """As a worker does: from memory or the store, and from the origin if that has expired."""
        self.hours = hours
        address = url(f"http://a.test{path}")
        before = self.cache.known(address.origin, address.text)
        if before is None and address.origin in self.stored:
            before = asyncio.run(self.cache.remember(self.stored[address.origin], address.text))
        if before is not None and before.expires_at > self._clock.earliest():
            return before
        found = asyncio.run(self.cache.ask(address, before, [], RobotsLimits()))
        assert isinstance(found, Standing)
        return found


def permits(standing: Standing) -> bool | None:
    return None if standing.verdict is None else standing.verdict.allowed


DOWN = [answer(500), answer(503), failure(Reason.RESET), answer(body=RULES, truncated="disconnect")]


@pytest.mark.parametrize("down", DOWN)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_last_good_file_counts_for_a_day_more_while_the_server_is_down(
    monkeypatch: pytest.MonkeyPatch, down: Answer | Failure, is_restarted: bool
) -> None:
    days = Days(monkeypatch, answer(body=RULES), down)
    assert permits(days.ask(0)) is True
    for hours in (24.0, 30.0, 47.9):
        if is_restarted:
            days.started_anew()
        standing = days.ask(hours)
        assert (permits(standing), standing.crawl_delay) == (True, 3)
        assert permits(days.ask(hours, "/closed")) is False
        assert not standing.is_given_up
    assert len(days.client.asked) > 2, "it is asked for again meanwhile"
    assert permits(days.ask(48.0)) is None, "and then nothing is allowed"


def test_a_file_that_comes_again_replaces_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, answer(body=RULES), answer(500), answer(body=b"User-agent: *\nDisallow: /open\n"))
    assert permits(days.ask(0)) is True
    assert permits(days.ask(24)) is True
    standing = days.ask(26)
    assert (permits(standing), standing.failures) == (False, 0)


def test_while_an_old_file_counts_the_new_one_is_asked_for_a_few_times_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, answer(body=RULES), answer(500), settings=PolitenessSettings())
    for quarters in range(4 * 48):
        days.ask(quarters / 4)
    assert 5 <= len(days.client.asked) - 1 <= 10


@pytest.mark.parametrize("silence", [answer(429), answer(503, retry_after="60")])
def test_no_old_file_opens_an_origin_that_asks_for_silence(monkeypatch: pytest.MonkeyPatch, silence: Answer) -> None:
    days = Days(monkeypatch, answer(body=RULES), silence, answer(500))
    assert permits(days.ask(0)) is True
    assert permits(days.ask(24)) is None
    days.started_anew()
    assert permits(days.ask(24.001)) is None
    assert permits(days.ask(25)) is True, "the silence is over, and the server only down"


def test_failures_while_an_old_file_counts_do_not_give_up_an_origin_that_then_asks_for_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    down = [answer(500)] * (ROBOTS_TRIES + 1)
    days = Days(monkeypatch, answer(body=RULES), *down, answer(503, retry_after="60"), answer(body=RULES))
    days.ask(0)
    for hour in range(len(down)):
        assert permits(days.ask(24 + 3 * hour)) is True
    standing = days.ask(47)
    assert (permits(standing), standing.is_given_up) == (None, False)
    assert standing.expires_at == pytest.approx(STORE_TIME + 47 * 3600 + 60, abs=1)
    assert permits(days.ask(47.1)) is True


def test_an_old_file_that_others_displace_during_the_request_counts_from_the_next_lease_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = Days(monkeypatch, answer(body=RULES), answer(500))
    days.ask(0)
    days.hours = 24.0
    before = days.cache.known("http://a.test", "http://a.test/open")
    with monkeypatch.context() as narrow:
        narrow.setattr(robots_cache, "CACHE_BYTES", 500)
        asyncio.run(days.cache.remember(copy_of("http://b.test", 1), "/"))
    assert days.cache.known("http://a.test", "/") is None
    found = asyncio.run(days.cache.ask(url("http://a.test/open"), before, [], RobotsLimits()))
    assert isinstance(found, Standing)
    assert (permits(found), found.is_given_up) == (None, False)
    for hours in (24.1, 30.0, 47.9):
        assert permits(days.ask(hours)) is True


@pytest.mark.parametrize("nothing", [answer(404), answer(body=b"")])
def test_that_there_were_no_rules_permits_nothing_while_the_server_is_down(
    monkeypatch: pytest.MonkeyPatch, nothing: Answer
) -> None:
    days = Days(monkeypatch, nothing, answer(500))
    assert permits(days.ask(0)) is True
    assert permits(days.ask(24)) is None


def test_what_was_saved_says_the_same_when_it_is_read_back() -> None:
    _, saved = asked(answer(body=RULES))
    cache, _ = cache_of(Script(answer(500)))
    assert cache.known("http://a.test", "http://a.test/open") is None
    again = asyncio.run(cache.remember(saved[0], "http://a.test/closed"))
    assert again == cache.known("http://a.test", "http://a.test/closed")
    assert (allows(cache, "/open"), allows(cache, "/closed")) == (True, False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_file_that_is_refused_allows_everything(status: int) -> None:
    assert what_is_allowed(answer(status)) == (True, True)


def test_a_failing_file_forbids_everything_and_is_asked_for_later_and_later() -> None:
    holds = []
    for failures in range(ROBOTS_TRIES - 1):
        standing = standing_after(answer(503), failures=failures)
        assert (standing.verdict, standing.failures, standing.is_given_up) == (None, failures + 1, False)
        holds.append(standing.expires_at - STORE_TIME)
    assert holds == [BACKOFF_SECONDS, 2 * BACKOFF_SECONDS, 4 * BACKOFF_SECONDS]


def test_after_too_many_failures_the_origin_is_given_up_for_a_day() -> None:
    standing = standing_after(answer(500), failures=ROBOTS_TRIES - 1)
    assert standing.is_given_up
    assert standing.expires_at - STORE_TIME == COPY_LIMIT_SECONDS


@pytest.mark.parametrize(("value", "hold"), [("7", 7), ("0", 1), ("soon", BACKOFF_SECONDS), ("999999", 86_400)])
def test_a_server_that_asks_for_a_pause_gets_it_within_our_bounds(value: str, hold: float) -> None:
    standing = standing_after(answer(429, retry_after=value))
    assert standing.verdict is None
    assert standing.expires_at - STORE_TIME == hold


@pytest.mark.parametrize("reason", [Reason.DNS, Reason.CONNECT, Reason.TLS, Reason.BLOCKED_ADDRESS])
def test_an_origin_that_cannot_be_reached_at_all_has_said_nothing_about_robots(reason: Reason) -> None:
    assert asked(failure(reason)) == (failure(reason), [])


def test_a_time_out_counts_as_unreached_only_before_the_connection_stands() -> None:
    assert asked(failure(Reason.TIMEOUT)) == (failure(Reason.TIMEOUT), [])
    assert standing_after(failure(Reason.TIMEOUT, PhaseTimes(connect=0.1))).verdict is None


def test_our_own_shortage_is_never_charged_to_an_origin() -> None:
    moved = answer(301, location="/elsewhere")
    assert asked(moved, failure(Reason.OUR_SHORTAGE)) == (failure(Reason.OUR_SHORTAGE), [])


@pytest.mark.parametrize("reason", [Reason.RESET, Reason.PROTOCOL, Reason.TOO_LARGE])
def test_no_whole_answer_is_no_permission(reason: Reason) -> None:
    assert standing_after(failure(reason)).verdict is None


@pytest.mark.parametrize("truncated", ["time", "disconnect"])
def test_half_a_file_is_no_permission(truncated: str) -> None:
    assert standing_after(answer(body=RULES, truncated=truncated)).verdict is None


def test_redirects_are_followed_across_hosts_five_times() -> None:
    def chain(hops: int) -> Sequence[Answer]:
        return [*(answer(302, location=f"http://b{hop}.test/r") for hop in range(hops)), answer(body=RULES)]

    client = Script(*chain(5))
    cache, saved = cache_of(client)
    assert isinstance(asyncio.run(cache.ask(url(), None, [], RobotsLimits())), Standing)
    assert not allows(cache, "/closed")
    assert client.asked == ["http://a.test/robots.txt", *(f"http://b{hop}.test/r" for hop in range(5))]
    # The rules are those of the origin that was asked first.
    assert [copy.origin for copy in saved] == ["http://a.test"]
    assert what_is_allowed(*chain(6)) == (True, True)


@pytest.mark.parametrize(
    "given",
    [
        [answer(body=RULES)],
        [answer(404)],
        [answer(503, retry_after="7")],
        [answer(301, location="/a"), answer(302, location="http://b.test/c"), answer(200, body=RULES)],
        [answer(301, location="/a"), answer(500)],
        [answer(301, location="ftp://a.test/")],
        [answer(body=RULES, truncated="time")],
        [answer(301, location="/a"), failure(Reason.RESET)],
        [answer(301, location="/a"), failure(Reason.OUR_SHORTAGE)],
        [failure(Reason.CONNECT)],
    ],
)
def test_whatever_was_answered_on_the_way_is_handed_over_as_it_came(given: list[Answer | Failure]) -> None:
    cache, _ = cache_of(Script(*given))
    answers: list[Answer] = []
    asyncio.run(cache.ask(url(), None, answers, RobotsLimits()))
    assert answers == [one for one in given if isinstance(one, Answer)]


def test_a_loop_of_redirects_is_a_missing_file() -> None:
    client = Script(answer(301, location="/robots.txt"))
    cache, _ = cache_of(client)
    assert isinstance(asyncio.run(cache.ask(url(), None, [], RobotsLimits())), Standing)
    assert allows(cache, "/closed")
    assert len(client.asked) == 1


@pytest.mark.parametrize("location", ["ftp://a.test/robots.txt", "http://", ""])
def test_a_redirect_to_nowhere_is_no_permission(location: str) -> None:
    assert standing_after(answer(301, location=location)).verdict is None


def test_a_redirect_to_a_blocked_address_is_no_permission() -> None:
    moved = answer(301, location="http://169.254.169.254/robots.txt")
    assert standing_after(moved, failure(Reason.BLOCKED_ADDRESS)).verdict is None


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(RULES, mtime=0)),
        ("gzip", gzip.compress(b"# first\n", mtime=0) + gzip.compress(RULES, mtime=0)),
        ("gzip", RULES),
        ("br", brotli.compress(RULES)),
        ("zstd", zstandard.compress(RULES)),
        ("zstd", zstandard.compress(b"# first\n") + zstandard.compress(RULES)),
    ],
)
def test_content_encodings_are_undone(coding: str, body: bytes) -> None:
    assert what_is_allowed(answer(body=body, content_encoding=coding)) == (True, False)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(RULES, mtime=0)[:-9]),
        ("gzip", gzip.compress(RULES, mtime=0)[:20] + b"\xff" * 20),
        ("br", brotli.compress(RULES)[:-3]),
        ("br", b"\xff" * 40),
        ("zstd", b"(\xb5/\xfd" + b"\xff" * 40),
        ("rot13", RULES),
    ],
)
def test_a_body_that_cannot_be_decoded_is_no_permission(coding: str, body: bytes) -> None:
    assert standing_after(answer(body=body, content_encoding=coding)).verdict is None


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_of_a_bomb_the_part_that_is_parsed_is_kept_and_no_rule_is_cut_in_half(coding: str) -> None:
    line = b"Disallow: /closed/here\n"
    text = b"User-agent: *\n" + line * (20 * BODY_LIMIT_BYTES // len(line))
    pack = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstandard.compress}[coding]
    found, saved = asked(answer(body=pack(text), content_encoding=coding))
    assert isinstance(found, Standing)
    assert saved[0].body.endswith(line.rstrip())
    assert PARSE_LIMIT_BYTES - len(line) <= len(saved[0].body) <= PARSE_LIMIT_BYTES


@pytest.mark.parametrize("given", [answer(body=RULES), answer(500)])
def test_what_an_origin_asked_for_outlives_its_robots_txt(given: Answer) -> None:
    cache, saved = cache_of(Script(given))
    before = Standing(None, 0.0, 0.0, 0, busy_until=STORE_TIME + 9, busy_answers=2)
    found = asyncio.run(cache.ask(url(), before, [], RobotsLimits()))
    assert isinstance(found, Standing)
    assert (found.busy_until, found.busy_answers) == (STORE_TIME + 9, 2)
    assert [(copy.busy_until, copy.busy_answers) for copy in saved] == [(STORE_TIME + 9, 2)]


def test_a_busy_answer_counts_for_the_next_url_of_its_origin() -> None:
    cache, _ = cache_of(Script(answer(body=RULES)))
    asyncio.run(cache.ask(url(), None, [], RobotsLimits()))
    cache.note_busy("http://a.test", STORE_TIME + 9, 2)
    known = cache.known("http://a.test", "http://a.test/other")
    assert known is not None
    assert (known.busy_until, known.busy_answers) == (STORE_TIME + 9, 2)


def test_a_copy_says_the_same_as_the_whole_file_line_by_line() -> None:
    """Also if lines of junk stand before the rules, which are not counted among what is parsed."""
    junk = b"#" + b"x" * 700_000 + b"\n" + b"y" * 600_000 + b"\n"
    found, saved = asked(answer(body=junk + b"User-agent: *\nDisallow: /page\n"))
    assert isinstance(found, Standing)
    assert found.verdict is not None
    assert (found.verdict.allowed, found.verdict.line) == (False, 4)
    assert len(saved[0].body) < 100
    cache, _ = cache_of(Script(answer(500)))
    assert asyncio.run(cache.remember(saved[0], "http://a.test/page")) == found


LONG_RULES = b"User-agent: *\n" + b"".join(b"Disallow: /closed/%d\n" % number for number in range(2_000))


@pytest.mark.parametrize(
    "given", [answer(body=LONG_RULES), answer(body=gzip.compress(LONG_RULES), content_encoding="gzip")]
)
def test_a_long_file_is_read_in_a_thread_and_a_short_one_at_once(
    given: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def compile_and_note(body: bytes) -> Rules:
        threads.append(threading.current_thread().name.partition("_")[0])
        return parse(body).for_agent("Gossamer")

    monkeypatch.setattr(robots_file, "compiled", compile_and_note)
    cache, saved = cache_of(Script(answer(body=RULES), given))

    async def run() -> None:
        await cache.ask(url(), None, [], RobotsLimits())
        await cache.ask(url("http://b.test/closed/77"), None, [], RobotsLimits())
        for copy in saved:
            await cache.remember(copy, "/page")

    asyncio.run(run())
    main = threading.current_thread().name
    assert threads == [main, "robots", main, "robots"]
    assert not allows(cache, "/closed/77", "http://b.test")
    cache.close()


def test_many_long_files_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = most = 0

    def compile_slowly(body: bytes) -> Rules:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        time.sleep(0.002)
        reading -= 1
        return parse(body[:100]).for_agent("Gossamer")

    monkeypatch.setattr(robots_file, "compiled", compile_slowly)
    cache, _ = cache_of(Script(answer(body=LONG_RULES)))

    async def run() -> None:
        await asyncio.gather(
            *(cache.ask(url(f"http://s{number}.test/"), None, [], RobotsLimits()) for number in range(20))
        )

    asyncio.run(run())
    assert most == 1
    cache.close()


def copy_of(name: str, rules: int) -> RobotsCopy:
    lines = "".join(f"Disallow: /{number}\n" for number in range(rules))
    return RobotsCopy(
        origin=name, access=Access.PARSE.value, body=f"User-agent: *\n{lines}".encode(), expires_at=STORE_TIME
    )


def test_memory_is_bounded_by_bytes_and_what_was_used_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "CACHE_BYTES", 6_000)
    cache, _ = cache_of(Script(answer()))

    def known(names: str) -> str:
        return "".join(name for name in names if cache.known(name, "/"))

    def remember(name: str, rules: int) -> None:
        assert asyncio.run(cache.remember(copy_of(name, rules), "/")).verdict is not None

    for name in "abc":
        remember(name, 1)
    assert known("cba") == "cba"
    remember("d", 6)
    assert known("abcd") == "abd"
    # A file that is larger than the cache is judged by, and not kept.
    remember("e", 100)
    assert known("abcde") == ""
    remember("f", 1)
    assert known("abcdef") == "f"


def test_no_file_is_larger_than_the_cache() -> None:
    for body in LARGEST_FILES.values():
        assert parse(body).for_agent("Gossamer").size_bytes < robots_cache.CACHE_BYTES


def _filled(line: bytes) -> bytes:
    """As many rules as are parsed, each another one, for both readings."""
    head = b"User-agent: *\nUser-agent Gossamer\n"
    lines = b"".join(line % (number, number) for number in range(60_000))
    return (head + lines)[: PARSE_LIMIT_BYTES - 1].rpartition(b"\n")[0]


LARGEST_FILES = {
    "literals": _filled(b"disallow:%.0x%x\n"),
    "two readings": _filled(b"disallow:%.0x%x x\n"),
    "wildcards": _filled(b"disallow:%x*%x\n")[:150_000],
    "anchored": _filled(b"disallow:/%.0x%x$\n")[:150_000],
    "queries": _filled(b"disallow:/?%x/%x\n")[:150_000],
    "pieces": _filled(b"disallow:" + b"*a" * 50 + b"%x%x\n"),
    "long": _filled(b"disallow:/" + b"x" * 4_000 + b"%x%x*\n"),
    "too long": _filled(b"disallow:/" + b"x*" * 8_000 + b"%x%x\n"),
}


@pytest.mark.parametrize("kind", LARGEST_FILES)
def test_what_rules_are_said_to_take_is_what_they_take(kind: str) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        rules = parse(LARGEST_FILES[kind]).for_agent("Gossamer")
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken_bytes <= rules.size_bytes <= 2 * taken_bytes + 1_000
