"""How much room a frontier takes, by what it holds: bytes per seen URL, per queued URL and per site."""

import sqlite3
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import asyncpg  # type: ignore[import-untyped]
from redis.asyncio import Redis

from benchmarks.frontier.places import CRAWL, Place
from gossamer.frontier.store import Counts

#: Of Redis, looked at in one step.
_KEYS = 1_000
_PATIENCE_SECONDS = 60.0


class Sizes(NamedTuple):
    """Bytes."""

    seen_url: float
    queued_url: float
    site: float
    all_in_all: int


async def sizes(place: Place, counts: Counts) -> Sizes:
    measure = {"sqlite": _of_sqlite, "redis": _of_redis, "postgresql": _of_postgres}[place.kind]
    seen, queues, sites, total = await measure(place)
    return Sizes(seen / counts.admitted, queues / counts.queued, sites / counts.sites, total)


async def _of_sqlite(place: Place) -> tuple[int, int, int, int]:
    """Of the pages of each table; needs SQLite's dbstat, which not every build has."""
    connection = sqlite3.connect(Path(place.address))
    tables = dict(
        connection.execute(
            "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) WHERE aggregate = 1"
            " GROUP BY tbl_name"
        ).fetchall()
    )
    connection.close()
    return tables["recent"] + tables["seen"], tables["blocks"], tables["sites"], sum(tables.values())


async def _of_redis(place: Place) -> tuple[int, int, int, int]:
    """Memory: of the keys of each kind as the server tells it, and of the server as a whole, with all that it needs
    beside the keys."""
    kinds: Counter[bytes] = Counter()
    async with Redis.from_url(place.address, socket_timeout=_PATIENCE_SECONDS) as redis:
        cursor: int | None = None
        while cursor != 0:
            cursor, keys = await redis.scan(cursor or 0, count=_KEYS)
            pipeline = redis.pipeline(transaction=False)
            for key in keys:
                pipeline.memory_usage(key, samples=0)
            for key, size in zip(keys, await pipeline.execute(), strict=True):
                kinds[_kind_of_key(key)] += size
        total = (await redis.info("memory"))["used_memory"]
    return kinds[b"s"], kinds[b"q"], kinds[b"sites"] + kinds[b"due"], total


def _kind_of_key(key: bytes | str) -> bytes:
    """What stands behind the tag of the slot: `s` of a bucket of seen, `q` of a queue, else the name as a whole."""
    name = key.encode() if isinstance(key, str) else key
    return name.partition(b"}:")[2].partition(b":")[0]


async def _of_postgres(place: Place) -> tuple[int, int, int, int]:
    """Of each table with its indexes, with the room of rows that were replaced and are not reused yet."""
    connection = await asyncpg.connect(place.address)
    try:
        rows = await connection.fetch(
            "SELECT relname, pg_total_relation_size(pg_class.oid) AS bytes FROM pg_class JOIN pg_namespace"
            " ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'",
            f"gossamer_{CRAWL}",
        )
    finally:
        await connection.close()
    tables = {row["relname"]: row["bytes"] for row in rows}
    return tables["recent"] + tables["seen"], tables["blocks"], tables["sites"], sum(tables.values())
