"""Processes die; the crawl goes on, or can be resumed, and nothing is lost."""

import contextlib
import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import msgspec
import pytest

from gossamer.report.resources import started
from gossamer.run.data_directory import Processes
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once
from tests.crawl.test_stopping import until_pages_are_fetched


def processes(crawls: Crawls) -> Processes:
    return msgspec.json.decode((crawls.data / "processes.json").read_bytes(), type=Processes)


def left_of(known: Processes) -> list[int]:
    """Those that still run; a later process may have the number of one that has ended."""
    return [pid for pid, when in known.started.items() if started(pid) == when]


def children(crawls: Crawls, kind: str) -> list[int]:
    """Told apart by the log file that each has open."""
    found: list[int] = []
    if not (crawls.data / "processes.json").exists():
        return found
    for pid in processes(crawls).started:
        if pid == processes(crawls).leader:
            continue
        if any(f"/{kind}-" in name and name.endswith(".log") for name in open_files(pid)):
            found.append(pid)
    return found


def open_files(pid: int) -> list[str]:
    """Of a process that opens and closes others meanwhile, or is gone."""
    files: list[str] = []
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                files.append(str(descriptor.readlink()))
    return files


def until(condition: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.every_store
@pytest.mark.parametrize("kind", ["fetcher", "parser"])
def test_a_killed_process_is_replaced_and_nothing_is_lost(small_web: Crawls, kind: str) -> None:
    # A delay that leaves the others time to start on a busy machine, before the leader alone has done it all.
    running = small_web.start("--num-fetcher-processes=2", "--num-parser-processes=2", delay=0.3)
    until_pages_are_fetched(small_web, 60, running)
    until(lambda: children(small_web, kind), f"there is no {kind}")
    os.kill(children(small_web, kind)[0], signal.SIGKILL)
    summary = small_web.end(running)
    assert summary["stop_reason"] == "exhausted"
    assert summary["restarts"] == 1
    judged = small_web.judge(repeats=200, restarts=1)
    assert judged.is_clean, judged.verdict
    assert_each_once(small_web.pages(), small_web.expected_pages())


@pytest.mark.every_store
def test_after_the_death_of_the_leader_the_others_leave_and_a_resume_loses_nothing(small_web: Crawls) -> None:
    running = small_web.start("--num-fetcher-processes=2", "--num-parser-processes=2")
    until_pages_are_fetched(small_web, 60, running)
    known = processes(small_web)
    running.kill()
    running.communicate()
    # At once, while they may still be there.
    summary = small_web.resume()
    assert summary["stop_reason"] == "exhausted"
    assert left_of(known) == []
    judged = small_web.judge(repeats=500, restarts=1)
    assert judged.is_clean, judged.verdict
    assert_each_once(small_web.pages(), small_web.expected_pages())


def test_a_crawl_that_runs_is_not_resumed_a_second_time(small_web: Crawls) -> None:
    running = small_web.start(delay=5)
    until_pages_are_fetched(small_web, 10, running)
    before = (small_web.data / "crawl.toml").read_bytes()
    second = small_web.start_again("--delay=0")
    _, errors = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 2
    assert "is running" in errors
    assert (small_web.data / "crawl.toml").read_bytes() == before
    assert small_web.interrupt(running)["stop_reason"] == "interrupted"


def test_processes_that_die_again_and_again_end_the_crawl_with_a_code_of_its_own(small_web: Crawls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # Nothing must be finished meanwhile, be it as a failure: then what died before would not count.
        patient = ("--fetch-timeout=600", "--header-timeout=600", "--tls-timeout=600")
        running = small_web.start(f"--connect-to=127.0.0.1:{silent.getsockname()[1]}", *patient)
        for _ in range(5):
            until(lambda: children(small_web, "parser"), "there is no parser")
            pid = children(small_web, "parser")[0]
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: pid not in children(small_web, "parser"), "it does not die")
        output, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 4, errors
    assert "died one after another" in errors
    assert output == ""


def test_a_second_interrupt_leaves_at_once_and_nothing_runs_on(small_web: Crawls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running = small_web.start(f"--connect-to=127.0.0.1:{silent.getsockname()[1]}", "--num-fetcher-processes=2")
        until(lambda: children(small_web, "fetcher") and children(small_web, "parser"), "nothing starts")
        known = processes(small_web)
        # One that does not leave: without a second interrupt it would be waited for.
        os.kill(children(small_web, "parser")[0], signal.SIGSTOP)
        running.send_signal(signal.SIGINT)
        # Two that come at once are one.
        until(lambda: "stopping: interrupted" in small_web.logs(), "the interrupt was not heard")
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=PATIENCE_SECONDS)
        assert (running.returncode, output) == (130, ""), errors  # no summary: nothing was put in order
        until(lambda: not left_of(known), "a process runs on")


#: The crawl's command line, in a leader that loses its patience sooner.
IMPATIENT = """
import sys
from gossamer.cli.main import main
from gossamer.run import watch
watch.SILENT_SECONDS = 5.0
watch.STARTING_SECONDS = 30.0
sys.exit(main())
"""


class ImpatientCrawls(Crawls):
    program = ("-c", IMPATIENT)


@pytest.mark.parametrize("kind", ["fetcher", "parser"])
def test_a_stopped_process_is_noticed_and_replaced_and_nothing_is_lost_or_doubled(
    small_web: Crawls, tmp_path: Path, kind: str
) -> None:
    crawls = ImpatientCrawls(tmp_path, small_web.web, small_web.store)
    running = crawls.start("--num-fetcher-processes=2", "--num-parser-processes=2", delay=0.3)
    small_web.running.append(running)
    until_pages_are_fetched(crawls, 60, running)
    until(lambda: children(crawls, kind), f"there is no {kind}")
    pid = children(crawls, kind)[0]
    known = processes(crawls)
    os.kill(pid, signal.SIGSTOP)
    output, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, errors
    assert json.loads(output)["stop_reason"] == "exhausted"
    assert pid not in left_of(known)
    # Longer if it was stopped before its first report.
    said = re.compile(rf"{kind}-\d has not reported for (5|30) s and is killed")
    assert said.search(errors)
    assert said.search(crawls.logs())
    # On a machine that is busy beyond measure, others may be taken for stopped, too.
    judged = crawls.judge(repeats=500, restarts=5)
    assert judged.is_clean, judged.verdict
    assert_each_once(crawls.pages(), crawls.expected_pages())


@pytest.mark.embedded("it is about the file frontier.db")
def test_a_store_that_is_no_store_is_an_error_with_a_code_of_its_own(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5")
    (small_web.data / "frontier.db").write_bytes(b"this is not a database" * 100)
    for extra in small_web.data.glob("frontier.db-*"):
        extra.unlink()
    failed = small_web.start_again()
    output, errors = failed.communicate(timeout=PATIENCE_SECONDS)
    assert failed.returncode == 3, errors
    assert output == ""
    assert "frontier.db" in errors
