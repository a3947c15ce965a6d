"""Limits are exact, stopping loses nothing, and a resume goes on where the last run stopped."""

import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from gossamer.run.data_directory import Processes
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once


def until_pages_are_fetched(crawls: Crawls, count: int, process: subprocess.Popen[str]) -> None:
    """By the server's log, so nothing of the crawl itself is asked."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(crawls.requests()) < count:
        assert process.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, "the crawl does not get on"
        time.sleep(0.05)


def until_there(directory: Path, names: set[str], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all((directory / name).exists() for name in names):
        assert process.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, f"there are only {sorted(path.name for path in directory.iterdir())}"
        time.sleep(0.05)


@pytest.mark.parametrize("parsers", [1, 2])
def test_max_pages_is_exact(small_web: Crawls, parsers: int) -> None:
    summary = small_web.crawl("--max-pages=137", "--num-fetcher-processes=2", f"--num-parser-processes={parsers}")
    assert summary["stop_reason"] == "max_pages"
    assert summary["pages"] == 137
    pages = small_web.pages()
    assert len({page["url"] for page in pages}) == len(pages) == 137


def test_max_pages_is_exact_over_a_stop_and_a_resume_and_a_higher_limit(small_web: Crawls) -> None:
    # With this delay it takes five seconds more until 150 pages are there: the interrupt comes before.
    running = small_web.start("--max-pages=150", delay=1)
    until_pages_are_fetched(small_web, 60, running)
    first = small_web.interrupt(running)
    second = small_web.resume("--delay=0")
    third = small_web.resume("--max-pages=180")
    assert first["pages"] < second["pages"] == 150
    assert second["stop_reason"] == third["stop_reason"] == "max_pages"
    assert third["pages"] == 180
    assert third["pages_this_run"] == 30
    pages = small_web.pages()
    assert len({page["url"] for page in pages}) == len(pages) == 180


def test_max_duration_ends_a_run_with_all_that_it_fetched_in_the_sink(small_web: Crawls) -> None:
    # Long enough that a busy machine has fetched something, and with this delay a third of what there is.
    summary = small_web.crawl("--max-duration=6", delay=1)
    assert summary["stop_reason"] == "max_duration"
    assert summary["duration_seconds"] >= 6
    assert summary["queued"] > 0
    assert len(small_web.pages()) == summary["pages"] > 0
    assert list((small_web.data / "spool" / "ready").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_under_load_loses_nothing(small_web: Crawls, number: signal.Signals) -> None:
    # With this delay there are five more seconds of it when the interrupt comes.
    running = small_web.start("--num-fetcher-processes=2", "--num-parser-processes=2", delay=0.3)
    until_pages_are_fetched(small_web, 100, running)
    running.send_signal(number)
    first = small_web.end(running, code=130)
    assert first["stop_reason"] == "interrupted"
    second = small_web.resume("--num-fetcher-processes=1", "--num-parser-processes=1", "--delay=0")
    assert second["stop_reason"] == "exhausted"
    assert second["admitted"] == second["finished"]
    # What was in flight when it was told to stop may be asked for again.
    judged = small_web.judge(repeats=50)
    assert judged.is_clean, judged.verdict
    assert_each_once(small_web.pages(), small_web.expected_pages())


def test_a_crawl_that_was_done_has_nothing_more_to_do(small_web: Crawls) -> None:
    first = small_web.crawl()
    requests = len(small_web.requests())
    again = small_web.resume()
    assert again["stop_reason"] == "exhausted"
    assert again["pages"] == first["pages"]
    assert again["pages_this_run"] == 0
    assert len(small_web.requests()) == requests


def test_nothing_is_leased_while_the_disk_is_nearly_full(small_web: Crawls) -> None:
    running = small_web.start("--min-free=900000GiB")
    log_file = small_web.data / "log" / "leader.log"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not log_file.exists() or "nearly full" not in log_file.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = len(small_web.requests())
    time.sleep(1.0)
    assert len(small_web.requests()) - before <= 100  # what was leased before it was noticed
    small_web.interrupt(running)
    summary = small_web.resume("--min-free=0")
    assert summary["stop_reason"] == "exhausted"
    assert_each_once(small_web.pages(), small_web.expected_pages())


def test_a_signal_to_the_leader_reopens_all_logs_and_another_has_every_process_diagnosed(small_web: Crawls) -> None:
    running = small_web.start("--num-fetcher-processes=2", delay=2)
    until_pages_are_fetched(small_web, 20, running)
    names = {"leader.log", "fetcher-1.log", "parser-0.log"}
    logs = small_web.data / "log"
    until_there(logs, names, running)
    leader = msgspec.json.decode((small_web.data / "processes.json").read_bytes(), type=Processes).leader
    for name in names:
        (logs / name).rename(logs / f"old-{name}")
    os.kill(leader, signal.SIGHUP)
    until_there(logs, names, running)
    os.kill(leader, signal.SIGUSR1)
    until_there(small_web.data / "diagnosis", {name.replace(".log", ".json") for name in names}, running)
    small_web.interrupt(running)
    for name in names:
        assert "diagnosed" in (logs / name).read_text("utf-8")


def test_signals_that_were_blocked_by_whoever_started_the_crawl_are_answered(small_web: Crawls) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGUSR1})
    try:
        running = small_web.start(delay=2)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    until_pages_are_fetched(small_web, 20, running)
    os.kill(running.pid, signal.SIGUSR1)
    until_there(small_web.data / "diagnosis", {"leader.json", "parser-0.json"}, running)
    small_web.interrupt(running)
