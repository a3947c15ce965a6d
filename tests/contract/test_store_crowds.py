"""Many at once on one frontier: processes, tasks beyond the pool, calls that are cancelled, a server that is killed."""

import asyncio
import contextlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest
from redis.asyncio import Redis

from gossamer.frontier.store import AdmitLimits, Counts, Store
from gossamer.records import Destination, Finished, Lease, Move, Reason, Release, RobotsCopy
from gossamer.testing.stores.crowd import Story, Task, candidate
from gossamer.testing.stores.places import Place, PostgresPlace, RedisPlace, SharedFrontier

MEMBERS = 8
SITES = 500
SLOTS = 64
#: Each is offered by four of the eight processes. `./check campaign` has more of them.
URLS = 20_000 if "GOSSAMER_TEST_SECONDS" in os.environ else 12_000
OFFERS = URLS // 2
#: How long tasks go on that are many; a minute shows what a second may not. Half of it is for calls that are cancelled.
SECONDS = float(os.environ.get("GOSSAMER_TEST_SECONDS", "0"))
#: At least so many calls by tasks that are many, and so many that are cancelled.
CALLS = 4_000
CANCELLED = 3_000
POOL = 20

ServerPlace = RedisPlace | PostgresPlace


@contextlib.contextmanager
def crowd(frontier: SharedFrontier) -> Iterator[list[subprocess.Popen[str]]]:
    tasks = [
        Task(frontier, member, MEMBERS, SITES, member * URLS // MEMBERS, OFFERS, URLS) for member in range(MEMBERS)
    ]
    with contextlib.ExitStack() as ends:
        processes = []
        for task in tasks:
            process = subprocess.Popen(
                [sys.executable, "-m", "gossamer.testing.stores.crowd", msgspec.json.encode(task).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            processes.append(process)
        yield processes


def stories(frontier: SharedFrontier) -> list[Story]:
    with crowd(frontier) as processes:
        for process in processes:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = []
        with ThreadPoolExecutor(MEMBERS) as pool:
            for ended in as_completed([pool.submit(process.communicate) for process in processes]):
                story, error = ended.result()
                if error:
                    # The others would wait for what it holds.
                    for process in processes:
                        process.kill()
                    pytest.fail(error)
                told.append(msgspec.json.decode(story, type=Story))
        return told


async def what_is_left(store: Store) -> tuple[Counts, dict[str, int]]:
    await store.open()
    try:
        return await store.counts(now=await store.now()), await store.segments()
    finally:
        await store.close()


def deadlocks(place: Place) -> int:
    """That the server has told of in its log; each was one of the calls that were made again."""
    if not isinstance(place, PostgresPlace):
        return 0
    return (place.server.directory / "server.log").read_text(errors="replace").count("deadlock detected")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_url_is_leased_and_finished_once_by_eight_processes_at_once(place_of_each_store: Place) -> None:
    before = deadlocks(place_of_each_store)
    with place_of_each_store.frontier(SLOTS) as frontier:
        assert isinstance(frontier, SharedFrontier)
        told = stories(frontier)
        counts, segments = asyncio.run(what_is_left(frontier.store(may_create=False)))
    refused = sum(story.refused for story in told)
    leavings = sum(story.leavings for story in told)
    print(f"{deadlocks(place_of_each_store) - before} deadlocks, {leavings} leavings, {refused} refused")
    every = {candidate(number, SITES).fingerprint for number in range(URLS)}
    assert Counter(url for story in told for url in story.new) == dict.fromkeys(every, 1)
    assert Counter(url for story in told for url in story.spooled) == dict.fromkeys(every, 1)
    leases = [lease for story in told for lease in story.leases]
    assert len({number for number, *_ in leases}) == len(leases)
    given = Counter(url for _, url, _, _ in leases)
    heads = Counter(url for story in told for url in story.heads)
    # Once, and once more for each time that it went back; a holder that left is told on the URL itself.
    sent_back = dict.fromkeys(every, (0, 0))
    for _, url, attempt, returned in leases:
        sent_back[url] = max(sent_back[url], (attempt, returned), key=sum)
    assert given == {url: 1 + heads[url] + sum(back) for url, back in sent_back.items()}
    assert sum(returned for _, returned in sent_back.values()) == refused > 0
    tails = Counter(url for story in told for url in story.tails)
    assert tails == Counter(url for url, (attempt, _) in sent_back.items() for _ in range(attempt))
    assert segments == {}
    assert counts == Counts(
        finished=URLS,
        admitted=URLS,
        pages=URLS,
        received_bytes=7 * URLS,
        outcomes={Reason.PAGE: URLS},
        retries={Reason.DNS: tails.total(), Reason.BUSY: heads.total()},
        sites=SITES,
    )


async def count_connections(place: ServerPlace, stopped: threading.Event, seen: list[int]) -> None:
    """How many the server has, but for the one that asks, again and again."""
    if isinstance(place, RedisPlace):
        async with Redis.from_url(place.server.url, socket_timeout=60) as client:
            while not stopped.is_set():
                seen.append(len(await client.client_list()) - 1)
                await asyncio.sleep(0.02)
    else:
        connection = await asyncpg.connect(place.server.url)
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        while not stopped.is_set():
            seen.append(await connection.fetchval(query))
            await asyncio.sleep(0.02)
        await connection.close()


@contextlib.contextmanager
def watched(place: ServerPlace) -> Iterator[list[int]]:
    """How many connections the server has had at one moment and another. They are counted in a thread, because the
    event loop of the tasks is busy with them."""
    stopped = threading.Event()
    seen: list[int] = []
    thread = threading.Thread(target=lambda: asyncio.run(count_connections(place, stopped, seen)))
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join()


async def until_seen(seen: list[int], number: int) -> None:
    """From now on: what the server is told takes effect there in its own time."""
    before = len(seen)
    while number not in seen[before:]:  # noqa: ASYNC110 (the list tells nobody)
        await asyncio.sleep(0.01)


def copy_of(number: int, size: int = 20) -> RobotsCopy:
    body = f"{number} ".encode() * (1 + number % 50 * size)
    return RobotsCopy(origin=f"https://{number}.example", access="parsed", body=body)


async def opened(store: Store, tasks: int, size: int = 20) -> Store:
    await store.open()
    await store.begin_run(latest_not_before_seconds=60)
    await store.save_robots([copy_of(number, size) for number in range(tasks)])
    return store


def verbs_to_the_end(store: Store, segment: str, leases: list[Lease]) -> list[Callable[[], Awaitable[object]]]:
    """What is done with leases, one after the other; none of it has an answer worth telling."""
    releases = [Release(lease, True, 1.0, lease.clock) for lease in leases]
    moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases]
    finished = [
        Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 7) for lease in leases
    ]
    return [
        lambda: store.release(releases),
        lambda: store.spool(segment, moves),
        lambda: store.finish(finished),
    ]


async def until_enough(
    tasks: int, least: int, seconds: float, step: Callable[[int, int], Awaitable[None]], *, first: int = 0
) -> int:
    """Tasks that go on with their steps, which are numbered from `first`; what the next number is, each task having
    taken one more than it used."""
    calls = itertools.count(first)
    ends_at = time.monotonic() + seconds

    async def task(number: int) -> None:
        while (call := next(calls)) < least or time.monotonic() < ends_at:
            await step(number, call)

    async with asyncio.TaskGroup() as group:
        for number in range(tasks):
            group.create_task(task(number))
    return next(calls)


@pytest.mark.timeout(300)
def test_five_hundred_tasks_share_a_pool_of_twenty(
    place_of_its_own: ServerPlace,
) -> None:
    tasks = 500
    most_waiting = 0

    async def run(store: Store, seen: list[int]) -> int:
        await opened(store, tasks)
        epochs = await store.own("owner", range(SLOTS), now=1.0, until=2.0, delay_seconds=0.0)
        # A connection that was there only to open the store is closed, and counts no more.
        await until_seen(seen, store.pool.created)
        seen.clear()

        async def step(number: int, call: int) -> None:
            nonlocal most_waiting
            match call % 5:
                case 0:
                    answers = await store.admit([candidate(call, SITES)], AdmitLimits(), now=0.0)
                    assert answers == [Reason.NEW]
                case 1:
                    slot = {number % SLOTS: epochs[number % SLOTS]}
                    answer = await store.lease(f"{call}", slot, 1, now=1.0, delay_seconds=0.0, max_pages=0)
                    assert {lease.slot for lease in answer.leases} <= set(slot)
                case 2:
                    assert (await store.counts(now=1.0)).finished == 0
                case _:
                    copy = copy_of(number)
                    assert await store.load_robots([copy.origin]) == {copy.origin: copy}
            most_waiting = max(most_waiting, store.pool.waiting)
            assert store.pool.created <= POOL
            assert store.pool.in_use <= POOL

        calls = await until_enough(tasks, CALLS, SECONDS, step) - tasks
        pool = store.pool
        assert (pool.in_use, pool.waiting) == (0, 0)
        assert pool.taken >= calls
        await until_seen(seen, pool.created)
        await store.close()
        assert store.pool.created == 0
        return calls

    with place_of_its_own.frontier(SLOTS) as frontier, watched(place_of_its_own) as seen:
        calls = asyncio.run(run(frontier.store(pool=POOL), seen))
    print(f"{calls} calls, at most {max(seen)} connections, {most_waiting} calls waiting")
    assert POOL // 2 < max(seen) <= POOL
    assert most_waiting > tasks // 2


@pytest.mark.timeout(300)
def test_a_call_that_is_cancelled_gives_its_answer_to_no_other(
    place_of_its_own: ServerPlace,
) -> None:
    tasks = 100
    ended: Counter[str] = Counter()
    given: Counter[int] = Counter()
    choice = random.Random(1)

    async def cancelled(call: Awaitable[object]) -> bool:
        """Whether it had an answer before."""
        task = asyncio.ensure_future(call)
        # From before it is sent to after it is answered.
        for _ in range(choice.randrange(12)):
            await asyncio.sleep(0)
        await asyncio.sleep(choice.choice([0, 0, 0.001, 0.005, 0.02, 0.1]))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        ended["cancelled" if task.cancelled() else "answered"] += 1
        return not task.cancelled()

    async def whole_way(store: Store, call: int, epochs: dict[int, int]) -> None:
        """Of two URLs; each verb is given up, and made again."""

        async def lease() -> list[Lease]:
            answer = await store.lease(f"{call}", epochs, 2, now=1.0, delay_seconds=0.0, max_pages=0)
            return answer.leases

        await cancelled(lease())
        leases = await lease()
        given.update(lease.fingerprint for lease in leases)
        for verb in verbs_to_the_end(store, f"segment {call}", leases):
            await cancelled(verb())
            assert not await verb()

    async def run(store: Store) -> None:
        await opened(store, tasks, size=200)
        epochs = await store.own("owner", range(SLOTS), now=1.0, until=2.0, delay_seconds=0.0)

        async def step(number: int, call: int) -> None:
            copy = copy_of(number, size=200)
            match call % 4:
                case 0:
                    # It happened or it did not: the next answer is right in both cases.
                    offers = [candidate(call * 3 + n, SITES) for n in range(3)]
                    await cancelled(store.admit(offers, AdmitLimits(), now=0.0))
                    assert set(await store.admit(offers, AdmitLimits(), now=0.0)) <= {Reason.NEW, Reason.SEEN}
                    assert await store.admit(offers, AdmitLimits(), now=0.0) == [Reason.SEEN] * 3
                case 1:
                    await whole_way(store, call, epochs)
                case _:
                    asked = asyncio.ensure_future(store.load_robots([copy.origin]))
                    if await cancelled(asked):
                        assert asked.result() == {copy.origin: copy}
            assert await store.load_robots([copy.origin]) == {copy.origin: copy}

        first = 0
        while ended["cancelled"] < CANCELLED or (SECONDS and ended["cancelled"] < 10_000):
            first = await until_enough(tasks, first + 500, 0.0, step, first=first)
        pool = store.pool
        assert (pool.in_use, pool.waiting) == (0, 0)
        assert pool.created <= POOL
        counts = await store.counts(now=await store.now())
        assert max(given.values()) == 1
        assert (counts.leased, counts.spooled, counts.sites_busy) == (0, 0, 0)
        assert (counts.pages, counts.received_bytes) == (given.total(), 7 * given.total())
        await store.close()

    with place_of_its_own.frontier(SLOTS) as frontier, watched(place_of_its_own) as seen:
        asyncio.run(run(frontier.store(pool=POOL)))
    print(f"{dict(ended)}, at most {max(seen, default=0)} connections as the server counts them")
    assert ended["answered"] > 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed_while_fifty_tasks_work(
    place_of_its_own: ServerPlace,
) -> None:
    tasks, kills = 50, 3
    rounds: Counter[int] = Counter()
    acknowledged: set[int] = set()
    given: Counter[int] = Counter()
    finished: Counter[int] = Counter()

    async def work(store: Store, number: int, epochs: dict[int, int], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            call = rounds[number]
            offers = [candidate(number + tasks * (3 * call + n), SITES) for n in range(3)]
            # The reply may have been lost, and the call made again: then it says so.
            assert set(await store.admit(offers, AdmitLimits(), now=0.0)) <= {Reason.NEW, Reason.SEEN}
            acknowledged.update(offer.fingerprint for offer in offers)
            now = await store.now()
            answer = await store.lease(f"{number} {call}", epochs, 3, now=now, delay_seconds=0.0, max_pages=0)
            given.update(lease.fingerprint for lease in answer.leases)
            await end(store, f"{number}-{call}", answer.leases)
            finished.update(lease.fingerprint for lease in answer.leases)
            rounds[number] += 1

    async def end(store: Store, segment: str, leases: list[Lease]) -> None:
        for verb in verbs_to_the_end(store, segment, leases):
            assert not await verb()

    async def own(store: Store) -> dict[int, int]:
        """For a moment, which is over while the server is away."""
        now = await store.now()
        return await store.own("owner", range(SLOTS), now=now, until=now + 0.1, delay_seconds=0.0)

    async def happens(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(200):
            while not condition():  # noqa: ASYNC110 (it is no event of ours)
                await asyncio.sleep(0.01)

    async def two_rounds_more() -> None:
        goal = {number: rounds[number] + 2 for number in range(tasks)}
        await happens(lambda: all(rounds[number] >= least for number, least in goal.items()))

    async def run(store: Store) -> None:
        await store.open()
        await store.begin_run(latest_not_before_seconds=60)
        epochs = await own(store)
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for number in range(tasks):
                group.create_task(work(store, number, epochs, is_over))
            for _ in range(kills):
                await two_rounds_more()
                await asyncio.to_thread(place_of_its_own.server.kill)
                await happens(lambda: store.is_away)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(place_of_its_own.server.restart)
                assert await own(store) == epochs
            await two_rounds_more()
            is_over.set()
        assert not store.is_away
        counts = await store.counts(now=await store.now())
        assert counts.admitted == len(acknowledged)
        assert (counts.finished, counts.leased, counts.spooled) == (finished.total(), 0, 0)
        # The rest too, and nothing twice.
        for call in itertools.count():
            now = await store.now()
            answer = await store.lease(f"rest {call}", epochs, 1000, now=now, delay_seconds=0.0, max_pages=0)
            if not answer.leases:
                break
            given.update(lease.fingerprint for lease in answer.leases)
            await end(store, f"rest-{call}", answer.leases)
        counts = await store.counts(now=await store.now())
        assert given == dict.fromkeys(acknowledged, 1)
        assert (counts.pages, counts.received_bytes) == (len(acknowledged), 7 * len(acknowledged))
        assert (counts.queued, counts.sites_busy) == (0, 0)
        assert store.pool.in_use == 0
        await store.close()

    with place_of_its_own.frontier(SLOTS) as frontier:
        asyncio.run(run(frontier.store()))
