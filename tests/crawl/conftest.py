"""A crawl as a user starts it, of a simulated web whose log is judged afterwards; on any store.

A test that asks for `store`, itself or by a fixture, runs on the stores that GOSSAMER_TEST_STORES names (`sqlite` if it
names none), as in GOSSAMER_TEST_STORES=sqlite,redis,postgresql. What is marked `every_store` runs on all of them in any
case, what is marked `embedded` on SQLite alone.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from gossamer.errors import GossamerError
from gossamer.report.resources import started
from gossamer.run.data_directory import DataDirectory
from gossamer.run.stores import remove
from gossamer.sinks.parts import committed_parts
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import Audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web import access_log
from gossamer.testing.web.graph import Web
from gossamer.testing.web.processes import WebProcesses

#: Longer than any run of these tests takes, on a busy machine too; a crawl that hangs is a failure, not a hanging test.
PATIENCE_SECONDS = 300.0
#: Of a whole test that says nothing else: some have several runs.
TEST_SECONDS = 900
#: The simulated web answers at once, but a busy machine may serve it late: no test of an honest site is about that.
PATIENT = ("--connect-timeout=100", "--tls-timeout=100", "--header-timeout=100", "--fetch-timeout=200", "--min-rate=0")

#: The kinds of stores, and the fixture that has the server of each.
STORES = {"sqlite": None, "redis": "redis_server", "postgresql": "postgres_server"}
STORES_VARIABLE = "GOSSAMER_TEST_STORES"


def chosen_stores() -> list[str]:
    chosen = os.environ.get(STORES_VARIABLE, "sqlite").split(",")
    if unknown := set(chosen) - STORES.keys():
        raise pytest.UsageError(f"{STORES_VARIABLE}: {', '.join(sorted(unknown))} is none of {', '.join(STORES)}")
    return chosen


def on_server(kind: str) -> Any:
    """The parameter of a test that needs the server of this kind."""
    return pytest.param(kind, marks=pytest.mark.servers if STORES[kind] else ())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_store: runs on every store, whatever GOSSAMER_TEST_STORES names")
    config.addinivalue_line("markers", "embedded(reason): runs on SQLite alone")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        kinds = chosen_stores()
        if metafunc.definition.get_closest_marker("embedded"):
            kinds = ["sqlite"]
        elif metafunc.definition.get_closest_marker("every_store"):
            kinds = list(STORES)
        metafunc.parametrize("store", [on_server(kind) for kind in kinds], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """What `--store` is told. Crawls may share a server: each has a frontier of its own there."""
    fixture = STORES[request.param]
    return "sqlite" if fixture is None else str(request.getfixturevalue(fixture).url)


def pages_in(data: Path) -> list[dict[str, Any]]:
    """The rows of a crawl's pages."""
    return _rows_of(committed_parts(data / "pages", "part"))


def fetches_in(data: Path) -> list[dict[str, Any]]:
    """The rows of a crawl's log."""
    return _rows_of(committed_parts(data / "log", "fetches"))


def _rows_of(parts: Sequence[Path]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in parts:
        with pq.ParquetFile(path) as file:
            rows += file.read(use_threads=False).to_pylist()
    return rows


class Crawls:
    """Crawls of one simulated web into one data directory, each a process of its own."""

    program: Sequence[str] = ("-m", "gossamer")
    """What Python runs."""

    def __init__(self, directory: Path, web: WebProcesses, store: str, flags: Sequence[str] = PATIENT) -> None:
        """Every new crawl has the flags, unless a test gives another value."""
        self.flags = flags
        self.data = directory / "crawl"
        self.web = web
        self.store = store
        self.running: list[subprocess.Popen[str]] = []
        self._seed_file = directory / "seeds.txt"

    @property
    def graph(self) -> Web:
        return self.web.web

    def start(self, *flags: str, seeds: Sequence[str] | None = None, delay: float = 0.0) -> subprocess.Popen[str]:
        """`gossamer crawl`, and what every crawl of a simulated web needs."""
        self._seed_file.write_text("".join(f"{seed}\n" for seed in seeds or self.graph.seeds()))
        usual = (
            f"--data-dir={self.data}",
            f"--seed-file={self._seed_file}",
            "--email=test@example.org",
            f"--delay={delay}",
            "--backoff=0.2",
            f"--store={self.store}",
            f"--connect-to=http=127.0.0.1:{self.web.http_port},https=127.0.0.1:{self.web.https_port}",
            *self.flags,
        )
        given = {flag.partition("=")[0] for flag in flags}
        return self._gossamer("crawl", *(flag for flag in usual if flag.partition("=")[0] not in given), *flags)

    def start_again(self, *flags: str) -> subprocess.Popen[str]:
        return self._gossamer("resume", str(self.data), *flags)

    def crawl(self, *flags: str, seeds: Sequence[str] | None = None, delay: float = 0.0) -> dict[str, Any]:
        return self.end(self.start(*flags, seeds=seeds, delay=delay))

    def resume(self, *flags: str) -> dict[str, Any]:
        return self.end(self.start_again(*flags))

    def end(self, process: subprocess.Popen[str], *, code: int = 0) -> dict[str, Any]:
        """Wait for it, and read its summary."""
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == code, f"exit code {process.returncode}\n{output}\n{errors}\n{self.logs()}"
        summary: dict[str, Any] = json.loads(output)
        return summary

    def interrupt(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        process.send_signal(signal.SIGTERM)
        return self.end(process, code=130)

    def judge(self, *, seeds: Sequence[str] | None = None, delay: float = 0.0, **rules: Any) -> Audit:
        """By the web server's log of all runs so far."""
        told = Rules(seeds=seeds or self.graph.seeds(), delay_seconds=delay, files=False, **rules)
        return audit(self.requests(), self.graph, told)

    def requests(self) -> list[access_log.Request]:
        """All that were answered until now, and those that were cut off."""
        self.web.flush()
        return list(access_log.read(self.web.log_files))

    def pages(self) -> list[dict[str, Any]]:
        """The rows of the table; an open file beside it would be a mistake of the end."""
        assert not list((self.data / "pages").glob("*.open"))
        return pages_in(self.data)

    def expected_pages(self, seeds: Sequence[str] | None = None) -> set[str]:
        """Those of the reachable URLs that are pages."""
        reachable = self.graph.reachable(seeds or self.graph.seeds(), files=False)
        return {url for url in reachable if self.graph.answer(url, attempt=self.graph.busy_attempts).is_page}

    def logs(self) -> str:
        return "\n".join(file.read_text("utf-8") for file in sorted((self.data / "log").glob("*.log")))

    def log_entries(self) -> list[dict[str, Any]]:
        """Whole lines of all logs: of a crawl that runs, the end of one may still be missing."""
        files = sorted((self.data / "log").glob("*.log"))
        lines = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def end_stragglers(self) -> None:
        """Processes of the last run that did not leave when their leader was killed: those that a test has stopped."""
        last = DataDirectory(self.data).processes()
        for pid, when in () if last is None else last.started.items():
            if started(pid) == when:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def remove_frontier(self) -> None:
        """From the server, for the other tests that use it."""
        if self.store != "sqlite":
            frontier = DataDirectory(self.data).which_frontier()
            if frontier.is_made:
                with contextlib.suppress(GossamerError):  # removed by the test, or the server is gone
                    asyncio.run(remove(self.store, frontier.crawl))

    def _gossamer(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        process = subprocess.Popen(
            [sys.executable, *self.program, *arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.data.parent,
        )
        self.running.append(process)
        return process


def assert_each_once(pages: Sequence[dict[str, Any]], expected: set[str]) -> None:
    """Every expected page, none else, none twice."""
    times = Counter(page["url"] for page in pages)
    assert sorted(expected - times.keys())[:5] == []
    assert sorted(times.keys() - expected)[:5] == []
    assert [url for url, count in times.items() if count > 1][:5] == []


@contextlib.contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """These processes stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def crawls_of(
    web: Web, directory: Path, store: str, *, hostile: bool = False, disk: Path | None = None
) -> Iterator[Crawls]:
    """`disk` is where the crawls put their files, if not in the directory that has the web's log."""
    with WebProcesses(web, log_directory=directory / "web", hostile=hostile) as serving:
        crawls = Crawls(disk or directory, serving, store, () if hostile else PATIENT)
        try:
            yield crawls
        finally:
            for process in crawls.running:
                if process.poll() is None:
                    process.kill()
                with process:  # waits, and closes its pipes
                    pass
            crawls.end_stragglers()
            crawls.remove_frontier()


@pytest.fixture
def small_web(tmp_path: Path, store: str) -> Iterator[Crawls]:
    """Twenty sites of twenty pages, with everything that a web has."""
    web = Web(sites=20, pages=20, links_per_page=30, median_bytes=8_000, https_share=0.3)
    with crawls_of(web, tmp_path, store) as crawls:
        yield crawls
