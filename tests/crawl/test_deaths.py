"""Processes die; the crawl goes on, or can be resumed, and nothing is lost."""

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import msgspec
import pytest

from gossamer.run.data_directory import Processes
from tests.crawl.conftest import Crawls, assert_each_once
from tests.crawl.test_stopping import until_pages_are_fetched


def processes(crawls: Crawls) -> Processes:
    return msgspec.json.decode((crawls.data / "processes.json").read_bytes(), type=Processes)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


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
    deadline = time.monotonic() + 30
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
    assert not [pid for pid in known.started if Path(f"/proc/{pid}").exists() and "gossamer.run" in command_of(pid)]
    judged = small_web.judge(repeats=500, restarts=1)
    assert judged.is_clean, judged.verdict
    assert_each_once(small_web.pages(), small_web.expected_pages())


def test_a_crawl_that_runs_is_not_resumed_a_second_time(small_web: Crawls) -> None:
    running = small_web.start(delay=1)
    until_pages_are_fetched(small_web, 10, running)
    before = (small_web.data / "crawl.toml").read_bytes()
    second = small_web.start_again("--delay=0")
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "is running" in errors
    assert (small_web.data / "crawl.toml").read_bytes() == before
    assert small_web.interrupt(running)["stop_reason"] == "interrupted"


def test_processes_that_die_again_and_again_end_the_crawl_with_a_code_of_its_own(small_web: Crawls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running = small_web.start(f"--connect-to=127.0.0.1:{silent.getsockname()[1]}", "--fetch-timeout=600")
        for _ in range(5):
            until(lambda: children(small_web, "parser"), "there is no parser")
            pid = children(small_web, "parser")[0]
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: pid not in children(small_web, "parser"), "it does not die")
        output, errors = running.communicate(timeout=60)
    assert running.returncode == 4, errors
    assert "died one after another" in errors
    assert output == ""


def test_a_second_interrupt_leaves_at_once_and_nothing_runs_on(small_web: Crawls) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running = small_web.start(f"--connect-to=127.0.0.1:{silent.getsockname()[1]}", "--num-fetcher-processes=2")
        until(lambda: children(small_web, "fetcher") and children(small_web, "parser"), "nothing starts")
        known = processes(small_web)
        running.send_signal(signal.SIGINT)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=10) == 130
        until(lambda: not any(_runs(pid) for pid in known.started), "a process runs on")
        running.communicate()


def _runs(pid: int) -> bool:
    try:
        return "gossamer" in command_of(pid)
    except OSError:
        return False


@pytest.mark.embedded("it is about the file frontier.db")
def test_a_store_that_is_no_store_is_an_error_with_a_code_of_its_own(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5")
    (small_web.data / "frontier.db").write_bytes(b"this is not a database" * 100)
    for extra in small_web.data.glob("frontier.db-*"):
        extra.unlink()
    failed = small_web.start_again()
    output, errors = failed.communicate(timeout=60)
    assert failed.returncode == 3, errors
    assert output == ""
    assert "frontier.db" in errors
