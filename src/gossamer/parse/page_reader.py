"""How one page of the spool is read: in the parser itself, or guarded, where it can kill nothing else."""

import asyncio
import logging
import time
from functools import partial

from gossamer.config import Settings
from gossamer.parse.failures import Fault, Faults, Leaving
from gossamer.parse.guarded import GuardedReader
from gossamer.parse.record import Reading, read_answer
from gossamer.parse.room import Room
from gossamer.records import Answer
from gossamer.spool.suspects import READER_DEATHS, Finding, Suspects

_LOG = logging.getLogger("gossamer.parse")


class PageReader:
    """One parser's. What is known of a page is in `suspects`; what is learnt here is added there."""

    def __init__(self, settings: Settings, suspects: Suspects, room: Room, leaving: asyncio.Event) -> None:
        self._settings = settings
        self._suspects = suspects
        self._room = room
        self._leaving = leaving
        self._guarded = GuardedReader(settings)
        self._guarded_until = 0.0

    def guard(self, seconds: float) -> None:
        """For so long, pages are read where they can kill nothing else."""
        self._guarded_until = max(self._guarded_until, time.monotonic() + seconds)

    @property
    def is_guarded(self) -> bool:
        return time.monotonic() < self._guarded_until

    async def read(self, segment: str, index: int, answer: Answer) -> Reading | None:
        """What the page says; None if reading it kills whoever does."""
        deaths = 0
        if segment in self._suspects:
            if self._suspects.is_crash(segment, index):
                return None
            deaths = self._suspects.deaths(segment, index)
        if not deaths and not self.is_guarded:
            try:
                with Faults():
                    # What a library loads when it is first needed takes a descriptor.
                    return await self._room.until_done(partial(read_answer, answer, self._settings))
            except Fault as fault:
                cause = fault.__cause__
                _LOG.warning("page %d of segment %s: %s", index, segment, answer.url, exc_info=cause)
                deaths = 1
        # Once more in any case: one that was killed by chance must not cost the page.
        for _ in range(max(1, READER_DEATHS - deaths)):
            reading = await self._read_guarded(answer)
            if reading is not None:
                return reading
        _LOG.warning("page %d of segment %s kills its reader and is given up: %s", index, segment, answer.url)
        await self._room.until_done(lambda: self._suspects.add(segment, Finding.CRASH, index))
        return None

    async def close(self) -> None:
        """Nothing that it has started is left running."""
        await self._guarded.close()

    async def _read_guarded(self, answer: Answer) -> Reading | None:
        while True:
            reading = asyncio.create_task(self._guarded.read(answer))
            leaving = asyncio.create_task(self._leaving.wait())
            try:
                await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    raise Leaving
                return reading.result()
            except OSError as error:
                shortage = error
            finally:
                for task in (reading, leaving):
                    task.cancel()
                await asyncio.gather(reading, leaving, return_exceptions=True)
            await self._room.wait(shortage)
