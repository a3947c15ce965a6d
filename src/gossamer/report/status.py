"""What a crawl tells a person at its end: the summary."""

import msgspec

from gossamer.frontier.store import Counts
from gossamer.report.pace import KEPT

#: Above the soft, above the hard limit of the spool; for descriptors, ports, memory or the disk, in a fetcher; for the
#: disk, in a parser; for a store that was away; for a turn at a server address. The names are those of the processes'
#: own statistics.
WAITS = ("backpressure_soft", "backpressure_hard", "shortage_pauses", "disk_waits", "store_outages", "address_holds")


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run; `--json` prints it as it is. Counts are of all runs unless they say otherwise."""

    stop_reason: str
    data_directory: str
    run: int
    pages: int
    pages_this_run: int
    outcomes: dict[str, int]
    """Finished URLs: `done`, `dropped`; and how often one was put back: `retry`."""
    retries: dict[str, int]
    """How often a URL was put back, by reason."""
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
    failures = {reason: count for reason, count in sorted(counts.outcomes.items()) if reason not in KEPT}
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
        retries=dict(sorted(counts.retries.items())),
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
