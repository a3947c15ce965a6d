"""A fetcher's end of the spool: outcomes are gathered in memory, written as one file, and handed over by a rename."""

import contextlib
import os
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from gossamer.records import Move, Outcome
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.segment import MAGIC, SegmentName, frame, seal, segment_id, write_all

#: A segment closes at whichever comes first. Many outcomes share a file, a call of the store and a claim; little is
#: fetched again when a fetcher is killed; and a page is with a parser within a second.
SEGMENT_OUTCOMES = 64
SEGMENT_BYTES = 8 << 20
SEGMENT_SECONDS = 0.5


class WriterStatistics(msgspec.Struct, frozen=True):
    """Plain numbers since the writer was made, of what was written to the disk."""

    segments: int = 0
    outcomes: int = 0
    bytes: int = 0


class ClosedSegment(msgspec.Struct, frozen=True):
    """A segment that stands in `open/` and gets no more outcomes. The store must answer `spool(id, moves)` next."""

    spool: SpoolDirectory
    path: Path
    moves: list[Move]

    @property
    def id(self) -> str:
        return segment_id(self.path)

    def publish(self, refused: Collection[int]) -> None:
        """The store has answered: the parsers get it, without what was refused. If it raises, call it again."""
        void = {move.lease.number for move in self.moves}.intersection(refused)
        if len(void) == len(self.moves):
            self.path.unlink(missing_ok=True)
            return
        seal(self.path, void)
        self.spool.publish(self.path)


class SegmentWriter:
    """Holds the outcomes of one fetcher that are in no file yet; they are lost with the process, and fetched again.

    The fetcher adds, and closes the segment when it is due. No id is ever used twice. It never talks to the store.
    """

    def __init__(self, spool: SpoolDirectory, run: int, fetcher: int) -> None:
        self._spool = spool
        self._run = run
        self._fetcher = fetcher
        self._serials = iter(range(0))
        # Not one buffer: that would be asked of the system anew for each segment, which costs more than all the rest.
        self._frames: list[bytes] = [MAGIC]
        self._size_bytes = len(MAGIC)
        self._moves: list[Move] = []
        self._due_at = 0.0
        self._statistics = WriterStatistics()

    def add(self, outcome: Outcome, move: Move) -> None:
        """`outcome` is encoded here and now, and not kept."""
        if not self._moves:
            self._due_at = time.monotonic() + SEGMENT_SECONDS
        head, payload = frame(outcome)
        self._frames += (head, payload)
        self._size_bytes += len(head) + len(payload)
        self._moves.append(move)

    @property
    def is_full(self) -> bool:
        return len(self._moves) >= SEGMENT_OUTCOMES or self._size_bytes >= SEGMENT_BYTES

    def is_due(self, monotonic_now: float) -> bool:
        return bool(self._moves) and (self.is_full or monotonic_now >= self._due_at)

    def close_segment(self) -> ClosedSegment | None:
        """What was added since the last one; None if nothing was.

        Raises OSError if the disk does not take it; then all is still here, and it may be called again.
        """
        if not self._moves:
            return None
        name = SegmentName(self._run, self._next_serial(), self._fetcher, len(self._moves), self._size_bytes)
        path = self._spool.open / str(name)
        try:
            _write(path, self._frames)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        closed = ClosedSegment(self._spool, path, self._moves)
        counted = self._statistics
        self._statistics = WriterStatistics(
            counted.segments + 1, counted.outcomes + name.outcomes, counted.bytes + name.size_bytes
        )
        self._frames, self._size_bytes, self._moves = [MAGIC], len(MAGIC), []
        return closed

    def statistics(self) -> WriterStatistics:
        return self._statistics

    def _next_serial(self) -> int:
        serial = next(self._serials, None)
        if serial is None:
            self._serials = iter(self._spool.reserve_serials(self._fetcher))
            serial = next(self._serials)
        return serial


def _write(path: Path, frames: list[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        write_all(descriptor, frames)
    finally:
        os.close(descriptor)
