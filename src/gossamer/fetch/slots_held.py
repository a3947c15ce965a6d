"""The slots that this fetcher owns, and until when; each renewal also samples the store's time."""

import asyncio
import time
from collections.abc import Collection, Mapping

from gossamer.frontier.store import Store
from gossamer.frontier.store_clock import StoreClock
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
