"""The counters of one process, in a file that is mapped into its memory: a kill loses none, and who fills the place
next goes on counting where it stood.

    counters = Counters(path)
    counters.add(slot(FETCHES, "page"))
    counters.observe(histogram_slot(PHASE_SECONDS, "dns"), 0.012)

A file is a header, which names the layout, and a row of doubles: each is exact for whole numbers up to 2^53, and is
read and written as a whole. The leader reads the files of all processes, those that have ended included, and adds up.
"""

import hashlib
import logging
import mmap
import os
from array import array
from bisect import bisect_left
from pathlib import Path

import msgspec

from gossamer.report.metrics import KEPT, Metric

SUFFIX = ".counters"
_HEADER_BYTES = 32
_DOUBLE_BYTES = 8

log = logging.getLogger("gossamer.report")


class HistogramSlot(msgspec.Struct, frozen=True):
    """Where one histogram is: its buckets, the last of them for what is beyond all bounds, and the sum."""

    first: int
    sum: int
    bounds: tuple[float, ...]


def _width(metric: Metric) -> int:
    return len(metric.buckets) + 2 if metric.kind == "histogram" else 1


def _layout() -> dict[str, dict[tuple[str, ...], int]]:
    places: dict[str, dict[tuple[str, ...], int]] = {}
    place = 0
    for metric in KEPT:
        for labels in metric.label_sets:
            places.setdefault(metric.name, {})[labels] = place
            place += _width(metric)
    return places


_PLACES = _layout()
SIZE = sum(_width(metric) * len(metric.label_sets) for metric in KEPT)
#: A file of another layout means nothing in this one.
_HEADER = hashlib.sha256(msgspec.json.encode(KEPT)).digest()


def slot(metric: Metric, *labels: str) -> int:
    return _PLACES[metric.name][labels]


def histogram_slot(metric: Metric, *labels: str) -> HistogramSlot:
    first = _PLACES[metric.name][labels]
    return HistogramSlot(first, first + len(metric.buckets) + 1, metric.buckets)


class Counters:
    """Of this process. One writer; two threads must not add to the same counter."""

    def __init__(self, path: Path) -> None:
        """Where the file cannot be made, it counts in memory alone: no crawl fails for want of its figures."""
        size = _HEADER_BYTES + SIZE * _DOUBLE_BYTES
        try:
            self._map = _mapped(path, size)
        except OSError as error:
            log.warning("%s cannot be made (%s): what this process counts is lost if it is killed", path, error)
            self._map = mmap.mmap(-1, size)
        self._values = memoryview(self._map)[_HEADER_BYTES:].cast("d")

    def add(self, place: int, count: float = 1.0) -> None:
        self._values[place] += count

    def observe(self, histogram: HistogramSlot, value: float) -> None:
        values = self._values
        values[histogram.first + bisect_left(histogram.bounds, value)] += 1.0
        values[histogram.sum] += value

    def close(self) -> None:
        self._values.release()
        self._map.close()


def _mapped(path: Path, size: int) -> mmap.mmap:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if os.fstat(descriptor).st_size != size or os.pread(descriptor, _HEADER_BYTES, 0) != _HEADER:
            os.ftruncate(descriptor, 0)
            # Written, not stretched: a page that the disk has no room for would kill whoever touches it.
            os.pwrite(descriptor, _HEADER + bytes(size - _HEADER_BYTES), 0)
            if os.fstat(descriptor).st_size != size:
                raise OSError(None, "there is no room for it", str(path))
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[float] | None:
    """Of another process, alive or not; None if it is none of this layout."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if len(content) != _HEADER_BYTES + SIZE * _DOUBLE_BYTES or not content.startswith(_HEADER):
        return None
    return array("d", content[_HEADER_BYTES:]).tolist()


def read_all(directory: Path) -> dict[str, list[float]]:
    """By the name of the process."""
    found = {path.name.removesuffix(SUFFIX): read(path) for path in sorted(directory.glob(f"*{SUFFIX}"))}
    return {name: values for name, values in found.items() if values is not None}


def total(rows: list[list[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * SIZE
