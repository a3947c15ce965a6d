"""Where the leader puts what it measures, and where those who show it take it from, in whatever thread they are."""

from collections import deque
from typing import Literal, Protocol

import msgspec

from gossamer.report.sample import SAMPLE_SECONDS, Activity, Percentiles, Sample

#: An hour of samples; beyond that, a day of minutes: together some 2 MB.
KEPT_SAMPLES = int(3600 / SAMPLE_SECONDS)
KEPT_MINUTES = 24 * 60
_SAMPLES_A_MINUTE = int(60 / SAMPLE_SECONDS)

State = Literal["running", "paused", "stopping"]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a run lasts."""

    version: str
    data_directory: str
    run: int
    started_at: float
    """Wall clock."""
    store: str
    """Without a password."""
    delay_seconds: float
    max_pages: int
    """0 is no limit."""
    max_duration_seconds: float
    """0 is no limit."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One moment in a chart; of a minute, the mean of its samples, and the sum of their outcomes."""

    at: float
    pages_per_second: float
    fetches_per_second: float
    bytes_per_second: float
    queued: float
    spooled: float
    in_flight: float
    outcomes: dict[str, int]
    total: Percentiles
    first_byte: Percentiles
    cpu: float
    """Of all processes of the crawl together, in processors."""


class Controls(Protocol):
    """What a person may do with a crawl that runs. May be called in any thread; each returns at once."""

    def pause(self) -> None:
        """No URL is leased until `resume`; what is in flight ends."""

    def resume(self) -> None: ...

    def stop(self) -> None:
        """As an interrupt does: nothing is lost, and the crawl can be resumed."""

    def block(self, site: str) -> None:
        """Ask nothing of this site any more, in this run and after. Raises UsageError for what is no site."""


class Board:
    """The latest of everything. The leader alone writes; each attribute is replaced as a whole."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.state: State = "running"
        self.sample: Sample | None = None
        self.activity = Activity()
        self.exposition = b""
        """The metrics as Prometheus reads them, of the same moment as `sample`."""
        self.samples: tuple[Point, ...] = ()
        """Of the last hour, the oldest first."""
        self.minutes: tuple[Point, ...] = ()
        """Of the last day."""
        self._samples: deque[Point] = deque(maxlen=KEPT_SAMPLES)
        self._minutes: deque[Point] = deque(maxlen=KEPT_MINUTES)
        self._taken = 0

    def put(self, sample: Sample, activity: Activity, exposition: bytes) -> None:
        self._samples.append(_point(sample))
        self._taken += 1
        if self._taken % _SAMPLES_A_MINUTE == 0:
            self._minutes.append(_mean(list(self._samples)[-_SAMPLES_A_MINUTE:]))
            self.minutes = tuple(self._minutes)
        self.samples = tuple(self._samples)
        self.activity = activity
        self.exposition = exposition
        self.sample = sample


def _point(sample: Sample) -> Point:
    return Point(
        at=sample.at,
        pages_per_second=sample.pages_per_second,
        fetches_per_second=sample.fetches_per_second,
        bytes_per_second=sample.bytes_per_second,
        queued=sample.counts.queued,
        spooled=sample.backlog_pages,
        in_flight=sample.in_flight,
        outcomes=sample.outcomes,
        total=sample.latency.get("total", Percentiles()),
        first_byte=sample.latency.get("first_byte", Percentiles()),
        cpu=sum(process.cpu for process in sample.processes),
    )


def _mean(points: list[Point]) -> Point:
    def mean(name: str) -> float:
        return float(sum(getattr(point, name) for point in points)) / len(points)

    outcomes: dict[str, int] = {}
    for point in points:
        for reason, count in point.outcomes.items():
            outcomes[reason] = outcomes.get(reason, 0) + count
    # Percentiles have no mean; the worst of the minute is what a person looks for.
    return Point(
        at=points[-1].at,
        pages_per_second=mean("pages_per_second"),
        fetches_per_second=mean("fetches_per_second"),
        bytes_per_second=mean("bytes_per_second"),
        queued=mean("queued"),
        spooled=mean("spooled"),
        in_flight=mean("in_flight"),
        outcomes=outcomes,
        total=_worst([point.total for point in points]),
        first_byte=_worst([point.first_byte for point in points]),
        cpu=mean("cpu"),
    )


def _worst(measured: list[Percentiles]) -> Percentiles:
    def worst(name: str) -> float | None:
        return max((value for one in measured if (value := getattr(one, name)) is not None), default=None)

    return Percentiles(worst("p50"), worst("p90"), worst("p99"))
