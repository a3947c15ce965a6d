"""A store whose calls are timed, whichever it is; slow ones are named in the log, with who waits for them."""

import time
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from gossamer.frontier.store import AdmitLimits, Counts, Leases, PoolUse, Sighting, SiteState, Store
from gossamer.frontier.stores.slowness import note_call
from gossamer.records import Candidate, Finished, Move, Reason, Release, RobotsCopy
from gossamer.report.metrics import OTHER_VERB
from gossamer.run.meters import StoreCounting

T = TypeVar("T")


class MeteredStore:
    """The same store, and what it does is counted. Each process has one."""

    def __init__(self, store: Store, counting: StoreCounting) -> None:
        self._store = store
        self._counting = counting

    async def _timed(self, verb: str, call: Awaitable[T], metric: str = "") -> T:
        began_at = time.monotonic()
        try:
            return await call
        finally:
            seconds = time.monotonic() - began_at
            self._counting.called(metric or verb, seconds)
            if note_call(verb, seconds):
                self._counting.was_slow()

    @property
    def is_full(self) -> bool:
        return self._store.is_full

    @property
    def is_away(self) -> bool:
        return self._store.is_away

    @property
    def pool(self) -> PoolUse:
        return self._store.pool

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    async def begin_run(self, *, latest_not_before_seconds: float) -> int:
        return await self._timed(
            "begin_run", self._store.begin_run(latest_not_before_seconds=latest_not_before_seconds), OTHER_VERB
        )

    async def now(self) -> float:
        return await self._timed("now", self._store.now(), OTHER_VERB)

    async def vitals(self) -> dict[str, float]:
        return await self._timed("vitals", self._store.vitals(), OTHER_VERB)

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        return await self._timed("admit", self._store.admit(candidates, limits, now=now))

    async def own(
        self, owner: str, slots: Collection[int], *, now: float, until: float, delay_seconds: float
    ) -> dict[int, int]:
        call = self._store.own(owner, slots, now=now, until=until, delay_seconds=delay_seconds)
        return await self._timed("own", call)

    async def disown(self, owner: str) -> None:
        await self._timed("disown", self._store.disown(owner), OTHER_VERB)

    async def lease(
        self,
        call: str,
        slots: Mapping[int, int],
        limit: int,
        *,
        now: float,
        delay_seconds: float,
        max_pages: int,
    ) -> Leases:
        given = self._store.lease(call, slots, limit, now=now, delay_seconds=delay_seconds, max_pages=max_pages)
        return await self._timed("lease", given)

    async def release(self, releases: Sequence[Release]) -> None:
        await self._timed("release", self._store.release(releases))

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        return await self._timed("spool", self._store.spool(segment, moves))

    async def finish(self, finished: Sequence[Finished]) -> None:
        await self._timed("finish", self._store.finish(finished))

    async def sync(self) -> None:
        await self._timed("sync", self._store.sync(), OTHER_VERB)

    async def segments(self) -> dict[str, int]:
        return await self._timed("segments", self._store.segments(), OTHER_VERB)

    async def spooled(self, segment: str) -> set[int]:
        return await self._timed("spooled", self._store.spooled(segment), OTHER_VERB)

    async def unspool(self, segment: str) -> None:
        await self._timed("unspool", self._store.unspool(segment), OTHER_VERB)

    async def counts(self, *, now: float) -> Counts:
        return await self._timed("counts", self._store.counts(now=now))

    async def find(self, candidate: Candidate) -> Sighting:
        return await self._timed("find", self._store.find(candidate), OTHER_VERB)

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        return await self._timed("site_states", self._store.site_states(sites), OTHER_VERB)

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        return await self._timed("load_robots", self._store.load_robots(origins), "robots")

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        await self._timed("save_robots", self._store.save_robots(copies), "robots")
