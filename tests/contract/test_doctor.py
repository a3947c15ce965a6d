"""`gossamer doctor`, as a person types it: on real processes, real stores and made-up troubles."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from gossamer.cli.main import command_module, command_parser
from gossamer.config import FrontierSettings, Settings
from gossamer.frontier.stores import redis_examination
from gossamer.frontier.stores.examination import Finding, Verdict
from gossamer.look import doctor as doctor_module
from gossamer.look import processes as processes_module
from gossamer.look import status as status_module
from gossamer.look.doctor import Checkup, StoreSeen
from gossamer.look.problems import problems_of
from gossamer.look.processes import ProcessSeen
from gossamer.look.surroundings import Disk, Machine
from gossamer.report.descriptors import Descriptors
from gossamer.report.diagnosis import Diagnosis, read
from gossamer.report.objects import LargeObject, Objects
from gossamer.report.resources import started
from gossamer.report.sample import Bound
from gossamer.run.data_directory import DataDirectory, Frontier, Processes
from gossamer.run.stores import open_store, remove, store_endpoints
from gossamer.testing.servers import PostgresServer, RedisServer

#: Says `ready`, and then answers as a process of a crawl does; `silent` never does.
PROCESS = """
import json
import logging
import signal
import sys
from pathlib import Path

from gossamer.report.diagnosis import write
from gossamer.report.sample import Bound, Sample
import msgspec

data, name, way = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
log = open(data / "log" / f"{name}.log", "w")
page = ["\\x1b[2J\\u202e\\x07" + "hostile" * 300_000]
sample = Sample(at=1.0, elapsed_seconds=1.0, bound=Bound("politeness", "all 3 sites are cooling"))

def answer(*_):
    if way == "answers":
        write(
            data / "diagnosis" / f"{name}.json",
            process=name,
            store_endpoints=frozenset(),
            data=data,
            extra={"sample": msgspec.to_builtins(sample)},
        )

signal.signal(signal.SIGUSR1, signal.SIG_DFL if way == "deaf" else answer)
print("ready", flush=True)
sys.stdin.read()
"""


class Ran(NamedTuple):
    code: int
    out: str


Run = Callable[..., Ran]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Measures for a moment only, and has patience with a busy machine: it goes on as soon as everybody answered."""
    monkeypatch.setattr(processes_module, "MEASURED_SECONDS", 0.05)
    for module in (processes_module, doctor_module, status_module):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 60.0)

    def run(data: DataDirectory, *flags: str) -> Ran:
        code = command_module("doctor").run(command_parser("doctor").read([str(data.root), *flags]))
        return Ran(code, capsys.readouterr().out)

    return run


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """Of a crawl on the embedded store that has not begun to fetch."""
    return crawl_in(tmp_path / "crawl", Settings())


def crawl_in(root: Path, settings: Settings) -> DataDirectory:
    made = DataDirectory(root)
    made.create()
    made.write_settings(settings)
    made.log.mkdir()
    return made


def make_frontier(data: DataDirectory, settings: Settings) -> str:
    crawl = secrets.token_hex(6)

    async def make() -> None:
        store = open_store(data, settings, Frontier(crawl=crawl), is_leader=True)
        await store.open()
        try:
            await store.begin_run(latest_not_before_seconds=1.0)
        finally:
            await store.close()

    asyncio.run(make())
    data.record_frontier(Frontier(crawl=crawl, is_made=True))
    return crawl


class Family:
    """Processes that are recorded as a crawl's; the first leads."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, **ways: str) -> None:
        for name, way in ways.items():
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", PROCESS, self._data.root, name.replace("_", "-"), way],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        for process in self.processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        pids = [process.pid for process in self.processes.values()]
        recorded = Processes(leader=pids[0], started={pid: started(pid) or "" for pid in pids}, owners=[], run=7)
        (self._data.root / "processes.json").write_bytes(msgspec.json.encode(recorded))

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            with process:  # waits, and closes its pipes
                pass


@pytest.fixture
def family(data: DataDirectory) -> Iterator[Family]:
    made = Family(data)
    try:
        yield made
    finally:
        made.end()


def assert_readable(text: str) -> None:
    assert text.isascii()
    assert [line for line in text.splitlines() if not line.isprintable()] == []
    # Only what cannot be broken, such as the name of a directory, may be longer.
    assert [line for line in text.splitlines() if len(line) > 80 and " " in line.strip() and "/" not in line] == []


# --- processes that run -----------------------------------------------------------------------------------------------


def test_what_runs_is_asked_and_shown_in_eighty_columns_with_nothing_of_the_web_unescaped(
    data: DataDirectory, family: Family, doctor: Run
) -> None:
    make_frontier(data, Settings())
    family.start(leader="answers")
    first = doctor(data)
    assert first.code == 0
    leader = family.processes["leader"].pid
    assert f"is running, led by process {leader} (run 7)" in " ".join(first.out.split())
    assert "no problem was found" in first.out
    assert "bound by politeness\n  all 3 sites are cooling\n" in first.out
    assert "\\x1b[2J\\u202e\\x07hostile" in first.out
    assert "held by list of 1, in __main__.page" in " ".join(first.out.split())
    second = doctor(data, "--objects")
    assert "(there for " in second.out
    assert "since last" in second.out
    for ran in (first, second):
        assert_readable(ran.out)
    found = json.loads(doctor(data, "--json").out)
    assert [one["process"] for one in found["diagnoses"]] == ["leader"]
    assert found["processes"][0]["has_answered"]
    assert found["diagnoses"][0]["objects"]["known"] == []


def test_a_process_that_does_not_answer_is_named_with_what_it_does(
    data: DataDirectory, family: Family, doctor: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not asked here by anybody: a leader that is no leader passes nothing on."""
    monkeypatch.setattr(processes_module, "PATIENCE_SECONDS", 2.0)
    make_frontier(data, Settings())
    family.start(leader="answers", parser_0="silent", fetcher_1="silent")
    stopped = family.processes["fetcher_1"].pid
    os.kill(stopped, signal.SIGSTOP)
    os.waitid(os.P_PID, stopped, os.WSTOPPED)  # until the system has stopped it
    ran = doctor(data)
    os.kill(stopped, signal.SIGCONT)
    text = " ".join(ran.out.split())
    assert ran.code == 1
    assert f"parser-0 (process {family.processes['parser_0'].pid}) did not answer" in text
    assert f"fetcher-1 was stopped by a signal: kill -CONT {stopped} lets it go on" in text
    assert_readable(ran.out)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell who listens")
def test_a_leader_that_does_not_listen_is_not_killed_by_being_asked(
    data: DataDirectory, family: Family, doctor: Run
) -> None:
    make_frontier(data, Settings())
    family.start(leader="deaf")
    ran = doctor(data)
    assert ran.code == 1
    assert "just starting or ending" in " ".join(ran.out.split())
    assert family.processes["leader"].poll() is None


def test_a_crawl_without_its_leader_is_a_problem(data: DataDirectory, family: Family, doctor: Run) -> None:
    make_frontier(data, Settings())
    family.start(leader="answers", parser_0="silent")
    family.processes["leader"].kill()
    family.processes["leader"].wait()
    ran = doctor(data)
    assert ran.code == 1
    assert "the leader of the crawl is gone" in ran.out
    assert "parser-0" in ran.out


# --- what does not run ------------------------------------------------------------------------------------------------


def test_of_a_crawl_that_does_not_run_disk_memory_clock_and_store_are_shown(data: DataDirectory, doctor: Run) -> None:
    make_frontier(data, Settings())
    ran = doctor(data)
    assert ran.code == 0
    assert "was not begun" in ran.out
    for word in ("disk", "file system", "memory", "processors", "clock", "SQLite"):
        assert f"\n  {word} " in ran.out
    assert_readable(ran.out)
    found = json.loads(doctor(data, "--json").out)
    assert (found["is_running"], found["diagnoses"], found["processes"], found["bound"]) == (False, [], [], None)
    assert abs(found["store"]["ahead_seconds"]) < 60


def test_a_crawl_that_ended_without_a_page_is_a_problem_unless_seeds_are_left(data: DataDirectory, doctor: Run) -> None:
    make_frontier(data, Settings())
    gone = Processes(leader=os.getpid(), started={os.getpid(): "another time"}, owners=[], run=1)
    (data.root / "processes.json").write_bytes(msgspec.json.encode(gone))
    data.seeds.write_text("https://nosuch.example/\n")
    assert doctor(data).code == 0  # it was stopped before its seeds were admitted
    data.seeds.write_text("")
    ran = doctor(data)
    assert ran.code == 1
    assert "  ! the crawl ended without a page: no URL was admitted\n" in ran.out


def test_a_store_that_is_away_is_said_without_its_password_and_the_rest_is_shown(
    tmp_path: Path, doctor: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_examination, "PATIENCE_SECONDS", 0.2)
    settings = Settings(frontier=FrontierSettings(store="redis://:sekrit@127.0.0.1:1/0", store_patience_seconds=1.0))
    data = crawl_in(tmp_path / "crawl", settings)
    data.record_frontier(Frontier(crawl="a" * 12, is_made=True))
    ran = doctor(data)
    assert ran.code == 3
    assert "! the store is not available" in ran.out
    assert "\n  disk " in ran.out
    as_json = doctor(data, "--json")
    assert (as_json.code, json.loads(as_json.out)["disk"]["free_bytes"] > 0) == (3, True)
    assert "sekrit" not in ran.out + as_json.out


@pytest.fixture(params=["redis", "postgresql"])
def server(request: pytest.FixtureRequest) -> RedisServer | PostgresServer:
    found: RedisServer | PostgresServer = request.getfixturevalue(
        "redis_server" if request.param == "redis" else "postgres_server"
    )
    return found


@pytest.mark.servers
def test_a_server_is_examined_and_its_time_compared(
    tmp_path: Path, doctor: Run, server: RedisServer | PostgresServer
) -> None:
    settings = Settings(frontier=FrontierSettings(store=server.url))
    data = crawl_in(tmp_path / "crawl", settings)
    crawl = make_frontier(data, settings)
    try:
        ran = doctor(data)
        found = json.loads(doctor(data, "--json").out)
    finally:
        asyncio.run(remove(server.url, crawl))
    assert ran.code == 0
    assert_readable(ran.out)
    assert len(found["store"]["findings"]) > 5
    # Both clocks are this machine's, but the store's time never goes back, and other tests may have moved it.
    assert isinstance(found["store"]["ahead_seconds"], float)


@pytest.mark.servers
def test_connections_to_a_server_are_known_as_the_store_s(tmp_path: Path, server: RedisServer | PostgresServer) -> None:
    settings = Settings(frontier=FrontierSettings(store=server.url))
    data = crawl_in(tmp_path / "crawl", settings)

    async def look() -> Diagnosis | None:
        store = open_store(data, settings, Frontier(crawl=crawl), is_leader=True)
        await store.open()
        try:
            await store.now()
            write: Any = import_module("gossamer.report.diagnosis").write
            write(
                data.diagnosis / "me.json",
                process="me",
                store_endpoints=store_endpoints(server.url),
                data=data.root,
                extra={},
            )
            assert store.pool.created > 0
            created.append(store.pool.created)
        finally:
            await store.close()
        return read(data.diagnosis / "me.json")

    crawl, created = secrets.token_hex(6), list[int]()
    try:
        found = asyncio.run(look())
    finally:
        asyncio.run(remove(server.url, crawl))
    assert found is not None
    assert found.descriptors.states["store"]["ESTABLISHED"] == created[0]


# --- what is wrong ----------------------------------------------------------------------------------------------------

GB = 1_000_000_000
HEALTHY = Checkup(
    data_directory="/crawl",
    at=1000.0,
    is_running=True,
    leader=10,
    stragglers=0,
    run=1,
    bound=Bound("politeness", "all sites are cooling"),
    processes=[
        ProcessSeen(
            name="parser-0",
            pid=11,
            state="sleeping",
            cpu=0.5,
            memory_bytes=GB // 10,
            descriptors=40,
            descriptor_limit=1024,
            threads=2,
            has_answered=True,
        )
    ],
    refusal="",
    diagnoses=[Diagnosis(process="parser-0", pid=11, at=1000.0, last_at=940.0)],
    disk=Disk(
        total_bytes=500 * GB,
        free_bytes=200 * GB,
        files_free=900,
        files_total=1000,
        kind="ext4",
        mounted_at="/",
        is_in_memory=False,
        is_on_network=False,
        is_in_container=False,
    ),
    least_free_bytes=GB,
    machine=Machine(
        processors=2,
        load=0.5,
        memory_total_bytes=8 * GB,
        memory_available_bytes=4 * GB,
        swap_used_bytes=0,
        is_clock_kept=True,
    ),
    store=StoreSeen(url="sqlite", ahead_seconds=0.0, findings=[Finding("SQLite", "3.45")]),
)
replace = msgspec.structs.replace


def with_process(**changes: Any) -> Checkup:
    return replace(HEALTHY, processes=[replace(HEALTHY.processes[0], **changes)])


def with_diagnosis(**changes: Any) -> Checkup:
    return replace(HEALTHY, diagnoses=[replace(HEALTHY.diagnoses[0], **changes)])


def test_a_healthy_crawl_has_no_problem() -> None:
    assert problems_of(HEALTHY) == []


def test_a_crawl_that_runs_or_was_not_begun_is_not_blamed_for_having_no_page() -> None:
    young = replace(HEALTHY, store=StoreSeen(url="sqlite", no_pages={}))
    assert problems_of(young) == []
    assert problems_of(replace(young, is_running=False, leader=None)) == []


GROWN = LargeObject(
    type="list", bytes=90_000_000, since=1.0, was_there=True, grown_bytes=50_000_000, held_by="gossamer.x.Y.kept"
)


@pytest.mark.parametrize(
    ("checkup", "weight", "words"),
    [
        (with_process(descriptors=880), "wrong", "parser-0 holds 880 of 1,024 descriptors: raise `ulimit -n`"),
        (with_process(state="stopped"), "wrong", "kill -CONT 11"),
        (with_process(has_answered=False, cpu=1.0), "wrong", "computes all the time"),
        (with_process(has_answered=False, name=""), "wrong", "process 11 (process 11) did not answer"),
        (replace(HEALTHY, is_running=False, stragglers=2), "wrong", "gossamer resume /crawl"),
        (
            replace(
                HEALTHY, is_running=False, store=StoreSeen(url="sqlite", no_pages={"blocked-address": 1, "dns": 2})
            ),
            "wrong",
            "the crawl ended without a page: 1 blocked-address, 2 dns",
        ),
        (
            replace(HEALTHY, is_running=False, store=StoreSeen(url="sqlite", no_pages={})),
            "wrong",
            "the crawl ended without a page: no URL was admitted",
        ),
        (replace(HEALTHY, refusal="it has just ended"), "wrong", "it has just ended"),
        (replace(HEALTHY, bound=Bound("shortage", "no room for the log")), "wrong", "no room for the log"),
        (replace(HEALTHY, quarantined=2), "note", "2 segments of the spool could not be parsed"),
        (replace(HEALTHY, store=StoreSeen(url="redis://h", error="no answer")), "wrong", "no answer"),
        (
            replace(
                HEALTHY, store=StoreSeen(url="r", findings=[Finding("role", "replica", Verdict.REFUSED, "give x")])
            ),
            "wrong",
            "the store's role is replica: give x",
        ),
        (
            replace(HEALTHY, store=StoreSeen(url="r", findings=[Finding("fsync", "no", Verdict.ADVICE, "set it")])),
            "note",
            "the store's fsync is no: set it",
        ),
        (replace(HEALTHY, store=StoreSeen(url="r", ahead_seconds=-90.0)), "note", "90 s behind this machine's clock"),
        (replace(HEALTHY, disk=replace(HEALTHY.disk, free_bytes=GB // 2)), "wrong", "--min-free-bytes"),
        (replace(HEALTHY, disk=replace(HEALTHY.disk, free_bytes=3 * GB // 2)), "note", "the crawl pauses"),
        (replace(HEALTHY, disk=replace(HEALTHY.disk, files_free=1)), "wrong", "room for 1 more file:"),
        (replace(HEALTHY, disk=replace(HEALTHY.disk, is_on_network=True, kind="nfs4")), "wrong", "(nfs4)"),
        (replace(HEALTHY, disk=replace(HEALTHY.disk, is_in_memory=True, kind="tmpfs")), "note", "in memory (tmpfs)"),
        (replace(HEALTHY, disk=replace(HEALTHY.disk, is_in_container=True)), "note", "put it on a volume"),
        (
            replace(HEALTHY, machine=replace(HEALTHY.machine, memory_available_bytes=GB // 10)),
            "wrong",
            "of memory are left",
        ),
        (
            replace(HEALTHY, machine=replace(HEALTHY.machine, memory_limit_bytes=GB, memory_of_limit_bytes=GB - 1)),
            "wrong",
            "raise the limit",
        ),
        (replace(HEALTHY, machine=replace(HEALTHY.machine, is_clock_kept=False)), "note", "chrony"),
        (
            with_diagnosis(descriptors=Descriptors(states={"http": {"CLOSE_WAIT": 99}, "https": {"CLOSE_WAIT": 1}})),
            "note",
            "100 connections that the other side has closed",
        ),
        (with_diagnosis(limits={"data": (100, None)}, memory={"data_bytes": 90}), "note", "90 bytes of the 100 bytes"),
        (with_diagnosis(collector={"uncollectable": 1}), "note", "1 object that cannot be collected"),
        (with_diagnosis(extra={"numbers": {"loop_lag_own_ms_max": 1500}}), "note", "1.5 s late once"),
        (with_diagnosis(extra={"numbers": {"errors": 2}}), "wrong", "2 internal errors while it fetched: no site is"),
        (with_diagnosis(objects=Objects(largest=[GROWN])), "note", "60 s ago, held by gossamer.x.Y.kept"),
        (with_diagnosis(errors={"memory": "OSError: x"}), "note", "could not look at its memory: OSError: x"),
    ],
)
def test_each_trouble_is_one_sentence_that_says_what_to_do(checkup: Checkup, weight: str, words: str) -> None:
    (problem,) = problems_of(checkup)
    assert problem.weight == weight
    assert words in problem.text


def test_what_is_wrong_stands_before_what_is_only_to_be_known() -> None:
    both = replace(with_diagnosis(errors={"memory": "x"}), refusal="it has just ended")
    assert [problem.weight for problem in problems_of(both)] == ["wrong", "note"]
