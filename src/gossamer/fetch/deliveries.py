"""What the workers have done, gathered and told to the store in batches."""

import asyncio
import logging
import time
from collections import Counter

from msgspec.structs import replace

from gossamer.errors import GossamerError
from gossamer.fetch.meter import UNMEASURED, FetchMeter
from gossamer.fetch.robots import Access
from gossamer.fetch.shortage import Shortage
from gossamer.frontier.store import Store
from gossamer.records import Move, Outcome, Release, RobotsCopy
from gossamer.spool.writer import ClosedSegment, SegmentWriter

_LOG = logging.getLogger("gossamer.fetch")

#: Between attempts to write to a disk that is full.
_DISK_SECONDS = 1.0


class Deliveries:
    """Workers add to it and never wait; one task sends.

    A site's release may go before its outcome: what matters to the site is its clock, and an outcome waits for its
    segment to close. If the store is gone, what is gathered is lost with this process, and its URLs go back to their
    queues when the slots are taken again.
    """

    def __init__(self, store: Store, writer: SegmentWriter, shortage: Shortage, meter: FetchMeter = UNMEASURED) -> None:
        self.added = asyncio.Event()
        """Set with every addition; whoever waits for it clears it."""
        self.outcomes: Counter[str] = Counter()
        """By reason, those that go back included."""
        self.received_bytes = 0
        self._store = store
        self._writer = writer
        self._shortage = shortage
        self._meter = meter
        self._releases: list[Release] = []
        self._copies: dict[str, RobotsCopy] = {}
        self._busy: dict[str, tuple[float, int]] = {}
        self._closed: ClosedSegment | None = None
        self._disk_not_before = 0.0

    def add(self, outcome: Outcome, move: Move, release: Release) -> None:
        self.outcomes[outcome.reason] += 1
        self.received_bytes += outcome.body_bytes
        self._meter.delivered(outcome)
        _LOG.debug("%s: %s", outcome.reason, outcome.lease.url)
        self._writer.add(outcome, move)
        self._releases.append(release)
        self.added.set()

    def save(self, copy: RobotsCopy) -> None:
        self._copies[copy.origin] = copy

    def save_busy(self, origin: str, busy_until: float, busy_answers: int) -> None:
        """Goes into the copy that the store has."""
        self._busy[origin] = busy_until, busy_answers

    async def send(self, *, everything: bool = False) -> None:
        """Tell the store; outcomes only when their segment is due, or if `everything` is to be gone."""
        copies, self._copies = self._copies, {}
        busy, self._busy = self._busy, {}
        releases, self._releases = self._releases, []
        # What was learnt of an origin goes before the release of its site, so that no later lease can miss it.
        if busy:
            await self._add_busy(copies, busy)
        if copies:
            await self._store.save_robots(copies.values())
        if releases:
            await self._store.release(releases)
        now = time.monotonic()
        is_due = self._closed is not None or self._writer.is_due(now)
        if everything or (now >= self._disk_not_before and is_due):
            try:
                await self._publish()
                self._closed = self._writer.close_segment()
                await self._publish()
            except OSError as error:
                if everything:
                    raise GossamerError(f"the spool cannot be written: {error}; resume when there is room") from error
                self._shortage.met(f"the spool cannot be written: {error}")
                self._shortage.is_spool_stuck = True
                self._disk_not_before = now + _DISK_SECONDS
            else:
                self._shortage.is_spool_stuck = False

    async def _add_busy(self, copies: dict[str, RobotsCopy], busy: dict[str, tuple[float, int]]) -> None:
        """The store replaces whole copies, so those that are to stay as they are otherwise are read first."""
        unread = [origin for origin in busy if origin not in copies]
        known = copies | (await self._store.load_robots(unread) if unread else {})
        for origin, (busy_until, busy_answers) in busy.items():
            # One that the store does not have is asked for again when the origin may be.
            copy = known.get(origin) or RobotsCopy(origin=origin, access=Access.DISALLOW_ALL.value)
            copies[origin] = replace(copy, busy_until=busy_until, busy_answers=busy_answers)

    async def _publish(self) -> None:
        """What is closed goes to the parsers. After an OSError it is still there, and the store may be told again."""
        if self._closed is not None:
            self._closed.publish(await self._store.spool(self._closed.id, self._closed.moves))
            self._closed = None
