"""Slow visits and the workers that they may have, with a played clock and real tasks."""

import asyncio

import pytest

from gossamer.fetch import visits as module
from gossamer.fetch.visits import Visit, Visits, VisitsInARow
from gossamer.records import Lease
from tests.contract.played_clock import PlayedClock

WORKERS = 10


def a_visit(clock: PlayedClock, number: int = 1) -> Visit:
    lease = Lease(number, 0, 1, f"http://s{number}.test/", f"s{number}.test", number, 0, 0, False, 0, 0)
    now = clock.monotonic()
    return Visit(lease, 0.0, now, now + 90.0)


class Bench:
    """Visits that wait for ever, each in a task of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = PlayedClock()
        monkeypatch.setattr(module, "time", self.clock)
        self.visits = Visits(WORKERS)
        self.began: list[tuple[Visit, asyncio.Task[None]]] = []

    async def begin(self, number: int) -> None:
        for _ in range(number):
            visit = a_visit(self.clock, len(self.began))
            task = asyncio.create_task(self._wait())
            self.visits.begin(task, visit)
            self.began.append((visit, task))
        await asyncio.sleep(0)

    async def cut(self, waiting: int = 1) -> list[int]:
        """The numbers of those that are ended by one look."""
        before = {visit.lease.number for visit, task in self.began if task.done()}
        self.clock.advance(1.0)
        self.visits.cut_slow(waiting)
        await asyncio.sleep(0)
        ended = [visit.lease.number for visit, task in self.began if task.done()]
        for visit, task in self.began:
            if visit.cut_detail and task in self.visits._visits:
                self.visits.end(task)
        return [number for number in ended if number not in before]

    async def stop(self) -> None:
        for _, task in self.began:
            task.cancel()
        await asyncio.gather(*(task for _, task in self.began), return_exceptions=True)

    async def _wait(self) -> None:
        await asyncio.Event().wait()


def test_the_oldest_slow_visits_beyond_half_of_the_workers_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench = Bench(monkeypatch)
        await bench.begin(7)
        bench.clock.advance(10.0)
        await bench.begin(3)
        assert await bench.cut() == [0, 1]
        assert bench.began[0][0].cut_detail == ("ended after 11 s: more than half of the workers wait for slow sites")
        assert await bench.cut() == []
        assert bench.visits.cut == 2
        await bench.stop()

    asyncio.run(run())


def test_time_in_which_bodies_waited_for_room_makes_no_visit_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench = Bench(monkeypatch)
        await bench.begin(WORKERS)
        bench.clock.advance(60.0)
        bench.visits.note_wait()
        assert await bench.cut() == []
        bench.clock.advance(module.SLOW_SECONDS)
        assert await bench.cut() == [0, 1, 2, 3, 4]
        await bench.stop()

    asyncio.run(run())


def test_nobody_is_ended_while_no_lease_waits_for_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench = Bench(monkeypatch)
        await bench.begin(WORKERS)
        bench.clock.advance(60.0)
        assert await bench.cut(waiting=0) == []
        assert await bench.cut(waiting=1) == [0, 1, 2, 3, 4]
        await bench.stop()

    asyncio.run(run())


def test_young_visits_are_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench = Bench(monkeypatch)
        await bench.begin(WORKERS)
        bench.clock.advance(module.SLOW_SECONDS - 1.5)
        assert await bench.cut() == []
        assert await bench.cut() != []
        await bench.stop()

    asyncio.run(run())


def test_where_every_visit_takes_long_none_is_slow_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench = Bench(monkeypatch)
        answered = [a_visit(bench.clock, number) for number in range(40)]
        bench.clock.advance(10.0)
        for visit in answered:
            bench.visits.answered(visit)
        await bench.begin(WORKERS)
        bench.clock.advance(30.0)
        assert await bench.cut() == []
        # A quarter that is fast shows that it is not the line.
        quick = [a_visit(bench.clock, number) for number in range(14)]
        for visit in quick:
            bench.visits.answered(visit)
        assert await bench.cut() == [0, 1, 2, 3, 4]
        await bench.stop()

    asyncio.run(run())


def test_fruitless_visits_are_counted_in_a_row_for_a_bounded_number_of_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SITES_KEPT", 2)
    counts = VisitsInARow()
    assert [counts.count("a.test") for _ in range(3)] == [0, 1, 2]
    counts.forget("a.test")
    assert [counts.count(f"{name}.test") for name in "aabcda"] == [0, 1, 0, 0, 0, 0]
