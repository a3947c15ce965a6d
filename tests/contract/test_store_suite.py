"""Every store passes the conformance suite that we ship, on every server that this machine has.

What only a store on a server promises is below: its frontier is made once, by whoever comes first, and never again.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import asyncpg  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import AdmitLimits, Store
from gossamer.records import Destination, Finished, Move, Reason, Release, RobotsCopy
from gossamer.testing.stores.crowd import candidate
from gossamer.testing.stores.places import Place, PostgresPlace, RedisPlace
from gossamer.testing.stores.suite import SLOTS, Check, checks, run

ServerPlace = RedisPlace | PostgresPlace


def name(value: Callable[..., object]) -> str:
    return value.__name__.removeprefix("test_")


@pytest.mark.parametrize("check", checks(), ids=name)
def test_store(place: Place, check: Check) -> None:
    with place.frontier(SLOTS) as frontier:
        is_first = itertools.chain([True], itertools.repeat(False))
        asyncio.run(run(check, lambda: frontier.store(may_create=next(is_first))))


def test_every_check_is_found_and_has_a_name_of_its_own() -> None:
    names = [name(check) for check in checks()]
    assert len(names) == len(set(names)) >= 160


def test_a_frontier_is_made_once_by_those_who_open_it_at_once(place_on_a_server: ServerPlace) -> None:
    async def admit(store: Store) -> list[Reason]:
        await store.open()
        try:
            return await store.admit([candidate(number, 10) for number in range(50)], AdmitLimits(), now=0.0)
        finally:
            await store.close()

    async def all_at_once(stores: list[Store]) -> list[list[Reason]]:
        return await asyncio.gather(*map(admit, stores))

    with place_on_a_server.frontier(SLOTS) as frontier:
        answers = asyncio.run(all_at_once([frontier.store(pool=2) for _ in range(8)]))
    assert sum(answer.count(Reason.NEW) for answer in answers) == 50


def test_frontiers_on_one_server_know_nothing_of_each_other(place_on_a_server: ServerPlace) -> None:
    """Nor does one go when another is removed."""

    async def fill(store: Store, number: int) -> None:
        await store.open()
        await store.admit([candidate(number, 10) for number in range(number)], AdmitLimits(), now=0.0)
        await store.save_robots([RobotsCopy(origin="https://a.example", access=f"{number}")])
        await store.close()

    async def check(store: Store, number: int) -> None:
        await store.open()
        assert (await store.counts(now=0)).admitted == number
        assert (await store.load_robots(["https://a.example"]))["https://a.example"].access == f"{number}"
        await store.close()

    with place_on_a_server.frontier(SLOTS) as kept:
        with place_on_a_server.frontier(SLOTS + 1) as removed:
            asyncio.run(fill(kept.store(), 30))
            asyncio.run(fill(removed.store(), 20))
            asyncio.run(check(removed.store(may_create=False), 20))
            asyncio.run(check(kept.store(may_create=False), 30))
        asyncio.run(check(kept.store(may_create=False), 30))


def test_another_number_of_slots_than_it_was_made_with_is_an_error(place_on_a_server: ServerPlace) -> None:
    async def opened_and_closed(store: Store) -> None:
        try:
            await store.open()
        finally:
            await store.close()

    with place_on_a_server.frontier(SLOTS) as frontier:
        asyncio.run(opened_and_closed(frontier.store()))
        for slots in (SLOTS - 1, SLOTS + 1):
            with pytest.raises(UsageError, match=f"{SLOTS} slots, not {slots}"):
                asyncio.run(opened_and_closed(replace(frontier, slots=slots).store()))
        asyncio.run(opened_and_closed(frontier.store(may_create=False)))


async def _flush(place: ServerPlace) -> None:
    """As a person would who took it for another server."""
    if isinstance(place, RedisPlace):
        async with Redis.from_url(place.server.url, socket_timeout=60) as client:
            await client.flushall()
        return
    connection = await asyncpg.connect(place.server.url)
    schemas = await connection.fetch(
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'"
        " AND nspname NOT IN ('information_schema', 'public')"
    )
    assert schemas
    for (schema,) in schemas:
        await connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
    await connection.close()


async def _verbs(store: Store) -> dict[str, Callable[[], Awaitable[object]]]:
    """Of a frontier that has something in every state; each would have an answer."""
    await store.begin_run(latest_not_before_seconds=60)
    now = await store.now()
    await store.admit([candidate(number, 10) for number in range(30)], AdmitLimits(), now=0.0)
    epochs = await store.own("owner", range(SLOTS), now=now, until=now + 60, delay_seconds=1)
    leases = (await store.lease("call", epochs, 6, now=now, delay_seconds=1, max_pages=0)).leases
    await store.spool("segment", [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases[:3]])
    await store.save_robots([RobotsCopy(origin="https://a.example", access="parsed")])
    spooled, leased = leases[0], leases[5]
    return {
        "begin_run": lambda: store.begin_run(latest_not_before_seconds=60),
        "now": store.now,
        "admit": lambda: store.admit([candidate(99, 10)], AdmitLimits(), now=0.0),
        "own": lambda: store.own("owner", range(SLOTS), now=now, until=now + 60, delay_seconds=1),
        "own of another": lambda: store.own("heir", range(SLOTS), now=now + 99, until=now + 200, delay_seconds=1),
        "disown": lambda: store.disown("owner"),
        "lease": lambda: store.lease("other", epochs, 6, now=now + 60, delay_seconds=1, max_pages=0),
        "lease again": lambda: store.lease("call", epochs, 6, now=now, delay_seconds=1, max_pages=0),
        "lease within a budget": lambda: store.lease("last", epochs, 6, now=now + 60, delay_seconds=1, max_pages=9),
        "release": lambda: store.release([Release(leased, True, now + 5, leased.clock)]),
        "spool": lambda: store.spool("segment", [Move(leased, Destination.PAGE, Reason.PAGE)]),
        "spool back": lambda: store.spool("segment", [Move(leased, Destination.TAIL, Reason.DNS)]),
        "finish": lambda: store.finish(
            [Finished("segment", spooled.number, spooled.slot, spooled.site, spooled.fingerprint, Reason.PAGE, 1)]
        ),
        "segments": store.segments,
        "spooled": lambda: store.spooled("segment"),
        "unspool": lambda: store.unspool("segment"),
        "counts": lambda: store.counts(now=now),
        "find": lambda: store.find(candidate(29, 10)),
        "site_states": lambda: store.site_states(["site1.example"]),
        "load_robots": lambda: store.load_robots(["https://a.example"]),
        "save_robots": lambda: store.save_robots([RobotsCopy(origin="https://b.example", access="parsed")]),
    }


def test_a_frontier_that_vanished_is_an_error_in_every_verb_and_is_never_made_again(
    place_of_its_own: ServerPlace,
) -> None:
    async def check(store: Store, later: Store) -> None:
        await store.open()
        verbs = await _verbs(store)
        await _flush(place_of_its_own)
        answers = {verb: await asyncio.gather(call(), return_exceptions=True) for verb, call in verbs.items()}
        wrong = {
            verb: answer
            for verb, (answer,) in answers.items()
            if not isinstance(answer, StoreUnavailable) or "backup" not in str(answer)
        }
        assert wrong == {}
        await store.close()
        with pytest.raises(StoreUnavailable, match="backup"):
            await later.open()
        await later.close()

    with place_of_its_own.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier.store(), frontier.store(may_create=False)))
