"""Back-pressure: fetchers slow down above the soft limit, stop above the hard one, and go on below the soft one."""

import pytest

from gossamer.config import SpoolSettings
from gossamer.spool.directory import Backlog
from gossamer.spool.pressure import LONGEST_PAUSE_SECONDS, Pressure, State

SETTINGS = SpoolSettings(soft_limit=100, hard_limit=200, spool_bytes=3 << 20)


def pressure(chance: float = 0.5, settings: SpoolSettings = SETTINGS) -> Pressure:
    return Pressure(settings, lambda: chance)


def states(subject: Pressure, *pages: int) -> list[State]:
    found = []
    for number in pages:
        subject.update(Backlog(number, 0))
        found.append(subject.state)
    return found


def test_nothing_slows_down_up_to_the_soft_limit() -> None:
    subject = pressure()
    assert states(subject, 0, 100) == [State.OPEN, State.OPEN]
    assert subject.pause_seconds() == 0


def test_the_pause_grows_in_proportion_between_the_limits() -> None:
    subject = pressure()
    pauses = []
    for pages in (125, 150, 200):
        subject.update(Backlog(pages, 0))
        assert subject.state is State.SOFT
        pauses.append(subject.pause_seconds())
    assert pauses == pytest.approx([0.25 * LONGEST_PAUSE_SECONDS, 0.5 * LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS])


def test_above_the_hard_limit_it_stays_shut_until_below_the_soft_one() -> None:
    assert states(pressure(), 201, 150, 101, 100) == [State.HARD, State.HARD, State.HARD, State.OPEN]


def test_chance_spreads_the_pauses() -> None:
    pauses = []
    for chance in (0.0, 1.0):
        subject = pressure(chance)
        subject.update(Backlog(300, 0))
        pauses.append(subject.pause_seconds())
    assert pauses == pytest.approx([0.5 * LONGEST_PAUSE_SECONDS, 1.5 * LONGEST_PAUSE_SECONDS])


def test_bytes_count_from_a_third_of_what_the_spool_may_hold() -> None:
    subject = pressure()
    found = []
    for size in (1 << 20, (1 << 20) + 1, 3 << 20, (3 << 20) + 1, 2 << 20, 1 << 20):
        subject.update(Backlog(0, size))
        found.append(subject.state)
    assert found == [State.OPEN, State.SOFT, State.SOFT, State.HARD, State.HARD, State.OPEN]


def test_each_limit_is_counted_when_it_is_passed_also_where_both_are_at_once() -> None:
    subject = pressure()
    states(subject, 0, 110, 120, 90, 110, 250, 260, 150, 50)
    assert (subject.soft_events, subject.hard_events) == (2, 1)
    states(subject, 250)
    assert (subject.soft_events, subject.hard_events) == (3, 2)


def test_a_soft_limit_above_the_hard_one_does_not_keep_it_from_stopping() -> None:
    subject = pressure(settings=SpoolSettings(soft_limit=2_000, hard_limit=10))
    assert states(subject, 9, 11, 10, 9) == [State.OPEN, State.HARD, State.HARD, State.OPEN]
