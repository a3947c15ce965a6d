"""The same work by several processes at once on one frontier: what waiting for each other costs."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.frontier.bench import BATCH, LIMITS, URLS
from benchmarks.frontier.cycles import Cycles
from benchmarks.frontier.links import Links
from benchmarks.frontier.places import SLOTS, Place
from benchmarks.frontier.spent import Reading, Spent, Stopwatch, read

PROCESSES = 4
#: Each as in the other measurements.
URLS_EACH = URLS // 2


class Together(NamedTuple):
    """What the processes did at once."""

    spent: dict[str, Spent]
    """By the name of the work."""
    urls_per_second: dict[str, float]
    took: dict[str, list[float]]
    """Seconds of each call, by its name."""
    now: float
    """The latest of their times."""


class _Done(NamedTuple):
    """What one process tells when a piece of work is done, and of the time that it has come to."""

    cpu_seconds: float
    written_bytes: int
    now: float
    took: dict[str, list[float]]


def together(place: Place, sites: int, now: float, parts: int) -> Together:
    """Nobody else may own slots meanwhile. `parts` numbers what is admitted; as many follow as there are processes."""
    latest = now
    spent, rates, took = {}, {}, {}
    with _workers(place, sites, now, parts) as pipes:
        for work in ("admit, new, batches of 2,000", "cycle: lease, release, spool, finish 64"):
            for pipe in pipes:
                pipe.recv()
            before, began_at = _of_server(place), time.perf_counter()
            for pipe in pipes:
                pipe.send(None)
            done: list[_Done] = [pipe.recv() for pipe in pipes]
            seconds = time.perf_counter() - began_at
            after = _of_server(place)
            after = Reading(
                sum(each.cpu_seconds for each in done),
                after.server_seconds,
                after.written_bytes + sum(each.written_bytes for each in done),
            )
            name = f"{PROCESSES} processes, {work}"
            spent[name] = after.since(before, PROCESSES * URLS_EACH)
            rates[name] = PROCESSES * URLS_EACH / seconds
            latest = max(latest, *(each.now for each in done))
            for call in done[0].took:
                took[f"{PROCESSES} at once: {call}"] = [second for each in done for second in each.took[call]]
        for pipe in pipes:
            pipe.send(None)
    return Together(spent, rates, took, latest)


def _of_server(place: Place) -> Reading:
    """Nothing, if there is none: then the processes themselves tell what they wrote."""
    return Reading(0.0, 0.0, 0) if place.server is None else read(Stopwatch(), place.server)


@contextmanager
def _workers(place: Place, sites: int, now: float, parts: int) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for number in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, place, sites, now), kwargs={"number": number, "part": parts + number}
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        yield pipes
    finally:
        # Without the pipe, one that waits for a word ends with an error.
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join()


def _work(pipe: Connection, place: Place, sites: int, now: float, *, number: int, part: int) -> None:
    """What each of the processes does."""
    asyncio.run(_work_in_turn(pipe, place, sites, now, number=number, part=part))


async def _work_in_turn(pipe: Connection, place: Place, sites: int, now: float, *, number: int, part: int) -> None:
    store = place.store()
    await store.open()
    links = Links(sites, part).pages(URLS_EACH // 100, are_new=True)
    batches = [links[begin : begin + BATCH] for begin in range(0, len(links), BATCH)]
    pipe.send(None)
    pipe.recv()
    stopwatch = Stopwatch()
    before = read(stopwatch, None)
    for batch in batches:
        await stopwatch.time("admit 2,000 new", store.admit(batch, LIMITS, now=now))
    pipe.send(_done(stopwatch, before, place, now))
    stopwatch = Stopwatch()
    cycles = Cycles(store, f"process-{number}", stopwatch)
    await cycles.own(range(number, SLOTS, PROCESSES), now)
    pipe.send(None)
    pipe.recv()
    before = read(stopwatch, None)
    await cycles.run(URLS_EACH)
    pipe.send(_done(stopwatch, before, place, cycles.now))
    pipe.recv()
    await cycles.disown()
    await store.close()


def _done(stopwatch: Stopwatch, before: Reading, place: Place, now: float) -> _Done:
    after = read(stopwatch, None)
    # With a server, what is written here goes to it.
    written = after.written_bytes - before.written_bytes if place.server is None else 0
    return _Done(after.client_seconds, written, now, {name: list(took) for name, took in stopwatch.took.items()})
