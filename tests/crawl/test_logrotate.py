"""The logs of a running crawl under a real logrotate, with the file of deploy/: nothing is lost, nothing is doubled."""

import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.testing.server_binaries import ServerBinary, find_logrotate
from tests.conftest import present
from tests.contract.test_deploy import logrotate_file
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, fetches_in

PROCESSES = ("leader", "fetcher-1", "parser-0", "parser-1")
ROTATIONS = 3


@pytest.fixture
def logrotate_binary() -> ServerBinary:
    return present(next(iter(find_logrotate()), None), "logrotate")


class Rotation:
    """Calls of one logrotate over one crawl, as `cron` would make them."""

    def __init__(self, binary: ServerBinary, crawls: Crawls, directory: Path) -> None:
        self._binary = binary
        self._log = crawls.data / "log"
        self._file = directory / "logrotate.conf"
        self._state = directory / "logrotate.state"
        # Not compressed, to be read here; and the crawl's directory is the one of many that the file looks for.
        self._file.write_text(logrotate_file(crawls.data.parent).replace("    compress\n", "    nocompress\n"))
        self._file.chmod(0o644)

    def rotate(self) -> None:
        # The names of moved files have seconds: a second rotation within one would find its name taken.
        before = {path.name for path in self._log.iterdir()}
        time.sleep(1.05 - time.time() % 1.0)  # into the next one; the clock of whole seconds may lag some milliseconds
        done = subprocess.run(
            [self._binary.path, "--force", "--state", self._state, self._file],
            env=self._binary.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert {path.name for path in self._log.iterdir()} - before, "nothing was moved"

    def files(self, process: str) -> list[Path]:
        """In the order in which they were written."""
        return [*sorted(self._log.glob(f"{process}.log-*")), self._log / f"{process}.log"]


def lines_in(files: list[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for line in file.read_bytes().splitlines():
            yield json.loads(line)


@pytest.mark.servers
@pytest.mark.embedded("the store writes no log")
@pytest.mark.timeout(300)
def test_no_line_is_lost_or_doubled_when_logrotate_moves_the_logs_of_a_running_crawl(
    small_web: Crawls, logrotate_binary: ServerBinary, tmp_path: Path
) -> None:
    rotation = Rotation(logrotate_binary, small_web, tmp_path)
    # Nothing is fetched before all processes are there, however long a busy machine takes to start them.
    for pid in small_web.web.pids:
        os.kill(pid, signal.SIGSTOP)
    process = small_web.start(
        "--num-fetcher-processes=2",
        "--num-parser-processes=2",
        "--log-level=debug",
        "--log-bytes=0",
        "--ui-port=0",
        "--metrics-port=0",
        *(f"--{what}-timeout=300" for what in ("connect", "tls", "header", "fetch")),
        # Half a minute at least for the rotations, which take eight seconds.
        delay=1.5,
    )
    log = small_web.data / "log"

    def said(name: str) -> int:
        path = log / f"{name}.log"
        return path.stat().st_size if path.exists() else 0

    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while not all((log / f"{name}.log").exists() for name in PROCESSES):
            assert process.poll() is None, "the crawl ended at once"
            assert time.monotonic() < until, "not all processes are started"
            time.sleep(0.02)
    finally:
        for pid in small_web.web.pids:
            os.kill(pid, signal.SIGCONT)
    for turn in range(ROTATIONS + 1):
        # Each has written to the file of its name since the last rotation: they all follow.
        while not all(said(name) for name in PROCESSES):
            assert process.poll() is None, "the crawl was over too soon"
            assert time.monotonic() < until, {name: said(name) for name in PROCESSES}
            time.sleep(0.02)
        if turn < ROTATIONS:
            rotation.rotate()
    summary = small_web.end(process)
    assert summary["restarts"] == 0

    messages: dict[str, list[str]] = defaultdict(list)
    for name in PROCESSES:
        files = rotation.files(name)
        assert len(files) == ROTATIONS + 1
        assert all(file.stat().st_size for file in files), name
        lines = list(lines_in(files))
        assert {line["process"] for line in lines} == {name}
        numbers = [line["number"] for line in lines]
        assert numbers == list(range(1, len(numbers) + 1)), name
        messages[name.partition("-")[0]] += [line["message"] for line in lines]

    # What the lines should be is known from elsewhere: one for each outcome, one for each page.
    fetched = [line.split(": ") for name in ("leader", "fetcher") for line in messages[name] if ": http" in line]
    rows = [row for row in fetches_in(small_web.data) if row["kind"] == "url"]
    assert sorted(url for _, url in fetched) == sorted(row["url"] for row in rows)
    failed = [(word, url) for word, url in fetched if word not in {"page", "redirect"}]
    assert sorted(failed) == sorted((row["failure_kind"], row["url"]) for row in rows if row["failure_kind"])
    read = [line.removeprefix("read: ") for line in messages["parser"] if line.startswith("read: ")]
    assert sorted(read) == sorted(page["url"] for page in small_web.pages())
