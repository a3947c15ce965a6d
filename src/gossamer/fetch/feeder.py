"""From the store to the workers: leases in batches, each with what is known of its origin's robots.txt."""

import asyncio
import secrets
import time

import msgspec

from gossamer.config import Settings
from gossamer.fetch.robots_cache import RobotsCache, Standing
from gossamer.fetch.shortage import Shortage
from gossamer.fetch.slots_held import HeldSlots
from gossamer.frontier.store import Store
from gossamer.records import Lease
from gossamer.spool.directory import SpoolDirectory
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

    What waits in `queue` is leased: `Fetcher` hands it back when it stops.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        store: Store,
        spool: SpoolDirectory,
        slots: HeldSlots,
        robots: RobotsCache,
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
        self._shortage = shortage
        self._pressure = pressure
        self._looked_at = float("-inf")
        self._not_before = 0.0
        self._next_due_at: float | None = None

    async def feed(self, free_workers: int) -> Wait:
        """Lease what there is room for."""
        now = time.monotonic()
        self._look_at_spool(now)
        room = free_workers + self._reserve - self.queue.qsize()
        must_wait = self.is_paused or self._shortage.is_on or not self._slots.are_current
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

    def next_due_milliseconds(self) -> int:
        """Until the next site may be leased, as the store said last; -1 if none waits."""
        if self._next_due_at is None:
            return -1
        return max(0, round((self._next_due_at - self._slots.clock.earliest()) * 1000))

    async def _queue(self, leases: list[Lease]) -> None:
        # No host begins with a slash, so the first one from here on ends the origin, after "http://" too.
        origins = [lease.url[: lease.url.index("/", 8)] for lease in leases]
        standings = {
            lease.url: self._robots.known(origin, lease.url) for lease, origin in zip(leases, origins, strict=True)
        }
        unknown = {
            origin: lease.url for lease, origin in zip(leases, origins, strict=True) if standings[lease.url] is None
        }
        if unknown:
            for origin, copy in (await self._store.load_robots(unknown)).items():
                standings[unknown[origin]] = self._robots.remember(copy, unknown[origin])
        for lease in leases:
            self.queue.put_nowait(Work(lease, standings[lease.url]))

    def _look_at_spool(self, now: float) -> None:
        if now - self._looked_at >= _BACKLOG_SECONDS:
            self._looked_at = now
            try:
                self._pressure.update(self._spool.backlog())
            except OSError as error:
                # A directory needs a descriptor, too. How much waits is not known, so nothing is added to it.
                self._shortage.met(f"the spool cannot be read: {error}")
