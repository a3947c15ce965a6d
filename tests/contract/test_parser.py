"""The parser on a real spool, real sinks and each store: what is finished, what is written, what is admitted."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from gossamer.config import ParseSettings, ScopeSettings, Settings, SpoolSettings
from gossamer.errors import StoreUnavailable
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.refused_links import RefusedLinks
from gossamer.frontier.store import AdmitLimits, Store
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.parse.note import PageNote, Stage, read_note
from gossamer.parse.worker import Parser
from gossamer.records import Answer, Candidate, Destination, Lease, Move, Outcome, Reason, Release, Result, SiteClock
from gossamer.sinks.commit import Committer
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.parts import committed_parts
from gossamer.sinks.sink import Sink
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.suspects import Finding, Suspects
from gossamer.spool.writer import SEGMENT_OUTCOMES, SegmentWriter
from gossamer.testing.stores.model import ModelStore
from gossamer.url import Url, canonicalise

SLOTS = 4
NAME = "parser-0"
#: Kills the HTML library (1.15.4), and hides its depth; see parse/taming.py.
POISON = b"<div></x>" * 508 + b"<table><tfoot><tr></tfoot><a><p><a>"

Answers = Callable[[Lease], Outcome]
MakeStore = Callable[[Path], Store]


def model_store(_data: Path) -> Store:
    return ModelStore(SLOTS)


def sqlite_store(data: Path) -> Store:
    return SqliteStore(data / "frontier.db", SLOTS)


@pytest.fixture(params=[model_store, sqlite_store], ids=["model", "sqlite"])
def make_store(request: pytest.FixtureRequest) -> MakeStore:
    made: MakeStore = request.param
    return made


def seed(url: str) -> Candidate:
    found = canonicalise(url)
    assert isinstance(found, Url)
    return Candidate(found.text, found.site, found.fingerprint, is_seed=True)


def answer_to(lease: Lease, status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes = b"") -> Answer:
    line = f"HTTP/1.1 {status} Said".encode()
    return Answer(lease.url, 1.5e9, b"GET / HTTP/1.1\r\n\r\n", line, status, headers, body, address="192.0.2.1")


def page(lease: Lease, body: bytes = b"<title>Hello</title>", **headers: str) -> Outcome:
    given = {"content_type": "text/html"} | headers
    lines = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in given.items() if value)
    return Outcome(
        lease, Result.DONE, Reason.PAGE, 1.5e9, answer=answer_to(lease, 200, lines, body), address="192.0.2.1"
    )


def redirect(lease: Lease, location: str) -> Outcome:
    lines = ((b"Location", location.encode()),)
    return Outcome(lease, Result.DONE, Reason.REDIRECT, 1.5e9, answer=answer_to(lease, 301, lines))


def failure(lease: Lease, reason: Reason, result: Result = Result.DROPPED) -> Outcome:
    return Outcome(lease, result, reason, 1.5e9)


class Crawl:
    """A data directory whose spool is filled with answers made up by the test, as a fetcher fills it."""

    def __init__(self, data: Path, store: Store) -> None:
        self.data = data
        self.store = store
        self.spool = SpoolDirectory(data / "spool")
        self.note = self.spool.claimed / f"{NAME}.note"
        self._writer = SegmentWriter(self.spool, 1, 0)
        self._epochs: dict[int, int] = {}
        self._calls = 0

    async def begin(self) -> None:
        self.spool.create()
        await self.store.open()
        await self.store.begin_run(latest_not_before_seconds=1e6)
        now = await self.store.now()
        self._epochs = await self.store.own("test", range(SLOTS), now=now, until=now + 1000, delay_seconds=0)

    async def admit(self, *urls: str) -> None:
        answers = await self.store.admit([seed(url) for url in urls], AdmitLimits(), now=0.0)
        assert set(answers) == {Reason.NEW}

    async def lease(self, limit: int = SEGMENT_OUTCOMES) -> list[Lease]:
        """One URL of each site, in the order of their URLs."""
        self._calls += 1
        now = await self.store.now()
        answer = await self.store.lease(
            f"call {self._calls}", self._epochs, limit, now=now, delay_seconds=0, max_pages=0
        )
        await self.store.release([Release(lease, True, now, SiteClock()) for lease in answer.leases])
        return sorted(answer.leases, key=lambda lease: lease.url)

    async def fetch(self, answers: Answers) -> str:
        """All sites that have something queued are asked once; the id of the segment that comes of it."""
        for lease in await self.lease():
            outcome = answers(lease)
            destination = Destination.PAGE if outcome.is_page else Destination.OUTCOME
            if outcome.result is Result.RETRY:
                destination = Destination.TAIL
            self._writer.add(outcome, Move(lease, destination, outcome.reason))
        segment = self._writer.close_segment()
        assert segment is not None
        segment.publish(await self.store.spool(segment.id, segment.moves))
        return segment.id

    @asynccontextmanager
    async def parser(
        self, settings: Settings | None = None, *, sinks: Sequence[Sink] | None = None, parsers: int = 1
    ) -> AsyncIterator[Parser]:
        settings = settings or Settings()
        sinks = sinks or [PagesSink(self.data, parser=NAME, crawl="a test")]
        with closing(PageNote(self.note)) as note:
            yield Parser(
                name=NAME,
                settings=settings,
                store=self.store,
                spool=self.spool,
                committer=Committer(self.data, NAME, self.store, sinks),
                sinks=sinks,
                rules=AdmissionRules(settings.scope, Exclusions()),
                note=note,
                refused=RefusedLinks(),
                parsers=parsers,
            )

    async def parse(self, settings: Settings | None = None, *, sinks: Sequence[Sink] | None = None) -> Parser:
        """All that is ready."""
        async with self.parser(settings, sinks=sinks) as parser:
            parser.drain(empty_spool=True)
            await parser.run()
        return parser

    def pages(self) -> list[dict[str, Any]]:
        """What the sink holds for good."""
        rows: list[dict[str, Any]] = []
        for path in committed_parts(self.data / "pages", "part"):
            with pq.ParquetFile(path) as file:
                rows += file.read(use_threads=False).to_pylist()
        return rows

    async def outcomes(self) -> dict[str, int]:
        return (await self.store.counts(now=await self.store.now())).outcomes

    async def finished(self) -> int:
        return (await self.store.counts(now=await self.store.now())).finished


def crawl(data: Path, make_store: MakeStore, story: Callable[[Crawl], Coroutine[None, None, None]]) -> None:
    async def tell() -> None:
        told = Crawl(data, make_store(data))
        await told.begin()
        try:
            await story(told)
        finally:
            await told.store.close()

    asyncio.run(tell())


def noted_page(crawl: Crawl) -> tuple[str, int]:
    """Segment and index of the page in work."""
    noted = read_note(crawl.note)
    return (noted.segment, noted.page) if noted is not None and noted.stage is Stage.PAGE else ("", 0)


async def until(happened: Callable[[], bool]) -> None:
    """Looks at every turn of the event loop, so that nothing is missed that lasts only until the next page."""
    while not happened():  # noqa: ASYNC110 (the parser has no event for a test to wait for)
        await asyncio.sleep(0)


def test_a_page_is_written_its_links_are_queued_and_it_is_finished(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        body = b"<title>A page</title><p>Words</p><a href='//b.test/x'>b</a> <a href='mailto:x@y.test'>c</a>"
        await crawl.fetch(lambda lease: page(lease, body))
        statistics = (await crawl.parse()).statistics()
        (written,) = crawl.pages()
        assert (written["url"], written["title"], written["outlink_count"]) == ("http://a.test/", "A page", 2)
        assert written["text"].split() == ["Words", "b", "c"]
        assert await crawl.outcomes() == {"page": 1}
        (link,) = await crawl.lease()
        assert (link.url, link.depth, link.hops, link.is_seed) == ("http://b.test/x", 1, 0, False)
        assert (statistics.pages, statistics.outcomes, statistics.commits) == (1, 1, 1)
        assert (statistics.links_found, statistics.offered, statistics.admitted) == (2, 1, 1)
        assert statistics.refused == {"scheme": 1}

    crawl(tmp_path, make_store, story)


def test_a_redirect_leads_on_at_the_same_depth_and_its_seed_stays_one(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(lambda lease: redirect(lease, "https://b.test/new"))
        await crawl.parse(Settings(scope=ScopeSettings(scope="seeds")))
        assert (await crawl.outcomes(), crawl.pages()) == ({"redirect": 1}, [])
        (target,) = await crawl.lease()
        assert (target.url, target.depth, target.hops, target.is_seed) == ("https://b.test/new", 0, 1, True)

    crawl(tmp_path, make_store, story)


def test_failures_are_finished_and_not_written(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/", "http://b.test/", "http://c.test/")
        reasons = {"a.test": Reason.DNS, "b.test": Reason.ROBOTS, "c.test": Reason.STATUS}
        await crawl.fetch(lambda lease: failure(lease, reasons[lease.site]))
        await crawl.parse()
        assert (await crawl.outcomes(), crawl.pages()) == ({"dns": 1, "robots": 1, "status": 1}, [])

    crawl(tmp_path, make_store, story)


def test_a_retry_is_no_end_of_its_url(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/", "http://b.test/")
        await crawl.fetch(
            lambda lease: page(lease) if lease.site == "a.test" else failure(lease, Reason.TIMEOUT, Result.RETRY)
        )
        await crawl.parse()
        assert await crawl.outcomes() == {"page": 1}
        (again,) = await crawl.lease()
        assert (again.url, again.attempt) == ("http://b.test/", 1)

    crawl(tmp_path, make_store, story)


def test_a_site_that_a_page_links_to_is_due_from_when_it_was_found(tmp_path: Path, make_store: MakeStore) -> None:
    """By the store's time: a site that was never visited does not come before those that wait for their next turn."""

    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(lambda lease: page(lease, b"<a href='//b.test/x'>b</a>"))
        before = await crawl.store.now()
        await crawl.parse()
        after = await crawl.store.now()
        not_before = (await crawl.store.site_states(["b.test"]))["b.test"].not_before
        # The parser's clock may be behind the store's by as long as the store took to tell the time.
        assert before - (after - before) <= not_before <= after

    crawl(tmp_path, make_store, story)


def test_a_small_page_fills_no_queue_with_megabytes_of_long_links(tmp_path: Path) -> None:
    """A long base makes 11 MB of URLs out of 120 KB of markup."""
    base = "http://a.test/" + "/".join(f"{number:02}" * 47 for number in range(19)) + "/"
    body = f"<base href='{base}'>" + "".join(f"<a href=k{number:x}>x</a>" for number in range(6_000))

    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(lambda lease: page(lease, body.encode()))
        parser = await crawl.parse()
        (row,) = crawl.pages()
        assert row["outlink_count"] == 6_000
        most = ParseSettings().max_link_bytes
        queued = (await crawl.store.site_states(["a.test"]))["a.test"].queued
        assert most - 2_000 < queued * len(f"{base}kfff") <= most + 1_000  # some are a character shorter
        statistics = parser.statistics()
        assert statistics.admitted == queued
        assert statistics.refused == {Reason.LINK_BYTES: 6_000 - queued}

    crawl(tmp_path, lambda _: ModelStore(SLOTS), story)


class LosingStore(ModelStore):
    """Admits seeds, and is gone when links are offered."""

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        if not candidates[0].is_seed:
            raise StoreUnavailable("gone")
        return await super().admit(candidates, limits, now=now)


def test_without_the_stores_answer_to_its_links_no_page_is_written_or_finished(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        segment = await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a>"))
        with pytest.raises(StoreUnavailable):
            await crawl.parse()
        assert (await crawl.finished(), crawl.pages()) == (0, [])
        assert [path.name.partition(".")[0] for path in (crawl.spool.claimed / NAME).iterdir()] == [segment]

    crawl(tmp_path, lambda _data: LosingStore(SLOTS), story)


def test_a_damaged_segment_is_set_aside_and_its_urls_are_fetched_again(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(page)
        await crawl.admit("http://b.test/")
        await crawl.fetch(page)
        damaged = min(crawl.spool.ready.iterdir())
        damaged.write_bytes(damaged.read_bytes().replace(b"Hello", b"Jello"))
        statistics = (await crawl.parse()).statistics()
        assert statistics.damaged_segments == 1
        assert [path.name for path in (tmp_path / "spool" / "quarantine").iterdir()] == [damaged.name]
        assert [written["url"] for written in crawl.pages()] == ["http://b.test/"]
        assert [lease.url for lease in await crawl.lease()] == ["http://a.test/"]

    crawl(tmp_path, make_store, story)


@pytest.mark.parametrize("workers", [1, 2, 80])
def test_however_few_pages_are_read_ahead_all_of_a_segment_is_done(tmp_path: Path, workers: int) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(*(f"http://s{number:02}.test/" for number in range(20)))
        await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a><a href=http://common.test/>y</a>"))
        await crawl.parse(Settings(parse=ParseSettings(parser_workers=workers)))
        assert [written["url"] for written in crawl.pages()] == [f"http://s{number:02}.test/" for number in range(20)]
        assert await crawl.outcomes() == {"page": 20}
        assert len(await crawl.lease()) == 21

    crawl(tmp_path, model_store, story)


def test_a_segment_that_was_begun_is_given_back_whole_when_the_parser_must_leave(
    tmp_path: Path, make_store: MakeStore
) -> None:
    async def story(crawl: Crawl) -> None:
        first = [f"http://a{number:02}.test/" for number in range(5)]
        await crawl.admit(*first)
        await crawl.fetch(page)
        await crawl.admit(*(f"http://b{number:02}.test/" for number in range(30)))
        second = await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a>"))
        # Batches of four: some of the second segment are in the sink when the order to leave comes.
        async with crawl.parser(Settings(parse=ParseSettings(parser_workers=8))) as parser:
            running = asyncio.create_task(parser.run())
            await until(lambda: noted_page(crawl) >= (second, 20))
            parser.drain(empty_spool=False)
            await running
        assert (parser.statistics().pages, parser.statistics().offered) == (5, 20)
        assert [written["url"] for written in crawl.pages()] == first
        assert await crawl.outcomes() == {"page": 5}
        assert [path.name.partition(".")[0] for path in crawl.spool.ready.iterdir()] == [second]
        # The next one takes it up, and nothing is twice.
        await crawl.parse()
        assert len({written["url"] for written in crawl.pages()}) == len(crawl.pages()) == 35

    crawl(tmp_path, make_store, story)


def test_a_parser_commits_after_enough_pages_and_goes_on(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        commit_pages = Settings().sinks.commit_pages
        segments = commit_pages // SEGMENT_OUTCOMES + 1
        await crawl.admit(*(f"http://s{number}.test/" for number in range(segments * SEGMENT_OUTCOMES)))
        for _ in range(segments):
            await crawl.fetch(page)
        async with crawl.parser() as parser:
            running = asyncio.create_task(parser.run())
            await until(lambda: parser.statistics().commits > 0)
            assert commit_pages <= await crawl.finished() <= segments * SEGMENT_OUTCOMES
            await crawl.admit("http://another.test/")
            await crawl.fetch(page)
            parser.drain(empty_spool=True)
            await running
        assert parser.statistics().commits == 2
        assert len(crawl.pages()) == segments * SEGMENT_OUTCOMES + 1

    crawl(tmp_path, model_store, story)


def test_a_parser_commits_before_it_holds_its_share_of_the_spool(tmp_path: Path) -> None:
    """Else fetchers could wait for room that comes with a commit, and the commit for pages that they fetch. What counts
    is what lies on the disk: answers to robots.txt and retries are no pages."""

    async def story(crawl: Crawl) -> None:
        settings = Settings(spool=SpoolSettings(spool_bytes=4 << 20))
        await crawl.admit(*(f"https://s{number}.test/{page}" for number in range(8) for page in range(6)))
        for _ in range(6):
            # 0.8 MB: two of them are more than the share of one of two parsers.
            await crawl.fetch(
                lambda lease: Outcome(
                    lease, Result.DROPPED, Reason.STATUS, 1.5e9, robots=(answer_to(lease, 404, (), bytes(100_000)),)
                )
            )
        async with crawl.parser(settings, parsers=2) as parser:
            parser.drain(empty_spool=True)
            await parser.run()
        assert (parser.statistics().commits, await crawl.finished()) == (2, 48)

    crawl(tmp_path, model_store, story)


def test_what_becomes_ready_before_a_drain_is_parsed_though_nothing_was_ready_a_moment_ago(tmp_path: Path) -> None:
    """The last segment of a fetcher, while the parser still waits for an answer of the store."""

    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(page)
        async with crawl.parser() as parser:
            settle = parser._settle
            times = 0

            async def settle_late() -> None:
                nonlocal times
                times += 1
                if times == 2:  # the first was within the segment; now the spool was seen to be empty
                    await crawl.admit("http://b.test/")
                    await crawl.fetch(page)
                    parser.drain(empty_spool=True)
                await settle()

            parser._settle = settle_late  # type: ignore[method-assign]
            await parser.run()
        assert list(crawl.spool.ready.iterdir()) == []
        assert len(crawl.pages()) == 2

    crawl(tmp_path, model_store, story)


def test_an_idle_parser_commits_when_it_is_asked_and_not_before(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(page)
        async with crawl.parser() as parser:
            running = asyncio.create_task(parser.run())
            await until(lambda: parser.statistics().pages > 0)
            assert (parser.statistics().commits, await crawl.finished()) == (0, 0)
            parser.commit_soon()
            await until(lambda: parser.statistics().commits > 0)
            assert await crawl.finished() == 1
            parser.drain(empty_spool=False)
            await running

    crawl(tmp_path, make_store, story)


def test_a_cancelled_parser_leaves_its_segments_to_recovery(tmp_path: Path, make_store: MakeStore) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a>"))
        async with crawl.parser() as parser:
            running = asyncio.create_task(parser.run())
            await until(lambda: any(crawl.spool.claimed.glob("*/*.seg")))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert (await crawl.finished(), crawl.pages()) == (0, [])
        assert len(list(crawl.spool.claimed.glob("*/*.seg"))) == 1

    crawl(tmp_path, make_store, story)


def test_only_html_is_parsed_and_plain_text_is_its_own_text(tmp_path: Path) -> None:
    markup = b"<html><title>T</title><a href=/x>x</a>"
    answers = {
        "http://declared.test/": ("application/xhtml+xml; charset=utf-8", markup, "T", "x"),
        "http://sniffed.test/": ("", b"\n " + markup, "T", "x"),
        "http://plain.test/": ("text/plain; charset=iso-8859-1", b"<b>caf\xe9\x00", None, "<b>café"),
        "http://other.test/": ("application/pdf", b"%PDF-", None, None),
        "http://unknown.test/": ("", b"GIF89a", None, None),
    }

    async def story(crawl: Crawl) -> None:
        await crawl.admit(*answers)
        await crawl.fetch(lambda lease: page(lease, answers[lease.url][1], content_type=answers[lease.url][0]))
        await crawl.parse()
        read = {written["url"]: (written["title"], written["text"]) for written in crawl.pages()}
        assert {url: (title, text and text.strip()) for url, (title, text) in read.items()} == {
            url: answer[2:] for url, answer in answers.items()
        }
        assert [lease.url for lease in await crawl.lease()] == ["http://declared.test/x", "http://sniffed.test/x"]

    crawl(tmp_path, model_store, story)


def test_a_page_whose_headers_say_nofollow_leads_nowhere(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        await crawl.fetch(lambda lease: page(lease, b"<a href=/x>x</a>", X_Robots_Tag="nofollow"))
        statistics = (await crawl.parse()).statistics()
        assert (statistics.links_found, statistics.links_nofollow, statistics.offered) == (1, 1, 0)
        assert await crawl.lease() == []

    crawl(tmp_path, model_store, story)


PARSER_PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.contract.test_parser import Crawl, sqlite_store

async def main() -> None:
    crawl = Crawl(Path(sys.argv[1]), sqlite_store(Path(sys.argv[1])))
    await crawl.store.open()
    await crawl.parse()

asyncio.run(main())
"""


def test_a_page_that_kills_its_parser_is_noted_and_then_read_where_it_kills_nothing_else(tmp_path: Path) -> None:
    bodies = {"http://a.test/": b"<p>one", "http://b.test/": POISON, "http://c.test/": b"<p>three<a href=/x>x</a>"}
    segments: list[str] = []

    async def fill(crawl: Crawl) -> None:
        await crawl.admit(*bodies)
        segments.append(await crawl.fetch(lambda lease: page(lease, bodies[lease.url])))

    crawl(tmp_path, sqlite_store, fill)
    program = [sys.executable, "-c", PARSER_PROGRAM, str(tmp_path)]
    died = subprocess.run(program, cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == -signal.SIGSEGV
    noted = read_note(tmp_path / "spool" / "claimed" / f"{NAME}.note")
    assert noted == (segments[0], Stage.PAGE, 1)

    async def go_on(crawl: Crawl) -> None:
        for path in crawl.spool.claimed.glob("*/*.seg"):
            crawl.spool.publish(path)
        Suspects(crawl.spool.root).add(noted.segment, Finding.PARSER_DIED, noted.page)
        statistics = (await crawl.parse()).statistics()
        assert (statistics.pages, statistics.parse_crashes) == (2, 1)
        assert [written["url"] for written in crawl.pages()] == ["http://a.test/", "http://c.test/"]
        assert await crawl.outcomes() == {"page": 2, "parse-crash": 1}

    crawl(tmp_path, sqlite_store, go_on)


def test_a_suspect_that_is_harmless_is_a_page_like_any_other(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit("http://a.test/")
        segment = await crawl.fetch(lambda lease: page(lease, b"<title>Fine</title><p>Text<a href=/x>x</a>"))
        Suspects(crawl.spool.root).add(segment, Finding.PARSER_DIED, 0)
        statistics = (await crawl.parse()).statistics()
        assert (statistics.pages, statistics.parse_crashes) == (1, 0)
        (written,) = crawl.pages()
        assert (written["title"], written["outlink_count"]) == ("Fine", 1)
        assert [lease.url for lease in await crawl.lease()] == ["http://a.test/x"]

    crawl(tmp_path, model_store, story)
