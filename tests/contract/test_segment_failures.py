"""Whatever a segment does to its reader, the crawl goes on: its URLs are finished, or go back to be fetched again."""

import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gossamer.config import ParseSettings, Settings
from gossamer.errors import CrashLoop
from gossamer.frontier.store import AdmitLimits, Store
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.parse.failures import FAILURES_IN_A_ROW
from gossamer.parse.note import Stage, read_note
from gossamer.records import Candidate, Destination, Move, Reason
from gossamer.sinks.commit import Committer, recover
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.sink import Entry, Prepared
from gossamer.spool.recovery import return_claimed
from gossamer.spool.segment import seal, segment_id
from gossamer.spool.suspects import Finding, Suspects
from tests.contract.test_parser import NAME, SLOTS, Crawl, crawl, model_store, page, sqlite_store
from tests.unit.test_segment_reader import write_segment

BAD = "http://bad.test/"


def sites(count: int) -> list[str]:
    return [f"http://s{number:02}.test/" for number in range(count)]


def quarantined(crawl: Crawl) -> list[str]:
    return [path.name.partition(".")[0] for path in (crawl.spool.root / "quarantine").iterdir()]


def written(crawl: Crawl) -> list[str]:
    return sorted(row["url"] for row in crawl.pages())


class WriteFails(PagesSink):
    """Cannot take one page."""

    def write(self, entry: Entry) -> None:
        if entry.page is not None and entry.outcome.lease.url == BAD:
            raise ValueError("a mistake in a sink")
        super().write(entry)


class CommitFails(PagesSink):
    """Takes every page, and notices only at the commit that one of them is too much for it."""

    bad_rows = 0

    def write(self, entry: Entry) -> None:
        self.bad_rows += entry.page is not None and entry.outcome.lease.url == BAD
        super().write(entry)

    def rollback(self, mark: tuple[int, ...]) -> None:
        self.bad_rows = 0
        super().rollback(mark)

    def prepare(self) -> Prepared:
        if self.bad_rows:
            raise ValueError("a mistake in a sink")
        return super().prepare()


class AdmissionFails(SqliteStore):
    """Fails over the links of one page."""

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, **more: float) -> list[Reason]:
        if any(candidate.via == BAD for candidate in candidates):
            raise ValueError("a mistake in a store")
        return await super().admit(candidates, limits, **more)


def admission_fails(data: Path) -> Store:
    return AdmissionFails(data / "frontier.db", SLOTS)


@pytest.mark.parametrize("make_store", [model_store, sqlite_store], ids=["model", "sqlite"])
def test_a_page_over_which_a_sink_raises_is_given_up_and_its_neighbours_are_pages(
    tmp_path: Path, make_store: Callable[[Path], Store]
) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(BAD, *sites(9))
        await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a>"))
        parser = await crawl.parse(
            Settings(parse=ParseSettings(parser_workers=8)), sinks=[WriteFails(tmp_path, parser=NAME, crawl="a test")]
        )
        assert written(crawl) == sites(9)
        assert await crawl.outcomes() == {"page": 9, "parse-crash": 1}
        assert (parser.statistics().parse_crashes, parser.statistics().failed_segments) == (1, 0)
        assert quarantined(crawl) == []

    crawl(tmp_path, make_store, story)


def test_a_page_over_whose_links_admission_raises_is_given_up_and_its_neighbours_are_pages(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(BAD, *sites(9))
        await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a>"))
        await crawl.parse()
        assert written(crawl) == sites(9)
        assert await crawl.outcomes() == {"page": 9, "parse-crash": 1}
        assert len(await crawl.lease()) == 9

    crawl(tmp_path, admission_fails, story)


def test_a_segment_that_cannot_be_committed_goes_back_and_those_committed_with_it_are_pages(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(*sites(3))
        await crawl.fetch(page)
        await crawl.admit(BAD)
        bad = await crawl.fetch(page)
        await crawl.admit("http://t.test/")
        await crawl.fetch(page)
        parser = await crawl.parse(sinks=[CommitFails(tmp_path, parser=NAME, crawl="a test")])
        assert written(crawl) == [*sites(3), "http://t.test/"]
        assert await crawl.outcomes() == {"page": 4}
        assert (quarantined(crawl), parser.statistics().failed_segments) == ([bad], 1)
        assert [lease.url for lease in await crawl.lease()] == [BAD]

    crawl(tmp_path, sqlite_store, story)


class ManyWritesFail(PagesSink):
    """Cannot take the pages of one site in each segment."""

    def write(self, entry: Entry) -> None:
        if entry.page is not None and "/bad" in entry.outcome.lease.url:
            raise ValueError("a mistake in a sink")
        super().write(entry)


def test_many_segments_that_fail_for_a_page_each_do_not_end_the_parser(tmp_path: Path) -> None:
    segments = FAILURES_IN_A_ROW + 3

    async def story(crawl: Crawl) -> None:
        for number in range(segments):
            await crawl.admit(f"http://bad{number}.test/bad", f"http://good{number}.test/")
            await crawl.fetch(page)
        await crawl.parse(sinks=[ManyWritesFail(tmp_path, parser=NAME, crawl="a test")])
        assert await crawl.outcomes() == {"page": segments, "parse-crash": segments}
        assert quarantined(crawl) == []

    crawl(tmp_path, model_store, story)


class EveryWriteFails(PagesSink):
    def write(self, entry: Entry) -> None:
        raise ValueError(f"a mistake in a sink: {entry.reason}")


def test_when_every_segment_fails_the_parser_gives_up_and_says_why(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        for number in range(FAILURES_IN_A_ROW + 3):
            await crawl.admit(f"http://s{number}.test/")
            await crawl.fetch(page)
        with pytest.raises(CrashLoop, match="a mistake in a sink"):
            await crawl.parse(sinks=[EveryWriteFails(tmp_path, parser=NAME, crawl="a test")])
        assert await crawl.finished() == 0
        assert read_note(crawl.note) is None
        # Nothing was thrown away for it: another version takes it up.
        return_claimed(crawl.spool)
        Suspects(crawl.spool.root).remove_all_but([])
        await crawl.parse()
        assert await crawl.outcomes() == {"page": FAILURES_IN_A_ROW + 3}

    crawl(tmp_path, model_store, story)


def test_nothing_of_a_segment_that_is_damaged_near_its_end_is_written(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(*sites(20))
        segment = await crawl.fetch(lambda lease: page(lease, b"<title>%b</title>" % lease.site.encode()))
        (path,) = crawl.spool.ready.iterdir()
        path.write_bytes(path.read_bytes().replace(b"<title>s19", b"<title>s91"))
        await crawl.parse(Settings(parse=ParseSettings(parser_workers=4)))
        assert (crawl.pages(), await crawl.finished(), quarantined(crawl)) == ([], 0, [segment])
        assert [lease.url for lease in await crawl.lease()] == sites(20)

    crawl(tmp_path, sqlite_store, story)


def test_a_segment_is_parsed_in_a_fraction_of_its_size(tmp_path: Path) -> None:
    body_bytes = 2 << 20

    async def story(crawl: Crawl) -> None:
        await crawl.admit(*sites(60))
        leases = await crawl.lease()
        # By hand: a writer makes none so large.
        path = write_segment(
            crawl.spool.open,
            (page(lease, lease.site.encode() * (body_bytes // 8), content_type="image/x") for lease in leases),
        )
        moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases]
        assert await crawl.store.spool(segment_id(path), moves) == set()
        seal(path, ())
        crawl.spool.publish(path)
        tracemalloc.start()
        try:
            await crawl.parse()
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert await crawl.outcomes() == {"page": 60}
        assert peak_bytes < 48 << 20

    crawl(tmp_path, model_store, story)


# Deaths. A parser is killed at a stage of one segment; the leader's part is played by the test.

DYING_PARSER = """
import asyncio, os, signal, sys
from pathlib import Path
from gossamer.parse.note import PageNote, Stage, read_note
from gossamer.sinks.commit import Committer
from gossamer.sinks.pages import PagesSink
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.segment import SegmentReader
from gossamer.frontier.stores.sqlite import SqliteStore
from tests.contract.test_parser import Crawl, sqlite_store

data, stage, victim = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def dying(method, where):
    def die(*arguments, **named):
        noted = read_note(data / "spool" / "claimed" / "parser-0.note")
        if noted is not None and noted.segment == victim and noted.stage is Stage[where]:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments, **named)
    return die

if stage == "SEGMENT":
    SegmentReader.next = dying(SegmentReader.next, stage)
elif stage == "SINKS":
    PagesSink.write = dying(PagesSink.write, stage)
elif stage == "COMMIT":
    PagesSink.prepare = dying(PagesSink.prepare, stage)
elif stage == "RETURN":
    SpoolDirectory.quarantine = dying(SpoolDirectory.quarantine, stage)

async def main() -> None:
    crawl = Crawl(data, sqlite_store(data))
    await crawl.store.open()
    async with crawl.parser() as parser:
        parser.be_careful(60)
        parser.drain(empty_spool=True)
        await parser.run()
    await crawl.store.close()

asyncio.run(main())
"""


def parse_until_death(data: Path, stage: Stage, victim: str) -> int:
    program = [sys.executable, "-c", DYING_PARSER, str(data), stage.name, victim]
    return subprocess.run(program, cwd=Path(__file__).parents[2], check=False).returncode


async def mend(crawl: Crawl) -> None:
    """What the leader does after the death of a parser."""
    noted = read_note(crawl.note)
    assert noted is not None
    Suspects(crawl.spool.root).add(noted.segment, Finding.PARSER_DIED)
    await recover(crawl.data, crawl.store, parser=NAME)
    return_claimed(crawl.spool, NAME)


@pytest.mark.parametrize("stage", [Stage.SEGMENT, Stage.SINKS, Stage.COMMIT])
def test_a_segment_on_which_two_parsers_die_is_set_aside_by_the_third(tmp_path: Path, stage: Stage) -> None:
    victims: list[str] = []

    async def fill(crawl: Crawl) -> None:
        await crawl.admit(*sites(3))
        await crawl.fetch(page)
        await crawl.admit(BAD)
        victims.append(await crawl.fetch(page))
        await crawl.admit("http://t.test/")
        await crawl.fetch(page)

    crawl(tmp_path, sqlite_store, fill)
    for _ in range(2):
        assert parse_until_death(tmp_path, stage, victims[0]) == -signal.SIGKILL
        crawl(tmp_path, sqlite_store, mend)
    assert parse_until_death(tmp_path, stage, victims[0]) == 0

    async def look(crawl: Crawl) -> None:
        assert written(crawl) == [*sites(3), "http://t.test/"]
        assert quarantined(crawl) == victims
        assert await crawl.outcomes() == {"page": 4}
        assert [lease.url for lease in await crawl.lease()] == [BAD]

    crawl(tmp_path, sqlite_store, look)


def test_a_death_between_unspool_and_quarantine_writes_no_page_twice(tmp_path: Path) -> None:
    victims: list[str] = []

    async def fill(crawl: Crawl) -> None:
        await crawl.admit(BAD)
        victims.append(await crawl.fetch(page))
        # Every parser finds that it had two deaths, and returns it.
        for _ in range(2):
            Suspects(crawl.spool.root).add(victims[0], Finding.PARSER_DIED)

    crawl(tmp_path, sqlite_store, fill)
    assert parse_until_death(tmp_path, Stage.RETURN, victims[0]) == -signal.SIGKILL

    async def restart(crawl: Crawl) -> None:
        # All processes are gone, and with them what the leader had to say about this death.
        await recover(crawl.data, crawl.store)
        return_claimed(crawl.spool)
        assert [lease.url for lease in await crawl.lease()] == [BAD]
        await crawl.parse()
        assert (crawl.pages(), await crawl.finished(), quarantined(crawl)) == ([], 0, victims)

    crawl(tmp_path, sqlite_store, restart)


def test_of_a_segment_that_had_deaths_only_what_the_store_still_has_there_is_parsed(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(*sites(2))
        segment = await crawl.fetch(page)
        Suspects(crawl.spool.root).add(segment, Finding.PARSER_DIED)
        await crawl.store.unspool(segment)
        await crawl.parse()
        assert (crawl.pages(), await crawl.finished()) == ([], 0)
        assert [lease.url for lease in await crawl.lease()] == sites(2)

    crawl(tmp_path, sqlite_store, story)


def test_what_is_committed_is_kept_when_a_later_commit_is_taken_back(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(page)
        sink = PagesSink(tmp_path, parser=NAME, crawl="a test")
        committer = Committer(tmp_path, NAME, crawl.store, [sink])
        assert (committer.abandon_all(), committer.segments, committer.is_decided) == ([], [], False)
        await crawl.parse()
        await crawl.admit(BAD)
        await crawl.fetch(page)
        await crawl.parse(sinks=[CommitFails(tmp_path, parser=NAME, crawl="a test")])
        assert written(crawl) == ["http://a.test/"]

    crawl(tmp_path, sqlite_store, story)
