"""A whole web, to its end: every reachable allowed URL requested exactly once and none else, each page kept once."""

import os
from pathlib import Path

import pytest

from gossamer.testing.web.graph import Web
from tests.crawl.conftest import STORES_VARIABLE, assert_each_once, crawls_of

#: Two hundred sites of thirty pages, with every kind of robots.txt, redirect, error and busy page; small bodies, and
#: a Crawl-delay that lets the few sites that ask for one end within the minute.
WEB = Web(
    sites=200,
    pages=30,
    links_per_page=40,
    median_bytes=6_000,
    https_share=0.2,
    crawl_delay_seconds=0.5,
)


#: Many times the twenty seconds that it takes on two processors of its own.
PATIENCE_SECONDS = 400.0

#: One of each is what the smaller webs of other tests are crawled with; `./check campaign` does it here too.
PROCESSES = [(1, 1), (2, 2)] if STORES_VARIABLE in os.environ else [(2, 2)]


@pytest.mark.long
@pytest.mark.timeout(2 * PATIENCE_SECONDS)
@pytest.mark.parametrize(("fetchers", "parsers"), PROCESSES)
def test_an_exhaustive_crawl_fetches_each_reachable_url_once_and_keeps_each_page_once(
    tmp_path: Path, store: str, fetchers: int, parsers: int
) -> None:
    with crawls_of(WEB, tmp_path, store) as crawls:
        running = crawls.start(f"--num-fetcher-processes={fetchers}", f"--num-parser-processes={parsers}")
        running.wait(PATIENCE_SECONDS)  # what it says is short enough for a pipe
        summary = crawls.end(running)
        judged = crawls.judge()
        assert judged.is_clean, judged.verdict
        assert judged.counts.urls_expected_requested == judged.counts.urls_expected > 5_000
        pages = crawls.pages()
    assert_each_once(pages, crawls.expected_pages())
    assert all(page["text"] for page in pages)
    assert summary["stop_reason"] == "exhausted"
    assert summary["pages"] == summary["pages_this_run"] == len(pages)
    assert (
        summary["admitted"] == summary["finished"] == sum(summary["outcomes"].values()) - summary["outcomes"]["retry"]
    )
    assert summary["queued"] == 0
    assert set(summary["cpu_seconds"]) == {"leader", "parser"} | ({"fetcher"} if fetchers > 1 else set())
    assert summary["failures"]["robots"] > 0
    assert summary["failures"]["robots-unreachable"] > 0
    assert summary["failures"]["status"] > 0
    assert list((crawls.data / "spool" / "ready").iterdir()) == []
