"""The files of a crawl's tables, as DuckDB sees them: by number, for reading alone.

DuckDB is told of no path that leads to a file, only of names such as `part://3`. Whoever opens one of them comes here,
and is given a reader of a descriptor that was opened before; to open one for writing is refused. So whatever a query
is wrapped in (EXPLAIN ANALYZE, a COPY within a WITH clause, a text for the function `query`), there is no file that it
could write, but for those of DuckDB's own temporary directory, which goes when the query has ended.
"""

import io
import os
from datetime import UTC, datetime
from typing import Any, NoReturn

from fsspec import AbstractFileSystem

_PREFIX = "part://"


class ReadOnlyFiles(AbstractFileSystem):
    """Descriptors by name. They stay the caller's, who closes them when DuckDB is closed."""

    protocol = "part"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._descriptors: dict[str, int] = {}
        self.has_refused = False
        """Whether somebody tried to write."""

    def add(self, descriptor: int) -> str:
        """The name for DuckDB."""
        name = f"{_PREFIX}{descriptor}"
        self._descriptors[name] = descriptor
        return name

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.RawIOBase:
        if mode != "rb":
            self._refuse()
        return _Reader(self._descriptor(path))

    def rm(self, *_: Any, **__: Any) -> None:
        """DuckDB calls it for a COPY that is to overwrite."""
        self._refuse()

    def mv(self, *_: Any, **__: Any) -> None:
        self._refuse()

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path] if path in self._descriptors else []

    def exists(self, path: str, **_: Any) -> bool:
        return path in self._descriptors

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        status = os.fstat(self._descriptor(path))
        return {"name": path, "size": status.st_size, "type": "file", "mtime": status.st_mtime}

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def _refuse(self) -> NoReturn:
        self.has_refused = True
        raise PermissionError("the tables are read-only")

    def _descriptor(self, path: str) -> int:
        try:
            return self._descriptors[path]
        except KeyError:
            raise FileNotFoundError(path) from None


class _Reader(io.RawIOBase):
    """With a position of its own: DuckDB's threads read one file at once."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: os.fstat(self._descriptor).st_size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count
