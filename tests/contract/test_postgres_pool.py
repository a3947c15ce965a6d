"""The connections of the PostgreSQL store: bounded, whole whatever happens to calls, and what their errors mean."""

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores import postgres_pool
from gossamer.frontier.stores.postgres import PostgresStore
from gossamer.frontier.stores.postgres_errors import ERRORS, judge_of
from gossamer.frontier.stores.postgres_examination import remove
from gossamer.frontier.stores.postgres_pool import Pool, connect
from gossamer.frontier.stores.server import Connecting, Trouble
from gossamer.testing.servers import PostgresServer


def with_store(
    server: PostgresServer, work: Callable[[PostgresStore, Any], Awaitable[None]], pool: int, **others: Any
) -> None:
    """A frontier of its own, and the connection of a person who looks at the server."""

    async def run() -> None:
        crawl = f"t{secrets.token_hex(8)}"
        store = PostgresStore(
            Connecting(url=server.url, crawl=crawl, slots=4, may_create=True, patience_seconds=60, pool=pool, **others)
        )
        person = await asyncpg.connect(server.url)
        await store.open()
        try:
            await work(store, person)
        finally:
            await store.close()
            await person.close()
        await remove(server.url, crawl)

    asyncio.run(run())


def pool_of(server: PostgresServer, size: int) -> Pool:
    return Pool(lambda: connect(server.url, "no_schema"), size)


def test_no_more_connections_than_the_pool_may_have_however_many_calls(postgres_server: PostgresServer) -> None:
    async def work(store: PostgresStore, person: Any) -> None:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, await sessions())
                await asyncio.sleep(0.01)

        async def sessions() -> int:
            """Of this test: the person's is older, those of tests before it are older still."""
            count: int = await person.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gossamer' AND backend_start >"
                " (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())"
            )
            return count

        # A session that was closed when the store was opened ends in its own time.
        while await sessions() > store.pool.created:  # noqa: ASYNC110 (the server tells nobody)
            await asyncio.sleep(0.01)
        watching = asyncio.create_task(watch())
        calls = [asyncio.create_task(store.counts(now=0)) for _ in range(300)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store.pool.waiting + store.pool.in_use == 300
        await asyncio.gather(*calls)
        watching.cancel()
        use = store.pool
        assert (use.in_use, use.waiting, use.taken >= 300) == (0, 0, True)
        assert len(waits) == use.taken
        assert sum(waits) >= use.waited_seconds, "making connections takes time, too"
        assert 1 <= use.created <= 5
        assert most <= 5
        assert use.waited_seconds > 0

    waits: list[float] = []
    with_store(postgres_server, work, pool=5, note_connection=waits.append)


def test_cancelled_calls_leave_the_pool_whole_and_cross_no_replies(postgres_server: PostgresServer) -> None:
    async def run() -> None:
        pool = pool_of(postgres_server, 3)
        numbers = itertools.count()

        async def ask() -> None:
            number = next(numbers)
            assert await pool.run(lambda c: c.fetchval("SELECT $1::bigint", number)) == number

        for turn in range(150):
            asked = [asyncio.create_task(ask()) for _ in range(6)]
            # At every stage: waiting for a connection, making one, sending, waiting for the answer.
            for _ in range(turn % 15):
                await asyncio.sleep(0)
            if turn % 3 == 0:
                await asyncio.sleep(turn / 20_000)
            for task in asked[turn % 2 :: 2]:
                task.cancel()
            ended = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(answer) for answer in ended} <= {type(None), asyncio.CancelledError}
            assert pool.use.waiting == 0
            assert pool.use.created <= 3
        await asyncio.gather(*(ask() for _ in range(20)))
        await pool.close()
        assert (pool.use.created, pool.use.in_use) == (0, 0)

    asyncio.run(run())


def test_a_call_that_was_given_up_is_ended_before_it_is_made_again(postgres_server: PostgresServer) -> None:
    """Else it could happen after the one that took its place, and nobody would know of what it did."""

    async def run() -> None:
        pool = pool_of(postgres_server, 3)
        running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%' AND state = 'active'"
        for others in range(3):
            # With connections that wait to be used, and without.
            await asyncio.gather(*(pool.run(lambda c: c.execute("SELECT pg_sleep(0.1)")) for _ in range(others)))
            with pytest.raises(TimeoutError):
                await pool.run(lambda c: c.execute("SELECT pg_sleep(60)"), limit_seconds=0.2)
            assert await pool.run(lambda c: c.fetchval(running)) == 0
        await pool.close()

    asyncio.run(run())


def test_a_connection_that_was_quiet_for_long_is_checked_and_replaced(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "IDLE_SECONDS", 0.0)

    async def work(store: PostgresStore, person: Any) -> None:
        await store.counts(now=0)
        for _ in range(5):
            await person.fetch(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'gossamer'"
            )
            await store.counts(now=0)
        assert store._calls.repeated == 0

    with_store(postgres_server, work, pool=1)


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("40P01", Trouble.AGAIN), ("40001", Trouble.AGAIN), ("53100", Trouble.FULL), ("53300", Trouble.AWAY),
        ("57P01", Trouble.AWAY), ("57P02", Trouble.AWAY), ("57P03", Trouble.STARTING), ("08006", Trouble.AWAY),
        ("08001", Trouble.AWAY), ("25006", Trouble.AWAY), ("57014", Trouble.AWAY),
    ],
)  # fmt: skip
def test_what_passes_is_waited_for(code: str, trouble: Trouble) -> None:
    error = asyncpg.PostgresError.new({"C": code, "M": "said the server"})
    assert judge_of("the server", "crawl")(error) is trouble


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("42P01", "something removed it"), ("3F000", "something removed it"), ("42883", "something removed it"),
        ("3D000", "something removed it"), ("28P01", "password is not accepted"), ("28000", "pg_hba.conf"),
        ("42501", "GRANT"), ("26000", "session pooling"), ("08P01", "protocol"), ("XX000", "does not pass"),
    ],
)  # fmt: skip
def test_what_does_not_pass_says_what_to_do(code: str, said: str) -> None:
    error = asyncpg.PostgresError.new({"C": code, "M": "said the server"})
    judged = judge_of("the server", "crawl")(error)
    assert isinstance(judged, StoreUnavailable)
    assert said in str(judged)


def test_what_answers_for_a_server_that_was_there_is_waited_out() -> None:
    """A proxy whose server is down, say; to begin with, it is the wrong address."""
    error = ConnectionError('PostgreSQL server at "h:1" rejected SSL upgrade')
    assert judge_of("the server", "crawl", was_reached=True)(error) is Trouble.AWAY
    assert isinstance(judge_of("the server", "crawl")(error), StoreUnavailable)


def test_every_error_of_the_library_is_caught_and_judged() -> None:
    judge = judge_of("the server", "crawl")
    for name, kind in vars(asyncpg.exceptions).items():
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning):
            assert issubclass(kind, ERRORS), name
            code = getattr(kind, "sqlstate", None)
            error = asyncpg.PostgresError.new({"C": code, "M": name}) if code else kind(name)
            assert isinstance(judge(error), Trouble | StoreUnavailable), name
