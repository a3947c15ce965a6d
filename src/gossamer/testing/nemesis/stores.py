"""The store of an attacked crawl: what it has leased, read behind the crawl's back, and what is done to its server."""

import asyncio
import contextlib
import os
import signal
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import asyncpg  # type: ignore[import-untyped]
import redis.asyncio as redis

from gossamer.config import FrontierSettings, Settings
from gossamer.errors import UsageError
from gossamer.frontier.store import Counts
from gossamer.frontier.stores.postgres_schema import schema_of
from gossamer.frontier.stores.redis_keys import header_key
from gossamer.run.data_directory import DataDirectory
from gossamer.run.stores import open_store, remove
from gossamer.testing.guard import children
from gossamer.testing.server_binaries import (
    ServerBinary,
    ServerUnavailable,
    find_postgres_servers,
    find_redis_servers,
)
from gossamer.testing.servers import PostgresServer, RedisServer

KINDS = ("sqlite", "redis", "postgresql")

Server = RedisServer | PostgresServer


class AttackedStore(Protocol):
    """One of `KINDS`; crawls that are attacked one after the other may share it."""

    @property
    def kind(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def server(self) -> Server | None: ...

    def leased(self, data: DataDirectory, slots: Collection[int]) -> int:
        """How many URLs are leased in these slots. It asks nobody of the crawl and changes nothing."""

    def counts(self, data: DataDirectory) -> Counts:
        """Where all URLs are; nothing of the crawl may run any more."""

    def clear(self, data: DataDirectory) -> None:
        """The crawl is over: nothing of it stays on a server."""


class EmbeddedStore:
    """The file in the data directory."""

    kind = "sqlite"
    url = "sqlite"
    server = None

    def leased(self, data: DataDirectory, slots: Collection[int]) -> int:
        if not data.frontier.exists():
            return 0
        address = f"file:{data.frontier}?mode=rw"
        with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=30)) as store:
            if not store.execute("SELECT 1 FROM sqlite_schema WHERE name = 'held'").fetchone():
                return 0
            (count,) = store.execute(
                f"SELECT count(*) FROM held WHERE segment IS NULL AND slot IN ({','.join(map(str, slots))})"  # noqa: S608 (numbers)
            ).fetchone()
        return int(count)

    def counts(self, data: DataDirectory) -> Counts:
        return _counts(data, self.url)

    def clear(self, data: DataDirectory) -> None:
        pass


class _OnServer:
    """What both servers have in common."""

    kind = ""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.url

    def leased(self, data: DataDirectory, slots: Collection[int]) -> int:
        return asyncio.run(self._leased(data.which_frontier().crawl, slots))

    def counts(self, data: DataDirectory) -> Counts:
        return _counts(data, self.url)

    def clear(self, data: DataDirectory) -> None:
        with contextlib.suppress(UsageError):  # it never came to having one
            asyncio.run(remove(self.url, data.which_frontier().crawl))

    async def _leased(self, crawl: str, slots: Collection[int]) -> int:
        raise NotImplementedError


class RedisUnderAttack(_OnServer):
    """Redis or Valkey."""

    kind = "redis"

    async def _leased(self, crawl: str, slots: Collection[int]) -> int:
        async with redis.from_url(self.url) as client, client.pipeline(transaction=True) as asked:
            for slot in slots:
                asked.hlen(header_key(crawl, slot).removesuffix(b"h") + b"leased")
            return sum(await asked.execute())


class PostgresUnderAttack(_OnServer):
    """PostgreSQL."""

    kind = "postgresql"

    async def _leased(self, crawl: str, slots: Collection[int]) -> int:
        schema = schema_of(crawl)
        connection = await asyncpg.connect(self.url)
        try:
            if await connection.fetchval("SELECT to_regclass($1)", f'"{schema}".held') is None:
                return 0
            question = f'SELECT count(*) FROM "{schema}".held WHERE segment IS NULL AND slot = ANY ($1::integer[])'  # noqa: S608 (letters and digits)
            return int(await connection.fetchval(question, slots))
        finally:
            await connection.close()


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """All of its processes stand still, as on a machine that hangs."""
    family = [server.pid]
    _tell(family, signal.SIGSTOP)
    try:
        # Only now: it starts no more of them.
        family += children(server.pid)
        _tell(family, signal.SIGSTOP)
        yield
    finally:
        _tell(family, signal.SIGCONT)


def _tell(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _counts(data: DataDirectory, url: str) -> Counts:
    settings = Settings(frontier=FrontierSettings(store=url))

    async def ask() -> Counts:
        store = open_store(data, settings, data.which_frontier(), is_leader=False)
        await store.open()
        try:
            return await store.counts(now=await store.now())
        finally:
            await store.close()

    return asyncio.run(ask())


@contextlib.contextmanager
def attacked_store(kind: str) -> Iterator[AttackedStore]:
    """With a server of its own, if it has one: its death loses nothing that it has acknowledged."""
    if kind == "sqlite":
        yield EmbeddedStore()
    elif kind == "redis":
        # By default it may hold back what it writes for a second while the disk is busy, and a kill then loses that.
        with RedisServer(_first(find_redis_servers(), kind), settings={"appendfsync": "always"}) as server:
            yield RedisUnderAttack(server)
    else:
        with PostgresServer(_first(find_postgres_servers(), kind)) as server:
            yield PostgresUnderAttack(server)


def _first(found: Sequence[ServerBinary], kind: str) -> ServerBinary:
    if not found:
        raise ServerUnavailable(f"there is no {kind} server; ./check says how to get one")
    return found[0]
