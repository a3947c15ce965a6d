"""What a fetcher does to sites, origins and servers beyond the page that it wants; the server's log bears witness."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from gossamer.config import Settings, UrlSettings
from gossamer.fetch import visits
from gossamer.fetch.fetcher import Fetcher
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.store import Counts
from gossamer.records import Reason, Result
from gossamer.testing.stores.model import ModelStore
from gossamer.testing.web.server import Connection
from tests.contract.played_clock import PlayedClock
from tests.contract.test_fetcher import PLAIN, SLOTS, Bench, Silence, reasons, settings_with

Site = Callable[[Connection], Awaitable[None]]


@pytest.fixture(autouse=True)
def quick_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.spool.writer.SEGMENT_SECONDS", 0.05)


def a_site(robots: dict[str, bytes], busy: dict[str, str] | None = None) -> Site:
    """Answers for all of its hosts; those in `busy` with 429 and this Retry-After, if it is not empty."""

    async def play(connection: Connection) -> None:
        retry_after = (busy or {}).get(connection.host)
        if connection.target == "/robots.txt":
            connection.respond(200, [], robots.get(connection.host, b""))
        elif retry_after is not None:
            connection.respond(429, [("Retry-After", retry_after)] if retry_after else [], b"")
        else:
            connection.respond(200, [("Content-Type", "text/html")], b"<p>hello")

    return play


def bench_of(root: Path, settings: Settings) -> Bench:
    return Bench(root, PLAIN, settings, ModelStore(SLOTS))


def asked_for(bench: Bench, host: str) -> list[str]:
    return [request.path for request in sorted(bench.requests()) if request.host == host]


def crawled(bench: Bench, site: Site, *urls: str) -> Counts:
    async def run() -> Counts:
        async with bench.running({"one.test": site}):
            await bench.seed(*urls)
            return await bench.crawl(bench.fetcher())

    return asyncio.run(run())


def test_hosts_that_let_nobody_in_are_asked_for_their_robots_txt_with_the_gap_between_them(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with(delay=0.3))
    hosts = [f"h{number}.one.test" for number in range(5)]
    counts = crawled(
        bench, a_site(dict.fromkeys(hosts, b"User-agent: *\nDisallow: /")), *(f"http://{host}/" for host in hosts)
    )
    assert counts.outcomes == {"robots": 5}
    visits = sorted(bench.requests())
    assert [request.path for request in visits] == ["/robots.txt"] * 5
    assert min(later.started_at_ns - earlier.ended_at_ns for earlier, later in pairwise(visits)) >= 0.3e9


def test_what_a_known_robots_txt_forbids_costs_no_time(tmp_path: Path) -> None:
    """At the delay of this crawl they would take more than an hour."""
    bench = bench_of(tmp_path, settings_with(delay=70.0))
    counts = crawled(
        bench,
        a_site({"one.test": b"User-agent: *\nDisallow: /"}),
        *(f"http://one.test/{number}" for number in range(60)),
    )
    assert counts.outcomes == {"robots": 60}
    assert asked_for(bench, "one.test") == ["/robots.txt"]


def test_too_long_a_crawl_delay_of_one_origin_drops_its_urls_and_no_others(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with())
    counts = crawled(
        bench,
        a_site({"evil.one.test": b"User-agent: *\nCrawl-delay: 301"}),
        "http://evil.one.test/1",
        "http://evil.one.test/2",
        "http://www.one.test/1",
        "http://www.one.test/2",
    )
    assert counts.outcomes == {"crawl-delay": 2, "page": 2}
    assert asked_for(bench, "evil.one.test") == ["/robots.txt"]


def test_the_silence_that_one_origin_asks_for_is_kept_for_it_alone_and_by_the_next_owner_too(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with())
    site = a_site({}, busy={"evil.one.test": "86400"})

    async def run() -> Counts:
        async with bench.running({"one.test": site}):
            await bench.seed("http://evil.one.test/1", "http://evil.one.test/2", "http://www.one.test/1")
            for owner, pages in (("first", 1), ("second", 2)):
                fetcher = bench.fetcher(owner)
                running = asyncio.create_task(fetcher.run())
                await bench.until(
                    lambda counts: counts.pages == pages and "origin-held" in fetcher.statistics().outcomes  # noqa: B023
                )
                fetcher.drain()
                await running
                await bench.seed("http://www.one.test/2")
            return await bench.counts()

    counts = asyncio.run(run())
    assert asked_for(bench, "evil.one.test") == ["/robots.txt", "/1"]
    assert (counts.outcomes, counts.queued) == ({"page": 2}, 2)
    (state,) = asyncio.run(bench.store.site_states(["one.test"])).values()
    assert (state.dropped, state.clock.failures) == (None, 0)


def test_an_origin_that_is_always_busy_is_given_up_and_the_crawl_ends(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with(max_failures=3))
    counts = crawled(
        bench,
        a_site({}, busy={"evil.one.test": ""}),
        *(f"http://evil.one.test/{number}" for number in range(6)),
        "http://www.one.test/",
    )
    assert counts.outcomes == {"busy": 6, "page": 1}
    assert Counter(asked_for(bench, "evil.one.test")).total() == 1 + 3, "robots.txt, and three pages"
    dropped = [outcome for outcome in bench.parser.outcomes if outcome.result is Result.DROPPED]
    assert {outcome.detail for outcome in dropped} == {"busy 3 times in a row"}


def test_a_good_answer_forgives_an_origin_that_was_busy(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with(max_failures=2))
    asked: Counter[str] = Counter()

    async def busy_at_first(connection: Connection) -> None:
        asked[connection.target] += 1
        if connection.target != "/robots.txt" and asked[connection.target] == 1:
            connection.respond(503, [], b"")
        else:
            connection.respond(200, [("Content-Type", "text/html")], b"<p>hello")

    async def run() -> Counts:
        async with bench.running({"one.test": busy_at_first}):
            for number in range(3):
                await bench.seed(f"http://one.test/{number}")
                await bench.crawl(bench.fetcher(f"owner {number}"))
            return await bench.counts()

    assert asyncio.run(run()).outcomes == {"page": 3}


def test_a_site_whose_only_origin_is_held_costs_a_lease_a_second_and_no_more(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with())
    asked = 0

    async def busy_once(connection: Connection) -> None:
        nonlocal asked
        asked += 1
        status, headers = (429, [("Retry-After", "2")]) if asked == 2 else (200, [("Content-Type", "text/html")])
        connection.respond(status, headers, b"")

    crawled(bench, busy_once, *(f"http://one.test/{number}" for number in range(5)))
    assert 1 <= reasons(bench)[Result.RETRY, Reason.ORIGIN_HELD] <= 3


def test_a_robots_redirect_to_an_excluded_site_sends_nothing_there(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, settings_with())
    victim = Silence()

    async def moved(connection: Connection) -> None:
        connection.respond(302, [("Location", "http://victim.test/search")], b"")

    async def run() -> Counts:
        async with bench.running({"one.test": moved, "victim.test": victim}):
            await bench.seed("http://one.test/", "http://two.one.test/")
            rules = AdmissionRules(bench.settings.scope, Exclusions(frozenset({"victim.test"})))
            return await bench.crawl(bench.fetcher(rules=rules))

    assert asyncio.run(run()).outcomes == {"robots-unreachable": 2}
    assert {request.host for request in bench.requests()} == {"one.test", "two.one.test"}
    details = {outcome.detail for outcome in bench.parser.outcomes if outcome.result is Result.RETRY}
    assert details == {"it is redirected to victim.test, which is excluded"}


LITERALS = [f"198.51.100.{number}" for number in range(1, 4)]


def address_settings(*, gap: float, concurrency: int = 8) -> Settings:
    return msgspec.structs.replace(
        settings_with(address_gap_seconds=gap, address_concurrency=concurrency), url=UrlSettings(slots=SLOTS)
    )


def test_sites_at_one_network_of_servers_are_visited_one_after_the_other(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, address_settings(gap=600.0))

    async def run() -> Fetcher:
        async with bench.running(dict.fromkeys(LITERALS, a_site({}))):
            await bench.seed(*(f"http://{literal}/" for literal in LITERALS), "http://s0.test/")
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await bench.until(lambda counts: counts.pages > 1 and counts.retries == {"server-address": 2})
            states = await bench.store.site_states(LITERALS)
            fetcher.drain()
            await running
            waits = sorted(state.not_before for state in states.values())
            now = await bench.store.now()
            assert waits[1] <= now + 600.0 < waits[2] <= now + 1200.0
            assert all(not state.clock.last_request_at for state in states.values() if state.not_before > now)
            return fetcher

    fetcher = asyncio.run(run())
    assert fetcher.statistics().address_holds == 2
    assert len({request.host for request in bench.requests()} & set(LITERALS)) == 1


def test_a_network_of_servers_has_so_many_visits_at_once_and_others_go_on(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, address_settings(gap=0.0, concurrency=1))

    async def run() -> Counts:
        silence = Silence()
        async with bench.running(dict.fromkeys(LITERALS, silence)):
            await bench.seed(*(f"http://{literal}/" for literal in LITERALS), "http://s0.test/")
            fetcher = bench.fetcher()
            crawling = asyncio.create_task(bench.crawl(fetcher))
            # Each of the others has come twice for a place while one has it.
            await bench.until(lambda counts: counts.pages > 0 and counts.retries.get("server-address", 0) > 3)
            assert len({request.host for request in bench.requests()} & set(LITERALS)) == 1
            silence.over.set()
            return await crawling

    counts = asyncio.run(run())
    assert counts.outcomes["page"] == counts.finished
    assert {request.host for request in bench.requests()} >= set(LITERALS)


def test_names_without_a_known_address_have_no_limit(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, address_settings(gap=600.0, concurrency=1))

    async def run() -> Counts:
        async with bench.running():
            await bench.seed()
            return await bench.crawl(bench.fetcher())

    assert asyncio.run(run()).pages == 50


def test_slow_sites_leave_half_of_the_workers_to_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = PlayedClock()
    for module in ("visits", "worker"):
        monkeypatch.setattr(f"gossamer.fetch.{module}.time", clock)
    bench = bench_of(tmp_path, settings_with(workers=4, delay=60.0))
    silence = Silence()

    async def run() -> tuple[Counts, Fetcher]:
        async with bench.running({"tar.test": silence, **{f"tar{number}.test": silence for number in range(9)}}):
            await bench.seed(*(f"http://tar{number}.test/" for number in range(9)))
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await bench.until(lambda _: fetcher.statistics().in_flight == 4)
            await bench.seed("http://s0.test/", "http://s1.test/")
            # No worker would be free for them, ever.
            while (await bench.counts()).pages < 2:
                clock.advance(visits.SLOW_SECONDS + 1.0)
                await asyncio.sleep(0.05)
            counts = await bench.counts()
            silence.over.set()
            fetcher.drain()
            await running
            return counts, fetcher

    counts, fetcher = asyncio.run(run())
    cut = [outcome for outcome in bench.parser.outcomes if "half of the workers" in outcome.detail]
    assert len(cut) == fetcher.statistics().slow_visits_cut >= 2
    assert {(outcome.result, outcome.reason) for outcome in cut} == {(Result.RETRY, Reason.TIMEOUT)}
    assert counts.retries["timeout"] <= len(cut)
    assert fetcher.statistics().workers == 4, "each worker went on with another lease"


def test_a_visit_that_is_ended_while_its_fetcher_stops_is_handed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = PlayedClock()
    for module in ("visits", "worker"):
        monkeypatch.setattr(f"gossamer.fetch.{module}.time", clock)
    bench = bench_of(tmp_path, settings_with(workers=1))
    silence = Silence()

    async def run() -> Counts:
        async with bench.running({"one.test": silence}):
            await bench.seed("http://one.test/")
            fetcher = bench.fetcher()
            running = asyncio.create_task(fetcher.run())
            await silence.asked.wait()
            clock.advance(60.0)
            fetcher._visits.cut_slow(waiting=1)
            (task,) = fetcher._tasks
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            fetcher.drain()
            await running
            return await bench.counts()

    counts = asyncio.run(run())
    assert (counts.retries, counts.queued, counts.leased) == ({"stopped": 1}, 1, 0)
