"""The metrics as Prometheus reads them: what processes have counted, and what the leader tells of one sample."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family

from gossamer.report.counters import histogram_slot, slot
from gossamer.report.metrics import BY_NAME, KEPT, TOLD, Metric

#: One series of a family: the values of its labels, and its number.
Told = Mapping[str, Iterable[tuple[tuple[str, ...], float]]]


class _Collected:
    """Families that are there already: all that prometheus_client wants of a registry."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def exposition(counted: list[float], told: Told) -> bytes:
    """`counted` is the sum of all counter files; `told` has series of `TOLD`, by name; what it has not is left out."""
    return generate_latest(_Collected([*_kept(counted), *_told(told)]))


def _kept(counted: list[float]) -> Iterator[Family]:
    for metric in KEPT:
        labels = list(metric.labels)
        if metric.kind == "histogram":
            histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=labels)
            for values in metric.label_sets:
                place = histogram_slot(metric, *values)
                buckets, so_far = [], 0.0
                for offset, bound in enumerate([*metric.buckets, float("inf")]):
                    so_far += counted[place.first + offset]
                    buckets.append((_bound(bound), so_far))
                histogram.add_metric(values, buckets, counted[place.sum])
            yield histogram
        else:
            counter = CounterMetricFamily(metric.name, metric.meaning, labels=labels)
            for values in metric.label_sets:
                counter.add_metric(values, counted[slot(metric, *values)])
            yield counter


def _told(told: Told) -> Iterator[Family]:
    unknown = told.keys() - BY_NAME.keys()
    assert not unknown, f"not in the catalogue: {unknown}"  # noqa: S101 (a mistake of ours)
    for metric in TOLD:
        if metric.name in told:
            yield _family(metric, told[metric.name])


def _family(metric: Metric, series: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=list(metric.labels))
    for values, number in series:
        family.add_metric(values, number)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else f"{bound:g}" if bound < 1 else str(bound)
