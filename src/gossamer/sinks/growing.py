"""A file that grows by what is written to it, and can be cut back: what the archive and its index are made of."""

import os
from pathlib import Path

from gossamer.sinks.sink import OpenFile, cut, open_name, write_all

#: What is handed to the system at once; more gains nothing, less costs a system call for every few pages.
BUFFER_BYTES = 1 << 20


class GrowingFile:
    """One open file of one parser. It holds no descriptor between two writes, and is not made before the first one."""

    def __init__(self, data: Path, final: str, parser: str) -> None:
        self.final = final
        """Its path when it is complete, below the data directory."""
        self._relative = open_name(final, parser)
        self._path = data / self._relative
        self._written = 0
        self._waiting: list[bytes] = []
        """What is not written yet; never changed in place, as a write that failed may still hold on to it."""
        self._waiting_bytes = 0
        self._may_be_longer = False
        """A try to write failed, as when the disk was full, and may have left a part of what waits in the file."""

    @property
    def length_bytes(self) -> int:
        return self._written + self._waiting_bytes

    def append(self, *pieces: bytes) -> None:
        """In memory; never raises OSError."""
        self._waiting += pieces
        self._waiting_bytes += sum(map(len, pieces))

    def flush(self, *, least_bytes: int = 1) -> None:
        """Hand it to the system if that much waits. May be called again after an OSError."""
        if self._waiting_bytes < least_bytes:
            return
        self._path.parent.mkdir(exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            # Also says if something else has cut it.
            cut(self._path, self._written)
            self._may_be_longer = True
            write_all(descriptor, b"".join(self._waiting))
        finally:
            os.close(descriptor)
        self._may_be_longer = False
        self._written += self._waiting_bytes
        self._keep(b"")

    def cut_back(self, length_bytes: int) -> None:
        """To a length that it had; none at all is no file."""
        if length_bytes > self._written:
            # What a failed write may have left behind is cut by the next one.
            self._keep(b"".join(self._waiting)[: length_bytes - self._written])
            return
        self._keep(b"")
        if length_bytes == self._written and not self._may_be_longer:
            return
        self._written = length_bytes
        if length_bytes:
            cut(self._path, length_bytes)
        else:
            self._path.unlink(missing_ok=True)
        self._may_be_longer = False

    def as_prepared(self, *, is_complete: bool) -> OpenFile:
        """After `flush`."""
        return OpenFile(self._relative, self._written, is_complete)

    def _keep(self, content: bytes) -> None:
        self._waiting = [content] if content else []
        self._waiting_bytes = len(content)
