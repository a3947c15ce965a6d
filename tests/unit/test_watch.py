"""Which processes are ended because they do not get on; time is played."""

import pytest

from gossamer.parse.note import Noted, Stage
from gossamer.run.watch import (
    HANG_CPU_SECONDS,
    SEGMENT_CPU_SECONDS,
    SILENT_SECONDS,
    STARTING_SECONDS,
    Seen,
    Watch,
)

SEGMENT = "00001-000-00000001"
PAGE = Noted(SEGMENT, Stage.PAGE, 3)


def looks(watch: Watch, seconds: float, seen: Seen, *, every: float = 0.5) -> list[str]:
    """What each look says, over so much time in which nothing changes."""
    return [watch.look(seen, every) for _ in range(round(seconds / every))]


def test_a_fetcher_that_reports_is_left_alone() -> None:
    watch = Watch("fetcher")
    assert not any(watch.look(Seen(reports=number), 0.5) for number in range(1000))


def test_a_fetcher_that_is_silent_for_a_minute_is_ended() -> None:
    watch = Watch("fetcher")
    assert not watch.look(Seen(reports=1), 0.5)
    assert not any(looks(watch, SILENT_SECONDS, Seen(reports=1)))
    assert watch.look(Seen(reports=1), 0.5) == "has not reported for 60 s"
    # Once: a process that is stuck in the system ends when it can.
    assert not any(looks(watch, SILENT_SECONDS, Seen(reports=1)))


def test_one_that_waits_for_the_disk_is_not_silent() -> None:
    for kind in ("fetcher", "parser"):
        watch = Watch(kind)
        waiting = Seen(reports=1, cpu_seconds=1.0, waits_for_disk=True)
        assert not any(looks(watch, 10 * SILENT_SECONDS, waiting))
        awake = Seen(reports=1, cpu_seconds=1.0)
        assert not any(looks(watch, SILENT_SECONDS, awake))
        assert watch.look(awake, 0.5)


def test_one_report_makes_up_for_the_silence_before_it() -> None:
    watch = Watch("fetcher")
    watch.look(Seen(reports=1), 0.5)
    assert not any(looks(watch, SILENT_SECONDS, Seen(reports=1)))
    assert not watch.look(Seen(reports=2), 0.5)
    assert not any(looks(watch, SILENT_SECONDS, Seen(reports=2)))


def test_while_the_leader_slept_nobody_was_silent() -> None:
    watch = Watch("fetcher")
    watch.look(Seen(reports=1), 0.5)
    assert not any(looks(watch, 8 * 3600, Seen(reports=1), every=1200))


def test_one_that_starts_has_more_time() -> None:
    watch = Watch("fetcher")
    assert not any(looks(watch, STARTING_SECONDS, Seen(reports=0)))
    assert watch.look(Seen(reports=0), 0.5)


def test_a_parser_that_computes_is_not_silent() -> None:
    watch = Watch("parser")
    for second in range(300):
        noted = Noted(SEGMENT, Stage.PAGE, second)
        assert not watch.look(Seen(reports=1, noted=noted, cpu_seconds=float(second)), 1.0)


def test_a_parser_that_neither_reports_nor_computes_is_ended() -> None:
    watch = Watch("parser")
    stuck = Seen(reports=1, noted=PAGE, cpu_seconds=5.0)
    watch.look(stuck, 0.5)
    assert not any(looks(watch, SILENT_SECONDS, stuck))
    assert watch.look(stuck, 0.5) == "has not reported for 60 s"


def test_a_parser_of_which_nothing_is_known_now_is_left_alone() -> None:
    watch = Watch("parser")
    assert not any(looks(watch, 1000, Seen(reports=1)))


@pytest.mark.parametrize(
    ("noted", "limit", "said"),
    [
        (PAGE, HANG_CPU_SECONDS, f"hangs on page 3 of segment {SEGMENT}"),
        (Noted(SEGMENT, Stage.SINKS), SEGMENT_CPU_SECONDS, f"hangs on segment {SEGMENT} (sinks)"),
    ],
)
def test_a_parser_that_burns_cpu_on_one_thing_is_ended(noted: Noted, limit: float, said: str) -> None:
    watch = Watch("parser")
    watch.look(Seen(reports=1, noted=noted, cpu_seconds=100.0), 0.5)
    assert watch.look(Seen(reports=2, noted=noted, cpu_seconds=100.0 + limit), 0.5) == ""
    assert watch.look(Seen(reports=3, noted=noted, cpu_seconds=100.1 + limit), 0.5) == said


def test_a_parser_that_is_at_no_segment_does_not_hang() -> None:
    watch = Watch("parser")
    assert not any(watch.look(Seen(reports=turn, cpu_seconds=100.0 * turn), 0.5) for turn in range(10))
