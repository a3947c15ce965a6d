"""The gap of every site, measured at the server, over a stop, a resume and a change of the processes."""

import subprocess
import time
from pathlib import Path

import pytest

from gossamer.testing.web.graph import Web
from tests.crawl.conftest import Crawls, crawls_of

WEB = Web(sites=100, pages=50, links_per_page=40, median_bytes=6_000, https_share=0.2)
DELAY_SECONDS = 1.5
#: Of each run, its robots.txt files included: some five gaps of every site, and far from all that there is.
REQUESTS = 600
#: A run needs twelve seconds for its requests; on a busy machine several times that.
PATIENCE_SECONDS = 150.0


def until_requested(crawls: Crawls, count: int, running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(crawls.requests()) < count:
        assert running.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, "the crawl does not get on"
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_gap_holds_over_a_stop_a_resume_and_another_number_of_fetchers(tmp_path: Path, store: str) -> None:
    with crawls_of(WEB, tmp_path, store) as crawls:
        running = crawls.start("--num-fetcher-processes=2", delay=DELAY_SECONDS)
        until_requested(crawls, REQUESTS, running)
        first = crawls.interrupt(running)
        assert first["stop_reason"] == "interrupted"
        running = crawls.start_again("--num-fetcher-processes=3")
        until_requested(crawls, len(crawls.requests()) + REQUESTS, running)
        second = crawls.interrupt(running)
        assert second["stop_reason"] == "interrupted"
        assert second["run"] == 2
        judged = crawls.judge(delay=DELAY_SECONDS, is_partial=True, repeats=100)
        assert judged.is_clean, judged.verdict
        assert judged.counts.requests >= 2 * REQUESTS
        assert judged.counts.shortest_gap_seconds is not None
        assert judged.counts.shortest_gap_seconds >= DELAY_SECONDS
