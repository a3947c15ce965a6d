"""The slots that this fetcher owns, until when, and the store's time.

Every answer of the store names its time as it was at some moment between our question and that answer. So the offset
from our monotonic clock is known as an interval, never as a number. What ended is dated by its late end, what begins by
its early one: then no gap between two requests is shortened by how long a call took, in this process or another.
"""

import asyncio
import time
from collections.abc import Collection, Mapping

from gossamer.frontier.store import Store
from gossamer.records import Lease

#: A dead fetcher's slots are free after this time. Several renewals may fail or be late before it has passed.
TIME_TO_LIVE_SECONDS = 60.0
RENEWAL_SECONDS = 10.0
#: How much earlier we stop than others may begin: more than the slowest call may have made them see the store's time
#: ahead of what it is.
_MARGIN_SECONDS = 5.0
#: While a slot is still another's: what a dead one held is taken over soon after its time has run out. Also after a
#: renewal that took so long, because the store was away, that it has run out already.
_TAKEOVER_SECONDS = 1.0


class StoreClock:
    """The store's time by our monotonic clock: never more than one call's duration away from it.

    `HeldSlots` samples it at each renewal; everyone in the process reads it.
    """

    def __init__(self) -> None:
        self._least = float("-inf")
        self._most = float("inf")

    def sample(self, now: float, *, asked_at: float, answered_at: float) -> None:
        """The store said `now` in answer to a call between these two monotonic times."""
        least, most = now - answered_at, now - asked_at
        if least <= self._most and most >= self._least:
            # Both are true, so what they have in common is: the quickest of many calls counts.
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most = least, most

    def earliest(self) -> float:
        """The store's time now, or a little before it: whether something may begin."""
        return time.monotonic() + self._least

    def latest(self) -> float:
        """The store's time now, or a little after it: when something has ended."""
        return time.monotonic() + self._most


class HeldSlots:
    """What is ours, under which epochs. The feeder leases from `epochs`; workers ask `may_request` before they connect.

    The deadline counts from the moment at which a renewal was sent: nobody else has a slot before it has passed.
    """

    def __init__(self, store: Store, owner: str, slots: Collection[int], *, delay_seconds: float) -> None:
        self.clock = StoreClock()
        self.epochs: Mapping[int, int] = {}
        self._store = store
        self._owner = owner
        self._slots = slots
        self._delay_seconds = delay_seconds
        self._deadline = 0.0

    @property
    def are_current(self) -> bool:
        """Whether there is any to lease from."""
        return bool(self.epochs) and time.monotonic() < self._deadline

    def may_request(self, lease: Lease) -> bool:
        """Whether its site is still ours to ask."""
        return self.epochs.get(lease.slot) == lease.epoch and time.monotonic() < self._deadline

    async def renew(self) -> None:
        """Take what is free of our slots, keep what we have, and learn what was lost."""
        asked_at = time.monotonic()
        now = await self._store.now()
        self.clock.sample(now, asked_at=asked_at, answered_at=time.monotonic())
        sent_at = time.monotonic()
        latest = self.clock.latest()
        self.epochs = await self._store.own(
            self._owner,
            self._slots,
            now=latest,
            until=latest + TIME_TO_LIVE_SECONDS,
            delay_seconds=self._delay_seconds,
        )
        self._deadline = sent_at + TIME_TO_LIVE_SECONDS - _MARGIN_SECONDS

    async def keep(self) -> None:
        """Renew for ever."""
        while True:
            are_all = len(self.epochs) == len(self._slots)
            await asyncio.sleep(RENEWAL_SECONDS if are_all and self.are_current else _TAKEOVER_SECONDS)
            await self.renew()

    async def give_up(self) -> None:
        self.epochs = {}
        await self._store.disown(self._owner)
