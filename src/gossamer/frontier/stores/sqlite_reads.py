"""The verbs that read the frontier in SQLite, for the processes of a crawl and for who looks into it."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from gossamer.frontier.store import Counts, Sighting, SiteState, Store
from gossamer.frontier.stores.searching import Piece, find_in_blocks
from gossamer.frontier.stores.sqlite_verbs import Verbs
from gossamer.records import Candidate, RobotsCopy

T = TypeVar("T")


class SqliteReads(Store):
    """Each verb is one transaction, however `_read` makes it; only `find` in a long queue is several."""

    @abstractmethod
    async def _read(self, work: Callable[[Verbs], T]) -> T:
        """The answer of `work`, in a transaction that changes nothing."""

    async def segments(self) -> dict[str, int]:
        return await self._read(Verbs.segments)

    async def spooled(self, segment: str) -> set[int]:
        return await self._read(lambda verbs: verbs.spooled(segment))

    async def counts(self, *, now: float) -> Counts:
        return await self._read(lambda verbs: verbs.counts(now))

    async def find(self, candidate: Candidate) -> Sighting:
        def next_piece(site: int, after: int) -> Awaitable[Piece]:
            return self._read(lambda verbs: verbs.looking().piece(site, after))

        first = await self._read(lambda verbs: verbs.looking().look(candidate))
        return await find_in_blocks(candidate, first, next_piece)

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        return await self._read(lambda verbs: verbs.looking().site_states(sites))

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        return await self._read(lambda verbs: verbs.load_robots(origins))
