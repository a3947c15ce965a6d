"""The connections of the store on Redis: never too many, never a reply to the wrong call; errors say what to do."""

import asyncio
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores import redis_pool
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.redis_server import RedisServer as Connected
from gossamer.frontier.stores.server import Connecting, Trouble
from gossamer.records import Reason, RobotsCopy
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import RedisServer
from tests.contract.redis_stores import (
    LATE,
    NO_LIMITS,
    client,
    link,
    make,
    until,
    with_store,
)


@pytest.fixture
def server(redis_binary: ServerBinary) -> Iterator[RedisServer]:
    """One of its own, which a test may stop, fill and empty."""
    with RedisServer(redis_binary, {"enable-debug-command": "local"}) as running:
        yield running


def test_a_pool_never_has_more_connections_than_it_may_and_calls_wait_for_one(
    server: RedisServer, tmp_path: Path
) -> None:
    async def work(store: RedisStore) -> None:
        async def call(number: int) -> None:
            assert await store.admit([link(number)], NO_LIMITS, now=0.0) == [Reason.NEW]
            assert store.pool.created <= 3

        with client(server) as admin:
            calls = [asyncio.create_task(call(number)) for number in range(300)]
            await asyncio.sleep(0)
            assert (store.pool.in_use, store.pool.waiting) == (3, 297)
            await asyncio.gather(*calls)
            names = [connection["name"] for connection in admin.client_list()]
        assert names.count("gossamer-abc") == store.pool.created == 3
        assert (store.pool.in_use, store.pool.waiting) == (0, 0)
        assert store.pool.taken >= 300
        assert store.pool.waited_seconds > 0
        assert len(waits) == store.pool.taken
        assert sum(waits) >= store.pool.waited_seconds, "making connections takes time, too"

    waits: list[float] = []
    with_store(make(server, tmp_path, pool=3, note_connection=waits.append), work)


def test_a_cancelled_call_gives_its_reply_to_nobody(server: RedisServer, tmp_path: Path) -> None:
    origins = [f"https://site{number}.example" for number in range(50)]
    chance = random.Random(7)

    async def work(store: RedisStore) -> None:
        await store.save_robots([RobotsCopy(origin=origin, access="x", body=origin.encode()) for origin in origins])

        async def ask(origin: str) -> None:
            copies = await store.load_robots([origin])
            assert copies == {origin: RobotsCopy(origin=origin, access="x", body=origin.encode())}

        cancelled = 0
        for _ in range(100):
            calls = [asyncio.create_task(ask(chance.choice(origins))) for _ in range(20)]
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            for call in calls:
                if chance.random() < 0.5:
                    call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(answer) for answer in answers} <= {type(None), asyncio.CancelledError}
            cancelled += sum(isinstance(answer, asyncio.CancelledError) for answer in answers)
            assert store.pool.in_use == store.pool.waiting == 0
            assert store.pool.created <= 4
        assert cancelled > 300
        await asyncio.gather(*map(ask, origins))

    with_store(make(server, tmp_path, pool=4), work)


def test_a_connection_that_died_while_idle_is_replaced_without_anybody_noticing(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(1)], NO_LIMITS, now=0.0)
        with client(server) as admin:
            admin.execute_command("CLIENT", "KILL", "TYPE", "normal")
            await until(lambda: "gossamer-abc" not in [connection["name"] for connection in admin.client_list()])
            await asyncio.sleep(0.1)  # the event loop has seen it
            assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.SEEN]
        monkeypatch.setattr(redis_pool, "IDLE_SECONDS", 0.0)  # each is asked whether it lives
        assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.SEEN]
        assert store._server._calls.repeated == 0

    with_store(make(server, tmp_path), work)


def test_a_call_that_takes_too_long_is_made_again_on_another_connection(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(1)], NO_LIMITS, now=0.0)
        monkeypatch.setattr(redis_pool, "ATTEMPT_SECONDS", 0.1)
        os.kill(server.pid, signal.SIGSTOP)
        waiting = [asyncio.create_task(store.admit([link(number)], NO_LIMITS, now=0.0)) for number in (1, 2)]
        try:
            await until(lambda: store.is_away)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        monkeypatch.undo()
        seen, new = await asyncio.gather(*waiting)
        # The second may have happened before its first reply was lost.
        assert (seen, new[0] in {Reason.NEW, Reason.SEEN}) == ([Reason.SEEN], True)
        counts = await store.counts(now=LATE)
        assert (counts.admitted, counts.queued) == (2, 2)
        assert store._server._calls.repeated > 0

    with_store(make(server, tmp_path), work)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("redis://:wrong@127.0.0.1:{port}/0", "correct them in the address"),
        ("redis://127.0.0.1:{port}/0", "wants a password"),
        ("redis://:secret@127.0.0.1:{port}/99", "no such database"),
    ],
)
def test_what_never_passes_is_said_at_once_and_never_with_the_password(
    redis_binary: ServerBinary, tmp_path: Path, address: str, says: str
) -> None:
    with RedisServer(redis_binary) as server:
        with client(server) as admin:
            admin.config_set("requirepass", "secret")

        async def nothing(_: RedisStore) -> None: ...

        with pytest.raises(StoreUnavailable, match=says) as raised:
            with_store(make(server, tmp_path, url=address.format(port=server.port)), nothing)
        assert "secret" not in str(raised.value)
        assert "wrong@" not in str(raised.value)


def test_a_server_is_reached_by_a_socket_of_its_machine(redis_binary: ServerBinary, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.NEW]

    with tempfile.TemporaryDirectory() as directory:  # the path of a socket must be short
        path = f"{directory}/redis.sock"
        with RedisServer(redis_binary, {"unixsocket": path}) as server:
            with_store(make(server, tmp_path, url=f"unix://{path}"), work)


def test_a_server_of_another_kind_is_said_to_be_one(tmp_path: Path) -> None:
    async def run() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            store = RedisStore(Connecting(url=f"redis://127.0.0.1:{port}", crawl="abc", slots=2), queues=tmp_path)
            with pytest.raises(StoreUnavailable, match="does not speak as a Redis server does"):
                await store.open()

    asyncio.run(run())


def test_a_server_that_is_not_there_is_given_up_after_some_patience(tmp_path: Path) -> None:
    async def run() -> None:
        url = "redis://127.0.0.1:1"  # where nobody listens
        store = RedisStore(Connecting(url=url, crawl="abc", slots=2, patience_seconds=0.2), queues=tmp_path)
        with pytest.raises(StoreUnavailable, match="start it, or correct the address"):
            await store.open()
        await store.close()

    asyncio.run(run())


def test_every_answer_of_a_server_is_known_to_pass_or_not() -> None:
    judge = Connected("redis://127.0.0.1", "abc", pool=1, client_name="x")._judge
    for words, trouble in {
        "LOADING Redis is loading the dataset in memory": Trouble.STARTING,
        "READONLY You can't write against a read only replica.": Trouble.AWAY,
        "MASTERDOWN Link with MASTER is down": Trouble.AWAY,
        "BUSY Redis is busy running a script.": Trouble.AWAY,
        "TRYAGAIN Multiple keys request during rehashing of slot": Trouble.AWAY,
        "OOM command not allowed when used memory > 'maxmemory'.": Trouble.FULL,
        "MISCONF Errors writing to the AOF file: No space left on device": Trouble.FULL,
    }.items():
        assert judge(ResponseError(words)) is trouble
    for words in ("NOPERM no", "MOVED 1 host:1", "WRONGTYPE Operation against", "ERR unknown command"):
        assert isinstance(judge(ResponseError(words)), StoreUnavailable)
    assert judge(ConnectionResetError()) is Trouble.AWAY
    assert judge(TimeoutError()) is Trouble.AWAY
