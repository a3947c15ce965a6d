"""What was counted between two samples: rates, and what a histogram says of the interval."""

from bisect import bisect_left
from itertools import accumulate

from gossamer.report.counters import SIZE, HistogramSlot, histogram_slot
from gossamer.report.metrics import Metric
from gossamer.report.sample import Percentiles

#: A rate over less than this would be noise: samples are five seconds apart, but for the last one.
_LEAST_SECONDS = 0.1


class Gains:
    """Of every process by its name, from its counters then and now."""

    def __init__(self, before: dict[str, list[float]], now: dict[str, list[float]], seconds: float) -> None:
        nothing = [0.0] * SIZE
        self.seconds = max(seconds, _LEAST_SECONDS)
        self._gains = {
            # Files of another layout are begun anew: then all that is there was gained.
            name: [new - old if new >= old else new for new, old in zip(row, before.get(name, nothing), strict=True)]
            for name, row in now.items()
        }
        self._total = [sum(column) for column in zip(*self._gains.values(), strict=True)] or nothing

    def gain(self, place: int) -> float:
        return self._total[place]

    def rate(self, place: int) -> float:
        return self._total[place] / self.seconds

    def rate_of(self, process: str, place: int) -> float:
        return self._gains[process][place] / self.seconds if process in self._gains else 0.0

    def seconds_in(self, metric: Metric, kind: str = "", *labels: str) -> float:
        """What a histogram of seconds comes to, in the processes of a kind; all series of it, unless one is named."""
        rows = [row for name, row in self._gains.items() if name.startswith(kind)]
        return sum(row[place.sum] for row in rows for place in _series(metric, labels))

    def observed(self, metric: Metric, *labels: str) -> float:
        """How many, in all series of a histogram, unless one is named."""
        return sum(sum(self._total[place.first : place.sum]) for place in _series(metric, labels))

    def mean(self, metric: Metric, *labels: str) -> float | None:
        count = self.observed(metric, *labels)
        return sum(self._total[place.sum] for place in _series(metric, labels)) / count if count else None

    def percentiles(self, metric: Metric, *labels: str) -> Percentiles:
        """Within its bucket a value may be anywhere, so it is taken to lie as far in it as its rank does."""
        places = _series(metric, labels)
        place = places[0]
        columns = zip(*(self._total[each.first : each.sum] for each in places), strict=True)
        ranks = list(accumulate(map(sum, columns)))
        if not ranks[-1]:
            return Percentiles()
        edges = [0.0, *place.bounds, place.bounds[-1]]

        def value(share: float) -> float:
            wanted = share * ranks[-1]
            bucket = bisect_left(ranks, wanted)
            below = ranks[bucket - 1] if bucket else 0.0
            within = (wanted - below) / (ranks[bucket] - below)
            return float(edges[bucket] + (edges[bucket + 1] - edges[bucket]) * within)

        return Percentiles(value(0.5), value(0.9), value(0.99))


def _series(metric: Metric, labels: tuple[str, ...]) -> list[HistogramSlot]:
    return [histogram_slot(metric, *each) for each in ([labels] if labels else metric.label_sets)]
