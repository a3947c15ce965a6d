"""The embedded store for who looks into a crawl: the file is opened for reading only, for each question anew.

While the crawl runs, SQLite's own shared memory tells which pages of the log count, and nobody waits for anybody. When
it does not run, there is no log, or a kill has left one. With a log SQLite reads both, as after any crash. Without one
the file is all there is, and is read as a file that does not change: so nothing is created beside it, as SQLite would,
and a directory that may not be written to is enough. If it has changed after all, what was read does not count.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores.read_only import ReadOnlyStore
from gossamer.frontier.stores.sqlite_reads import SqliteReads
from gossamer.frontier.stores.sqlite_schema import check_identity, check_slots, gone
from gossamer.frontier.stores.sqlite_verbs import Verbs

T = TypeVar("T")

#: A crawl that ends copies its log into the file, and keeps everyone out for that long.
BUSY_SECONDS = 30.0
#: A file that does not change may be found changed as often: by a crawl that begins, and then by one that ends.
ATTEMPTS = 10

#: When the file changed last, its size and its number; None while there is a log.
_Quiet = tuple[int, int, int] | None


class SqliteReader(SqliteReads, ReadOnlyStore):
    """Holds nothing open between two questions. Sees what was committed before each of them."""

    def __init__(self, path: Path, slots: int) -> None:
        self._path = path.absolute()
        self._log = path.with_name(path.name + "-wal")
        self._slots = slots

    async def open(self) -> None:
        await self._read(lambda _: None)

    async def close(self) -> None:
        pass

    async def now(self) -> float:
        return await self._read(lambda verbs: verbs.looking().now())

    async def _read(self, work: Callable[[Verbs], T]) -> T:
        return await asyncio.to_thread(self._answer, work)

    def _answer(self, work: Callable[[Verbs], T]) -> T:
        for _ in range(ATTEMPTS):
            try:
                before = self._quiet()
                answer, error = self._ask(work, is_quiet=before is not None)
                is_valid = before is None or before == self._quiet()
            except OSError as failure:
                raise self._unusable(failure) from failure
            if is_valid:
                if error is None:
                    return answer[0]
                raise self._unusable(error) from error
        raise StoreUnavailable(f"the frontier in {self._path} changed whenever it was read: try again")

    def _ask(self, work: Callable[[Verbs], T], *, is_quiet: bool) -> tuple[list[T], sqlite3.Error | None]:
        """The answer, or the error instead."""
        settings = "mode=ro&immutable=1" if is_quiet else "mode=ro"
        try:
            with closing(
                sqlite3.connect(
                    f"{self._path.as_uri()}?{settings}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
                )
            ) as connection:
                connection.execute("BEGIN")
                if check_identity(connection, self._path):
                    raise gone(self._path)
                check_slots(connection, self._path, self._slots)
                return [work(Verbs(connection, self._slots))], None
        except sqlite3.Error as error:
            return [], error

    def _quiet(self) -> _Quiet:
        try:
            if self._log.stat().st_size:
                return None
        except FileNotFoundError:
            pass
        try:
            file = self._path.stat()
        except FileNotFoundError:
            raise gone(self._path) from None
        return file.st_mtime_ns, file.st_size, file.st_ino

    def _unusable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"the frontier in {self._path} cannot be read: {error}; see whether you may read it and what stands beside"
            " it (-wal, -shm), or read a copy of all three"
        )
