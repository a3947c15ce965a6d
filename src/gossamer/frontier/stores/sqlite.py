"""The embedded store: the frontier in one SQLite file of the data directory, shared by all processes of a crawl."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gossamer.disk import sync
from gossamer.frontier.store import AdmitLimits, Leases
from gossamer.frontier.stores.examination import Finding, Verdict, refuse
from gossamer.frontier.stores.robots_copies import encode_robots
from gossamer.frontier.stores.sqlite_reads import SqliteReads
from gossamer.frontier.stores.sqlite_schema import check_identity, check_slots, create, gone
from gossamer.frontier.stores.sqlite_thread import StoreThread
from gossamer.frontier.stores.sqlite_verbs import BUSY_SECONDS, Verbs
from gossamer.records import Candidate, Finished, Move, Reason, Release, RobotsCopy

#: The first with RETURNING.
OLDEST_SQLITE = (3, 35, 0)
#: SQLite itself asks again after 1, 2, 5 ms and then ever more slowly, up to 100 ms: who has waited longest would be
#: served last. So it gives up after this, and `Verbs.begin` starts over: with four processes that write without pause
#: the longest wait was 0.1 s, not 1.5 s.
BUSY_MILLISECONDS = 10
#: URLs of one step inside a transaction: some 3 ms.
BATCH = 500
#: Where each step is a transaction of its own: some 10 ms.
BATCH_AT_ONCE = 4_000
#: Kept small: with several processes writing, each finds its cache outdated at every transaction anyway.
CACHE_KIB = 16 << 10
#: Pages of the log before they are copied into the file: 32 MiB. A page that changes often is copied once.
CHECKPOINT_PAGES = 8_000

T = TypeVar("T")

_PRAGMAS = f"""
PRAGMA cache_size = -{CACHE_KIB};
PRAGMA journal_size_limit = {CHECKPOINT_PAGES * 2 * 4096};
PRAGMA secure_delete = OFF;
"""


class SqliteStore(SqliteReads):
    """One handle on the file, of one process. Sites are known by the 64-bit hash of their name.

    Every verb is a call to the store's thread: the event loop never waits for the disk. With `at_once` it does; see
    `StoreThread`. Then other processes copy the log into the file, and this one only if they do not.

    A verb with many URLs is cut into steps, and each URL's part of it is atomic. Death of the process loses nothing
    that was acknowledged; a power loss at most the transactions since the last `sync`, the latest of them first. With
    `is_durable` each transaction is synced before it is acknowledged. Only those of a process with `at_once` are not:
    that is a parser, and nothing that it is told counts before its next commit, which begins with a `sync`.
    """

    def __init__(
        self, path: Path, slots: int, *, may_create: bool = True, at_once: bool = False, is_durable: bool = False
    ) -> None:
        self._path = path
        self._may_create = may_create
        self._slots = slots
        self._thread = StoreThread(str(path), at_once=at_once)
        self._batch = BATCH_AT_ONCE if at_once else BATCH
        self._synchronous = "FULL" if is_durable and not at_once else "NORMAL"
        self._checkpoint_pages = CHECKPOINT_PAGES * (4 if at_once else 1)
        self._turn = 0

    @property
    def is_full(self) -> bool:
        return self._thread.is_full

    async def open(self) -> None:
        await self._thread.open(self._connect)

    def _connect(self) -> tuple[sqlite3.Connection, Verbs]:
        refuse("SQLite", examine_sqlite(), hint="")
        if not self._may_create and not (self._path.exists() and self._path.stat().st_size):
            raise gone(self._path)
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=128
        )
        try:
            self._prepare(connection)
            connection.execute(f"PRAGMA wal_autocheckpoint = {self._checkpoint_pages}")
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        except BaseException:
            connection.close()
            raise
        return connection, Verbs(connection, self._slots)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Before anything is written: the file may be somebody else's.
        check_identity(connection, self._path)
        _use_log(connection)
        connection.executescript(f"PRAGMA synchronous = {self._synchronous};{_PRAGMAS}")
        connection.execute("BEGIN IMMEDIATE")
        is_new = check_identity(connection, self._path)
        if is_new:
            create(connection, self._slots)
        connection.execute("COMMIT")
        if is_new:
            # From here on the file is expected to be there, also after a power loss.
            connection.execute("PRAGMA wal_checkpoint").fetchone()
            sync(self._path.parent)
        check_slots(connection, self._path, self._slots)

    async def close(self) -> None:
        await self._thread.close()

    async def _read(self, work: Callable[[Verbs], T]) -> T:
        return await self._thread.call(work, writes=False)

    async def begin_run(self, *, latest_not_before_seconds: float) -> int:
        return await self._thread.call(lambda verbs: verbs.begin_run(latest_not_before_seconds))

    async def now(self) -> float:
        return await self._read(Verbs.now)

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        def admit(step: Sequence[Candidate]) -> Awaitable[list[Reason]]:
            return self._thread.call(lambda verbs: verbs.admit(step, limits, now))

        if len(candidates) <= self._batch:
            return await admit(candidates)
        steps = await asyncio.gather(*map(admit, _steps(candidates, self._batch)))
        return [reason for step in steps for reason in step]

    async def own(
        self, owner: str, slots: Collection[int], *, now: float, until: float, delay_seconds: float
    ) -> dict[int, int]:
        return await self._thread.call(lambda verbs: verbs.own(owner, slots, now, until, delay_seconds))

    async def disown(self, owner: str) -> None:
        await self._thread.call(lambda verbs: verbs.disown(owner))

    async def lease(
        self,
        call: str,
        slots: Mapping[int, int],
        limit: int,
        *,
        now: float,
        delay_seconds: float,
        max_pages: int,
    ) -> Leases:
        self._turn += 1
        turn = self._turn
        return await self._thread.call(
            lambda verbs: verbs.lease(
                call, slots, limit, now=now, delay_seconds=delay_seconds, max_pages=max_pages, turn=turn
            )
        )

    async def release(self, releases: Sequence[Release]) -> None:
        await self._thread.call(lambda verbs: verbs.release(releases))

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        return await self._thread.call(lambda verbs: verbs.spool(segment, moves))

    async def finish(self, finished: Sequence[Finished]) -> None:
        def finish(step: Sequence[Finished]) -> Awaitable[None]:
            return self._thread.call(lambda verbs: verbs.finish(step))

        await asyncio.gather(*map(finish, _steps(finished, self._batch)))

    async def sync(self) -> None:
        await asyncio.to_thread(self._sync_log)

    def _sync_log(self) -> None:
        # What is not in the log any more was synced by the checkpoint that copied it. SQLite locks no part of the log
        # itself, so closing it again takes no lock away.
        with contextlib.suppress(FileNotFoundError):
            sync(self._path.with_name(f"{self._path.name}-wal"))

    async def unspool(self, segment: str) -> None:
        await self._thread.call(lambda verbs: verbs.unspool(segment))

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        encoded = [(copy.origin, encode_robots(copy)) for copy in copies]
        await self._thread.call(lambda verbs: verbs.save_robots(encoded))


def examine_sqlite() -> list[Finding]:
    """The library that this Python has; there is nothing to set."""
    is_new_enough = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    oldest = ".".join(map(str, OLDEST_SQLITE))
    return [
        Finding(
            "SQLite",
            sqlite3.sqlite_version,
            Verdict.GOOD if is_new_enough else Verdict.REFUSED,
            "" if is_new_enough else f"{oldest} is needed: use a Python with a newer one",
        )
    ]


def _use_log(connection: sqlite3.Connection) -> None:
    """Of processes that open a new file at once one can do this, and SQLite lets the others fail without waiting."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _steps(urls: Sequence[T], size: int) -> list[Sequence[T]]:
    return [urls[begin : begin + size] for begin in range(0, len(urls), size)]
