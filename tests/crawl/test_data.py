"""What a crawl leaves behind: valid for the tools of others, the same in every file, each page once whatever is killed.

GOSSAMER_TEST_DEATHS says how many parsers are killed, and so how large the web is: 20 of them, and the whole tree five
times, in a crawl of ten thousand pages is what `./check campaign` asks for.
"""

import base64
import contextlib
import gzip
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from gossamer.testing.holdings import Answered, Holdings, holdings
from gossamer.testing.web.graph import Web
from gossamer.testing.web.pages import Pages
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, crawls_of
from tests.crawl.test_deaths import children, processes
from tests.crawl.test_stopping import until_pages_are_fetched

DEATHS = int(os.environ.get("GOSSAMER_TEST_DEATHS", "4"))
PAGES_PER_DEATH = 500
PARSERS_PER_TREE = 4
#: warcio's command line. It wants an attribute of a Brotli decoder that today's library does not have; without one it
#: checks the bytes as they are stored, which is what digests are of.
WARCIO = "import sys; sys.modules['brotli'] = None; from warcio.cli import main; main()"
#: With the places that the simulated web redirects it to.
ROBOTS = re.compile(r"/robots(-\d+)?\.txt")
#: As every request of the crawler has it.
ACCEPT_ENCODING = "gzip, br, zstd"


def assert_each_once_everywhere(held: Holdings, served: set[Answered]) -> None:
    assert held.faults == []
    for name, found in {
        "archive": held.archived,
        "index": held.indexed,
        "table": held.tabled,
        "log": held.logged,
    }.items():
        assert sorted(served - found.keys())[:3] == [], name
        assert sorted(found.keys() - served)[:3] == [], name
        assert [answered for answered, times in found.items() if times > 1][:3] == [], name
    assert [url for url, times in held.ended.items() if times > 1][:3] == []


def pages_served(crawls: Crawls) -> set[Answered]:
    """By the server's log: what it sent as a whole page, however often."""
    return {
        (f"{request.scheme}://{request.host}{request.path}", request.status)
        for request in crawls.requests()
        if request.status == 200 and not request.aborted and not ROBOTS.fullmatch(request.path)
    }


def digests_sent(web: Web, urls: set[str]) -> dict[str, str]:
    """What the server sends for each page, by its own account."""
    pages = Pages(web)
    found: dict[str, str] = {}
    for url in urls:
        answer = web.answer(url, attempt=web.busy_attempts)
        _, body = pages.page(web.site(answer.site), answer.number, {"accept-encoding": ACCEPT_ENCODING})
        found[url] = "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    return found


def assert_valid_for_others(files: list[Path]) -> None:
    """gunzip, warcio and fastwarc; each says by its exit code, and warcio by its output too, what it thinks."""
    assert files
    names = [str(file) for file in files]
    for command in (
        ["gunzip", "--test", *names],
        [sys.executable, "-c", WARCIO, "check", *names],
        *([sys.executable, "-m", "fastwarc.cli", "check", "--verify-payloads", name] for name in names),
    ):
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, (command, checked.stdout, checked.stderr)
        assert "failed" not in checked.stdout.lower(), (command, checked.stdout)


def test_what_a_crawl_leaves_is_valid_for_others_and_is_what_the_server_sent(tmp_path: Path, store: str) -> None:
    web = Web(sites=20, pages=20, links_per_page=30, median_bytes=8_000, https_share=0.3)
    with crawls_of(web, tmp_path, store) as crawls:
        crawls.crawl("--num-parser-processes=2", "--warc-bytes=500000", "--commit-pages=50")
        served = pages_served(crawls)
    held = holdings(crawls.data)
    assert {url for url, _ in served} == crawls.expected_pages()
    assert_each_once_everywhere(held, served)
    assert held.digests == digests_sent(web, crawls.expected_pages())
    archives = sorted((crawls.data / "warc").iterdir())
    assert len(archives) > 2
    assert_valid_for_others(archives)


def test_the_judges_of_an_archive_find_a_fault(tmp_path: Path, store: str) -> None:
    """One byte of a body is another, in a record that is otherwise whole."""
    web = Web(sites=1, pages=3)
    with crawls_of(web, tmp_path, store) as crawls:
        crawls.crawl()
    [archive] = (crawls.data / "warc").iterdir()
    assert_valid_for_others([archive])
    content = bytearray(gzip.decompress(archive.read_bytes()))
    content[-100] ^= 1
    archive.write_bytes(gzip.compress(content))
    with pytest.raises(AssertionError):
        assert_valid_for_others([archive])
    assert holdings(crawls.data).faults


@pytest.mark.parametrize(
    ("sinks", "folders"),
    [("pages", {"pages"}), ("warc,log", {"warc", "index", "log"})],
)
def test_only_the_sinks_that_were_asked_for_are_written_to(
    tmp_path: Path, store: str, sinks: str, folders: set[str]
) -> None:
    web = Web(sites=3, pages=5)
    with crawls_of(web, tmp_path, store) as crawls:
        crawls.crawl(f"--sinks={sinks}")
        expected = {(url, 200) for url in crawls.expected_pages()}
    written = {path.parent.name for path in crawls.data.glob("*/*") if path.suffix in {".gz", ".cdxj", ".parquet"}}
    assert written == folders
    held = holdings(crawls.data)
    assert held.tabled.keys() == (expected if "pages" in folders else set())
    assert held.archived.keys() == held.logged.keys() == (expected if "warc" in folders else set())


@pytest.mark.long
@pytest.mark.timeout(200 + 60 * DEATHS)
def test_pages_are_in_every_file_once_whatever_parsers_and_trees_are_killed(tmp_path: Path, store: str) -> None:
    # Without sites that want long delays: what is put to the test is the parsers, which must be busy.
    web = Web(
        sites=DEATHS * PAGES_PER_DEATH // 30,
        pages=40,
        links_per_page=40,
        median_bytes=6_000,
        busy_share=0,
        crawl_delay_seconds=0.1,
    )
    flags = ["--num-parser-processes=2", "--num-fetcher-processes=1", "--commit-pages=100"]
    killed: Counter[str] = Counter()
    with crawls_of(web, tmp_path, store) as crawls:
        trees = DEATHS // PARSERS_PER_TREE
        # All of them in the first half, so that the crawl is not over before the last.
        every = len(crawls.expected_pages()) // (2 * (DEATHS + trees) + 1)
        running = crawls.start(*flags)
        while killed["parser"] < DEATHS or killed["tree"] < trees:
            until_pages_are_fetched(crawls, every * (killed.total() + 1), running)
            until_committed(crawls, running, after=committed(crawls))
            if killed["parser"] < (killed["tree"] + 1) * PARSERS_PER_TREE:
                parsers = children(crawls, "parser")
                if parsers:
                    os.kill(parsers[killed["parser"] % len(parsers)], signal.SIGKILL)
                    killed["parser"] += 1
            else:
                for pid in processes(crawls).started:
                    with contextlib.suppress(ProcessLookupError):  # of one that was replaced
                        os.kill(pid, signal.SIGKILL)
                running.communicate()
                killed["tree"] += 1
                running = crawls.start_again()
        summary = crawls.end(running)
        served = pages_served(crawls)
    assert summary["stop_reason"] == "exhausted"
    assert_each_once_everywhere(holdings(crawls.data), served)
    assert {url for url, _ in served} == crawls.expected_pages()
    assert summary["pages"] == len(served)
    assert_valid_for_others(sorted((crawls.data / "warc").iterdir()))


def committed(crawls: Crawls) -> int:
    """How many parts of the log there are, merged ones included: each commit makes one."""
    return sum(1 for _ in (crawls.data / "log").glob("fetches-*.parquet"))


def until_committed(crawls: Crawls, running: subprocess.Popen[str], *, after: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while committed(crawls) == after:
        assert running.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, "no commit"
        time.sleep(0.02)
