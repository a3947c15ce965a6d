"""What is crawled and what is not: depth, scope, exclusions; also when they come at a resume."""

import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from gossamer.testing.web.graph import Web
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once, crawls_of


def until_asked_again(crawls: Crawls, process: subprocess.Popen[str], *sites: str) -> None:
    """Until each of the sites was asked for two pages: links of the first are queued, many more than were asked for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    asked: Counter[str] = Counter()
    while any(asked[site] < 2 for site in sites):
        assert process.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, "the crawl does not get on"
        time.sleep(0.05)
        asked = Counter(request.host for request in crawls.requests() if request.path != "/robots.txt")


def test_exclusions_and_blocks_added_at_a_resume_reach_what_is_queued(small_web: Crawls, tmp_path: Path) -> None:
    # With this delay most of each site is left when the crawl is interrupted.
    running = small_web.start(delay=1.0)
    until_asked_again(small_web, running, "s3.test", "s4.test", "s5.test")
    small_web.interrupt(running)
    before = len(small_web.requests())
    excluded = tmp_path / "excluded"
    excluded.write_text("# added later\ns3.test\nhttp://s4.test/\n", "utf-8")
    summary = small_web.resume(f"--exclude-file={excluded}", "--exclude=//(www\\.)?s5\\.", "--delay=0")
    assert summary["stop_reason"] == "exhausted"
    assert summary["admitted"] == summary["finished"]
    assert summary["failures"]["blocked-site"] > 0
    assert summary["failures"]["excluded"] > 0
    hosts = {request.host for request in small_web.requests()[before:]}
    assert len(hosts) > 10
    assert not {host for host in hosts if host.endswith(("s3.test", "s5.test")) or host == "s4.test"}


def test_a_lower_depth_at_a_resume_reaches_what_is_queued(small_web: Crawls) -> None:
    seeds = small_web.graph.seeds(5)
    running = small_web.start(seeds=seeds, delay=1.0)
    until_asked_again(small_web, running, "s1.test")
    small_web.interrupt(running)
    before = len(small_web.requests())
    summary = small_web.resume("--max-depth=0", "--delay=0")
    assert summary["stop_reason"] == "exhausted"
    assert summary["failures"]["depth"] > 0
    asked = {f"{request.scheme}://{request.host}{request.path}" for request in small_web.requests()[before:]}
    assert {url for url in asked if not url.endswith("/robots.txt")} <= set(seeds)


@pytest.mark.parametrize("flag", ["--seeded-urls-only", "--scope=seeds"])
def test_only_seeded_sites_are_crawled_if_asked(small_web: Crawls, flag: str) -> None:
    seeds = small_web.graph.seeds(5)
    summary = small_web.crawl(flag, seeds=seeds)
    judged = small_web.judge(seeds=seeds, same_sites_only=True)
    assert judged.is_clean, judged.verdict
    assert summary["refused"]["scope"] > 0


def test_depth_is_counted_in_links(small_web: Crawls) -> None:
    seeds = small_web.graph.seeds(3)
    small_web.crawl("--max-depth=1", seeds=seeds)
    judged = small_web.judge(seeds=seeds, max_depth=1)
    assert judged.is_clean, judged.verdict
    assert {page["depth"] for page in small_web.pages()} == {0, 1}


def test_redirects_respect_the_robots_and_the_delay_of_each_hop(tmp_path: Path, store: str) -> None:
    """Chains, seeds that redirect, http to https, other sites: a quarter of this web is redirects."""
    web = Web(
        sites=20,
        pages=12,
        links_per_page=30,
        median_bytes=4_000,
        redirect_share=0.3,
        https_share=0.5,
        multi_host_share=0.6,
        crawl_delay_seconds=1.0,
    )
    # Under the other scheme each home page is a redirect, and so is that of another host of the site.
    seeds = [
        seed.replace("https://", "http://") if seed.startswith("https:") else seed.replace("http://", "https://")
        for seed in web.seeds()
    ]
    with crawls_of(web, tmp_path, store) as crawls:
        summary = crawls.crawl(seeds=seeds, delay=0.4)
        judged = crawls.judge(seeds=seeds, delay=0.4)
        assert judged.is_clean, judged.verdict
        assert summary["stop_reason"] == "exhausted"
        redirects = summary["outcomes"]["done"] - summary["pages"]
        assert redirects > 50
        assert_each_once(crawls.pages(), crawls.expected_pages(seeds))
        asked = {f"{request.scheme}://{request.host}{request.path}" for request in crawls.requests()}
        targets = {location for url in asked if (location := web.answer(url).location) and location in asked}
        assert sum(1 for url in targets if web.answer(url).location) > 10  # a hop that leads to a hop


def test_the_target_of_a_redirected_seed_makes_its_site_a_seeded_one(tmp_path: Path, store: str) -> None:
    web = Web(sites=6, pages=10, links_per_page=10, median_bytes=4_000, multi_host_share=1.0)
    seeds = [
        f"http://www.{web.site_name(index)}/"
        for index in range(3)
        if f"www.{web.site_name(index)}" in web.site(index).hosts
    ]
    with crawls_of(web, tmp_path, store) as crawls:
        crawls.crawl("--scope=seeds", "--site-key=host", seeds=seeds)
        hosts = {request.host for request in crawls.requests()}
    assert {host.removeprefix("www.") for host in hosts} == {seed[len("http://www.") : -1] for seed in seeds}
    assert any(not host.startswith("www.") for host in hosts)
