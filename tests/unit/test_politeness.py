"""When a site may be asked next, and where a URL goes: every line of the table, with time and chance as numbers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.config import PolitenessSettings
from gossamer.frontier.politeness import (
    COURSES,
    LONGEST_HOLD_SECONDS,
    Course,
    Decision,
    decide,
    retry_after_seconds,
    robots_hold,
)
from gossamer.records import Destination, Lease, Reason, Result, SiteClock

DAY = 24 * 3600.0
ENDED_AT = 1_000_000.0
#: Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110.
WALL_NOW = 784_111_777.0
SETTINGS = PolitenessSettings(delay_seconds=70.0, backoff_seconds=30.0, max_failures=12, max_attempts=3)
PASSING = sorted(reason for reason, course in COURSES.items() if course is Course.PASSING)
REFUSED = sorted(reason for reason, course in COURSES.items() if course is Course.REFUSED)


def lease(*, attempt: int = 0, failures: int = 0, crawl_delay: float = 0.0, last_request_at: float = 500.0) -> Lease:
    return Lease(
        number=1,
        slot=0,
        epoch=1,
        url="https://example.org/",
        site="example.org",
        fingerprint=1,
        depth=0,
        hops=0,
        is_seed=False,
        attempt=attempt,
        returned=0,
        clock=SiteClock(last_request_at, crawl_delay, failures),
    )


def decided(
    of: Lease,
    reason: Reason,
    *,
    status: int | None = None,
    retry_after: bytes | None = None,
    was_sent: bool = True,
    chance: float = 0.5,
    settings: PolitenessSettings = SETTINGS,
) -> Decision:
    return decide(
        of,
        reason,
        status=status,
        retry_after=retry_after,
        was_sent=was_sent,
        ended_at=ENDED_AT,
        wall_now=WALL_NOW,
        chance=chance,
        settings=settings,
    )


# What is done, and what is final


@pytest.mark.parametrize(
    ("reason", "status", "destination", "result"),
    [
        (Reason.PAGE, 200, Destination.PAGE, Result.DONE),
        (Reason.REDIRECT, 301, Destination.OUTCOME, Result.DONE),
        (Reason.STATUS, 204, Destination.OUTCOME, Result.DROPPED),
        (Reason.STATUS, 304, Destination.OUTCOME, Result.DROPPED),
        (Reason.STATUS, 302, Destination.OUTCOME, Result.DROPPED),
        (Reason.STATUS, 403, Destination.OUTCOME, Result.DROPPED),
        (Reason.STATUS, 404, Destination.OUTCOME, Result.DROPPED),
        (Reason.MEDIA_TYPE, 200, Destination.OUTCOME, Result.DROPPED),
        (Reason.TOO_LARGE, None, Destination.OUTCOME, Result.DROPPED),
    ],
)
def test_an_answer_settles_the_url_and_forgives_the_site(
    reason: Reason, status: int | None, destination: Destination, result: Result
) -> None:
    decision = decided(lease(failures=11), reason, status=status)
    assert decision == Decision(destination, result, reason, ENDED_AT + 70.0, SiteClock(ENDED_AT, 0.0, 0))


def test_a_crawl_delay_raises_the_gap_and_never_lowers_it() -> None:
    assert decided(lease(crawl_delay=100.0), Reason.PAGE).not_before == ENDED_AT + 100.0
    assert decided(lease(crawl_delay=10.0), Reason.PAGE).not_before == ENDED_AT + 70.0
    assert decided(lease(crawl_delay=10.0), Reason.PAGE).clock == SiteClock(ENDED_AT, 10.0, 0)


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refusal_that_sent_nothing_drops_the_url_and_leaves_the_site_alone(reason: Reason) -> None:
    of = lease(failures=3, crawl_delay=5.0)
    assert decided(of, reason, was_sent=False) == Decision(
        Destination.OUTCOME, Result.DROPPED, reason, 0.0, of.clock, None
    )


@pytest.mark.parametrize("reason", [Reason.CRAWL_DELAY, Reason.BLOCKED_SITE])
def test_a_rule_about_the_whole_site_drops_it(reason: Reason) -> None:
    decision = decided(lease(), reason, was_sent=False)
    assert (decision.result, decision.dropped_site) == (Result.DROPPED, reason)


# What passes


@pytest.mark.parametrize("reason", PASSING)
def test_a_passing_failure_goes_to_the_tail_and_holds_the_site(reason: Reason) -> None:
    decision = decided(lease(failures=2), reason)
    clock = SiteClock(ENDED_AT, 0.0, 3)
    assert decision == Decision(Destination.TAIL, Result.RETRY, reason, ENDED_AT + 120.0, clock)


def test_every_failure_of_the_wire_is_a_passing_one() -> None:
    assert set(PASSING) == {"dns", "connect", "tls", "timeout", "reset", "protocol"}


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504, 520, 599, 999])
def test_a_server_that_fails_is_asked_again(status: int) -> None:
    decision = decided(lease(), Reason.STATUS, status=status)
    assert (decision.destination, decision.clock.failures) == (Destination.TAIL, 1)


@pytest.mark.parametrize(("attempt", "result"), [(0, Result.RETRY), (1, Result.RETRY), (2, Result.DROPPED)])
def test_a_url_is_tried_as_often_as_is_set_and_then_dropped(attempt: int, result: Result) -> None:
    decision = decided(lease(attempt=attempt), Reason.TIMEOUT)
    assert (decision.result, decision.reason, decision.dropped_site) == (result, Reason.TIMEOUT, None)
    assert decision.clock.failures == 1, "the last attempt is charged too"


def test_a_retry_after_of_a_server_that_is_not_busy_counts_for_nothing() -> None:
    assert decided(lease(), Reason.STATUS, status=500, retry_after=b"3600").not_before == ENDED_AT + 70.0


def test_a_name_that_does_not_resolve_holds_the_site_though_nothing_was_sent() -> None:
    decision = decided(lease(failures=3), Reason.DNS, was_sent=False)
    assert decision.not_before == ENDED_AT + 240.0
    assert decision.clock == SiteClock(500.0, 0.0, 4)


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.BUSY])
def test_a_site_that_fails_too_often_in_a_row_is_dropped_with_its_url(reason: Reason) -> None:
    assert decided(lease(failures=10), reason).dropped_site is None
    decision = decided(lease(failures=11), reason)
    assert (decision.destination, decision.result, decision.reason, decision.dropped_site) == (
        Destination.OUTCOME,
        Result.DROPPED,
        reason,
        Reason.SITE_FAILING,
    )


# What is busy


def test_a_busy_site_gets_its_url_back_at_the_head_however_often_it_was_tried() -> None:
    decision = decided(lease(attempt=99), Reason.BUSY, status=503, retry_after=b"3600")
    clock = SiteClock(ENDED_AT, 0.0, 1)
    assert decision == Decision(Destination.HEAD, Result.RETRY, Reason.BUSY, ENDED_AT + 3600.0, clock)


@pytest.mark.parametrize(
    ("retry_after", "hold"),
    [(b"5", 70.0), (b"0", 70.0), (b"99999999", DAY), (b"soon", 240.0), (b"", 240.0), (None, 240.0)],
)
def test_a_busy_site_is_held_as_it_asks_within_bounds_else_by_back_off(retry_after: bytes | None, hold: float) -> None:
    assert decided(lease(failures=3), Reason.BUSY, retry_after=retry_after).not_before == ENDED_AT + hold


@pytest.mark.parametrize(
    ("failures", "chance", "hold"),
    [(3, 0.0, 120.0), (3, 0.5, 240.0), (3, 1.0, 360.0), (4, 0.5, 480.0), (0, 0.0, 70.0), (11, 1.0, DAY)],
)
def test_the_back_off_doubles_and_is_spread_by_chance(failures: int, chance: float, hold: float) -> None:
    assert decided(lease(failures=failures), Reason.BUSY, chance=chance).not_before == ENDED_AT + hold


# What is ours


@pytest.mark.parametrize("reason", [Reason.OUR_SHORTAGE, Reason.STOPPED])
def test_what_is_our_own_fault_is_charged_to_nobody(reason: Reason) -> None:
    of = lease(failures=11, attempt=2)
    assert decided(of, reason, was_sent=False) == Decision(Destination.HEAD, Result.RETRY, reason, 0.0, of.clock)


def test_a_request_that_we_broke_off_still_opens_no_gap() -> None:
    decision = decided(lease(failures=1), Reason.STOPPED, was_sent=True)
    assert (decision.not_before, decision.clock) == (ENDED_AT + 70.0, SiteClock(ENDED_AT, 0.0, 1))


def test_the_table_has_every_reason_with_which_a_lease_can_end() -> None:
    of_candidates = {Reason.NOT_A_URL, Reason.SCHEME, Reason.TOO_LONG, Reason.SCOPE}
    of_the_store = {Reason.NEW, Reason.SEEN, Reason.SITE_DROPPED, Reason.SITE_FAILING}
    of_the_store |= {Reason.QUEUE_FULL, Reason.SITE_FULL, Reason.PATH_VARIANTS}
    of_the_parser = {Reason.PARSE_CRASH}
    assert set(COURSES) == set(Reason) - of_candidates - of_the_store - of_the_parser


@given(
    reason=st.sampled_from(list(COURSES)),
    status=st.none() | st.integers(100, 999),
    retry_after=st.none() | st.binary(max_size=40) | st.integers(-5, 10**12).map(lambda n: str(n).encode()),
    failures=st.integers(0, 10_000),
    attempt=st.integers(0, 200),
    delay=st.floats(0, 86400),
    crawl_delay=st.floats(0, 86400),
    backoff=st.floats(0.01, 3600),
    chance=st.floats(0, 1),
)
def test_a_request_always_opens_at_least_the_gap_and_at_most_a_day_more(
    *,
    reason: Reason,
    status: int | None,
    retry_after: bytes | None,
    failures: int,
    attempt: int,
    delay: float,
    crawl_delay: float,
    backoff: float,
    chance: float,
) -> None:
    decision = decided(
        lease(attempt=attempt, failures=failures, crawl_delay=crawl_delay),
        reason,
        status=status,
        retry_after=retry_after,
        chance=chance,
        settings=PolitenessSettings(delay_seconds=delay, backoff_seconds=backoff),
    )
    gap = max(delay, crawl_delay)
    assert ENDED_AT + gap <= decision.not_before <= ENDED_AT + max(gap, LONGEST_HOLD_SECONDS)
    assert (decision.clock.last_request_at, decision.clock.crawl_delay_seconds) == (ENDED_AT, crawl_delay)
    assert (decision.result is Result.RETRY) == (decision.destination in {Destination.HEAD, Destination.TAIL})
    if decision.dropped_site is not None:
        assert decision.destination is Destination.OUTCOME


# Robots


def test_a_robots_txt_that_does_not_come_is_asked_for_ever_more_rarely() -> None:
    assert [robots_hold(failures, 0.5, SETTINGS) for failures in range(4)] == [30.0, 60.0, 120.0, 240.0]
    assert robots_hold(10**9, 1.0, SETTINGS) == DAY


# Retry-After


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"120", 120.0),
        (b" 120\t", 120.0),
        (b"0", 1.0),
        (b"000", 1.0),
        (b"00000000120", 120.0),
        (b"86400", DAY),
        (b"86401", DAY),
        (b"315360000", DAY),
        (b"9" * 1_000_000, DAY),
        (b"Sun, 06 Nov 1994 08:51:37 GMT", 120.0),
        (b"Sunday, 06-Nov-94 08:51:37 GMT", 120.0),
        (b"Sun Nov  6 08:51:37 1994", 120.0),
        (b"Sun, 06 Nov 1994 08:49:37 GMT", 1.0),
        (b"Sun, 06 Nov 1983 08:49:37 GMT", 1.0),
        (b"Sat, 06 Nov 2004 08:49:37 GMT", DAY),
    ],
)
def test_retry_after_is_read_in_all_its_forms_and_kept_within_bounds(value: bytes, seconds: float) -> None:
    assert retry_after_seconds(value, WALL_NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"-120",
        b"+120",
        b"1.5",
        b"120, 120",
        b"120s",
        b"soon",
        b"Sun, 06 Nov",
        b"Sun, 99 Foo 1994 99:99:99 GMT",
        "١٢٠".encode(),
        b"\xb2",
        b"\x00120",
        b"a" * 1_000_000,
        b"Sun, 06 Nov 1994 08:51:37 GMT" + b" " * 100 + b"x",
        b"Sun, 06 Nov 99999999 08:51:37 GMT",
    ],
)
def test_a_retry_after_that_says_nothing_is_ignored(value: bytes) -> None:
    assert retry_after_seconds(value, WALL_NOW) is None


@given(st.binary(max_size=70) | st.text("0123456789 :,-+SunNovGMT", max_size=40).map(str.encode))
@example(b"0 0 0 0 0")
@example(b"Sun, 06 Nov 1994 08:51:37 +999999999999")
def test_no_retry_after_raises_or_leaves_the_bounds(value: bytes) -> None:
    seconds = retry_after_seconds(value, WALL_NOW)
    assert seconds is None or 1.0 <= seconds <= DAY
