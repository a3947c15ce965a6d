"""A store that is open for reading only: for whoever looks into a crawl while it runs, or after."""

from collections.abc import Collection
from typing import NoReturn

from gossamer.errors import UsageError
from gossamer.frontier.store import Counts, PoolUse, Sighting, SiteState, Store
from gossamer.records import Candidate, RobotsCopy


class ReadOnlyStore(Store):
    """Refuses every verb that would change something. What can be read is up to the store itself."""

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UsageError("this frontier is open for reading only: only the processes of its crawl change it")

    begin_run = _refuse
    admit = _refuse
    own = _refuse
    disown = _refuse
    lease = _refuse
    release = _refuse
    spool = _refuse
    finish = _refuse
    sync = _refuse
    unspool = _refuse
    save_robots = _refuse


class ServerReader(ReadOnlyStore):
    """A store on a server that was made with `is_reader`: it asks, and writes nothing there."""

    def __init__(self, store: Store) -> None:
        self._store = store

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

    async def now(self) -> float:
        return await self._store.now()

    async def segments(self) -> dict[str, int]:
        return await self._store.segments()

    async def spooled(self, segment: str) -> set[int]:
        return await self._store.spooled(segment)

    async def counts(self, *, now: float) -> Counts:
        return await self._store.counts(now=now)

    async def find(self, candidate: Candidate) -> Sighting:
        return await self._store.find(candidate)

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        return await self._store.site_states(sites)

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        return await self._store.load_robots(origins)
