"""What only the store on Redis can do wrong: keys, scripts, a server that forgets or has no room, its clock. The common
suite has the rest."""

import asyncio
import functools
import itertools
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import Store
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.server import Connecting
from gossamer.records import Candidate, Destination, Lease, Move, Reason, Release, RobotsCopy, SiteClock
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import RedisServer
from tests.contract.redis_stores import (
    LATE,
    NO_LIMITS,
    SLOTS,
    client,
    drain,
    finished,
    lease,
    link,
    make,
    moved,
    until,
    with_store,
    work_off,
)


@pytest.fixture
def server(redis_binary: ServerBinary) -> Iterator[RedisServer]:
    """One of its own, which a test may stop, fill and empty."""
    with RedisServer(redis_binary, {"enable-debug-command": "local"}) as running:
        yield running


def test_names_of_sites_that_look_like_patterns_keys_or_hash_tags_mean_nothing(
    server: RedisServer, tmp_path: Path
) -> None:
    names = ["*", "{x}", "}", "}:h", "{g:abc:0}:h", "a:b", "[a-z]?", "\\*", "q:a.example", "世", "a b\nc", "%s", "''"]

    async def work(store: RedisStore) -> None:
        candidates = [link(number, name) for name in names for number in range(3)]
        assert await store.admit(candidates, NO_LIMITS, now=0.0) == [Reason.NEW] * len(candidates)
        assert sorted(await drain(store)) == sorted(candidate.url for candidate in candidates)
        counts = await store.counts(now=LATE)
        assert (counts.sites, counts.finished) == (len(names), len(candidates))

    with_store(make(server, tmp_path), work)


@pytest.mark.parametrize("crawl", ["", "a-b", "a*", "{a}", "ä", "a b"])
def test_a_crawl_is_named_by_letters_and_digits(crawl: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="letters and digits"):
        RedisStore(Connecting(url="redis://127.0.0.1", crawl=crawl, slots=SLOTS), queues=tmp_path)


def test_seen_fingerprints_stay_in_compact_sets_however_many_there_are(server: RedisServer, tmp_path: Path) -> None:
    # One large site among small ones.
    sites = ["large.example" if number % 5 < 2 else f"site{number % 500}.example" for number in range(50_000)]
    candidates = [link(number, site) for number, site in enumerate(sites)]

    async def work(store: RedisStore) -> None:
        for begin in range(0, len(candidates), 5_000):
            assert set(await store.admit(candidates[begin : begin + 5_000], NO_LIMITS, now=0.0)) == {Reason.NEW}
        with client(server) as admin:
            sets = list(admin.scan_iter("{g:abc:*}:s:*", 1000))
            assert {admin.object("ENCODING", key) for key in sets} == {b"intset"}
            sizes = {key: admin.scard(key) for key in sets}
        assert sum(sizes.values()) == 50_000
        large = [size for key, size in sizes.items() if key.endswith(b":large.example")]
        assert (sum(large), len(large), len(sizes) - len(large)) == (20_000, 100, 300)
        assert set(await store.admit(candidates[::7], NO_LIMITS, now=0.0)) == {Reason.SEEN}

    with_store(make(server, tmp_path), work)


def test_urls_that_were_chosen_by_their_fingerprints_are_admitted_as_others_are(
    server: RedisServer, tmp_path: Path
) -> None:
    """More in one set than one command of a script takes."""
    candidates = [
        Candidate(f"https://a.example/{number}", "a.example", (number << 20) + 0xFFFFF) for number in range(14_000)
    ]

    async def work(store: RedisStore) -> None:
        assert set(await store.admit(candidates, NO_LIMITS, now=0.0)) == {Reason.NEW}
        assert set(await store.admit(candidates, NO_LIMITS, now=0.0)) == {Reason.SEEN}

    with_store(make(server, tmp_path), work)


def test_many_processes_that_open_at_once_make_one_frontier(server: RedisServer, tmp_path: Path) -> None:
    async def run() -> None:
        stores = [make(server, tmp_path) for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        for number, store in enumerate(stores):
            assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.SEEN if number else Reason.NEW]
        for store in stores:
            await store.close()

    asyncio.run(run())


def test_a_frontier_that_should_be_there_and_is_not_is_not_made_anew(server: RedisServer, tmp_path: Path) -> None:
    async def run() -> None:
        store = make(server, tmp_path, may_create=False)
        with pytest.raises(StoreUnavailable, match="frontier of crawl abc is not on"):
            await store.open()
        await store.close()

    asyncio.run(run())
    with client(server) as admin:
        assert admin.dbsize() == 0


def test_a_frontier_with_other_slots_or_of_another_version_is_refused(server: RedisServer, tmp_path: Path) -> None:
    async def nothing(_: RedisStore) -> None: ...

    with_store(make(server, tmp_path), nothing)
    with pytest.raises(UsageError, match="created with 2 slots, not 5"):
        with_store(make(server, tmp_path, slots=5), nothing)
    with client(server) as admin:
        admin.hset("g:abc:meta", "version", 99)
    with pytest.raises(UsageError, match="not one of this version"):
        with_store(make(server, tmp_path), nothing)


def every_verb(store: Store, given: Lease) -> dict[str, Callable[[], Awaitable[object]]]:
    times = {"now": LATE, "delay_seconds": 1.0}
    copy = RobotsCopy(origin="https://a.example", access="x")
    return {
        "begin_run": lambda: store.begin_run(latest_not_before_seconds=1),
        "now": store.now,
        "admit": lambda: store.admit([link(77)], NO_LIMITS, now=0.0),
        "own": lambda: store.own("other", [0], until=2 * LATE, **times),
        "disown": lambda: store.disown("fetcher"),
        "lease": lambda: store.lease("c", {given.slot: given.epoch}, 1, max_pages=0, **times),
        "lease with a budget": lambda: store.lease("c", {given.slot: given.epoch}, 1, max_pages=9, **times),
        "release": lambda: store.release([Release(given, True, 0.0, SiteClock())]),
        "spool": lambda: store.spool("s", [Move(given, Destination.PAGE, Reason.PAGE)]),
        "finish": lambda: store.finish([finished(given)]),
        "segments": store.segments,
        "spooled": lambda: store.spooled("s"),
        "unspool": lambda: store.unspool("s"),
        "counts": lambda: store.counts(now=LATE),
        "load_robots": lambda: store.load_robots(["https://a.example"]),
        "save_robots": lambda: store.save_robots([copy]),
    }


def test_every_verb_says_that_an_emptied_server_has_lost_the_frontier(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(1), link(2)], NO_LIMITS, now=0.0)
        (given,) = await lease(store, LATE)
        await moved(store)
        with client(server) as admin:
            admin.flushall()
            for verb, call in every_verb(store, given).items():
                with pytest.raises(StoreUnavailable, match="frontier of crawl abc is not on") as raised:
                    await call()
                assert raised.value.exit_code == 3, verb
            assert admin.dbsize() == 0

    with_store(make(server, tmp_path), work)


def test_every_verb_works_with_scripts_that_the_server_has_forgotten(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(1), link(2)], NO_LIMITS, now=0.0)
        (given,) = await lease(store, LATE)
        for call in every_verb(store, given).values():
            with client(server) as admin:
                admin.script_flush()
            await call()
        server.restart()
        assert await store.admit([link(1), link(2), link(77)], NO_LIMITS, now=0.0) == [Reason.SEEN] * 3

    with_store(make(server, tmp_path), work)


def test_nothing_acknowledged_is_lost_when_the_server_is_killed_in_mid_call(
    redis_binary: ServerBinary, tmp_path: Path
) -> None:
    acknowledged: list[Candidate] = []
    # With everysec it answers before it writes where the disk is slow.
    running = RedisServer(redis_binary, {"appendfsync": "always"})

    async def work(store: RedisStore) -> None:
        ends = asyncio.Event()

        async def admit(part: int) -> None:
            for number in itertools.count():
                candidates = [link(1000 * number + step, f"site{part}.example") for step in range(20)]
                await store.admit(candidates, NO_LIMITS, now=0.0)
                acknowledged.extend(candidates)
                if ends.is_set():
                    return

        async with asyncio.TaskGroup() as tasks:
            for part in range(4):
                tasks.create_task(admit(part))
            for _ in range(3):
                await asyncio.sleep(0.1)
                before = len(acknowledged)
                await asyncio.to_thread(running.kill)
                await asyncio.to_thread(running.restart)
                await until(functools.partial(lambda before: len(acknowledged) > before, before))
            ends.set()
        assert set(await store.admit(acknowledged, NO_LIMITS, now=0.0)) == {Reason.SEEN}
        counts = await store.counts(now=LATE)
        assert counts.admitted == counts.queued == len(acknowledged)
        assert not store.is_away

    with running:
        with_store(make(running, tmp_path), work)


def test_calls_wait_while_the_server_loads_its_file(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(number, f"site{number}.example") for number in range(300)], NO_LIMITS, now=0.0)
        with client(server) as admin:
            admin.bgrewriteaof()  # keys load slowly as told below only from a rewritten file
            await until(lambda: not admin.info("persistence")["aof_rewrite_in_progress"])
            admin.config_set("loading-process-events-interval-bytes", 1024)
            # So slowly that it does not end before it is told to go on: 600 keys take 18 s.
            admin.config_set("key-load-delay", 30_000)
            loading = threading.Thread(target=admin.execute_command, args=("DEBUG", "LOADAOF"))
            loading.start()
            with client(server) as other:
                while True:
                    try:
                        other.dbsize()
                    except redis.exceptions.BusyLoadingError:
                        break
                    assert loading.is_alive(), "it never said that it is loading"
                waiting = asyncio.create_task(store.counts(now=LATE))
                await until(lambda: store.is_away or waiting.done())
                assert not waiting.done()
                other.config_set("key-load-delay", 0)
            assert (await waiting).admitted == 300
            await asyncio.to_thread(loading.join)
        assert not store.is_away

    with_store(make(server, tmp_path), work)


def test_a_full_server_stops_admission_alone_and_it_goes_on_when_there_is_room(
    server: RedisServer, tmp_path: Path
) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(number) for number in range(20)], NO_LIMITS, now=0.0)
        with client(server) as admin:
            admin.config_set("maxmemory", 1 << 20)
            admitting = asyncio.create_task(store.admit([link(100)], NO_LIMITS, now=0.0))
            await until(lambda: store.is_full)
            (given,) = await lease(store, LATE)
            await work_off(store, [given])
            assert (await store.counts(now=LATE)).finished == 1
            # What one robots.txt said is needed before anything of its origin is fetched.
            copy = RobotsCopy(origin="https://a.example", access="parse", body=b"User-agent: *", expires_at=LATE)
            large = RobotsCopy(origin="https://b.example", access="parse", body=os.urandom(1 << 16), expires_at=LATE)
            await store.save_robots([copy, large])
            assert await store.load_robots([copy.origin, large.origin]) == {copy.origin: copy}
            assert not admitting.done()
            admin.config_set("maxmemory", 0)
            await store.save_robots([large])
            assert await store.load_robots([large.origin]) == {large.origin: large}
            assert await admitting == [Reason.NEW]
        assert not store.is_full

    with_store(make(server, tmp_path), work)


def test_a_jump_of_the_servers_clock_does_not_move_the_time_of_the_store(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        other = make(server, tmp_path)
        await other.open()
        await store.begin_run(latest_not_before_seconds=60)
        before = await store.now()
        assert abs(await other.now() - before) < 60
        for jump in (3600.0, -7200.0):
            with client(server) as admin:
                admin.hincrbyfloat("g:abc:meta", "offset", jump)  # as if the server's clock had been set
            for handle in (store, other, store):
                assert before - 0.001 <= await handle.now() < before + 60
        await other.close()

    with_store(make(server, tmp_path), work)


def test_time_goes_on_from_the_latest_that_an_owner_has_named(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        await store.begin_run(latest_not_before_seconds=60)
        now = await store.now()
        await store.own("fetcher", [0], now=now + 500, until=now + 600, delay_seconds=1)
        with client(server) as admin:
            admin.hset("g:abc:meta", mapping={"offset": -1e9, "boot": 0})
        assert await store.begin_run(latest_not_before_seconds=60) == 2
        assert now + 500 <= await store.now() < now + 560

    with_store(make(server, tmp_path), work)
