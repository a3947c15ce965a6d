"""A URL is found in a queue that is read in many pieces, also while it moves."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.errors import StoreUnavailable
from gossamer.frontier.store import UrlState
from gossamer.frontier.stores import postgres_looking, redis_looking, sqlite_looking
from gossamer.frontier.stores import searching as pieces
from gossamer.frontier.stores.redis import RedisStore
from gossamer.testing.servers import RedisServer
from gossamer.testing.stores.places import Place, RedisPlace
from gossamer.testing.stores.suite import SLOTS, Check, run, searching
from tests.contract.redis_stores import LATE, NO_LIMITS, lease, link, moved, with_store, work_off
from tests.contract.redis_stores import SLOTS as REDIS_SLOTS

#: Where a queue is long, or changes.
CHECKS: list[Check] = [
    searching.test_a_queued_url_is_found_where_it_stands,
    searching.test_a_queued_url_comes_nearer_as_those_before_it_are_leased,
    searching.test_a_url_that_is_there_all_the_time_is_found_while_others_come_and_go,
]


def name(value: Callable[..., object]) -> str:
    return value.__name__.removeprefix("test_")


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few URLs make many of them."""
    for module in (pieces, sqlite_looking, postgres_looking):
        monkeypatch.setattr(module, "BLOCKS_AT_ONCE", 2)
    monkeypatch.setattr(redis_looking, "ITEMS", 3)
    monkeypatch.setattr(redis_looking, "OVERLAP", 2)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("check", CHECKS, ids=name)
def test_a_queue_that_is_read_in_small_pieces(place_of_each_store: Place, check: Check) -> None:
    with place_of_each_store.frontier(SLOTS) as frontier:
        is_first = itertools.chain([True], itertools.repeat(False))
        asyncio.run(run(check, lambda: frontier.store(may_create=next(is_first))))


@pytest.mark.usefixtures("_small_pieces")
def test_a_place_in_a_queue_of_redis_is_found_again_when_its_head_has_moved(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two pieces one URL is taken, one put back, two taken, and so on."""
    original = redis_looking.RedisLooking._items
    taken: list[str] = []

    async def items(self: redis_looking.RedisLooking, *arguments: object) -> list[bytes]:
        if len(taken) % 3 == 1:
            await store.admit([link(1000 + len(taken))], NO_LIMITS, now=0.0)
            front = link(2000 + len(taken))
            await store.admit([type(front)(front.url, front.site, front.fingerprint, at_head=True)], NO_LIMITS, now=0.0)
            taken.append("put")
        else:
            leases = await lease(store, LATE + len(taken))
            await work_off(store, leases)
            taken.append("taken")
        return await original(self, *arguments)  # type: ignore[arg-type]

    async def work(_: RedisStore) -> None:
        for number in range(60):
            await store.admit([link(number)], NO_LIMITS, now=0.0)
        monkeypatch.setattr(redis_looking.RedisLooking, "_items", items)
        seen = await store.find(link(50))
        # As it stood when it was begun to be looked for.
        assert (seen.state, seen.ahead) == (UrlState.QUEUED, 50)
        assert len(taken) > 10
        assert (await store.find(link(0))).state is UrlState.FINISHED

    with RedisPlace(redis_server, queue_in_memory=10_000).frontier(REDIS_SLOTS) as frontier:
        store = frontier.store()
        with_store(store, work)


def test_a_queue_that_changes_faster_than_it_can_be_read_does_not_make_a_url_a_finished_one(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> bool:
        return False

    async def work(store: RedisStore) -> None:
        await store.admit([link(1), link(2)], NO_LIMITS, now=0.0)
        monkeypatch.setattr(redis_looking.RedisLooking, "_go_through", never)
        seen = await store.find(link(2))
        assert (seen.state, seen.ahead, seen.lease) == (UrlState.QUEUED, None, None)
        assert (await store.find(link(3))).state is UrlState.UNSEEN

    with RedisPlace(redis_server).frontier(REDIS_SLOTS) as frontier:
        with_store(frontier.store(), work)


def test_a_block_that_is_lost_is_an_error_for_who_looks_for_what_stands_behind_it(
    redis_server: RedisServer,
) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(number) for number in range(100)], NO_LIMITS, now=0.0)
        await lease(store, LATE)
        await moved(store)
        (file,) = await asyncio.to_thread(lambda: list(Path(frontier.queues).iterdir()))
        assert (await store.find(link(99))).ahead == 98
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        assert (await store.find(link(5))).ahead == 4
        with pytest.raises(StoreUnavailable, match=r"cannot be read.*backup"):
            await store.find(link(99))
        file.write_bytes(content)

    with RedisPlace(redis_server).frontier(REDIS_SLOTS) as frontier:
        with_store(frontier.store(), work)
