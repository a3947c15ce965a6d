"""Who looks into a frontier sees what is committed, changes nothing and holds nobody up, whatever the crawl does."""

import asyncio
import contextlib
import shutil
import socket
import sqlite3
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from redis.asyncio import Redis

from gossamer.config import FrontierSettings, Settings, UrlSettings
from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import AdmitLimits, Store, UrlState
from gossamer.frontier.stores import sqlite_schema
from gossamer.frontier.stores.postgres_schema import schema_of
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.server_clock import ServerClock
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.frontier.stores.sqlite_reader import SqliteReader
from gossamer.frontier.stores.sqlite_verbs import Verbs
from gossamer.records import Destination, Lease, Move, Reason, RobotsCopy
from gossamer.run.data_directory import DataDirectory
from gossamer.run.data_directory import Frontier as WhichFrontier
from gossamer.run.stores import open_reader
from gossamer.testing.stores.crowd import candidate
from gossamer.testing.stores.places import (
    PATIENCE_SECONDS,
    Frontier,
    Place,
    PostgresFrontier,
    RedisFrontier,
    SqliteFrontier,
)
from tests.contract.redis_stores import moved

SLOTS = 4
NO_LIMITS = AdmitLimits()
#: Twenty of each of these sites: as many as stay in the memory of Redis, and one more for each of those below.
URLS, SITES = 210, 10
ORIGIN = "https://a.example"


@contextlib.asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def fill(store: Store) -> list[Lease]:
    """A frontier with something in every state; what is held of it."""
    await store.begin_run(latest_not_before_seconds=60)
    now = await store.now()
    await store.admit([candidate(number, SITES) for number in range(URLS)], NO_LIMITS, now=0.0)
    epochs = await store.own("owner", range(SLOTS), now=now, until=now + 60, delay_seconds=1)
    leases = (await store.lease("call", epochs, 6, now=now, delay_seconds=1, max_pages=0)).leases
    await store.spool("segment", [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases[:3]])
    await store.save_robots([RobotsCopy(origin=ORIGIN, access="parsed")])
    return leases


async def look_at_everything(reader: Store) -> dict[str, Any]:
    """The answer of each verb that a reader has; of `now`, that it has one."""
    assert await reader.now() > 0
    return {
        "counts": await reader.counts(now=1e12),
        "found": [(await reader.find(candidate(number, SITES))) for number in (0, 7, 105, URLS - 1, URLS)],
        "sites": await reader.site_states([f"site{number}.example" for number in range(SITES + 1)]),
        "robots": await reader.load_robots([ORIGIN, "https://b.example"]),
        "segments": await reader.segments(),
        "spooled": await reader.spooled("segment"),
    }


def test_a_reader_is_told_what_a_process_of_the_crawl_is_told(place_of_each_store: Place) -> None:
    async def check(frontier: Frontier) -> None:
        async with opened(frontier.store()) as store, opened(frontier.reader()) as reader:
            leases = await fill(store)
            seen = await look_at_everything(reader)
            assert seen == await look_at_everything(store)
            assert seen["counts"].admitted == URLS
            assert (await reader.find(candidate(URLS, SITES))).state is UrlState.UNSEEN
            # And what comes after it was opened, too.
            await store.admit([candidate(URLS, SITES)], NO_LIMITS, now=0.0)
            assert (await reader.find(candidate(URLS, SITES))).state is UrlState.QUEUED
            await store.spool("segment", [Move(leases[5], Destination.PAGE, Reason.PAGE)])
            assert len(await reader.spooled("segment")) == 4
            assert abs(await reader.now() - await store.now()) < 5

    with place_of_each_store.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


def test_a_reader_refuses_every_verb_that_would_change_something(place_of_each_store: Place) -> None:
    async def check(frontier: Frontier) -> None:
        async with opened(frontier.store()) as store, opened(frontier.reader()) as reader:
            (lease, *_) = await fill(store)
            now = await store.now()
            before = await look_at_everything(store)
            for call in (
                reader.begin_run(latest_not_before_seconds=60),
                reader.admit([candidate(999, 10)], NO_LIMITS, now=0.0),
                reader.own("owner", range(SLOTS), now=now, until=now + 60, delay_seconds=1),
                reader.disown("owner"),
                reader.lease("other", {0: 1}, 6, now=now + 60, delay_seconds=1, max_pages=0),
                reader.release([]),
                reader.spool("segment", [Move(lease, Destination.PAGE, Reason.PAGE)]),
                reader.finish([]),
                reader.unspool("segment"),
                reader.save_robots([]),
            ):
                with pytest.raises(UsageError, match="for reading only"):
                    await call
            assert await look_at_everything(store) == before

    with place_of_each_store.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


async def content(frontier: Frontier) -> object:
    """All that stands there, byte by byte."""
    if isinstance(frontier, SqliteFrontier):
        path = Path(frontier.path)
        return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    if isinstance(frontier, RedisFrontier):
        async with Redis.from_url(frontier.url, socket_timeout=60) as client:
            keys = sorted(await client.keys(f"*g:{frontier.crawl}:*"))
            return {key: await client.dump(key) for key in keys}, await client.dbsize()
    assert isinstance(frontier, PostgresFrontier)
    schema = schema_of(frontier.crawl)
    connection = await asyncpg.connect(frontier.url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        return {
            table: await connection.fetch(f"SELECT xmin, xmax, ctid, t.* FROM {schema}.{table} AS t ORDER BY ctid")
            for (table,) in tables
        }
    finally:
        await connection.close()


@pytest.mark.parametrize("is_running", [True, False], ids=["while the crawl runs", "after it"])
def test_a_reader_writes_nothing(place_of_each_store: Place, is_running: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(frontier: Frontier) -> None:
        async with contextlib.AsyncExitStack() as running:
            store = await running.enter_async_context(opened(frontier.store()))
            await fill(store)
            if isinstance(store, RedisStore):
                await moved(store)
            if not is_running:
                await running.aclose()
            before = await content(frontier)
            async with opened(frontier.reader()) as reader:
                await look_at_everything(reader)
                # For a process of the crawl this would be a server whose clock was set, and it would correct it.
                steady = ServerClock.steady()
                monkeypatch.setattr(ServerClock, "steady", staticmethod(lambda: steady + 1000))
                await look_at_everything(reader)
            assert await content(frontier) == before

    with place_of_each_store.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


def test_a_frontier_that_is_not_there_is_said_to_be_gone(place_of_each_store: Place) -> None:
    async def check(frontier: Frontier) -> None:
        reader = frontier.reader()
        with pytest.raises(StoreUnavailable, match="backup"):
            await reader.open()
        await reader.close()
        # Nothing was made.
        with pytest.raises(StoreUnavailable, match="backup"):
            async with opened(frontier.store(may_create=False)):
                pass

    with place_of_each_store.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


def settings(url: str, patience_seconds: float) -> Settings:
    where = FrontierSettings(store=url, store_patience_seconds=patience_seconds)
    return Settings(url=UrlSettings(slots=SLOTS), frontier=where)


def test_a_reader_is_opened_on_the_frontier_of_a_data_directory(place_of_each_store: Place, tmp_path: Path) -> None:
    async def check(frontier: Frontier) -> None:
        data = DataDirectory(tmp_path)
        url, crawl = "sqlite", "none"
        if isinstance(frontier, RedisFrontier | PostgresFrontier):
            url, crawl = frontier.url, frontier.crawl
        given = settings(url, PATIENCE_SECONDS)
        with pytest.raises(StoreUnavailable, match="no frontier yet"):
            open_reader(data, given)
        async with opened(frontier.store()) as store:
            await fill(store)
        if isinstance(frontier, SqliteFrontier):
            shutil.copy(frontier.path, data.frontier)
        data.record_frontier(WhichFrontier(crawl=crawl, is_made=True))
        async with opened(open_reader(data, given)) as reader:
            assert (await reader.counts(now=0)).admitted == URLS

    with place_of_each_store.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """One that nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_server_that_does_not_answer_is_given_up_after_the_patience_of_the_crawl(
    scheme: str, closed_port: int, tmp_path: Path
) -> None:
    async def check() -> None:
        data = DataDirectory(tmp_path)
        data.record_frontier(WhichFrontier(crawl="abc", is_made=True))
        reader = open_reader(data, settings(f"{scheme}://user:secret@127.0.0.1:{closed_port}/0", 0.1))
        with pytest.raises(StoreUnavailable, match="does not answer") as raised:
            await reader.open()
        assert "secret" not in str(raised.value)
        await reader.close()

    asyncio.run(check())


def test_a_server_that_is_gone_in_the_middle_is_given_up_too(place_of_its_own: Any) -> None:
    async def check(frontier: RedisFrontier | PostgresFrontier) -> None:
        store = frontier.store()
        await store.open()
        await store.close()
        reader = frontier.reader()
        await reader.open()
        inner: Any = reader
        calls = inner._store._calls if isinstance(frontier, PostgresFrontier) else inner._store._server._calls
        assert calls._patience_seconds == PATIENCE_SECONDS
        calls._patience_seconds = 0.1  # of a server that should be there it is longer
        await asyncio.to_thread(place_of_its_own.server.kill)
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await reader.counts(now=0)
        await reader.close()
        await asyncio.to_thread(place_of_its_own.server.restart)

    with place_of_its_own.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


def test_sessions_of_a_reader_may_only_read(place_of_its_own: Place) -> None:
    async def check(frontier: Frontier) -> None:
        async with opened(frontier.store()), opened(frontier.reader()) as reader:
            await reader.counts(now=0)
            assert reader.pool.created == 1
            inner: Any = reader
            if isinstance(frontier, PostgresFrontier):
                with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                    await inner._store._pool.run(lambda connection: connection.execute("DELETE FROM seen"))

    with place_of_its_own.frontier(SLOTS) as frontier:
        asyncio.run(check(frontier))


# The embedded store.


def test_a_crawl_goes_on_while_a_reader_is_in_the_middle_of_something(tmp_path: Path) -> None:
    async def check() -> None:
        is_reading, let_go = threading.Event(), threading.Event()

        def read_slowly(verbs: Verbs) -> int:
            before = verbs.counts(0.0).admitted
            is_reading.set()
            assert let_go.wait(60)
            assert verbs.counts(0.0).admitted == before  # of one moment
            return before

        async with opened(SqliteStore(tmp_path / "frontier.db", SLOTS)) as store:
            await fill(store)
            reader = SqliteReader(tmp_path / "frontier.db", SLOTS)
            reading = asyncio.create_task(reader._read(read_slowly))
            assert await asyncio.to_thread(is_reading.wait, 60)
            for number in range(10):
                assert await store.admit([candidate(1000 + number, SITES)], NO_LIMITS, now=0.0) == [Reason.NEW]
            assert not reading.done()
            assert (await reader.counts(now=0)).admitted == URLS + 10
            let_go.set()
            assert await reading == URLS

    asyncio.run(check())


async def killed(directory: Path, into: Path) -> None:
    """What kill -9 leaves of a crawl: the file, its log, and the memory that its processes shared."""
    async with opened(SqliteStore(directory / "frontier.db", SLOTS)) as store:
        await fill(store)
        for name in ("frontier.db", "frontier.db-wal", "frontier.db-shm"):
            shutil.copy(directory / name, into)


def test_a_reader_sees_what_was_committed_before_a_kill(tmp_path: Path) -> None:
    crawl, left = tmp_path / "crawl", tmp_path / "left"

    async def check() -> None:
        await killed(crawl, left)
        before = {file.name: file.read_bytes() for file in left.iterdir() if not file.name.endswith("-shm")}
        assert before["frontier.db-wal"]
        async with opened(SqliteReader(left / "frontier.db", SLOTS)) as reader:
            assert (await reader.counts(now=0)).admitted == URLS
            assert (await reader.find(candidate(5, SITES))).state is not UrlState.UNSEEN
        assert {name: (left / name).read_bytes() for name in before} == before
        # And the crawl goes on from there.
        async with opened(SqliteStore(left / "frontier.db", SLOTS, may_create=False)) as store:
            assert (await store.counts(now=0)).admitted == URLS

    crawl.mkdir()
    left.mkdir()
    asyncio.run(check())


_LOOK = """
import asyncio, os, sys
sys.path[:] = {path!r}
from pathlib import Path
from gossamer.frontier.stores.sqlite_reader import SqliteReader
asyncio.run(asyncio.to_thread(int))  # imports what it needs, which another user may not be able to
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
async def look(path):
    reader = SqliteReader(path, {slots})
    await reader.open()
    return (await reader.counts(now=0)).admitted
for name in sys.argv[1:]:
    try:
        os.close(os.open(Path(name).parent / "new", os.O_CREAT | os.O_WRONLY))
        raise SystemExit("it may be written to after all")
    except PermissionError:
        print(asyncio.run(look(Path(name))), flush=True)
"""


def test_a_directory_that_may_only_be_read_is_enough() -> None:
    """After a crawl that was stopped, and after one that was killed. Root may write anywhere, so it becomes somebody
    else first."""

    async def check(crawl: Path, left: Path) -> tuple[int | None, bytes]:
        await killed(crawl, left)
        for directory in (crawl, left):
            directory.chmod(0o555)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _LOOK.format(path=sys.path, slots=SLOTS),
            *(str(directory / "frontier.db") for directory in (crawl, left)),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        for directory in (crawl, left):
            directory.chmod(0o755)
        return process.returncode, output

    # Not below pytest's own directory, which nobody else may enter.
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        crawl, left = Path(above, "crawl"), Path(above, "left")
        crawl.mkdir()
        left.mkdir()
        assert asyncio.run(check(crawl, left)) == (0, f"{URLS}\n{URLS}\n".encode())


def test_a_crawl_that_begins_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    """Without a log the file is read as one that does not change; what was read of one that did is read again."""
    path = tmp_path / "frontier.db"

    async def check() -> None:
        async with opened(SqliteStore(path, SLOTS)) as store:
            await fill(store)
        reader = SqliteReader(path, SLOTS)
        store = SqliteStore(path, SLOTS, may_create=False)
        answers: list[int] = []

        def count(verbs: Verbs) -> int:
            answers.append(verbs.counts(0.0).admitted)
            if len(answers) == 1:
                asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
            return answers[-1]

        async def begin() -> None:
            await store.open()
            await store.admit([candidate(999, SITES)], NO_LIMITS, now=0.0)

        loop = asyncio.get_running_loop()
        assert await reader._read(count) == URLS + 1
        assert answers == [URLS, URLS + 1]
        answers[:] = [0]
        await store.close()
        assert await reader._read(count) == URLS + 1

    asyncio.run(check())


@pytest.mark.parametrize("what", ["another program's", "another version's", "no database"])
def test_a_file_that_is_no_frontier_of_ours_is_refused_by_a_reader_and_left_as_it_is(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "frontier.db"
    if what == "another version's":

        async def make() -> None:
            async with opened(SqliteStore(path, SLOTS)):
                pass

        asyncio.run(make())
        monkeypatch.setattr(sqlite_schema, "SCHEMA_VERSION", sqlite_schema.SCHEMA_VERSION + 1)
    elif what == "no database":
        path.write_bytes(b"no database, but long enough to be taken for one" * 100)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE notes (line)")
            connection.commit()
    before = path.read_bytes()
    with pytest.raises((UsageError, StoreUnavailable), match=r"not a frontier of this version|cannot be read"):
        asyncio.run(SqliteReader(path, SLOTS).open())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"frontier.db": before}


def test_a_reader_of_a_stopped_crawl_tells_the_time_also_after_a_restart_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "frontier.db"

    async def check() -> None:
        async with opened(SqliteStore(path, SLOTS)) as store:
            await fill(store)
            stopped_at = await store.now()
        reader = SqliteReader(path, SLOTS)
        assert 0 <= await reader.now() - stopped_at < 60
        monkeypatch.setattr("gossamer.frontier.stores.sqlite_looking.since_boot", lambda: (1, 12.0))
        monkeypatch.setattr("time.time", lambda: stopped_at + 3600)
        assert await reader.now() == stopped_at + 3600
        # A wall clock that was set back does not bring it back behind what owners have named.
        monkeypatch.setattr("time.time", lambda: stopped_at - 3600)
        assert abs(await reader.now() - stopped_at) < 60

    asyncio.run(check())
