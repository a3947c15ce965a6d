"""What was counted between two samples: rates, and what a histogram says of the interval."""

from bisect import bisect_left
from itertools import accumulate

from gossamer.report.counters import SIZE, histogram_slot
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
        places = [histogram_slot(metric, *each).sum for each in ([labels] if labels else metric.label_sets)]
        return sum(row[place] for row in rows for place in places)

    def observed(self, metric: Metric, *labels: str) -> float:
        """How many."""
        place = histogram_slot(metric, *labels)
        return sum(self._total[place.first : place.sum])

    def mean(self, metric: Metric, *labels: str) -> float | None:
        count = self.observed(metric, *labels)
        return self._total[histogram_slot(metric, *labels).sum] / count if count else None

    def percentiles(self, metric: Metric, *labels: str) -> Percentiles:
        """Within its bucket a value may be anywhere, so it is taken to lie as far in it as its rank does."""
        place = histogram_slot(metric, *labels)
        ranks = list(accumulate(self._total[place.first : place.sum]))
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
