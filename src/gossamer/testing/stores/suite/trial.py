"""One frontier under test: the verbs with the arguments that most checks share, and what holds after each of them."""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import AdmitLimits, Counts, Leases, Store
from gossamer.frontier.traps import path_fingerprint
from gossamer.records import (
    Candidate,
    Destination,
    Finished,
    Lease,
    Move,
    Reason,
    Release,
    SiteClock,
)
from gossamer.url import stable_hash

#: Of every frontier under test: enough that sites differ in it, few enough that some share one.
SLOTS = 4
#: Between two requests to a site, in every check that does not say otherwise.
DELAY = 10.0
#: A margin on both sides of a moment, so that a store may keep its times in milliseconds.
MOMENT = 0.01
NO_LIMITS = AdmitLimits()
#: Later than anything that a check waits for.
LATE = 1e7

Check = Callable[["Trial"], Awaitable[None]]


def link(
    site: str, path: str = "", *, depth: int = 0, hops: int = 0, is_seed: bool = False, at_head: bool = False
) -> Candidate:
    url = f"https://{site}/{path}"
    return Candidate(url, site, stable_hash(url), depth, hops, is_seed, at_head, path_fingerprint(url))


def sites_of(slot: int) -> Iterator[str]:
    """Names of sites that belong to one slot, without end."""
    names = (f"site{number}.example" for number in itertools.count())
    return (name for name in names if slot_of(name, SLOTS) == slot)


class Trial:
    """An empty frontier and one process that uses it; `another` opens it once more, as a second process would.

    Times are given in seconds since the trial began. After every verb the counts must add up, and at the end of a check
    every URL that was admitted can still be brought to its end, once.
    """

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._handles: list[Store] = []
        self._calls = itertools.count()
        self._admitted: set[str] = set()
        self._began_at = 0.0
        self._last = Counts()
        self.epochs: dict[int, int] = {}
        """What `own` answered last; under these `lease` asks."""

    async def begin(self) -> None:
        self.store = await self.another()
        await self.store.begin_run(latest_not_before_seconds=LATE)
        self._began_at = await self.store.now()

    async def another(self) -> Store:
        handle = self._make()
        await handle.open()
        self._handles.append(handle)
        return handle

    async def reopen(self) -> None:
        """As if every process had ended, and one came back."""
        await self.close()
        self.store = await self.another()

    async def close(self) -> None:
        while self._handles:
            await self._handles.pop().close()

    def at(self, seconds: float) -> float:
        """The store's time, so many seconds into the trial."""
        return self._began_at + seconds

    async def admit(
        self, *candidates: Candidate, limits: AdmitLimits = NO_LIMITS, at: float = 0.0, store: Store | None = None
    ) -> list[Reason]:
        answers = await (store or self.store).admit(candidates, limits, now=self.at(at))
        assert len(answers) == len(candidates)
        new = [candidate.url for candidate, answer in zip(candidates, answers, strict=True) if answer is Reason.NEW]
        assert len(set(new)) == len(new), "admitted twice in one call"
        assert not self._admitted & set(new), "admitted again"
        self._admitted.update(new)
        await self.counts()
        return answers

    def note_admitted(self, candidates: Sequence[Candidate]) -> None:
        """For a check that calls a store's `admit` itself: all of these were new."""
        self._admitted.update(candidate.url for candidate in candidates)

    async def own(
        self,
        owner: str = "fetcher",
        slots: Collection[int] = range(SLOTS),
        *,
        at: float = 0.0,
        lasts: float = 1000.0,
        delay: float = DELAY,
    ) -> dict[int, int]:
        now = self.at(at)
        self.epochs = await self.store.own(owner, slots, now=now, until=now + lasts, delay_seconds=delay)
        assert set(self.epochs) <= set(slots)
        await self.counts()
        return self.epochs

    async def ask(
        self,
        *,
        at: float = 0.0,
        limit: int = 1000,
        delay: float = DELAY,
        max_pages: int = 0,
        epochs: Mapping[int, int] | None = None,
        call: str = "",
        store: Store | None = None,
    ) -> Leases:
        answer = await (store or self.store).lease(
            call or f"call {next(self._calls)}",
            self.epochs if epochs is None else epochs,
            limit,
            now=self.at(at),
            delay_seconds=delay,
            max_pages=max_pages,
        )
        assert len(answer.leases) <= limit
        assert len({lease.site for lease in answer.leases}) == len(answer.leases), "two leases of one site"
        assert {lease.url for lease in answer.leases} <= self._admitted
        await self.counts()
        return answer

    async def lease(
        self, *, at: float = 0.0, limit: int = 1000, max_pages: int = 0, store: Store | None = None
    ) -> list[Lease]:
        return (await self.ask(at=at, limit=limit, max_pages=max_pages, store=store)).leases

    async def lease_one(self, *, at: float = 0.0) -> Lease:
        (lease,) = await self.lease(at=at)
        return lease

    async def release(
        self,
        *leases: Lease,
        not_before: float = 0.0,
        requested: bool = True,
        clock: SiteClock | None = None,
        dropped: Reason | None = None,
    ) -> None:
        await self.store.release(
            [Release(lease, requested, self.at(not_before), clock or lease.clock, dropped) for lease in leases]
        )
        await self.counts()

    async def spool(
        self,
        *leases: Lease,
        to: Destination = Destination.PAGE,
        segment: str = "segment",
        reason: Reason = Reason.PAGE,
    ) -> set[int]:
        refused = await self.store.spool(segment, [Move(lease, to, reason) for lease in leases])
        assert refused <= {lease.number for lease in leases}
        await self.counts()
        return refused

    async def finish(
        self, *leases: Lease, segment: str = "segment", reason: Reason = Reason.PAGE, received_bytes: int = 100
    ) -> None:
        await self.store.finish([_finished(lease, segment, reason, received_bytes) for lease in leases])
        await self.counts()

    async def work_off(self, *leases: Lease, not_before: float = 0.0, segment: str = "segment") -> None:
        """From the lease to the committed page."""
        await self.release(*leases, not_before=not_before)
        assert await self.spool(*leases, segment=segment) == set()
        await self.finish(*leases, segment=segment)

    async def counts(self, *, at: float = 0.0) -> Counts:
        """The counts, which add up at every moment."""
        counts = await self.store.counts(now=self.at(at))
        assert counts.admitted == len(self._admitted)
        assert counts.finished == sum(counts.outcomes.values())
        assert counts.pages == counts.outcomes.get(Reason.PAGE, 0)
        assert counts.spooled == sum((await self.store.segments()).values())
        assert min(counts.queued, counts.leased) >= 0
        assert counts.sites_ready <= counts.sites_waiting <= min(counts.sites, counts.queued)
        assert counts.finished >= self._last.finished, "finished only grows"
        self._last = counts
        return counts

    async def drain_queue(self, *, at: float, step: float = 100.0) -> list[Lease]:
        """Everything that is queued and not held, in the order in which it is given; each to its end."""
        drained: list[Lease] = []
        while leases := await self.lease(at=at):
            # The stores' own verbs: a long queue is drained in many rounds, and counting once in each is enough.
            await self.store.release([Release(lease, True, 0.0, lease.clock) for lease in leases])
            assert (
                await self.store.spool("drain", [Move(lease, Destination.OUTCOME, Reason.STATUS) for lease in leases])
                == set()
            )
            await self.store.finish([_finished(lease, "drain", Reason.STATUS, 100) for lease in leases])
            drained += leases
            at += step
        return drained

    async def sweep(self) -> None:
        """No URL is lost and none is there twice: whatever a check left behind can be brought to its end."""
        for segment in await self.store.segments():
            await self.store.unspool(segment)
        before = await self.counts()
        assert len(await self.own("sweeper", at=LATE)) == SLOTS
        drained = await self.drain_queue(at=2 * LATE)
        counts = await self.counts()
        assert {url: times for url, times in Counter(lease.url for lease in drained).items() if times > 1} == {}
        # A URL of a site that was given up is finished when it is taken back, and not given out any more.
        given_up = counts.finished - before.finished - len(drained)
        assert 0 <= given_up <= before.leased
        assert (counts.finished, counts.queued, counts.leased) == (counts.admitted, 0, 0)
        assert (counts.sites_busy, counts.sites_waiting) == (0, 0)


async def run(check: Check, make: Callable[[], Store]) -> None:
    """Run one check. `make` gives a store that is not open yet; every one it gives has the same frontier behind it,
    which is empty at first and has `SLOTS` slots."""
    trial = Trial(make)
    try:
        await trial.begin()
        await check(trial)
        await trial.sweep()
    finally:
        await trial.close()


def urls(leases: Sequence[Lease]) -> list[str]:
    return [lease.url for lease in leases]


def _finished(lease: Lease, segment: str, reason: Reason, received_bytes: int) -> Finished:
    return Finished(
        segment=segment,
        number=lease.number,
        slot=lease.slot,
        site=lease.site,
        fingerprint=lease.fingerprint,
        reason=reason,
        received_bytes=received_bytes,
    )
