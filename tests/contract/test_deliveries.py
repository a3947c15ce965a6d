"""Outcomes on their way from workers to the spool: while the store stands still, and while the spool is full."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from gossamer.errors import GossamerError
from gossamer.fetch.byte_budget import ByteBudget
from gossamer.fetch.deliveries import Deliveries
from gossamer.fetch.robots_copies import MOST_BYTES, RobotsCopies
from gossamer.fetch.shortage import Shortage
from gossamer.records import (
    Answer,
    Destination,
    Lease,
    Move,
    Outcome,
    PhaseTimes,
    Reason,
    Release,
    Result,
    RobotsCopy,
    SiteClock,
)
from gossamer.spool.directory import SpoolDirectory, segments_in
from gossamer.spool.room import SpoolRoom
from gossamer.spool.segment import read_segment
from gossamer.spool.writer import SEGMENT_BYTES, SEGMENT_OUTCOMES, SegmentWriter
from gossamer.testing.stores.model import ModelStore

LONGEST_SECONDS = 60.0


class GatedStore(ModelStore):
    """Answers `spool` and `save_robots` only while its gates are open, and remembers in which order it did."""

    def __init__(self) -> None:
        super().__init__(8)
        self.spools = asyncio.Event()
        self.saves = asyncio.Event()
        self.released: list[int] = []
        self.spooled_numbers: list[int] = []

    async def release(self, releases: Sequence[Release]) -> None:
        self.released += [release.lease.number for release in releases]

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        assert segment
        await self.spools.wait()
        self.spooled_numbers += [move.lease.number for move in moves]
        return set()

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        await self.saves.wait()
        await super().save_robots(copies)


class Fixture:
    """Deliveries with all that they need."""

    def __init__(self, root: Path, *, spool_bytes: int = 1 << 30) -> None:
        self.store = GatedStore()
        self.spool = SpoolDirectory(root / "spool")
        self.spool.create()
        self.shortage = Shortage()
        self.budget = ByteBudget(1 << 30, largest_body_bytes=1 << 20, readers=100)
        self.deliveries = Deliveries(
            store=self.store,
            writer=SegmentWriter(self.spool, 1, 0),
            shortage=self.shortage,
            budget=self.budget,
            room=SpoolRoom(self.spool, spool_bytes),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        writing = asyncio.create_task(self.deliveries.write_segments())
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                yield
        finally:
            writing.cancel()
            await asyncio.wait([writing])
            self.deliveries.close()

    def add(self, number: int, body: bytes = b"<p>", robots: bytes = b"") -> None:
        """Received, and delivered by a worker."""
        self.budget.used_bytes += len(body) + len(robots)
        lease = Lease(number, 3, 1, f"http://s{number}.test/", f"s{number}.test", number, 0, 0, False, 0, 0)
        page, file = (
            Answer("", 0.0, b"", b"HTTP/1.1 200 OK", 200, (), content, "", False, "", "", False, PhaseTimes())
            for content in (body, robots)
        )
        outcome = Outcome(lease, Result.DONE, Reason.PAGE, 0.0, answer=page, robots=(file,) if robots else ())
        self.deliveries.add(outcome, Move(lease, Destination.PAGE, Reason.PAGE), Release(lease, True, 0.0, SiteClock()))

    def open_bytes(self) -> list[int]:
        return [name.size_bytes for name in sorted(segments_in(self.spool.open))]


async def until(is_reached: Callable[[], bool]) -> None:
    while not is_reached():  # noqa: ASYNC110 (what is looked at are files, too)
        await asyncio.sleep(0.005)


def test_while_the_store_stands_still_outcomes_go_to_the_disk_in_segments_within_the_limit(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path)
    deliveries, store = fixture.deliveries, fixture.store

    async def run() -> None:
        async with fixture.running():
            fixture.add(0)
            sending = asyncio.create_task(deliveries.send(everything=True))
            await until(lambda: len(fixture.open_bytes()) == 1)
            body = bytes(1 << 20)
            for number in range(1, 501):
                fixture.add(number, body if number % 25 == 0 else b"<p>", robots=b"x" * 100)
            # Of all full pieces nothing is left in memory, although the store has answered nothing.
            await until(lambda: len(fixture.open_bytes()) == 1 + 500 // SEGMENT_OUTCOMES)
            assert not sending.done()
            assert store.spooled_numbers == []
            # The 52 that fill no segment are: three of their bodies are large.
            await until(lambda: fixture.budget.used_bytes == 49 * 3 + 52 * 100 + 3 * len(body))
            assert max(fixture.open_bytes()) < SEGMENT_BYTES + len(body)
            store.spools.set()
            await sending
            await deliveries.send(everything=True)

    asyncio.run(run())
    # Each once, in the order in which they were added.
    assert store.spooled_numbers == list(range(501))
    assert store.released == list(range(501))
    claimed = iter(lambda: fixture.spool.claim("p0"), None)
    assert [outcome.lease.number for path in claimed for outcome in read_segment(path)] == list(range(501))
    assert fixture.budget.used_bytes == 0
    assert fixture.open_bytes() == []


def test_large_bodies_that_end_together_make_segments_of_one_limit(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path)
    fixture.store.spools.set()
    body = bytes(5 << 20)

    async def run() -> None:
        async with fixture.running():
            for number in range(9):
                fixture.add(number, body)
            await fixture.deliveries.send(everything=True)

    asyncio.run(run())
    sizes = [name.size_bytes for name in segments_in(fixture.spool.ready)]
    assert len(sizes) == 5
    assert max(sizes) < SEGMENT_BYTES + len(body)


def test_at_its_limit_the_spool_takes_nothing_and_sites_are_released_all_the_same(tmp_path: Path) -> None:
    limit_bytes = 20 << 20
    fixture = Fixture(tmp_path, spool_bytes=limit_bytes)
    deliveries = fixture.deliveries
    fixture.store.spools.set()
    body = bytes(4 << 20)

    async def run() -> None:
        async with fixture.running():
            for number in range(20):
                fixture.add(number, body)
            await until(lambda: deliveries.is_spool_full)
            await deliveries.send()
            assert fixture.store.released == list(range(20))
            held_bytes = fixture.spool.used_bytes()
            assert limit_bytes <= held_bytes < limit_bytes + SEGMENT_BYTES + len(body)
            assert fixture.budget.used_bytes == 20 * len(body) - held_bytes // len(body) * len(body)
            # What a parser has claimed is on the disk still; its commit makes room.
            claimed = fixture.spool.claim("p0")
            assert claimed is not None
            await asyncio.sleep(0.3)
            assert fixture.spool.used_bytes() == held_bytes
            claimed.unlink()
            await until(lambda: fixture.spool.used_bytes() == held_bytes)
            # Nothing is short of anything: no pause, no warning.
            assert not fixture.shortage.is_met
            while not all(path is None for path in [fixture.spool.claim("p0")]):
                for path in fixture.spool.claimed_folders()[0].iterdir():
                    path.unlink()
                await deliveries.send()
                await asyncio.sleep(0.02)
            await deliveries.send(everything=True)

    asyncio.run(run())
    assert fixture.store.spooled_numbers == list(range(20))
    assert fixture.budget.used_bytes == 0
    assert not deliveries.is_spool_full


def test_at_the_end_everything_is_written_also_beyond_the_limit(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, spool_bytes=1 << 20)
    fixture.store.spools.set()

    async def run() -> None:
        async with fixture.running():
            for number in range(5):
                fixture.add(number, bytes(9 << 20))
            await until(lambda: fixture.deliveries.is_spool_full)
            await fixture.deliveries.send(everything=True)

    asyncio.run(run())
    assert sum(name.outcomes for name in segments_in(fixture.spool.ready)) == 5
    assert fixture.budget.used_bytes == 0


def test_a_disk_that_cannot_be_written_at_the_end_is_said_and_nothing_is_forgotten(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path)
    fixture.store.spools.set()

    async def run() -> None:
        async with fixture.running():
            fixture.add(0)
            fixture.spool.open.rmdir()
            with pytest.raises(GossamerError, match="resume when there is room"):
                await fixture.deliveries.send(everything=True)
            fixture.spool.open.mkdir()
            await fixture.deliveries.send(everything=True)

    asyncio.run(run())
    assert fixture.store.spooled_numbers == [0]


def test_an_outcome_that_cannot_be_encoded_gives_its_answer_back_once(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path)
    lease = Lease(1, 3, 1, "http://a.test/", "a.test", 1, 0, 0, False, 0, 0)
    answers = [
        Answer("", 0.0, b"", b"", 200, (), bytes(size), "", False, "", "", False, PhaseTimes()) for size in (70, 5)
    ]

    async def run() -> None:
        async with fixture.running():
            fixture.budget.used_bytes = 75
            move, release = Move(lease, Destination.TAIL, Reason.PROTOCOL), Release(lease, True, 0.0, SiteClock())
            bad = Outcome(
                lease, Result.DONE, Reason.PAGE, 0.0, detail="\ud800", answer=answers[0], robots=(answers[1],)
            )
            with suppress(UnicodeEncodeError):
                fixture.deliveries.add(bad, move, release)
            # What the worker delivers instead.
            instead = Outcome(lease, Result.RETRY, Reason.PROTOCOL, 0.0, robots=(answers[1],))
            fixture.deliveries.add(instead, move, release)
            assert fixture.budget.used_bytes == 5
            fixture.store.spools.set()
            await fixture.deliveries.send(everything=True)
            assert fixture.budget.used_bytes == 0

    asyncio.run(run())


def copy_of(number: int, size_bytes: int = 10) -> RobotsCopy:
    return RobotsCopy(origin=f"http://s{number}.test", access="parse", body=bytes(size_bytes), expires_at=float(number))


def test_copies_of_robots_txt_wait_for_the_store_alone_and_within_bounds() -> None:
    async def run() -> None:
        store = GatedStore()
        copies = RobotsCopies(store)
        saving = asyncio.create_task(copies.run())
        body_bytes = 500 << 10
        for number in range(100):
            copies.save(copy_of(number, body_bytes))
        await asyncio.sleep(0.05)
        unsaved = [number for number in range(100) if copies.unsaved(f"http://s{number}.test")]
        # The newest, as many as there is room for.
        assert unsaved == list(range(100 - len(unsaved), 100))
        assert len(unsaved) * body_bytes <= MOST_BYTES < (len(unsaved) + 2) * body_bytes
        newer = copy_of(99, 1)
        copies.save(newer)
        store.saves.set()
        async with asyncio.timeout(LONGEST_SECONDS):
            await until(lambda: not any(copies.unsaved(f"http://s{number}.test") for number in range(100)))
        found = await store.load_robots([f"http://s{number}.test" for number in range(100)])
        assert set(unsaved) <= {int(copy.expires_at) for copy in found.values()}
        assert found["http://s99.test"] == newer
        saving.cancel()
        await asyncio.wait([saving])

    asyncio.run(run())


def test_a_change_of_a_copy_leaves_its_body_wherever_the_copy_is() -> None:
    async def run() -> None:
        store = GatedStore()
        store.saves.set()
        await store.save_robots([copy_of(1)])
        copies = RobotsCopies(store)
        copies.save(copy_of(2))
        for number in (1, 2):
            copies.change(f"http://s{number}.test", {"access": "disallow-all", "failures": 1})
            copies.change(f"http://s{number}.test", {"busy_until": 7.0, "busy_answers": 2})
        changed = {
            f"http://s{number}.test": replace(
                copy_of(number), access="disallow-all", failures=1, busy_until=7.0, busy_answers=2
            )
            for number in (1, 2)
        }
        assert await copies.load(list(changed)) == changed, "before it is saved"
        await copies.flush(LONGEST_SECONDS)
        assert await store.load_robots(list(changed)) == changed

    asyncio.run(run())


def test_at_the_end_copies_get_a_chance_that_is_bounded() -> None:
    async def run() -> None:
        store = GatedStore()
        copies = RobotsCopies(store)
        copies.save(copy_of(1))
        async with asyncio.timeout(LONGEST_SECONDS):
            await copies.flush(0.05)
        assert copies.unsaved("http://s1.test") is not None
        store.saves.set()
        await copies.flush(LONGEST_SECONDS)
        assert (await store.load_robots(["http://s1.test"]))["http://s1.test"] == copy_of(1)

    asyncio.run(run())
