"""What the deaths of processes mean: what is to blame, how long parsers are on their guard, and when to give up.

A death on a page, or with one segment in work, is explained by it as long as that can be dealt with: another parser
will get further. Any other death, and too many of those, is a step towards the crash loop.
"""

import contextlib
import logging

from gossamer.parse.note import Noted, Stage
from gossamer.spool.suspects import PARSER_DEATHS, SEGMENT_DEATHS, Finding, Suspects

#: Deaths in a row, of whatever process, without anything being finished between them.
CRASH_LOOP_DEATHS = 5
#: The same for deaths that are explained, and for each parser: five segments with two deaths each. Parsers that did not
#: yet know that a page kills may die on as many pages as there are parsers; those are not counted.
EXPLAINED_DEATHS = 10
#: How long pages are read guarded after the last one that killed its reader; doubled whenever one comes after that.
GUARD_SECONDS = 600.0
#: How long each segment is committed by itself after a death that was on no page.
CAREFUL_SECONDS = 120.0

log = logging.getLogger("gossamer.run")


class Deaths:
    """Of one run. The supervisor says what happens and when (monotonic), and asks what follows."""

    def __init__(self, suspects: Suspects, now: float) -> None:
        self._suspects = suspects
        self._unexplained = 0
        self._explained = 0
        self._crashes = 0
        self._guard_length_seconds = GUARD_SECONDS
        self._guarded_until: float | None = None
        self._careful_until = 0.0
        with contextlib.suppress(OSError):
            suspects.refresh()
        if suspects.has_pages():
            self._guarded_until = now + GUARD_SECONDS

    @property
    def unexplained(self) -> int:
        return self._unexplained

    @property
    def is_crash_loop(self) -> bool:
        return self._unexplained >= CRASH_LOOP_DEATHS

    def guard_seconds(self, now: float) -> float:
        return 0.0 if self._guarded_until is None else max(0.0, self._guarded_until - now)

    def careful_seconds(self, now: float) -> float:
        return max(0.0, self._careful_until - now)

    def note_progress(self) -> None:
        """Something was finished: whatever died before that was no loop."""
        self._unexplained = self._explained = 0

    def note_crashes(self, crashes: int, now: float) -> bool:
        """How many pages have killed their readers, ever; whether the guard lasts longer for that."""
        if crashes <= self._crashes:
            return False
        self._crashes = crashes
        self._guard(now)
        return True

    def note_fetcher(self) -> None:
        """One has died; nothing explains that."""
        self._unexplained += 1

    def note_parser(self, name: str, noted: Noted | None, now: float, *, was_guarded: bool, parsers: int) -> bool:
        """One has died, with the note that it left; whether its death is explained."""
        is_on_page = noted is not None and noted.stage is Stage.PAGE
        is_explained = noted is not None and self._blame(name, noted, now)
        if not is_on_page:
            self._careful_until = now + CAREFUL_SECONDS
        if is_explained and (was_guarded or not is_on_page):
            self._explained += 1
            is_explained = self._explained < max(EXPLAINED_DEATHS, 2 * parsers)
        if not is_explained:
            self._unexplained += 1
        return is_explained

    def _blame(self, name: str, noted: Noted, now: float) -> bool:
        page = noted.page if noted.stage is Stage.PAGE else None
        try:
            self._suspects.add(noted.segment, Finding.PARSER_DIED, page)
        except OSError as error:
            log.error("the death of %s on segment %s cannot be kept: %s", name, noted.segment, error)  # noqa: TRY400
        deaths = self._suspects.deaths(noted.segment, page)
        if page is None:
            stage = noted.stage.name.lower()
            log.warning("%s died on segment %s (%s), death %d there", name, noted.segment, stage, deaths)
            return deaths <= SEGMENT_DEATHS
        log.warning("%s died on page %d of segment %s, death %d there", name, page, noted.segment, deaths)
        self._guard(now)
        return deaths <= PARSER_DEATHS

    def _guard(self, now: float) -> None:
        if self._guarded_until is not None and now >= self._guarded_until:
            self._guard_length_seconds *= 2
        if not self.guard_seconds(now):
            log.warning("for %g s, pages are read where they can kill nothing else", self._guard_length_seconds)
        self._guarded_until = now + self._guard_length_seconds
