"""What looking at a crawl costs, in CPU time: `python -m benchmarks.observation [--pages N] [--rounds N]`.

Each part is run alone, with everything that it does in a crawl, and the cost of the loop around it is taken off:

- what fetcher, client and parser count for a page, in mapped files; a twentieth of a request for robots.txt included,
  as with twenty pages of an origin in a day
- the timing of the calls to the store, of which a page needs a part only, because they are made for batches
- the reports of a fetcher and a parser, twice a second, and the leader's reading them
- a count of descriptors by kind in each process, every fifteen seconds, with 250 connections of a client open
- one sample of the leader, every five seconds: eight processes, a hundred thousand sites known
- one drawing of the terminal's view, every second
- one scrape, every fifteen seconds, and one look of an open dashboard, every two and a half

What happens by the clock is spread over the pages of that time: the faster a crawl, the less it is for each of them.
"""

import argparse
import asyncio
import contextlib
import platform
import shutil
import socket
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from gossamer.config import Settings
from gossamer.fetch.fetcher import FetcherStatistics
from gossamer.frontier.store import Counts, Store
from gossamer.parse.meter import ParserStatistics
from gossamer.records import Answer, Lease, Outcome, PhaseTimes, Reason, Result
from gossamer.report.board import Board, Facts
from gossamer.report.counters import SUFFIX, Counters
from gossamer.report.dashboard.server import DashboardServer
from gossamer.report.descriptors import count_descriptors
from gossamer.report.metrics_server import MetricsServer
from gossamer.report.pace import Paces
from gossamer.report.progress import View, view_lines
from gossamer.report.resources import own_usage
from gossamer.run.condition import Condition
from gossamer.run.data_directory import DataDirectory
from gossamer.run.fetching import FetcherWork
from gossamer.run.metered_store import MeteredStore
from gossamer.run.meters import FetchCounting, ParseCounting, StoreCounting
from gossamer.run.observation import Observation
from gossamer.run.orders import Numbers, Orders, Report
from gossamer.run.supervisor import Supervisor
from gossamer.run.wiring import COUNT_SECONDS
from gossamer.sinks.sink import PageRecord
from gossamer.spool.directory import SpoolDirectory
from gossamer.url import Url, canonicalise

SITES = 100_000
FETCHERS, PARSERS = 4, 4
#: Of one fetcher at 250 pages a second: it ticks some fifty times, with four calls each.
CALLS_A_PAGE = 0.8
#: Of one fetcher with 500 workers.
CONNECTIONS = 250
ROBOTS_A_PAGE = 0.05
TIMES = PhaseTimes(0.004, 0.012, 0.03, 0.05, 0.11)


def outcome(number: int) -> Outcome:
    site = f"s{number % SITES}.example"
    url = f"https://www.{site}/articles/{number}"
    lease = Lease(number, 1, 1, url, site, number, 3, 0, False, 0, 0)
    headers = ((b"Content-Type", b"text/html; charset=utf-8"),)
    answer = Answer(url, 1.0, b"GET", b"HTTP/1.1 200 OK", 200, headers, bytes(22_000), times=TIMES)
    return Outcome(lease, Result.DONE, Reason.PAGE, 1.0, "", answer, "192.0.2.1", TIMES)


def record(url: str) -> PageRecord:
    canonical = canonicalise(url)
    assert isinstance(canonical, Url)
    return PageRecord(
        url=canonical,
        media_type="text/html",
        media_type_detected="text/html",
        charset="utf-8",
        truncated="",
        decoded_bytes=100_000,
        title="A title as long as most of them are, or nearly",
        description="",
        language="en",
        canonical=None,
        robots=(),
        noindex=False,
        nofollow=False,
        links=80,
        text=None,
        main_text=None,
    )


class Nothing:
    """A store that answers at once: what is left is the timing."""

    async def release(self, _: object) -> None: ...

    async def vitals(self) -> dict[str, float]:
        return {}

    @property
    def is_away(self) -> bool:
        return False


class Unsteered:
    """Nobody steers."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...

    def block(self, site: str) -> None: ...


class Own:
    """The leader's own fetcher, as far as it reports."""

    def __init__(self, counting: FetchCounting) -> None:
        self._counting = counting

    def report(self, *, by_name: bool) -> Report:
        statistics = FetcherStatistics(
            slots=16,
            workers=500,
            in_flight=120,
            waiting=60,
            outcomes=dict.fromkeys(list(Reason)[:20], 1000),
            received_bytes=10**9,
            in_flight_bytes=10**7,
            in_flight_waiting=0,
            robots_asked=1000,
            backpressure_soft=1,
            backpressure_hard=0,
            shortage_failures=0,
            shortage_pauses=0,
            backpressure=0,
            next_due_milliseconds=3,
            is_short=0,
            errors=0,
            address_holds=0,
            slow_visits_cut=0,
        )
        numbers = msgspec.convert(msgspec.to_builtins(statistics), Numbers)
        return Report(usage=own_usage(), numbers=numbers, sites=self._counting.sites.told() if by_name else None)


class Crew:
    """The other processes, as the supervisor has them: with the last that each has said."""

    restarts = 0

    def __init__(self, own: Own, parser: Report) -> None:
        self.children = [
            _Child(kind, index, own.report(by_name=True) if kind == "fetcher" else parser)
            for kind, count in (("fetcher", FETCHERS - 1), ("parser", PARSERS))
            for index in range(count)
        ]

    def reports(self, kind: str) -> list[Report]:
        return [child.report for child in self.children if child.orders.kind == kind]

    def total(self, name: str) -> int:
        return sum(number for child in self.children if isinstance(number := child.report.numbers.get(name, 0), int))


class _Child:
    """One of them."""

    def __init__(self, kind: Any, index: int, report: Report) -> None:
        self.orders = Orders(
            kind=kind, index=index, name=f"{kind}-{index}", owner="", run=1, data="", settings=Settings()
        )
        self.pid = 1000 + index
        self.report = self.by_name = report


def cpu_seconds(work: Callable[[], object], repeats: int, rounds: int) -> float:
    """Of one call; the least of the rounds."""
    least = float("inf")
    for _ in range(rounds):
        began_at = time.process_time()
        for _ in range(repeats):
            work()
        least = min(least, time.process_time() - began_at)
    return least / repeats


def counting(directory: Path, pages: int, rounds: int) -> dict[str, float]:
    """Microseconds for a page."""
    counters = Counters(directory / "metrics" / f"fetcher-0{SUFFIX}")
    fetching, parsing, store = FetchCounting(counters), ParseCounting(counters), StoreCounting(counters)
    outcomes = [outcome(number) for number in range(pages)]
    page = record(outcomes[0].lease.url)
    answer = outcomes[0].answer
    assert answer is not None

    def fetched() -> None:
        for one in outcomes:
            fetching.sent("page")
            fetching.answered("page", answer)
            fetching.delivered(one)

    def robots() -> None:
        for _ in range(pages):
            fetching.sent("robots")
            fetching.answered("robots", answer)

    def read() -> None:
        for one in outcomes:
            parsing.read(one, page, 0.002)

    async def called(metered: Store) -> None:
        for _ in range(pages):
            await metered.release([])

    plain = cast("Store", Nothing())
    metered = MeteredStore(plain, store)
    repeated = {
        "fetched": cpu_seconds(fetched, 1, rounds),
        "robots": cpu_seconds(robots, 1, rounds),
        "parsed": cpu_seconds(read, 1, rounds),
        "calls": cpu_seconds(lambda: asyncio.run(called(metered)), 1, rounds)
        - cpu_seconds(lambda: asyncio.run(called(plain)), 1, rounds),
        "loop": cpu_seconds(lambda: [None for _ in outcomes], 1, rounds),
    }
    each = {name: seconds / pages * 1e6 for name, seconds in repeated.items()}
    return {
        "a fetcher's and its client's counts": each["fetched"] - each["loop"] + ROBOTS_A_PAGE * each["robots"],
        "a parser's counts": each["parsed"] - each["loop"],
        "the timing of calls to the store": CALLS_A_PAGE * each["calls"],
    }


def by_the_clock(directory: Path, rounds: int) -> dict[str, float]:
    """CPU seconds for a second of a crawl."""
    for index in range(1, FETCHERS + PARSERS):
        Counters(directory / "metrics" / f"process-{index}{SUFFIX}").close()
    fetching = FetchCounting(Counters(directory / "metrics" / f"fetcher-0{SUFFIX}"))
    parsing = ParseCounting(Counters(directory / "metrics" / f"parser-0{SUFFIX}"))
    for number in range(SITES):
        one = outcome(number)
        fetching.delivered(one)
        if number % 100 == 0:
            parsing.read(one, record(one.lease.url), 0.002)
    own = Own(fetching)
    numbers = msgspec.convert(msgspec.to_builtins(ParserStatistics(refused={"seen": 1})), Numbers)
    parser = Report(usage=own_usage(), numbers=numbers, recent=parsing.recent.told())
    encoded = msgspec.json.encode(own.report(by_name=True))
    reports = cpu_seconds(lambda: msgspec.json.encode(own.report(by_name=False)), 200, rounds)
    named = cpu_seconds(lambda: msgspec.json.encode(own.report(by_name=True)), 20, rounds)
    decoded = cpu_seconds(lambda: msgspec.json.decode(encoded, type=Report), 200, rounds)

    data = DataDirectory(directory)
    spool = SpoolDirectory(data.spool)
    spool.create()
    board = Board(
        Facts(
            version="0",
            data_directory="",
            run=1,
            started_at=0.0,
            store="sqlite",
            delay_seconds=70.0,
            max_pages=0,
            max_duration_seconds=0.0,
        )
    )
    condition = Condition(directory, 0, lambda _: None)
    condition.counts = Counts(
        admitted=10**8, finished=10**7, sites=SITES, sites_waiting=SITES, outcomes=dict.fromkeys(map(str, Reason), 9)
    )
    observation = Observation(
        data=data,
        settings=Settings(),
        store=cast("Store", Nothing()),
        spool=spool,
        name="fetcher-0",
        own=cast(FetcherWork, own),  # noqa: TC006 (the name is imported for this alone)
        crew=cast(Supervisor, Crew(own, parser)),  # noqa: TC006 (likewise)
        condition=condition,
        board=board,
    )

    async def samples(count: int) -> None:
        for _ in range(count):
            await observation.take()

    sample = cpu_seconds(lambda: asyncio.run(samples(20)), 1, rounds) / 20
    asyncio.run(samples(720))  # an hour of history

    pace = Paces()
    view = View(counts=condition.counts, elapsed_seconds=1.0, sample=board.sample, max_pages=10**9)

    def draw() -> None:
        pace.note(1.0, 1, board.sample)
        view_lines(view, pace.now(), shutil.get_terminal_size((120, 40)))

    drawing = cpu_seconds(draw, 100, rounds)
    scrape, series = _scraped(board, rounds)
    print(f"a scrape of {series} series: {scrape * 1000:.1f} ms of CPU, client included")
    print(f"a sample: {sample * 1000:.1f} ms of CPU, with {FETCHERS} fetchers, {PARSERS} parsers, {SITES:,} sites")
    return {
        "reports of the processes": (FETCHERS + PARSERS) * (2 * (reports + decoded) + named / 4),
        "descriptors by kind": (FETCHERS + PARSERS) * _counted(directory, rounds) / COUNT_SECONDS,
        "samples of the leader": sample / 5,
        "the terminal": drawing,
        "scrapes by a Prometheus": scrape / 15,
        "an open dashboard": _looked_at(board, rounds) / 2.5,
    }


def _counted(directory: Path, rounds: int) -> float:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.socket()) for _ in range(CONNECTIONS)]
        web = {one.fileno(): "https" for one in opened}
        return cpu_seconds(lambda: count_descriptors(directory, frozenset(), web), 20, rounds)


def _scraped(board: Board, rounds: int) -> tuple[float, int]:
    server = MetricsServer(board, "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(server.url) as answer:
            series = sum(not line.startswith(b"#") for line in answer.read().splitlines())
        return cpu_seconds(lambda: urllib.request.urlopen(server.url).read(), 20, rounds), series
    finally:
        server.close()


def _looked_at(board: Board, rounds: int) -> float:
    assert board.sample is not None
    server = DashboardServer(board, Unsteered(), "token", 0, lambda _: None)
    url = f"{server.url}api/now?since={board.sample.at - 4}"
    try:
        return cpu_seconds(lambda: urllib.request.urlopen(url).read(), 20, rounds)
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp())
    try:
        per_page = counting(directory, arguments.pages, arguments.rounds)
        per_second = by_the_clock(directory, arguments.rounds)
    finally:
        shutil.rmtree(directory)
    speeds = (50, 250, 1000)
    print(f"Python {platform.python_version()}; CPU microseconds for a page, least of {arguments.rounds}")
    print(f"{'at a speed of':40}" + "".join(f"{speed:>9,}/s" for speed in speeds))
    for name, microseconds in per_page.items():
        print(f"{name:40}" + f"{microseconds:11.1f}" * len(speeds))
    for name, seconds in per_second.items():
        print(f"{name:40}" + "".join(f"{seconds / speed * 1e6:11.1f}" for speed in speeds))
    fixed = sum(per_page.values())
    totals = [fixed + sum(per_second.values()) / speed * 1e6 for speed in speeds]
    print(f"{'all':40}" + "".join(f"{total:11.1f}" for total in totals) + "   (aim: 50)")


if __name__ == "__main__":
    main()
