"""A frontier on a Redis server, and a fetcher that works through it: for the tests of that store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gossamer.frontier.store import AdmitLimits, Store
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.server import Connecting
from gossamer.records import Candidate, Destination, Finished, Lease, Move, Reason, Release, SiteClock
from gossamer.testing.servers import RedisServer
from gossamer.url import stable_hash

SLOTS = 2
NO_LIMITS = AdmitLimits()
LATE = 1e6


def client(server: RedisServer) -> Any:
    """Somebody with the server's own tools; what it answers is not hidden by trying again."""
    return redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0), socket_timeout=60)


def make(
    server: RedisServer, directory: Path, *, crawl: str = "abc", in_memory: int = 10_000, **others: Any
) -> RedisStore:
    settings: dict[str, Any] = {
        "url": server.url,
        "slots": SLOTS,
        "may_create": True,
        "patience_seconds": 60.0,
    } | others
    return RedisStore(Connecting(crawl=crawl, **settings), queues=directory / "queues", queue_in_memory=in_memory)


def with_store(store: Store, work: Callable[[RedisStore], Awaitable[None]]) -> None:
    async def run() -> None:
        assert isinstance(store, RedisStore)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


def link(number: int, site: str = "a.example") -> Candidate:
    url = f"https://{site}/{number}/a-path-of-some-length-as-most-have-it.html"
    return Candidate(url, site, stable_hash(url))


async def lease(store: Store, now: float, limit: int = 1000, owner: str = "fetcher") -> list[Lease]:
    epochs = await store.own(owner, range(SLOTS), now=now, until=now + 100, delay_seconds=1)
    given = await store.lease(f"call {now}", epochs, limit, now=now, delay_seconds=1, max_pages=0)
    return given.leases


async def work_off(store: Store, leases: list[Lease]) -> None:
    await store.release([Release(given, False, 0.0, SiteClock()) for given in leases])
    assert await store.spool("segment", [Move(given, Destination.OUTCOME, Reason.STATUS) for given in leases]) == set()
    await store.finish([finished(given) for given in leases])


def finished(given: Lease) -> Finished:
    return Finished("segment", given.number, given.slot, given.site, given.fingerprint, Reason.STATUS, 1)


async def drain(store: Store, now: float = LATE) -> list[str]:
    urls: list[str] = []
    while leases := await lease(store, now):
        urls += [given.url for given in leases]
        await work_off(store, leases)
        now += 1
    return urls


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (what is waited for tells nobody)
        await asyncio.sleep(0.01)


async def moved(store: RedisStore) -> None:
    """The task that `own` began has ended."""
    if store._queues._task is not None:
        await asyncio.wait([store._queues._task])
