"""What the workers have done, on its way to the spool and to the store.

    add ──► pieces in memory ──write──► spool/open ──send: the store answers──► spool/ready
                    (write_segments, in a thread)     (send, tick by tick)

Writing and sending are apart: while the store stands still, outcomes go to the disk all the same and leave the memory;
while the disk or the spool is full, sites are released all the same.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gossamer.errors import GossamerError
from gossamer.fetch.byte_budget import ByteBudget, current_visit
from gossamer.fetch.meter import UNMEASURED, FetchMeter
from gossamer.fetch.shortage import Shortage
from gossamer.frontier.store import Store
from gossamer.records import Move, Outcome, Release
from gossamer.spool.room import SpoolRoom
from gossamer.spool.writer import ClosedSegment, Piece, SegmentWriter

_LOG = logging.getLogger("gossamer.fetch")

#: Between attempts to write to a disk that is full.
_DISK_SECONDS = 1.0
#: Between looks at a spool that is at its limit: a parser has removed some segments by then.
_ROOM_SECONDS = 0.1

T = TypeVar("T")


class Deliveries:
    """Workers add to it and never wait. One task writes segments (`write_segments`), one sends (`send`).

    A site's release may go before its outcome: what matters to the site is its clock, and an outcome waits for its
    segment to close. If the store is gone, what is gathered is lost with this process, and its URLs go back to their
    queues when the slots are taken again.
    """

    def __init__(
        self,
        *,
        store: Store,
        writer: SegmentWriter,
        shortage: Shortage,
        budget: ByteBudget,
        room: SpoolRoom,
        meter: FetchMeter = UNMEASURED,
    ) -> None:
        self.added = asyncio.Event()
        """Set with every addition, and with every segment that can be sent; whoever waits for it clears it."""
        self.outcomes: Counter[str] = Counter()
        """By reason, those that go back included."""
        self.received_bytes = 0
        self.is_spool_full = False
        """Outcomes wait in memory because the spool is at its limit."""
        self._store = store
        self._writer = writer
        self._shortage = shortage
        self._budget = budget
        self._room = room
        self._meter = meter
        self._releases: list[Release] = []
        self._closed: deque[ClosedSegment] = deque()
        """Written and not yet published, oldest first."""
        self._due = asyncio.Event()
        self._writing = asyncio.Lock()
        self._publish_not_before = 0.0
        self._is_write_stuck = self._is_publish_stuck = False
        # A thread of its own: those of the loop may all wait for something else.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spool")

    def add(self, outcome: Outcome, move: Move, release: Release) -> None:
        self.outcomes[outcome.reason] += 1
        answer_bytes = outcome.body_bytes
        self.received_bytes += answer_bytes
        self._meter.delivered(outcome)
        _LOG.debug("%s: %s", outcome.reason, outcome.lease.url)
        body_bytes = answer_bytes
        if outcome.robots:
            body_bytes += sum(len(answer.body) for answer in outcome.robots)
        try:
            is_full = self._writer.add(outcome, move, body_bytes)
        except BaseException:
            # The worker delivers another outcome instead, with the same answers for robots.txt but without this one.
            self._budget.give_back(answer_bytes)
            raise
        self._budget.delivered(current_visit())
        self._releases.append(release)
        self.added.set()
        if is_full:
            self._due.set()

    async def write_segments(self) -> None:
        """For ever: write what is due, as far as spool and disk have room."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                while await self._write_one(everything=False):
                    pass
            except OSError as error:
                self._is_write_stuck = True
                self._cannot_write(error)
                await asyncio.sleep(_DISK_SECONDS)
                self._due.set()
            else:
                if self.is_spool_full:
                    await asyncio.sleep(_ROOM_SECONDS)
                    self._due.set()

    async def send(self, *, everything: bool = False) -> None:
        """Tell the store; outcomes only when their segment is due, or if `everything` is to be gone.

        At the end of a crawl all is written, also beyond the spool's limit: nothing more follows it.
        """
        releases, self._releases = self._releases, []
        if releases:
            await self._store.release(releases)
        try:
            if everything:
                while await self._write_one(everything=True):
                    pass
            elif self._writer.is_due(time.monotonic()):
                self._due.set()
            if everything or time.monotonic() >= self._publish_not_before:
                await self._publish()
        except OSError as error:
            if everything:
                raise GossamerError(f"the spool cannot be written: {error}; resume when there is room") from error
            self._is_publish_stuck = True
            self._cannot_write(error)
            self._publish_not_before = time.monotonic() + _DISK_SECONDS

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _write_one(self, *, everything: bool) -> bool:
        """The oldest piece that is due, or of all; whether there was one and it is written."""
        async with self._writing:
            piece = self._writer.take(None if everything else time.monotonic())
            if piece is None:
                self.is_spool_full = False
                return False
            try:
                closed = await self._in_thread(lambda: self._written(piece, everything=everything))
            except OSError:
                self._writer.put_back(piece)
                raise
            self.is_spool_full = closed is None
            if closed is None:
                self._writer.put_back(piece)
                return False
            self._closed.append(closed)
        self._budget.give_back(piece.body_bytes)
        self._is_write_stuck = False
        self._shortage.is_spool_stuck = self._is_publish_stuck
        self.added.set()
        return True

    def _written(self, piece: Piece, *, everything: bool) -> ClosedSegment | None:
        """In the thread; None if the spool is at its limit."""
        return self._writer.write(piece) if everything or self._room.take(piece.size_bytes) else None

    async def _publish(self) -> None:
        """What is written goes to the parsers. After an OSError it is still here, and the store may be told again."""
        while self._closed:
            closed = self._closed[0]
            refused = await self._store.spool(closed.id, closed.moves)
            await self._in_thread(lambda: closed.publish(refused))  # noqa: B023 (awaited within the turn)
            self._closed.popleft()
        self._is_publish_stuck = False
        self._shortage.is_spool_stuck = self._is_write_stuck

    def _cannot_write(self, error: OSError) -> None:
        self._shortage.met(f"the spool cannot be written: {error}")
        self._shortage.is_spool_stuck = True

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
