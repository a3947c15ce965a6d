"""Copies of robots.txt on their way to the store."""

import asyncio
from contextlib import suppress

from gossamer.frontier.store import Store
from gossamer.records import RobotsCopy

#: Copies are gathered for so long, so that one call carries those of a tick.
_GATHER_SECONDS = 0.015
#: In one call to the store: some are 500 KiB long.
_BATCH_BYTES = 4 << 20
#: What waits while the store does not take them. Beyond it the oldest are dropped: then robots.txt is asked for again.
MOST_BYTES = 16 << 20
#: What a copy takes beside its body.
_COPY_BYTES = 500


class RobotsCopies:
    """Saves what was learnt of robots.txt, in the background: neither a release nor an outcome ever waits for it.

    What the store does not have yet is found here (`unsaved`).
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: dict[str, RobotsCopy] = {}
        self._unsaved_bytes = 0
        self._is_added = asyncio.Event()

    def save(self, copy: RobotsCopy) -> None:
        self._forget(copy.origin)
        self._unsaved[copy.origin] = copy
        self._unsaved_bytes += _size_bytes(copy)
        while self._unsaved_bytes > MOST_BYTES:
            self._forget(next(iter(self._unsaved)))
        self._is_added.set()

    def unsaved(self, origin: str) -> RobotsCopy | None:
        return self._unsaved.get(origin)

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

    def _forget(self, origin: str) -> None:
        copy = self._unsaved.pop(origin, None)
        if copy is not None:
            self._unsaved_bytes -= _size_bytes(copy)


def _size_bytes(copy: RobotsCopy) -> int:
    return len(copy.body) + _COPY_BYTES
