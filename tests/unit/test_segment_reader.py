"""Segments of any size are read one outcome at a time. The files are made by hand: a writer makes none so large."""

import os
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from gossamer.records import Answer, Lease, Outcome, Reason, Result
from gossamer.spool.segment import (
    MAGIC,
    DamagedSegment,
    SegmentName,
    SegmentReader,
    frame,
    lease_numbers,
    read_segment,
    seal,
)

BODY_BYTES = 1 << 20


def made_outcome(number: int, body: bytes = b"<p>hello") -> Outcome:
    url = f"https://site{number}.example/"
    lease = Lease(number, 3, 1, url, f"site{number}.example", number * 7, 2, 0, False, 0, 0)
    answer = Answer(url, 1.5e9, b"", b"HTTP/1.1 200 OK", 200, (), body)
    return Outcome(lease, Result.DONE, Reason.PAGE, 1.5e9, answer=answer)


def write_segment(folder: Path, outcomes: Iterable[Outcome], serial: int = 1) -> Path:
    """Without a seal."""
    content = bytearray(MAGIC)
    count = 0
    for outcome in outcomes:
        content += b"".join(frame(outcome))
        count += 1
    path = folder / str(SegmentName(1, serial, 0, count, len(content)))
    path.write_bytes(content)
    return path


def test_only_one_outcome_is_held_at_a_time(tmp_path: Path) -> None:
    path = write_segment(tmp_path, (made_outcome(number, bytes(BODY_BYTES)) for number in range(40)))
    seal(path, {3})
    tracemalloc.start()
    try:
        with SegmentReader(path) as segment:
            read = [outcome.lease.number for outcome in iter(segment.next, None)]
        recovered = lease_numbers(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == [number for number in range(40) if number != 3]
    assert recovered == set(range(40))
    assert peak_bytes < 5 * BODY_BYTES


def test_a_file_with_much_behind_its_outcomes_is_not_read(tmp_path: Path) -> None:
    path = write_segment(tmp_path, [made_outcome(1)])
    seal(path, ())
    os.truncate(path, 1 << 40)
    with pytest.raises(DamagedSegment, match="no seal"):
        SegmentReader(path)


def test_a_frame_that_claims_more_than_the_file_has_is_damaged(tmp_path: Path) -> None:
    path = write_segment(tmp_path, [made_outcome(1), made_outcome(2)])
    content = bytearray(path.read_bytes())
    content[len(MAGIC) : len(MAGIC) + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    seal(path, ())
    with SegmentReader(path) as segment, pytest.raises(DamagedSegment, match="byte 8 is damaged"):
        segment.next()


def test_damage_is_noticed_where_it_is_and_not_before(tmp_path: Path) -> None:
    path = write_segment(tmp_path, [made_outcome(number, b"body %d" % number) for number in range(3)])
    path.write_bytes(path.read_bytes().replace(b"body 2", b"body 3"))
    seal(path, ())
    with SegmentReader(path) as segment:
        assert [outcome and outcome.lease.number for outcome in (segment.next(), segment.next())] == [0, 1]
        with pytest.raises(DamagedSegment):
            segment.next()
        # It may be asked again, and says the same.
        with pytest.raises(DamagedSegment):
            segment.next()
    with pytest.raises(DamagedSegment):
        read_segment(path)


def test_a_segment_that_is_a_directory_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "00001-000-00000001.1.100.seg"
    path.mkdir()
    with pytest.raises(DamagedSegment):
        SegmentReader(path)
