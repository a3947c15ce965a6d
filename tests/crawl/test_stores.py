"""A crawl does not know which store it has: the same web, whole, stopped and broken, on each of them.

A selection that is run on every store each time; GOSSAMER_TEST_STORES has all other crawl tests run on them as well.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gossamer.testing.web.graph import Web
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once, crawls_of
from tests.crawl.test_deaths import processes
from tests.crawl.test_stopping import until_pages_are_fetched

pytestmark = pytest.mark.every_store


@pytest.fixture
def web(tmp_path: Path, store: str) -> Iterator[Crawls]:
    """Half of the other tests' small web, with everything that a web has."""
    with crawls_of(
        Web(sites=20, pages=10, links_per_page=30, median_bytes=4_000, https_share=0.3), tmp_path, store
    ) as crawls:
        yield crawls


@pytest.mark.parametrize(("fetchers", "parsers"), [(1, 1), (2, 2)])
def test_on_every_store_each_reachable_url_is_fetched_once_and_each_page_kept_once(
    web: Crawls, fetchers: int, parsers: int
) -> None:
    summary = web.crawl(f"--num-fetcher-processes={fetchers}", f"--num-parser-processes={parsers}")
    judged = web.judge()
    assert judged.is_clean, judged.verdict
    assert judged.counts.urls_expected_requested == judged.counts.urls_expected > 150
    assert_each_once(web.pages(), web.expected_pages())
    assert summary["stop_reason"] == "exhausted"
    assert summary["pages"] == summary["pages_this_run"] == len(web.pages())
    assert (
        summary["admitted"] == summary["finished"] == sum(summary["outcomes"].values()) - summary["outcomes"]["retry"]
    )
    assert (summary["queued"], summary["restarts"]) == (0, 0)
    assert list((web.data / "spool" / "ready").iterdir()) == []
    assert (web.data / "frontier.db").exists() == (web.store == "sqlite")


def test_on_every_store_max_pages_is_exact_over_a_stop_and_a_resume_with_other_fetchers_and_then_it_ends_whole(
    web: Crawls,
) -> None:
    # With this delay it takes ten seconds more until 90 pages are there: the interrupt comes before.
    running = web.start("--max-pages=90", "--num-fetcher-processes=2", delay=3.0)
    until_pages_are_fetched(web, 30, running)
    first = web.interrupt(running)
    second = web.resume("--num-fetcher-processes=1", "--num-parser-processes=2", "--delay=0.1")
    assert first["pages"] < second["pages"] == len(web.pages()) == 90
    assert second["stop_reason"] == "max_pages"
    third = web.resume("--num-fetcher-processes=3", "--max-pages=0")
    assert third["stop_reason"] == "exhausted"
    assert [summary["run"] for summary in (first, second, third)] == [1, 2, 3]
    # What was in flight when it was told to stop may be asked for again.
    judged = web.judge(delay=0.1, repeats=50)
    assert judged.is_clean, judged.verdict
    assert_each_once(web.pages(), web.expected_pages())


def test_on_every_store_nothing_is_lost_when_all_processes_are_killed_at_once(web: Crawls) -> None:
    running = web.start("--num-fetcher-processes=2", "--num-parser-processes=2", delay=0.1)
    until_pages_are_fetched(web, 80, running)
    for pid in (running.pid, *processes(web).started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.communicate()
    summary = web.resume()
    assert summary["stop_reason"] == "exhausted"
    judged = web.judge(delay=0.1, repeats=200, restarts=1)
    assert judged.is_clean, judged.verdict
    assert_each_once(web.pages(), web.expected_pages())


def test_no_page_leads_a_crawl_to_its_own_store(web: Crawls) -> None:
    """Also where private addresses are allowed."""
    if web.store == "sqlite":
        pytest.skip("it listens nowhere")
    port = urlsplit(web.store).port
    own = [f"http://127.0.0.1:{port}/", f"http://localhost:{port}/x", f"https://[::ffff:127.0.0.1]:{port}/"]
    summary = web.end(web.start("--allow-private-addresses", seeds=own), code=1)
    assert summary["failures"] == {"blocked-address": 3}
    assert web.requests() == []


def test_on_every_store_another_kind_is_refused_and_another_address_of_the_same_kind_is_taken(web: Crawls) -> None:
    web.crawl("--max-pages=5")
    settings = web.data / "crawl.toml"
    before = settings.read_bytes()
    others = {
        "sqlite": "sqlite",
        "redis": "redis://:hidden@127.0.0.1:1/0",
        "postgresql": "postgresql://u@127.0.0.1:1/x",
    }
    own = web.store.partition(":")[0]
    for kind in others.keys() - {own}:
        _, errors = web.start_again(f"--store={others[kind]}", "--max-pages=6").communicate(timeout=PATIENCE_SECONDS)
        assert "is another kind of store than" in errors
        assert "hidden" not in errors
    if own != "sqlite":
        # Nobody is there: the frontier may have moved, and this is where it is not.
        process = web.start_again(f"--store={others[own]}", "--store-patience=0", "--max-pages=6")
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 3
    assert settings.read_bytes() == before
    moved = web.store.replace("127.0.0.1", "localhost")
    assert web.resume(f"--store={moved}", "--max-pages=6")["pages"] == 6
    assert moved in settings.read_text()
