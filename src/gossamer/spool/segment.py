"""A segment: some outcomes of one fetcher in one file.

The file: a magic number, a frame for each outcome, and one frame more that seals it and holds the numbers of the leases
that are void. A frame is the length of its payload, a checksum, and the payload in msgpack.

The name: `<run>-<fetcher>-<serial>.<outcomes>.<bytes>.seg`. Up to the first dot it is the segment's id. The bytes are
those before the seal, so that the name tells a whole file from one that was cut, even between two frames.
"""

import os
import re
import struct
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from gossamer.errors import GossamerError
from gossamer.records import Outcome

MAGIC = b"GOSSEG1\n"
_HEAD = struct.Struct("<IQ")
_NAME = re.compile(r"(\d{5,})-(\d{3,})-(\d{8,})\.(\d+)\.(\d+)\.seg", re.ASCII)
#: What every system takes in one call.
_PIECES_AT_ONCE = 1024
_ENCODER = msgspec.msgpack.Encoder()
_OUTCOME_DECODER = msgspec.msgpack.Decoder(Outcome)
_VOID_DECODER = msgspec.msgpack.Decoder(list[int])


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
            raise DamagedSegment(f"{path}: {size_bytes} bytes, where its name says {name.size_bytes}")
        if size_bytes > name.size_bytes:
            os.ftruncate(descriptor, name.size_bytes)
        os.lseek(descriptor, 0, os.SEEK_END)
        write_all(descriptor, [_head(payload), payload])
    finally:
        os.close(descriptor)


def read_segment(path: Path) -> list[Outcome]:
    """The outcomes that count. Raises DamagedSegment if anything is wrong with the file."""
    outcomes, seals = _read(path, is_sealed=True)
    if len(seals) != 1:
        raise DamagedSegment(f"{path}: {len(seals)} seals")
    void = set(seals[0])
    return [outcome for outcome in outcomes if outcome.lease.number not in void]


def read_unsealed(path: Path) -> list[Outcome]:
    """All outcomes of a segment whose seal is missing, or may not be whole."""
    return _read(path, is_sealed=False)[0]


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


def _read(path: Path, *, is_sealed: bool) -> tuple[list[Outcome], list[list[int]]]:
    name = _name_of(path)
    with memoryview(path.read_bytes()) as data:
        if len(data) < name.size_bytes or data[: len(MAGIC)] != MAGIC:
            raise DamagedSegment(f"{path}: {len(data)} bytes, not a segment of {name.size_bytes}")
        frames = _frames(path, data, len(MAGIC), name.size_bytes)
        after = _frames(path, data, name.size_bytes, len(data) if is_sealed else name.size_bytes)
        try:
            outcomes = [_OUTCOME_DECODER.decode(frame) for frame in frames]
            seals = [_VOID_DECODER.decode(frame) for frame in after]
        except msgspec.MsgspecError as error:
            raise DamagedSegment(f"{path}: {error}") from error
    if len(outcomes) != name.outcomes:
        raise DamagedSegment(f"{path}: {len(outcomes)} outcomes, where its name says {name.outcomes}")
    return outcomes, seals


def _frames(path: Path, data: memoryview, start: int, end: int) -> Iterator[memoryview]:
    """The payloads between two places, which must be filled by whole frames."""
    while start < end:
        payload_at = start + _HEAD.size
        if payload_at > end:
            raise DamagedSegment(f"{path}: a frame is cut at byte {start}")
        length_bytes, checksum = _HEAD.unpack_from(data, start)
        start = payload_at + length_bytes
        payload = data[payload_at:start]
        if start > end or xxhash.xxh3_64_intdigest(payload) != checksum:
            raise DamagedSegment(f"{path}: the frame at byte {payload_at - _HEAD.size} is damaged")
        yield payload
