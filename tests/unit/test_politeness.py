"""When a site may be asked next, and where a URL goes: every line of the table, with time and chance as numbers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.config import PolitenessSettings
from gossamer.frontier.politeness import (
    COURSES,
    HELD_IN_A_ROW,
    LONGEST_HOLD_SECONDS,
    Course,
    Decision,
    busy_hold,
    closed_seconds,
    decide,
    held_seconds,
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
BACK = {Destination.HEAD, Destination.LATER, Destination.TAIL}
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
    is_given_up: bool = False,
    was_sent: bool = True,
    chance: float = 0.5,
    settings: PolitenessSettings = SETTINGS,
) -> Decision:
    return decide(
        of,
        reason,
        status=status,
        is_given_up=is_given_up,
        was_sent=was_sent,
        ended_at=ENDED_AT,
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


def test_a_rule_about_the_whole_site_drops_it() -> None:
    decision = decided(lease(), Reason.BLOCKED_SITE, was_sent=False)
    assert (decision.result, decision.dropped_site) == (Result.DROPPED, Reason.BLOCKED_SITE)


def test_too_long_a_crawl_delay_of_one_origin_drops_the_url_and_not_the_site() -> None:
    decision = decided(lease(), Reason.CRAWL_DELAY, was_sent=False)
    assert (decision.result, decision.dropped_site) == (Result.DROPPED, None)


# What passes


@pytest.mark.parametrize("reason", PASSING)
@pytest.mark.parametrize("failures", [0, 1])
def test_a_first_failure_of_a_url_goes_to_the_tail_and_costs_its_site_the_gap(reason: Reason, failures: int) -> None:
    decision = decided(lease(failures=failures), reason)
    clock = SiteClock(ENDED_AT, 0.0, failures + 1)
    assert decision == Decision(Destination.TAIL, Result.RETRY, reason, ENDED_AT + 70.0, clock)


@pytest.mark.parametrize(
    ("attempt", "failures", "hold"),
    [
        (1, 1, 90.0),  # the same URL twice, and nothing else in between
        (1, 0, 70.0),  # another one was answered in between
        (1, 2, 180.0),  # the third in a row
        (0, 1, 70.0),
    ],
)
def test_a_site_backs_off_when_it_has_nothing_else_or_after_three_failures_in_a_row(
    attempt: int, failures: int, hold: float
) -> None:
    assert decided(lease(attempt=attempt, failures=failures), Reason.TIMEOUT, chance=1.0).not_before == ENDED_AT + hold


@pytest.mark.parametrize("reason", PASSING)
def test_the_third_failure_in_a_row_goes_to_the_tail_and_holds_the_site(reason: Reason) -> None:
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


def test_a_name_that_does_not_resolve_holds_the_site_though_nothing_was_sent() -> None:
    decision = decided(lease(failures=3), Reason.DNS, was_sent=False)
    assert decision.not_before == ENDED_AT + 240.0
    assert decision.clock == SiteClock(500.0, 0.0, 4)


def test_a_site_that_fails_too_often_in_a_row_is_dropped_with_its_url() -> None:
    assert decided(lease(failures=10), Reason.TIMEOUT).dropped_site is None
    decision = decided(lease(failures=11), Reason.TIMEOUT)
    assert (decision.destination, decision.result, decision.reason, decision.dropped_site) == (
        Destination.OUTCOME,
        Result.DROPPED,
        Reason.TIMEOUT,
        Reason.SITE_FAILING,
    )


# What is busy


@pytest.mark.parametrize("failures", [0, 11])
def test_a_busy_answer_costs_the_site_its_gap_and_no_failure_and_the_url_no_attempt(failures: int) -> None:
    decision = decided(lease(attempt=99, failures=failures), Reason.BUSY, status=503)
    clock = SiteClock(ENDED_AT, 0.0, failures)
    assert decision == Decision(Destination.LATER, Result.RETRY, Reason.BUSY, ENDED_AT + 70.0, clock)


def test_an_origin_that_is_given_up_drops_its_urls_and_not_its_site() -> None:
    decision = decided(lease(), Reason.BUSY, is_given_up=True)
    assert (decision.destination, decision.result, decision.dropped_site) == (
        Destination.OUTCOME,
        Result.DROPPED,
        None,
    )


def test_a_url_of_an_origin_that_was_given_up_before_costs_its_site_no_time() -> None:
    decision = decided(lease(), Reason.BUSY, is_given_up=True, was_sent=False)
    assert (decision.result, decision.not_before) == (Result.DROPPED, 0.0)


@pytest.mark.parametrize(
    ("retry_after", "hold"),
    [(b"5", 5.0), (b"0", 1.0), (b"99999999", DAY), (b"soon", 240.0), (b"", 240.0), (None, 240.0)],
)
def test_a_busy_origin_is_held_as_it_asks_within_bounds_else_by_back_off(
    retry_after: bytes | None, hold: float
) -> None:
    assert busy_hold(retry_after, 3, 0.5, WALL_NOW, SETTINGS) == hold


@pytest.mark.parametrize(
    ("answers", "chance", "hold"),
    [(3, 0.0, 120.0), (3, 0.5, 240.0), (3, 1.0, 360.0), (4, 0.5, 480.0), (0, 0.0, 15.0), (10, 1.0, 46_080.0)],
)
def test_the_back_off_doubles_and_is_spread_by_chance(answers: int, chance: float, hold: float) -> None:
    assert busy_hold(None, answers, chance, WALL_NOW, SETTINGS) == hold


def test_the_last_busy_answer_that_an_origin_is_allowed_holds_it_for_a_day() -> None:
    assert busy_hold(b"1", SETTINGS.max_failures - 1, 0.5, WALL_NOW, SETTINGS) == DAY


# What requested no page


def test_visits_for_robots_txt_alone_close_the_site_ever_longer_up_to_its_gap() -> None:
    assert [closed_seconds(before, 70.0) for before in range(9)] == [1, 2, 4, 8, 16, 32, 64, 70, 70]
    assert closed_seconds(10**9, 70.0) == 70.0
    assert (closed_seconds(0, 0.3), closed_seconds(0, 0.0)) == (0.3, 0.0)


def test_a_lease_of_a_held_origin_never_closes_its_site_for_less_than_a_second_or_more_than_the_gap() -> None:
    assert [held_seconds(before, 0.0) for before in range(3)] == [1, 1, 1]
    # So long URLs of other origins may stand behind them; then all seems to be held.
    assert {held_seconds(before, 5.0) for before in range(HELD_IN_A_ROW + 1)} == {1}
    assert [held_seconds(HELD_IN_A_ROW + more, 5.0) for more in range(1, 5)] == [2, 4, 5, 5]


def test_a_lease_of_a_held_origin_sends_its_url_to_the_tail_as_it_is() -> None:
    of = lease(attempt=2, failures=3)
    assert decided(of, Reason.ORIGIN_HELD, was_sent=False) == Decision(
        Destination.LATER, Result.RETRY, Reason.ORIGIN_HELD, 0.0, of.clock
    )


# What is ours


@pytest.mark.parametrize("reason", [Reason.OUR_SHORTAGE, Reason.STOPPED, Reason.SERVER_ADDRESS])
def test_what_is_our_own_fault_is_charged_to_nobody(reason: Reason) -> None:
    of = lease(failures=11, attempt=2)
    assert decided(of, reason, was_sent=False) == Decision(Destination.HEAD, Result.RETRY, reason, 0.0, of.clock)


@pytest.mark.parametrize(
    ("attempt", "destination"), [(0, Destination.TAIL), (1, Destination.TAIL), (2, Destination.OUTCOME)]
)
@pytest.mark.parametrize("failures", [0, 2, 11, 50])
def test_an_internal_error_charges_no_site_and_ends_after_max_attempts(
    attempt: int, failures: int, destination: Destination
) -> None:
    of = lease(attempt=attempt, failures=failures)
    result = Result.DROPPED if destination is Destination.OUTCOME else Result.RETRY
    assert decided(of, Reason.INTERNAL_ERROR, was_sent=False) == Decision(
        destination, result, Reason.INTERNAL_ERROR, 0.0, of.clock
    )
    sent = decided(of, Reason.INTERNAL_ERROR)
    assert (sent.clock.failures, sent.dropped_site) == (failures, None)
    assert sent.not_before == ENDED_AT + 70.0, "what was sent costs the gap and no more"


def test_a_request_that_we_broke_off_still_opens_no_gap() -> None:
    decision = decided(lease(failures=1), Reason.STOPPED, was_sent=True)
    assert (decision.not_before, decision.clock) == (ENDED_AT + 70.0, SiteClock(ENDED_AT, 0.0, 1))


def test_the_table_has_every_reason_with_which_a_lease_can_end() -> None:
    of_candidates = {Reason.NOT_A_URL, Reason.SCHEME, Reason.TOO_LONG, Reason.SCOPE, Reason.LINK_BYTES}
    of_the_store = {Reason.NEW, Reason.SEEN, Reason.SITE_DROPPED, Reason.SITE_FAILING}
    of_the_store |= {Reason.QUEUE_FULL, Reason.SITE_FULL, Reason.PATH_VARIANTS}
    of_the_parser = {Reason.PARSE_CRASH}
    assert set(COURSES) == set(Reason) - of_candidates - of_the_store - of_the_parser


@given(
    reason=st.sampled_from(list(COURSES)),
    status=st.none() | st.integers(100, 999),
    is_given_up=st.booleans(),
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
    is_given_up: bool,
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
        is_given_up=is_given_up,
        chance=chance,
        settings=PolitenessSettings(delay_seconds=delay, backoff_seconds=backoff),
    )
    gap = max(delay, crawl_delay)
    assert ENDED_AT + gap <= decision.not_before <= ENDED_AT + max(gap, LONGEST_HOLD_SECONDS)
    assert (decision.clock.last_request_at, decision.clock.crawl_delay_seconds) == (ENDED_AT, crawl_delay)
    assert (decision.result is Result.RETRY) == (decision.destination in BACK)
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
