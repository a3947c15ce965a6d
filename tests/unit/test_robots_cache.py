"""What a fetcher makes of the answers to its requests for robots.txt, and what it keeps of them."""

import asyncio
import gzip
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import pytest
import zstandard

from gossamer.config import PolitenessSettings
from gossamer.fetch import robots_cache
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.meter import FetchType
from gossamer.fetch.robots import COPY_LIMIT_SECONDS, Access
from gossamer.fetch.robots_cache import RobotsCache, Standing
from gossamer.fetch.robots_request import BODY_LIMIT_BYTES, RobotsLimits
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


def allows(standing: Standing | Failure) -> bool:
    assert isinstance(standing, Standing)
    assert standing.verdict is not None
    return standing.verdict.allowed


def test_a_good_file_is_compiled_and_saved_for_a_day() -> None:
    found, saved = asked(answer(body=RULES), path="/open")
    assert allows(found)
    assert not allows(standing_after(answer(body=RULES), path="/closed"))
    assert isinstance(found, Standing)
    assert found.crawl_delay == 3
    (copy,) = saved
    assert (copy.access, copy.body, copy.failures) == ("parse", RULES, 0)
    assert copy.expires_at == copy.fetched_at + COPY_LIMIT_SECONDS
    assert copy.fetched_at == STORE_TIME


def test_what_was_saved_says_the_same_when_it_is_read_back() -> None:
    _, saved = asked(answer(body=RULES))
    cache, _ = cache_of(Script(answer(500)))
    assert cache.known("http://a.test", "http://a.test/open") is None
    again = cache.remember(saved[0], "http://a.test/open")
    assert cache.known("http://a.test", "http://a.test/open") == again
    closed = cache.known("http://a.test", "http://a.test/closed")
    assert closed is not None
    assert (allows(again), allows(closed)) == (True, False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_file_that_is_refused_allows_everything(status: int) -> None:
    assert allows(standing_after(answer(status), path="/closed"))


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
    found = asyncio.run(cache.ask(url("http://a.test/closed"), None, [], RobotsLimits()))
    assert not allows(found)
    assert client.asked == ["http://a.test/robots.txt", *(f"http://b{hop}.test/r" for hop in range(5))]
    # The rules are those of the origin that was asked first.
    assert [copy.origin for copy in saved] == ["http://a.test"]
    assert allows(standing_after(*chain(6), path="/closed"))


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
    assert allows(asyncio.run(cache.ask(url("http://a.test/closed"), None, [], RobotsLimits())))
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
    given = answer(body=body, content_encoding=coding)
    assert [allows(standing_after(given, path=path)) for path in ("/open", "/closed")] == [True, False]


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
def test_a_bomb_is_read_up_to_the_limit_and_no_rule_is_cut_in_half(coding: str) -> None:
    line = b"Disallow: /closed/here\n"
    text = b"User-agent: *\n" + line * (20 * BODY_LIMIT_BYTES // len(line))
    pack = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstandard.compress}[coding]
    found, saved = asked(answer(body=pack(text), content_encoding=coding))
    assert isinstance(found, Standing)
    assert saved[0].body.endswith(line.rstrip())
    assert BODY_LIMIT_BYTES - len(line) <= len(saved[0].body) < BODY_LIMIT_BYTES


@pytest.mark.parametrize("given", [answer(body=RULES), answer(500)])
def test_what_an_origin_asked_for_outlives_its_robots_txt(given: Answer) -> None:
    cache, saved = cache_of(Script(given))
    before = Standing(None, 0.0, 0.0, 0, busy_until=STORE_TIME + 9, busy_answers=2)
    found = asyncio.run(cache.ask(url(), before, [], RobotsLimits()))
    assert isinstance(found, Standing)
    assert [(known.busy_until, known.busy_answers) for known in (found, *saved)] == [(STORE_TIME + 9, 2)] * 2


def test_a_busy_answer_counts_for_the_next_url_of_its_origin() -> None:
    cache, _ = cache_of(Script(answer(body=RULES)))
    asyncio.run(cache.ask(url(), None, [], RobotsLimits()))
    cache.note_busy("http://a.test", STORE_TIME + 9, 2)
    known = cache.known("http://a.test", "http://a.test/other")
    assert known is not None
    assert (known.busy_until, known.busy_answers) == (STORE_TIME + 9, 2)


def test_memory_is_bounded_by_origins_and_by_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "ORIGINS_KEPT", 3)
    monkeypatch.setattr(robots_cache, "RULES_KEPT", 10)
    cache, _ = cache_of(Script(answer()))

    def copy(name: str, rules: int) -> RobotsCopy:
        lines = "".join(f"Disallow: /{number}\n" for number in range(rules))
        return RobotsCopy(
            origin=name, access=Access.PARSE.value, body=f"User-agent: *\n{lines}".encode(), expires_at=STORE_TIME
        )

    for name in ("a", "b", "c"):
        cache.remember(copy(name, 1), "http://a.test/")
    assert cache.known("a", "http://a.test/") is not None
    cache.remember(copy("d", 1), "http://a.test/")
    assert [name for name in "abcd" if cache.known(name, "http://a.test/")] == ["a", "c", "d"]
    cache.remember(copy("e", 9), "http://a.test/")
    assert [name for name in "abcde" if cache.known(name, "http://a.test/")] == ["d", "e"]
    # One file beyond the limit is kept as long as it is the latest.
    cache.remember(copy("f", 100), "http://a.test/")
    assert [name for name in "abcdef" if cache.known(name, "http://a.test/")] == ["f"]
    cache.remember(copy("g", 1), "http://a.test/")
    assert [name for name in "abcdefg" if cache.known(name, "http://a.test/")] == ["g"]
