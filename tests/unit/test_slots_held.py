"""The store's time as a fetcher knows it, and until when its slots are its own."""

import asyncio
import time

import pytest

from gossamer.fetch import slots_held
from gossamer.fetch.slots_held import HeldSlots, StoreClock
from gossamer.records import Lease
from gossamer.testing.stores.model import ModelStore

OFFSET = 5_000.0
#: A clock is read a moment after the test has read it.
MOMENT = 1.0


def sampled(*calls: tuple[float, float, float]) -> tuple[float, float]:
    """How far the earliest and the latest time are from the true one, after calls that began so long ago, were answered
    by the store so long ago, and came back so long ago."""
    clock = StoreClock()
    now = time.monotonic()
    for asked, answered, came in calls:
        clock.sample(now - answered + OFFSET, asked_at=now - asked, answered_at=now - came)
    return clock.earliest() - now - OFFSET, clock.latest() - now - OFFSET


def test_the_true_time_is_never_outside_what_a_slow_call_leaves_open() -> None:
    earliest, latest = sampled((50, 30, 10))
    assert earliest == pytest.approx(-20, abs=MOMENT)
    assert latest == pytest.approx(20, abs=MOMENT)


def test_a_slow_call_does_not_undo_what_a_quick_one_knew() -> None:
    assert sampled((90, 90, 90), (50, 30, 10)) == pytest.approx((0, 0), abs=MOMENT)
    assert sampled((50, 30, 10), (9, 9, 9)) == pytest.approx((0, 0), abs=MOMENT)


def test_a_clock_that_was_set_is_followed() -> None:
    clock = StoreClock()
    now = time.monotonic()
    clock.sample(now + OFFSET, asked_at=now, answered_at=now)
    clock.sample(now + OFFSET + 3_600, asked_at=now, answered_at=now)
    assert clock.earliest() - now == pytest.approx(OFFSET + 3_600, abs=MOMENT)


def lease(slot: int, epoch: int) -> Lease:
    return Lease(1, slot, epoch, "http://a.test/", "a.test", 1, 0, 0, is_seed=False, attempt=0, returned=0)


def test_a_request_is_allowed_only_for_a_slot_that_is_held_under_the_epoch_of_the_lease() -> None:
    async def run() -> None:
        store = ModelStore(4)
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


def test_our_deadline_passes_before_anybody_else_can_have_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        store = ModelStore(1)
        held = HeldSlots(store, "me", [0], delay_seconds=0)
        await held.renew()
        until = store.clock() + slots_held.TIME_TO_LIVE_SECONDS
        real = time.monotonic
        for ahead, is_ours in ((0.0, True), (40.0, True), (slots_held.TIME_TO_LIVE_SECONDS - 1, False)):
            monkeypatch.setattr(time, "monotonic", lambda ahead=ahead: real() + ahead)
            assert held.may_request(lease(0, 1)) is is_ours
            assert held.are_current is is_ours
            other = await store.own("other", [0], now=real() + ahead, until=until + 99, delay_seconds=0)
            assert other == {}
        monkeypatch.undo()

    asyncio.run(run())


@pytest.mark.parametrize(("late_seconds", "wait_seconds"), [(0.0, 10.0), (70.0, 1.0)])
def test_a_renewal_that_took_too_long_is_soon_followed_by_another(
    late_seconds: float, wait_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        raise asyncio.CancelledError

    async def run() -> None:
        held = HeldSlots(ModelStore(1), "me", [0], delay_seconds=0)
        await held.renew()
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + late_seconds)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await held.keep()
        monkeypatch.undo()

    asyncio.run(run())
    assert waits == [wait_seconds]
