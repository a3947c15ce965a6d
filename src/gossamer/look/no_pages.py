"""Why a crawl that has ended has no page at all: what became of its first URLs."""

from pathlib import Path

from gossamer.look.attempts import Attempt, first_endings
from gossamer.look.blocked import blocked_advice
from gossamer.look.tables import Tables
from gossamer.look.wording import what

#: Enough to see the reason; the counts of all are shown below them.
SHOWN_URLS = 5


def first_failures(data: Path) -> list[tuple[str, str]]:
    """URLs nearest to the seeds, and what became of each; none where no log is written."""
    with Tables(data) as tables:
        return [(attempt.url, _words(attempt)) for attempt in first_endings(tables, SHOWN_URLS)]


def _words(attempt: Attempt) -> str:
    if attempt.redirect:
        return f"redirected to {attempt.redirect}"
    return "; ".join(filter(None, [": ".join(filter(None, [what(attempt), attempt.reason])), blocked_advice(attempt)]))
