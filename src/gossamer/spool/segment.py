"""A segment: some outcomes of one fetcher in one file.

The file: a magic number, a frame for each outcome, and one frame more that seals it and holds the numbers of the leases
that are void. A frame is the length of its payload, a checksum, and the payload in msgpack.

The name: `<run>-<fetcher>-<serial>.<outcomes>.<bytes>.seg`. Up to the first dot it is the segment's id. The bytes are
those before the seal, so that the name tells a whole file from one that was cut, even between two frames.
"""

import errno
import os
import re
import struct
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import msgspec
import xxhash

from gossamer.errors import GossamerError
from gossamer.records import Outcome
from gossamer.units import counted

MAGIC = b"GOSSEG1\n"
_HEAD = struct.Struct("<IQ")
_NAME = re.compile(r"(\d{5,})-(\d{3,})-(\d{8,})\.(\d+)\.(\d+)\.seg", re.ASCII)
#: What every system takes in one call.
_PIECES_AT_ONCE = 1024
#: In a seal, the number of a lease takes at most so much.
LONGEST_NUMBER_BYTES = 9
#: The disk cannot give back what was written to it; waiting does not help.
_UNREADABLE = frozenset({errno.EIO, errno.EINVAL, errno.EISDIR, errno.EACCES, errno.EPERM})
_ENCODER = msgspec.msgpack.Encoder()
_OUTCOME_DECODER = msgspec.msgpack.Decoder(Outcome)
_VOID_DECODER = msgspec.msgpack.Decoder(list[int])

T = TypeVar("T")


class DamagedSegment(GossamerError):  # noqa: N818 (what it is; the file is moved to quarantine, and its URLs go back)
    """The file is not what its writer wrote. Nothing of it is used."""


class SegmentName(NamedTuple):
    """What a segment's name says of it. Sorted, the oldest of a run come first, whoever wrote them."""

    run: int
    serial: int
    fetcher: int
    outcomes: int
    size_bytes: int

    @property
    def id(self) -> str:
        return f"{self.run:05d}-{self.fetcher:03d}-{self.serial:08d}"

    def __str__(self) -> str:
        return f"{self.id}.{self.outcomes}.{self.size_bytes}.seg"


def parse_name(name: str) -> SegmentName | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    run, fetcher, serial, outcomes, size_bytes = (int(group) for group in match.groups())
    parsed = SegmentName(run, serial, fetcher, outcomes, size_bytes)
    return parsed if str(parsed) == name else None


def segment_id(path: Path) -> str:
    return path.name.partition(".")[0]


def frame(outcome: Outcome) -> tuple[bytes, bytes]:
    """Of one outcome: what stands before the payload, and the payload."""
    payload = _ENCODER.encode(outcome)
    return _head(payload), payload


def seal(path: Path, void: Collection[int]) -> None:
    """Mark the leases that do not count. May be called again, with others: the last seal replaces the one before."""
    name = _name_of(path)
    payload = _ENCODER.encode(sorted(void))
    descriptor = os.open(path, os.O_WRONLY)
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes < name.size_bytes:
            raise DamagedSegment(f"{path}: {counted(size_bytes, 'byte')}, where its name says {name.size_bytes}")
        if size_bytes > name.size_bytes:
            os.ftruncate(descriptor, name.size_bytes)
        os.lseek(descriptor, 0, os.SEEK_END)
        write_all(descriptor, [_head(payload), payload])
    finally:
        os.close(descriptor)


def read_segment(path: Path) -> list[Outcome]:
    """All outcomes that count, at once: for tools and tests. A parser reads with `SegmentReader`."""
    with SegmentReader(path) as segment:
        return list(iter(segment.next, None))


def lease_numbers(path: Path) -> set[int]:
    """Of a segment whose seal is missing, or may not be whole."""
    with SegmentReader(path, is_sealed=False) as segment:
        return {outcome.lease.number for outcome in iter(segment.next, None)}


class SegmentReader:
    """Reads one segment outcome by outcome; never holds more of it in memory than one.

    Raises DamagedSegment as soon as anything is wrong with the file, which may be after outcomes that were fine: who
    has used those takes that back. After an OSError, the same call may be made again.
    """

    def __init__(self, path: Path, *, is_sealed: bool = True) -> None:
        self._path = path
        self._name = _name_of(path)
        self._read_outcomes = 0
        self._at = len(MAGIC)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._translated(error) from error
        try:
            self._size_bytes = os.fstat(self._descriptor).st_size
            self._check_start()
            self._void = self._read_seal() if is_sealed else frozenset[int]()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def next(self) -> Outcome | None:
        """The next outcome that counts; None at the end."""
        while self._at < self._name.size_bytes:
            payload = self._frame_at(self._at, self._name.size_bytes)
            outcome = _decoded(self._path, _OUTCOME_DECODER, payload)
            self._at += _HEAD.size + len(payload)
            self._read_outcomes += 1
            if outcome.lease.number not in self._void:
                return outcome
        if self._read_outcomes != self._name.outcomes:
            raise DamagedSegment(
                f"{self._path}: {counted(self._read_outcomes, 'outcome')}, where its name says {self._name.outcomes}"
            )
        return None

    def _check_start(self) -> None:
        if self._size_bytes < self._name.size_bytes or self._bytes_at(0, len(MAGIC)) != MAGIC:
            raise DamagedSegment(
                f"{self._path}: {counted(self._size_bytes, 'byte')}, not a segment of {self._name.size_bytes}"
            )

    def _read_seal(self) -> frozenset[int]:
        start = self._name.size_bytes
        # A file with much more behind its outcomes than a seal is not read.
        if self._size_bytes - start > _HEAD.size + LONGEST_NUMBER_BYTES * (self._name.outcomes + 1):
            raise DamagedSegment(f"{self._path}: no seal in its last {counted(self._size_bytes - start, 'byte')}")
        payload = self._frame_at(start, self._size_bytes)
        if start + _HEAD.size + len(payload) != self._size_bytes:
            raise DamagedSegment(f"{self._path}: more than a seal after byte {start}")
        void = _decoded(self._path, _VOID_DECODER, payload)
        return frozenset(void)

    def _frame_at(self, start: int, end: int) -> bytes:
        """The payload of the frame that begins here, and must end before `end`."""
        head = self._bytes_at(start, _HEAD.size)
        if start + _HEAD.size > end or len(head) < _HEAD.size:
            raise DamagedSegment(f"{self._path}: a frame is cut at byte {start}")
        length_bytes, checksum = _HEAD.unpack(head)
        if start + _HEAD.size + length_bytes > end:
            raise DamagedSegment(f"{self._path}: the frame at byte {start} is damaged")
        payload = self._bytes_at(start + _HEAD.size, length_bytes)
        if len(payload) != length_bytes or xxhash.xxh3_64_intdigest(payload) != checksum:
            raise DamagedSegment(f"{self._path}: the frame at byte {start} is damaged")
        return payload

    def _bytes_at(self, start: int, length_bytes: int) -> bytes:
        try:
            return os.pread(self._descriptor, length_bytes, start)
        except OSError as error:
            raise self._translated(error) from error

    def _translated(self, error: OSError) -> Exception:
        return DamagedSegment(f"{self._path}: {error}") if error.errno in _UNREADABLE else error


def write_all(descriptor: int, pieces: Sequence[bytes]) -> None:
    """One call may write less than it was given, as when the disk is about to be full."""
    for begin in range(0, len(pieces), _PIECES_AT_ONCE):
        left = deque(pieces[begin : begin + _PIECES_AT_ONCE])
        while left:
            written = os.writev(descriptor, left)
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = left[0][written:]


def _head(payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), xxhash.xxh3_64_intdigest(payload))


def _name_of(path: Path) -> SegmentName:
    name = parse_name(path.name)
    if name is None:
        raise DamagedSegment(f"{path}: not the name of a segment")
    return name


def _decoded(path: Path, decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
    try:
        return decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise DamagedSegment(f"{path}: {error}") from error
