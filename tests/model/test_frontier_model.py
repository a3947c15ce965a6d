"""Random histories of a frontier: a store against the model, and both against a ledger that knows only their answers.

Every step makes the same call on both. Any lease that was ever given may be released, spooled or finished at any time,
so late calls of holders that lost their slot, calls out of order and repeated calls come by themselves. A holder dies
by never calling again: its slots are disowned or lapse, and another owner takes them.
"""

import asyncio
import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import ClassVar, NamedTuple, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import AdmitLimits, Counts, Leases, Sighting, SiteState, Store
from gossamer.frontier.stores import sqlite_seen
from gossamer.records import Candidate, Destination, Finished, Lease, Move, Reason, Release, SiteClock
from gossamer.testing.stores.model import ModelStore
from gossamer.testing.stores.places import Place
from gossamer.url import stable_hash

STEP_COUNT = 40
SLOTS = 3
SITES = [f"site{number}.example" for number in range(6)]
OWNERS = ["ann", "bob"]
SEGMENTS = ["s0", "s1", "s2"]
#: Quarters of a second add up exactly, in every store that keeps times as binary fractions.
CLOCK_STEPS = [1.0, 5.0, 12.0, 30.0, 60.0, 1000.0, -0.25, -2.0]
#: Later than anything that a step waits for.
LATE = 1e6

T = TypeVar("T")


class Pair(NamedTuple):
    """One lease, as the store under test and as the model numbered it."""

    real: Lease
    model: Lease


#: The sides of a pair.
REAL, MODEL = 0, 1


class Spooled(NamedTuple):
    """Where a spooled lease is."""

    segment: str
    is_page: bool
    lease: Lease


#: Where a lease is that was never spooled, or is not any more. No segment has this name.
NOWHERE = Spooled("", False, Lease(0, 0, 0, "", "", 0, 0, 0, False, 0, 0))


class LeaseCall(NamedTuple):
    """So that it can be made again. Each store has epochs of its own."""

    call: str
    real_slots: dict[int, int]
    model_slots: dict[int, int]
    limit: int
    delay_seconds: float
    max_pages: int


class FollowingModel(ModelStore):
    """Where the contract leaves open which of the due sites are leased, it takes those that the other store took."""

    chosen: Collection[str] = ()

    def _due(self, slots: Collection[int], now: float) -> list[str]:
        return sorted(super()._due(slots, now), key=lambda name: name not in self.chosen)

    def assert_earliest_first(self, slots: Collection[int], now: float) -> None:
        for slot in slots:
            due = {name: self._sites[name].not_before for name in super()._due([slot], now)}
            taken = [not_before for name, not_before in due.items() if name in self.chosen]
            left = [not_before for name, not_before in due.items() if name not in self.chosen]
            assert not taken or not left or max(taken) <= min(left)


class Ledger:
    """What a reader of the answers knows: where each URL is, which site is held, and until when each is closed.

    It knows nothing of queues and their order. A URL is in one state, and whatever moves it asserts from which.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.held: dict[int, Lease] = {}
        self.spooled: dict[int, Spooled] = {}
        self.busy: dict[str, int] = {}
        self.closed_until: dict[str, float] = {}
        self.closed_until_before_lease: dict[str, float] = {}
        self.crawl_delays: dict[str, float] = {}
        self.dropped: set[str] = set()
        self.shares: Counter[str | tuple[str, int]] = Counter()
        self.attempts: Counter[str] = Counter()
        self.returned: Counter[str] = Counter()

    def admit(self, candidate: Candidate, answer: Reason, limits: AdmitLimits, now: float) -> None:
        assert (answer is Reason.SEEN) == (candidate.url in self.states)
        site, path = candidate.site, (candidate.site, candidate.path_fingerprint)
        is_full = self.shares[site] >= limits.site_urls
        has_all_variants = bool(candidate.path_fingerprint) and self.shares[path] >= limits.path_variants
        assert answer is not Reason.NEW or candidate.is_seed or not (is_full or has_all_variants)
        assert answer is not Reason.SITE_FULL or is_full
        assert answer is not Reason.PATH_VARIANTS or has_all_variants
        queued = self._queued(site)
        is_too_long = (len(queued) + 1) * len(candidate.url) > limits.site_queue_bytes
        assert answer is not Reason.NEW or not is_too_long
        assert answer is not Reason.QUEUE_FULL or is_too_long or len(queued) >= limits.site_queue
        if answer is Reason.NEW:
            if not queued and site not in self.busy:
                self.closed_until[site] = max(self.closed_until.get(site, 0.0), now)
            self.states[candidate.url] = "queued"
            self.shares.update([site, path])
        assert (answer is Reason.SITE_DROPPED) == (candidate.site in self.dropped and answer is not Reason.SEEN)

    def _queued(self, site: str) -> list[str]:
        return [url for url, state in self.states.items() if state == "queued" and url.startswith(f"https://{site}/")]

    def move(self, lease: Lease, before: str, after: str) -> None:
        assert self.states[lease.url] == before
        self.states[lease.url] = "finished" if after == "queued" and lease.site in self.dropped else after

    def lease(self, lease: Lease, now: float, delay_seconds: float) -> None:
        site = lease.site
        self.move(lease, "queued", "leased")
        assert (lease.attempt, lease.returned) == (self.attempts[lease.url], self.returned[lease.url])
        self.held[lease.number] = lease
        assert site not in self.busy, "one lease per site"
        self.busy[site] = lease.number
        closed_until = self.closed_until.get(site, 0.0)
        assert closed_until <= now, "never before its not_before"
        self.closed_until_before_lease[site] = closed_until
        self.closed_until[site] = now + max(delay_seconds, self.crawl_delays.get(site, 0.0))

    def release(self, release: Release) -> None:
        site = release.lease.site
        if self.busy.get(site) != release.lease.number:
            return
        del self.busy[site]
        stood_at = self.closed_until if release.was_requested else self.closed_until_before_lease
        self.closed_until[site] = max(stood_at[site], release.not_before)
        self.crawl_delays[site] = release.clock.crawl_delay_seconds
        if release.dropped is not None:
            self.dropped.add(site)
            for url in self._queued(site):
                self.states[url] = "finished"

    def spool(self, segment: str, move: Move) -> bool:
        """Whether it is refused."""
        lease = self.held.pop(move.lease.number, None)
        if lease is None:
            return self.spooled.get(move.lease.number, NOWHERE).segment != segment
        if move.destination in {Destination.TAIL, Destination.LATER, Destination.HEAD}:
            self.move(lease, "leased", "queued")
            self.attempts[lease.url] += move.destination is Destination.TAIL
        else:
            self.move(lease, "leased", "spooled")
            self.spooled[lease.number] = Spooled(segment, move.destination is Destination.PAGE, lease)
        return False

    def finish(self, done: Finished) -> None:
        if self.spooled.get(done.number, NOWHERE).segment == done.segment:
            self.move(self.spooled.pop(done.number).lease, "spooled", "finished")

    def unspool(self, segment: str) -> None:
        for number, where in list(self.spooled.items()):
            if where.segment == segment:
                self.move(self.spooled.pop(number).lease, "spooled", "queued")
                self.returned[where.lease.url] += 1

    def take_back(self, slot: int, now: float, delay_seconds: float) -> None:
        lost = [lease for lease in self.held.values() if lease.slot == slot]
        for lease in lost:
            del self.held[lease.number]
            self.move(lease, "leased", "queued")
            self.returned[lease.url] += 1
        for site in {lease.site for lease in lost} | {site for site in self.busy if slot_of(site, SLOTS) == slot}:
            self.busy.pop(site, None)
            delay = max(delay_seconds, self.crawl_delays.get(site, 0.0))
            self.closed_until[site] = max(self.closed_until[site], now + delay)


def at_once(verb: Awaitable[T]) -> T:
    """The answer of a verb of the model, which waits for nothing: without the cost of an event loop."""
    step = verb.__await__()
    try:
        next(step)
    except StopIteration as answer:
        return cast("T", answer.value)
    raise AssertionError("the model waits for something")


def _named_the_same(one: Pair, other: Pair) -> bool:
    no_clock = SiteClock()
    return all(replace(one[side], clock=no_clock) == replace(other[side], clock=no_clock) for side in (REAL, MODEL))


def candidate(number: int) -> Candidate:
    """One of many, by its number: a single choice of hypothesis, so that a history has room for many of them."""
    number, path = divmod(number, 15)
    number, site = divmod(number, len(SITES))
    number, is_seed = divmod(number, 2)
    depth, at_head = divmod(number, 2)
    # Of many lengths, so that few of them fill whatever a store keeps a queue in.
    url = f"https://{SITES[site]}/{path}{'/' * (path * 97 % 700)}"
    # A third of them are no variants, and each site has two paths with five variants each.
    path_of_variants = path % 3 and (1 << 64) - path % 3
    return Candidate(
        url,
        SITES[site],
        stable_hash(url),
        depth,
        depth % 3,
        bool(is_seed),
        bool(at_head),
        path_of_variants,
        ("", f"https://{SITES[0]}/{depth}", url[:-1])[path % 3],
    )


CANDIDATE = st.integers(0, 15 * len(SITES) * 2 * 2 * 5 - 1).map(candidate)
CANDIDATES = st.lists(CANDIDATE, min_size=3, max_size=10)
SOME_SLOTS = st.sampled_from([{0, 1, 2}, {0, 1, 2}, {0, 1}, {2}])
DELAYS = st.sampled_from([0.0, 1.0, 10.0])
#: Which leases, counted from the latest.
PICKS = st.lists(st.integers(0, 7), min_size=2, max_size=5)
PROBABLY = st.sampled_from([True, True, True, False])


def step(name: str, **arguments: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, dict[str, object]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


ADMIT = step(
    "admit",
    candidates=CANDIDATES,
    limits=st.sampled_from(
        [
            *[AdmitLimits()] * 2,
            AdmitLimits(site_queue=2),
            AdmitLimits(only_seeded_sites=True),
            AdmitLimits(site_urls=3),
            AdmitLimits(path_variants=2),
            AdmitLimits(path_variants=1, site_urls=4, site_queue=3),
            AdmitLimits(site_queue_bytes=1_000),
        ]
    ),
    # The clocks of two processes differ a little.
    ahead=st.sampled_from([0.0, 0.0, -2.0, 3.0]),
    is_lost=st.booleans(),
)
OWN = step(
    "own",
    owner=st.sampled_from(OWNERS),
    slots=SOME_SLOTS,
    lasts=st.sampled_from([0.5, 20.0, 300.0]),
    delay=DELAYS,
)
LEASE = step(
    "lease",
    owner=st.sampled_from(OWNERS),
    slots=SOME_SLOTS,
    wait=st.sampled_from([0.0, 12.0, 60.0]),
    limit=st.sampled_from([1, 3, 100]),
    delay=DELAYS,
    room=st.sampled_from([None, None, None, None, 0, 1, 2]),
    is_lost=st.booleans(),
)
RELEASE = step(
    "release",
    picks=PICKS,
    was_requested=PROBABLY,
    hold=st.sampled_from([-5.0, 0.0, 3.0, 50.0]),
    crawl_delay=st.sampled_from([0.0, 0.0, 20.0]),
    dropped=st.sampled_from([*[None] * 11, Reason.SITE_FAILING]),
    is_lost=st.booleans(),
)
SPOOL = step(
    "spool",
    segment=st.sampled_from(SEGMENTS),
    picks=PICKS,
    destinations=st.lists(st.sampled_from(Destination), min_size=5, max_size=5),
    is_lost=st.booleans(),
)
FINISH = step(
    "finish", picks=PICKS, is_right=PROBABLY, is_parsed=PROBABLY, received_bytes=st.sampled_from([0, 9, 1 << 40])
)
UNSPOOL = step("unspool", segment=st.sampled_from(SEGMENTS))
DISOWN = step("disown", owner=st.sampled_from(OWNERS))
LOOK = step("look", wanted=CANDIDATE, others=CANDIDATE)
REPEAT = step("repeat_the_last_lease")
CLOCK = step("step_clock", seconds=st.sampled_from(CLOCK_STEPS))
REOPEN = step("reopen", is_new_run=st.booleans())
#: The more often one stands here, the more often it happens: most of what happens needs a lease first.
STEPS = st.sampled_from(
    [
        *[ADMIT] * 2,
        *[OWN] * 3,
        *[LEASE] * 8,
        *[RELEASE] * 5,
        *[SPOOL] * 5,
        *[FINISH] * 3,
        *[CLOCK] * 2,
        *[REPEAT, UNSPOOL, DISOWN, REOPEN, LOOK],
    ]
).flatmap(lambda chosen: chosen)


class FrontierMachine(RuleBasedStateMachine):
    """The store under test and the model, one step at a time, at times that the machine decides."""

    place: ClassVar[Place]
    """Where each example has a frontier of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._ends = contextlib.ExitStack()
        self._loop = asyncio.new_event_loop()
        self._ends.callback(self._loop.close)
        self._frontier = self._ends.enter_context(self.place.frontier(SLOTS))
        self._real = self._frontier.store()
        self._run(self._real.open())
        self._now = float(int(self._run(self._real.now())))
        self._model = FollowingModel(SLOTS, lambda: self._now)
        self._ledger = Ledger()
        self._pairs: list[Pair] = []
        self._epochs: dict[str, tuple[dict[int, int], dict[int, int]]] = {owner: ({}, {}) for owner in OWNERS}
        self._last_call: LeaseCall | None = None
        self._calls = itertools.count()
        self._turns = itertools.count()

    def _run(self, verb: Awaitable[T]) -> T:
        return self._loop.run_until_complete(verb)

    def _of(self, store: Store, verb: Awaitable[T]) -> T:
        return at_once(verb) if store is self._model else self._run(verb)

    def _both(self, verb: Callable[[Store], Awaitable[T]]) -> T:
        """For verbs whose answer the contract determines."""
        real, model = self._run(verb(self._real)), at_once(verb(self._model))
        assert real == model
        return real

    def _picked(self, picks: Collection[int]) -> list[Pair]:
        return [self._pairs[-1 - pick % len(self._pairs)] for pick in picks] if self._pairs else []

    @initialize(candidates=CANDIDATES, delay=DELAYS)
    def begin(self, candidates: list[Candidate], delay: float) -> None:
        assert self._both(lambda store: store.begin_run(latest_not_before_seconds=LATE)) == 1
        self.admit(candidates, AdmitLimits(), ahead=0.0, is_lost=False)
        self.own("ann", {0, 1, 2}, 100.0, delay)

    @rule(step=STEPS)
    def take(self, step: tuple[str, dict[str, object]]) -> None:
        """One rule for all steps: of several rules, hypothesis leaves out some in each example."""
        name, arguments = step
        getattr(self, name)(**arguments)

    def admit(self, candidates: list[Candidate], limits: AdmitLimits, ahead: float, is_lost: bool) -> None:
        now = self._now + ahead
        for _ in range(1 + is_lost):
            answers = self._both(lambda store: store.admit(candidates, limits, now=now))
            for offered, answer in zip(candidates, answers, strict=True):
                self._ledger.admit(offered, answer, limits, now)

    def own(self, owner: str, slots: set[int], lasts: float, delay: float) -> None:
        until = self._now + lasts

        def own(store: Store) -> dict[int, int]:
            return self._of(store, store.own(owner, slots, now=self._now, until=until, delay_seconds=delay))

        real, model = own(self._real), own(self._model)
        assert real.keys() == model.keys()
        known_real, known_model = self._epochs[owner]
        for slot in real:
            is_new = known_real.get(slot) != real[slot]
            assert is_new == (known_model.get(slot) != model[slot])
            if is_new:
                self._ledger.take_back(slot, self._now, delay)
        known_real.update(real)
        known_model.update(model)
        assert (own(self._real), own(self._model)) == (real, model), "the reply was lost"

    def disown(self, owner: str) -> None:
        self._both(lambda store: store.disown(owner))

    def lease(
        self, owner: str, slots: set[int], *, wait: float, limit: int, delay: float, room: int | None, is_lost: bool
    ) -> None:
        self._now += wait
        real, model = ({slot: epochs[slot] for slot in slots & epochs.keys()} for epochs in self._epochs[owner])
        # A budget near the line, wherever that is by now; 0 would be none.
        max_pages = 0 if room is None else max(1, self._pages_on_their_way() + room)
        call = LeaseCall(f"call {next(self._calls)}", real, model, limit, delay, max_pages)
        given = self._lease(call)
        if is_lost and given:
            assert set(self._lease(call)) == set(given)
        self._last_call = call

    def _pages_on_their_way(self) -> int:
        pages = self._run(self._real.counts(now=self._now)).pages
        return pages + len(self._ledger.held) + sum(where.is_page for where in self._ledger.spooled.values())

    def repeat_the_last_lease(self) -> None:
        """Whatever happened since; also from a holder that does not know yet that its slots are another's."""
        if self._last_call is not None:
            self._lease(self._last_call)

    def _lease(self, call: LeaseCall) -> list[Pair]:
        def lease(store: Store, slots: dict[int, int]) -> Leases:
            return self._of(
                store,
                store.lease(
                    call.call,
                    slots,
                    call.limit,
                    now=self._now,
                    delay_seconds=call.delay_seconds,
                    max_pages=call.max_pages,
                ),
            )

        real = lease(self._real, call.real_slots)
        self._model.chosen = {given.site for given in real.leases}
        known = {pair.real.number: pair for pair in self._pairs}
        if not any(given.number in known for given in real.leases):
            self._model.assert_earliest_first(call.model_slots, self._now)
        model = lease(self._model, call.model_slots)
        by_site = {given.site: given for given in model.leases}
        assert len(real.leases) == len(by_site)
        pairs = [Pair(given, by_site[given.site]) for given in real.leases]
        for pair in pairs:
            if pair.real.number in known:
                # The site's clock is not compared: it is another one if the lease was released meanwhile.
                assert _named_the_same(known[pair.real.number], pair)
            else:
                assert replace(pair.real, number=0, epoch=0) == replace(pair.model, number=0, epoch=0)
                assert pair.real.epoch == call.real_slots[pair.real.slot]
                self._ledger.lease(pair.real, self._now, call.delay_seconds)
                self._pairs.append(pair)
        assert real.next_due_at == model.next_due_at
        return pairs

    def release(
        self,
        picks: list[int],
        *,
        was_requested: bool,
        hold: float,
        crawl_delay: float,
        dropped: Reason | None,
        is_lost: bool,
    ) -> None:
        clock = SiteClock(self._now, crawl_delay, len(picks))
        picked = self._picked(picks)

        def releases(side: int) -> list[Release]:
            return [Release(pair[side], was_requested, self._now + hold, clock, dropped) for pair in picked]

        for _ in range(1 + is_lost):
            self._run(self._real.release(releases(REAL)))
            at_once(self._model.release(releases(MODEL)))
        for release in releases(REAL):
            self._ledger.release(release)

    def spool(self, segment: str, picks: list[int], destinations: list[Destination], is_lost: bool) -> None:
        picked = list(zip(self._picked(picks), destinations, strict=False))

        def moves(side: int) -> list[Move]:
            return [Move(pair[side], to, Reason.DNS) for pair, to in picked]

        def refused_by_all() -> set[int]:
            real = self._run(self._real.spool(segment, moves(REAL)))
            model = at_once(self._model.spool(segment, moves(MODEL)))
            assert real == {move.lease.number for move in moves(REAL) if self._ledger.spool(segment, move)}
            assert model == {pair.model.number for pair, _ in picked if pair.real.number in real}
            return real

        refused = refused_by_all()
        if is_lost:
            assert refused <= refused_by_all()

    def finish(self, picks: list[int], is_right: bool, is_parsed: bool, received_bytes: int) -> None:
        """What is spooled, and what is not; now and then in the name of another segment."""
        picked = self._picked(picks)
        spooled = [self._ledger.spooled.get(pair.real.number, NOWHERE) for pair in picked]

        def finished(side: int) -> list[Finished]:
            return [
                Finished(
                    segment=where.segment if is_right and where.segment else SEGMENTS[0],
                    number=pair[side].number,
                    slot=pair[side].slot,
                    site=pair[side].site,
                    fingerprint=pair[side].fingerprint,
                    reason=Reason.STATUS if not where.is_page else Reason.PAGE if is_parsed else Reason.PARSE_CRASH,
                    received_bytes=received_bytes,
                )
                for pair, where in zip(picked, spooled, strict=True)
            ]

        for _ in range(2):
            self._run(self._real.finish(finished(REAL)))
            at_once(self._model.finish(finished(MODEL)))
        for done in finished(REAL):
            self._ledger.finish(done)

    def unspool(self, segment: str) -> None:
        self._both(lambda store: store.unspool(segment))
        self._ledger.unspool(segment)

    def step_clock(self, seconds: float) -> None:
        """Back too, a little: callers do not agree on the time to the last moment."""
        self._now += seconds

    def look(self, wanted: Candidate, others: Candidate) -> None:
        """Numbers and epochs are each store's own."""

        async def found(store: Store, offered: Candidate) -> Sighting:
            seen = await store.find(offered)
            lease = seen.lease and replace(seen.lease, number=bool(seen.lease.number), epoch=0)
            return replace(seen, lease=lease, site=seen.site and replace(seen.site, epoch=0))

        async def sites(store: Store) -> dict[str, SiteState]:
            return {
                name: replace(state, epoch=0) for name, state in (await store.site_states([*SITES, "none"])).items()
            }

        for offered in (wanted, others):
            seen = self._both(lambda store, offered=offered: found(store, offered))  # type: ignore[misc]
            assert seen.state == self._ledger.states.get(offered.url, "unseen")
        for name, state in self._both(sites).items():
            assert state.is_busy == (name in self._ledger.busy)

    def reopen(self, is_new_run: bool) -> None:
        self._run(self._real.close())
        self._real = self._frontier.store(may_create=False)
        self._run(self._real.open())
        if is_new_run:
            self._both(lambda store: store.begin_run(latest_not_before_seconds=LATE))

    @invariant()
    def every_url_is_in_one_state_and_all_are_counted(self) -> None:
        spooled = self._ledger.spooled
        segments = Counter(where.segment for where in spooled.values())
        # One site each time: it is due from the same moment on in both.
        turn, is_before = divmod(next(self._turns), 2)
        closed_until = list(self._ledger.closed_until.values()) or [self._now]
        opens_at = closed_until[turn % len(closed_until)] - 0.25 * is_before

        async def facts(store: Store) -> tuple[Counts, Counts, dict[str, int]]:
            return await store.counts(now=self._now), await store.counts(now=opens_at), await store.segments()

        counts, _, known = self._both(facts)
        states = Counter(self._ledger.states.values())
        assert (counts.queued, counts.leased, counts.spooled, counts.finished) == (
            *(states[name] for name in ("queued", "leased", "spooled", "finished")),
        )
        assert counts.admitted == states.total()
        assert counts.sites_busy == len(self._ledger.busy)
        assert known == segments
        for segment in segments:
            numbers = {n for n, where in spooled.items() if where.segment == segment}
            assert self._run(self._real.spooled(segment)) == numbers

    def _sweep(self) -> None:
        """Whatever happened, every URL that was admitted can be brought to its end, once."""
        for segment in SEGMENTS:
            self.unspool(segment)
        self._now += LATE
        self._epochs["sweeper"] = ({}, {})
        self.own("sweeper", {0, 1, 2}, LATE, 0.0)
        self._now += LATE
        while True:
            before = len(self._pairs)
            self.lease("sweeper", {0, 1, 2}, wait=100.0, limit=100, delay=0.0, room=None, is_lost=False)
            given = len(self._pairs) - before
            if not given:
                break
            picks = list(range(given))
            self.release(picks, was_requested=True, hold=0.0, crawl_delay=0.0, dropped=None, is_lost=False)
            self.spool(SEGMENTS[0], picks, [Destination.PAGE] * given, is_lost=False)
            self.finish(picks, is_right=True, is_parsed=True, received_bytes=1)
        self.every_url_is_in_one_state_and_all_are_counted()
        assert set(self._ledger.states.values()) <= {"finished"}

    def teardown(self) -> None:
        try:
            # After a failure the stores may be anywhere, and it is that failure which has to be shown.
            if sys.exc_info()[0] is None:
                self._sweep()
        finally:
            self._run(self._real.close())
            self._ends.close()


@pytest.mark.long
@pytest.mark.timeout(1800)  # it is the number of steps that is limited, however slow the machine is
def test_a_store_answers_as_the_model_does_whatever_happens(
    histories: tuple[Place, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model too: what is wrong with it, the ledger finds."""
    place, number = histories
    # So few that they are too many after some steps.
    monkeypatch.setattr(sqlite_seen, "MOST_RECENT", 3)
    run_state_machine_as_test(
        type("Machine", (FrontierMachine,), {"place": place}),
        settings=settings(
            max_examples=number,
            stateful_step_count=STEP_COUNT,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
