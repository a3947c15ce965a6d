"""The spool: segments arrive whole or not at all, each with one parser, and nothing that was refused counts."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.records import Answer, Destination, Lease, Move, Outcome, PhaseTimes, Reason, Result
from gossamer.spool import writer as writer_module
from gossamer.spool.directory import SERIAL_BLOCK, Backlog, SpoolDirectory
from gossamer.spool.recovery import Recovered, recover_lost, recover_open, recover_ready, return_claimed
from gossamer.spool.room import SpoolRoom
from gossamer.spool.segment import DamagedSegment, frame, parse_name, read_segment, segment_id
from gossamer.spool.suspects import Finding, Suspects
from gossamer.spool.writer import SEGMENT_BYTES, SEGMENT_OUTCOMES, SEGMENT_SECONDS, ClosedSegment, SegmentWriter


@pytest.fixture
def spool(tmp_path: Path) -> SpoolDirectory:
    return made_spool(tmp_path / "spool")


def made_spool(root: Path) -> SpoolDirectory:
    spool = SpoolDirectory(root)
    spool.create()
    return spool


def made_outcome(number: int, body: bytes = b"<p>hello", result: Result = Result.DONE) -> Outcome:
    url = f"https://site{number}.example/"
    return Outcome(
        lease=Lease(number, 3, 1, url, f"site{number}.example", number * 7, 2, 0, False, 0, 0),
        result=result,
        reason=Reason.PAGE if result is Result.DONE else Reason.TIMEOUT,
        fetched_at=1_700_000_000.25,
        answer=Answer(
            url=url,
            fetched_at=1_700_000_000.25,
            request=b"GET / HTTP/1.1\r\n\r\n",
            status_line=b"HTTP/1.1 200 \xff",
            status=200,
            headers=((b"Content-Type", b"text/html"), (b"X-Odd", b"\xff\x00")),
            body=body,
        ),
        address="192.0.2.1",
        times=PhaseTimes(dns=0.001, total=0.5),
    )


def add(writer: SegmentWriter, *outcomes: Outcome) -> None:
    for outcome in outcomes:
        destination = Destination.PAGE if outcome.result is Result.DONE else Destination.TAIL
        writer.add(outcome, Move(outcome.lease, destination, outcome.reason))


def close(writer: SegmentWriter, *outcomes: Outcome) -> ClosedSegment:
    add(writer, *outcomes)
    closed = writer.close_segment()
    assert closed is not None
    return closed


def numbers(path: Path) -> list[int]:
    return [outcome.lease.number for outcome in read_segment(path)]


class Index:
    """What a store knows of segments."""

    def __init__(self, **spooled: set[int]) -> None:
        self.known = {name.replace("_", "-"): found for name, found in spooled.items()}

    async def segments(self) -> dict[str, int]:
        return {segment: len(found) for segment, found in self.known.items()}

    async def spooled(self, segment: str) -> set[int]:
        return self.known.get(segment, set())

    async def unspool(self, segment: str) -> None:
        del self.known[segment]


def test_outcomes_come_out_of_a_segment_as_they_went_in(spool: SpoolDirectory) -> None:
    outcomes = [made_outcome(1), made_outcome(2, b""), made_outcome(3, os.urandom(100_000), Result.RETRY)]
    closed = close(SegmentWriter(spool, 1, 0), *outcomes)
    closed.publish(set())
    claimed = spool.claim("p0")
    assert claimed is not None
    assert segment_id(claimed) == closed.id == "00001-000-00000000"
    assert read_segment(claimed) == outcomes
    assert [move.lease for move in closed.moves] == [outcome.lease for outcome in outcomes]


def test_what_the_store_refused_is_void(spool: SpoolDirectory) -> None:
    closed = close(SegmentWriter(spool, 1, 0), made_outcome(1), made_outcome(2), made_outcome(3))
    closed.publish({2, 99})
    claimed = spool.claim("p0")
    assert claimed is not None
    assert numbers(claimed) == [1, 3]


def test_a_segment_of_which_all_was_refused_leaves_no_file(spool: SpoolDirectory) -> None:
    closed = close(SegmentWriter(spool, 1, 0), made_outcome(1), made_outcome(2))
    closed.publish({1, 2})
    assert spool.claim("p0") is None
    assert list(spool.open.iterdir()) == []


def test_a_segment_is_due_when_it_is_full_or_old(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    now = time.monotonic()
    assert not writer.is_due(now + 1_000)
    add(writer, made_outcome(1))
    assert not writer.is_due(now)
    assert writer.is_due(time.monotonic() + SEGMENT_SECONDS)
    add(writer, *(made_outcome(number) for number in range(2, SEGMENT_OUTCOMES + 1)))
    assert writer.is_full
    assert writer.is_due(now)
    writer.close_segment()
    assert not writer.is_full
    add(writer, made_outcome(100, bytes(SEGMENT_BYTES)))
    assert writer.is_full


def test_no_segment_exceeds_its_limit_by_more_than_one_outcome_however_much_was_gathered(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    bodies = [bytes(size) for size in (3 << 20, 10, 20 << 20, 1 << 20)]
    for number in range(600):
        add(writer, made_outcome(number, bodies[number % 40] if number % 40 < 4 else b"x"))
    found: list[int] = []
    while (closed := writer.close_segment()) is not None:
        outcomes, size_bytes = len(closed.moves), closed.path.stat().st_size
        assert outcomes <= SEGMENT_OUTCOMES
        assert size_bytes < SEGMENT_BYTES + (20 << 20) + 1_000
        if size_bytes > SEGMENT_BYTES + 1_000:
            # It was within its limit before the last one.
            assert size_bytes - len(frame(made_outcome(0, bodies[2]))[1]) < SEGMENT_BYTES
        found += [move.lease.number for move in closed.moves]
        closed.publish(set())
    assert found == list(range(600))


def test_a_piece_that_could_not_be_written_comes_first_again(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    add(writer, *(made_outcome(number) for number in range(2 * SEGMENT_OUTCOMES + 1)))
    spool.open.rmdir()
    with pytest.raises(FileNotFoundError):
        writer.close_segment()
    spool.open.mkdir()
    found: list[int] = []
    while (closed := writer.close_segment()) is not None:
        found += [move.lease.number for move in closed.moves]
    assert found == list(range(2 * SEGMENT_OUTCOMES + 1))


def test_all_folders_count_for_the_limit_of_the_spool(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    sizes = []
    for number in range(3):
        closed = close(writer, made_outcome(number))
        sizes.append(closed.path.stat().st_size)
        if number:
            closed.publish(set())
    assert spool.claim("p0") is not None
    spool.claimed_folders()[0].joinpath("stranger").write_bytes(bytes(1000))
    assert [len(list(folder.iterdir())) for folder in (spool.open, spool.ready)] == [1, 1]
    assert spool.used_bytes() == sum(sizes)


def test_room_in_the_spool_ends_at_its_limit_and_comes_back(
    spool: SpoolDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("gossamer.spool.room.time", SimpleNamespace(monotonic=lambda: now))
    writer = SegmentWriter(spool, 1, 0)
    size_bytes = close(writer, made_outcome(0, bytes(1_000))).path.stat().st_size
    rooms = [SpoolRoom(spool, 10 * size_bytes) for _ in range(2)]
    for number in range(1, 20):
        if not rooms[number % 2].take(size_bytes):
            break
        close(writer, made_outcome(0, bytes(1_000))).publish(set())
    assert 10 * size_bytes <= spool.used_bytes() <= 11 * size_bytes
    now += 10.0
    assert not rooms[0].take(1)
    assert not rooms[1].take(1)
    # What is claimed is still there; it is gone with its commit.
    claimed = spool.claim("p0")
    assert claimed is not None
    assert not rooms[0].take(1)
    claimed.unlink()
    assert rooms[0].take(1)


def test_the_writer_counts_what_it_wrote(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    assert writer.close_segment() is None
    sizes = [
        close(writer, made_outcome(1)).path.stat().st_size,
        close(writer, *[made_outcome(2)] * 2).path.stat().st_size,
    ]
    counted = writer.statistics()
    assert (counted.segments, counted.outcomes, counted.bytes) == (2, 3, sum(sizes))


def test_an_outcome_that_cannot_be_encoded_spoils_nothing(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    bad = Outcome(made_outcome(1).lease, Result.DONE, Reason.PAGE, 0.0, detail="\ud800")
    with pytest.raises(UnicodeEncodeError):
        add(writer, bad)
    close(writer, made_outcome(2)).publish(set())
    claimed = spool.claim("p0")
    assert claimed is not None
    assert numbers(claimed) == [2]


def test_outcomes_survive_a_full_disk(spool: SpoolDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SegmentWriter(spool, 1, 0)
    add(writer, made_outcome(1))
    room = [10]

    def write(descriptor: int, pieces: Iterable[bytes]) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "full")
        room[0] -= (written := os.write(descriptor, b"".join(pieces)[: room[0]]))
        return written

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", write)
        with pytest.raises(OSError, match="full"):
            writer.close_segment()
        assert list(spool.open.iterdir()) == []
        room[0] = 1_000_000
        closed = writer.close_segment()
        assert closed is not None
        room[0] = 3
        with pytest.raises(OSError, match="full"):
            closed.publish(set())
        room[0] = 1_000_000
        closed.publish(set())
    claimed = spool.claim("p0")
    assert claimed is not None
    assert numbers(claimed) == [1]


def test_no_id_comes_back_in_another_life_of_a_fetcher(spool: SpoolDirectory) -> None:
    first = close(SegmentWriter(spool, 1, 4), made_outcome(1))
    first.publish({1})
    second = close(SegmentWriter(spool, 1, 4), made_outcome(1))
    other = close(SegmentWriter(spool, 1, 5), made_outcome(1))
    assert [closed.id for closed in (first, second, other)] == [
        "00001-004-00000000",
        f"00001-004-{SERIAL_BLOCK:08d}",
        "00001-005-00000000",
    ]


def test_serial_numbers_go_on_beyond_what_was_reserved(spool: SpoolDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.spool.directory.SERIAL_BLOCK", 2)
    writer = SegmentWriter(spool, 1, 0)
    serials = [int(close(writer, made_outcome(number)).id[-8:]) for number in range(5)]
    assert serials == [0, 1, 2, 3, 4]


def test_the_oldest_segment_is_claimed_first_whoever_wrote_it(spool: SpoolDirectory) -> None:
    writers = [SegmentWriter(spool, 2, fetcher) for fetcher in (0, 1)]
    for _ in range(2):
        for writer in writers:
            close(writer, made_outcome(1)).publish(set())
    close(SegmentWriter(spool, 1, 9), made_outcome(1)).publish(set())
    claimed = [path.name[:18] for path in iter(lambda: spool.claim("p0"), None)]
    assert claimed == [
        "00001-009-00000000",
        "00002-000-00000000",
        "00002-001-00000000",
        "00002-000-00000001",
        "00002-001-00000001",
    ]


def test_a_segment_that_several_parsers_claim_goes_to_one(spool: SpoolDirectory, tmp_path: Path) -> None:
    writer = SegmentWriter(spool, 1, 0)
    for number in range(200):
        close(writer, made_outcome(number)).publish(set())
    found: dict[str, list[str]] = {}
    start = threading.Barrier(4)

    def claim(parser: str) -> None:
        directory = SpoolDirectory(tmp_path / "spool")
        start.wait()
        found[parser] = [path.name for path in iter(lambda: directory.claim(parser), None)]

    threads = [threading.Thread(target=claim, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claimed = [name for names in found.values() for name in names]
    assert len(claimed) == len(set(claimed)) == 200


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_durable_segment_is_synced_with_its_entry_before_the_store_is_told(
    spool: SpoolDirectory, monkeypatch: pytest.MonkeyPatch, is_durable: bool
) -> None:
    writer = SegmentWriter(spool, 1, 0, is_durable=is_durable)
    close(writer, made_outcome(1))
    synced: list[Path] = []
    monkeypatch.setattr(writer_module, "sync", synced.append)
    closed = close(writer, made_outcome(2))
    assert synced == ([closed.path, spool.open] if is_durable else [])


def test_the_backlog_is_what_waits_and_not_what_is_parsed(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    sizes = []
    for outcomes in (1, 2, 3):
        closed = close(writer, *(made_outcome(number) for number in range(outcomes)))
        sizes.append(closed.path.stat().st_size)
        closed.publish(set())
    close(writer, made_outcome(9))
    (spool.ready / "stranger.txt").write_text("not ours")
    assert spool.backlog() == Backlog(6, sum(sizes))
    assert spool.claim("p0") is not None
    assert spool.backlog() == Backlog(5, sum(sizes[1:]))


@pytest.fixture
def ready_segment(spool: SpoolDirectory) -> Path:
    closed = close(SegmentWriter(spool, 1, 0), *(made_outcome(number) for number in range(3)))
    closed.publish({1})
    return spool.ready / closed.path.name


def test_a_segment_cut_anywhere_is_damaged(ready_segment: Path) -> None:
    whole = ready_segment.read_bytes()
    for length in range(len(whole)):
        ready_segment.write_bytes(whole[:length])
        with pytest.raises(DamagedSegment):
            read_segment(ready_segment)


def test_a_segment_with_any_byte_changed_is_damaged(ready_segment: Path) -> None:
    whole = ready_segment.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        ready_segment.write_bytes(changed)
        with pytest.raises(DamagedSegment):
            read_segment(ready_segment)


def test_a_segment_with_more_behind_it_is_damaged(ready_segment: Path) -> None:
    whole = ready_segment.read_bytes()
    seal = whole[parse_name(ready_segment.name).size_bytes :]  # type: ignore[union-attr]
    for more in (b"\0", bytes(12), seal):
        ready_segment.write_bytes(whole + more)
        with pytest.raises(DamagedSegment):
            read_segment(ready_segment)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_damaged_segment(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"00001-000-00000000.1.{len(noise)}.seg"
    path.write_bytes(noise)
    with pytest.raises(DamagedSegment):
        read_segment(path)
    path.unlink()


@pytest.mark.parametrize(
    "name", ["", "x.seg", "1-0-1.1.1.seg", "00001-000-00000001.01.1.seg", "00001-000-00000001.1.1"]
)
def test_only_names_as_the_writer_makes_them_are_segments(name: str) -> None:
    assert parse_name(name) is None


def test_a_damaged_segment_is_put_out_of_the_way(spool: SpoolDirectory) -> None:
    close(SegmentWriter(spool, 1, 0), made_outcome(1)).publish(set())
    claimed = spool.claim("p0")
    assert claimed is not None
    spool.quarantine(claimed)
    assert return_claimed(spool) == 0
    assert spool.claim("p0") is None


def test_any_number_of_open_segments_is_recovered(spool: SpoolDirectory) -> None:
    """As they stand after a fetcher died while its store did not answer."""
    writer = SegmentWriter(spool, 1, 0)
    add(writer, *(made_outcome(number) for number in range(10 * SEGMENT_OUTCOMES)))
    closed = [writer.close_segment() for _ in range(10)]
    known = {one.id.replace("-", "_"): {move.lease.number for move in one.moves} for one in closed[:4] if one}
    assert asyncio.run(recover_open(spool, Index(**known))) == Recovered(published=4, deleted=6)
    assert list(spool.open.iterdir()) == []
    claimed = [numbers(path) for path in iter(lambda: spool.claim("p0"), None)]
    assert [number for some in claimed for number in some] == list(range(4 * SEGMENT_OUTCOMES))


def test_an_open_segment_that_the_store_knows_is_published_with_the_rest_void(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    known = close(writer, made_outcome(1), made_outcome(2), made_outcome(3, result=Result.RETRY))
    close(writer, made_outcome(4))
    # Killed while it was sealed: of the last frame only a part is there.
    known.path.write_bytes(known.path.read_bytes() + b"\x07\0\0")
    index = Index(**{known.id.replace("-", "_"): {2}})
    assert asyncio.run(recover_open(spool, index)) == Recovered(published=1, deleted=1)
    claimed = spool.claim("p0")
    assert claimed is not None
    assert numbers(claimed) == [2]
    assert list(spool.open.iterdir()) == []


def test_a_ready_segment_that_lost_its_seal_gets_it_again_from_what_the_store_knows(ready_segment: Path) -> None:
    spool = SpoolDirectory(ready_segment.parents[1])
    whole = ready_segment.read_bytes()
    ready_segment.write_bytes(whole[: parse_name(ready_segment.name).size_bytes])  # type: ignore[union-attr]
    index = Index(**{segment_id(ready_segment).replace("-", "_"): {0, 2}})
    assert asyncio.run(recover_ready(spool, index)) == 0
    assert ready_segment.read_bytes() == whole
    assert numbers(ready_segment) == [0, 2]


def test_a_ready_segment_that_the_store_has_forgotten_is_deleted_unless_it_holds_attempts_alone(
    spool: SpoolDirectory,
) -> None:
    """After a power loss the store may be older than the spool: it has these URLs fetched again."""
    writer = SegmentWriter(spool, 1, 0)
    known, forgotten, attempts, empty, suspect = (
        close(writer, made_outcome(number, result=result))
        for number, result in enumerate([Result.DONE, Result.DONE, Result.RETRY, Result.DONE, Result.DONE])
    )
    for closed in (known, forgotten, attempts, empty, suspect):
        closed.publish(set())
    (spool.ready / empty.path.name).write_bytes(b"")
    suspects = Suspects(spool.root)
    suspects.add(suspect.id, Finding.RETURNING)
    index = Index(**{known.id.replace("-", "_"): {0}})
    assert asyncio.run(recover_ready(spool, index, suspects=suspects)) == 2
    suspects.close()
    assert {path.name for path in spool.ready.iterdir()} == {one.path.name for one in (known, attempts, suspect)}


def test_recovery_of_one_fetcher_leaves_the_open_segments_of_the_others(spool: SpoolDirectory) -> None:
    kept = close(SegmentWriter(spool, 1, 0), made_outcome(1))
    close(SegmentWriter(spool, 1, 1), made_outcome(2))
    assert asyncio.run(recover_open(spool, Index(), fetcher=1)) == Recovered(deleted=1)
    assert list(spool.open.iterdir()) == [kept.path]


def test_an_open_segment_that_is_shorter_than_its_name_says_is_never_padded(spool: SpoolDirectory) -> None:
    closed = close(SegmentWriter(spool, 1, 0), made_outcome(1), made_outcome(2))
    cut = closed.path.read_bytes()[:-5]
    closed.path.write_bytes(cut)
    index = Index(**{closed.id.replace("-", "_"): {1, 2}})
    assert asyncio.run(recover_open(spool, index)) == Recovered(damaged=1)
    assert index.known == {}, "its URLs go back to their queues"
    [quarantined] = (spool.open.parent / "quarantine").iterdir()
    assert quarantined.read_bytes() == cut


def test_urls_of_segments_that_no_file_carries_go_back(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    there = [close(writer, made_outcome(number)) for number in range(3)]
    for closed in there[1:]:
        closed.publish(set())
    assert spool.claim("p0") is not None
    lost = "00001-000-00000777"
    index = Index(**{name.replace("-", "_"): {1} for name in [*(closed.id for closed in there), lost]})
    assert asyncio.run(recover_lost(spool, index)) == [lost]
    assert sorted(index.known) == [closed.id for closed in there]


def test_claimed_segments_of_one_parser_are_returned_and_those_of_others_kept(spool: SpoolDirectory) -> None:
    writer = SegmentWriter(spool, 1, 0)
    for number in range(4):
        close(writer, made_outcome(number)).publish(set())
    claimed = [spool.claim(parser) for parser in ("p0", "p0", "p1")]
    (spool.claimed / "p1.note").write_bytes(b"the page that a parser is on")
    assert return_claimed(spool, "p0") == 2
    assert spool.backlog().pages == 3
    assert claimed[2] is not None
    assert claimed[2].exists()
    assert return_claimed(spool) == 1
    assert spool.backlog().pages == 4
