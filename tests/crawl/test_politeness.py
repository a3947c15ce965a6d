"""The gap of every site, measured at the server, over a stop, a resume and a change of the processes."""

import time
from pathlib import Path

import pytest

from gossamer.testing.web.graph import Web
from tests.crawl.conftest import crawls_of

WEB = Web(sites=100, pages=50, links_per_page=40, median_bytes=6_000, https_share=0.2)
DELAY_SECONDS = 1.5
RUN_SECONDS = 15.0


@pytest.mark.long
@pytest.mark.timeout(150)
def test_the_gap_holds_over_a_stop_a_resume_and_another_number_of_fetchers(tmp_path: Path, store: str) -> None:
    with crawls_of(WEB, tmp_path, store) as crawls:
        running = crawls.start("--num-fetcher-processes=2", delay=DELAY_SECONDS)
        time.sleep(RUN_SECONDS)
        first = crawls.interrupt(running)
        assert first["stop_reason"] == "interrupted"
        second = crawls.resume("--num-fetcher-processes=3", f"--max-duration={RUN_SECONDS}")
        assert second["stop_reason"] == "max_duration"
        assert second["run"] == 2
        judged = crawls.judge(delay=DELAY_SECONDS, is_partial=True, repeats=100)
        assert judged.is_clean, judged.verdict
        assert judged.counts.shortest_gap_seconds is not None
        assert judged.counts.shortest_gap_seconds >= DELAY_SECONDS
        # Something was done: two thirds of what 100 sites allow in that time, less what robots.txt keeps closed.
        assert judged.counts.requests > 100 * 2 * RUN_SECONDS / DELAY_SECONDS / 3
