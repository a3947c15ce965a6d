"""A crawl is broken on purpose and loses nothing; the checker that says so can also say otherwise; poison pages."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from gossamer.report.resources import started
from gossamer.run.data_directory import DataDirectory
from gossamer.testing.nemesis.attack import Attack
from gossamer.testing.nemesis.campaign import FLAGS, Trial, attack, crowd, ground_of
from gossamer.testing.nemesis.checker import MOST_SEGMENT_BYTES, Findings, Forgiven, check
from gossamer.testing.nemesis.events import (
    CAMPAIGN,
    LONG_STOPS,
    OF_SERVERS,
    STALLS_SECONDS,
    Deed,
    counts_of,
    plan,
)
from gossamer.testing.nemesis.stores import EmbeddedStore, attacked_store
from gossamer.testing.web import access_log
from gossamer.testing.web.access_log import Request
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.crowds import PARSER_CRASH
from gossamer.testing.web.policies import PolicyMix
from gossamer.testing.web.processes import WebProcesses
from gossamer.testing.web.server import Connection, SimulatedWeb
from tests.crawl.conftest import STORES_VARIABLE, chosen_stores, on_server, pages_in

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to tell processes apart")

#: Any will do; this one has each kind of event, and one that follows at once on the one before.
SEED = 11
EVENTS = {
    Deed.FETCHER: 2,
    Deed.PARSER: 2,
    Deed.LEADER: 1,
    Deed.TREE: 1,
    Deed.STOP: 1,
    Deed.TERMINATE: 1,
}
OF_SERVER = {Deed.SERVER: 1, Deed.SERVER_STOP: 1}
DELAY_SECONDS = 0.3

#: Longer than a crawl takes on a machine that does ten other things.
PATIENCE_SECONDS = 400.0
#: For events whose crawl was over before their time came, as in a campaign.
MOST_CRAWLS = 4


# The attack.


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [on_server(kind) for kind in chosen_stores()])
def test_nothing_is_lost_doubled_or_hurried_by_what_is_done_to_a_crawl(kind: str) -> None:
    # The delay is longer than a restart takes, so the gap after a request that a kill cut off is put to the test.
    web = Web(
        sites=80,
        pages=10,
        links_per_page=25,
        median_bytes=4_000,
        https_share=0.2,
        crawl_delay_seconds=2.0,
        latency_median_seconds=0.4,
    )
    (events,) = plan(SEED, EVENTS | (OF_SERVER if kind != "sqlite" else {}))
    trials: list[Trial] = []
    with attacked_store(kind) as store:
        while events and len(trials) < MOST_CRAWLS:
            trial = attack(len(trials), events, store, web=web, delay_seconds=1.5)
            assert trial.is_clean, "\n".join([trial.line, *trial.complaints()])
            assert trial.findings.repeats <= trial.story.repeats_allowed
            trials.append(trial)
            events = trial.story.left
    assert events == []
    assert sum(trial.story.resumes for trial in trials) >= 2
    # Kills found requests in flight, so their gaps were judged.
    assert sum(trial.findings.cut_off for trial in trials) > 0


#: Small enough for `./check`; a campaign crawls `LARGE_GROUND`, with longer stalls.
LARGE_WEB = Web(sites=25, pages=4, links_per_page=10, median_bytes=600_000, size_sigma=0.3, latency_median_seconds=0.3)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [on_server("redis"), on_server("postgresql")])
def test_nothing_is_lost_when_the_store_stands_still_under_large_bodies(kind: str) -> None:
    """With bursts, slow large bodies and tarpits beside the good web: no segment grows beyond its limit either."""
    ((stall,),) = plan(SEED, {Deed.SERVER_STOP: 1})
    assert stall.stopped_seconds == STALLS_SECONDS[0]
    # As soon as there is something in flight, so that the stall meets it.
    events = [msgspec.structs.replace(stall, wait_seconds=2.0)]
    flags = (*FLAGS, "--header-timeout=5", "--fetch-timeout=10", "--max-attempts=2")
    # Without the one whose robots.txt is asked for four times, which takes as long as all else.
    beside = [url for url in crowd() if "h54-robots" not in url]
    with attacked_store(kind) as store:
        trial = attack(0, events, store, web=LARGE_WEB, delay_seconds=0.5, flags=flags, beside=beside)
    assert trial.is_clean, "\n".join([trial.line, *trial.complaints()])
    assert (trial.story.done, trial.story.resumes, trial.story.deaths) == (events, 0, {})
    assert 0 < trial.story.largest_segment_bytes <= MOST_SEGMENT_BYTES


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(STORES_VARIABLE not in os.environ, reason="takes a minute of silence: ./check campaign")
@pytest.mark.parametrize("kind", [on_server(kind) for kind in chosen_stores()])
def test_a_fetcher_that_is_stopped_for_good_is_replaced_and_nothing_is_lost(kind: str) -> None:
    web = Web(sites=40, pages=60, links_per_page=25, median_bytes=4_000)
    ((stop,),) = plan(SEED, {Deed.FETCHER_STOP: 1})
    with attacked_store(kind) as store:
        trial = attack(0, [stop], store, web=web, delay_seconds=1.0)
    assert trial.is_clean, "\n".join([trial.line, *trial.complaints()])
    assert (trial.story.done, trial.story.replaced, trial.story.resumes) == ([stop], 1, 0)


def test_long_stalls_and_some_other_crawls_have_large_bodies_and_a_hostile_crowd() -> None:
    stalls = [event for crawl in plan(1, {Deed.SERVER_STOP: 6}) for event in crawl]
    assert sorted(event.stopped_seconds for event in stalls) == sorted(STALLS_SECONDS * 2)
    for event in stalls:
        assert ground_of(0, [event]).is_crowded is (event.stopped_seconds > STALLS_SECONDS[0])
    assert [ground_of(number, []).is_crowded for number in range(8)] == [False, False, False, True] * 2


def test_the_schedule_of_a_seed_is_always_the_same_and_has_what_was_asked_for() -> None:
    wanted = counts_of(has_server=True)
    crawls = plan(1, wanted, long_stop_seconds=65.0)
    assert crawls == plan(1, wanted, long_stop_seconds=65.0) != plan(2, wanted, long_stop_seconds=65.0)
    events = [event for crawl in crawls for event in crawl]
    assert Counter(event.deed for event in events) == CAMPAIGN
    long = [event for event in events if event.is_long]
    assert len(long) == LONG_STOPS
    assert {event.stopped_seconds for event in long} == {65.0}
    assert max(event.stopped_seconds for event in events if event.deed is Deed.STOP and not event.is_long) < 10
    assert {event.stopped_seconds for event in events if event.deed is Deed.SERVER} == {10.0}
    assert any(event.with_death for event in events)
    assert max(len(crawl) for crawl in crawls) - min(len(crawl) for crawl in crawls) <= 1


def test_a_campaign_against_several_stores_is_divided_but_for_what_is_done_to_servers() -> None:
    embedded, server = (counts_of(has_server=has_server, share=3) for has_server in (False, True))
    assert not embedded.keys() & OF_SERVERS
    assert {deed: server[deed] for deed in OF_SERVERS} == {deed: CAMPAIGN[deed] for deed in OF_SERVERS}
    shared = CAMPAIGN.keys() - OF_SERVERS
    assert all(embedded[deed] == server[deed] for deed in shared)
    assert all(CAMPAIGN[deed] <= 3 * embedded[deed] < CAMPAIGN[deed] + 3 for deed in shared)


def test_a_process_that_is_dead_and_not_waited_for_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert started(process.pid) is not None
        process.kill()
        deadline = time.monotonic() + 30
        while started(process.pid) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert Path(f"/proc/{process.pid}").exists()  # it still has its number


# The checker.


def table_of(data: Path) -> tuple[Path, pa.Table]:
    file = next((data / "pages").glob("*.parquet"))
    with pq.ParquetFile(file) as content:
        return file, content.read()


def without_a_page(data: Path) -> None:
    file, table = table_of(data)
    pq.write_table(table.slice(1), file)


def with_a_page_twice(data: Path) -> None:
    file, table = table_of(data)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), file)


def with_a_page_of_nowhere(data: Path) -> None:
    file, table = table_of(data)
    page = table.slice(0, 1)
    place = page.column_names.index("url")
    pq.write_table(pa.concat_tables([table, page.set_column(place, "url", [["http://nowhere.test/"]])]), file)


def with_half_a_table(data: Path) -> None:
    file, _ = table_of(data)
    file.write_bytes(file.read_bytes()[:-20])


def in_store(statement: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        with contextlib.closing(sqlite3.connect(data / "frontier.db")) as store, store:
            assert store.execute(statement).rowcount == 1

    return change


def with_a_segment(data: Path) -> None:
    (data / "spool" / "ready" / "00001-000-00000009.1.10.seg").write_bytes(b"")


Log = list[Request]


def pair_of(log: Log) -> tuple[Request, Request]:
    """A request for a page and the next one to its site, which is another page."""
    pages = sorted(request for request in log if request.path != "/robots.txt" and request.host == "s1.test")
    return pages[0], pages[1]


def shifted(log: Log, by: Callable[[Request, Request], int]) -> Log:
    first, second = pair_of(log)
    shift_ns = by(first, second)
    moved = second._replace(started_at_ns=second.started_at_ns + shift_ns, ended_at_ns=second.ended_at_ns + shift_ns)
    return [moved if request is second else request for request in log]


def too_soon(log: Log) -> Log:
    return shifted(log, lambda first, second: first.ended_at_ns + 290_000_000 - second.started_at_ns)


def overlapping(log: Log) -> Log:
    return shifted(log, lambda first, second: first.ended_at_ns - 1 - second.started_at_ns)


def too_soon_after_one_that_was_cut_off(log: Log) -> Log:
    first, second = pair_of(log)
    # It was answered in the end, after all else: nothing but the gap is wrong.
    again = first._replace(
        started_at_ns=max(request.ended_at_ns for request in log) + 10**9,
        ended_at_ns=max(request.ended_at_ns for request in log) + 10**9 + 1,
    )
    cut = first._replace(ended_at_ns=second.started_at_ns - 290_000_000, aborted=True, status=0)
    return [cut if request is first else request for request in log] + [again]


def with_a_request_twice(log: Log) -> Log:
    last = max(request.ended_at_ns for request in log) + 10**9
    return [*log, pair_of(log)[0]._replace(started_at_ns=last, ended_at_ns=last + 1)]


def without_a_request(log: Log) -> Log:
    return [request for request in log if request is not pair_of(log)[1]]


def wrong(findings: Findings) -> set[str]:
    """The names of what is wrong."""
    named = ("urls_lost", "pages_missing", "pages_doubled", "pages_unexpected", "gaps_short", "overlaps", "others")
    return {name for name in named if getattr(findings, name)}


#: Each with a name of what must be found wrong, and what else follows from it.
FAULTS_OF_FILES: list[tuple[Callable[[Path], None], set[str]]] = [
    (without_a_page, {"pages_missing", "others"}),
    (with_a_page_twice, {"pages_doubled", "others"}),
    (with_a_page_of_nowhere, {"pages_unexpected", "others"}),
    (with_half_a_table, {"pages_missing", "others"}),
    (with_a_segment, {"others"}),
    # A URL finished as a page, and no page; one lost between its states; one that deaths drove out.
    (in_store("UPDATE counts SET value = value + 1 WHERE name = 'outcome page'"), {"pages_missing", "others"}),
    (in_store("UPDATE counts SET value = value - 1 WHERE name = 'finished'"), {"urls_lost"}),
    (in_store("UPDATE counts SET value = 1 WHERE name = 'leased'"), {"others"}),
    (in_store("INSERT INTO counts VALUES ('outcome returned', 1)"), {"urls_lost"}),
    (in_store("INSERT INTO counts VALUES ('outcome parse-crash', 1)"), {"urls_lost"}),
]
FAULTS_OF_LOG: list[tuple[Callable[[Log], Log], set[str]]] = [
    (too_soon, {"gaps_short"}),
    (overlapping, {"overlaps"}),
    (too_soon_after_one_that_was_cut_off, {"gaps_short"}),
    (with_a_request_twice, {"others"}),
    (without_a_request, {"urls_lost"}),
]


def test_the_checker_finds_nothing_in_a_good_crawl_and_each_known_fault_when_it_is_put_there(tmp_path: Path) -> None:
    web = Web(sites=4, pages=8, links_per_page=8, median_bytes=2_000, robots=PolicyMix(**dict.fromkeys(CLOSED, 0.0)))
    flags = ("--num-fetcher-processes=1", "--num-parser-processes=1")
    with WebProcesses(web, log_directory=tmp_path / "web") as serving:
        run = Attack(tmp_path, serving, EmbeddedStore(), [], delay_seconds=DELAY_SECONDS, flags=flags)
        assert run.run().failures == []
    log = list(access_log.read(serving.log_files))

    def found(data: Path, requests: Iterable[Request]) -> set[str]:
        counts = EmbeddedStore().counts(DataDirectory(data))
        return wrong(check(data, requests, web, counts, delay_seconds=DELAY_SECONDS, forgiven=Forgiven()))

    assert found(run.data, log) == set()
    for break_files, expected in FAULTS_OF_FILES:
        copy = tmp_path / "copy"
        shutil.copytree(run.data, copy)
        break_files(copy)
        assert found(copy, log) == expected, break_files
        shutil.rmtree(copy)
    for break_log, expected in FAULTS_OF_LOG:
        assert found(run.data, break_log(log)) == expected, break_log
    with_a_giant = check(
        run.data,
        log,
        web,
        EmbeddedStore().counts(DataDirectory(run.data)),
        delay_seconds=DELAY_SECONDS,
        forgiven=Forgiven(),
        largest_segment_bytes=MOST_SEGMENT_BYTES + 1,
    )
    assert with_a_giant.others == [f"a segment of {MOST_SEGMENT_BYTES + 1:,} bytes"]


#: Policies under which a site has no page to ask for, or another delay.
CLOSED = ("forbidden", "failing", "delay", "moved", "moved_far")


# Poison pages.


async def crawl_of(pages: dict[str, str], directory: Path, *flags: str, environment: dict[str, str]) -> dict[str, Any]:
    """One site with these pages, all of them linked from its home page; the summary of the crawl."""
    home = "".join(f'<p><a href="{path}">a page</a></p>' for path in pages)

    async def play(connection: Connection) -> None:
        text = {"/": home, **pages}.get(connection.target)
        body = f"<!doctype html><title>{connection.target}</title>{text}".encode()
        connection.respond(404 if text is None else 200, [("Content-Type", "text/html; charset=utf-8")], body)

    web = Web(sites=1, pages=1)
    async with SimulatedWeb(web, log_directory=directory / "web", hostile={"poison.test": play}) as serving:
        crawl = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gossamer", "crawl", "http://poison.test/", "--json"),
            *("--email=test@example.org", "--delay=0", f"--data-dir={directory / 'crawl'}"),
            *(f"--connect-to=http=127.0.0.1:{serving.http_port},https=127.0.0.1:{serving.https_port}", *flags),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | environment,
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                output, _ = await crawl.communicate()
        finally:
            if crawl.returncode is None:
                crawl.kill()
                await crawl.wait()
    assert crawl.returncode == 0
    summary: dict[str, Any] = json.loads(output)
    return summary


def assert_only_lost(summary: dict[str, Any], directory: Path, poison: set[str], good: set[str]) -> None:
    assert summary["stop_reason"] == "exhausted"
    assert summary["admitted"] == summary["finished"] == len(good) + len(poison) + 1
    assert summary["failures"] == {"parse-crash": len(poison)}
    assert sorted(page["url"] for page in pages_in(directory / "crawl")) == sorted(
        f"http://poison.test{path}" for path in {"/", *good}
    )


#: How many pages kill how many parsers: in `./check`, and where stores are named (`./check campaign`).
POISONED = [(1, 1), (4, 2)] if STORES_VARIABLE not in os.environ else [(1, 1), (10, 4)]


@pytest.mark.timeout(500)
@pytest.mark.parametrize(("poisoned", "parsers"), POISONED)
def test_pages_that_kill_the_parser_are_lost_and_nothing_else_is(
    tmp_path: Path, store: str, poisoned: int, parsers: int
) -> None:
    poison = {f"/poison-{number}": PARSER_CRASH for number in range(poisoned)}
    good = {f"/good-{number}": "<p>a paragraph of text</p>" for number in range(30)}
    # Mixed, so that a poison page has neighbours before and after it in its segment.
    mixed = dict(sorted((poison | good).items(), key=lambda page: page[0][::-1]))
    summary = asyncio.run(
        crawl_of(mixed, tmp_path, f"--store={store}", f"--num-parser-processes={parsers}", environment={})
    )
    assert_only_lost(summary, tmp_path, set(poison), set(good))
    # One death for each parser that had not yet heard of the others'.
    assert 1 <= summary["restarts"] <= parsers


#: No page is known that hangs the parser or eats all memory, so these words stand for one, in every process that reads
#: pages. Times are made short; memory is limited as ever.
DOUBLE = """
import resource
from gossamer.parse import record
from gossamer.run import watch

watch.HANG_CPU_SECONDS = 1.0
set_limit = resource.setrlimit
resource.setrlimit = lambda kind, limits: set_limit(kind, (3, 3) if kind == resource.RLIMIT_CPU else limits)
read_page = record.read_page

def read(received, *arguments, **named):
    while b"this page hangs" in received:
        pass
    if b"this page eats memory" in received:
        eaten = []
        while True:
            eaten.append(bytearray(16 << 20))
    return read_page(received, *arguments, **named)

record.read_page = read
"""


@pytest.mark.long
@pytest.mark.timeout(500)
def test_pages_that_hang_the_parser_or_eat_its_memory_are_lost_and_nothing_else_is(tmp_path: Path, store: str) -> None:
    (tmp_path / "double").mkdir()
    (tmp_path / "double" / "sitecustomize.py").write_text(DOUBLE)
    path = os.pathsep.join(filter(None, (str(tmp_path / "double"), os.environ.get("PYTHONPATH"))))
    poison = {"/hangs": "<p>this page hangs</p>", "/eats": "<p>this page eats memory</p>"}
    good = {f"/good-{number}": "<p>a paragraph of text</p>" for number in range(10)}
    summary = asyncio.run(
        crawl_of(
            good | poison,
            tmp_path,
            f"--store={store}",
            "--num-parser-processes=1",
            environment={"PYTHONPATH": path},
        )
    )
    assert_only_lost(summary, tmp_path, set(poison), set(good))
    # The one that hangs, unless the other was read first: then both are read where they can kill nothing else.
    assert summary["restarts"] <= 1
