"""A whole fetcher against the simulated web, with real sockets, stores and segments; the server's log bears witness."""

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from gossamer.config import FetchSettings, PolitenessSettings, RunSettings, ScopeSettings, Settings, SpoolSettings
from gossamer.errors import StoreUnavailable
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.fetcher import Fetcher
from gossamer.fetch.meter import FetchType
from gossamer.fetch.robots import parse
from gossamer.fetch.robots_rules import Rules as RobotsRules
from gossamer.fetch.visits import Visits
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.store import Counts, SiteState, Store
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.records import Answer, Candidate, Finished, Outcome, PhaseTimes, Reason, Result, RobotsCopy
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.segment import read_segment, segment_id
from gossamer.spool.writer import SegmentWriter
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import Audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.stores.model import ModelStore
from gossamer.testing.web.access_log import Request, read
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import expectations, hostile_sites
from gossamer.testing.web.hostile.site import Expected, Pace
from gossamer.testing.web.policies import Policy, PolicyMix, everywhere
from gossamer.testing.web.server import Behaviour, Connection, SimulatedWeb
from gossamer.url import Url, canonicalise
from tests.contract.played_clock import PlayedClock, client_clock

SLOTS = 8
AGENT = "Gossamer/0.1.0 (+mailto:someone@example.org)"
#: Before a test's own time-out.
LONGEST_SECONDS = 100.0
#: One page each and nothing in the way: where a test needs traffic and no surprises.
PLAIN = Web(
    sites=10,
    pages=5,
    links_per_page=6,
    neighbours=3,
    multi_host_share=0,
    private_share=0,
    busy_share=0,
    redirect_share=0,
    missing_share=0,
    error_share=0,
    file_share=0,
    orphan_share=0,
    robots=everywhere(Policy.OPEN),
    median_bytes=2_000,
    size_sigma=0.3,
)


@pytest.fixture(autouse=True)
def quick_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small web fills no segment, so each of its levels would wait for the clock."""
    monkeypatch.setattr("gossamer.spool.writer.SEGMENT_SECONDS", 0.05)


def settings_with(
    *,
    delay: float = 0.0,
    backoff: float = 0.02,
    workers: int = 100,
    max_pages: int = 0,
    scope: ScopeSettings | None = None,
    spool: SpoolSettings | None = None,
    **politeness: float,
) -> Settings:
    return Settings(
        scope=scope or ScopeSettings(),
        politeness=PolitenessSettings(delay_seconds=delay, backoff_seconds=backoff, **politeness),  # type: ignore[arg-type]
        fetch=FetchSettings(fetcher_workers=workers),
        spool=spool or SpoolSettings(),
        run=RunSettings(max_pages=max_pages),
    )


def candidate(text: str, *, depth: int = 0, hops: int = 0, is_seed: bool = False, at_head: bool = False) -> Candidate:
    url = canonicalise(text)
    assert isinstance(url, Url)
    return Candidate(url.text, url.site, url.fingerprint, depth, hops, is_seed, at_head)


class StubParser:
    """Plays the parsers: takes segments, knows from the web itself where pages lead, and finishes what it has read."""

    def __init__(self, web: Web, store: Store, spool: SpoolDirectory, rules: AdmissionRules) -> None:
        self.outcomes: list[Outcome] = []
        self._web = web
        self._store = store
        self._spool = spool
        self._rules = rules

    async def work(self) -> None:
        while True:
            if not await self.take_segment():
                await asyncio.sleep(0.01)

    async def take_segment(self) -> bool:
        path = self._spool.claim("stub")
        if path is None:
            return False
        outcomes = read_segment(path)
        self.outcomes += outcomes
        found = [target for outcome in outcomes for target in self._targets(outcome)]
        await self._store.admit(found, self._rules.limits, now=0.0)
        await self._store.finish(
            [
                Finished(
                    segment_id(path),
                    outcome.lease.number,
                    outcome.lease.slot,
                    outcome.lease.site,
                    outcome.lease.fingerprint,
                    outcome.reason,
                    outcome.body_bytes,
                )
                for outcome in outcomes
                if outcome.result is not Result.RETRY
            ]
        )
        path.unlink()
        return True

    def _targets(self, outcome: Outcome) -> list[Candidate]:
        lease = outcome.lease
        if outcome.reason is Reason.REDIRECT:
            assert outcome.answer is not None
            location = outcome.answer.header(b"location")
            assert location is not None
            return [
                candidate(
                    location.decode(), depth=lease.depth, hops=lease.hops + 1, is_seed=lease.is_seed, at_head=True
                )
            ]
        if not outcome.is_page:
            return []
        links = {link.target for link in self._web.links(lease.url)} - {None}
        return [candidate(target, depth=lease.depth + 1) for target in links if target is not None]


class Bench:
    """A web, a store, a spool and a stub parser, ready for fetchers."""

    def __init__(self, root: Path, web: Web, settings: Settings, store: Store) -> None:
        self.web = web
        self.store = store
        self.spool = SpoolDirectory(root / "spool")
        self.spool.create()
        self.rules = AdmissionRules(settings.scope, Exclusions())
        self.parser = StubParser(web, store, self.spool, self.rules)
        self.settings = settings
        self.client: Client
        self._log = root / "log"
        self._fetchers = 0

    @asynccontextmanager
    async def running(
        self,
        hostile: Mapping[str, Behaviour] | None = None,
        *,
        parses: bool = True,
        allow_private: bool = True,
    ) -> AsyncIterator["Bench"]:
        async with contextlib.AsyncExitStack() as stack:
            simulated = SimulatedWeb(self.web, log_directory=self._log, hostile=hostile)
            await stack.enter_async_context(simulated)
            connect_to = f"http=127.0.0.1:{simulated.http_port},https=127.0.0.1:{simulated.https_port}"
            fetch = msgspec.structs.replace(
                self.settings.fetch, connect_to=connect_to, allow_private_addresses=allow_private
            )
            self.settings = msgspec.structs.replace(self.settings, fetch=fetch)
            self.client = await stack.enter_async_context(Client(fetch, user_agent=AGENT))
            await self.store.open()
            stack.push_async_callback(self.store.close)
            if parses:
                parsing = asyncio.create_task(self.parser.work())
                stack.push_async_callback(ended, parsing)
            async with asyncio.timeout(LONGEST_SECONDS):
                yield self

    async def seed(self, *urls: str) -> None:
        seeds = [candidate(url, is_seed=True) for url in urls or self.web.seeds()]
        await self.store.admit(seeds, self.rules.limits, now=0.0)

    def fetcher(
        self, owner: str = "first", *, client: Client | None = None, rules: AdmissionRules | None = None
    ) -> Fetcher:
        self._fetchers += 1
        return Fetcher(
            owner=owner,
            slots=range(SLOTS),
            settings=self.settings,
            store=self.store,
            client=client or self.client,
            rules=rules or self.rules,
            spool=self.spool,
            writer=SegmentWriter(self.spool, 1, self._fetchers),
        )

    async def counts(self) -> Counts:
        return await self.store.counts(now=await self.store.now())

    async def until(self, is_reached: Callable[[Counts], bool]) -> Counts:
        while True:
            counts = await self.counts()
            if is_reached(counts):
                return counts
            await asyncio.sleep(0.01)

    async def crawl(self, fetcher: Fetcher) -> Counts:
        """To the end of the web."""
        running = asyncio.create_task(fetcher.run())
        try:
            counts = await self.until(lambda counts: running.done() or counts.finished == counts.admitted)
            fetcher.drain()
            await running
        finally:
            await ended(running)
        return counts

    def requests(self) -> list[Request]:
        return list(read(sorted(self._log.glob("access-*.log"))))

    def audit(self, **rules: object) -> Audit:
        told = {"seeds": self.web.seeds(), "delay_seconds": self.settings.politeness.delay_seconds, "files": False}
        return audit(self.requests(), self.web, Rules(**(told | rules)))  # type: ignore[arg-type]


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def reasons(bench: Bench) -> Counter[tuple[Result, Reason]]:
    return Counter((outcome.result, outcome.reason) for outcome in bench.parser.outcomes)


def pages(bench: Bench) -> list[str]:
    return [outcome.lease.url for outcome in bench.parser.outcomes if outcome.is_page]


@cache
def varied_web() -> Web:
    """Ten sites of five pages, with all that can make a difference to a fetcher."""
    webs = (_varied(seed) for seed in range(10_000))
    wanted = {Policy.PARTS, Policy.DELAY, Policy.MOVED_FAR, Policy.FAILING, Policy.FORBIDDEN}
    return next(
        web
        for web in webs
        if {web.policy(web.site_name(index)) for index in range(web.sites)} >= wanted
        and {web.site(index).scheme for index in range(web.sites)} == {"http", "https"}
        and len(web.reachable(web.seeds(), files=False)) > 40
        # No page that others hang on stands on a host that is closed.
        and web.reachable(web.seeds()) == web.reachable(web.seeds(), max_depth=100)
    )


def _varied(seed: int) -> Web:
    return Web(
        seed=seed,
        sites=10,
        pages=5,
        links_per_page=8,
        neighbours=4,
        https_share=0.3,
        multi_host_share=0.3,
        private_share=0.25,
        busy_share=0.2,
        redirect_share=0.3,
        missing_share=0.2,
        error_share=0.2,
        file_share=0.2,
        robots=PolicyMix(open=3, parts=4, only_us=1, delay=2, huge=1, moved=1, moved_far=1, forbidden=1, failing=1),
        crawl_delay_seconds=0.2,
        median_bytes=3_000,
        size_sigma=0.5,
    )


@pytest.mark.parametrize("kind", ["model", "sqlite"])
@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_whole_web_is_fetched_once_and_with_manners(kind: str, delay: float, tmp_path: Path) -> None:
    store = ModelStore(SLOTS) if kind == "model" else SqliteStore(tmp_path / "frontier.db", SLOTS)
    bench = Bench(tmp_path, varied_web(), settings_with(delay=delay), store)

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            return await bench.crawl(bench.fetcher())

    counts = asyncio.run(run())
    found = bench.audit()
    assert found.is_clean, str(found)
    assert found.counts.urls_expected == found.counts.urls_expected_requested > 30
    assert (counts.leased, counts.spooled, counts.queued) == (0, 0, 0)
    assert counts.pages == len(pages(bench)) == len(set(pages(bench)))
    seen = reasons(bench)
    for result, reason in (
        (Result.DONE, Reason.REDIRECT),
        (Result.RETRY, Reason.BUSY),
        (Result.RETRY, Reason.STATUS),
        (Result.DROPPED, Reason.STATUS),
        (Result.DROPPED, Reason.ROBOTS),
        (Result.DROPPED, Reason.ROBOTS_UNREACHABLE),
        (Result.DROPPED, Reason.EXTENSION),
    ):
        assert seen[result, reason] > 0, (result, reason)
    assert_all_answers_are_in_outcomes(bench)


def assert_all_answers_are_in_outcomes(bench: Bench) -> None:
    """Each request is there once with what came of it: in the outcome of its URL, or of that on whose way it was made.

    The server knows what it was asked for and what it sent.
    """
    outcomes = bench.parser.outcomes
    own = [outcome.answer for outcome in outcomes if outcome.answer is not None]
    assert [answer.url for answer in own] == [outcome.lease.url for outcome in outcomes if outcome.answer is not None]
    answers = [*own, *(answer for outcome in outcomes for answer in outcome.robots)]
    assert {answer.status for answer in answers} >= {200, 301, 404, 429, 500}
    found = Counter((answer.url, answer.status, len(answer.body)) for answer in answers)
    assert found == Counter(
        (
            f"{request.scheme}://{request.host}{request.path}",
            request.status,
            # Of a busy server only the head counts.
            0 if request.status in {429, 503} else request.body_bytes,
        )
        for request in bench.requests()
    )
    for answer in answers:
        assert (answer.request[:5], answer.request[-4:]) == (b"GET /", b"\r\n\r\n")
        assert answer.status_line.startswith(b"HTTP/1.1 %d " % answer.status)
        assert answer.tls.startswith("TLSv1") == answer.url.startswith("https:")
    # Whatever becomes of the URL that robots.txt was asked for.
    assert {outcome.result for outcome in outcomes if outcome.robots} == set(Result)


def test_a_busy_origin_is_asked_again_after_the_time_it_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    asked = 0

    async def busy(connection: Connection) -> None:
        nonlocal asked
        if connection.target == "/robots.txt":
            connection.respond(404, [], b"")
            return
        asked += 1
        if asked == 1:
            connection.respond(429, [("Retry-After", "1")], b"")
        else:
            connection.respond(200, [("Content-Type", "text/html")], b"<p>now")

    async def run() -> None:
        async with bench.running({"busy.test": busy}):
            await bench.seed("http://busy.test/a", "http://busy.test/b")
            await bench.crawl(bench.fetcher())

    asyncio.run(run())
    first, second, third = sorted(request for request in bench.requests() if request.path != "/robots.txt")
    # Both have waited at the tail, in their order.
    assert [request.path for request in (first, second, third)] == ["/a", "/a", "/b"]
    assert second.started_at_ns - first.ended_at_ns >= 1e9
    found = reasons(bench)
    # More than once only if a lease came just before the origin was due.
    assert found.pop((Result.RETRY, Reason.ORIGIN_HELD)) >= 1
    assert found == {(Result.RETRY, Reason.BUSY): 1, (Result.DONE, Reason.PAGE): 2}


def test_an_origin_without_robots_txt_is_given_up_and_its_pages_never_asked_for(tmp_path: Path) -> None:
    web = msgspec.structs.replace(PLAIN, sites=1, robots=everywhere(Policy.FAILING))
    bench = Bench(tmp_path, web, settings_with(backoff=0.05), ModelStore(SLOTS))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed("http://s0.test/", "http://s0.test/other", "http://s0.test/another")
            return await bench.crawl(bench.fetcher())

    counts = asyncio.run(run())
    assert [request.path for request in bench.requests()] == ["/robots.txt"] * 4
    starts = [request.started_at_ns / 1e9 for request in bench.requests()]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert [gap > hold / 2 for gap, hold in zip(gaps, (0.05, 0.1, 0.2), strict=True)] == [True] * 3
    assert reasons(bench) == {
        (Result.RETRY, Reason.ROBOTS_UNREACHABLE): 3,
        (Result.DROPPED, Reason.ROBOTS_UNREACHABLE): 3,
    }
    assert counts.outcomes == {"robots-unreachable": 3}


#: These never come to the end of their robots.txt.
SLOW_HOSTS = (b"Host: silent.h37.test", b"Host: dribble.h37.test")


async def end_slow_requests(client: Client, clock: PlayedClock) -> None:
    """Puts the clock ahead whenever nothing but a time-out can end what is open: nobody else is timed out by that."""
    while True:
        exchanges = client._exchanges
        if exchanges and all(
            exchange.connected_at is not None and any(host in exchange.request for host in SLOW_HOSTS)
            for exchange in exchanges
        ):
            clock.advance(FetchSettings().fetch_timeout_seconds)
        await asyncio.sleep(0.05)


def test_hostile_robots_files_have_the_effect_that_the_catalogue_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {
        url: words
        for url, words in expectations().items()
        if url.split("/")[2].endswith((".h37.test", ".h39.test", ".h40.test"))
    }
    clock = client_clock(monkeypatch)
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))

    async def run() -> None:
        # Private addresses stay closed: one of the files is said to be at one.
        async with bench.running(hostile_sites(Pace(tick_seconds=0.05)), allow_private=False):
            ending = asyncio.create_task(end_slow_requests(bench.client, clock))
            await bench.seed(*wanted)
            await bench.crawl(bench.fetcher())
            await ended(ending)

    asyncio.run(run())
    words = {
        Reason.PAGE: Expected.DONE,
        Reason.ROBOTS: Expected.DISALLOWED,
        Reason.ROBOTS_UNREACHABLE: Expected.ROBOTS_UNREACHABLE,
    }
    found = {
        outcome.lease.url: words.get(outcome.reason)
        for outcome in bench.parser.outcomes
        if outcome.result is not Result.RETRY
    }
    assert found.keys() == wanted.keys()
    assert {url: word for url, word in found.items() if word not in wanted[url]} == {}


def test_what_one_run_learnt_of_robots_txt_the_next_does_not_ask_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))

    async def run() -> None:
        async with bench.running():
            await bench.seed("http://s0.test/")
            await bench.crawl(bench.fetcher())
            await bench.store.admit(
                [candidate(f"http://s{site}.test/late") for site in range(10)], bench.rules.limits, now=0.0
            )
            await bench.crawl(bench.fetcher("second"))

    asyncio.run(run())
    robots = Counter(request.host for request in bench.requests() if request.path == "/robots.txt")
    assert set(robots.values()) == {1}
    assert Counter(request.path for request in bench.requests())["/late"] == 10


def long_copies(*hosts: str) -> list[RobotsCopy]:
    """Of files that are too long to be read on the event loop."""
    rules = b"".join(b"Disallow: /closed/%d\n" % number for number in range(2_000))
    return [
        RobotsCopy(
            origin=f"http://{host}",
            access="parse",
            body=b"User-agent: *\nDisallow: /4\n" + rules,
            fetched_at=0.0,
            expires_at=float("inf"),
        )
        for host in hosts
    ]


class GatedReading:
    """Files that are read in a thread are read when the gate is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()
        monkeypatch.setattr("gossamer.fetch.robots_file.compiled", self._compile)

    def _compile(self, body: bytes) -> RobotsRules:
        if threading.current_thread() is not threading.main_thread():
            self.begun.set()
            assert self.gate.wait(LONGEST_SECONDS)
        return parse(body).for_agent("Gossamer")


def test_long_copies_of_robots_txt_are_read_beside_the_crawl_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = GatedReading(monkeypatch)
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    slow = [f"s{number}.test" for number in range(5)]

    async def run() -> Counts:
        async with bench.running():
            await bench.store.save_robots(long_copies(*slow))
            await bench.seed(*(f"http://s{site}.test/{page}" for site in range(10) for page in (3, 4)))
            crawling = asyncio.create_task(bench.crawl(bench.fetcher()))
            # All that the other sites have is fetched meanwhile.
            await bench.until(lambda counts: counts.finished == 10 and counts.leased == len(slow))
            assert not {request.host for request in bench.requests()} & set(slow)
            reading.gate.set()
            return await crawling

    counts = asyncio.run(run())
    assert (counts.finished, counts.outcomes["robots"]) == (20, len(slow))
    asked = [(request.host, request.path) for request in bench.requests() if request.host in slow]
    assert sorted(asked) == [(host, "/3") for host in slow]


def test_a_drain_hands_back_what_waits_for_its_robots_txt_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = GatedReading(monkeypatch)
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    slow = [f"s{number}.test" for number in range(5)]

    async def run() -> Counts:
        async with bench.running():
            await bench.store.save_robots(long_copies(*slow))
            await bench.seed(*(f"http://{host}/3" for host in slow))
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await bench.until(lambda counts: counts.leased == len(slow) and reading.begun.is_set())
            fetcher.drain()
            await running
            reading.gate.set()
            return await bench.counts()

    counts = asyncio.run(run())
    assert (counts.leased, counts.queued, counts.retries) == (0, len(slow), {"stopped": len(slow)})
    assert bench.requests() == []


def test_a_crawl_delay_that_is_learnt_late_counts_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    slow = b"User-agent: *\nCrawl-delay: 0.5\nDisallow: /closed\n"

    async def site(connection: Connection) -> None:
        if connection.target == "/robots.txt":
            connection.respond(200, [], slow if connection.host == "slow.two.test" else b"")
        else:
            connection.respond(200, [("Content-Type", "text/html")], b"<p>hello")

    async def run() -> None:
        async with bench.running({"two.test": site}):
            urls = ["quick.two.test/1", "slow.two.test/closed", "quick.two.test/2", "slow.two.test/3"]
            await bench.seed(*(f"http://{url}" for url in urls))
            await bench.crawl(bench.fetcher())

    asyncio.run(run())
    asked = sorted(request for request in bench.requests() if request.path != "/robots.txt")
    assert [request.path for request in asked] == ["/1", "/2", "/3"]
    gaps = [later.started_at_ns - earlier.ended_at_ns for earlier, later in pairwise(asked)]
    assert min(gaps) >= 0.5e9
    assert reasons(bench)[Result.RETRY, Reason.CRAWL_DELAY] == 1


def test_all_urls_of_an_origin_with_too_long_a_crawl_delay_are_dropped(tmp_path: Path) -> None:
    web = msgspec.structs.replace(PLAIN, sites=1, robots=everywhere(Policy.DELAY), crawl_delay_seconds=301)
    bench = Bench(tmp_path, web, settings_with(), ModelStore(SLOTS))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed("http://s0.test/", "http://s0.test/other", "http://s0.test/another")
            return await bench.crawl(bench.fetcher())

    assert asyncio.run(run()).outcomes == {"crawl-delay": 3}
    assert [request.path for request in bench.requests()] == ["/robots.txt"]


def test_an_exclusion_that_came_later_reaches_what_is_queued(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    blocked = Exclusions(frozenset({"s1.test"}), {"http://s2.test": ("http://s2.test/no",)})

    async def run() -> Counts:
        async with bench.running():
            await bench.seed("http://s1.test/", "http://s1.test/more", "http://s2.test/no", "http://s2.test/yes")
            return await bench.crawl(bench.fetcher(rules=AdmissionRules(bench.settings.scope, blocked)))

    assert asyncio.run(run()).outcomes == {"blocked-site": 2, "excluded": 1, "status": 1}
    assert {request.host for request in bench.requests()} == {"s2.test"}


def test_a_url_that_came_back_five_times_is_dropped_and_not_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed("http://s1.test/")
            for life in range(5):
                now = await bench.store.now()
                owned = await bench.store.own(f"life {life}", range(SLOTS), now=now, until=now, delay_seconds=0)
                given = await bench.store.lease(f"{life}", owned, 9, now=now, delay_seconds=0, max_pages=0)
                assert len(given.leases) == 1
                await bench.store.disown(f"life {life}")
            return await bench.crawl(bench.fetcher())

    assert asyncio.run(run()).outcomes == {"returned": 1}
    assert bench.requests() == []


def test_max_pages_is_exact(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(max_pages=7), ModelStore(SLOTS))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await bench.until(lambda counts: counts.pages == 7)
            fetcher.drain()
            await running
            return await bench.counts()

    counts = asyncio.run(run())
    assert (counts.pages, counts.leased, counts.spooled) == (7, 0, 0)
    assert len([request for request in bench.requests() if request.path != "/robots.txt"]) == 7


class Silence:
    """A site that lets everybody in and does not answer for a page until it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.over = asyncio.Event()

    async def __call__(self, connection: Connection) -> None:
        if connection.target == "/robots.txt":
            connection.respond(404, [], b"")
        else:
            self.asked.set()
            await self.over.wait()
            connection.respond(200, [("Content-Type", "text/html")], b"<p>at last")


def test_a_drain_in_mid_flight_loses_no_url_and_opens_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.fetch.fetcher.DRAIN_SECONDS", 0.2)
    delay = 5.0
    # One worker: the second site's lease is in the queue when the drain comes.
    bench = Bench(tmp_path, PLAIN, settings_with(delay=delay, workers=1), ModelStore(SLOTS))

    async def run() -> tuple[Counts, float, float, float]:
        silence = Silence()
        async with bench.running({"never.test": silence, "never2.test": silence}):
            await bench.seed("http://never.test/", "http://never2.test/")
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await silence.asked.wait()
            assert (fetcher.statistics().in_flight, fetcher.statistics().waiting) == (1, 1)
            told_at = await bench.store.now()
            fetcher.drain()
            await running
            while await bench.parser.take_segment():
                pass
            drained_at = await bench.store.now()
            counts = await bench.counts()
            # Nobody's slots any more, so they are free to be taken; nothing comes back by that, for nothing was held.
            owned = await bench.store.own("next", range(SLOTS), now=drained_at, until=drained_at + 9, delay_seconds=0)
            given = await bench.store.lease("x", owned, 9, now=drained_at, delay_seconds=delay, max_pages=0)
            assert [(lease.url, lease.returned, lease.attempt) for lease in given.leases] == [
                ("http://never2.test/", 0, 0)
            ]
            assert given.next_due_at is not None
            return counts, told_at, drained_at, given.next_due_at

    counts, told_at, drained_at, next_due_at = asyncio.run(run())
    assert (counts.leased, counts.spooled, counts.queued, counts.admitted) == (0, 0, 2, 2)
    assert counts.retries == {"stopped": 2}
    # The request that was given up ended in between.
    assert told_at + delay <= next_due_at <= drained_at + delay
    # What robots.txt was answered with before it is not lost with the request.
    assert [
        (outcome.reason, outcome.lease.url, [(answer.url, answer.status) for answer in outcome.robots])
        for outcome in sorted(bench.parser.outcomes, key=lambda outcome: outcome.lease.url)
    ] == [
        (Reason.STOPPED, "http://never.test/", [("http://never.test/robots.txt", 404)]),
        (Reason.STOPPED, "http://never2.test/", []),
    ]


def test_a_slot_that_was_lost_is_not_asked_for_what_was_leased_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.fetch.slots_held.RENEWAL_SECONDS", 0.05)
    bench = Bench(tmp_path, PLAIN, settings_with(workers=1), ModelStore(SLOTS))

    async def run() -> Counts:
        silence, other = Silence(), Silence()
        async with bench.running({"never.test": silence, "never2.test": other}):
            await bench.seed("http://never.test/", "http://never2.test/")
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await silence.asked.wait()
            await bench.store.disown("first")
            now = await bench.store.now()
            await bench.store.own("thief", range(SLOTS), now=now, until=now + 99, delay_seconds=0)
            await bench.until(lambda _: not fetcher.statistics().slots)
            silence.over.set()
            # Both leases end, one of them without a request, and the store wants neither outcome.
            await bench.until(lambda _: fetcher.statistics().outcomes == {"page": 1, "stopped": 1})
            fetcher.drain()
            await running
            assert not other.asked.is_set()
            return await bench.counts()

    counts = asyncio.run(run())
    assert (counts.queued, counts.finished, counts.retries) == (2, 0, {})
    assert bench.parser.outcomes == []


def test_the_next_owner_of_the_slots_goes_on_after_a_death_without_a_short_gap(tmp_path: Path) -> None:
    web = msgspec.structs.replace(PLAIN, latency_median_seconds=0.1)
    bench = Bench(tmp_path, web, settings_with(delay=0.3), ModelStore(SLOTS))

    async def run() -> int:
        async with bench.running():
            await bench.seed()
            first = bench.fetcher("first")
            running = asyncio.create_task(first.run())
            await bench.until(lambda counts: counts.pages > 12 and bool(first.statistics().in_flight))
            in_flight = first.statistics().in_flight
            # As near to a kill as one process can come: nothing is handed back, nothing disowned.
            await ended(running)
            held = (await bench.counts()).leased
            assert held >= in_flight
            second = bench.fetcher("second")
            crawling = asyncio.create_task(bench.crawl(second))
            await asyncio.sleep(0.2)
            assert second.statistics().slots == 0
            # What the supervisor does when it has seen the process end.
            await bench.store.disown("first")
            counts = await crawling
            assert counts.pages == counts.admitted
            return held

    held = asyncio.run(run())
    found = bench.audit(repeats=held, restarts=1)
    assert found.is_clean, str(found)


def test_a_full_spool_stops_the_leases_until_it_is_worked_off(tmp_path: Path) -> None:
    limits = SpoolSettings(soft_limit=5, hard_limit=10)
    web = msgspec.structs.replace(PLAIN, latency_median_seconds=0.02)
    bench = Bench(tmp_path, web, settings_with(spool=limits, workers=4), ModelStore(SLOTS))

    async def run() -> None:
        async with bench.running(parses=False):
            await bench.seed(*(f"http://s{site}.test/{page}" for site in range(10) for page in range(40)))
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await bench.until(lambda counts: bool(fetcher.statistics().backpressure_hard) and not counts.leased)
            stopped_at = (await bench.counts()).spooled
            await asyncio.sleep(0.5)
            assert (await bench.counts()).leased == 0
            # Beyond the limit is only what was fetched before somebody looked.
            assert 10 < (await bench.counts()).spooled == stopped_at < 300
            while await bench.parser.take_segment():
                pass
            await bench.until(lambda counts: counts.spooled > 0)
            fetcher.drain()
            await running

    asyncio.run(run())


def test_a_paused_fetcher_leases_nothing_until_it_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            fetcher = bench.fetcher()
            fetcher.pause()
            crawling = asyncio.create_task(bench.crawl(fetcher))
            await asyncio.sleep(0.3)
            assert (await bench.counts()).finished == 0
            assert bench.requests() == []
            fetcher.go_on()
            return await crawling

    assert asyncio.run(run()).pages == 50


class FaultyClient(Client):
    """The network's edge, out of order for a while: `fails` says what becomes of a request, None lets it pass."""

    def __init__(self, client: Client, fails: Callable[[Url], Failure | None]) -> None:
        self.budget = client.budget
        self._client = client
        self._fails = fails

    async def get(
        self,
        url: Url,
        *,
        max_body_bytes: int,
        media_types: frozenset[str] | None = None,
        fetch_type: FetchType = "page",
        ends_at: float | None = None,
        may_connect: Callable[[str], bool] | None = None,
    ) -> Answer | Failure:
        return self._fails(url) or await self._client.get(
            url,
            max_body_bytes=max_body_bytes,
            media_types=media_types,
            fetch_type=fetch_type,
            ends_at=ends_at,
            may_connect=may_connect,
        )


def test_our_own_shortage_pauses_the_leases_and_is_charged_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests that fail were under way together, however long the machine takes: the pause ends after them."""
    now = 0.0
    monkeypatch.setattr("gossamer.fetch.shortage.time", SimpleNamespace(monotonic=lambda: now))
    bench = Bench(tmp_path, PLAIN, settings_with(max_failures=1), ModelStore(SLOTS))
    failures = 10
    short = Failure(Reason.OUR_SHORTAGE, "Too many open files", "", PhaseTimes(), was_sent=False)

    def fails(url: Url) -> Failure | None:  # noqa: ARG001
        nonlocal failures
        failures -= 1
        return short if failures >= 0 else None

    async def run() -> tuple[Counts, Fetcher]:
        nonlocal now
        async with bench.running():
            await bench.seed()
            fetcher = bench.fetcher(client=FaultyClient(bench.client, fails))
            crawling = asyncio.create_task(bench.crawl(fetcher))
            await bench.until(lambda _: fetcher.statistics().shortage_failures == 10)
            now += 3600.0
            return await crawling, fetcher

    counts, fetcher = asyncio.run(run())
    assert counts.outcomes == {"page": 50}
    assert fetcher.statistics().shortage_failures == counts.retries["our-shortage"] == 10
    assert fetcher.statistics().shortage_pauses == 1
    assert [record.levelname for record in caplog.records if "short of resources" in record.message] == ["ERROR"]


def test_a_spool_that_cannot_be_written_pauses_the_leases_and_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            bench.spool.open.rmdir()
            fetcher = bench.fetcher()
            crawling = asyncio.create_task(bench.crawl(fetcher))
            await bench.until(lambda _: fetcher.statistics().shortage_pauses > 0)
            assert (await bench.counts()).spooled == 0
            bench.spool.open.mkdir()
            return await crawling

    assert asyncio.run(run()).outcomes == {"page": 50}
    assert Counter(Counter(pages(bench)).values()) == {1: 50}
    assert len([request for request in bench.requests() if request.path != "/robots.txt"]) == 50


@pytest.mark.parametrize("kind", ["model", "sqlite"])
def test_a_site_without_a_delay_waits_for_no_tick(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ModelStore(SLOTS) if kind == "model" else SqliteStore(tmp_path / "frontier.db", SLOTS)
    bench = Bench(tmp_path, PLAIN, settings_with(), store)
    urls = [f"http://s3.test/{number}" for number in range(100)]

    async def run() -> None:
        async with bench.running(parses=False):
            await bench.seed(*urls)
            fetcher = bench.fetcher()
            crawling = asyncio.create_task(fetcher.run())
            await bench.until(lambda _: bool(fetcher.statistics().outcomes))
            # From now on a tick that is not ended early hangs this test.
            monkeypatch.setattr("gossamer.fetch.ticks.TICK_SECONDS", 3600.0)
            await bench.until(lambda _: sum(fetcher.statistics().outcomes.values()) == len(urls))
            monkeypatch.undo()
            await ended(crawling)

    asyncio.run(run())
    assert bench.audit(files=True, seeds=urls).is_clean


def test_an_internal_error_at_one_url_ends_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    poison = "http://s3.test/"

    def fails(url: Url) -> Failure | None:
        if url.text == poison:
            raise ValueError("not foreseen")
        return None

    async def run() -> tuple[Counts, Fetcher]:
        async with bench.running():
            await bench.seed()
            fetcher = bench.fetcher(client=FaultyClient(bench.client, fails))
            return await bench.crawl(fetcher), fetcher

    counts, fetcher = asyncio.run(run())
    assert (counts.outcomes["internal-error"], counts.outcomes.get("protocol")) == (1, None)
    assert counts.pages > 40
    assert fetcher.statistics().errors == bench.settings.politeness.max_attempts
    assert caplog.text.count("ValueError: not foreseen") == fetcher.statistics().errors
    (last,) = [outcome for outcome in bench.parser.outcomes if outcome.result is Result.DROPPED]
    assert (last.lease.url, last.detail) == (poison, "ValueError: not foreseen")


def test_an_internal_error_whose_text_is_not_valid_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))
    poison = "http://s3.test/"
    # The log of a test goes through channels that take valid text only.
    monkeypatch.setattr(logging.getLogger("gossamer.fetch"), "disabled", True)

    def fails(url: Url) -> Failure | None:
        if url.text == poison:
            raise ValueError("not \udcff foreseen")
        return None

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            return await bench.crawl(bench.fetcher(client=FaultyClient(bench.client, fails)))

    assert asyncio.run(run()).outcomes["internal-error"] == 1
    (last,) = [outcome for outcome in bench.parser.outcomes if outcome.result is Result.DROPPED]
    assert (last.lease.url, last.detail) == (poison, r"ValueError: not \udcff foreseen")


def test_internal_errors_at_all_urls_of_a_site_neither_drop_it_nor_hold_it_up(tmp_path: Path) -> None:
    settings = settings_with(backoff=3600.0, max_failures=3)
    bench = Bench(tmp_path, PLAIN, settings, ModelStore(SLOTS))
    poisons = [f"http://s3.test/poison-{number}" for number in range(20)]

    def fails(url: Url) -> Failure | None:
        if url.text in poisons:
            raise ValueError("not foreseen")
        return None

    async def run() -> tuple[Counts, SiteState]:
        async with bench.running():
            await bench.seed(*poisons, "http://s3.test/")
            counts = await bench.crawl(bench.fetcher(client=FaultyClient(bench.client, fails)))
            return counts, (await bench.store.site_states(["s3.test"]))["s3.test"]

    counts, site = asyncio.run(run())
    attempts = settings.politeness.max_attempts
    assert counts.outcomes["internal-error"] == len(poisons)
    assert counts.retries["internal-error"] == len(poisons) * (attempts - 1), "each is tried again, and not for ever"
    assert "http://s3.test/" in pages(bench), "its good pages are fetched"
    assert (site.dropped, site.clock.failures) == (None, 0)


def test_an_internal_error_after_an_answer_leaves_no_bytes_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), ModelStore(SLOTS))

    def fails(*_: object) -> None:
        assert bench.client.budget.used_bytes
        raise ValueError("not foreseen")

    monkeypatch.setattr(Visits, "answered", fails)

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            return await bench.crawl(bench.fetcher())

    assert asyncio.run(run()).pages == 0
    assert bench.client.budget.used_bytes == 0


class FailingStore(ModelStore):
    """Is gone at the first release."""

    async def release(self, releases: object) -> None:  # noqa: ARG002
        raise StoreUnavailable("the store is gone")


def test_a_store_that_is_gone_ends_the_fetcher_with_its_error_and_nothing_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAIN, settings_with(), FailingStore(SLOTS))

    async def run() -> None:
        async with bench.running({"never.test": Silence()}, parses=False):
            await bench.seed("http://never.test/", "http://s0.test/")
            with pytest.raises(StoreUnavailable, match="the store is gone"):
                await bench.fetcher().run()
            running = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}
            assert not {name for name in running if name.startswith(("Worker", "HeldSlots"))}

    asyncio.run(run())
    assert list(bench.spool.ready.iterdir()) == []
