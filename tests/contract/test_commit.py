"""A commit is all or nothing, wherever the process that makes it is killed: each page is in the files exactly once."""

import asyncio
import errno
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.store import AdmitLimits
from gossamer.records import Candidate, Destination, Finished, Lease, Move, Outcome, Reason, Release, Result
from gossamer.sinks.commit import Committer, recover
from gossamer.sinks.jsonl import JsonLinesSink
from gossamer.sinks.sink import Mark, PageRecord
from gossamer.spool.directory import SpoolDirectory, segments_in
from gossamer.spool.recovery import recover_lost, recover_open, return_claimed
from gossamer.spool.segment import read_segment, segment_id
from gossamer.spool.writer import SegmentWriter
from gossamer.testing.stores.model import ModelStore

SITES = 14
NO_PAGE_EVERY = 5
#: Three or four pages: files rotate all the time, and the last one is not full.
FILE_BYTES = 1_500


def made_record(url: str) -> PageRecord:
    return PageRecord(
        url=url,
        site="example",
        host="www.example",
        depth=1,
        hops=0,
        status=200,
        fetched_at=1_700_000_000.5,
        address="192.0.2.1",
        is_verified=False,
        media_type="text/html",
        charset="UTF-8",
        truncated="",
        received_bytes=10,
        decoded_bytes=20,
        title='“Title”\n"2"',
        description="",
        language="en",
        canonical=None,
        robots=("noindex",),
        noindex=True,
        nofollow=False,
        links=3,
        text="line one\nline two",
        main_text=None,
    )


def urls_in(data: Path, pattern: str = "*.jsonl") -> Counter[str]:
    """Every line must be whole."""
    found: Counter[str] = Counter()
    for path in (data / "pages").glob(pattern):
        content = path.read_bytes()
        assert content.endswith(b"\n"), path
        found.update(msgspec.json.decode(line)["url"] for line in content.splitlines())
    return found


class Journal:
    """A store that only remembers what was finished."""

    def __init__(self) -> None:
        self.finished: Counter[int] = Counter()
        self.is_away = False

    async def finish(self, finished: Sequence[Finished]) -> None:
        if self.is_away:
            raise StoreUnavailable("away")
        self.finished.update({done.number for done in finished} - set(self.finished))


class Crawl:
    """One parser's end: segments that hold one page each, without a spool behind them."""

    def __init__(self, data: Path, parser: str = "p0", *, file_bytes: int = FILE_BYTES, run: int = 1) -> None:
        self.data = data
        self.parser = parser
        self.store = Journal()
        self.sink = JsonLinesSink(data, run, parser, file_bytes)
        self.committer = Committer(data, parser, self.store, [self.sink])

    def segment(self, number: int) -> Path:
        return self.data / "spool" / "claimed" / self.parser / f"{number}.seg"

    def write(self, number: int) -> None:
        self.sink.write(made_record(f"{self.parser}/{number}"))

    def done(self, *numbers: int) -> None:
        for number in numbers:
            self.segment(number).parent.mkdir(parents=True, exist_ok=True)
            self.segment(number).write_bytes(b"")
            self.write(number)
            finished = Finished(str(number), number, 0, "example", number, Reason.PAGE, 10)
            self.committer.segment_done(self.segment(number), [finished])

    def commit(self) -> int:
        return asyncio.run(self.committer.commit())

    def recover(self) -> None:
        asyncio.run(recover(self.data, self.store, parser=self.parser))


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path)


def test_a_line_holds_one_page_with_its_keys_in_the_documented_order(crawl: Crawl) -> None:
    crawl.done(1)
    crawl.commit()
    crawl.committer.close()
    [path] = (crawl.data / "pages").iterdir()
    assert path.name == "00001-p0-000000.jsonl"
    [line] = path.read_bytes().splitlines()
    decoded = msgspec.json.decode(line)
    assert list(decoded) == [field.name for field in msgspec.structs.fields(PageRecord)]
    assert decoded["text"] == "line one\nline two"
    assert decoded["noindex"] is True


def test_a_commit_finishes_urls_deletes_segments_and_says_how_many_pages(crawl: Crawl) -> None:
    crawl.done(1, 2, 3)
    assert crawl.commit() == 3
    assert crawl.commit() == 0
    assert crawl.store.finished == {1: 1, 2: 1, 3: 1}
    assert not any(crawl.segment(number).exists() for number in (1, 2, 3))


def test_files_get_their_final_names_only_by_a_commit(crawl: Crawl) -> None:
    crawl.done(*range(10))
    assert urls_in(crawl.data) == {}
    crawl.commit()
    complete = urls_in(crawl.data)
    assert len(complete) >= 8
    crawl.committer.close()
    assert urls_in(crawl.data) == {f"p0/{number}": 1 for number in range(10)}
    assert urls_in(crawl.data, "*.open") == {}


def test_an_abandoned_segment_leaves_no_trace(crawl: Crawl) -> None:
    crawl.done(1)
    for number in range(2_000, 2_900):
        crawl.write(number)
    crawl.committer.abandon()
    crawl.done(2)
    crawl.commit()
    crawl.write(3_000)
    crawl.committer.close()
    assert urls_in(crawl.data) == {"p0/1": 1, "p0/2": 1}


def test_what_is_done_and_not_committed_is_cut_off_at_the_end(crawl: Crawl) -> None:
    crawl.done(1)
    crawl.commit()
    crawl.done(*range(2, 9))
    crawl.committer.close()
    assert urls_in(crawl.data) == {"p0/1": 1}
    assert crawl.segment(8).exists()


def test_a_commit_that_the_store_could_not_follow_is_finished_by_the_next(crawl: Crawl) -> None:
    crawl.done(1, 2, 3, 4)
    crawl.store.is_away = True
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    assert crawl.segment(1).exists()
    crawl.done(5)
    crawl.write(99)
    crawl.committer.abandon()
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    crawl.store.is_away = False
    assert crawl.commit() == 5
    crawl.committer.close()
    assert urls_in(crawl.data) == {f"p0/{number}": 1 for number in range(1, 6)}
    assert crawl.store.finished == dict.fromkeys(range(1, 6), 1)


def test_closing_while_the_store_is_away_leaves_the_commit_to_recovery(crawl: Crawl) -> None:
    crawl.done(1, 2, 3, 4)
    crawl.store.is_away = True
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    crawl.committer.close()
    crawl.store.is_away = False
    crawl.recover()
    assert urls_in(crawl.data) == {f"p0/{number}": 1 for number in range(1, 5)}
    assert crawl.store.finished == dict.fromkeys(range(1, 5), 1)
    assert not crawl.segment(4).exists()


@pytest.mark.parametrize("room", range(0, 1_700, 50))
def test_a_disk_that_is_full_for_a_while_loses_and_doubles_nothing(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    really, left = os.write, [room]

    def write(descriptor: int, data: memoryview) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "full")
        left[0] -= (written := really(descriptor, data[: left[0]]))
        return written

    monkeypatch.setattr(os, "write", write)
    failures = 0
    for number in (1, 2, 3):
        for step in (lambda number=number: crawl.done(number), crawl.commit):
            try:
                step()
            except OSError:
                failures += 1
                crawl.committer.abandon()
                left[0] = 1 << 30
                step()
    assert failures == 1
    crawl.committer.close()
    assert urls_in(crawl.data) == {"p0/1": 1, "p0/2": 1, "p0/3": 1}
    assert crawl.store.finished == {1: 1, 2: 1, 3: 1}


def test_another_sink_that_fails_takes_the_segment_out_of_all_of_them(tmp_path: Path) -> None:
    class Failing:
        """Cannot mark its second segment."""

        marks = 0

        def write(self, record: PageRecord) -> None: ...

        def mark(self) -> Mark:
            self.marks += 1
            if self.marks == 2:
                raise OSError(errno.EIO, "broken")
            return ()

        def rollback(self, mark: Mark) -> None: ...

        def after_commit(self, mark: Mark) -> None: ...

    crawl = Crawl(tmp_path, file_bytes=1)
    crawl.committer = Committer(tmp_path, "p0", crawl.store, [crawl.sink, Failing()])
    crawl.done(1)
    with pytest.raises(OSError, match="broken"):
        crawl.done(2)
    crawl.committer.abandon()
    crawl.done(3)
    crawl.commit()
    crawl.committer.close()
    assert urls_in(tmp_path) == {"p0/1": 1, "p0/3": 1}


def test_an_open_file_that_is_too_short_is_refused_and_never_padded(crawl: Crawl) -> None:
    crawl.done(1)
    crawl.commit()
    [path] = (crawl.data / "pages").glob("*.open")
    shorter = path.read_bytes()[:-1]
    path.write_bytes(shorter)
    with pytest.raises(GossamerError, match=r"000000\.jsonl\.open is \d+ bytes long, and \d+ were written"):
        crawl.recover()
    assert path.read_bytes() == shorter
    with pytest.raises(GossamerError, match="something else has cut it"):
        crawl.done(2)
    path.unlink()
    crawl.recover()


def test_a_record_that_cannot_be_read_is_refused(crawl: Crawl) -> None:
    crawl.done(1)
    crawl.commit()
    (crawl.data / "commit" / "p0.json").write_bytes(b"{")
    with pytest.raises(GossamerError, match=r"p0\.json is not a commit record"):
        crawl.recover()


def test_recovery_of_one_parser_leaves_the_others_alone(tmp_path: Path) -> None:
    dead, alive = Crawl(tmp_path, "p1", file_bytes=10_000), Crawl(tmp_path, "p11", file_bytes=10_000)
    for crawl in (dead, alive):
        crawl.done(1)
        crawl.commit()
        crawl.done(2)
    dead.recover()
    assert urls_in(tmp_path) == {"p1/1": 1}
    alive.done(3)
    assert alive.commit() == 2
    alive.committer.close()
    assert urls_in(tmp_path) == {"p1/1": 1, "p11/1": 1, "p11/2": 1, "p11/3": 1}
    assert alive.segment(2).exists() is False
    assert dead.segment(2).exists()


def test_a_parser_that_lives_again_in_the_same_run_overwrites_nothing(tmp_path: Path) -> None:
    for life in range(3):
        crawl = Crawl(tmp_path, file_bytes=1)
        crawl.done(10 * life, 10 * life + 1)
        crawl.commit()
        crawl.done(10 * life + 2)
        crawl.recover()
    assert urls_in(tmp_path) == {f"p0/{number}": 1 for number in (0, 1, 10, 11, 20, 21)}


class Killed(BaseException):
    """The process is gone. Nothing of ours may catch this."""


class Mortal:
    """Lets a process live for so many changes of the file system and of the store; the last one may be done by half."""

    OPERATIONS = ("open", "write", "fsync", "rename", "unlink", "truncate", "ftruncate", "mkdir", "rmdir")

    def __init__(self) -> None:
        self.left = 1 << 62

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def install(self, patched: pytest.MonkeyPatch) -> None:
        for name in self.OPERATIONS:
            patched.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, really: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            if name == "write" and self.left == 0:
                really(arguments[0], arguments[1][: len(arguments[1]) // 2])
            self.step()
            return None if name == "fsync" else really(*arguments, **named)

        return operation


class MortalStore(ModelStore):
    """The store outlives its callers: one may be killed before a call arrives, or before its answer does."""

    def __init__(self, mortal: Mortal) -> None:
        super().__init__(slots=4, clock=lambda: 100.0)
        self.mortal = mortal

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        self.mortal.step()
        refused = await super().spool(segment, moves)
        self.mortal.step()
        return refused

    async def finish(self, finished: Sequence[Finished]) -> None:
        self.mortal.step()
        await super().finish(finished)
        self.mortal.step()

    async def unspool(self, segment: str) -> None:
        self.mortal.step()
        await super().unspool(segment)
        self.mortal.step()


async def admit_all(store: ModelStore) -> None:
    sites = [f"site{number}.example" for number in range(SITES)]
    await store.admit([Candidate(f"https://{site}/", site, number) for number, site in enumerate(sites)], AdmitLimits())


def outcome_of(lease: Lease) -> tuple[Outcome, Move]:
    """Every second URL needs two attempts; some are no page."""
    if lease.fingerprint % 2 and not lease.attempt:
        result, reason, destination = Result.RETRY, Reason.TIMEOUT, Destination.TAIL
    elif lease.fingerprint % NO_PAGE_EVERY == 0:
        result, reason, destination = Result.DONE, Reason.STATUS, Destination.OUTCOME
    else:
        result, reason, destination = Result.DONE, Reason.PAGE, Destination.PAGE
    return Outcome(lease, result, reason, 0.0, body=b"x" * 50), Move(lease, destination, reason)


async def fetch_some(store: ModelStore, writer: SegmentWriter, owner: str) -> bool:
    """One segment, if anything is to be had."""
    slots = await store.own(owner, range(4), now=100.0, until=100.0, delay_seconds=0.0)
    given = await store.lease(str(random.random()), slots, 3, now=100.0, delay_seconds=0.0, max_pages=0)
    for lease in given.leases:
        outcome, move = outcome_of(lease)
        writer.add(outcome, move)
        await store.release([Release(lease, was_requested=True, not_before=0.0, clock=lease.clock)])
    closed = writer.close_segment()
    if closed is not None:
        closed.publish(await store.spool(closed.id, closed.moves))
    return closed is not None


async def live(data: Path, store: ModelStore, run: int) -> None:
    """A whole crawl in one process: fetcher and parser take turns, a commit is made after every second segment."""
    spool = SpoolDirectory(data / "spool")
    writer = SegmentWriter(spool, run, 0)
    sink = JsonLinesSink(data, run, "p0", FILE_BYTES)
    committer = Committer(data, "p0", store, [sink])
    segments = 0
    while await fetch_some(store, writer, f"f{run}") or spool.backlog().pages:
        path = spool.claim("p0")
        if path is None:
            continue
        finished = []
        segments += 1
        for outcome in read_segment(path):
            if outcome.result is Result.RETRY:
                continue
            lease = outcome.lease
            if outcome.is_page:
                sink.write(made_record(lease.url))
            finished.append(
                Finished(segment_id(path), lease.number, lease.slot, lease.site, lease.fingerprint, outcome.reason, 50)
            )
        if segments == 3 and path.parent.name == "p0":
            committer.abandon()
            spool.publish(path)
            continue
        committer.segment_done(path, finished)
        if segments % 2:
            await committer.commit()
    await committer.commit()
    committer.close()


async def recover_all(data: Path, store: ModelStore) -> None:
    spool = SpoolDirectory(data / "spool")
    spool.create()
    await recover(data, store)
    return_claimed(spool)
    await recover_open(spool, store)
    await recover_lost(spool, store)


async def check_recovered(data: Path, store: ModelStore) -> None:
    """The files hold what the store counts as pages; each segment that it knows is ready, and no other is."""
    found = urls_in(data)
    assert urls_in(data, "*.open") == {}
    assert set(found.values()) <= {1}
    assert found.total() == (await store.counts(now=100.0)).pages
    spool = SpoolDirectory(data / "spool")
    ready = {name.id: read_segment(spool.ready / str(name)) for name in segments_in(spool.ready)}
    spooled = {
        segment: {outcome.lease.number for outcome in outcomes if outcome.result is not Result.RETRY}
        for segment, outcomes in ready.items()
    }
    known = {segment: await store.spooled(segment) for segment in await store.segments()}
    assert {segment: numbers for segment, numbers in spooled.items() if numbers} == known
    assert list(spool.open.iterdir()) == []


async def check_finished(data: Path, store: ModelStore) -> None:
    await check_recovered(data, store)
    counts = await store.counts(now=100.0)
    assert counts.finished == counts.admitted == SITES
    pages = {f"https://site{number}.example/": 1 for number in range(SITES) if number % NO_PAGE_EVERY}
    assert urls_in(data) == pages
    assert [path.name for path in (data / "commit").iterdir()] == []


def lives(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    for steps in range(10_000):
        data = tmp_path / str(steps)
        data.mkdir()
        yield steps, data


def test_a_crawl_killed_at_any_step_has_each_page_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery is killed too, after one step, then after two, and so on until it gets through."""
    mortal = Mortal()
    mortal.install(monkeypatch)
    survived = 0
    for steps, data in lives(tmp_path):
        mortal.left = 1 << 62
        store = MortalStore(mortal)
        asyncio.run(admit_all(store))
        asyncio.run(recover_all(data, store))
        is_dead = False
        try:
            mortal.left = steps
            asyncio.run(live(data, store, 1))
        except Killed:
            is_dead = True
        for more in range(1_000):
            try:
                mortal.left = more
                asyncio.run(recover_all(data, store))
                break
            except Killed:
                continue
        mortal.left = 1 << 62
        asyncio.run(check_recovered(data, store))
        asyncio.run(live(data, store, 2))
        asyncio.run(check_finished(data, store))
        survived += not is_dead
        if survived:
            break
    assert survived
    assert steps > 100, "the scenario has too few steps to show anything"


CHILD = """
import asyncio, os, sys
from pathlib import Path
from gossamer.records import Finished, Reason
from gossamer.sinks.commit import Committer
from gossamer.sinks.jsonl import JsonLinesSink
from tests.contract.test_commit import made_record

class Journal:
    async def finish(self, finished):
        with open(data / "finished", "ab", buffering=0) as file:
            file.write(b"".join(b"%d\\n" % done.number for done in finished))

async def main():
    sink = JsonLinesSink(data, int(sys.argv[2]), "p0", 20_000)
    committer = Committer(data, "p0", Journal(), [sink])
    claimed = data / "claimed"
    for path in sorted(claimed.iterdir()):
        number = int(path.stem)
        sink.write(made_record(f"p0/{number}"))
        committer.segment_done(path, [Finished(path.stem, number, 0, "example", number, Reason.PAGE, 1)])
        if number % 3 == 0:
            await committer.commit()
        print(number, flush=True)

data = Path(sys.argv[1])
asyncio.run(main())
"""


class FileJournal:
    """Finished numbers in a file, as the child keeps them; finishing again changes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def finish(self, finished: Sequence[Finished]) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(b"%d\n" % done.number for done in finished))


def test_a_parser_process_that_is_killed_for_real_loses_and_doubles_no_page(tmp_path: Path) -> None:
    segments = 2_000
    (tmp_path / "claimed").mkdir()
    for number in range(segments):
        (tmp_path / "claimed" / f"{number:06d}.seg").write_bytes(b"")
    chance = random.Random(4)
    for run in range(1, 5):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(run)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(chance.uniform(0.01, 0.1))
            child.kill()
        assert child.returncode == -9, "it was done before it could be killed"
        asyncio.run(recover(tmp_path, FileJournal(tmp_path / "finished")))
        finished = {int(line) for line in (tmp_path / "finished").read_text().split()}
        left = {int(path.stem) for path in (tmp_path / "claimed").iterdir()}
        assert urls_in(tmp_path) == {f"p0/{number}": 1 for number in finished}
        assert left == set(range(segments)) - finished
