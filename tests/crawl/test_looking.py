"""Looking into a crawl: while it runs, and when it has ended. One crawl serves all of this file."""

import contextlib
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pytest

from gossamer.cli.main import main
from gossamer.errors import StoreUnavailable
from gossamer.testing.web import access_log
from gossamer.testing.web.graph import Web
from gossamer.url import registrable_domain
from tests.crawl.conftest import Crawls, crawls_of

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "data.md"

#: Small pages, and so many that a parser commits several times while the crawl runs.
WEB = Web(sites=40, pages=32, links_per_page=8, median_bytes=600, crawl_delay_seconds=0.05, retry_after_seconds=0)
#: With timeouts that no request meets while the web is stopped.
FLAGS = (
    *("--num-fetcher-processes=1", "--num-parser-processes=1", "--commit-pages=100"),
    *(f"--{what}-timeout=300" for what in ("connect", "tls", "header", "fetch")),
)
#: After these the web is stopped until pages are seen; they are a third of all, and several commits.
REQUESTS_BEFORE_STOP = 500
LEAST_PAGES = 20
LEAST_LOOKS = 3
PATIENCE_SECONDS = 100.0

INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from gossamer.cli.main import main; sys.exit(main())"
)


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Seen(NamedTuple):
    """What the commands said at one moment of a running crawl."""

    status: dict[str, Any]
    listed: int
    counted: int


class Looked(NamedTuple):
    """A crawl that has ended, and what was seen of it before."""

    data: str
    summary: dict[str, Any]
    seen: list[Seen]
    verdict: str
    expected: list[str]
    """The pages that there are."""
    log_files: list[str]
    """Of the web server."""

    def requests(self) -> list[access_log.Request]:
        return list(access_log.read(map(Path, self.log_files)))


def run(*arguments: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return Ran(code, out.getvalue(), err.getvalue())


def rows(*arguments: str) -> list[dict[str, Any]]:
    ran = run(*arguments, "--format=jsonl")
    assert (ran.code, ran.err) == (0, "") or "fetched and not yet written" in ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def look(data: Path) -> Seen:
    status = run("status", str(data), "--json")
    assert (status.code, status.err) == (0, "")
    (counted,) = rows("sql", str(data), "select count(*) as n from pages")
    listed = (
        rows("pages", str(data), "--limit=100000") if counted["n"] <= 10 else rows("pages", str(data), "--limit=10")
    )
    return Seen(json.loads(status.out), len(listed), counted["n"])


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Looked:
    """Made once: where tests run side by side, the first process that wants it makes it for all."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    result = shared / "looked.json"
    with (shared / "looked.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_bytes(msgspec.json.encode(look_at_a_crawl(tmp_path_factory.mktemp("looking"))))
    return msgspec.json.decode(result.read_bytes(), type=Looked)


def look_at_a_crawl(directory: Path) -> Looked:
    with crawls_of(WEB, directory, "sqlite") as crawls:
        deadline = time.monotonic() + PATIENCE_SECONDS
        # The crawl cannot end before it was looked at: at its beginning and in its middle the web stands still.
        with stopped(crawls):
            process = crawls.start(*FLAGS)
            while not (crawls.data / "processes.json").exists():
                assert time.monotonic() < deadline, "the crawl does not begin"
                time.sleep(0.05)
            seen = [look(crawls.data)]
        while len(crawls.requests()) < REQUESTS_BEFORE_STOP:
            assert time.monotonic() < deadline, "the crawl does not get on"
            time.sleep(0.02)
        with stopped(crawls):
            while seen[-1].counted < LEAST_PAGES or len(seen) < LEAST_LOOKS:
                assert time.monotonic() < deadline, "there are no pages"
                seen.append(look(crawls.data))
        while process.poll() is None:
            seen.append(look(crawls.data))
            time.sleep(0.5)
        summary = crawls.end(process)
        expected, log_files = sorted(crawls.expected_pages()), [str(path) for path in crawls.web.log_files]
        return Looked(str(crawls.data), summary, seen, crawls.judge().verdict, expected, log_files)


@contextlib.contextmanager
def stopped(crawls: Crawls) -> Iterator[None]:
    """The servers of the web stand still: what was asked of them is answered later."""
    for pid in crawls.web.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in crawls.web.pids:
            os.kill(pid, signal.SIGCONT)


# --- while it runs ----------------------------------------------------------------------------------------------------


def test_the_commands_see_a_running_crawl_grow(looked: Looked) -> None:
    running = [seen for seen in looked.seen if seen.status["is_running"]]
    assert len(running) >= LEAST_LOOKS
    for name in ("admitted", "finished", "pages", "received_bytes"):
        counts = [seen.status["progress"][name] for seen in running]
        assert counts == sorted(counts)
        assert counts[-1] > counts[0]
    counted = [seen.counted for seen in running]
    assert counted == sorted(counted)
    assert 0 < counted[-1] <= looked.summary["pages"]
    assert running[-1].listed == 10
    assert {seen.status["run"] for seen in running} == {1}


def test_what_the_store_calls_a_page_is_in_the_tables(looked: Looked) -> None:
    """Status is asked first, and a page is in the files before the store counts it."""
    assert all(seen.counted >= seen.status["progress"]["pages"] for seen in looked.seen)


def test_a_crawl_that_was_looked_at_ends_clean(looked: Looked) -> None:
    assert looked.summary["stop_reason"] == "exhausted"
    assert looked.summary["restarts"] == 0
    assert looked.verdict == "clean"
    expected = set(looked.expected)
    urls = [row["url"] for row in rows("sql", looked.data, "select url from pages")]
    assert (len(urls), set(urls)) == (len(expected), expected)


# --- afterwards -------------------------------------------------------------------------------------------------------


def test_status_says_what_the_summary_said(looked: Looked) -> None:
    status = json.loads(run("status", looked.data, "--json").out)
    progress, summary = status["progress"], looked.summary
    assert (status["is_running"], status["stragglers"], status["store"], status["store_error"]) == (
        False,
        0,
        "sqlite",
        None,
    )
    for name in ("pages", "admitted", "finished"):
        assert progress[name] == summary[name]
    assert (progress["queued"], progress["leased"], progress["spooled"]) == (0, 0, 0)
    assert progress["received_bytes"] == summary["bytes"]
    assert {word: count for word, count in progress["outcomes"].items() if word in summary["failures"]} == summary[
        "failures"
    ]
    assert status["backlog"] == {"pages": 0, "bytes": 0}
    for folder in ("warc", "index", "pages", "log"):
        files = [path for path in (Path(looked.data) / folder).rglob("*") if path.is_file()]
        assert status["disk"][folder] == {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}
    assert status["disk"]["frontier"]["bytes"] > 0
    shown = run("status", looked.data).out
    assert "is done: everything that was admitted is fetched (run 1)" in shown.splitlines()[0]
    assert re.search(rf"^  pages +{summary['pages']:,}$", shown, re.MULTILINE)


def test_status_of_files_alone_agrees_with_the_store(looked: Looked, tmp_path: Path) -> None:
    """A store that is away: the counts that the files have are the same, the others are missing, and the code is 3."""
    copy = tmp_path / "copy"
    shutil.copytree(looked.data, copy, ignore=shutil.ignore_patterns("frontier.db*", "warc"))
    with_store = json.loads(run("status", looked.data, "--json").out)["progress"]
    ran = run("status", str(copy), "--json")
    assert ran.code == StoreUnavailable.exit_code
    status = json.loads(ran.out)
    assert status["store_error"]
    without = status["progress"]
    for name in ("pages", "finished", "outcomes", "retries", "received_bytes"):
        assert without[name] == with_store[name]
    assert without["admitted"] is None
    shown = run("status", str(copy))
    assert shown.code == StoreUnavailable.exit_code
    assert "what the files say" in shown.out
    sites = run("sites", str(copy), "--format=jsonl")
    assert sites.code == StoreUnavailable.exit_code
    assert "not available" in sites.err
    assert json.loads(sites.out.splitlines()[0])["queued"] is None


def test_a_killed_leader_is_not_running(looked: Looked, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(looked.data, copy, ignore=shutil.ignore_patterns("warc", "pages"))
    # A process that has the leader's number by now is not the leader.
    (copy / "processes.json").write_text(
        json.dumps({"leader": os.getpid(), "started": {os.getpid(): "0"}, "owners": []})
    )
    assert json.loads(run("status", str(copy), "--json").out)["is_running"] is False


def test_watching_writes_a_line_for_each_look_and_ends_with_an_interrupt(looked: Looked) -> None:
    watching = subprocess.Popen(
        # Whoever starts the tests may have told them to ignore interrupts, as a shell does in the background.
        [sys.executable, "-c", INTERRUPTIBLE, "status", looked.data, "--watch", "0.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, errors) == (0, "")
    for line in lines:
        assert f"not running  {looked.summary['pages']:,} pages" in line
        assert "\x1b" not in line
    assert "0.0 pages/s" in lines[1]


def test_sites_have_what_the_web_server_saw(looked: Looked) -> None:
    requests: dict[str, int] = {}
    for request in looked.requests():
        site = registrable_domain(request.host.partition(":")[0]) or request.host
        requests[site] = requests.get(site, 0) + 1
    listed = rows("sites", looked.data, "--top=1000", "--by=requests")
    assert {row["site"]: row["requests"] for row in listed if row["requests"]} == requests
    assert [row["requests"] for row in listed] == sorted((row["requests"] for row in listed), reverse=True)
    assert sum(row["pages"] for row in listed) == looked.summary["pages"]
    assert sum(row["failures"] for row in listed) == looked.summary["outcomes"]["dropped"]
    assert {row["queued"] for row in listed} == {0}
    by_bytes = rows("sites", looked.data, "--top=3", "--by=bytes")
    assert [row["bytes"] for row in by_bytes] == sorted((row["bytes"] for row in listed), reverse=True)[:3]


def test_an_export_has_every_page_once(looked: Looked, tmp_path: Path) -> None:
    for wanted in ("jsonl", "parquet", "text"):
        assert run("export", looked.data, f"--format={wanted}", "-o", str(tmp_path / wanted)) == (0, "", "")
    pages = looked.summary["pages"]
    urls = {json.loads(line)["url"] for line in (tmp_path / "jsonl").read_text("utf-8").splitlines()}
    assert len(urls) == pages
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found = connection.execute("SELECT url FROM read_parquet(?)", [str(tmp_path / "parquet")]).fetchall()
    assert (len(found), {url for (url,) in found}) == (pages, urls)
    text = (tmp_path / "text").read_text("utf-8")
    assert sorted(re.findall(r"^==> (.*)$", text, re.MULTILINE)) == sorted(urls)


def manual_queries() -> list[str]:
    """Every SQL block of the manual's page; those of Common Crawl are quoted there as they were written."""
    return re.findall(r"^```sql\n(.*?)^```", MANUAL.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_queries_of_the_manual_run_unchanged_and_find_rows(looked: Looked) -> None:
    queries = manual_queries()
    assert sum("ccindex" in query for query in queries) >= 3
    for query in queries:
        assert rows("sql", looked.data, query), query


def test_a_crawl_that_nobody_has_begun_says_so(looked: Looked, tmp_path: Path) -> None:
    shutil.copy(Path(looked.data) / "crawl.toml", tmp_path)
    ran = run("status", str(tmp_path))
    assert ran.code == StoreUnavailable.exit_code
    assert "was not begun" in ran.out.splitlines()[0]
    assert rows("pages", str(tmp_path)) == []
