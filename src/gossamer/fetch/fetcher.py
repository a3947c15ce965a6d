"""A fetcher: the tasks of one process that take URLs from the store to the web, and outcomes to the spool."""

import asyncio
import random
import time
from collections.abc import Collection
from contextlib import suppress

import msgspec

from gossamer.config import Settings
from gossamer.fetch.client import Client
from gossamer.fetch.deliveries import Deliveries
from gossamer.fetch.feeder import Feeder
from gossamer.fetch.meter import UNMEASURED, FetchMeter
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.robots_copies import RobotsCopies
from gossamer.fetch.server_addresses import ServerAddresses
from gossamer.fetch.shortage import Shortage
from gossamer.fetch.slots_held import HeldSlots
from gossamer.fetch.ticks import TICK_SECONDS, Ticks
from gossamer.fetch.visits import Visits
from gossamer.fetch.worker import Worker
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.store import Store
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.pressure import Pressure, State
from gossamer.spool.room import SpoolRoom
from gossamer.spool.writer import SegmentWriter

#: Workers start gradually, so that neither a resolver nor a line is hit by all at once: ten times as many in 2.5 s.
_FIRST_WORKERS = 50
_GROWTH_SECONDS = 0.1
_GROWTH_SHARE = 10

#: What is in flight when a drain begins may end within this time.
DRAIN_SECONDS = 5.0
#: At a drain, copies of robots.txt that are not saved yet get so long; those that are left are asked for again.
_COPIES_SECONDS = 2.0


class FetcherStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a fetcher does now, and has done since it started."""

    slots: int
    workers: int
    in_flight: int
    waiting: int
    """Leased, and waiting for a worker."""
    outcomes: dict[str, int]
    """By reason, those that went back included."""
    received_bytes: int
    in_flight_bytes: int
    """Bytes of bodies in memory: received, and not yet in the spool."""
    in_flight_waiting: int
    """Connections that are not read because `in_flight_bytes` is at its limit."""
    robots_asked: int
    backpressure_soft: int
    backpressure_hard: int
    shortage_failures: int
    shortage_pauses: int
    backpressure: int
    """1 while leasing is slowed down for the parsers, 2 while it waits for them."""
    next_due_milliseconds: int
    """Until a site of these slots may be asked; -1 if nothing waits for that."""
    is_short: int
    """1 while leasing pauses for a shortage, or while it is not known to be over."""
    errors: int
    """Internal ones, each at one URL."""
    address_holds: int
    """How often a site was sent back because its server's network had no turn for it."""
    slow_visits_cut: int
    """Visits that were ended because slow ones had more than half of the workers."""


class Fetcher:
    """Owns its slots while `run` runs, and every lease that it takes ends: in a segment, or back in its queue.

    The leader and the fetcher processes each have one; they give it an open store and an open client, and close them
    after it.
    """

    def __init__(
        self,
        *,
        owner: str,
        slots: Collection[int],
        settings: Settings,
        store: Store,
        client: Client,
        rules: AdmissionRules,
        spool: SpoolDirectory,
        writer: SegmentWriter,
        meter: FetchMeter = UNMEASURED,
    ) -> None:
        self._most_workers = settings.fetch.fetcher_workers
        self._pressure = Pressure(settings.spool, random.random, meter.pressed)
        self._shortage = Shortage(meter)
        self._budget = client.budget
        room = SpoolRoom(spool, settings.spool.spool_bytes)
        self._deliveries = Deliveries(
            store=store, writer=writer, shortage=self._shortage, budget=self._budget, room=room, meter=meter
        )
        self._copies = RobotsCopies(store)
        self._slots = HeldSlots(store, owner, slots, delay_seconds=settings.politeness.delay_seconds)
        self._robots = RobotsCache(
            client, self._slots.clock, settings.politeness, self._copies.save, self._copies.change
        )
        self._addresses = ServerAddresses(
            gap_seconds=settings.politeness.address_gap_seconds,
            concurrency=settings.politeness.address_concurrency,
            share=min(1.0, max(1, len(slots)) / settings.url.slots),
        )
        self._visits = Visits(settings.fetch.fetcher_workers)
        self._ticks = Ticks()
        self._feeder = Feeder(
            settings=settings,
            store=store,
            spool=spool,
            slots=self._slots,
            robots=self._robots,
            copies=self._copies,
            deliveries=self._deliveries,
            budget=self._budget,
            shortage=self._shortage,
            pressure=self._pressure,
        )
        self._worker = Worker(
            settings=settings,
            client=client,
            rules=rules,
            slots=self._slots,
            robots=self._robots,
            deliveries=self._deliveries,
            shortage=self._shortage,
            addresses=self._addresses,
            visits=self._visits,
            ticks=self._ticks,
            meter=meter,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._grown_at = float("-inf")
        self._drained = asyncio.Event()

    async def run(self) -> None:
        """Until drained; raises StoreUnavailable if the store is gone."""
        await self._slots.renew()
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [
                    group.create_task(work)
                    for work in (self._slots.keep(), self._deliveries.write_segments(), self._copies.run())
                ]
                while not self._drained.is_set():
                    await self._tick(group)
                await self._wind_up()
                for keeper in keepers:
                    keeper.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            self._feeder.close()
            self._deliveries.close()
            self._robots.close()

    def drain(self) -> None:
        """No new leases; what is in flight gets `DRAIN_SECONDS`, the rest goes back. Then `run` returns."""
        self._drained.set()
        self._deliveries.added.set()

    def pause(self) -> None:
        """Lease nothing until `go_on`; what is leased is fetched."""
        self._feeder.is_paused = True

    def go_on(self) -> None:
        self._feeder.is_paused = False

    def statistics(self) -> FetcherStatistics:
        return FetcherStatistics(
            slots=len(self._slots.epochs),
            workers=len(self._tasks),
            in_flight=self._worker.busy,
            waiting=self._feeder.waiting,
            outcomes=dict(self._deliveries.outcomes),
            received_bytes=self._deliveries.received_bytes,
            in_flight_bytes=self._budget.used_bytes,
            in_flight_waiting=self._budget.waiting,
            robots_asked=self._robots.asked,
            backpressure_soft=self._pressure.soft_events,
            backpressure_hard=self._pressure.hard_events,
            shortage_failures=self._shortage.failures,
            shortage_pauses=self._shortage.pauses,
            backpressure=(State.OPEN, State.SOFT, State.HARD).index(self._pressure.state),
            next_due_milliseconds=self._feeder.next_due_milliseconds(),
            is_short=int(self._shortage.is_met),
            errors=self._worker.errors,
            address_holds=self._addresses.holds,
            slow_visits_cut=self._visits.cut,
        )

    async def _tick(self, group: asyncio.TaskGroup) -> None:
        """One exchange with the store, and the wait for the next one."""
        self._deliveries.added.clear()
        self._ticks.begin()
        # First what is done: the sites that it frees may be leased at once.
        await self._deliveries.send()
        self._grow(group)
        if self._budget.waiting:
            self._visits.note_wait()
        else:
            self._visits.cut_slow(self._feeder.queue.qsize())
        wait = await self._feeder.feed(len(self._tasks) - self._worker.busy)
        if wait.is_held:
            await asyncio.sleep(TICK_SECONDS)
        else:
            await self._ticks.rest(wait.seconds, self._worker.busy + self._feeder.waiting)
        if wait.seconds > TICK_SECONDS:
            # Where nothing may be leased yet, a tick for each outcome would be for nothing.
            worth_a_tick = self._drained if wait.is_held else self._deliveries.added
            with suppress(TimeoutError):
                async with asyncio.timeout(wait.seconds - TICK_SECONDS):
                    await worth_a_tick.wait()

    def _grow(self, group: asyncio.TaskGroup) -> None:
        now = time.monotonic()
        if now - self._grown_at < _GROWTH_SECONDS or self._feeder.queue.empty():
            return
        self._grown_at = now
        wanted = len(self._tasks) + max(1, len(self._tasks) // _GROWTH_SHARE) if self._tasks else _FIRST_WORKERS
        while len(self._tasks) < min(wanted, self._most_workers):
            self._tasks.append(group.create_task(self._worker.run(self._feeder.queue)))

    async def _wind_up(self) -> None:
        for lease in await self._feeder.taken_back():
            self._worker.hand_back(lease)
        until = time.monotonic() + DRAIN_SECONDS
        while self._worker.busy and time.monotonic() < until:
            await self._deliveries.send()
            await asyncio.sleep(TICK_SECONDS)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._deliveries.send(everything=True)
        await self._copies.flush(_COPIES_SECONDS)
        await self._slots.give_up()
