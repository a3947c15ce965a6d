"""The faults of the system that this one replaces: each has a test that fails if it comes back.

Where a test elsewhere guards against one already, `GUARDS` says which; the others follow.
"""

import ast
import asyncio
import contextlib
import gc
import itertools
import socket
import sqlite3
import struct
import tomllib
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import gossamer
from gossamer.config import FetchSettings, ScopeSettings, Settings
from gossamer.fetch.client import Client, Failure
from gossamer.frontier.admission import AdmissionRules, parse_exclusions
from gossamer.frontier.slots import slot_of
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.records import Answer, Candidate, Destination, Finished, Move, Outcome, Reason, Release
from gossamer.report.resources import own_usage
from gossamer.testing.stores.suite import checks
from gossamer.url import Url, canonicalise

ROOT = Path(__file__).parents[2]
SOURCE = Path(gossamer.__file__).parent
LIMITS = AdmissionRules(ScopeSettings(), parse_exclusions("", "")).limits

#: From what went wrong to the tests that would notice. `suite:` names a check that every store has to pass.
GUARDS = {
    "the counter behind max_pages was never incremented": [
        "tests/crawl/test_stopping.py::test_max_pages_is_exact",
        "suite:the_page_budget_is_exact",
    ],
    "a new link reset a cooling domain's clock": [
        "suite:admitting_a_link_never_wakes_a_cooling_site",
        "suite:nothing_moves_not_before_earlier",
    ],
    "a domain was popped, awaited on and pushed back, so a cancelled worker lost it": [
        "tests/contract/test_fetcher.py::test_a_drain_in_mid_flight_loses_no_url_and_opens_no_gap",
        "suite:a_lost_reply_to_a_live_holder_costs_nothing",
    ],
    "a domain that was not ready was popped to look at it; a kill in between lost it": [
        "suite:a_lost_lease_reply_of_a_holder_that_died_comes_back_with_its_slot",
        "tests/contract/test_fetcher.py::test_the_next_owner_of_the_slots_goes_on_after_a_death_without_a_short_gap",
    ],
    "URLs were popped with no lease": [
        "suite:a_dead_holder_costs_a_delay_never_a_url_and_never_a_gap",
        "tests/crawl/test_deaths.py::test_a_killed_process_is_replaced_and_nothing_is_lost",
    ],
    "url|depth was split on a character that URLs contain": [
        "suite:urls_are_opaque",
        "suite:names_of_sites_are_opaque",
    ],
    "truncate padded short files with NULs": [
        "tests/contract/test_commit.py::test_an_open_file_that_is_too_short_is_refused_and_never_padded",
        "tests/unit/test_spool.py::test_an_open_segment_that_is_shorter_than_its_name_says_is_never_padded",
    ],
    "a robots.txt that failed meant allow all": [
        "tests/unit/test_robots_cache.py::test_a_failing_file_forbids_everything_and_is_asked_for_later_and_later",
        "tests/contract/test_fetcher.py::test_an_origin_without_robots_txt_is_given_up_and_its_pages_never_asked_for",
    ],
    "--parser-workers was parsed and ignored": [
        "tests/contract/test_parser.py::test_however_few_pages_are_read_ahead_all_of_a_segment_is_done",
        "tests/unit/test_old_faults.py::test_every_setting_is_read_by_somebody",
    ],
    "pickles went through a queue": ["tests/unit/test_architecture.py::test_nothing_unsafe_is_used"],
    "hash() differed between processes, so two fetchers shared a domain": [
        "tests/unit/test_url.py::test_hashes_do_not_depend_on_the_hash_seed",
        "tests/unit/test_url.py::test_fingerprints_and_slots_have_golden_values",
        "tests/unit/test_old_faults.py::test_nothing_depends_on_the_hash_of_one_process",
    ],
    "a cancelled call left its connection with somebody else's reply": [
        "tests/contract/test_sqlite_store.py::test_a_cancelled_caller_leaves_the_thread_at_work",
        "tests/contract/test_redis_connections.py::test_a_cancelled_call_gives_its_reply_to_nobody",
        "tests/contract/test_postgres_pool.py::test_cancelled_calls_leave_the_pool_whole_and_cross_no_replies",
    ],
    "the connection pool grew without bound": [
        "tests/contract/test_redis_connections.py::test_a_pool_never_has_more_connections_than_it_may_and_calls_wait_for_one",
        "tests/contract/test_postgres_pool.py::test_no_more_connections_than_the_pool_may_have_however_many_calls",
    ],
    "a claim query without a partial index read two million rows": [
        "tests/contract/test_postgres_plans.py::test_large_tables_are_read_by_their_indexes_alone_and_locked_in_the_order_of_their_keys",
    ],
    "Redis was open to others without a password": [
        "tests/contract/test_redis_examination.py::test_a_server_for_other_machines_is_refused_without_a_password",
    ],
    "a store that is busy or starting ended the crawl": [
        "tests/contract/test_sqlite_store.py::test_a_file_that_another_process_never_gives_free_is_unavailable",
        "tests/contract/test_sqlite_store.py::test_a_full_disk_changes_nothing_and_is_over_when_there_is_room",
    ],
    "unclosed clients hung the test run": [
        "tests/contract/test_client.py::test_leaving_the_client_ends_what_is_open",
        "tests/contract/test_client.py::test_a_request_that_is_cancelled_leaves_nothing_open",
        "tests/contract/test_names.py::test_closing_leaves_no_question_no_descriptor_and_no_thread",
        "tests/contract/test_sqlite_store.py::test_closing_ends_the_thread_and_nothing_can_be_asked_after_it",
        "tests/unit/test_old_faults.py::test_what_is_left_open_fails_the_tests_and_none_can_hang",
    ],
    "redirects were followed blindly": [
        "tests/crawl/test_scope.py::test_redirects_respect_the_robots_and_the_delay_of_each_hop",
    ],
    "what a queue held was trusted to be ours": ["tests/unit/test_spool.py::test_random_bytes_are_a_damaged_segment"],
}


@pytest.mark.parametrize(("fault", "guards"), GUARDS.items(), ids=GUARDS)
def test_the_guards_of_an_old_fault_exist(fault: str, guards: list[str]) -> None:
    in_suite = {check.__name__.removeprefix("test_") for check in checks()}
    for guard in guards:
        kind, _, check = guard.partition(":")
        if kind == "suite":
            assert check in in_suite, fault
            continue
        file, _, name = guard.partition("::")
        functions = [
            node.name for node in ast.parse((ROOT / file).read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
        ]
        assert functions.count(name) == 1, f"{fault}: {guard}"


# Settings and names.


def test_every_setting_is_read_by_somebody() -> None:
    fields = {
        field.name for section in msgspec.structs.fields(Settings) for field in msgspec.structs.fields(section.type)
    }
    read = {
        node.attr
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert fields - read == set()


def test_nothing_depends_on_the_hash_of_one_process() -> None:
    calls = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash"
    ]
    assert calls == []


def test_every_combination_of_connection_settings_makes_a_client() -> None:
    """Two options of a connector that excluded one another ended the crawl when it started."""
    combinations = list(
        itertools.product(
            (False, True),
            (False, True),
            ("", "127.0.0.1:53"),
            ("", "127.0.0.1:80", "https=[::1]:443", "http=127.0.0.1:80,https=127.0.0.1:443"),
            (0.01, 600.0),
        )
    )

    async def make(verify: bool, private: bool, resolver: str, connect_to: str, seconds: float) -> None:
        settings = FetchSettings(
            verify_tls=verify,
            allow_private_addresses=private,
            resolver=resolver,
            connect_to=connect_to,
            fetch_timeout_seconds=seconds,
            connect_timeout_seconds=seconds,
            tls_timeout_seconds=seconds,
            header_timeout_seconds=seconds,
        )
        async with Client(settings, user_agent="Gossamer/0"):
            pass

    async def make_all() -> int:
        for combination in combinations:
            await make(*combination)
        return len(combinations)

    assert asyncio.run(make_all()) == 64


# What goes wrong with a page.


def url(text: str) -> Url:
    found = canonicalise(text)
    assert isinstance(found, Url)
    return found


def test_a_failed_connection_is_a_reason_and_never_an_invented_status() -> None:
    """Nobody listens on the port of a socket that is bound and does not listen."""

    async def get() -> Answer | Failure:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            settings = FetchSettings(allow_private_addresses=True)
            async with Client(settings, user_agent="Gossamer/0") as client:
                return await client.get(url(f"http://127.0.0.1:{silent.getsockname()[1]}/"), max_body_bytes=1)

    failure = asyncio.run(get())
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.CONNECT
    assert "status" not in Failure.__struct_fields__
    assert "status" not in Outcome.__struct_fields__
    answer = next(field for field in msgspec.structs.fields(Outcome) if field.name == "answer")
    assert (answer.default, type(None) in get_args(answer.type)) == (None, True)


BODY_BYTES = 1 << 20
FAILURES = 60


@contextlib.asynccontextmanager
async def breaking_server() -> AsyncIterator[int]:
    """Sends most of a large page, then resets the connection."""

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % (2 * BODY_BYTES))
            writer.write(b"x" * BODY_BYTES)
            await writer.drain()
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def test_no_traceback_keeps_the_bodies_of_broken_pages_alive() -> None:
    async def fetch_all() -> int:
        async with (
            breaking_server() as port,
            Client(FetchSettings(allow_private_addresses=True), user_agent="Gossamer/0") as client,
        ):
            target = url(f"http://127.0.0.1:{port}/")
            await client.get(target, max_body_bytes=4 * BODY_BYTES)  # whatever is made once is made now
            gc.collect()
            tracemalloc.start()
            try:
                kept = [
                    result.reason if isinstance(result, Failure) else result.truncated
                    for _ in range(FAILURES)
                    for result in [await client.get(target, max_body_bytes=4 * BODY_BYTES)]
                ]
                gc.collect()
                grown, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert set(kept) <= {Reason.RESET, "disconnect"}
        return grown

    # One body may still be in the last answer; sixty would be sixty times as much.
    assert asyncio.run(fetch_all()) < 4 * BODY_BYTES


# The embedded store.


def candidate(number: int) -> Candidate:
    found = url(f"http://s{number % 50}.example/{number}")
    return Candidate(found.text, found.site, found.fingerprint)


def test_a_thousand_calls_at_once_use_one_connection(tmp_path: Path) -> None:
    """A connection for each operation ran out of descriptors, and then everything failed."""

    async def call() -> list[int]:
        store = SqliteStore(tmp_path / "frontier.db", 8)
        await store.open()
        try:
            await store.begin_run(latest_not_before_seconds=1.0)
            await store.admit([candidate(0)], LIMITS, now=0.0)
            counts = [own_usage().descriptors]
            calls = [
                asyncio.ensure_future(store.admit([candidate(number)], LIMITS, now=0.0)) for number in range(1_000)
            ]
            while not all(one.done() for one in calls):
                counts.append(own_usage().descriptors)
                await asyncio.sleep(0.002)
            assert (await store.counts(now=await store.now())).admitted == 1_000
            return counts
        finally:
            await store.close()

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not say which descriptors a process has")
    first, *later = asyncio.run(call())
    assert later
    assert max(later) <= first


#: Read by a search in an index, whatever is asked of them: they grow with the crawl. The others have a row for each
#: slot, count or open call.
LARGE_TABLES = {"sites", "seen", "blocks", "robots"}


def test_no_verb_of_the_store_reads_a_large_table_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim without its partial index took seconds on two million rows."""
    statements: set[str] = set()
    connect = sqlite3.connect

    def traced(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(statements.add)
        return connection

    monkeypatch.setattr("gossamer.frontier.stores.sqlite.sqlite3.connect", traced)
    file = tmp_path / "frontier.db"

    async def use() -> None:
        store = SqliteStore(file, 8)
        await store.open()
        try:
            await store.begin_run(latest_not_before_seconds=1.0)
            statements.clear()  # what is done once a run may look at everything
            await store.admit([candidate(number) for number in range(500)], LIMITS, now=0.0)
            now = await store.now()
            held = await store.own("me", range(8), now=now, until=now + 60, delay_seconds=0.0)
            leased = await store.lease("1", held, 20, now=now, delay_seconds=0.0, max_pages=0)
            leases = leased.leases
            await store.spool("a", [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases])
            await store.release([Release(lease, True, now, lease.clock) for lease in leases])
            await store.finish(
                [
                    Finished("a", lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 1)
                    for lease in leases
                ]
            )
            await store.unspool("a")
            await store.counts(now=now)
            await store.load_robots(["http://s1.example"])
            await store.disown("me")
        finally:
            await store.close()

    asyncio.run(use())
    scanned = []
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            if statement.split(maxsplit=1)[0].upper() not in {
                "SELECT",
                "UPDATE",
                "DELETE",
                "INSERT",
                "REPLACE",
                "WITH",
            }:
                continue
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}"):
                if step.startswith("SCAN ") and step.split()[1] in LARGE_TABLES:
                    scanned.append(f"{step}: {statement:.300}")
    assert len(statements) > 20
    assert scanned == []


def test_of_a_url_that_is_finished_numbers_are_kept_and_not_its_text(tmp_path: Path) -> None:
    """What was visited took three quarters of the memory, as whole URLs."""
    long_name = "x" * 200

    async def admit_and_finish() -> None:
        store = SqliteStore(tmp_path / "frontier.db", 8)
        await store.open()
        try:
            await store.begin_run(latest_not_before_seconds=1.0)
            found = [url(f"http://s{number}.example/{long_name}{number}") for number in range(2_000)]
            await store.admit([Candidate(one.text, one.site, one.fingerprint) for one in found], LIMITS, now=0.0)
            now = await store.now()
            held = await store.own("me", range(8), now=now, until=now + 60, delay_seconds=0.0)
            leases = (await store.lease("1", held, 2_000, now=now, delay_seconds=0.0, max_pages=0)).leases
            assert len(leases) == 2_000
            await store.spool("a", [Move(lease, Destination.OUTCOME, Reason.STATUS) for lease in leases])
            await store.release([Release(lease, True, now, lease.clock) for lease in leases])
            await store.finish(
                [
                    Finished("a", lease.number, slot_of(lease.site, 8), lease.site, lease.fingerprint, Reason.STATUS, 1)
                    for lease in leases
                ]
            )
        finally:
            await store.close()

    asyncio.run(admit_and_finish())
    with contextlib.closing(sqlite3.connect(tmp_path / "frontier.db")) as connection:
        kept = [
            value
            for table in ("sites", "seen", "blocks", "held", "calls")
            for row in connection.execute(f"SELECT * FROM {table}")
            for value in row
        ]
    assert [value for value in kept if isinstance(value, str | bytes) and long_name[:50] in str(value)] == []


# The tests themselves.


def test_what_is_left_open_fails_the_tests_and_none_can_hang() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    assert options["filterwarnings"] == ["error"]
    assert 0 < options["timeout"] <= 600
