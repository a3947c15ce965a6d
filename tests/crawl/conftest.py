"""A crawl as a user starts it, of a simulated web whose log is judged afterwards."""

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

import pytest

from gossamer.report.resources import started
from gossamer.run.data_directory import DataDirectory
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import Audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web import access_log
from gossamer.testing.web.graph import Web
from gossamer.testing.web.processes import WebProcesses

#: Longer than any run of these tests takes; a crawl that hangs is a failure, not a hanging test.
PATIENCE_SECONDS = 100.0


class Crawls:
    """Crawls of one simulated web into one data directory, each a process of its own."""

    def __init__(self, directory: Path, web: WebProcesses) -> None:
        self.data = directory / "crawl"
        self.web = web
        self.running: list[subprocess.Popen[str]] = []
        self._seed_file = directory / "seeds.txt"

    @property
    def graph(self) -> Web:
        return self.web.web

    def start(self, *flags: str, seeds: Sequence[str] | None = None, delay: float = 0.0) -> subprocess.Popen[str]:
        """`gossamer crawl`, and what every crawl of a simulated web needs."""
        self._seed_file.write_text("".join(f"{seed}\n" for seed in seeds or self.graph.seeds()))
        return self._gossamer(
            "crawl",
            f"--data-dir={self.data}",
            f"--seed-file={self._seed_file}",
            "--email=test@example.org",
            f"--delay={delay}",
            "--backoff=0.2",
            f"--connect-to=http=127.0.0.1:{self.web.http_port},https=127.0.0.1:{self.web.https_port}",
            *flags,
        )

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
        return audit(access_log.read(self.web.log_files), self.graph, told)

    def requests(self) -> list[access_log.Request]:
        return list(access_log.read(self.web.log_files))

    def pages(self) -> list[dict[str, Any]]:
        """What the sink has; an open file among them would be a mistake of the end."""
        assert not list((self.data / "pages").glob("*.open"))
        files = sorted((self.data / "pages").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]

    def expected_pages(self, seeds: Sequence[str] | None = None) -> set[str]:
        """Those of the reachable URLs that are pages."""
        reachable = self.graph.reachable(seeds or self.graph.seeds(), files=False)
        return {url for url in reachable if self.graph.answer(url, attempt=self.graph.busy_attempts).is_page}

    def logs(self) -> str:
        return "\n".join(file.read_text("utf-8") for file in sorted((self.data / "log").glob("*.log")))

    def end_stragglers(self) -> None:
        """Processes of the last run that did not leave when their leader was killed: those that a test has stopped."""
        last = DataDirectory(self.data).processes()
        for pid, when in () if last is None else last.started.items():
            if started(pid) == when:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _gossamer(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "gossamer", *arguments, "--json"],
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
def crawls_of(web: Web, directory: Path, *, processes: int = 1) -> Iterator[Crawls]:
    with WebProcesses(web, log_directory=directory / "web", processes=processes) as serving:
        crawls = Crawls(directory, serving)
        try:
            yield crawls
        finally:
            for process in crawls.running:
                if process.poll() is None:
                    process.kill()
                with process:  # waits, and closes its pipes
                    pass
            crawls.end_stragglers()


@pytest.fixture
def small_web(tmp_path: Path) -> Iterator[Crawls]:
    """Twenty sites of twenty pages, with everything that a web has."""
    with crawls_of(Web(sites=20, pages=20, links_per_page=30, median_bytes=8_000, https_share=0.3), tmp_path) as crawls:
        yield crawls
