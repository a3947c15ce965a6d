"""When a crawl is over."""

import pytest

from gossamer.config import RunSettings
from gossamer.frontier.store import Counts
from gossamer.run.stop import StopReason, is_waiting_for_commit, reason_to_stop


def stop(counts: Counts, *, seconds: float = 0.0, loaded: bool = True, **limits: float) -> StopReason | None:
    settings = RunSettings(max_pages=int(limits.get("pages", 0)), max_duration_seconds=limits.get("duration", 0.0))
    return reason_to_stop(counts, settings, elapsed_seconds=seconds, seeds_are_loaded=loaded)


def test_a_crawl_ends_when_all_that_was_admitted_is_finished() -> None:
    assert stop(Counts(admitted=7, finished=7)) is StopReason.EXHAUSTED


def test_an_empty_queue_is_not_the_end() -> None:
    assert stop(Counts(admitted=7, finished=6, spooled=1)) is None
    assert stop(Counts(admitted=7, finished=6, leased=1)) is None


def test_a_crawl_whose_seeds_are_still_being_read_does_not_end() -> None:
    assert stop(Counts(), loaded=False) is None
    assert stop(Counts(admitted=7, finished=7), loaded=False) is None


def test_pages_count_only_when_they_are_committed() -> None:
    assert stop(Counts(admitted=9, finished=4, pages=4, spooled=1), pages=5) is None
    assert stop(Counts(admitted=9, finished=5, pages=5), pages=5) is StopReason.MAX_PAGES


def test_the_limit_of_pages_is_named_before_the_other_reasons() -> None:
    assert stop(Counts(admitted=5, finished=5, pages=5), pages=5, duration=1, seconds=2) is StopReason.MAX_PAGES


def test_a_run_ends_after_its_duration() -> None:
    assert stop(Counts(admitted=7), duration=10, seconds=9.9) is None
    assert stop(Counts(admitted=7), duration=10, seconds=10) is StopReason.MAX_DURATION


@pytest.mark.parametrize(
    ("counts", "max_pages", "waits"),
    [
        (Counts(admitted=9, finished=4, spooled=5), 0, True),
        (Counts(admitted=9, finished=4, spooled=4), 0, False),  # something is queued
        (Counts(admitted=9, finished=4, spooled=4, leased=1), 0, False),
        (Counts(admitted=9, finished=9), 0, False),  # nothing to commit
        (Counts(admitted=99, finished=4, pages=4, spooled=6), 10, True),  # the budget is spent
        (Counts(admitted=99, finished=4, pages=4, spooled=5), 10, False),
    ],
)
def test_a_commit_is_asked_for_when_nothing_else_can_bring_the_crawl_on(
    counts: Counts, max_pages: int, waits: bool
) -> None:
    assert is_waiting_for_commit(counts, RunSettings(max_pages=max_pages), seeds_are_loaded=True) is waits


def test_only_an_interrupted_run_leaves_the_spool_and_says_that_there_is_more() -> None:
    assert {reason for reason in StopReason if reason.exit_code == 130} == {StopReason.INTERRUPTED}
    assert {reason for reason in StopReason if not reason.empties_spool} == {StopReason.INTERRUPTED}
