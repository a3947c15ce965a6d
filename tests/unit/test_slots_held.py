"""The store's time as a fetcher knows it, and until when its slots are its own."""

import asyncio

import pytest

from gossamer.fetch import slots_held
from gossamer.fetch.slots_held import HeldSlots
from gossamer.frontier import store_clock
from gossamer.frontier.store_clock import SAMPLE_SECONDS, SampledClock, StoreClock
from gossamer.records import Lease
from gossamer.testing.stores.model import ModelStore

OFFSET = 5_000.0


class PlayedClock:
    """The monotonic clock of this process: it goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PlayedClock:
    played = PlayedClock()
    monkeypatch.setattr(slots_held, "time", played)
    monkeypatch.setattr(store_clock, "time", played)
    return played


def sampled(now: float, *calls: tuple[float, float, float]) -> tuple[float, float]:
    """How far the earliest and the latest time are from the true one, after calls that began so long ago, were answered
    by the store so long ago, and came back so long ago."""
    store = StoreClock()
    for asked, answered, came in calls:
        store.sample(now - answered + OFFSET, asked_at=now - asked, answered_at=now - came)
    return store.earliest() - now - OFFSET, store.latest() - now - OFFSET


def test_the_true_time_is_never_outside_what_a_slow_call_leaves_open(clock: PlayedClock) -> None:
    assert sampled(clock.now, (50, 30, 10)) == (-20, 20)


def test_a_slow_call_does_not_undo_what_a_quick_one_knew(clock: PlayedClock) -> None:
    assert sampled(clock.now, (90, 90, 90), (50, 30, 10)) == (0, 0)
    assert sampled(clock.now, (50, 30, 10), (9, 9, 9)) == (0, 0)


def test_a_clock_that_was_set_is_followed(clock: PlayedClock) -> None:
    store, now = StoreClock(), clock.now
    store.sample(now + OFFSET, asked_at=now, answered_at=now)
    store.sample(now + OFFSET + 3_600, asked_at=now, answered_at=now)
    assert store.earliest() - now == OFFSET + 3_600


class AskedStore(ModelStore):
    """Counts how often it is asked for the time, and takes half a second to answer."""

    def __init__(self, played: PlayedClock) -> None:
        super().__init__(1, lambda: played.now + OFFSET)
        self.played = played
        self.asked = 0

    async def now(self) -> float:
        self.asked += 1
        self.played.now += 0.25
        told = await super().now()
        self.played.now += 0.25
        return told


def test_a_sampled_clock_asks_the_store_now_and_then_and_is_never_ahead_of_it(clock: PlayedClock) -> None:
    store = AskedStore(clock)
    sampled = SampledClock(store)

    async def behind() -> float:
        earliest = await sampled.earliest()
        return clock.now + OFFSET - earliest

    asked = []
    for _ in range(12):
        assert 0 <= asyncio.run(behind()) <= 0.5
        asked.append(store.asked)
        clock.now += SAMPLE_SECONDS / 4
    assert asked == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]


def lease(slot: int, epoch: int) -> Lease:
    return Lease(1, slot, epoch, "http://a.test/", "a.test", 1, 0, 0, is_seed=False, attempt=0, returned=0)


def test_a_request_is_allowed_only_for_a_slot_that_is_held_under_the_epoch_of_the_lease(clock: PlayedClock) -> None:
    async def run() -> None:
        store = ModelStore(4, clock.monotonic)
        held = HeldSlots(store, "me", [0, 1], delay_seconds=0)
        assert not held.are_current
        await held.renew()
        assert held.epochs == {0: 1, 1: 1}
        assert held.are_current
        assert held.may_request(lease(0, 1))
        assert not held.may_request(lease(0, 0))
        assert not held.may_request(lease(2, 1))
        await held.give_up()
        assert not held.may_request(lease(0, 1))

    asyncio.run(run())


def test_our_deadline_passes_before_anybody_else_can_have_the_slot(clock: PlayedClock) -> None:
    async def run() -> None:
        store = ModelStore(1, clock.monotonic)
        held = HeldSlots(store, "me", [0], delay_seconds=0)
        await held.renew()
        began = clock.now
        until = began + slots_held.TIME_TO_LIVE_SECONDS
        for ahead, is_ours in ((0.0, True), (40.0, True), (slots_held.TIME_TO_LIVE_SECONDS - 1, False)):
            clock.now = began + ahead
            assert held.may_request(lease(0, 1)) is is_ours
            assert held.are_current is is_ours
            other = await store.own("other", [0], now=clock.now, until=until + 99, delay_seconds=0)
            assert other == {}

    asyncio.run(run())


@pytest.mark.parametrize(("late_seconds", "wait_seconds"), [(0.0, 10.0), (70.0, 1.0)])
def test_a_renewal_that_took_too_long_is_soon_followed_by_another(
    late_seconds: float, wait_seconds: float, clock: PlayedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        raise asyncio.CancelledError

    async def run() -> None:
        held = HeldSlots(ModelStore(1, clock.monotonic), "me", [0], delay_seconds=0)
        await held.renew()
        clock.now += late_seconds
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await held.keep()

    asyncio.run(run())
    assert waits == [wait_seconds]
