"""The way of a URL after its admission: lease, release, spool, finish; and the verbs that are seldom called."""

import itertools
from collections.abc import Mapping, Sequence

from benchmarks.frontier.spent import Stopwatch
from gossamer.frontier.store import Store
from gossamer.records import Destination, Finished, Lease, Move, Reason, Release, RobotsCopy, SiteClock

#: URLs of a call, as a segment has them.
CYCLE = 64
DELAY_SECONDS = 70.0
#: A usual one has a few hundred bytes.
ROBOTS = b"User-agent: *\nDisallow: /search\nDisallow: /basket\nCrawl-delay: 10\n" * 8


class Cycles:
    """The way of a URL after its admission, 64 at a time: lease, release, spool, finish. Its time is made up: a second
    passes with each lease."""

    def __init__(self, store: Store, owner: str, stopwatch: Stopwatch) -> None:
        self._store = store
        self._owner = owner
        self._stopwatch = stopwatch
        self._calls = itertools.count(1)
        self._slots: Sequence[int] = ()
        self._epochs: Mapping[int, int] = {}
        self.now = 0.0

    async def own(self, slots: Sequence[int], now: float) -> None:
        self.now = now
        self._slots = slots
        self._epochs = await self._own()
        assert len(self._epochs) == len(slots), "somebody else has these slots"

    async def _own(self) -> dict[int, int]:
        return await self._store.own(
            self._owner, self._slots, now=self.now, until=self.now + 1e6, delay_seconds=DELAY_SECONDS
        )

    async def disown(self) -> float:
        """The time at which it ends."""
        await self._store.disown(self._owner)
        return self.now

    async def run(self, urls: int) -> None:
        for _ in range(urls // CYCLE):
            await self._one()

    async def _one(self) -> None:
        segment, leases = await self._spool()
        finished = [
            Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 20_000)
            for lease in leases
        ]
        await self._stopwatch.time("finish 64", self._store.finish(finished))

    async def _spool(self) -> tuple[str, list[Lease]]:
        store, time = self._store, self._stopwatch.time
        self.now += 1.0
        call = f"{self._owner}-{next(self._calls):08d}"
        given = await time(
            "lease 64",
            store.lease(call, self._epochs, CYCLE, now=self.now, delay_seconds=DELAY_SECONDS, max_pages=0),
        )
        assert len(given.leases) == CYCLE, "too few sites are due"
        clock = SiteClock(self.now)
        releases = [Release(lease, True, self.now + DELAY_SECONDS, clock) for lease in given.leases]
        moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in given.leases]
        await time("release 64", store.release(releases))
        refused = await time("spool 64", store.spool(call, moves))
        assert not refused
        return call, given.leases

    async def other_calls(self) -> None:
        """Each of the verbs that are seldom called, once."""
        store, time = self._store, self._stopwatch.time
        segment, leases = await self._spool()
        await time("segments", store.segments())
        assert len(await time("spooled", store.spooled(segment))) == CYCLE
        await time("unspool 64", store.unspool(segment))
        await time("now", store.now())
        await time("counts", store.counts(now=self.now))
        await time("own, kept", self._own())
        copies = [RobotsCopy(origin=f"https://{lease.site}", access="parsed", body=ROBOTS) for lease in leases]
        await time("save_robots 64", store.save_robots(copies))
        known = await time("load_robots 64", store.load_robots([copy.origin for copy in copies]))
        assert len(known) == CYCLE
