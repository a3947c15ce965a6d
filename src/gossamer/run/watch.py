"""Whether a process still gets on: the leader asks this of each, several times a second. Pure; time is an argument."""

import msgspec

from gossamer.parse.note import Noted, Stage
from gossamer.run.orders import Kind

#: Every process reports twice a second. One that has not for so long is stopped, stuck in the system, or in a loop.
SILENT_SECONDS = 60.0
#: Before its first report: it loads its libraries, and opens a store that may be far or busy.
STARTING_SECONDS = 120.0
#: What one look adds at most: while the machine sleeps, or the leader is stopped, nobody is silent.
LONGEST_LOOK_SECONDS = 1.0
#: CPU time on one page after which a parser hangs; the worst page known takes one second.
HANG_CPU_SECONDS = 30.0
#: On one segment without getting to a page. A commit may sort the index of a whole archive.
SEGMENT_CPU_SECONDS = 120.0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a process shows."""

    reports: int
    """How many it has sent."""
    noted: Noted | None = None
    """Of a parser: what it is at."""
    cpu_seconds: float | None = None
    """Of a parser: what it has used; None if that is not known now."""
    waits_for_disk: bool = False
    """It cannot report, and not even be killed, until the disk has answered."""


class Watch:
    """Of one process in its one life."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._is_over = False
        """It was said that it is to be ended; the system may take its time."""
        self._silent_seconds = 0.0
        self._last = Seen(reports=0)
        self._began_cpu_seconds = 0.0
        """What it had used when it began with what it is at."""

    def look(self, seen: Seen, elapsed_seconds: float) -> str:
        """Why it is to be ended, said once; empty if it is not. `elapsed_seconds` is the time since the last look."""
        why = "" if self._is_over else self._judge(seen, elapsed_seconds)
        self._is_over = self._is_over or bool(why)
        return why

    def _judge(self, seen: Seen, elapsed_seconds: float) -> str:
        last, self._last = self._last, seen
        if self._kind == "parser":
            if seen.cpu_seconds is None:
                return ""
            if seen.noted is None or seen.noted != last.noted:
                self._began_cpu_seconds = seen.cpu_seconds
            elif hang := _hang(seen.noted, seen.cpu_seconds - self._began_cpu_seconds):
                return hang
        # A parser reports between pages only: one that computes is not silent.
        if seen.reports != last.reports or seen.cpu_seconds != last.cpu_seconds or seen.waits_for_disk:
            self._silent_seconds = 0.0
            return ""
        self._silent_seconds += min(elapsed_seconds, LONGEST_LOOK_SECONDS)
        limit = SILENT_SECONDS if seen.reports else STARTING_SECONDS
        return f"has not reported for {limit:g} s" if self._silent_seconds > limit else ""


def _hang(noted: Noted, cpu_seconds: float) -> str:
    if noted.stage is Stage.PAGE:
        if cpu_seconds > HANG_CPU_SECONDS:
            return f"hangs on page {noted.page} of segment {noted.segment}"
    elif cpu_seconds > SEGMENT_CPU_SECONDS:
        return f"hangs on segment {noted.segment} ({noted.stage.name.lower()})"
    return ""
