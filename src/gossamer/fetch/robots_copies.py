"""Copies of robots.txt on their way to the store."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from itertools import islice

from msgspec.structs import replace

from gossamer.fetch.robots import Access
from gossamer.frontier.store import Store
from gossamer.records import RobotsCopy

#: Copies are gathered for so long, so that one call carries those of a tick.
_GATHER_SECONDS = 0.015
#: In one call to the store: some are 500 KiB long.
_BATCH_BYTES = 4 << 20
#: What waits while the store does not take them. Beyond it the oldest are dropped: then robots.txt is asked for again.
MOST_BYTES = 16 << 20
#: Busy origins whose copy the store has and that wait to be written into it; beyond it the oldest are dropped.
MOST_BUSY = 20_000
#: Copies that are read from the store at once, to be written again: some are 500 KiB long.
_LOADED_AT_ONCE = 16
#: What a copy takes beside its body.
_COPY_BYTES = 500


class RobotsCopies:
    """Saves what was learnt of robots.txt, in the background: neither a release nor an outcome ever waits for it.

    What the store does not have yet is found here (`load`).
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: dict[str, RobotsCopy] = {}
        self._unsaved_bytes = 0
        self._busy: dict[str, tuple[float, int]] = {}
        """By origin, `busy_until` and `busy_answers`, for the copy that the store has."""
        self._is_added = asyncio.Event()

    def save(self, copy: RobotsCopy) -> None:
        self._forget(copy.origin)
        self._busy.pop(copy.origin, None)
        self._unsaved[copy.origin] = copy
        self._unsaved_bytes += _size_bytes(copy)
        while self._unsaved_bytes > MOST_BYTES:
            self._forget(next(iter(self._unsaved)))
        self._is_added.set()

    def save_busy(self, origin: str, busy_until: float, busy_answers: int) -> None:
        """Changes the copy that is there."""
        copy = self._unsaved.get(origin)
        if copy is not None:
            self.save(replace(copy, busy_until=busy_until, busy_answers=busy_answers))
            return
        self._busy.pop(origin, None)
        self._busy[origin] = busy_until, busy_answers
        if len(self._busy) > MOST_BUSY:
            del self._busy[next(iter(self._busy))]
        self._is_added.set()

    def unsaved(self, origin: str) -> RobotsCopy | None:
        return self._unsaved.get(origin)

    async def load(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        """What is known of these origins, saved or not."""
        found = {origin: copy for origin in origins if (copy := self.unsaved(origin)) is not None}
        if len(found) < len(origins):
            found |= await self._store.load_robots([origin for origin in origins if origin not in found])
            # What was saved meanwhile is newer.
            found |= {origin: copy for origin in origins if (copy := self.unsaved(origin)) is not None}
        if self._busy:
            for origin in origins:
                if origin in self._busy:
                    found[origin] = self._with_busy(origin, found.get(origin))
        return found

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._is_added.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._is_added.clear()
            await self._save_all()

    async def flush(self, seconds: float) -> None:
        """A last chance for what is left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._save_all()

    async def _save_all(self) -> None:
        while busy := list(islice(self._busy, _LOADED_AT_ONCE)):
            copies = await self._store.load_robots(busy)
            for origin in busy:
                if origin in self._busy:  # otherwise a whole copy has come meanwhile
                    self.save(self._with_busy(origin, copies.get(origin)))
        while batch := self._batch():
            await self._store.save_robots(batch)
            for copy in batch:
                # Another may have come meanwhile.
                if self._unsaved.get(copy.origin) is copy:
                    self._forget(copy.origin)

    def _batch(self) -> list[RobotsCopy]:
        batch: list[RobotsCopy] = []
        room_bytes = _BATCH_BYTES
        for copy in self._unsaved.values():
            room_bytes -= _size_bytes(copy)
            if batch and room_bytes < 0:
                break
            batch.append(copy)
        return batch

    def _with_busy(self, origin: str, copy: RobotsCopy | None) -> RobotsCopy:
        busy_until, busy_answers = self._busy[origin]
        # A robots.txt that the store does not have is asked for again when the origin may be.
        copy = copy or RobotsCopy(origin=origin, access=Access.DISALLOW_ALL.value)
        return replace(copy, busy_until=busy_until, busy_answers=busy_answers)

    def _forget(self, origin: str) -> None:
        copy = self._unsaved.pop(origin, None)
        if copy is not None:
            self._unsaved_bytes -= _size_bytes(copy)


def _size_bytes(copy: RobotsCopy) -> int:
    return len(copy.body) + _COPY_BYTES
