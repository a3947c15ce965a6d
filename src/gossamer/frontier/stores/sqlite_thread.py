"""The one thread of a process that talks to SQLite, and how calls wait for it; or how they are run without it."""

import asyncio
import logging
import sqlite3
import threading
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
#: How long a call that is run at once holds up its caller for the sake of other processes' transactions, of 10 ms each.
#: After this it waits in the thread.
AT_ONCE_SECONDS = 0.1
#: Between attempts to write to a disk that is full. Reads go on meanwhile.
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
#: Room for the file or its log; for the index of the log, which all processes share.
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}

_LOG = logging.getLogger("gossamer.frontier")


class _NoRoom(StoreUnavailable):
    """The disk is full, and nothing of the call has happened."""


class _Kept(StoreUnavailable):
    """Another process has not given the file free, and nothing of the call has happened."""


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

    With `at_once` a call is run by its caller, in a transaction of its own, unless other calls wait already or another
    process keeps the file for long. That is for an event loop which has nothing else to do meanwhile: two threads that
    both want to run Python take the interpreter from each other at every statement.
    """

    def __init__(self, path: str, *, at_once: bool = False) -> None:
        self._path = path
        self._at_once = at_once
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._waiting: deque[_Call[Any]] = deque()
        self._connection: sqlite3.Connection | None = None
        self._verbs: Verbs | None = None
        self._verbs_in_use = threading.Lock()
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
        verbs = self._verbs
        if verbs is None:
            raise StoreUnavailable(f"the frontier in {self._path} is not open")
        if self._at_once and not self._waiting and self._verbs_in_use.acquire(blocking=False):
            try:
                return self._translated(partial(_run_alone, verbs, work, writes=writes, wait_seconds=AT_ONCE_SECONDS))
            except _Kept:
                pass
            finally:
                self._verbs_in_use.release()
        call = _Call(work, writes=writes)
        self._waiting.append(call)
        self._executor.submit(self._run_waiting, verbs)
        return await call.future

    def _run_waiting(self, verbs: Verbs) -> None:
        """One transaction. It is asked for once per call, so what it leaves waiting is run by one that follows."""
        if not self._waiting:
            return
        with self._verbs_in_use:
            calls = [self._waiting.popleft() for _ in range(len(self._waiting))]
            answers = self._run_together(verbs, calls)
            self._waiting.extendleft(reversed(calls[len(answers) :]))
        # Only now: whoever is answered may have its next call run at once.
        for call, answer in zip(calls, answers, strict=False):
            call.answer(answer)

    def _run_together(self, verbs: Verbs, calls: list[_Call[Any]]) -> list[Any]:
        """The answers to those of them that there was time for."""
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
                    self._executor.submit(self._run_again, verbs, call).add_done_callback(partial(_settle, call))
                verbs.rollback()
        return answers

    def _run_again(self, verbs: Verbs, call: _Call[T]) -> T:
        with self._verbs_in_use:
            return self._translated(partial(_run_alone, verbs, call.work, writes=call.writes))

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            kind = _NoRoom if code in _NO_ROOM else _Kept if code == sqlite3.SQLITE_BUSY else StoreUnavailable
            raise kind(
                f"the frontier in {self._path} cannot be used: {error};"
                " see to the file and its disk, then resume the crawl"
            ) from error


def _run_alone(verbs: Verbs, work: Callable[[Verbs], T], *, writes: bool, wait_seconds: float | None = None) -> T:
    try:
        verbs.begin(writes=writes, wait_seconds=wait_seconds)
        answer = work(verbs)
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
