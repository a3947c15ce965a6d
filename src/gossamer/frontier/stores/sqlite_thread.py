"""The one thread of a process that talks to SQLite, and how calls wait for it."""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores.sqlite_verbs import Verbs

T = TypeVar("T")

#: After this the transaction is committed, though calls wait: other processes wait for the file, too.
TRANSACTION_SECONDS = 0.01
#: Between attempts to write to a disk that is full. Reads go on meanwhile.
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
#: Room for the file or its log; for the index of the log, which all processes share.
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}

_LOG = logging.getLogger("gossamer.frontier")


class _NoRoom(StoreUnavailable):
    """The disk is full, and nothing of the call has happened."""


class _Call(Generic[T]):
    """One verb on its way to the thread, and the future of the task that waits for it."""

    def __init__(self, work: Callable[[Verbs], T], *, writes: bool) -> None:
        self.work = work
        self.writes = writes
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()

    def answer(self, value: T) -> None:
        self._settle(lambda: self.future.set_result(value))

    def fail(self, error: BaseException) -> None:
        self._settle(lambda: self.future.set_exception(error))

    def _settle(self, settle: Callable[[], None]) -> None:
        # The loop may be closed, its task may have been cancelled: then nobody waits any more. The work is done, and
        # every verb may be repeated.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(lambda: None if self.future.done() else settle())


class StoreThread:
    """Runs calls in the order in which they came; all that wait share one transaction, up to `TRANSACTION_SECONDS`.

    Each call gets its answer after the commit. If one of them raises, none of that transaction has happened: each is
    run again in one of its own, so that only the one to blame fails. Nothing of SQLite's leaves as its own exception.
    A call for which the disk has no room waits until it has.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._waiting: deque[_Call[Any]] = deque()
        self._connection: sqlite3.Connection | None = None
        self._verbs: Verbs | None = None
        self.is_full = False
        """Calls wait for room on the disk."""

    async def open(self, connect: Callable[[], tuple[sqlite3.Connection, Verbs]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._connection, self._verbs = await loop.run_in_executor(self._executor, self._translated, connect)
        except BaseException:
            self._executor.shutdown(wait=False)
            raise

    async def close(self) -> None:
        """Waits for what is under way; harmless if it was never open, or is closed already."""
        connection, self._connection, self._verbs = self._connection, None, None
        if connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._translated, connection.close)
        self._executor.shutdown()

    async def call(self, work: Callable[[Verbs], T], *, writes: bool = True) -> T:
        wait_seconds = _FIRST_WAIT_SECONDS
        while True:
            try:
                answer = await self._call_once(work, writes=writes)
            except _NoRoom as error:
                if not self.is_full:
                    _LOG.error("waiting for room on the disk: %s", error)
                self.is_full = True
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
                continue
            if writes and self.is_full:
                _LOG.warning("the frontier in %s can be written again", self._path)
                self.is_full = False
            return answer

    async def _call_once(self, work: Callable[[Verbs], T], *, writes: bool) -> T:
        if self._verbs is None:
            raise StoreUnavailable(f"the frontier in {self._path} is not open")
        call = _Call(work, writes=writes)
        self._waiting.append(call)
        self._executor.submit(self._run_waiting, self._verbs)
        return await call.future

    def _run_waiting(self, verbs: Verbs) -> None:
        """One transaction. It is asked for once per call, so what it leaves waiting is run by one that follows."""
        calls = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not calls:
            return
        answers: list[Any] = []
        is_committed = False
        try:
            deadline = time.monotonic() + TRANSACTION_SECONDS
            verbs.begin(writes=any(call.writes for call in calls))
            for call in calls:
                answers.append(call.work(verbs))
                if time.monotonic() > deadline:
                    break
            verbs.commit()
            is_committed = True
        finally:
            # The exception itself is of no use here: the call that it belongs to raises it again.
            if not is_committed:
                for call in calls:
                    self._executor.submit(self._translated, partial(_run_alone, verbs, call)).add_done_callback(
                        partial(_settle, call)
                    )
                verbs.rollback()
        self._waiting.extendleft(reversed(calls[len(answers) :]))
        for call, answer in zip(calls, answers, strict=False):
            call.answer(answer)

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            is_full = getattr(error, "sqlite_errorcode", None) in _NO_ROOM
            raise (_NoRoom if is_full else StoreUnavailable)(
                f"the frontier in {self._path} cannot be used: {error};"
                " see to the file and its disk, then resume the crawl"
            ) from error


def _run_alone(verbs: Verbs, call: _Call[T]) -> T:
    try:
        verbs.begin(writes=call.writes)
        answer = call.work(verbs)
        verbs.commit()
    except BaseException:
        verbs.rollback()
        raise
    return answer


def _settle(call: _Call[T], done: Future[T]) -> None:
    error = done.exception()
    if error is None:
        call.answer(done.result())
    else:
        call.fail(error)
