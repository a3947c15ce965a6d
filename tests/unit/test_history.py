"""The points of the charts: from the beginning of a run, bounded however long it lasts, and nothing counted twice."""

from gossamer.frontier.store import Counts
from gossamer.report.history import KEPT_MINUTES, KEPT_OF_ALL, KEPT_SAMPLES, SPANS, History, Series
from gossamer.report.sample import SAMPLE_SECONDS, Percentiles, Sample


def sample(number: int) -> Sample:
    return Sample(
        at=number * SAMPLE_SECONDS,
        elapsed_seconds=number * SAMPLE_SECONDS,
        counts=Counts(admitted=number),
        pages_per_second=float(number % 2),
        outcomes={"page": 1},
        latency={"total": Percentiles(0.1, 0.2, number)},
    )


def counted(series: Series) -> int:
    points = [*series.points, *([series.partial] if series.partial else [])]
    return sum(point.outcomes["page"] for point in points)


def test_a_young_run_has_every_sample_in_every_span() -> None:
    history = History()
    for number in range(1, 31):
        history.add(sample(number))
    for span in SPANS:
        series = history.series(span)
        assert (series.step_seconds, len(series.points), series.partial) == (SAMPLE_SECONDS, 30, None)


def test_all_reaches_back_to_the_beginning_and_stays_bounded_while_its_points_grow_apart() -> None:
    history = History()
    steps = set()
    number, series = 0, history.series("all")
    for number in range(1, 10 * KEPT_OF_ALL + 8):
        history.add(sample(number))
        series = history.series("all")
        steps.add(series.step_seconds)
        assert len(series.points) < KEPT_OF_ALL
        if number > KEPT_OF_ALL:
            assert len(series.points) >= KEPT_OF_ALL // 2
    assert steps == {SAMPLE_SECONDS * factor for factor in (1, 2, 4, 8, 16)}
    # Every sample is in one point, the last ones in that which is not whole yet.
    assert counted(series) == number
    assert series.partial is not None
    assert series.partial.at == number * SAMPLE_SECONDS
    assert series.points[0].at == series.step_seconds
    assert {point.pages_per_second for point in series.points} == {0.5}
    gaps = {later.at - one.at for one, later in zip(series.points, series.points[1:], strict=False)}
    assert gaps == {series.step_seconds}
    # Of latencies, the worst.
    assert series.points[0].total.p99 == series.step_seconds / SAMPLE_SECONDS


def test_the_hour_and_the_day_keep_what_they_cover() -> None:
    history = History()
    samples = int((KEPT_MINUTES + 3) * 60 / SAMPLE_SECONDS) + 1
    for number in range(1, samples + 1):
        history.add(sample(number))
    assert len(history.series("hour").points) == KEPT_SAMPLES
    assert len(history.series("5min").points) == 60
    day = history.series("day")
    assert (day.step_seconds, len(day.points)) == (60, KEPT_MINUTES)
    assert {point.outcomes["page"] for point in day.points} == {12}
    assert day.partial is not None
    assert day.partial.outcomes == {"page": 1}
