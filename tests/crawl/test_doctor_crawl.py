"""`gossamer doctor` beside a crawl that runs: every process answers, twice, and the crawl goes on as if not asked."""

import contextlib
import io
import json
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gossamer.cli.main import command_module, command_parser
from gossamer.look import processes
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import Crawls, crawls_of, stopped

WEB = Web(
    sites=30,
    pages=40,
    links_per_page=6,
    median_bytes=600,
    https_share=0.5,
    crawl_delay_seconds=0.1,
    retry_after_seconds=0,
)
#: Longer than a busy machine takes to start a crawl, and a busy process to answer.
PATIENCE_SECONDS = 100.0
FEW = ("--num-fetcher-processes=2", "--num-parser-processes=1", "--metrics-port=0", "--ui-port=0")


class Ran(NamedTuple):
    code: int
    out: str


def doctor(crawls: Crawls, *flags: str) -> Ran:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = command_module("doctor").run(command_parser("doctor").read([str(crawls.data), *flags]))
    return Ran(code, out.getvalue())


def checkup(crawls: Crawls) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(doctor(crawls, "--json").out)
    return found


def wait_for_pages(crawls: Crawls, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(list((crawls.data / "log").glob("*.log"))) < 3 or len(crawls.requests()) < 20:
        assert process.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, "the crawl does not begin"
        time.sleep(0.1)


def wait_for_connections(crawls: Crawls) -> None:
    """Until both schemes have a connection open. Called while the web is stopped: those then stay."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not {crawls.web.http_port, crawls.web.https_port} <= connected_ports():
        assert time.monotonic() < deadline, "nobody connects"
        time.sleep(0.1)


def connected_ports() -> set[int]:
    """Ports to which an established TCP connection of this machine leads."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {int(fields[2].rpartition(":")[2], 16) for line in lines if (fields := line.split())[3] == "01"}


@pytest.mark.timeout(400)
def test_every_process_of_a_crawl_answers_twice_and_goes_on_as_if_it_had_not_been_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every process answers, however busy the machine is.
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    with crawls_of(WEB, tmp_path, "sqlite") as crawls:
        process = crawls.start(*FEW, delay=0.1)
        wait_for_pages(crawls, process)
        with stopped(crawls.web.pids):
            wait_for_connections(crawls)
            first, second = checkup(crawls), checkup(crawls)
        ended = crawls.interrupt(process)
        assert ended["restarts"] == 0
        after = doctor(crawls)
    names = ["leader", "fetcher-1", "parser-0"]
    for found in (first, second):
        assert found["is_running"]
        assert [one["process"] for one in found["diagnoses"]] == names
        assert {one["name"]: one["has_answered"] for one in found["processes"]} == dict.fromkeys(names, True)
        assert [one["errors"] for one in found["diagnoses"]] == [{}, {}, {}]
        assert [problem for problem in found["problems"] if problem["weight"] == "wrong"] == []
        kinds = [set(one["descriptors"]["kinds"]) for one in found["diagnoses"]]
        assert all({"store", "log", "pipes"} <= of_one for of_one in kinds)
        assert {"http", "https"} <= kinds[0] | kinds[1]
        assert "spool" in kinds[2]
        assert all(one["objects"]["largest"][0]["held_by"] for one in found["diagnoses"])
        assert found["bound"]["because"]
    for before, now in zip(first["diagnoses"], second["diagnoses"], strict=True):
        assert (before["last_at"], now["last_at"]) == (None, before["at"])
        assert any(one["was_there"] for one in now["objects"]["largest"])
        # It ends: the search for large objects has a budget of CPU time, of which this is many times as much.
        assert now["cpu_seconds"] < 30
    assert after.code == 0
    assert "is not running" in after.out
    assert "no problem was found" in after.out
