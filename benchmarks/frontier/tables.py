"""All stores side by side: one block per measurement, a line per store, a column per size of the frontier."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from benchmarks.frontier.sizes import Sizes
from benchmarks.frontier.spent import Spent

#: CPU microseconds per URL, client and server together, by the first word of the measurement.
AIMS = {
    "sqlite": {"admit": 8, "cycle": 40},
    "redis": {"admit": 8, "cycle": 40},
    "postgresql": {"admit": 10, "cycle": 120},
}
#: How much dearer a URL may be in the largest frontier than in the smallest.
GROWTH = {"sqlite": 3.0, "redis": 2.0, "postgresql": 3.0}
#: Of a statement, in the server; at a million rows.
STATEMENT_MILLISECONDS = 50

_LABEL = 16
_COLUMN = 24

T = TypeVar("T")


class Column(msgspec.Struct):
    """What was measured of one store at one size."""

    known: int
    spent: dict[str, Spent]
    urls_per_second: dict[str, float]
    took: Mapping[str, Sequence[float]]
    """Seconds of each call, by its name."""
    in_server: Mapping[str, Sequence[float]]
    """Seconds of each statement or script, as the server tells."""
    sizes: Sizes
    seconds: float
    """On the wall, that this size took."""
    yardstick: float
    """What a fixed piece of work took meanwhile, in milliseconds of CPU; see spent.py."""
    load: float
    """Average load of the machine, in its last minute."""


#: By the kind of the store; one that was not measured to its end lacks the largest sizes.
Figures = Mapping[str, Sequence[Column]]


def show(figures: Figures) -> Iterable[str]:
    """Lines; none if nothing was measured."""
    if not figures:
        return
    known = [column.known for column in max(figures.values(), key=len)]
    yield from _section("CPU µs per URL: client + server = both (KiB written to disk)", known, ["growth", "aim"])
    yield from _blocks(figures, lambda column: column.spent, _spent, _ends)
    yield from _section("URLs per second on the wall", known, [])
    yield from _blocks(figures, lambda column: column.urls_per_second, "{:,.0f}".format, None)
    yield from _section("Milliseconds of a call, in the client: median, p99, longest", known, [])
    yield from _blocks(figures, lambda column: column.took, _quantiles, None)
    yield from _section("Milliseconds in the server, as it says: median, p99, longest", known, [])
    yield from _blocks(figures, lambda column: column.in_server, _quantiles, None)
    yield from _section("Bytes", known, [])
    yield from _blocks(figures, _bytes, "{:,.1f}".format, None)
    yield from _section("The measuring itself", known, [])
    yield from _blocks(figures, _circumstances, "{:,.1f}".format, None)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so large a share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _section(title: str, known: Sequence[int], ends: Sequence[str]) -> Iterable[str]:
    columns = "".join(f"{number:>{_COLUMN},}" for number in known)
    yield ""
    yield f"## {title}"
    yield f"{'known URLs':<{_LABEL}}{columns}{''.join(f'{end:>10}' for end in ends)}"


def _blocks(
    figures: Figures,
    choose: Callable[[Column], Mapping[str, T]],
    shown: Callable[[T], str],
    ends: Callable[[str, str, Sequence[T]], str] | None,
) -> Iterable[str]:
    most = max(map(len, figures.values()))
    # From the largest size on: the smallest may lack one, and has what is measured there alone.
    names = dict.fromkeys(name for columns in figures.values() for column in columns[::-1] for name in choose(column))
    for name in names:
        yield name
        for kind, columns in figures.items():
            values = [choose(column).get(name) for column in columns]
            there = [value for value in values if value is not None]
            if there:
                cells = "".join(f"{'' if value is None else shown(value):>{_COLUMN}}" for value in values)
                cells = cells.ljust(_COLUMN * most)
                yield f"  {kind:<{_LABEL - 2}}{cells}{ends(kind, name, there) if ends else ''}"


def _spent(spent: Spent) -> str:
    if not spent.server:
        return f"{spent.total:.1f} ({spent.written:.1f})"
    return f"{spent.client:.1f}+{spent.server:.1f}={spent.total:.1f} ({spent.written:.1f})"


def _ends(kind: str, name: str, values: Sequence[Spent]) -> str:
    """Growth and aim; what is missed is marked."""
    growth = values[-1].total / values[0].total
    aim = AIMS[kind].get(name.replace(":", ",").partition(",")[0])
    mark = "!" if len(values) > 1 and growth > GROWTH[kind] else " "
    shown = f"{growth:>9.1f}{mark}" if len(values) > 1 else f"{'':>10}"
    if aim is None:
        return shown
    return f"{shown}{aim:>9}{'!' if max(value.total for value in values) > aim else ' '}"


def _quantiles(seconds: Sequence[float]) -> str:
    return " ".join(f"{1e3 * percentile(seconds, share):.1f}" for share in (0.5, 0.99, 1.0))


def _circumstances(column: Column) -> dict[str, float]:
    return {
        "seconds that the size took": column.seconds,
        "load average": column.load,
        "CPU ms of a fixed piece of work": column.yardstick,
    }


def _bytes(column: Column) -> dict[str, float]:
    return {
        "per seen URL": column.sizes.seen_url,
        "per queued URL": column.sizes.queued_url,
        "per site": column.sizes.site,
        "all in all, MiB": column.sizes.all_in_all / (1 << 20),
    }
