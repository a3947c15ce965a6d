"""What the charts show: a crawl from its beginning to now, in bounded memory.

Three series are kept side by side. Every sample of the last hour; a point for each minute of the last day; and the
whole run in at most `KEPT_OF_ALL` points. Whenever those are full, each two neighbours become one, so the points of the
whole run lie ever further apart: 5 seconds in the first two hours, 10 in the next two, 80 after a day, 43 minutes after
a month. All three together take some 6 MB at most.
"""

from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import msgspec

from gossamer.report.sample import SAMPLE_SECONDS, Percentiles, Sample

Span = Literal["5min", "hour", "day", "all"]
SPANS: tuple[Span, ...] = get_args(Span)

KEPT_SAMPLES = int(3600 / SAMPLE_SECONDS)
KEPT_MINUTES = 24 * 60
#: More than a chart has pixels for; even, because they are merged in pairs.
KEPT_OF_ALL = 1440
_SAMPLES_A_MINUTE = int(60 / SAMPLE_SECONDS)
_FIVE_MINUTES = 300.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One moment in a chart; of several samples, the mean, and the sum of their outcomes."""

    at: float
    """Of the last of them."""
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


class Series(NamedTuple):
    """What one span of time is drawn from."""

    step_seconds: float
    """Between two points. If it changes, all points are others."""
    points: Sequence[Point] = ()
    """The oldest first."""
    partial: Point | None = None
    """What has been measured since the last of them and is not yet a whole point."""


class History:
    """The leader adds to it; `series` may be called in any thread."""

    def __init__(self) -> None:
        self._samples: deque[Point] = deque(maxlen=KEPT_SAMPLES)
        self._minutes = _Thinned(_SAMPLES_A_MINUTE)
        self._all = _Thinned(1)
        self._series: dict[Span, Series] = dict.fromkeys(SPANS, Series(SAMPLE_SECONDS))

    def add(self, sample: Sample) -> None:
        point = _point(sample)
        self._samples.append(point)
        self._minutes.add(point)
        if len(self._minutes.points) > KEPT_MINUTES:
            self._minutes.points.pop(0)
        self._all.add(point)
        if len(self._all.points) == KEPT_OF_ALL:
            self._all.halve()
        hour = Series(SAMPLE_SECONDS, tuple(self._samples))
        # Replaced as a whole, for those who read it meanwhile.
        self._series = {
            "5min": hour._replace(points=tuple(one for one in self._samples if one.at > point.at - _FIVE_MINUTES)),
            "hour": hour,
            # While the run is younger than an hour, nothing is coarser than it needs to be.
            "day": hour if len(self._samples) < KEPT_SAMPLES else self._minutes.series(),
            "all": self._all.series(),
        }

    def series(self, span: Span) -> Series:
        return self._series[span]


class _Thinned:
    """Points of `size` samples each."""

    def __init__(self, size: int) -> None:
        self.points: list[Point] = []
        self._size = size
        self._pending: list[Point] = []

    def add(self, point: Point) -> None:
        self._pending.append(point)
        if len(self._pending) == self._size:
            self.points.append(merged(self._pending))
            self._pending = []

    def halve(self) -> None:
        pairs = zip(self.points[::2], self.points[1::2], strict=True)
        self.points = [merged(pair) for pair in pairs]
        self._size *= 2

    def series(self) -> Series:
        partial = merged(self._pending) if self._pending else None
        return Series(self._size * SAMPLE_SECONDS, tuple(self.points), partial)


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


def merged(points: Sequence[Point]) -> Point:
    """One point for several that stand for the same time each."""

    def mean(name: str) -> float:
        return float(sum(getattr(point, name) for point in points)) / len(points)

    outcomes: dict[str, int] = {}
    for point in points:
        for reason, count in point.outcomes.items():
            outcomes[reason] = outcomes.get(reason, 0) + count
    # Percentiles have no mean; the worst of the time is what a person looks for.
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
