"""The store's server dies, stands still, is emptied or was never there: it is waited for, or said to be lost."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis

from gossamer.testing.guard import children as descendants
from gossamer.testing.servers import PostgresServer, RedisServer
from gossamer.testing.web.access_log import Request
from gossamer.testing.web.graph import Web
from tests.conftest import postgres_binaries, present, redis_binaries
from tests.crawl.conftest import (
    PATIENCE_SECONDS,
    STORES,
    STORES_VARIABLE,
    Crawls,
    assert_each_once,
    crawls_of,
    on_server,
    pages_in,
)
from tests.crawl.test_deaths import children, left_of, processes, until
from tests.crawl.test_stopping import until_pages_are_fetched, until_there

Server = RedisServer | PostgresServer

DELAY_SECONDS = 0.2
FLAGS = ("--num-fetcher-processes=2", "--num-parser-processes=2")
#: How often a server dies, and how long it is away: in `./check`, and where stores are named (`./check campaign`).
OUTAGES = [(3, 2.0)] if STORES_VARIABLE not in os.environ else [(3, 2.0), (10, 10.0)]
#: Requests before something happens to the store.
SOME = 50


@pytest.fixture(params=[on_server(kind) for kind, fixture in STORES.items() if fixture])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that a test may kill: nothing that it has acknowledged is lost by that."""
    started: Server
    if request.param == "redis":
        started = RedisServer(present(next(iter(redis_binaries()), None), "Redis"), settings={"appendfsync": "always"})
    else:
        started = PostgresServer(present(next(iter(postgres_binaries()), None), "PostgreSQL"))
    with started:
        yield started


def slow(*, sites: int = 20, pages: int = 12) -> Web:
    """Slow enough that there is time to take its store away."""
    return Web(
        sites=sites,
        pages=pages,
        links_per_page=30,
        median_bytes=4_000,
        https_share=0.3,
        latency_median_seconds=0.1,
        crawl_delay_seconds=0.3,
    )


@pytest.fixture
def slow_web(tmp_path: Path, server: Server) -> Iterator[Crawls]:
    with crawls_of(slow(), tmp_path, server.url) as crawls:
        yield crawls


@pytest.fixture
def long_web(tmp_path: Path, server: Server, outages: tuple[int, float]) -> Iterator[Crawls]:
    """As many pages as it takes for so many outages: in two seconds, which a process may take longer than another to
    find the server again, each site is asked for six."""
    with crawls_of(slow(pages=10 + 8 * outages[0]), tmp_path, server.url) as crawls:
        yield crawls


@pytest.fixture
def little_web(tmp_path: Path, server: Server) -> Iterator[Crawls]:
    with crawls_of(slow(sites=5, pages=3), tmp_path, server.url) as crawls:
        yield crawls


def messages(crawls: Crawls) -> dict[str, list[str]]:
    """What each process has logged."""
    said: dict[str, list[str]] = {}
    for entry in crawls.log_entries():
        said.setdefault(entry["process"], []).append(entry["message"])
    return said


def noticed(lines: list[str]) -> tuple[int, int]:
    """How often a process has logged that the store is away, and how often that it is back."""
    away = sum("does not answer, waiting" in line or "is starting, waiting" in line for line in lines)
    return away, sum("is back after" in line for line in lines)


def have_noticed(crawls: Crawls, *, away: int, back: int) -> bool:
    """Whether everybody has who must; a parser that has nothing to say to the store may not notice."""
    lines = messages(crawls)
    counts = {process: noticed(said) for process, said in lines.items()}
    leader = lines.get("leader", [])
    told = (
        sum("the store does not answer" in line for line in leader),
        sum("the store is back" in line for line in leader),
    )
    everybody = [told, counts.get("leader", (0, 0)), counts.get("fetcher-1", (0, 0))]
    return all(gone >= away and come >= back for gone, come in everybody) and (
        away > back or all(gone == come for gone, come in counts.values())
    )


def judge_whole(crawls: Crawls, summary: dict[str, Any], **rules: Any) -> None:
    assert summary["stop_reason"] == "exhausted"
    assert not {"connect", "timeout", "our-shortage", "returned"} & summary["failures"].keys()
    judged = crawls.judge(delay=DELAY_SECONDS, **rules)
    assert judged.is_clean, judged.verdict
    assert_each_once(crawls.pages(), crawls.expected_pages())


def finish(crawls: Crawls, process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """Its summary, and what it said on the way."""
    output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, f"exit code {process.returncode}\n{output}\n{errors}\n{crawls.logs()}"
    summary: dict[str, Any] = json.loads(output)
    return summary, errors


def complaints(errors: str) -> list[str]:
    """What it said, but for the lines that every crawl begins with, and for what it waits."""
    usual = ("crawling into ", "dashboard: ", "metrics: ", "waiting for the store")
    return [line for line in errors.splitlines() if not line.startswith(usual)]


def until_more(crawls: Crawls, running: subprocess.Popen[str], more: int = SOME) -> None:
    until_pages_are_fetched(crawls, len(crawls.requests()) + more, running)


def all_requests(crawls: Crawls) -> list[Request]:
    """When the server has noticed that nobody waits for its answers any more."""
    found = crawls.requests()
    while True:
        time.sleep(1)
        if len(found) == len(crawls.requests()):
            return found
        found = crawls.requests()


def assert_runs(crawls: Crawls, running: subprocess.Popen[str]) -> None:
    if running.poll() is not None:
        pytest.fail(f"exit code {running.returncode}\n{running.communicate()}\n{crawls.logs()}")


def until_noticed(crawls: Crawls) -> None:
    until(lambda: "does not answer" in crawls.logs(), "nobody has noticed that the store is away")


# It dies and comes back.


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("outages", OUTAGES, ids=lambda outages: f"{outages[0]}x{outages[1]:.0f}s")
def test_a_server_that_dies_and_comes_back_costs_no_page_no_gap_and_no_process(
    long_web: Crawls, server: Server, outages: tuple[int, float]
) -> None:
    times, away_seconds = outages
    running = long_web.start(*FLAGS, delay=DELAY_SECONDS)
    until_more(long_web, running)
    # Both fetchers have spoken to the store.
    until_there(long_web.data / "spool" / "serials", {"000", "001"}, running)
    before = processes(long_web)
    for number in range(1, times + 1):
        until_more(long_web, running, 10)
        server.kill()
        time.sleep(away_seconds)
        until(
            lambda number=number: have_noticed(long_web, away=number, back=number - 1),
            "not everybody has noticed that the store is away",
        )
        assert_runs(long_web, running)
        server.restart()
        until(
            lambda number=number: have_noticed(long_web, away=number, back=number),
            "not everybody has noticed that the store is back",
        )
    until_more(long_web, running, 10)
    assert processes(long_web) == before  # nobody has left
    summary, said = finish(long_web, running)
    assert summary["restarts"] == 0
    judge_whole(long_web, summary)
    assert said.count("the store does not answer: waiting") == said.count("the store is back") == times
    for process, lines in messages(long_web).items():
        away, back = noticed(lines)
        assert away == back <= times, (process, lines)  # once each
        assert back == times or process.startswith("parser"), (process, lines)


def test_a_process_that_dies_while_the_server_is_away_is_replaced_when_it_is_back(
    slow_web: Crawls, server: Server
) -> None:
    running = slow_web.start(*FLAGS, delay=DELAY_SECONDS)
    until_more(slow_web, running)
    until(lambda: children(slow_web, "fetcher") and children(slow_web, "parser"), "nobody starts")
    server.kill()
    for kind in ("fetcher", "parser"):
        os.kill(children(slow_web, kind)[0], signal.SIGKILL)
    until_noticed(slow_web)
    time.sleep(2)
    assert_runs(slow_web, running)
    server.restart()
    summary, _ = finish(slow_web, running)
    assert summary["restarts"] == 2
    judge_whole(slow_web, summary, repeats=200, restarts=1)


@pytest.mark.long
def test_an_interrupt_while_the_server_is_away_ends_the_run_and_a_resume_when_it_is_back_loses_nothing(
    slow_web: Crawls, server: Server
) -> None:
    running = slow_web.start(*FLAGS, delay=DELAY_SECONDS)
    until_more(slow_web, running)
    known = processes(slow_web)
    server.kill()
    until_noticed(slow_web)
    running.terminate()
    output, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 3, errors
    assert output == ""
    assert "Traceback" not in errors
    assert f"gossamer resume {slow_web.data}" in errors
    until(lambda: not left_of(known), "a process runs on")
    # Too early: it waits as long as it was told to.
    early = slow_web.start_again("--store-patience=1")
    output, errors = early.communicate(timeout=PATIENCE_SECONDS)
    assert (early.returncode, output) == (3, ""), errors
    assert len(complaints(errors)) == 1
    server.restart()
    summary, _ = finish(slow_web, slow_web.start_again())
    # Told by the server's log: what was in memory when it ended is asked for again.
    judge_whole(slow_web, summary, repeats=200, restarts=1)


# It stands still.


def test_a_server_that_stands_still_is_waited_for(slow_web: Crawls, server: Server) -> None:
    running = slow_web.start(*FLAGS, delay=DELAY_SECONDS)
    until_more(slow_web, running)
    os.kill(server.pid, signal.SIGSTOP)  # first: from now on it starts no others
    family = [server.pid, *descendants(server.pid)]
    try:
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(5)
    finally:
        for pid in family:
            os.kill(pid, signal.SIGCONT)
    assert_runs(slow_web, running)
    summary, _ = finish(slow_web, running)
    assert summary["restarts"] == 0
    judge_whole(slow_web, summary)
    slow = [line for lines in messages(slow_web).values() for line in lines if " took " in line]
    assert slow
    assert all("called by gossamer." in line for line in slow), slow


# It has lost the frontier.


async def _drop(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for (schema,) in await connection.fetch(_SCHEMAS):
            quoted = schema.replace('"', '""')
            await connection.execute(f'DROP SCHEMA "{quoted}" CASCADE')
    finally:
        await connection.close()


async def _schemas(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [schema for (schema,) in await connection.fetch(_SCHEMAS)]
    finally:
        await connection.close()


_SCHEMAS = r"SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$|public$)'"


def empty(server: Server) -> None:
    if isinstance(server, RedisServer):
        with redis.Redis(port=server.port) as client:
            client.flushall()
    else:
        asyncio.run(_drop(server.url))


def left(server: Server) -> list[Any]:
    """What stands there of any crawl."""
    if isinstance(server, RedisServer):
        with redis.Redis(port=server.port) as client:
            return list(client.scan_iter())
    return asyncio.run(_schemas(server.url))


def test_a_frontier_that_was_removed_under_a_crawl_is_said_to_be_lost_and_never_begun_anew(
    slow_web: Crawls, server: Server
) -> None:
    running = slow_web.start(*FLAGS, "--commit-pages=20", delay=DELAY_SECONDS)
    until_more(slow_web, running, 100)
    known = processes(slow_web)
    assert left(server)
    empty(server)
    output, errors = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 3, errors
    refusal = complaints(errors)[0]
    assert complaints(errors) == [refusal]
    assert output == ""
    assert f"127.0.0.1:{server.port}" in refusal
    assert "backup" in refusal
    assert "start a new crawl" in refusal
    until(lambda: not left_of(known), "a process runs on")
    assert left(server) == []

    requests = all_requests(slow_web)
    again = slow_web.start_again()
    output, errors = again.communicate(timeout=PATIENCE_SECONDS)
    assert (again.returncode, output) == (3, ""), errors
    assert complaints(errors) == [refusal]
    assert left(server) == []
    assert all_requests(slow_web) == requests
    # A page that is busy is asked for again; no other is.
    times = Counter(f"{request.scheme}://{request.host}{request.path}" for request in requests if request.status == 200)
    assert [url for url, count in times.items() if count > 1] == []
    urls = [page["url"] for page in pages_in(slow_web.data)]
    assert len(urls) == len(set(urls)) > 0


# It was never there.


def test_a_server_that_never_answers_is_given_up_and_the_crawl_begins_when_it_is_there(
    little_web: Crawls, server: Server
) -> None:
    server.kill()
    failed = little_web.start("--store-patience=1", delay=DELAY_SECONDS)
    output, errors = failed.communicate(timeout=PATIENCE_SECONDS)
    assert (failed.returncode, output) == (3, ""), errors
    assert len(complaints(errors)) == 1
    assert f"127.0.0.1:{server.port}" in errors
    assert "start it, or correct the address" in errors
    assert little_web.requests() == []
    server.restart()
    summary = little_web.crawl(*FLAGS, delay=DELAY_SECONDS)  # there was none that could be resumed
    judge_whole(little_web, summary)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://127.0.0.1:{other}/0", "127.0.0.1:{other}"),
        ("postgresql://gossamer@127.0.0.1:{other}/postgres", "127.0.0.1:{other}"),
        ("redis://127.0.0.1:{web}/0", "127.0.0.1:{web}"),
        ("postgresql://gossamer@127.0.0.1:{web}/postgres", "127.0.0.1:{web}"),
    ],
    ids=["redis-nobody", "postgresql-nobody", "redis-no-store", "postgresql-no-store"],
)
def test_an_address_without_a_store_is_an_error_that_names_it(tmp_path: Path, url: str, words: str) -> None:
    # Bound, and nobody listens: so nobody else can have it.
    with socket.socket() as unheard, crawls_of(Web(sites=1, pages=1), tmp_path, "sqlite") as crawls:
        unheard.bind(("127.0.0.1", 0))
        places = {"other": unheard.getsockname()[1], "web": crawls.web.http_port}
        crawls.store = url.format(**places)
        failed = crawls.start("--store-patience=0.5")
        output, errors = failed.communicate(timeout=PATIENCE_SECONDS)
        assert (failed.returncode, output) == (3, ""), errors
        assert "Traceback" not in errors
        assert len(complaints(errors)) == 1
        assert words.format(**places) in errors
        assert crawls.requests() == []
