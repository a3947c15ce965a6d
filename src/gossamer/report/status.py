"""What a crawl tells a person: a line now and then while it runs, and a summary at its end."""

import sys
import time
from typing import TextIO

import msgspec

from gossamer.frontier.store import Counts
from gossamer.records import Reason

#: Between two lines: where a person looks, and where a log file does.
TERMINAL_SECONDS = 5.0
FILE_SECONDS = 60.0

#: Above the soft, above the hard limit of the spool; for descriptors, ports, memory or the disk, in a fetcher; for the
#: disk, in a parser; for a server that was away. The names are those of the processes' own statistics.
WAITS = ("backpressure_soft", "backpressure_hard", "shortage_pauses", "disk_waits", "store_outages")

#: Outcomes that are no failure.
_KEPT = {Reason.PAGE, Reason.REDIRECT}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run; `--json` prints it as it is. Counts are of all runs unless they say otherwise."""

    stop_reason: str
    data_directory: str
    run: int
    pages: int
    pages_this_run: int
    outcomes: dict[str, int]
    """Finished URLs: `done`, `dropped`; and how often one was put back: `retry`."""
    failures: dict[str, int]
    """Dropped URLs by reason."""
    refused: dict[str, int]
    """Links, redirects and seeds of this run that were not admitted, by reason."""
    admitted: int
    finished: int
    queued: int
    """What is left to fetch, what waits for a parser included."""
    bytes: int
    """Received, of all outcomes."""
    duration_seconds: float
    cpu_seconds: dict[str, float]
    """Of this run, by kind of process; the leader is a fetcher too."""
    restarts: int
    waits: dict[str, int]
    """How often this run had to wait, by the name in `WAITS`; 0 is a name's usual number."""


def summarise(
    counts: Counts,
    *,
    stop_reason: str,
    data_directory: str,
    run: int,
    pages_before: int,
    refused: dict[str, int],
    duration_seconds: float,
    cpu_seconds: dict[str, float],
    restarts: int,
    waits: dict[str, int],
) -> Summary:
    failures = {reason: count for reason, count in sorted(counts.outcomes.items()) if reason not in _KEPT}
    dropped = sum(failures.values())
    return Summary(
        stop_reason=stop_reason,
        data_directory=data_directory,
        run=run,
        pages=counts.pages,
        pages_this_run=counts.pages - pages_before,
        outcomes={
            "done": sum(counts.outcomes.values()) - dropped,
            "retry": sum(counts.retries.values()),
            "dropped": dropped,
        },
        failures=failures,
        refused=dict(sorted(refused.items())),
        admitted=counts.admitted,
        finished=counts.finished,
        queued=counts.admitted - counts.finished,
        bytes=counts.received_bytes,
        duration_seconds=round(duration_seconds, 3),
        cpu_seconds={kind: round(seconds, 3) for kind, seconds in sorted(cpu_seconds.items())},
        restarts=restarts,
        waits=waits,
    )


class StatusLine:
    """Writes a line now and then. It never writes anything that came from the web."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._interval_seconds = TERMINAL_SECONDS if stream.isatty() else FILE_SECONDS
        self._began_at = self._last_at = time.monotonic()
        self._last_pages: int | None = None

    def show(self, counts: Counts, in_flight: int, note: str = "") -> None:
        """`note` says what the crawl waits for, if it does."""
        now = time.monotonic()
        if self._last_pages is None:
            self._last_pages = counts.pages
        if now - self._last_at < self._interval_seconds:
            return
        rate = (counts.pages - self._last_pages) / (now - self._last_at)
        self._last_at, self._last_pages = now, counts.pages
        self.say(
            f"{_clock(now - self._began_at)}  {counts.pages:,} pages ({rate:.1f}/s)  {in_flight:,} in flight"
            f"  {counts.queued:,} queued on {counts.sites_waiting:,} sites  {counts.spooled:,} waiting to be parsed"
            f"{'  ' if note else ''}{note}"
        )

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
