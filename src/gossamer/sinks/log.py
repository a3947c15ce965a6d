"""A row for every outcome, in `log/`: what was asked for, when, and what came. columns.py says what is in it."""

from pathlib import Path

from gossamer.config import UrlSettings
from gossamer.records import Answer, PhaseTimes, Reason
from gossamer.sinks.columns import FETCHES
from gossamer.sinks.merge import ParquetTable
from gossamer.sinks.parquet import TableSink
from gossamer.sinks.redirect import redirect_target
from gossamer.sinks.sink import Entry, Place
from gossamer.url import DEFAULT_SETTINGS

DIRECTORY = "log"
PREFIX = "fetches"
_TABLE = ParquetTable(
    DIRECTORY,
    PREFIX,
    FETCHES,
    repeating=[
        "site",
        "kind",
        "depth",
        "hops",
        "via",
        "outcome",
        "failure_kind",
        "status",
        "attempt",
        "returned",
        "reason",
        "address",
        "warc_filename",
    ],
    unsearched=["via", "redirect", "reason"],
)
_KEPT = frozenset({Reason.PAGE, Reason.REDIRECT})


class LogSink(TableSink):
    """Takes all outcomes, attempts that go back to their queue included, and the robots.txt answers on the way.

    The parser calls `write`, the committer the rest. `urls` says how a redirect's target is written.
    """

    def __init__(self, data: Path, *, parser: str, urls: UrlSettings = DEFAULT_SETTINGS) -> None:
        super().__init__(data, _TABLE, parser)
        self._urls = urls

    def write(self, entry: Entry) -> None:
        outcome, reason = entry.outcome, entry.reason
        lease, answer = outcome.lease, outcome.answer
        for number, robots in enumerate(outcome.robots):
            self._add(
                (
                    int(robots.fetched_at * 1_000),
                    lease.site,
                    robots.url,
                    "robots",
                    None,
                    None,
                    None,
                    "done",
                    None,
                    *self._facts(robots),
                    *_seconds(robots.times),
                    None,
                    None,
                    None,
                    robots.address or None,
                    robots.is_verified,
                    *_where(entry.robots_places[number] if entry.robots_places else None),
                )
            )
        self._add(
            (
                int(outcome.fetched_at * 1_000),
                lease.site,
                lease.url,
                "url",
                lease.depth,
                lease.hops,
                lease.via or None,
                outcome.result.value,
                None if reason in _KEPT else reason.value,
                *((None, None, None) if answer is None else self._facts(answer)),
                *_seconds(outcome.times),
                lease.attempt + 1,
                lease.returned,
                outcome.detail or None,
                outcome.address or None,
                None if answer is None else answer.is_verified,
                *_where(entry.place),
            )
        )

    def _facts(self, answer: Answer) -> tuple[int, str | None, int]:
        return answer.status, redirect_target(answer, self._urls) or None, len(answer.body)


def _seconds(times: PhaseTimes) -> tuple[float | None, ...]:
    return times.dns, times.connect, times.tls, times.first_byte, times.total


def _where(place: Place | None) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if place is None else (place.file, place.offset, place.length)
