"""What only many sites together can do to a crawl: in small numbers here, in full ones in `./check campaign`."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gossamer.testing.web import access_log
from gossamer.testing.web.access_log import Request
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.crowds import LITERALS, PARSER_CRASH, burst
from gossamer.testing.web.hostile.site import Pace, Play, document, links
from gossamer.testing.web.server import Behaviour, Connection, SimulatedWeb
from tests.crawl.conftest import STORES_VARIABLE, pages_in

IS_CAMPAIGN = STORES_VARIABLE in os.environ
#: Ends a test that hangs; nothing is measured by it.
PATIENCE_SECONDS = 240.0
LOOK_SECONDS = 0.05
#: Sites that end together and what each sends, slow sites with good ones beside them, poison sites with good ones.
BURST_SITES, BURST_BYTES = (60, 10 << 20) if IS_CAMPAIGN else (12, 2 << 20)
#: Where a segment closes; the outcome that closes it may have a whole body, and each has some words beside it.
SEGMENT_BYTES, HEADS_BYTES = 8 << 20, 64 << 10
TARPITS, GOOD_SITES, WORKERS = (80, 20, 50) if IS_CAMPAIGN else (13, 2, 12)
POISON_SITES, OTHER_SITES = 100, 40
GOOD_PAGES = 5
#: Of a campaign: how long requests are counted. The slow sites have all workers for the first few seconds.
COUNTED_SECONDS = 120.0


class CrowdedCrawl:
    """A crawl of sites that are played by hand, while it runs."""

    def __init__(self, directory: Path, serving: SimulatedWeb, process: asyncio.subprocess.Process) -> None:
        self.data = directory / "crawl"
        self.largest_segment_bytes = 0
        self._serving = serving
        self._process = process

    def requests(self) -> list[Request]:
        return sorted(access_log.read([self._serving.log_file]))

    def pages_asked_for(self, prefix: str) -> int:
        return sum(request.host.startswith(prefix) and request.path != "/robots.txt" for request in self.requests())

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so():
                assert self._process.returncode is None, "the crawl has ended"
                await asyncio.sleep(LOOK_SECONDS)

    async def end(self) -> dict[str, Any]:
        """Wait for its own end; its summary."""
        watching = asyncio.create_task(self._watch_spool())
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, errors = await self._process.communicate()
        watching.cancel()
        assert self._process.returncode == 0, errors.decode()
        summary: dict[str, Any] = json.loads(output)
        return summary

    async def _watch_spool(self) -> None:
        while True:
            for segment in self.data.glob("spool/*/**/*.seg"):
                try:
                    size = segment.stat().st_size
                except FileNotFoundError:
                    continue
                self.largest_segment_bytes = max(self.largest_segment_bytes, size)
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def crawling(
    directory: Path, sites: Mapping[str, Behaviour], seeds: Sequence[str], *flags: str
) -> AsyncIterator[CrowdedCrawl]:
    (directory / "seeds").write_text("".join(f"{seed}\n" for seed in seeds))
    async with SimulatedWeb(
        Web(sites=1, pages=1), log_directory=directory / "web", hostile=sites, https=False
    ) as serving:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gossamer", "crawl", f"--seed-file={directory / 'seeds'}", "--json", "--quiet"),
            *("--email=test@example.org", f"--data-dir={directory / 'crawl'}", "--ui-port=0", "--metrics-port=0"),
            *(f"--connect-to=127.0.0.1:{serving.http_port}", *flags),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield CrowdedCrawl(directory, serving, process)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.communicate()


def played(play: Play, *, pace: Pace | None = None) -> Behaviour:
    """A site that does this at every page, and has no robots.txt."""

    async def behave(connection: Connection) -> None:
        if connection.target == "/robots.txt":
            connection.respond(404, [], b"")
        else:
            await play(connection, pace or Pace())

    return behave


async def good_page(connection: Connection, _pace: Pace, *, pages: int) -> None:
    text = document("A good page", links(f"/page-{number}" for number in range(pages)))
    connection.respond(200, [("Content-Type", "text/html; charset=utf-8")], text.encode())


async def silence(_connection: Connection, _pace: Pace) -> None:
    await asyncio.Event().wait()


def test_bodies_that_end_together_make_no_segment_larger_than_its_limit(tmp_path: Path) -> None:
    """Row 51: every page is committed, no parser dies, and the bytes never stand in one segment."""
    names = [f"burst-{number}.test" for number in range(BURST_SITES)]
    # Nobody waits so long that the burst would end without the last one.
    site = played(burst(BURST_SITES, BURST_BYTES), pace=Pace(tick_seconds=PATIENCE_SECONDS))

    async def story() -> None:
        seeds = [f"http://{name}/" for name in names]
        async with crawling(tmp_path, dict.fromkeys(names, site), seeds, "--max-depth=0") as crawl:
            summary = await crawl.end()
            assert (summary["stop_reason"], summary["pages"], summary["restarts"]) == ("exhausted", BURST_SITES, 0)
            assert crawl.largest_segment_bytes < SEGMENT_BYTES + BURST_BYTES + HEADS_BYTES

    asyncio.run(story())


def test_sites_that_never_answer_leave_workers_for_the_others(tmp_path: Path) -> None:
    """Row 54: no time-out gives the slow ones up here, and the good ones are crawled all the same."""
    slow = [f"slow-{number}.test" for number in range(TARPITS)]
    good = [f"good-{number}.test" for number in range(GOOD_SITES)]
    sites = dict.fromkeys(slow, played(silence)) | dict.fromkeys(good, played(partial(good_page, pages=GOOD_PAGES)))
    patient = ("--header-timeout=600", "--fetch-timeout=3600", "--visit-timeout=3600")

    async def story() -> None:
        seeds = [f"http://{name}/" for name in (*slow, *good)]
        async with crawling(tmp_path, sites, seeds, "--delay=0.2", f"--fetcher-workers={WORKERS}", *patient) as crawl:
            await crawl.until(lambda: crawl.pages_asked_for("good-") >= GOOD_SITES * (1 + GOOD_PAGES))

    asyncio.run(story())


@pytest.mark.skipif(not IS_CAMPAIGN, reason="counts requests for a while: ./check campaign")
@pytest.mark.timeout(4 * PATIENCE_SECONDS)
def test_good_sites_keep_half_of_their_requests_beside_tarpits(tmp_path: Path) -> None:
    slow = [f"slow-{number}.test" for number in range(TARPITS)]
    good = [f"good-{number}.test" for number in range(GOOD_SITES)]
    sites = dict.fromkeys(slow, played(silence)) | dict.fromkeys(good, played(partial(good_page, pages=500)))

    async def asked_for(directory: Path, names: Sequence[str]) -> int:
        seeds = [f"http://{name}/" for name in names]
        flags = ("--delay=1", f"--fetcher-workers={WORKERS}", f"--max-duration={COUNTED_SECONDS}")
        async with crawling(directory, sites, seeds, *flags) as crawl:
            await crawl.end()
            return crawl.pages_asked_for("good-")

    for name in ("alone", "beside"):
        (tmp_path / name).mkdir()
    alone = asyncio.run(asked_for(tmp_path / "alone", good))
    beside = asyncio.run(asked_for(tmp_path / "beside", [*slow, *good]))
    assert alone > GOOD_SITES * COUNTED_SECONDS / 4
    assert beside >= alone / 2


def test_sites_on_one_prefix_are_visited_one_gap_apart(tmp_path: Path) -> None:
    """Row 57: literal addresses of one /24, each a site of its own."""
    gap_seconds = 0.5
    sites = dict.fromkeys(LITERALS, played(partial(good_page, pages=0)))

    async def story() -> None:
        seeds = [f"http://{address}/" for address in LITERALS]
        flags = ("--delay=0", f"--address-gap={gap_seconds}", "--num-fetcher-processes=1")
        async with crawling(tmp_path, sites, seeds, *flags) as crawl:
            summary = await crawl.end()
            assert summary["pages"] == len(LITERALS)
            assert summary["waits"]["address_holds"] >= len(LITERALS) - 1
            begun = [request.started_at_ns / 1e9 for request in crawl.requests() if request.path == "/robots.txt"]
            # A visit is on its way for a moment before it arrives, and not always for as long.
            gaps = [after - before for before, after in pairwise(begun)]
            assert min(gaps) > gap_seconds - 0.1

    asyncio.run(story())


@pytest.mark.skipif(not IS_CAMPAIGN, reason="a hundred crashes: ./check campaign")
@pytest.mark.timeout(2 * PATIENCE_SECONDS)
def test_a_hundred_poison_sites_cost_no_page_of_the_others(tmp_path: Path) -> None:
    """Row 59."""

    async def poison(connection: Connection, _pace: Pace) -> None:
        connection.respond(200, [("Content-Type", "text/html")], PARSER_CRASH.encode())

    bad = [f"bad-{number}.test" for number in range(POISON_SITES)]
    good = [f"good-{number}.test" for number in range(OTHER_SITES)]
    sites = dict.fromkeys(bad, played(poison)) | dict.fromkeys(good, played(partial(good_page, pages=GOOD_PAGES)))

    async def story() -> None:
        async with crawling(tmp_path, sites, [f"http://{name}/" for name in (*bad, *good)], "--delay=0.5") as crawl:
            summary = await crawl.end()
            assert summary["stop_reason"] == "exhausted"
            pages = [page["url"] for page in pages_in(crawl.data) if "//good-" in page["url"]]
            assert len(pages) == len(set(pages)) == OTHER_SITES * (1 + GOOD_PAGES)

    asyncio.run(story())
