"""When a fetcher's exchange with the store comes before the end of its tick."""

import asyncio

import pytest

from gossamer.fetch import ticks
from gossamer.fetch.ticks import Ticks

#: Ends what hangs: a tick of the tests lasts for an hour.
LONGEST_SECONDS = 20.0


@pytest.fixture(autouse=True)
def long_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticks, "TICK_SECONDS", 3600.0)


def ended_early(*releases: tuple[float, int], due_seconds: float = 7200.0) -> bool:
    """Whether a tick in which leases ended is over: each with the wait of its site, and what is then under way."""

    async def run() -> bool:
        counted = Ticks()
        counted.begin()
        for wait_seconds, under_way in releases:
            counted.released(wait_seconds)
            counted.ended(under_way)
        resting = asyncio.create_task(counted.rest(due_seconds, releases[-1][1]))
        await asyncio.sleep(0.02)
        is_over = resting.done()
        resting.cancel()
        await asyncio.wait([resting])
        return is_over

    return asyncio.run(run())


def test_a_tick_ends_with_the_only_lease_if_its_site_has_no_delay() -> None:
    assert ended_early((0.0, 0))
    assert ended_early((-1.0, 0))


def test_a_tick_gathers_until_half_of_what_was_under_way_has_ended() -> None:
    assert not ended_early((0.0, 5))
    assert not ended_early((0.0, 5), (0.0, 4))
    assert ended_early((0.0, 5), (0.0, 4), (0.0, 3))


def test_sites_with_a_delay_never_end_a_tick() -> None:
    assert not ended_early((3600.0, 0))
    assert not ended_early((7000.0, 2), (7000.0, 1), (7000.0, 0))


def test_what_ends_during_an_exchange_ends_the_tick_that_follows_it() -> None:
    async def run() -> None:
        counted = Ticks()
        counted.begin()
        counted.released(0.0)
        counted.ended(0)
        async with asyncio.timeout(LONGEST_SECONDS):
            await counted.rest(7200.0, 0)

    asyncio.run(run())


def test_a_site_that_is_due_within_the_tick_is_waited_for_and_no_longer() -> None:
    async def run() -> None:
        counted = Ticks()
        counted.released(0.0)
        counted.begin()
        async with asyncio.timeout(LONGEST_SECONDS):
            await counted.rest(0.01, 0)
            counted.begin()
            await counted.rest(0.0, 0)  # and once more, if it was not quite due

    asyncio.run(run())


def test_a_site_that_is_due_and_cannot_be_leased_is_tried_once_more_and_then_tick_by_tick() -> None:
    """On PostgreSQL a lease passes over a site that another transaction has locked."""

    async def run() -> bool:
        counted = Ticks()
        counted.released(0.0)
        counted.begin()
        async with asyncio.timeout(LONGEST_SECONDS):
            await counted.rest(0.0, 0)
        counted.begin()
        resting = asyncio.create_task(counted.rest(0.0, 0))
        await asyncio.sleep(0.02)
        is_over = resting.done()
        resting.cancel()
        await asyncio.wait([resting])
        return is_over

    assert not asyncio.run(run())
