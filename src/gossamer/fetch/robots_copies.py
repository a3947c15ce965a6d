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
#: Changes that wait to be written into the copy that the store has; beyond it the oldest are dropped.
MOST_CHANGES = 20_000
#: Copies that are read from the store at once, to be written again: some are 500 KiB long.
_LOADED_AT_ONCE = 16
#: What a copy takes beside its body.
_COPY_BYTES = 500

#: Fields of a `RobotsCopy` by their names.
Change = dict[str, str | float | int]


class RobotsCopies:
    """Saves what was learnt of robots.txt, in the background: neither a release nor an outcome ever waits for it.

    What the store does not have yet is found here (`load`).
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: dict[str, RobotsCopy] = {}
        self._unsaved_bytes = 0
        self._changes: dict[str, Change] = {}
        """By origin, for the copy that the store has."""
        self._is_added = asyncio.Event()

    def save(self, copy: RobotsCopy) -> None:
        self._forget(copy.origin)
        self._changes.pop(copy.origin, None)
        self._unsaved[copy.origin] = copy
        self._unsaved_bytes += _size_bytes(copy)
        while self._unsaved_bytes > MOST_BYTES:
            self._forget(next(iter(self._unsaved)))
        self._is_added.set()

    def change(self, origin: str, change: Change) -> None:
        """Replaces these fields of the copy that is there, and leaves its body."""
        copy = self._unsaved.get(origin)
        if copy is not None:
            self.save(_changed(copy, change))
            return
        self._changes[origin] = self._changes.pop(origin, {}) | change
        if len(self._changes) > MOST_CHANGES:
            del self._changes[next(iter(self._changes))]
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
        if self._changes:
            for origin in origins:
                if origin in self._changes:
                    found[origin] = self._with_change(origin, found.get(origin))
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
        while origins := list(islice(self._changes, _LOADED_AT_ONCE)):
            copies = await self._store.load_robots(origins)
            for origin in origins:
                if origin in self._changes:  # otherwise a whole copy has come meanwhile
                    self.save(self._with_change(origin, copies.get(origin)))
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

    def _with_change(self, origin: str, copy: RobotsCopy | None) -> RobotsCopy:
        # A robots.txt that the store does not have is asked for again when the origin may be.
        copy = copy or RobotsCopy(origin=origin, access=Access.DISALLOW_ALL.value)
        return _changed(copy, self._changes[origin])

    def _forget(self, origin: str) -> None:
        copy = self._unsaved.pop(origin, None)
        if copy is not None:
            self._unsaved_bytes -= _size_bytes(copy)


def _changed(copy: RobotsCopy, change: Change) -> RobotsCopy:
    return replace(copy, **change)


def _size_bytes(copy: RobotsCopy) -> int:
    return len(copy.body) + _COPY_BYTES
