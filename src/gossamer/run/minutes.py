"""The log line of rates that the leader writes once a minute, for a person who has nothing but the log files."""

import logging

from gossamer.report.counters import slot
from gossamer.report.gains import Gains
from gossamer.report.metrics import FETCH_FAILURES, FETCH_OUTCOMES, FETCHES, PARSED_PAGES, RECEIVED_BYTES
from gossamer.report.sample import SAMPLE_SECONDS, Sample

log = logging.getLogger("gossamer.run")

LINE_SECONDS = 60.0

_PAGES = slot(FETCH_OUTCOMES, "page")
_PARSED = slot(PARSED_PAGES)
_RECEIVED = slot(RECEIVED_BYTES)
_REQUESTS = [slot(FETCHES, *labels) for labels in FETCHES.label_sets]
_FAILURES = [slot(FETCH_FAILURES, *labels) for labels in FETCH_FAILURES.label_sets]


class MinuteLine:
    """Hears of every sample. Rates are of the whole time since the last line, everything else is of the moment."""

    def __init__(self, rows: dict[str, list[float]], at: float) -> None:
        """`rows` are the counters of all processes, by name; `at` is a monotonic clock."""
        self._rows = rows
        self._at = at

    def note(self, rows: dict[str, list[float]], sample: Sample, at: float) -> None:
        # Samples are a little more than their interval apart: half of it earlier is nearer to a minute than the next.
        if at - self._at < LINE_SECONDS - SAMPLE_SECONDS / 2:
            return
        gains = Gains(self._rows, rows, at - self._at)
        self._rows, self._at = rows, at
        ready = min(sample.counts.sites_ready, sample.counts.sites_waiting)
        fields = {
            "seconds": round(gains.seconds, 1),
            "pages_per_second": round(gains.rate(_PAGES), 2),
            "requests_per_second": round(sum(map(gains.rate, _REQUESTS)), 2),
            "megabytes_per_second": round(gains.rate(_RECEIVED) / 1e6, 3),
            "parsed_per_second": round(gains.rate(_PARSED), 2),
            "failed_requests": round(sum(map(gains.gain, _FAILURES))),
            "pages": sample.counts.pages,
            "queued": sample.counts.queued,
            "ready_sites": ready,
            "cooling_sites": sample.counts.sites_waiting - ready,
            "in_flight": sample.in_flight,
            "spool_pages": sample.backlog_pages,
            "spool_bytes": sample.backlog_bytes,
            "memory_bytes": sum(process.memory_bytes for process in sample.processes),
            "descriptors": sum(process.descriptors for process in sample.processes),
            "bound": sample.bound.by,
        }
        log.info("rates of the last minute", extra={"fields": fields})
