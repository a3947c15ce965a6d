"""The frontier's contract in its plainest form: a store of dictionaries and queues, in the memory of one process."""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import (
    LONGEST_VIA,
    AdmitLimits,
    Counts,
    Leases,
    Sighting,
    SiteState,
    Store,
    UrlState,
)
from gossamer.records import (
    Candidate,
    Destination,
    Finished,
    Lease,
    Move,
    Reason,
    Release,
    RobotsCopy,
    SiteClock,
)


class _Site(msgspec.Struct):
    """What is known of one site. It is busy from a lease until the release of that lease."""

    queue: deque[Lease] = msgspec.field(default_factory=deque)
    """Leases without a number: what a URL carries while it waits is what it is leased with."""
    busy: int | None = None
    """The number of the lease that holds it."""
    not_before: float = 0.0
    not_before_lease: float = 0.0
    """Where the clock stood when it was last leased."""
    clock: SiteClock = SiteClock()
    is_seeded: bool = False
    dropped: Reason | None = None
    admitted: int = 0
    variants: Counter[int] = msgspec.field(default_factory=Counter)
    """How many were admitted, by the fingerprint of their path."""


class _Slot(msgspec.Struct):
    """Its epoch only grows; an owner stays its owner after its time has run out, until another takes it."""

    epoch: int = 0
    owner: str | None = None
    until: float = 0.0


class _Leased(msgspec.Struct, frozen=True):
    """A lease that is held, and the call that asked for it."""

    call: str
    lease: Lease


class _Spooled(msgspec.Struct, frozen=True):
    """What a segment carries of a lease; a page counts for the budget until it is finished."""

    segment: str
    lease: Lease
    is_page: bool


class ModelStore(Store):
    """A URL stands in one site's queue, in `_leased` or in `_spooled`, or is finished: never in two of them.

    For tests: each verb says what it means, item by item in the order of its batch, and nothing about speed; it looks
    at every site where a real store has an index. All callers share one object, which plays the part of the server:
    closing it forgets nothing.
    """

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._slots = [_Slot() for _ in range(slots)]
        self._sites: dict[str, _Site] = {}
        self._seen: set[int] = set()
        self._leased: dict[int, _Leased] = {}
        self._spooled: dict[int, _Spooled] = {}
        self._outcomes: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._received_bytes = 0
        self._last_number = 0
        self._runs = 0
        self._robots: dict[str, RobotsCopy] = {}

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def begin_run(self, *, latest_not_before_seconds: float) -> int:
        latest = self.clock() + latest_not_before_seconds
        for site in self._sites.values():
            site.not_before = min(site.not_before, latest)
        self._runs += 1
        return self._runs

    async def now(self) -> float:
        return self.clock()

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        return [self._admit(candidate, limits, now) for candidate in candidates]

    def _admit(self, candidate: Candidate, limits: AdmitLimits, now: float) -> Reason:
        site = self._sites.get(candidate.site, _Site())
        if candidate.is_seed:
            site.is_seeded = True
            self._sites[candidate.site] = site
        # Seen first: a repeated call must get the answer that says "you have queued it", whatever happened since.
        if candidate.fingerprint in self._seen:
            return Reason.SEEN
        if site.dropped is not None:
            return Reason.SITE_DROPPED
        if limits.only_seeded_sites and not site.is_seeded:
            return Reason.SCOPE
        path = candidate.path_fingerprint
        if site.admitted >= limits.site_urls and not candidate.is_seed:
            return Reason.SITE_FULL
        if path and site.variants[path] >= limits.path_variants and not candidate.is_seed:
            return Reason.PATH_VARIANTS
        if len(site.queue) >= limits.site_queue:
            return Reason.QUEUE_FULL
        if (len(site.queue) + 1) * len(candidate.url.encode()) > limits.site_queue_bytes:
            return Reason.QUEUE_FULL
        if not site.queue and site.busy is None:
            site.not_before = max(site.not_before, now)
        self._seen.add(candidate.fingerprint)
        site.admitted += 1
        site.variants[path] += 1
        self._sites[candidate.site] = site
        entry = Lease(
            number=0,
            slot=slot_of(candidate.site, len(self._slots)),
            epoch=0,
            url=candidate.url,
            site=candidate.site,
            fingerprint=candidate.fingerprint,
            depth=candidate.depth,
            hops=candidate.hops,
            is_seed=candidate.is_seed,
            attempt=0,
            returned=0,
            via=candidate.via if len(candidate.via) <= LONGEST_VIA else "",
        )
        self._queue(entry, at_head=candidate.at_head)
        return Reason.NEW

    def _queue(self, entry: Lease, *, at_head: bool) -> None:
        """A site that was given up takes nothing back: what would wait there is finished with it."""
        site = self._sites[entry.site]
        if site.dropped is not None:
            self._outcomes[site.dropped] += 1
        elif at_head:
            site.queue.appendleft(entry)
        else:
            site.queue.append(entry)

    async def own(
        self, owner: str, slots: Collection[int], *, now: float, until: float, delay_seconds: float
    ) -> dict[int, int]:
        owned = {}
        for number in slots:
            slot = self._slots[number]
            if slot.owner != owner:
                if slot.owner is not None and slot.until > now:
                    continue
                slot.owner = owner
                slot.epoch += 1
                self._take_back(number, now, delay_seconds)
            slot.until = until
            owned[number] = slot.epoch
        return owned

    def _take_back(self, slot: int, now: float, delay_seconds: float) -> None:
        """What a former owner held: its URLs, and its sites, of which some may have spooled their URL already."""
        held = [entry.lease for entry in self._leased.values() if entry.lease.slot == slot]
        busy = {name for name, site in self._sites.items() if site.busy is not None and self._slot_of(name) == slot}
        for lease in reversed(held):  # the one that was taken first stands first again
            del self._leased[lease.number]
            self._queue(replace(lease, returned=lease.returned + 1), at_head=True)
        for name in busy | {lease.site for lease in held}:
            site = self._sites[name]
            site.busy = None
            site.not_before = max(site.not_before, now + _delay(site, delay_seconds))
            site.clock = replace(site.clock, last_request_at=max(site.clock.last_request_at, now))

    def _slot_of(self, site: str) -> int:
        return slot_of(site, len(self._slots))

    async def disown(self, owner: str) -> None:
        for slot in self._slots:
            if slot.owner == owner:
                slot.owner = None

    async def lease(
        self,
        call: str,
        slots: Mapping[int, int],
        limit: int,
        *,
        now: float,
        delay_seconds: float,
        max_pages: int,
    ) -> Leases:
        current = {slot for slot, epoch in slots.items() if self._slots[slot].epoch == epoch}
        leases = [entry.lease for entry in self._leased.values() if entry.call == call]
        if not leases:
            for name in self._due(current, now)[: min(limit, self._budget(max_pages))]:
                lease = self._lease(name, now, delay_seconds)
                self._leased[lease.number] = _Leased(call, lease)
                leases.append(lease)
        waiting = self._waiting(current) if self._budget(max_pages) else []
        return Leases(leases, min((self._sites[name].not_before for name in waiting), default=None))

    def _lease(self, name: str, now: float, delay_seconds: float) -> Lease:
        site = self._sites[name]
        entry = site.queue.popleft()
        self._last_number += 1
        site.busy = self._last_number
        site.not_before_lease = site.not_before
        site.not_before = now + _delay(site, delay_seconds)
        return replace(entry, number=site.busy, epoch=self._slots[entry.slot].epoch, clock=site.clock)

    def _waiting(self, slots: Collection[int]) -> list[str]:
        """Sites with something queued, and not busy."""
        return [
            name
            for name, site in self._sites.items()
            if site.queue and site.busy is None and self._slot_of(name) in slots
        ]

    def _due(self, slots: Collection[int], now: float) -> list[str]:
        due = [name for name in self._waiting(slots) if self._sites[name].not_before <= now]
        return sorted(due, key=lambda name: self._sites[name].not_before)

    def _budget(self, max_pages: int) -> int:
        """How many more URLs may be on their way to becoming pages."""
        if not max_pages:
            return 1 << 62
        on_their_way = len(self._leased) + sum(entry.is_page for entry in self._spooled.values())
        return max(0, max_pages - self._outcomes[Reason.PAGE] - on_their_way)

    async def release(self, releases: Sequence[Release]) -> None:
        for release in releases:
            site = self._sites[release.lease.site]
            if site.busy != release.lease.number:
                continue
            site.busy = None
            stood_at = site.not_before if release.was_requested else site.not_before_lease
            site.not_before = max(stood_at, release.not_before)
            site.clock = release.clock
            if release.dropped is not None:
                site.dropped = release.dropped
                self._outcomes[release.dropped] += len(site.queue)
                site.queue.clear()

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        refused = set()
        for move in moves:
            number = move.lease.number
            entry = self._leased.pop(number, None)
            if entry is None:
                if number not in self._spooled or self._spooled[number].segment != segment:
                    refused.add(number)
            elif move.destination in {Destination.PAGE, Destination.OUTCOME}:
                self._spooled[number] = _Spooled(segment, entry.lease, move.destination is Destination.PAGE)
            else:
                self._retries[move.reason] += 1
                is_failure = move.destination is Destination.TAIL
                back = replace(entry.lease, attempt=entry.lease.attempt + is_failure)
                self._queue(back, at_head=move.destination is Destination.HEAD)
        return refused

    async def finish(self, finished: Sequence[Finished]) -> None:
        for done in finished:
            if done.number in await self.spooled(done.segment):
                del self._spooled[done.number]
                self._outcomes[done.reason] += 1
                self._received_bytes += done.received_bytes

    async def sync(self) -> None:
        """It is in memory: nothing of it survives, synced or not."""

    async def segments(self) -> dict[str, int]:
        return dict(Counter(entry.segment for entry in self._spooled.values()))

    async def spooled(self, segment: str) -> set[int]:
        return {number for number, entry in self._spooled.items() if entry.segment == segment}

    async def unspool(self, segment: str) -> None:
        for number in sorted(await self.spooled(segment), reverse=True):
            lease = self._spooled.pop(number).lease
            self._queue(replace(lease, returned=lease.returned + 1), at_head=True)

    async def counts(self, *, now: float) -> Counts:
        every_slot = range(len(self._slots))
        return Counts(
            finished=self._outcomes.total(),
            admitted=len(self._seen),
            leased=len(self._leased),
            spooled=len(self._spooled),
            pages=self._outcomes[Reason.PAGE],
            received_bytes=self._received_bytes,
            outcomes={str(reason): number for reason, number in self._outcomes.items() if number},
            retries=dict(self._retries),
            sites=len(self._sites),
            sites_busy=sum(site.busy is not None for site in self._sites.values()),
            sites_waiting=len(self._waiting(every_slot)),
            sites_ready=len(self._due(every_slot, now)),
        )

    async def find(self, candidate: Candidate) -> Sighting:
        known = (await self.site_states([candidate.site])).get(candidate.site)
        site = self._sites.get(candidate.site, _Site())
        variants = site.variants[candidate.path_fingerprint] if candidate.path_fingerprint and not site.dropped else 0
        for leased in self._leased.values():
            if leased.lease.fingerprint == candidate.fingerprint:
                lease = replace(leased.lease, clock=site.clock)
                return Sighting(state=UrlState.LEASED, site=known, lease=lease, path_variants=variants)
        for spooled in self._spooled.values():
            if spooled.lease.fingerprint == candidate.fingerprint:
                epoch = self._slots[spooled.lease.slot].epoch
                return Sighting(
                    state=UrlState.SPOOLED,
                    site=known,
                    lease=replace(spooled.lease, clock=site.clock, epoch=epoch),
                    segment=spooled.segment,
                    path_variants=variants,
                )
        for ahead, entry in enumerate(site.queue):
            if entry.fingerprint == candidate.fingerprint:
                lease = replace(entry, number=0, clock=site.clock, epoch=self._slots[entry.slot].epoch)
                return Sighting(state=UrlState.QUEUED, site=known, ahead=ahead, lease=lease, path_variants=variants)
        is_seen = candidate.fingerprint in self._seen
        return Sighting(state=UrlState.FINISHED if is_seen else UrlState.UNSEEN, site=known, path_variants=variants)

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        return {name: self._state(name, self._sites[name]) for name in sites if name in self._sites}

    def _state(self, name: str, site: _Site) -> SiteState:
        slot = self._slots[self._slot_of(name)]
        return SiteState(
            name=name,
            slot=self._slot_of(name),
            is_seeded=site.is_seeded,
            dropped=site.dropped,
            not_before=site.not_before,
            clock=site.clock,
            queued=len(site.queue),
            admitted=site.admitted,
            is_busy=site.busy is not None,
            owner=slot.owner or "",
            epoch=slot.epoch,
            owned_until=0.0 if slot.owner is None else slot.until,
        )

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        return {origin: self._robots[origin] for origin in origins if origin in self._robots}

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        self._robots.update((copy.origin, copy) for copy in copies)


def _delay(site: _Site, delay_seconds: float) -> float:
    return max(delay_seconds, site.clock.crawl_delay_seconds)
