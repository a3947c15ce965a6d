"""From the store to the workers: leases in batches, each with what is known of its origin's robots.txt."""

import asyncio
import secrets
import time
from collections import deque

import msgspec

from gossamer.config import Settings
from gossamer.fetch.byte_budget import ByteBudget
from gossamer.fetch.deliveries import Deliveries
from gossamer.fetch.robots_cache import RobotsCache, Standing
from gossamer.fetch.robots_copies import RobotsCopies
from gossamer.fetch.shortage import Shortage
from gossamer.fetch.slots_held import HeldSlots
from gossamer.frontier.store import Store
from gossamer.records import Lease, RobotsCopy
from gossamer.spool.directory import Backlog, SpoolDirectory
from gossamer.spool.pressure import Pressure, State

#: Leases beyond the workers that are free: what a thousand workers may finish between two ticks. Each keeps its site
#: waiting, so there are never more than workers.
_RESERVE = 64
#: Under back-pressure no more are leased at a time, so that the pauses between them tell: a segment's worth.
_SLOWED_BATCH = 64
#: The spool's names are read this often; at a thousand pages a second it has grown by a few segments since.
_BACKLOG_SECONDS = 0.25
#: What a parser has admitted, or the leader said, is found out about within this time. Asking in vain costs 0.1 ms.
_LONGEST_WAIT_SECONDS = 0.1
#: Leases that wait until a long robots.txt is read, one after the other, up to 0.1 s each. More would take the room of
#: all other leases; they go back to the store for so long.
_MOST_UNREAD = 32
_UNREAD_SECONDS = 10.0
#: Copies of robots.txt that are loaded at once: up to 500 KiB each.
_COPIES_AT_ONCE = 32
#: Verdicts take microseconds, and milliseconds where a file has very many rules: then others have their turn.
_TURN_SECONDS = 0.05


class Work(msgspec.Struct, frozen=True):
    """One lease for one worker."""

    lease: Lease
    standing: Standing | None
    """Of its origin's robots.txt; None if it was never asked for."""


class Wait(msgspec.Struct, frozen=True, gc=False):
    """When it is worth coming back."""

    seconds: float
    """From now, at the latest."""
    is_held: bool
    """Nothing is leased before that, so whatever ends meanwhile need not be told to the store at once."""


class Feeder:
    """The only one who leases. `Fetcher` calls `feed` tick by tick and tells it how many workers are free.

    What waits in `queue` is leased, and so is what `_unread` holds until its robots.txt is read: `Fetcher` hands both
    back when it stops (`taken_back`).
    """

    def __init__(
        self,
        *,
        settings: Settings,
        store: Store,
        spool: SpoolDirectory,
        slots: HeldSlots,
        robots: RobotsCache,
        copies: RobotsCopies,
        deliveries: Deliveries,
        budget: ByteBudget,
        shortage: Shortage,
        pressure: Pressure,
    ) -> None:
        self.queue: asyncio.Queue[Work] = asyncio.Queue()
        self.is_paused = False
        self._settings = settings
        self._reserve = min(_RESERVE, settings.fetch.fetcher_workers)
        self._store = store
        self._spool = spool
        self._slots = slots
        self._robots = robots
        self._copies = copies
        self._deliveries = deliveries
        self._budget = budget
        # Where half of the workers wait for room, another lease would most likely wait with them.
        self._most_waiting = max(1, settings.fetch.fetcher_workers // 2)
        self._unread: deque[Lease] = deque()
        """Those with a long robots.txt, which is read in a thread; the first is being read."""
        self._reading: asyncio.Task[None] | None = None
        self._shortage = shortage
        self._pressure = pressure
        self._looked_at = float("-inf")
        self._not_before = 0.0
        self._next_due_at: float | None = None

    async def feed(self, free_workers: int) -> Wait:
        """Lease what there is room for."""
        now = time.monotonic()
        self._look_at_spool(now)
        self._read_on()
        room = free_workers + self._reserve - self.waiting
        must_wait = (
            self.is_paused
            or self._shortage.is_on
            or self._deliveries.is_spool_full
            or self._budget.waiting >= self._most_waiting
            or not self._slots.are_current
        )
        if must_wait or self._pressure.state is State.HARD:
            return Wait(_LONGEST_WAIT_SECONDS, is_held=True)
        if now < self._not_before:
            return Wait(min(self._not_before - now, _LONGEST_WAIT_SECONDS), is_held=True)
        is_slowed = self._pressure.state is State.SOFT
        if is_slowed:
            room = min(room, _SLOWED_BATCH)
            self._not_before = now + self._pressure.pause_seconds()
        if room <= 0:
            return Wait(_LONGEST_WAIT_SECONDS, is_held=is_slowed)
        given = await self._store.lease(
            secrets.token_hex(8),
            self._slots.epochs,
            room,
            now=self._slots.clock.earliest(),
            delay_seconds=self._settings.politeness.delay_seconds,
            max_pages=self._settings.run.max_pages,
        )
        self._next_due_at = given.next_due_at
        await self._queue(given.leases)
        if is_slowed:
            return Wait(min(self._not_before - now, _LONGEST_WAIT_SECONDS), is_held=True)
        if len(given.leases) == room:
            return Wait(0.0, is_held=False)
        if given.next_due_at is None:
            return Wait(_LONGEST_WAIT_SECONDS, is_held=False)
        due_seconds = max(given.next_due_at - self._slots.clock.earliest(), 0.0)
        return Wait(min(due_seconds, _LONGEST_WAIT_SECONDS), is_held=False)

    @property
    def waiting(self) -> int:
        """Leases that no worker has yet."""
        return self.queue.qsize() + len(self._unread)

    async def taken_back(self) -> list[Lease]:
        """Whatever no worker has taken, at the end."""
        self.close()
        if self._reading is not None:
            await asyncio.wait([self._reading])
        leases = list(self._unread)
        self._unread.clear()
        while not self.queue.empty():
            leases.append(self.queue.get_nowait().lease)
        return leases

    def close(self) -> None:
        """Nothing more is read."""
        if self._reading is not None:
            self._reading.cancel()

    def next_due_milliseconds(self) -> int:
        """Until the next site may be leased, as the store said last; -1 if none waits."""
        if self._next_due_at is None:
            return -1
        return max(0, round((self._next_due_at - self._slots.clock.earliest()) * 1000))

    async def _queue(self, leases: list[Lease]) -> None:
        unknown: list[tuple[str, Lease]] = []
        turn_ends_at = time.monotonic() + _TURN_SECONDS
        for lease in leases:
            origin = _origin(lease)
            standing = self._robots.known(origin, lease.url)
            if standing is None:
                unknown.append((origin, lease))
            else:
                self.queue.put_nowait(Work(lease, standing))
                if time.monotonic() >= turn_ends_at:
                    await asyncio.sleep(0)
                    turn_ends_at = time.monotonic() + _TURN_SECONDS
        for first in range(0, len(unknown), _COPIES_AT_ONCE):
            some = unknown[first : first + _COPIES_AT_ONCE]
            copies = await self._copies.load([origin for origin, _ in some])
            for origin, lease in some:
                copy = copies.get(origin)
                if copy is not None and self._robots.is_long(copy):
                    # Its body is loaded again when its turn has come, so that many of them do not wait in memory.
                    if len(self._unread) < _MOST_UNREAD:
                        self._unread.append(lease)
                    else:
                        self.queue.put_nowait(Work(lease, self._postponed(copy)))
                else:
                    standing = None if copy is None else await self._robots.remember(copy, lease.url)
                    self.queue.put_nowait(Work(lease, standing))
        self._read_on()

    def _postponed(self, copy: RobotsCopy) -> Standing:
        """Its worker sends it back as one of an origin that is held."""
        until = max(copy.busy_until, self._slots.clock.latest() + _UNREAD_SECONDS)
        detail = "its robots.txt is long and waits to be read"
        return Standing(None, 0.0, copy.expires_at, copy.failures, detail, until, copy.busy_answers)

    def _read_on(self) -> None:
        """Have what is unread read, one after the other; raises what has gone wrong with the store meanwhile."""
        if self._reading is not None and self._reading.done():
            self._reading.result()
            self._reading = None
        if self._unread and self._reading is None:
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while self._unread:
            lease = self._unread[0]
            origin = _origin(lease)
            copy = (await self._copies.load([origin])).get(origin)
            standing = None if copy is None else await self._robots.remember(copy, lease.url)
            self._unread.popleft()
            self.queue.put_nowait(Work(lease, standing))

    def _look_at_spool(self, now: float) -> None:
        if now - self._looked_at >= _BACKLOG_SECONDS:
            self._looked_at = now
            try:
                backlog = self._spool.backlog()
                if self._deliveries.is_spool_full:
                    # By all that is in it; what is ready may be less.
                    full_bytes = self._settings.spool.spool_bytes + 1
                    backlog = Backlog(backlog.pages, max(backlog.bytes, full_bytes))
                self._pressure.update(backlog)
            except OSError as error:
                # A directory needs a descriptor, too. How much waits is not known, so nothing is added to it.
                self._shortage.met(f"the spool cannot be read: {error}")


def _origin(lease: Lease) -> str:
    # No host begins with a slash, so the first one from here on ends the origin, after "http://" too.
    return lease.url[: lease.url.index("/", 8)]
