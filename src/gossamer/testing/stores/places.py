"""Where a frontier under test lives: in memory, in a file, on a server.

    with Servers() as servers:
        place = RedisPlace(servers.redis(binary))
        with place.frontier(slots=4) as frontier:
            frontier.store()         a handle on it, not open yet; every further one leads to the same frontier

A frontier is empty at first and is gone when its block is left. Those of a server share it, each under a crawl of its
own, so one server of a kind serves all the tests of a process.
"""

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import asyncpg  # type: ignore[import-untyped]
import msgspec

from gossamer.errors import UsageError
from gossamer.frontier.store import Store
from gossamer.frontier.stores.postgres import PostgresStore
from gossamer.frontier.stores.postgres_examination import remove as remove_from_postgres
from gossamer.frontier.stores.postgres_schema import schema_of
from gossamer.frontier.stores.read_only import ServerReader
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.redis_examination import remove as remove_from_redis
from gossamer.frontier.stores.server import Connecting
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.frontier.stores.sqlite_reader import SqliteReader
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import PostgresServer, RedisServer
from gossamer.testing.stores.model import ModelStore

#: How long a handle waits for a server that should be there: a test that hangs tells less than one that fails.
PATIENCE_SECONDS = 60.0
#: URLs of one queue that stay in the memory of Redis: so few that tests reach the files behind it.
QUEUE_IN_MEMORY = 20

AnyServer = TypeVar("AnyServer", RedisServer, PostgresServer)


class Frontier(Protocol):
    """One frontier; all handles that it gives lead to it."""

    def store(self, *, may_create: bool = True, pool: int = 8) -> Store:
        """A handle that is not open yet."""

    def reader(self) -> Store:
        """Likewise, for reading only."""


class Place(Protocol):
    """Gives empty frontiers, as many at a time as are asked for."""

    def frontier(self, slots: int) -> contextlib.AbstractContextManager[Frontier]:
        """Empty until the first handle is opened, and removed when the block is left."""


class ModelFrontier:
    """In the memory of this process: all its handles are one object."""

    def __init__(self, slots: int) -> None:
        self._store = ModelStore(slots)

    def store(self, *, may_create: bool = True, pool: int = 8) -> Store:
        del may_create, pool
        return self._store

    def reader(self) -> Store:
        return ServerReader(self._store)


class SqliteFrontier(msgspec.Struct, frozen=True, tag="sqlite"):
    """A file; like those below it can be told to another process as JSON."""

    path: str
    slots: int

    def store(self, *, may_create: bool = True, pool: int = 8) -> Store:
        del pool
        return SqliteStore(Path(self.path), self.slots, may_create=may_create)

    def reader(self) -> Store:
        return SqliteReader(Path(self.path), self.slots)


class RedisFrontier(msgspec.Struct, frozen=True, tag="redis"):
    """A crawl of its own on a server, with a directory for the tails of long queues."""

    url: str
    crawl: str
    slots: int
    queues: str
    queue_in_memory: int

    def store(self, *, may_create: bool = True, pool: int = 8) -> Store:
        return self._store(_connecting(self, may_create=may_create, pool=pool))

    def reader(self) -> Store:
        return ServerReader(self._store(_connecting(self, pool=1, is_reader=True)))

    def _store(self, connecting: Connecting) -> Store:
        return RedisStore(connecting, queues=Path(self.queues), queue_in_memory=self.queue_in_memory)


class PostgresFrontier(msgspec.Struct, frozen=True, tag="postgresql"):
    """A crawl of its own on a server."""

    url: str
    crawl: str
    slots: int

    def store(self, *, may_create: bool = True, pool: int = 8) -> Store:
        return PostgresStore(_connecting(self, may_create=may_create, pool=pool))

    def reader(self) -> Store:
        return ServerReader(PostgresStore(_connecting(self, pool=1, is_reader=True)))


#: What another process can open.
SharedFrontier = SqliteFrontier | RedisFrontier | PostgresFrontier


def _connecting(
    frontier: RedisFrontier | PostgresFrontier, *, pool: int, may_create: bool = False, is_reader: bool = False
) -> Connecting:
    return Connecting(
        url=frontier.url,
        crawl=frontier.crawl,
        slots=frontier.slots,
        may_create=may_create,
        created_by="a test",
        patience_seconds=PATIENCE_SECONDS,
        pool=pool,
        is_reader=is_reader,
    )


class ModelPlace:
    """The contract in its plainest form."""

    @contextlib.contextmanager
    def frontier(self, slots: int) -> Iterator[ModelFrontier]:
        yield ModelFrontier(slots)


class SqlitePlace:
    """Files in memory where the system has such a place: what is tested is no disk."""

    @contextlib.contextmanager
    def frontier(self, slots: int) -> Iterator[SqliteFrontier]:
        with _directory() as directory:
            yield SqliteFrontier(f"{directory}/frontier.db", slots)


class RedisPlace:
    """One server of Redis or Valkey."""

    def __init__(self, server: RedisServer, queue_in_memory: int = QUEUE_IN_MEMORY) -> None:
        self.server = server
        self._queue_in_memory = queue_in_memory

    @contextlib.contextmanager
    def frontier(self, slots: int) -> Iterator[RedisFrontier]:
        with _directory() as directory:
            frontier = RedisFrontier(self.server.url, _new_crawl(), slots, directory, self._queue_in_memory)
            yield frontier
            _remove(remove_from_redis, frontier)


class PostgresPlace:
    """One server of PostgreSQL."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    @contextlib.contextmanager
    def frontier(self, slots: int) -> Iterator[PostgresFrontier]:
        frontier = PostgresFrontier(self.server.url, _new_crawl(), slots)
        yield frontier
        _remove(remove_from_postgres, frontier)


class EmptiedPostgresPlace(PostgresPlace):
    """Gives the same frontier again, emptied: to make and remove one costs a tenth of a second, which is more than a
    short history on it does."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self._idle: dict[int, tuple[PostgresFrontier, str]] = {}

    @contextlib.contextmanager
    def frontier(self, slots: int) -> Iterator[PostgresFrontier]:
        if slots not in self._idle:
            self._idle[slots] = asyncio.run(self._made(slots))
        frontier, emptying = self._idle.pop(slots)
        yield frontier
        asyncio.run(_execute(frontier.url, emptying))
        self._idle[slots] = frontier, emptying

    async def _made(self, slots: int) -> tuple[PostgresFrontier, str]:
        """A frontier, and the statements that bring it back to what it is now, whatever its tables are."""
        frontier = PostgresFrontier(self.server.url, _new_crawl(), slots)
        store = frontier.store()
        await store.open()
        await store.close()
        connection = await asyncpg.connect(frontier.url)
        try:
            return frontier, await _emptying(connection, schema_of(frontier.crawl))
        finally:
            await connection.close()


async def _emptying(connection: asyncpg.Connection, schema: str) -> str:
    statements = ["BEGIN"]
    for (table,) in await connection.fetch(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = $1", schema
    ):
        statements.append(f"DELETE FROM {table}")  # noqa: S608 (quoted by the server)
        statements += await connection.fetchrow(
            "SELECT format('INSERT INTO %s SELECT * FROM json_populate_recordset(NULL::%s, %L)', $1::text, $1::text,"  # noqa: S608 (likewise)
            f" coalesce(json_agg(rows), '[]')) FROM {table} AS rows",
            table,
        )
    statements += await connection.fetchrow(
        "SELECT string_agg(format('SELECT setval(%L, %s, false)', format('%I.%I', schemaname, sequencename),"
        " start_value), ';') FROM pg_sequences WHERE schemaname = $1",
        schema,
    )
    return ";".join([*statements, "COMMIT"])


async def _execute(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


def _new_crawl() -> str:
    return f"t{secrets.token_hex(8)}"


def _remove(remove: Callable[[str, str], Awaitable[None]], frontier: RedisFrontier | PostgresFrontier) -> None:
    """After a test that passed; what one that failed has left ends with the server."""

    async def removed() -> None:
        with contextlib.suppress(UsageError):  # there is none: it was never opened, or the test has seen to that
            await remove(frontier.url, frontier.crawl)

    asyncio.run(removed())


def _directory() -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")  # noqa: S108 (a fresh directory is made in it)
    return tempfile.TemporaryDirectory(prefix="gossamer-frontier-", dir=memory if memory.is_dir() else None)


class Servers(contextlib.ExitStack):
    """The servers of one process of tests: one of each program that was asked for, all ended with the block."""

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[ServerBinary, RedisServer | PostgresServer] = {}

    def redis(self, binary: ServerBinary) -> RedisServer:
        return self._of(RedisServer, binary)

    def postgres(self, binary: ServerBinary) -> PostgresServer:
        return self._of(PostgresServer, binary)

    def _of(self, kind: type[AnyServer], binary: ServerBinary) -> AnyServer:
        server = self._running.get(binary)
        if not isinstance(server, kind):
            server = self.enter_context(kind(binary))
            self._running[binary] = server
        return server
