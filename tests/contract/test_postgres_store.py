"""What only the PostgreSQL store can do wrong: its sessions, migrations, folding. The common suite has the rest."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores import postgres
from gossamer.frontier.stores.entries import entry_end, entry_of
from gossamer.frontier.stores.postgres import PostgresStore
from gossamer.frontier.stores.postgres_examination import remove
from gossamer.frontier.stores.postgres_pool import connect
from gossamer.frontier.stores.postgres_schema import prepare, schema_of
from gossamer.frontier.stores.postgres_statements import migrations
from gossamer.frontier.stores.server import Connecting
from gossamer.records import Candidate, Destination, Lease, Move, Reason, Release, SiteClock
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import PostgresServer
from gossamer.testing.stores.model import ModelStore
from gossamer.url import stable_hash

SLOTS = 4
NO_LIMITS = AdmitLimits()


def link(number: int, site: str = "a.example") -> Candidate:
    url = f"https://{site}/{number}"
    return Candidate(url, site, stable_hash(url))


def connecting(url: str, crawl: str = "", *, pool: int = 8, may_create: bool = True) -> Connecting:
    return Connecting(
        url=url,
        crawl=crawl or f"t{secrets.token_hex(8)}",
        slots=SLOTS,
        may_create=may_create,
        created_by="a test",
        patience_seconds=60,
        pool=pool,
    )


@asynccontextmanager
async def opened(given: Connecting) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(given)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def sessions(url: str) -> AsyncIterator[Any]:
    """A connection of a person, who looks at the server."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def with_store(server: PostgresServer, work: Callable[[PostgresStore, Any], Awaitable[None]], pool: int = 8) -> None:
    """A frontier of its own, and a person's connection with its schema in the search path."""

    async def run() -> None:
        given = connecting(server.url, pool=pool)
        async with opened(given) as store, sessions(server.url) as person:
            await person.execute(f"SET search_path = {schema_of(given.crawl)}")
            await work(store, person)
        await remove(given.url, given.crawl)

    asyncio.run(run())


async def lease(store: PostgresStore, call: str, now: float = 0.0, limit: int = 100) -> list[Lease]:
    epochs = await store.own("fetcher", range(SLOTS), now=now, until=now + 100, delay_seconds=1)
    return (await store.lease(call, epochs, limit, now=now, delay_seconds=1, max_pages=0)).leases


async def end_sessions(person: Any) -> None:
    """They are gone when it returns."""
    await person.fetch(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE application_name = 'gossamer' AND pid <> pg_backend_pid()"
    )


def test_work_goes_on_when_all_sessions_are_ended_in_the_middle_of_it(postgres_binary: ServerBinary) -> None:
    """Nothing is lost, nothing comes twice, and no caller is told."""

    async def run(url: str) -> None:
        async with opened(connecting(url)) as store, sessions(url) as person:
            links = [link(number, f"site{number % 40}.example") for number in range(4_000)]

            # Once for certain in the middle of a call: it waits for a lock.
            async with person.transaction():
                await person.execute(f"LOCK TABLE {store._schema}.sites")
                call = asyncio.create_task(store.admit(links[:50], NO_LIMITS, now=0.0))
                while not await person.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 (the server tells nobody)
                    await asyncio.sleep(0.01)
                await end_sessions(person)
            await call
            assert store._calls.repeated > 0

            is_time = asyncio.Event()

            async def admit(part: Sequence[Candidate]) -> int:
                new = 0
                for begin in range(0, len(part), 50):
                    new += (await store.admit(part[begin : begin + 50], NO_LIMITS, now=0.0)).count(Reason.NEW)
                    # The others are in the middle of something.
                    if begin % 250 == 200:
                        is_time.set()
                return new

            async def disturb() -> None:
                while True:
                    await is_time.wait()
                    is_time.clear()
                    await end_sessions(person)

            disturbance = asyncio.create_task(disturb())
            new = await asyncio.gather(*(admit(links[begin::4]) for begin in range(4)))
            disturbance.cancel()
            # One whose reply was lost was admitted, and is SEEN when it is asked about again.
            assert sum(new) <= 4_000
            counts = await store.counts(now=0)
            assert (counts.admitted, counts.queued, counts.sites) == (4_000, 4_000, 40)
            assert await person.fetchval(f"SELECT count(*) FROM {store._schema}.seen") == 4_000

    with PostgresServer(postgres_binary) as server:
        asyncio.run(run(server.url))


def test_calls_wait_for_a_server_that_was_killed_and_go_on_when_it_is_back(postgres_binary: ServerBinary) -> None:
    with PostgresServer(postgres_binary) as server:

        async def run() -> None:
            async with opened(connecting(server.url)) as store:
                await store.admit([link(number) for number in range(100)], NO_LIMITS, now=0.0)
                for turn in range(1, 4):
                    calls = [
                        asyncio.create_task(store.admit([link(turn * 1000 + number)], NO_LIMITS, now=0.0))
                        for number in range(50)
                    ]
                    await asyncio.sleep(0.01)
                    await asyncio.to_thread(server.kill)
                    calls.append(asyncio.create_task(store.admit([link(turn * 1000 + 50)], NO_LIMITS, now=0.0)))
                    while not store.is_away:  # noqa: ASYNC110 (it is no event, but what the metrics show)
                        await asyncio.sleep(0.01)
                    await asyncio.to_thread(server.restart)
                    await asyncio.gather(*calls)
                    assert not store.is_away
                    assert (await store.counts(now=0)).admitted == 100 + turn * 51
                leases = await lease(store, "call")
                assert [given.url for given in leases] == [link(0).url]

        asyncio.run(run())


def test_the_same_call_made_twice_at_once_gives_the_same_leases(postgres_server: PostgresServer) -> None:
    """Its first attempt may still be on its way when it is made again."""

    async def work(store: PostgresStore, _: Any) -> None:
        await store.admit([link(0, f"site{number}.example") for number in range(40)], NO_LIMITS, now=0.0)
        epochs = await store.own("fetcher", range(SLOTS), now=0, until=100, delay_seconds=1)
        answers = await asyncio.gather(
            *(store.lease("call", epochs, 5, now=0, delay_seconds=1, max_pages=0) for _ in range(8))
        )
        assert len({frozenset(answer.leases) for answer in answers}) == 1
        assert (await store.counts(now=0)).leased == 5

    with_store(postgres_server, work)


def test_a_site_that_is_always_locked_when_it_is_due_is_waited_for(postgres_server: PostgresServer) -> None:
    """As one is to which many admit at once. What is locked is passed over at first, and what is not is given."""

    async def work(store: PostgresStore, person: Any) -> None:
        await store.admit([link(0, "hot.example"), link(0, "other.example")], NO_LIMITS, now=0.0)
        async with person.transaction():
            await person.execute("SELECT FROM sites WHERE name = 'hot.example' FOR UPDATE")
            assert [given.site for given in await lease(store, "first", 1_000.0)] == ["other.example"]
            waiting = asyncio.create_task(lease(store, "second", 1_000.0))
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert done == set()
        assert [given.site for given in await waiting] == ["hot.example"]

    with_store(postgres_server, work)


def test_what_is_counted_is_folded_and_adds_up_meanwhile(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "FOLD_EVERY", 7)

    async def work(store: PostgresStore, person: Any) -> None:
        async def admit(first: int) -> None:
            for number in range(first, first + 50):
                await store.admit([link(number, f"site{number % 3}.example")], NO_LIMITS, now=0.0)

        async def watch() -> None:
            last = 0
            while True:
                admitted = (await store.counts(now=0)).admitted
                assert admitted >= last
                last = admitted

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(admit(100 * part) for part in range(4)))
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        assert (await store.counts(now=0)).admitted == 200
        # What came after the last fold began: six calls, and those of three others that were under way.
        assert await person.fetchval("SELECT count(*) FROM deltas") < 10
        assert await person.fetchval("SELECT value FROM totals WHERE name = 'admitted'") >= 190

    with_store(postgres_server, work)


def test_a_server_whose_clock_was_set_does_not_move_the_time_of_the_store(postgres_server: PostgresServer) -> None:
    async def work(store: PostgresStore, person: Any) -> None:
        async with opened(store._connecting) as other:
            await store.begin_run(latest_not_before_seconds=60)
            before = max(await store.now(), await other.now())
            for seconds in (3600.0, -7200.0):
                # The sum of server's clock and offset jumps, as it does when the clock is set.
                await person.execute("UPDATE meta SET clock_offset = clock_offset + $1", seconds)
                for handle in (store, other, store):
                    assert before <= await handle.now() < before + 60

    with_store(postgres_server, work)


def test_entries_of_every_length_end_where_python_says(postgres_server: PostgresServer) -> None:
    async def work(_: PostgresStore, person: Any) -> None:
        for length in (0, 1, 255, 256, 65_535, 65_536, 100_000):
            block = b"xyz" + entry_of(Candidate("u" * length, "a.example", 1)) + b"rest"
            assert await person.fetchval("SELECT entry_end($1, 3)", block) == entry_end(block, 3) == len(block) - 4

    with_store(postgres_server, work)


def test_a_long_queue_keeps_its_order_whatever_goes_back_to_its_ends(postgres_server: PostgresServer) -> None:
    async def work(store: PostgresStore, person: Any) -> None:
        await store.admit([link(number) for number in range(300)], NO_LIMITS, now=0.0)
        assert await person.fetchval("SELECT count(*) FROM blocks") > 5
        expected = [link(number).url for number in range(300)]
        now = 0.0
        for turn in range(60):
            (given,) = await lease(store, f"call {turn}", now)
            assert given.url == expected.pop(0)
            await store.release([Release(given, False, 0.0, SiteClock())])
            destination = (Destination.HEAD, Destination.TAIL, Destination.PAGE)[turn % 3]
            assert await store.spool("segment", [Move(given, destination, Reason.DNS)]) == set()
            if destination is Destination.HEAD:
                expected.insert(0, given.url)
            elif destination is Destination.TAIL:
                expected.append(given.url)
            now += 10
        waiting = []
        while leases := await lease(store, f"call {now}", now):
            waiting += [given.url for given in leases]
            await store.release([Release(given, False, 0.0, SiteClock()) for given in leases])
            now += 10
        assert waiting == expected
        assert await person.fetchval("SELECT count(*) FROM blocks") == 0

    with_store(postgres_server, work)


def test_links_to_sites_that_have_room_are_admitted_in_one_call(postgres_server: PostgresServer) -> None:
    """Whether the sites are there or not; and to be asked again about one that is full takes a second one."""

    async def work(store: PostgresStore, person: Any) -> None:
        links = [link(number, f"site{number % 3}.example") for number in range(30)]
        for expected in (Reason.NEW, Reason.SEEN):
            taken = store.pool.taken
            assert set(await store.admit(links, NO_LIMITS, now=0.0)) == {expected}
            assert store.pool.taken == taken + 1
        assert await person.fetchval("SELECT count(*) FROM sites") == 3
        more = [link(30, "site0.example"), link(31, "new.example"), link(0, "site0.example")]
        taken = store.pool.taken
        assert await store.admit(more, AdmitLimits(site_urls=10), now=0.0) == [
            Reason.SITE_FULL,
            Reason.NEW,
            Reason.SEEN,
        ]
        assert store.pool.taken == taken + 2

    with_store(postgres_server, work)


def test_a_site_whose_links_are_all_refused_is_not_made(postgres_server: PostgresServer) -> None:
    async def work(store: PostgresStore, person: Any) -> None:
        for limits in (AdmitLimits(only_seeded_sites=True), AdmitLimits(site_urls=0), AdmitLimits(site_queue=0)):
            assert Reason.NEW not in await store.admit([link(0), link(1)], limits, now=0.0)
        variant = msgspec.structs.replace(link(2), path_fingerprint=7)
        assert await store.admit([variant], AdmitLimits(path_variants=0), now=0.0) == [Reason.PATH_VARIANTS]
        assert await person.fetchval("SELECT count(*) FROM sites") == 0
        assert (await store.counts(now=0.0)).sites == 0

    with_store(postgres_server, work)


def test_batches_that_meet_limits_in_some_of_their_sites_are_answered_as_the_model_does(
    postgres_server: PostgresServer,
) -> None:
    chance = random.Random(7)

    def drawn() -> Candidate:
        number = chance.randrange(60)
        return msgspec.structs.replace(
            link(number, f"site{chance.randrange(6)}.example"),
            path_fingerprint=number % 3,
            at_head=chance.random() < 0.02,
            is_seed=chance.random() < 0.02,
        )

    async def work(store: PostgresStore, person: Any) -> None:
        model = ModelStore(SLOTS)
        for _ in range(150):
            batch = [drawn() for _ in range(chance.randrange(1, 16))]
            if chance.random() < 0.7:
                batch = list({candidate.fingerprint: candidate for candidate in batch}.values())
            limits = AdmitLimits(
                only_seeded_sites=chance.random() < 0.1,
                site_queue=chance.choice((25, 1_000)),
                site_urls=chance.choice((40, 1_000)),
                path_variants=chance.choice((8, 18, 1_000)),
            )
            assert await store.admit(batch, limits, now=0.0) == await model.admit(batch, limits, now=0.0)
        sites = [f"site{number}.example" for number in range(6)]
        assert await store.site_states(sites) == await model.site_states(sites)
        leased = await lease(store, "first")
        epochs = await model.own("fetcher", range(SLOTS), now=0.0, until=100.0, delay_seconds=1)
        expected = (await model.lease("first", epochs, 100, now=0.0, delay_seconds=1, max_pages=0)).leases
        assert {given.url for given in leased} == {given.url for given in expected}
        blocks = await person.fetch("SELECT site, sum(octet_length(urls)) > 0 FROM blocks GROUP BY site")
        assert len(blocks) == 6

    with_store(postgres_server, work)


def test_a_frontier_of_an_older_version_is_migrated_once_by_many_at_once(postgres_server: PostgresServer) -> None:
    async def run() -> None:
        given = connecting(postgres_server.url)
        later = (*migrations(), "CREATE TABLE second (x integer)", "ALTER TABLE second ADD COLUMN y integer")

        async def bring_up_to_date(steps: Sequence[str]) -> None:
            connection = await connect(given.url, schema_of(given.crawl))
            try:
                await prepare(connection, given, "the server", steps)
            finally:
                await connection.close()

        async with opened(given) as store:
            await store.admit([link(1)], NO_LIMITS, now=0.0)
        await asyncio.gather(*(bring_up_to_date(later) for _ in range(6)))
        async with sessions(given.url) as person:
            assert await person.fetchval(f"SELECT version FROM {schema_of(given.crawl)}.meta") == len(later)
            assert await person.fetch(f"SELECT y FROM {schema_of(given.crawl)}.second") == []
        # And what was made by a newer version is not touched by an older one.
        with pytest.raises(UsageError, match="newer version"):
            await bring_up_to_date(migrations())
        await remove(given.url, given.crawl)

    asyncio.run(run())


def test_another_frontier_in_the_place_of_ours_is_an_error(postgres_server: PostgresServer) -> None:
    async def run() -> None:
        given = connecting(postgres_server.url)
        async with opened(given) as store:
            await store.admit([link(1)], NO_LIMITS, now=0.0)
            await remove(given.url, given.crawl)
            async with opened(given), sessions(given.url) as person:
                await end_sessions(person)
                with pytest.raises(StoreUnavailable, match="something removed it"):
                    await store.counts(now=0)
        await remove(given.url, given.crawl)

    asyncio.run(run())


def test_an_id_that_is_no_id_is_refused() -> None:
    for crawl in ("", "a-b", 'a"; DROP SCHEMA public', "x" * 60, "ä"):
        with pytest.raises(UsageError, match="letters and digits"):
            PostgresStore(Connecting(url="postgresql://127.0.0.1/x", crawl=crawl, slots=SLOTS))
