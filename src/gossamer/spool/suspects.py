"""What is known of segments and pages that did harm to their readers, kept in the spool over restarts.

One file of JSON lines. Whoever learns something appends a line: the leader when a parser has died, a parser when a page
has killed its reader or a segment could not be parsed. Parsers look whether it has grown before each segment. Lines of
segments that are gone mean nothing; the leader removes them at a start, and when the file has grown long.
"""

import contextlib
import errno
import fcntl
import logging
import os
import time
import weakref
from collections import Counter
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from gossamer.disk import sync

#: Beyond this the leader removes the lines of segments that are gone: those of some thousand pages.
LONG_BYTES = 256 << 10
#: A page on which so many parsers died, although they read it guarded at last, is not read again.
PARSER_DEATHS = 3
#: A page that has killed its reader this often, and be it once the parser itself, is not read again.
READER_DEATHS = 2
#: A segment on which so many parsers died, though on none of its pages, is not read again.
SEGMENT_DEATHS = 2
#: Whoever has the file has it for as long as a line takes, and sometimes a sync.
LOCK_TRIES = 50
LOCK_SECONDS = 0.01

_LOG = logging.getLogger("gossamer.spool")


def _lock(descriptor: int) -> None:
    """Raises OSError (EAGAIN) if somebody who was stopped, or waits for the disk, has it: the leader must not stop with
    them, as nobody else would end them."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOCK_SECONDS)
    raise OSError(errno.EAGAIN, "another process does not give it free")


class Finding(StrEnum):
    """What was found out."""

    PARSER_DIED = "parser-died"
    """On a page if an index is given, otherwise on the segment."""
    CRASH = "crash"
    """The page is finished as `parse-crash` and not read again."""
    FAILED = "failed"
    """An exception came while the segment was parsed, and no page is known to be its cause."""
    RETURNING = "returning"
    """Its URLs are about to go back to their queues; from here on the segment is not read any more."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of the file."""

    segment: str
    finding: Finding
    index: int | None = None
    """Of the page, among the outcomes of the segment that count."""


class Suspects:
    """One process's view of the file. `refresh` reads what others have added."""

    def __init__(self, spool: Path) -> None:
        self._path = spool / "suspects"
        self._descriptor: int | None = None
        self._closing: weakref.finalize[[int], Suspects] | None = None
        self._read_bytes = 0
        self._lines: Counter[Line] = Counter()
        self._segments: set[str] = set()

    def __contains__(self, segment: str) -> bool:
        """Whether anything is known of the segment or of a page in it."""
        return segment in self._segments

    def has(self, segment: str, finding: Finding) -> bool:
        return Line(segment, finding) in self._lines

    def deaths(self, segment: str, index: int | None = None) -> int:
        """Of parsers: on this page, or on the segment but on no page."""
        return self._lines[Line(segment, Finding.PARSER_DIED, index)]

    def is_crash(self, segment: str, index: int) -> bool:
        return Line(segment, Finding.CRASH, index) in self._lines or self.deaths(segment, index) >= PARSER_DEATHS

    def has_pages(self) -> bool:
        """Whether any page is known that kills its reader."""
        return any(line.index is not None for line in self._lines)

    def refresh(self) -> None:
        """Costs two system calls if nothing has changed. Raises OSError if the file cannot be read: who goes on without
        it may parse what has gone back already."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return
        if self._descriptor is None or os.fstat(self._descriptor).st_ino != found.st_ino:
            # It stays open: so long, no other file gets its number.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self.close()
            self._descriptor, self._read_bytes = descriptor, 0
            self._closing = weakref.finalize(self, os.close, descriptor)
            self._lines.clear()
            self._segments.clear()
        while piece := os.pread(self._descriptor, LONG_BYTES, self._read_bytes):
            whole, _, _ = piece.rpartition(b"\n")
            if not whole:
                break
            self._read_bytes += len(whole) + 1
            for written in whole.splitlines():
                self._take(written)

    def close(self) -> None:
        """Also done when nobody has it any more."""
        if self._closing is not None:
            self._closing()
            self._descriptor = self._closing = None

    def add(self, segment: str, finding: Finding, index: int | None = None, *, is_durable: bool = False) -> None:
        """Raises OSError if the disk does not take it. With `is_durable` it outlasts the machine's death."""
        line = msgspec.json.encode(Line(segment, finding, index)) + b"\n"
        with self._locked() as descriptor:
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes and os.pread(descriptor, 1, size_bytes - 1) != b"\n":
                # A disk that was full has taken half of a line.
                line = b"\n" + line
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            if is_durable:
                os.fsync(descriptor)
        # It is written: this must not be done again for want of a descriptor.
        with contextlib.suppress(OSError):
            self.refresh()

    def remove_all_but(self, segments: Collection[str]) -> None:
        """Lines of other segments go. Called by the leader alone."""
        if not self._path.exists():
            return
        with self._locked():
            self.refresh()
            kept = [line for line in self._lines.elements() if line.segment in segments]
            temporary = self._path.with_suffix(".new")
            with temporary.open("wb") as file:
                file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in kept))
                file.flush()
                os.fsync(file.fileno())  # some of the lines outlast the machine's death
            temporary.rename(self._path)
            sync(self._path.parent)
        self.refresh()

    def is_long(self) -> bool:
        with contextlib.suppress(OSError):
            return self._path.stat().st_size > LONG_BYTES
        return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, to append to. Nobody else appends or replaces it meanwhile."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                _lock(descriptor)
                with contextlib.suppress(FileNotFoundError):
                    if self._path.stat().st_ino == os.fstat(descriptor).st_ino:
                        yield descriptor
                        return
            finally:
                os.close(descriptor)

    def _take(self, written: bytes) -> None:
        try:
            line = msgspec.json.decode(written, type=Line)
        except msgspec.MsgspecError as error:
            # Cut by a full disk, or somebody else's: what it said is learnt again.
            _LOG.warning("a line of %s cannot be read: %s", self._path, error)
            return
        self._lines[line] += 1
        self._segments.add(line.segment)
