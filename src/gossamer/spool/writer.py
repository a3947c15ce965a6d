"""A fetcher's end of the spool: outcomes are gathered in memory, written to files, and handed over by a rename.

However many outcomes are gathered before anybody writes them (the store may stand still meanwhile), they are gathered
in pieces, each the content of one segment. So no segment exceeds its limit by more than one outcome.
"""

import contextlib
import os
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path

import msgspec

from gossamer.disk import sync
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


class Piece:
    """The outcomes of one segment, encoded, before they are in a file."""

    __slots__ = ("body_bytes", "due_at", "frames", "moves", "size_bytes")

    def __init__(self) -> None:
        # Not one buffer: that would be asked of the system anew for each segment, which costs more than all the rest.
        self.frames: list[bytes] = [MAGIC]
        self.size_bytes = len(MAGIC)
        self.moves: list[Move] = []
        self.body_bytes = 0
        """Bytes of bodies in it, as its outcomes were added with."""
        self.due_at = 0.0

    @property
    def is_full(self) -> bool:
        return len(self.moves) >= SEGMENT_OUTCOMES or self.size_bytes >= SEGMENT_BYTES


class SegmentWriter:
    """Holds the outcomes of one fetcher that are in no file yet; they are lost with the process, and fetched again.

    The event loop adds outcomes and takes pieces; `write` may run in a thread, one call at a time. A piece that could
    not be written is put back. No id is ever used twice. It never talks to the store.

    With `is_durable` a segment survives a power loss from the moment on at which the store is told of it.
    """

    def __init__(self, spool: SpoolDirectory, run: int, fetcher: int, *, is_durable: bool = False) -> None:
        self._spool = spool
        self._run = run
        self._fetcher = fetcher
        self._is_durable = is_durable
        self._serials = iter(range(0))
        self._full: deque[Piece] = deque()
        self._filling = Piece()
        self._statistics = WriterStatistics()

    def add(self, outcome: Outcome, move: Move, body_bytes: int = 0) -> bool:
        """`outcome` is encoded here and now, and not kept. Returns whether that has filled a piece."""
        # May raise, and has changed nothing then.
        head, payload = frame(outcome)
        piece = self._filling
        if not piece.moves:
            piece.due_at = time.monotonic() + SEGMENT_SECONDS
        piece.frames += (head, payload)
        piece.size_bytes += len(head) + len(payload)
        piece.moves.append(move)
        piece.body_bytes += body_bytes
        if not piece.is_full:
            return False
        self._full.append(piece)
        self._filling = Piece()
        return True

    @property
    def is_full(self) -> bool:
        return bool(self._full)

    def is_due(self, monotonic_now: float) -> bool:
        return bool(self._full) or (bool(self._filling.moves) and monotonic_now >= self._filling.due_at)

    def take(self, monotonic_now: float | None = None) -> Piece | None:
        """The oldest piece that is due; without a time, the oldest of all."""
        if self._full:
            return self._full.popleft()
        piece = self._filling
        if not piece.moves or (monotonic_now is not None and monotonic_now < piece.due_at):
            return None
        self._filling = Piece()
        return piece

    def put_back(self, piece: Piece) -> None:
        """What was taken last could not be written."""
        self._full.appendleft(piece)

    def write(self, piece: Piece) -> ClosedSegment:
        """Into a file in `open/`. Raises OSError if the disk does not take it; then nothing of it is there."""
        name = SegmentName(self._run, self._next_serial(), self._fetcher, len(piece.moves), piece.size_bytes)
        path = self._spool.open / str(name)
        try:
            _write(path, piece.frames)
            if self._is_durable:
                sync(path)
                sync(path.parent)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        counted = self._statistics
        self._statistics = WriterStatistics(
            counted.segments + 1, counted.outcomes + name.outcomes, counted.bytes + name.size_bytes
        )
        return ClosedSegment(self._spool, path, piece.moves)

    def close_segment(self) -> ClosedSegment | None:
        """Take and write one piece; None if there is none. After an OSError all is still here."""
        piece = self.take()
        if piece is None:
            return None
        try:
            return self.write(piece)
        except OSError:
            self.put_back(piece)
            raise

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
