"""When a crawl is over. Pure: counts and seconds are arguments."""

from enum import StrEnum

from gossamer.config import RunSettings
from gossamer.frontier.store import Counts


class StopReason(StrEnum):
    """Why a run ended; the words of the summary."""

    MAX_PAGES = "max_pages"
    MAX_DURATION = "max_duration"
    EXHAUSTED = "exhausted"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> int:
        """130 as a shell has it for an interrupted command: there is more to do, and `resume` does it."""
        return 130 if self is StopReason.INTERRUPTED else 0

    @property
    def empties_spool(self) -> bool:
        """Whether what was fetched is parsed before the end; an interrupted run leaves it for the resume."""
        return self is not StopReason.INTERRUPTED


def reason_to_stop(
    counts: Counts, settings: RunSettings, *, elapsed_seconds: float, seeds_are_loaded: bool
) -> StopReason | None:
    """None while there is something to do."""
    if settings.max_pages and counts.pages >= settings.max_pages:
        return StopReason.MAX_PAGES
    if seeds_are_loaded and counts.finished == counts.admitted:
        return StopReason.EXHAUSTED
    if settings.max_duration_seconds and elapsed_seconds >= settings.max_duration_seconds:
        return StopReason.MAX_DURATION
    return None


def is_waiting_for_commit(counts: Counts, settings: RunSettings, *, seeds_are_loaded: bool) -> bool:
    """Whether only a commit can bring the crawl on: nothing is being fetched, and nothing can be."""
    if counts.leased or not counts.spooled:
        return False
    budget_is_spent = settings.max_pages > 0 and counts.pages + counts.spooled >= settings.max_pages
    return budget_is_spent or (counts.queued == 0 and seeds_are_loaded)
