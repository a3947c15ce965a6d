"""A crawl by a peer: one process, in the environment that the launcher makes for them.

It says itself when its warm-up is over, and what it has used of the processor up to then; how much it was in the end
is the kernel's word.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.crawl.measured import WHOLE, Measured
from benchmarks.crawl.peer_report import Task
from benchmarks.crawl.processes import directory_bytes, family, memory_bytes
from benchmarks.crawl.web import ServedWeb
from gossamer.errors import GossamerError

ROOT = Path(__file__).resolve().parents[2]
#: Where the launcher has put them.
PYTHON = ROOT / ".venv-bench/bin/python"
MODULES = {"scrapy": "benchmarks.crawl.scrapy_peer", "minimal": "benchmarks.crawl.minimal_peer"}
MEMORY_SECONDS = 1.0


class Said(msgspec.Struct, frozen=True):
    """A line of a peer."""

    at: float
    pages: int
    received_bytes: int
    cpu_seconds: float
    written_bytes: int


def measure(system: str, directory: Path, web: ServedWeb, *, warm_up: int, pages: int) -> Measured:
    task = Task(str(web.seeds), str(directory), web.http_port, web.https_port, warm_up, pages)
    said = directory / "said"
    with started(MODULES[system], json.dumps(task._asdict()), said) as process:
        peak_bytes = 0
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            peak_bytes = max(peak_bytes, memory_bytes(family(process.pid)))
            time.sleep(MEMORY_SECONDS)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lines = said.read_bytes().splitlines()
    if process.returncode != 0 or len(lines) != 2:
        words = said.with_suffix(".stderr").read_text(errors="replace")[-2_000:]
        raise GossamerError(f"{system} ended with {process.returncode} and {len(lines)} lines; it said: {words}")
    began, ended = (msgspec.json.decode(line, type=Said) for line in lines)
    count = ended.pages - began.pages
    return Measured(
        system=system,
        scheme=web.scheme,
        pages=count,
        cpu={WHOLE: (used.ru_utime + used.ru_stime - began.cpu_seconds) * 1e3 / count},
        pages_per_second=count / (ended.at - began.at),
        peak_bytes=peak_bytes,
        written_bytes=(ended.written_bytes - began.written_bytes) / count,
        kept_bytes=directory_bytes(directory) / ended.pages,
        received_bytes=(ended.received_bytes - began.received_bytes) / count,
    )


@contextlib.contextmanager
def started(module: str, word: str, said: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the peers' environment, which has ended when the block is left."""
    with said.open("wb") as output, said.with_suffix(".stderr").open("wb") as errors:
        process = subprocess.Popen(
            [str(PYTHON), "-m", module, word], cwd=ROOT, stdout=output, stderr=errors, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
