"""What only the embedded store can do wrong: its file, thread, clock and blocks. The common suite has the rest."""

import asyncio
import multiprocessing
import random
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import AdmitLimits, UrlState
from gossamer.frontier.stores import sqlite_schema, sqlite_seen, sqlite_sites, sqlite_thread, sqlite_verbs
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.frontier.stores.sqlite_verbs import Verbs
from gossamer.records import Candidate, Destination, Lease, Move, Reason, Release, SiteClock
from gossamer.url import stable_hash

SLOTS = 8
NO_LIMITS = AdmitLimits()


def link(number: int, site: str = "a.example", *, length: int = 0, at_head: bool = False) -> Candidate:
    url = f"https://{site}/{number}".ljust(length, "x")
    return Candidate(url, site, stable_hash(url), at_head=at_head)


def with_store(
    directory: Path, work: Callable[[SqliteStore], Awaitable[None]], slots: int = SLOTS, *, at_once: bool = False
) -> None:
    async def run() -> None:
        store = SqliteStore(directory / "frontier.db", slots, at_once=at_once)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


async def lease(store: SqliteStore, now: float, limit: int = 1000) -> list[Lease]:
    epochs = await store.own("fetcher", range(SLOTS), now=now, until=now + 100, delay_seconds=1)
    given = await store.lease(f"call {now}", epochs, limit, now=now, delay_seconds=1, max_pages=0)
    return given.leases


async def free(store: SqliteStore, leases: list[Lease]) -> None:
    await store.release([Release(lease, False, 0.0, SiteClock()) for lease in leases])


def admit_all(directory: Path, ready: threading.Barrier, answers: "multiprocessing.Queue[int]") -> None:
    """One of several processes: how many of the same candidates were new to it."""

    async def work(store: SqliteStore) -> None:
        candidates = [link(number, f"site-{number % 50}.example") for number in range(2_000)]
        new = 0
        for begin in range(0, len(candidates), 100):
            new += (await store.admit(candidates[begin : begin + 100], NO_LIMITS, now=0.0)).count(Reason.NEW)
        answers.put(new)

    ready.wait()
    with_store(directory, work)


def test_processes_that_create_and_fill_a_frontier_at_once_admit_each_url_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    answers: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=admit_all, args=(tmp_path, ready, answers)) for _ in range(3)]
    for process in processes:
        process.start()
    new = [answers.get(timeout=100) for _ in processes]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sum(new) == 2_000

    async def check(store: SqliteStore) -> None:
        counts = await store.counts(now=0.0)
        assert (counts.admitted, counts.queued, counts.sites, counts.sites_waiting) == (2_000, 2_000, 50, 50)

    with_store(tmp_path, check)


def copy_of(directory: Path) -> Path:
    """The files as they are at this moment, log and all."""
    target = directory / "copy"
    target.mkdir()
    for file in directory.glob("frontier.db*"):
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_what_was_acknowledged_is_there_though_nothing_was_closed(tmp_path: Path) -> None:
    copies = []

    async def work(store: SqliteStore) -> None:
        await store.admit([link(number) for number in range(10)], NO_LIMITS, now=0.0)
        copies.append(copy_of(tmp_path))

    async def check(store: SqliteStore) -> None:
        assert (await store.counts(now=0.0)).queued == 10

    with_store(tmp_path, work)
    with_store(copies[0], check)


def test_a_file_that_is_no_database_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "frontier.db").write_bytes(b"not a database at all" * 100)

    async def work(_: SqliteStore) -> None:
        pytest.fail("opened")

    with pytest.raises(StoreUnavailable, match=r"frontier\.db cannot be used: file is not a database"):
        with_store(tmp_path, work)


def test_somebody_elses_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "frontier.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (text)")
    before = path.read_bytes()

    async def work(_: SqliteStore) -> None:
        pytest.fail("opened")

    with pytest.raises(UsageError, match="not a frontier"):
        with_store(tmp_path, work)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["frontier.db"]


def test_a_frontier_keeps_its_number_of_slots(tmp_path: Path) -> None:
    async def work(_: SqliteStore) -> None:
        pass

    with_store(tmp_path, work, slots=8)
    with pytest.raises(UsageError, match="created with 8 slots, not 9"):
        with_store(tmp_path, work, slots=9)


def test_a_frontier_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: SqliteStore) -> None:
        pass

    with_store(tmp_path, work)
    monkeypatch.setattr(sqlite_schema, "SCHEMA_VERSION", sqlite_schema.SCHEMA_VERSION + 1)
    with pytest.raises(UsageError, match="not a frontier of this version"):
        with_store(tmp_path, work)


def test_a_directory_that_is_missing_is_named_in_the_error(tmp_path: Path) -> None:
    async def work(_: SqliteStore) -> None:
        pytest.fail("opened")

    with pytest.raises(StoreUnavailable, match=r"missing/frontier\.db"):
        with_store(tmp_path / "missing", work)


def test_a_full_disk_changes_nothing_and_is_over_when_there_is_room(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        connection = store._thread._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        candidates = [link(number, length=500) for number in range(100)]
        waiting = asyncio.create_task(store.admit(candidates, NO_LIMITS, now=0.0))
        async with asyncio.timeout(60):
            while not store.is_full:  # noqa: ASYNC110 (it is nothing that could be waited for)
                await asyncio.sleep(0.01)
        # Reading needs no room.
        assert (await store.counts(now=0.0)).admitted == 0
        assert not waiting.done()
        connection.execute("PRAGMA max_page_count = 100000")
        assert set(await waiting) == {Reason.NEW}
        assert not store.is_full

    with_store(tmp_path, work)


def test_a_file_that_another_process_never_gives_free_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_verbs, "BUSY_SECONDS", 0.05)

    async def work(store: SqliteStore) -> None:
        with closing(sqlite3.connect(tmp_path / "frontier.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                await store.admit([link(1)], NO_LIMITS, now=0.0)
            # Reading waits for nobody.
            assert (await store.counts(now=0.0)).admitted == 0
            other.execute("ROLLBACK")
        assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.NEW]

    with_store(tmp_path, work)


@pytest.mark.parametrize(
    "error",
    [value for value in vars(sqlite3).values() if isinstance(value, type) and issubclass(value, sqlite3.Error)],
)
def test_every_error_of_the_library_is_translated(error: type[sqlite3.Error], tmp_path: Path) -> None:
    def fail(_: Verbs) -> None:
        raise error("as it happens")

    async def work(store: SqliteStore) -> None:
        with pytest.raises(StoreUnavailable, match="as it happens"):
            await store._thread.call(fail)

    with_store(tmp_path, work)


async def holding(
    store: SqliteStore, calls: int, work: Callable[[], None], while_they_wait: Callable[[], object] = lambda: None
) -> None:
    """The calls that `work` makes come while the thread is busy with another one, so that they wait together."""
    has_begun = threading.Event()
    let_go = threading.Event()

    def block(_: Verbs) -> None:
        has_begun.set()
        let_go.wait(60)

    blocked = asyncio.ensure_future(store._thread.call(block))
    while not has_begun.is_set():  # noqa: ASYNC110 (an event of the thread, not of the loop)
        await asyncio.sleep(0.001)
    work()
    while len(store._thread._waiting) < calls:  # noqa: ASYNC110 (no event tells)
        await asyncio.sleep(0.001)
    while_they_wait()
    let_go.set()
    await blocked


def test_calls_that_wait_share_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_thread, "TRANSACTION_SECONDS", 60.0)  # a busy machine may not do it in 10 ms

    async def work(store: SqliteStore) -> None:
        statements: list[str] = []
        tasks: list[asyncio.Task[list[Reason]]] = []
        connection = store._thread._connection
        assert connection is not None
        connection.set_trace_callback(statements.append)

        def begin() -> None:
            tasks.extend(
                asyncio.create_task(store.admit([link(number)], NO_LIMITS, now=0.0)) for number in (1, 2, 1, 3)
            )

        await holding(store, 4, begin)
        answers = [await task for task in tasks]
        assert answers == [[Reason.NEW], [Reason.NEW], [Reason.SEEN], [Reason.NEW]]
        assert statements.count("COMMIT") == 2  # of the call that they waited for, and theirs

    with_store(tmp_path, work)


def test_a_call_that_fails_does_no_harm_to_those_beside_it(tmp_path: Path) -> None:
    def fail(_: Verbs) -> list[Reason]:
        raise ValueError("a mistake of ours")

    async def work(store: SqliteStore) -> None:
        tasks: list[asyncio.Future[list[Reason]]] = []

        def begin() -> None:
            tasks.append(asyncio.ensure_future(store.admit([link(1)], NO_LIMITS, now=0.0)))
            tasks.append(asyncio.ensure_future(store._thread.call(fail)))
            tasks.append(asyncio.ensure_future(store.admit([link(1), link(2)], NO_LIMITS, now=0.0)))

        await holding(store, 3, begin)
        assert await tasks[0] == [Reason.NEW]
        with pytest.raises(ValueError, match="a mistake of ours"):
            await tasks[1]
        assert await tasks[2] == [Reason.SEEN, Reason.NEW]
        assert (await store.counts(now=0.0)).admitted == 2

    with_store(tmp_path, work)


def test_a_cancelled_caller_leaves_the_thread_at_work(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        tasks: list[asyncio.Task[list[Reason]]] = []
        await holding(
            store,
            1,
            lambda: tasks.append(asyncio.create_task(store.admit([link(1)], NO_LIMITS, now=0.0))),
            lambda: tasks[0].cancel("nobody waits any more"),
        )
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.SEEN]

    with_store(tmp_path, work)


def test_calls_are_run_by_their_caller_where_that_is_wanted(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        assert await store._thread.call(lambda _: threading.current_thread()) is threading.current_thread()
        many = [link(number, f"site-{number % 50}.example") for number in range(5_000)]
        assert set(await store.admit(many, NO_LIMITS, now=0.0)) == {Reason.NEW}
        assert set(await store.admit(many, NO_LIMITS, now=0.0)) == {Reason.SEEN}

    with_store(tmp_path, work, at_once=True)


def test_a_file_that_another_process_keeps_holds_up_nobody_elses_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call waits in the thread, and so do those that come meanwhile; afterwards they are run at once again."""
    monkeypatch.setattr(sqlite_thread, "AT_ONCE_SECONDS", 0.02)

    async def work(store: SqliteStore) -> None:
        with closing(sqlite3.connect(tmp_path / "frontier.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(store.admit([link(1)], NO_LIMITS, now=0.0))
            await asyncio.sleep(0.1)
            behind = asyncio.create_task(store.admit([link(1), link(2)], NO_LIMITS, now=0.0))
            # The loop goes on.
            await asyncio.sleep(0.1)
            assert not waiting.done()
            assert not behind.done()
            other.execute("ROLLBACK")
        assert await waiting == [Reason.NEW]
        assert await behind == [Reason.SEEN, Reason.NEW]
        assert await store._thread.call(lambda _: threading.current_thread()) is threading.current_thread()

    with_store(tmp_path, work, at_once=True)


def test_nothing_of_a_call_that_fails_at_once_has_happened(tmp_path: Path) -> None:
    def fail(verbs: Verbs) -> None:
        assert verbs.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.NEW]
        raise ValueError("a mistake of ours")

    async def work(store: SqliteStore) -> None:
        with pytest.raises(ValueError, match="a mistake of ours"):
            await store._thread.call(fail)
        assert await store.admit([link(1)], NO_LIMITS, now=0.0) == [Reason.NEW]

    with_store(tmp_path, work, at_once=True)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_seen_is_known_wherever_it_stands(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against plain sets: recent ones and those in the tree, in one transaction and in several, paths counted."""
    monkeypatch.setattr(sqlite_seen, "MOST_RECENT", 5)
    draw = random.Random(seed)
    limits = AdmitLimits(path_variants=4)
    known: set[str] = set()
    variants: Counter[int] = Counter()

    def drawn() -> Candidate:
        site = draw.choice(["a.example", "b.example"])
        number, path = draw.randrange(60), draw.randrange(6)
        url = f"https://{site}/{path}?{number}" if path else f"https://{site}/{number}"
        return Candidate(url, site, stable_hash(url), path_fingerprint=stable_hash(f"{site}/{path}") if path else 0)

    def expected(candidate: Candidate) -> Reason:
        path = candidate.path_fingerprint
        if candidate.url in known:
            return Reason.SEEN
        if path and variants[path] == limits.path_variants:
            return Reason.PATH_VARIANTS
        known.add(candidate.url)
        variants[path] += 1
        return Reason.NEW

    async def work(store: SqliteStore) -> None:
        for _ in range(60):
            offers = [[drawn() for _ in range(draw.choice([1, 2, 9]))] for _ in range(draw.choice([1, 3]))]
            answers = await asyncio.gather(*(store.admit(offer, limits, now=0.0) for offer in offers))
            assert answers == [[expected(candidate) for candidate in offer] for offer in offers]
            candidate = drawn()
            found = await store.find(candidate)
            assert (found.state is UrlState.QUEUED) == (candidate.url in known)
            assert not candidate.path_fingerprint or found.path_variants == variants[candidate.path_fingerprint]

    with_store(tmp_path, work)
    with closing(sqlite3.connect(tmp_path / "frontier.db")) as connection:
        (in_tree,) = connection.execute("SELECT count(*) FROM seen").fetchone()
        (recent,) = connection.execute("SELECT ifnull(sum(length(fingerprints)), 0) / 8 FROM recent").fetchone()
    assert in_tree + recent == len(known)
    assert in_tree > recent


@pytest.mark.parametrize(
    ("is_durable", "at_once", "synced"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_durable_store_syncs_each_transaction_but_those_of_parsers(
    tmp_path: Path, is_durable: bool, at_once: bool, synced: bool
) -> None:
    """A parser's next commit syncs what it was told."""

    async def run() -> None:
        store = SqliteStore(tmp_path / "frontier.db", SLOTS, is_durable=is_durable, at_once=at_once)
        await store.open()
        (synchronous,) = await store._read(lambda verbs: verbs._connection.execute("PRAGMA synchronous").fetchone())
        assert synchronous == (2 if synced else 1)
        await store.close()

    asyncio.run(run())


def test_a_new_frontier_is_in_its_file_before_anything_relies_on_it(tmp_path: Path) -> None:
    """A power loss may take the log, and a frontier that was made and is empty would be taken for a lost one."""

    async def work(_: SqliteStore) -> None:
        copy = tmp_path / "copy.db"
        copy.write_bytes((tmp_path / "frontier.db").read_bytes())
        with closing(sqlite3.connect(copy)) as found:
            assert found.execute("SELECT value FROM meta WHERE name = 'slots'").fetchone() == (SLOTS,)

    with_store(tmp_path, work)


def test_closing_ends_the_thread_and_nothing_can_be_asked_after_it(tmp_path: Path) -> None:
    def threads() -> int:
        return sum(thread.name.startswith("store") for thread in threading.enumerate())

    async def run() -> None:
        before = threads()
        store = SqliteStore(tmp_path / "frontier.db", SLOTS)
        await store.open()
        assert threads() == before + 1
        await store.close()
        await store.close()
        assert threads() == before
        with pytest.raises(StoreUnavailable, match="not open"):
            await store.now()

    asyncio.run(run())


def test_the_stores_time_does_not_follow_the_wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: SqliteStore) -> None:
        await store.begin_run(latest_not_before_seconds=100)
        before = await store.now()
        assert abs(before - time.time()) < 60
        monkeypatch.setattr(time, "time", lambda: before - 1e6)
        assert before <= await store.now() < before + 60

    with_store(tmp_path, work)


def test_the_stores_time_goes_on_after_a_restart_whatever_the_clocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first(store: SqliteStore) -> None:
        await store.begin_run(latest_not_before_seconds=100)
        now = await store.now()
        times.append(now)
        await store.own("fetcher", [0], now=now, until=now + 60, delay_seconds=1)

    async def second(store: SqliteStore) -> None:
        assert await store.begin_run(latest_not_before_seconds=100) == 2
        times.append(await store.now())

    times: list[float] = []
    with_store(tmp_path, first)
    # The machine was started again, with its wall clock a year back.
    monkeypatch.setattr(sqlite_verbs, "since_boot", lambda: (1, 12.0))
    monkeypatch.setattr(time, "monotonic", lambda: 12.0)
    monkeypatch.setattr(time, "time", lambda: times[0] - 365 * 86_400)
    with_store(tmp_path, second)
    assert times[1] == times[0]


def test_other_processes_notice_that_a_run_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: SqliteStore) -> None:
        other = SqliteStore(tmp_path / "frontier.db", SLOTS)
        await other.open()
        monkeypatch.setattr(time, "time", lambda: 4e9)
        await store.begin_run(latest_not_before_seconds=100)
        assert 4e9 <= await other.now() < 4e9 + 60
        await other.close()

    with_store(tmp_path, work)


@pytest.mark.parametrize("seed", range(5))
def test_a_queue_keeps_its_order_over_blocks_of_every_size(seed: int, tmp_path: Path) -> None:
    """Against a plain queue: links come one by one and in crowds, at both ends, short and longer than a block."""
    draw = random.Random(seed)
    expected: deque[str] = deque()

    async def work(store: SqliteStore) -> None:
        serial = 0
        for step in range(150):
            action = draw.choice(["tail", "tail", "head", "take", "take", "back", "retry"])
            if action in {"tail", "head"}:
                count = draw.choice([1, 1, 2, 30])
                length = draw.choice([20, 60, 200, sqlite_sites.BLOCK_BYTES - 30, sqlite_sites.BLOCK_BYTES * 2])
                links = [link(serial + n, length=length, at_head=action == "head") for n in range(count)]
                serial += count
                assert set(await store.admit(links, NO_LIMITS, now=0.0)) == {Reason.NEW}
                for candidate in links:
                    (expected.appendleft if candidate.at_head else expected.append)(candidate.url)
                continue
            for _ in range(1 if action != "take" else draw.choice([1, 10, 40])):
                leases = await lease(store, now=1e6 + step, limit=1)
                assert [given.url for given in leases] == list(expected)[:1]
                await free(store, leases)
                if not leases:
                    break
                expected.popleft()
                destination = {"take": Destination.OUTCOME, "back": Destination.HEAD, "retry": Destination.TAIL}[action]
                await store.spool("segment", [Move(leases[0], destination, Reason.STATUS)])
                if action == "back":
                    expected.appendleft(leases[0].url)
                elif action == "retry":
                    expected.append(leases[0].url)
        assert (await store.counts(now=0.0)).queued == len(expected)

    with_store(tmp_path, work)


def test_sites_of_one_slot_that_came_together_lie_together(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for begin in range(0, 200, 50):
            sites = range(begin, begin + 50)
            await store.admit([link(1, f"{number}.example") for number in sites], NO_LIMITS, now=0.0)

    with_store(tmp_path, work)
    with closing(sqlite3.connect(tmp_path / "frontier.db")) as connection:
        slots = [slot for (slot,) in connection.execute("SELECT slot FROM sites ORDER BY id")]
    assert len(slots) == 200
    assert slots == sorted(slots)


def test_a_site_never_gets_the_place_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though refused ones come between them, which get none."""
    monkeypatch.setattr(sqlite_sites, "WINDOW", 4)
    only_seeded = AdmitLimits(only_seeded_sites=True)

    async def work(store: SqliteStore) -> None:
        for number in range(30):
            refused = [link(1, f"refused-{number}-{n}.example") for n in range(number % 3)]
            seeds = [structs.replace(link(1, f"seed-{number}-{n}.example"), is_seed=True) for n in range(number % 2)]
            answers = await store.admit(refused + seeds, only_seeded, now=0.0)
            assert answers == [Reason.SCOPE] * len(refused) + [Reason.NEW] * len(seeds)
        assert len(await lease(store, now=1e6)) == 15
        assert (await store.counts(now=1e6)).sites == 15

    with_store(tmp_path, work, slots=1)


def test_a_dropped_site_leaves_no_block_behind(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.admit([link(number) for number in range(500)], NO_LIMITS, now=0.0)
        (given,) = await lease(store, now=1e6)
        await store.release([Release(given, True, 0.0, SiteClock(), dropped=Reason.SITE_FAILING)])
        assert (await store.counts(now=0.0)).finished == 499

    with_store(tmp_path, work)
    with closing(sqlite3.connect(tmp_path / "frontier.db")) as connection:
        assert connection.execute("SELECT count(*) FROM blocks").fetchone() == (0,)


def test_what_a_call_was_given_is_forgotten_when_it_is_held_no_more(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.admit([link(number, f"{number}.example") for number in range(3)], NO_LIMITS, now=0.0)
        leases = await lease(store, now=1e6)
        await store.spool("segment", [Move(given, Destination.PAGE, Reason.PAGE) for given in leases])
        await lease(store, now=2e6)

    with_store(tmp_path, work)
    with closing(sqlite3.connect(tmp_path / "frontier.db")) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (0,)


@pytest.mark.parametrize("content", [None, b""])
def test_a_frontier_that_was_made_and_is_gone_is_not_made_again(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "frontier.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="is gone: it was made before"):
        asyncio.run(SqliteStore(path, 4, may_create=False).open())
    assert path.exists() == (content is not None)
