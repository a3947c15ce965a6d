"""A parser's patience: what fails because something is full, or short, is tried again until there is room."""

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gossamer.errors import GossamerError
from gossamer.parse.meter import ParserStatistics

#: Between attempts at a disk that is full: somebody has to make room, and may be at it already, or asleep.
FIRST_DISK_SECONDS = 1.0
LONGEST_DISK_SECONDS = 30.0

#: What passes when somebody makes room, or ends something. Any other error of the disk ends the parser.
_SHORTAGES = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}

T = TypeVar("T")

_LOG = logging.getLogger("gossamer.parse")


class Room:
    """Says in the statistics that its parser waits. It does not wait for ever: not when the parser must leave."""

    def __init__(self, statistics: ParserStatistics, leaving: asyncio.Event) -> None:
        self._statistics = statistics
        self._leaving = leaving
        self._seconds = FIRST_DISK_SECONDS

    async def until_done(self, work: Callable[[], T]) -> T:
        """`work` must be one that may be called again after an OSError."""
        while True:
            try:
                done = work()
            except OSError as error:
                await self.wait(error)
            else:
                self._statistics.is_short = 0
                return done

    async def until_awaited(self, work: Callable[[], Awaitable[object]]) -> None:
        """The same for what has to be awaited."""
        while True:
            try:
                await work()
            except OSError as error:
                await self.wait(error)
            else:
                self._statistics.is_short = 0
                return

    async def wait(self, error: OSError) -> None:
        if error.errno not in _SHORTAGES:
            raise error
        if self._leaving.is_set():
            raise GossamerError(f"cannot go on: {error}; resume when there is room") from error
        if not self._statistics.is_short:
            _LOG.error("cannot go on: %s; trying again until there is room", error)
            self._statistics.disk_waits += 1
            self._statistics.is_short = 1
            self._seconds = FIRST_DISK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), self._seconds)
        self._seconds = min(2 * self._seconds, LONGEST_DISK_SECONDS)
