"""A commit is all or nothing, wherever the process that makes it is killed: each page is in the files exactly once."""

import asyncio
import copy
import errno
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.store import AdmitLimits
from gossamer.records import Answer, Candidate, Destination, Finished, Lease, Move, Outcome, Reason, Release, Result
from gossamer.sinks import parquet, parts
from gossamer.sinks.commit import OUTPUT_DIRECTORIES, Committer, recover
from gossamer.sinks.log import LogSink
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.parts import committed_parts
from gossamer.sinks.sink import Entry, Mark, PageRecord, Prepared, Sink
from gossamer.sinks.warc import WarcSink
from gossamer.spool.directory import SpoolDirectory, segments_in
from gossamer.spool.recovery import recover_lost, recover_open, recover_ready, return_claimed
from gossamer.spool.segment import read_segment, segment_id
from gossamer.spool.writer import SegmentWriter
from gossamer.testing.stores.model import ModelStore
from gossamer.url import Url, canonicalise

SITES = 8
NO_PAGE_EVERY = 5
#: Three or four pages: archives rotate all the time, and the last one is not full.
FILE_BYTES = 2_500


def url_of(parser: str, number: int) -> str:
    return f"https://{parser}.example/{number}"


def made_lease(url: str) -> Lease:
    return Lease(1, 0, 1, url, "example", 1, 1, 0, False, 0, 0)


def made_entry(outcome: Outcome) -> Entry:
    """Of any outcome; only the lease's URL and what became of it are looked at."""
    lease = outcome.lease
    url = canonicalise(lease.url)
    assert isinstance(url, Url)
    if outcome.result is Result.RETRY or not outcome.is_page:
        return Entry(outcome, outcome.reason)
    answer = Answer(
        url=url.text,
        fetched_at=1_700_000_000.5,
        request=b"GET / HTTP/1.1\r\n\r\n",
        status_line=b"HTTP/1.1 200 OK",
        status=200,
        headers=((b"Content-Type", b"text/html"),),
        body=url.text.encode(),
        address="192.0.2.1",
    )
    page = PageRecord(
        url=url,
        media_type="text/html",
        media_type_detected="",
        charset="UTF-8",
        truncated="",
        decoded_bytes=20,
        title='“Title”\n"2"',
        description="",
        language="en",
        canonical=None,
        robots=("noindex",),
        noindex=True,
        nofollow=False,
        links=3,
        text=b"line one\nline two",
        main_text=None,
    )
    whole = Outcome(lease, outcome.result, outcome.reason, 1_700_000_000.5, answer=answer, address="192.0.2.1")
    return Entry(whole, Reason.PAGE, page)


def made_page(url: str) -> Entry:
    return made_entry(Outcome(made_lease(url), Result.DONE, Reason.PAGE, 0.0))


def all_sinks(data: Path, parser: str, *, run: int = 1, file_bytes: int = FILE_BYTES) -> list[Sink]:
    return [
        WarcSink(data, run=run, parser=parser, index=0, file_bytes=file_bytes, facts={"software": "a test"}),
        PagesSink(data, parser=parser, crawl="a test"),
        LogSink(data, parser=parser),
    ]


def columns_of(data: Path, directory: str, prefix: str, *columns: str) -> list[tuple[Any, ...]]:
    """Of all parts that count."""
    found: list[tuple[Any, ...]] = []
    for path in committed_parts(data / directory, prefix):
        with pq.ParquetFile(path) as file:
            table = file.read(list(columns), use_threads=False)
        found += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return found


def tabled(data: Path) -> Counter[str]:
    return Counter(url for (url,) in columns_of(data, "pages", "part", "url"))


def logged(data: Path) -> Counter[tuple[str, str]]:
    """URLs with what became of them."""
    return Counter(columns_of(data, "log", "fetches", "url", "outcome"))


def urls_in(data: Path) -> Counter[str]:
    """The pages that the files hold, when none is open: all sinks must agree."""
    assert open_files(data) == []
    found = tabled(data)
    archived: Counter[str] = Counter()
    for index in (data / "index").glob("*.cdxj"):
        for line in index.read_bytes().splitlines():
            fields = json.loads(line.split(b" ", 2)[2])
            assert fields["filename"] == f"warc/{index.stem}.warc.gz"
            assert (data / fields["filename"]).stat().st_size >= int(fields["offset"]) + int(fields["length"])
            archived[fields["url"]] += 1
    assert archived == found
    return found


def open_files(data: Path) -> list[Path]:
    return [path for directory in OUTPUT_DIRECTORIES for path in (data / directory).glob("*.open")]


class Journal:
    """A store that only remembers what was finished."""

    def __init__(self) -> None:
        self.finished: Counter[int] = Counter()
        self.is_away = False

    async def sync(self) -> None: ...

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
        self.sinks = all_sinks(data, parser, run=run, file_bytes=file_bytes)
        self.committer = Committer(data, parser, self.store, self.sinks)

    def segment(self, number: int) -> Path:
        return self.data / "spool" / "claimed" / self.parser / f"{number}.seg"

    def write(self, number: int) -> None:
        entry = made_page(url_of(self.parser, number))
        for sink in self.sinks:
            sink.write(entry)
            sink.flush()

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


def pages(*numbers: int, parser: str = "p0") -> dict[str, int]:
    return {url_of(parser, number): 1 for number in numbers}


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path)


@pytest.fixture
def two_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every commit replaces parts."""
    monkeypatch.setattr(parts, "MERGED_PARTS", 2)


def test_a_commit_finishes_urls_deletes_segments_and_says_how_many_pages(crawl: Crawl) -> None:
    crawl.done(1, 2, 3)
    assert crawl.commit() == 3
    assert crawl.commit() == 0
    assert crawl.store.finished == {1: 1, 2: 1, 3: 1}
    assert not any(crawl.segment(number).exists() for number in (1, 2, 3))


def test_files_get_their_final_names_only_by_a_commit(crawl: Crawl) -> None:
    def named() -> set[str]:
        return {path.parent.name for path in crawl.data.glob("*/*") if path.suffix in {".parquet", ".gz", ".cdxj"}}

    crawl.done(*range(10))
    assert named() == set()
    crawl.commit()
    assert tabled(crawl.data) == pages(*range(10))
    assert named() == set(OUTPUT_DIRECTORIES)
    crawl.done(10)
    crawl.commit()
    crawl.committer.close()
    assert urls_in(crawl.data) == pages(*range(11))


def test_an_abandoned_segment_leaves_no_trace(crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor if much of it is on the disk: a segment may be larger than what is kept in memory."""
    monkeypatch.setattr(parquet, "GROUP_WEIGHT", 30 * parquet.ROW_WEIGHT)
    crawl.done(1)
    for number in range(2_000, 2_100):
        crawl.write(number)
    assert len(list((crawl.data / "pages").glob("*.open"))) == 2, "the segment before it, and this one"
    crawl.committer.abandon()
    assert len(list((crawl.data / "pages").glob("*.open"))) == 1
    crawl.done(2)
    crawl.commit()
    for number in range(3_000, 3_050):
        crawl.write(number)
    crawl.committer.close()
    assert urls_in(crawl.data) == pages(1, 2)
    assert set(logged(crawl.data)) == {(url, "done") for url in pages(1, 2)}


def test_what_is_done_and_not_committed_is_cut_off_at_the_end(crawl: Crawl) -> None:
    crawl.done(1)
    crawl.commit()
    crawl.done(*range(2, 9))
    crawl.committer.close()
    assert urls_in(crawl.data) == pages(1)
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
    assert urls_in(crawl.data) == pages(*range(1, 6))
    assert crawl.store.finished == dict.fromkeys(range(1, 6), 1)


def test_closing_while_the_store_is_away_leaves_the_commit_to_recovery(crawl: Crawl) -> None:
    crawl.done(1, 2, 3, 4)
    crawl.store.is_away = True
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    crawl.committer.close()
    crawl.store.is_away = False
    crawl.recover()
    assert urls_in(crawl.data) == pages(*range(1, 5))
    assert crawl.store.finished == dict.fromkeys(range(1, 5), 1)
    assert not crawl.segment(4).exists()


#: What five commits write, merged parts included, is more than this.
ROOM_BYTES = 100_000


@pytest.mark.parametrize("room", range(0, ROOM_BYTES, ROOM_BYTES // 16))
@pytest.mark.usefixtures("two_are_merged")
def test_a_disk_that_is_full_for_a_while_loses_and_doubles_nothing(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """A merged part that finds no room is left out, and the commit is made without it."""
    really, left, failures = os.write, [room], 0

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal failures
        if not left[0]:
            failures += 1
            raise OSError(errno.ENOSPC, "full")
        left[0] -= (written := really(descriptor, data[: left[0]]))
        return written

    monkeypatch.setattr(os, "write", write)
    for number in range(1, 6):
        for step in (lambda number=number: crawl.done(number), crawl.commit):
            try:
                step()
            except OSError:
                crawl.committer.abandon()
                left[0] = 1 << 30
                step()
    assert failures
    crawl.committer.close()
    assert urls_in(crawl.data) == pages(*range(1, 6))
    assert logged(crawl.data) == {(url, "done"): 1 for url in pages(*range(1, 6))}
    assert crawl.store.finished == dict.fromkeys(range(1, 6), 1)


def test_another_sink_that_fails_takes_the_segment_out_of_all_of_them(tmp_path: Path) -> None:
    class Failing:
        """Cannot mark its second segment."""

        marks = 0

        def write(self, entry: Entry) -> None: ...

        def flush(self) -> None: ...

        def mark(self) -> Mark:
            self.marks += 1
            if self.marks == 3:
                raise OSError(errno.EIO, "broken")
            return ()

        def rollback(self, mark: Mark) -> None: ...

        def prepare(self) -> Prepared:
            return Prepared()

        def after_commit(self) -> None: ...

    crawl = Crawl(tmp_path, file_bytes=1)
    crawl.sinks.append(Failing())
    crawl.committer = Committer(tmp_path, "p0", crawl.store, crawl.sinks)
    crawl.done(1)
    with pytest.raises(OSError, match="broken"):
        crawl.done(2)
    crawl.committer.abandon()
    crawl.done(3)
    crawl.commit()
    crawl.committer.close()
    assert urls_in(tmp_path) == pages(1, 3)


def test_an_open_file_that_is_too_short_is_refused_and_never_padded(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, file_bytes=100_000)
    crawl.done(1)
    crawl.commit()
    [path] = (crawl.data / "warc").glob("*.open")
    shorter = path.read_bytes()[:-1]
    path.write_bytes(shorter)
    with pytest.raises(GossamerError, match=r"\.warc\.gz\.p0\.open is \d+ bytes long, and \d+ were written"):
        crawl.recover()
    assert path.read_bytes() == shorter
    crawl.done(2)
    with pytest.raises(GossamerError, match="something else has cut it"):
        crawl.commit()
    path.unlink()
    crawl.recover()
    assert tabled(crawl.data) == pages(1)


def test_a_part_of_a_table_that_is_too_short_is_refused(crawl: Crawl) -> None:
    crawl.store.is_away = True
    crawl.done(1)
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    [path] = (crawl.data / "pages").glob("*.parquet")
    is_open = path.rename(path.with_name(f"{path.name}.p0.open"))  # as it was a moment before
    is_open.write_bytes(is_open.read_bytes()[:-1])
    with pytest.raises(GossamerError, match="something else has cut it"):
        crawl.recover()


def test_a_record_that_cannot_be_read_is_refused(crawl: Crawl) -> None:
    crawl.done(1)
    crawl.commit()
    (crawl.data / "commit" / "p0.json").write_bytes(b"{")
    with pytest.raises(GossamerError, match=r"p0\.json is not a commit record"):
        crawl.recover()


def test_recovery_of_one_parser_leaves_the_others_alone(tmp_path: Path) -> None:
    dead, alive = Crawl(tmp_path, "p1", file_bytes=100_000), Crawl(tmp_path, "p11", file_bytes=100_000, run=2)
    for crawl in (dead, alive):
        crawl.done(1)
        crawl.commit()
        crawl.done(2)
    dead.recover()
    assert [path.name.split(".")[-2] for path in open_files(tmp_path)] == ["p11", "p11"]
    assert tabled(tmp_path) == pages(1, parser="p1") | pages(1, parser="p11")
    alive.done(3)
    assert alive.commit() == 2
    alive.committer.close()
    assert urls_in(tmp_path) == pages(1, parser="p1") | pages(1, 2, 3, parser="p11")
    assert alive.segment(2).exists() is False
    assert dead.segment(2).exists()


@pytest.mark.usefixtures("two_are_merged")
def test_two_parsers_merge_each_their_own_parts(tmp_path: Path) -> None:
    one, other = Crawl(tmp_path, "parser-1"), Crawl(tmp_path, "parser-10", run=2)
    for number in range(8):
        for crawl in (one, other):
            crawl.done(number)
            crawl.commit()
    for crawl in (one, other):
        crawl.committer.close()
    assert urls_in(tmp_path) == pages(*range(8), parser="parser-1") | pages(*range(8), parser="parser-10")
    for directory in ("pages", "log"):
        assert len(list((tmp_path / directory).iterdir())) <= 8, "they were not merged"


def test_a_parser_that_lives_again_in_the_same_run_overwrites_nothing(tmp_path: Path) -> None:
    for life in range(3):
        crawl = Crawl(tmp_path, file_bytes=1)
        crawl.done(10 * life, 10 * life + 1)
        crawl.commit()
        crawl.done(10 * life + 2)
        crawl.recover()
    assert urls_in(tmp_path) == pages(0, 1, 10, 11, 20, 21)


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


class ForgetfulStore(MortalStore):
    """A store whose machine loses its power together with the crawl's: what it has not synced by then, it forgets."""

    def __init__(self, mortal: Mortal, *, is_honest: bool = True) -> None:
        super().__init__(mortal)
        self._is_honest = is_honest
        self.all_is_on_disk()

    def _remembered(self) -> dict[str, Any]:
        kept = {"mortal", "clock", "_on_disk", "_is_honest"}
        return copy.deepcopy({name: value for name, value in vars(self).items() if name not in kept})

    def all_is_on_disk(self) -> None:
        self._on_disk = self._remembered()

    async def sync(self) -> None:
        self.mortal.step()
        if self._is_honest:
            self.all_is_on_disk()
        self.mortal.step()

    def lose_power(self) -> None:
        vars(self).update(copy.deepcopy(self._on_disk))


async def admit_all(store: ModelStore) -> None:
    sites = [f"site{number}.example" for number in range(SITES)]
    await store.admit(
        [Candidate(f"https://{site}/", site, number) for number, site in enumerate(sites)], AdmitLimits(), now=0.0
    )


def outcome_of(lease: Lease) -> tuple[Outcome, Move]:
    """Every second URL needs two attempts; some are no page."""
    if lease.fingerprint % 2 and not lease.attempt:
        result, reason, destination = Result.RETRY, Reason.TIMEOUT, Destination.TAIL
    elif lease.fingerprint % NO_PAGE_EVERY == 0:
        result, reason, destination = Result.DONE, Reason.STATUS, Destination.OUTCOME
    else:
        result, reason, destination = Result.DONE, Reason.PAGE, Destination.PAGE
    return Outcome(lease, result, reason, 0.0), Move(lease, destination, reason)


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
    sinks = all_sinks(data, "p0", run=run)
    committer = Committer(data, "p0", store, sinks)
    segments = 0
    while await fetch_some(store, writer, f"f{run}") or spool.backlog().pages:
        path = spool.claim("p0")
        if path is None:
            continue
        finished = []
        segments += 1
        for outcome in read_segment(path):
            entry = made_entry(outcome)
            for sink in sinks:
                sink.write(entry)
                sink.flush()
            if outcome.result is Result.RETRY:
                continue
            lease = outcome.lease
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
    await store.sync()
    committer.close()


async def recover_all(data: Path, store: ModelStore) -> None:
    spool = SpoolDirectory(data / "spool")
    spool.create()
    await recover(data, store)
    return_claimed(spool)
    await recover_open(spool, store)
    await recover_ready(spool, store)
    await recover_lost(spool, store)


async def check_recovered(data: Path, store: ModelStore) -> None:
    """The files hold what the store counts as pages; each segment that it knows is ready, and no other is."""
    found = urls_in(data)
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
    urls = [f"https://site{number}.example/" for number in range(SITES)]
    assert urls_in(data) == {url: 1 for number, url in enumerate(urls) if number % NO_PAGE_EVERY}
    attempts = logged(data)
    assert {url: attempts.pop((url, "done")) for url in urls} == dict.fromkeys(urls, 1)
    assert set(attempts) <= {(url, "retry") for number, url in enumerate(urls) if number % 2}
    assert [path.name for path in (data / "commit").iterdir()] == []


def lives(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    for steps in range(10_000):
        data = tmp_path / str(steps)
        data.mkdir()
        yield steps, data


@pytest.mark.timeout(600)
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


class Recorder:
    """What is done to files, in its order: an operation and a path below the data directory."""

    def __init__(self, data: Path, patched: pytest.MonkeyPatch) -> None:
        self._data = data
        self.done: list[tuple[str, str]] = []
        for name in ("write", "fsync", "rename", "unlink", "truncate"):
            patched.setattr(os, name, self._noted(name, getattr(os, name)))

    def _noted(self, name: str, really: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            where = arguments[1] if name == "rename" else arguments[0]
            path = Path(f"/proc/self/fd/{where}").readlink() if isinstance(where, int) else Path(where)
            if path.is_relative_to(self._data):
                self.done.append((name, path.relative_to(self._data).as_posix()))
            return really(*arguments, **named)

        return operation

    def last(self, name: str, path: str, before: int) -> int:
        """When it was done last before this moment; -1 if never."""
        return max((place for place, one in enumerate(self.done[:before]) if one == (name, path)), default=-1)


def test_what_a_commit_relies_on_is_synced_before_it_relies_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(tmp_path, file_bytes=20_000)
    recorder = Recorder(tmp_path, monkeypatch)
    segments = 0
    for number in range(0, 40, 2):
        crawl.done(number, number + 1)
        crawl.commit()
    done = recorder.done
    for place, (operation, path) in enumerate(done):
        if (operation, path) == ("rename", "commit/p0.json"):
            # The record, and every file that was written since the last one, with the entries of all of them.
            before = recorder.last("rename", "commit/p0.json", place)
            written = {one for name, one in done[before + 1 : place] if name in {"write", "truncate"}}
            assert "commit/p0.new" in written
            for one in written:
                if not one.startswith("spool/"):
                    assert recorder.last("fsync", one, place) > recorder.last("write", one, place), one
            for directory in {one.partition("/")[0] for one in written} - {"spool", "commit"}:
                assert recorder.last("fsync", directory, place) > before, directory
        elif operation == "unlink" and path.startswith("spool/"):
            segments += 1
            assert recorder.last("fsync", "commit", place) > recorder.last("rename", "commit/p0.json", place)
    assert segments == 40
    assert recorder.last("fsync", ".", len(done)) >= 0, "the directories that the first commit made"


def test_names_of_closed_files_are_synced_also_when_the_first_attempt_to_close_them_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(tmp_path)
    crawl.done(0, 1)
    crawl.commit()

    def fails(_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as short:
        short.setattr("gossamer.sinks.commit.sync_entries", fails)
        with pytest.raises(OSError, match="too many open files"):
            crawl.committer.close()
    recorder = Recorder(tmp_path, monkeypatch)
    crawl.committer.close()
    gone = recorder.last("unlink", "commit/p0.json", len(recorder.done))
    assert gone > recorder.last("fsync", "warc", gone) >= 0


def crawl_that_loses_power(data: Path, mortal: Mortal, steps: int, *, is_honest: bool) -> bool:
    """After so many steps, and then again in each recovery after one step more; whether the crawl came so far.

    What was done to files is on the disk, whether it was synced or not: so the store is behind them as far as it may.
    """
    mortal.left = 1 << 62
    store = ForgetfulStore(mortal, is_honest=is_honest)
    asyncio.run(admit_all(store))
    store.all_is_on_disk()
    asyncio.run(recover_all(data, store))
    is_dead = is_killed(mortal, steps, lambda: asyncio.run(live(data, store, 1)))
    store.lose_power()
    more = 0
    while is_killed(mortal, more, lambda: asyncio.run(recover_all(data, store))):
        store.lose_power()
        more += 1
    asyncio.run(check_recovered(data, store))
    asyncio.run(live(data, store, 2))
    asyncio.run(check_finished(data, store))
    return is_dead


@pytest.mark.timeout(600)
def test_a_crawl_whose_store_forgets_what_was_not_synced_has_each_page_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal = Mortal()
    mortal.install(monkeypatch)
    for steps, data in lives(tmp_path):
        if not crawl_that_loses_power(data, mortal, steps, is_honest=True):
            break
    assert steps > 100, "the scenario has too few steps to show anything"


def test_a_store_that_only_says_that_it_has_synced_has_pages_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    mortal = Mortal()
    mortal.install(monkeypatch)
    with pytest.raises(AssertionError):
        crawl_that_loses_power(tmp_path, mortal, 300, is_honest=False)


class Tables(Crawl):
    """A parser without archives, which have nothing to do with merging. Its store outlives it."""

    def __init__(self, data: Path, store: Journal) -> None:
        super().__init__(data)
        self.store = store
        self.sinks = self.sinks[1:]
        self.committer = Committer(data, self.parser, store, self.sinks)

    def done_and_committed(self, *numbers: int) -> None:
        for number in numbers:
            self.done(number)
            self.commit()


def is_killed(mortal: Mortal, steps: int, work: Callable[[], None]) -> bool:
    mortal.left = steps
    try:
        work()
    except Killed:
        return True
    finally:
        mortal.left = 1 << 62
    return False


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("two_are_merged")
def test_a_commit_that_merges_and_is_killed_at_any_step_leaves_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery is killed too. At every moment a reader finds what was committed before, each row once."""
    mortal = Mortal()
    mortal.install(monkeypatch)
    merged, small = "part-p0-000000-000001.parquet", "part-p0-000001-000001.parquet"
    seen_together = 0

    def look(data: Path) -> None:
        nonlocal seen_together
        assert tabled(data) in (pages(1, 2), pages(1, 2, 3))
        assert logged(data) in ({(url, "done"): 1 for url in urls} for urls in (pages(1, 2), pages(1, 2, 3)))
        seen_together += (data / "pages" / merged).exists() and (data / "pages" / small).exists()

    for steps, data in lives(tmp_path):
        store = Journal()
        crawl = Tables(data, store)
        crawl.done_and_committed(1, 2)
        is_dead = is_killed(mortal, steps, partial(crawl.done_and_committed, 3))
        look(data)
        more = 0
        while is_killed(mortal, more, crawl.recover):
            look(data)
            more += 1
        assert tabled(data) == (pages(1, 2, 3) if 3 in store.finished else pages(1, 2))
        Tables(data, store).done_and_committed(*([4] if 3 in store.finished else [3, 4]))
        assert (tabled(data), open_files(data)) == (pages(1, 2, 3, 4), [])
        if not is_dead:
            break
    assert steps > 30, "the scenario has too few steps to show anything"
    assert seen_together


CHILD = """
import asyncio, os, sys
from pathlib import Path
from gossamer.records import Finished, Reason
from gossamer.sinks.commit import Committer
from gossamer.sinks import parts
from tests.contract.test_commit import all_sinks, made_page, url_of

class Journal:
    async def sync(self):
        pass

    async def finish(self, finished):
        with open(data / "finished", "ab", buffering=0) as file:
            file.write(b"".join(b"%d\\n" % done.number for done in finished))

async def main():
    parts.MERGED_PARTS = 4
    sinks = all_sinks(data, "p0", run=int(sys.argv[2]), file_bytes=20_000)
    committer = Committer(data, "p0", Journal(), sinks)
    claimed = data / "claimed"
    for path in sorted(claimed.iterdir()):
        number = int(path.stem)
        entry = made_page(url_of("p0", number))
        for sink in sinks:
            sink.write(entry)
            sink.flush()
        committer.segment_done(path, [Finished(path.stem, number, 0, "example", number, Reason.PAGE, 1)])
        if number % 3 == 0:
            await committer.commit()
        # Long enough that the pipe holds few of them: the parent is never far behind.
        print(f"{number:01024}", flush=True)

data = Path(sys.argv[1])
asyncio.run(main())
"""


class FileJournal:
    """Finished numbers in a file, as the child keeps them; finishing again changes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def sync(self) -> None: ...

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
            for _ in range(chance.randint(1, 40)):
                assert child.stdout.readline()
            time.sleep(chance.uniform(0, 0.01))
            child.kill()
        assert child.returncode == -9, "it was done before it could be killed"
        asyncio.run(recover(tmp_path, FileJournal(tmp_path / "finished")))
        finished = {int(line) for line in (tmp_path / "finished").read_text().split()}
        left = {int(path.stem) for path in (tmp_path / "claimed").iterdir()}
        assert urls_in(tmp_path) == pages(*finished)
        assert left == set(range(segments)) - finished
