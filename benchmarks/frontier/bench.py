"""One frontier and the measurements on it. It grows through `admit` itself, from one URL of each site."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from benchmarks.frontier.cycles import Cycles
from benchmarks.frontier.links import Links
from benchmarks.frontier.places import SLOTS, Place
from benchmarks.frontier.spent import Spent, Stopwatch, read
from gossamer.frontier.store import AdmitLimits, Counts
from gossamer.records import Candidate, Reason

ROUNDS = 3
#: URLs of one measurement and round.
URLS = 19_200
#: Of the measurement that has what a server does from time to time: enough for some of it to fall due.
LONG = 48_000
#: Links of a parser's call: those of some 20 pages.
BATCH = 2_000
#: Of each of the calls that are seldom made.
OTHER_CALLS = 50
LIMITS = AdmitLimits()


class Bench:
    """One frontier, owned as a whole by one process."""

    def __init__(self, place: Place, sites: int) -> None:
        self._place = place
        self._store = place.store(may_create=True)
        self._links = Links(sites)
        self._known = 0
        self.stopwatch = Stopwatch()
        self._cycles = Cycles(self._store, "benchmark", self.stopwatch)
        self.seeded = Spent(0.0, 0.0, 0.0)

    async def __aenter__(self) -> Self:
        await self._store.open()
        await self._store.begin_run(latest_not_before_seconds=1e9)
        await self.own(await self._store.now())
        seeds = self._links.seeds()
        self.seeded = await self._per_url(lambda: self._admit(seeds, BATCH, "admit seeds"), len(seeds))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def own(self, now: float) -> None:
        await self._cycles.own(range(SLOTS), now)

    async def disown(self) -> float:
        """The time at which it ends."""
        return await self._cycles.disown()

    async def counts(self) -> Counts:
        return await self._store.counts(now=self._cycles.now)

    def take_calls(self) -> dict[str, Sequence[float]]:
        """How long each took since this was asked last."""
        took: dict[str, Sequence[float]] = dict(self.stopwatch.took)
        self.stopwatch.took.clear()
        return took

    async def grow(self, known: int) -> dict[str, Spent]:
        """Nothing, if it has that size already."""
        missing = known - self._known
        if missing <= 0:
            return {}
        return {"admit, while growing to this size": await self._per_url(lambda: self._grow(known), missing)}

    async def _grow(self, known: int) -> None:
        while self._known < known:
            await self._admit(self._links.pages(BATCH // 100, are_new=True), BATCH, "admit 2,000 new")

    async def _per_url(self, work: Callable[[], Awaitable[None]], urls: int) -> Spent:
        before = read(self.stopwatch, self._place.server)
        await work()
        return read(self.stopwatch, self._place.server).since(before, urls)

    async def _admit(self, candidates: Sequence[Candidate], batch: int, name: str) -> None:
        for begin in range(0, len(candidates), batch):
            links = candidates[begin : begin + batch]
            answers = await self.stopwatch.time(name, self._store.admit(links, LIMITS, now=self._cycles.now))
            self._known += answers.count(Reason.NEW)

    def _works(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "admit, new, batches of 100": lambda: self._admit_pages(100, are_new=True),
            "admit, new, batches of 2,000": lambda: self._admit_pages(BATCH, are_new=True),
            "admit, seen, batches of 100": lambda: self._admit_pages(100, are_new=False),
            "admit, seen, batches of 2,000": lambda: self._admit_pages(BATCH, are_new=False),
            "worst: new, 2,000, every URL on another site": self._admit_scattered,
            "cycle: lease, release, spool, finish 64": lambda: self._cycles.run(URLS),
        }

    async def once_each(self) -> None:
        """All that is measured, for somebody else to measure it."""
        for work in self._works().values():
            await work()

    async def measures(self) -> dict[str, Spent]:
        """Of several rounds, of each the one that cost least."""
        works = self._works()
        rounds = [{name: await self._per_url(work, URLS) for name, work in works.items()} for _ in range(ROUNDS)]
        return {name: min((figures[name] for figures in rounds), key=lambda spent: spent.total) for name in works}

    async def long_cycle(self) -> dict[str, Spent]:
        """Once, with whatever a server does meanwhile: checkpoints, cleaning up, rewriting its file."""
        # Otherwise a small frontier would run out of sites that are due.
        await self._admit(self._links.scattered(LONG), BATCH, "admit 2,000 scattered")
        return {f"cycle, {LONG:,} URLs in one go": await self._per_url(lambda: self._cycles.run(LONG), LONG)}

    async def other_calls(self) -> None:
        """Those that are seldom made, for the time that they take."""
        for _ in range(OTHER_CALLS):
            await self._cycles.other_calls()

    async def _admit_pages(self, batch: int, *, are_new: bool) -> None:
        name = f"admit {batch:,} {'new' if are_new else 'seen'}"
        await self._admit(self._links.pages(URLS // 100, are_new=are_new), batch, name)

    async def _admit_scattered(self) -> None:
        await self._admit(self._links.scattered(URLS), BATCH, "admit 2,000 scattered")
