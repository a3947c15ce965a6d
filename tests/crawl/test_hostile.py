"""The hostile catalogue and a hundred good sites in one crawl: each hostile URL ends as the table says, and nobody else
notices."""

import asyncio
import contextlib
import gzip
import json
import re
import subprocess
import threading
import time
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gossamer.config import ParseSettings
from gossamer.parse.html import MAX_HREF_CHARACTERS
from gossamer.records import Lease, Outcome, Reason
from gossamer.report.lag import LOOK_SECONDS, LoopLag
from gossamer.run.process import PARSER_MEMORY_BYTES
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import Offence
from gossamer.testing.audit.rules import Rules
from gossamer.testing.hostile_crawl import REFUSALS, Evidence, Tap, current_places, table, verdicts
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import hostile_seeds
from gossamer.testing.web.hostile.crowds import POISONED
from gossamer.testing.web.hostile.site import Expected
from gossamer.testing.web.resolver import Resolver
from gossamer.url import Refusal, canonicalise
from tests.contract.test_parser import Crawl, model_store, page
from tests.contract.test_parser import crawl as parse_crawl
from tests.crawl.conftest import Crawls, assert_each_once, crawls_of
from tests.crawl.test_deaths import children, processes

#: Nobody's, and of the open web for whoever judges addresses (it sinks stray queries, RFC 7535). All connections are
#: led to the server by --connect-to, so none is made to it.
WEB_ADDRESS = "192.31.196.1"
#: Rows that wait for a feature, and have no end yet.
LATER = ("http://farm.test/", "http://h30.test/")
DELAY_SECONDS = 0.1
#: More than any row has of its own, and an end for those that have none.
SITE_URLS = 150
FETCHER_GROWTH_BYTES = 64 << 20
LATE_MILLISECONDS = 1000
#: Many times what it takes on two processors of its own: a crawl that hangs is a failure, not a hanging test.
PATIENCE_SECONDS = 300.0
FETCHERS = 2
FLAGS = (
    f"--num-fetcher-processes={FETCHERS}",
    "--num-parser-processes=1",
    "--fetcher-workers=150",
    f"--max-site-urls={SITE_URLS}",
    "--backoff=0.01",
    "--max-failures=1000",
    "--max-attempts=1",
    # Short, for the test lasts four times the last two (h37 asks for robots.txt so often); and longer than good sites,
    # which have one attempt, are late on a busy machine.
    "--dns-timeout=6",
    "--connect-timeout=6",
    "--tls-timeout=6",
    "--header-timeout=6",
    "--fetch-timeout=10",
    # Here all names have one address, and a site is to wait for nobody else; row 57 has a crawl of its own.
    "--address-gap=0",
    "--address-concurrency=0",
)
#: Outcomes that show how a reference ended only if its target was leased.
LEASED = {Expected.DONE, Expected.ADDRESS, Expected.DISALLOWED, Expected.SEEN}

#: A server that plays fifty hostile sites on a busy machine, as to when a client has left.
SERVER_LATENESS_SECONDS = 6.0
HOSTILE = re.compile(r"\bh\d\d(-[\w-]+)?\.test\Z")
ROBOTS_HOP = re.compile(r"\bh40\.test/hop\?|\bh54-\w+\.test/rules")
ROBOTS_ROWS = re.compile(r"\b(h37|h38|h38-long|h39|h40|h40-rules|h54-\w+|h56-\w+)\.test/")
ROBOTS_OFFENCES = {Offence.ROBOTS_NOT_FIRST, Offence.ROBOTS_TOO_OFTEN, Offence.ROBOTS_TOO_SOON}


@contextlib.contextmanager
def resolver() -> Iterator[int]:
    """The test's name server in a thread of its own; its port."""
    with asyncio.Runner() as runner:
        serving = Resolver(web_address=WEB_ADDRESS, late_seconds=1.0)
        loop = runner.get_loop()
        runner.run(serving.__aenter__())
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield serving.port
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            runner.run(serving.__aexit__(None, None, None))


class Memory:
    """What the processes of a crawl use, sampled now and then. Bytes; the first figure of a process is where it began,
    with everything imported and nothing fetched."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        self.most: dict[int, int] = {}

    def sample(self, pids: list[int], figure: str) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text("ascii")
                found = re.search(rf"^{figure}:\s+(\d+) kB$", status, re.MULTILINE)
                if found is not None:
                    used = int(found[1]) << 10
                    self.first.setdefault(pid, used)
                    self.most[pid] = max(used, self.most.get(pid, 0))

    def growth(self) -> list[int]:
        return [most - self.first[pid] for pid, most in self.most.items()]


def must_end() -> set[str]:
    """The URLs that the test waits for: those that are expected at, and targets that are."""
    awaited: set[str] = set()
    for _, where, place in current_places():
        if place.expected and Expected.RETRY not in place.expected:
            awaited.add(where)
        for reference, right in place.links.items():
            base = canonicalise(where)
            assert not isinstance(base, Refusal)
            target = canonicalise(reference, base)
            if right in LEASED and not isinstance(target, Refusal):
                awaited.add(target.text)
    return awaited


def watch(
    crawls: Crawls, crawl: subprocess.Popen[str], tap: Tap, awaited: set[str], *, fetchers: Memory, parsers: Memory
) -> set[str]:
    """Until all that is awaited has ended, and is parsed; what has not if it takes too long."""
    until = time.monotonic() + PATIENCE_SECONDS
    quiet = 0
    waiting = awaited
    while crawl.poll() is None and time.monotonic() < until and quiet < 4:
        time.sleep(0.25)
        if (crawls.data / "processes.json").exists():
            fetchers.sample([processes(crawls).leader, *children(crawls, "fetcher")], "VmRSS")
            parsers.sample(children(crawls, "parser"), "VmData")
        waiting = {url for url in waiting if tap.final(url) is None}
        is_spool_empty = not any(crawls.data.glob("spool/ready/*.seg"))
        quiet = quiet + 1 if not waiting and is_spool_empty else 0
    return waiting


def lags(crawls: Crawls) -> list[dict[str, int]]:
    """What the fetchers said of their event loops when they left."""
    lines = (json.loads(line) for line in crawls.logs().splitlines() if line)
    return [line["fields"] for line in lines if line["message"] == "how late the event loop was at most"]


@pytest.mark.long
@pytest.mark.timeout(2 * PATIENCE_SECONDS)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory of processes is read from /proc")
def test_every_hostile_url_ends_as_the_table_says_and_good_sites_are_crawled_whole(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(sites=100, pages=10, links_per_page=20, median_bytes=8_000, https_share=0.3)
    seeds = [*web.seeds(), *(seed for seed in hostile_seeds() if seed not in LATER)]
    with (
        resolver() as port,
        crawls_of(web, tmp_path, store, hostile=True) as crawls,
    ):
        good = crawls.expected_pages()
        fetchers, parsers = Memory(), Memory()
        with Tap(crawls.data / "spool", tmp_path / "tap") as tap:
            for name, text in tap.environment.items():
                monkeypatch.setenv(name, text)
            crawl = crawls.start(f"--resolver=127.0.0.1:{port}", *FLAGS, seeds=seeds, delay=DELAY_SECONDS)
            with crawl:
                try:
                    waiting = watch(crawls, crawl, tap, must_end() | good, fetchers=fetchers, parsers=parsers)
                    summary = crawls.interrupt(crawl)
                finally:
                    if crawl.poll() is None:
                        crawl.kill()
        assert sorted(waiting)[:20] == []
        assert tap.missed() == []
        pages = crawls.pages()
        evidence = Evidence(tap.attempts, {page["url"]: page for page in pages}, ParseSettings().max_links)
        judged = verdicts(evidence)
        (tmp_path / "hostile.md").write_text(table(judged), "utf-8")
        assert [verdict for verdict in judged if not verdict.is_right] == []
        assert_refusals_are_counted(summary["refused"])
        # What has no end (rows 26 to 29) has its share, and no more.
        assert summary["refused"]["site-full"] > 0
        leased = Counter(outcomes[0].lease.site for outcomes in tap.attempts.values())
        assert {site: count for site, count in leased.items() if count > SITE_URLS} == {}
        assert_each_once([page for page in pages if web.is_known_site(page["site"])], good)
        assert offences(crawls) == []
        assert short_gaps(tap.attempts) == []
        assert max(fetchers.growth()) < FETCHER_GROWTH_BYTES
        assert max(parsers.most.values()) < PARSER_MEMORY_BYTES
        # Each poison page (row 59) kills its parser, and then the process that reads it alone.
        assert summary["restarts"] <= 2 * POISONED
        assert len(lags(crawls)) == FETCHERS
        assert crowded(crawls, "h56-victim.test", "/search") == []
        assert max(lag["loop_lag_own_ms_max"] for lag in lags(crawls)) < LATE_MILLISECONDS


def offences(crawls: Crawls) -> list[str]:
    """What the auditor finds, but for two things that a server's log cannot tell at hostile sites.

    When an answer is hopeless it is not waited for, and the server sees late that its client is gone: gaps are judged
    by `short_gaps` there. And what plays tricks with robots.txt (rows 37 to 40): one that is cut at our limit, leads
    nowhere or is fetched for another origin counts for more than one answer, or for none; and what robots.txt is
    redirected to is asked for at once, as part of it.
    """
    requests = [
        request._replace(aborted=True) if HOSTILE.search(request.host) and request.path != "/robots.txt" else request
        for request in crawls.requests()
        if not ROBOTS_HOP.search(f"{request.host}{request.path}")
    ]
    rules = Rules(
        seeds=crawls.graph.seeds(),
        delay_seconds=DELAY_SECONDS,
        files=False,
        other_sites=r"(h\d\d.*|farm)\.test|192\.31\.196\.\d+",
        abort_lateness_seconds=SERVER_LATENESS_SECONDS,
    )
    found = audit(requests, crawls.graph, rules, examples=10_000)
    return [
        f"{finding.offence}: {example.url} {example.detail}"
        for finding in found.findings
        for example in finding.examples
        if not (finding.offence in ROBOTS_OFFENCES and ROBOTS_ROWS.search(example.url))
        if not (finding.offence is Offence.TOO_SOON and HOSTILE.search(urlsplit(example.url).netloc))
    ]


def crowded(crawls: Crawls, host: str, path: str) -> list[str]:
    """Moments at which a site to which robots.txt is redirected got more than one request a second of each fetcher."""
    times = sorted(
        request.started_at_ns for request in crawls.requests() if request.host == host and request.path.startswith(path)
    )
    # What a fetcher sends at its turn arrives a little later, and not always by as much.
    return [
        f"{FETCHERS + 1} in {(last - first) / 1e9:.3f} s"
        for first, last in zip(times, times[FETCHERS:], strict=False)
        if last - first < 0.9e9
    ]


def short_gaps(attempts: Mapping[str, list[Outcome]]) -> list[str]:
    """Requests that a site got too soon, by the crawler's own account: from the end of one to the start of the next."""
    asked: dict[str, list[Outcome]] = defaultdict(list)
    for outcomes in attempts.values():
        for outcome in outcomes:
            is_refused = outcome.reason is Reason.BLOCKED_ADDRESS or outcome.detail.startswith("robots.txt: ")
            if outcome.address and not is_refused:
                asked[outcome.lease.site].append(outcome)
    return [
        f"{after.lease.url} {after.fetched_at - before.fetched_at - before.times.total:.3f} s after {before.lease.url}"
        for outcomes in asked.values()
        for before, after in pairwise(sorted(outcomes, key=lambda outcome: outcome.fetched_at))
        if after.fetched_at - before.fetched_at - before.times.total < DELAY_SECONDS
    ]


def assert_refusals_are_counted(refused: dict[str, int]) -> None:
    """What left no other trace: at least as many were refused for each reason as the table has references. (Those that
    are longer than any URL on earth are left out before they are counted so.)"""
    counted = Counter[Expected]()
    for reason, count in refused.items():
        if reason in REFUSALS:
            counted[REFUSALS[Reason(reason)]] += count
    expected = Counter(
        right
        for _, _, place in current_places()
        for reference, right in place.links.items()
        if right in REFUSALS.values() and len(reference) <= MAX_HREF_CHARACTERS
    )
    assert counted >= expected


@pytest.mark.timeout(2 * PATIENCE_SECONDS)
def test_a_page_that_needs_more_memory_than_a_parser_has_is_lost_alone(tmp_path: Path, store: str) -> None:
    web = Web(sites=5, pages=5, links_per_page=5, median_bytes=4_000)
    with crawls_of(web, tmp_path, store, hostile=True) as crawls:
        poison = "http://h31.test/million"
        # Of which 6,000 links are taken: what needs the memory is a tree of two million nodes.
        crawl = crawls.start(
            "--max-body=64MiB", "--max-parse-bytes=64MiB", "--max-depth=0", seeds=[poison, *web.seeds()]
        )
        crawl.wait(PATIENCE_SECONDS)  # what it says is short enough for a pipe
        summary = crawls.end(crawl)
        assert summary["failures"] == {Reason.PARSE_CRASH: 1}
        # An allocation that fails is an exception, or the death of whoever made it.
        assert summary["restarts"] <= 1
        assert_each_once(crawls.pages(), crawls.expected_pages() & set(web.seeds()))


def test_forty_pages_of_a_megabyte_of_text_are_not_held_at_once(tmp_path: Path) -> None:
    # One letter outside the basic plane, and each of them takes four bytes.
    body = gzip.compress(("<p>\U0001f577 " + "word " * 200_000).encode(), 1)

    def answer(lease: Lease) -> Outcome:
        return page(lease, body, content_encoding="gzip")

    async def story(crawl: Crawl) -> None:
        await crawl.admit(*(f"http://site-{number}.test/" for number in range(40)))
        await crawl.fetch(answer)
        tracemalloc.start()
        try:
            async with crawl.parser() as parser:
                parser.drain(empty_spool=True)
                await parser.run()
            assert parser.statistics().pages == 40
            assert tracemalloc.get_traced_memory()[1] < 128 << 20
        finally:
            tracemalloc.stop()

    parse_crawl(tmp_path, model_store, story)


def test_a_loop_that_is_held_up_knows_it_and_by_whom() -> None:
    lag = LoopLag()

    async def hold_up() -> None:
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(0)
        time.sleep(LOOK_SECONDS + 0.2)  # noqa: ASYNC251 (what no task may do)
        await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(hold_up())
    assert lag.most_seconds >= 0.2
    lag = LoopLag()
    lag.note(late_seconds=3.0, used_seconds=2.5)
    lag.note(late_seconds=0.1, used_seconds=9.0)
    assert lag.numbers() == {"loop_lag_ms_max": 3000, "loop_lag_own_ms_max": 2500}
