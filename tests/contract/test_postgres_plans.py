"""How PostgreSQL carries out the statements of the store, in a large frontier: by their indexes, in one order."""

import asyncio
import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.postgres import PostgresStore
from gossamer.frontier.stores.postgres_pool import connect
from gossamer.frontier.stores.server import Connecting
from gossamer.records import Candidate, Destination, Finished, Move, Reason, Release, RobotsCopy, SiteClock
from gossamer.testing.servers import PostgresServer
from gossamer.url import stable_hash

CRAWL = "plans"
SLOTS = 64
#: So many that no plan is made for small tables. It is the same with a million, which take a minute to fill in.
ROWS = 200_000
#: Before any of them is due.
NOW = 0.9e9
LARGE = {"sites", "seen", "blocks", "held", "variants", "robots"}
#: Read as a whole wherever they are asked, because they stay small: a row per slot, per crawl, per kind of count, per
#: call whose leases are held, per transaction since the last fold.
SMALL = {"slots", "meta", "totals", "calls", "deltas"}
#: Asked when a run begins, a slot is taken, a segment was lost or a person looks for a URL: once for hours of work, and
#: then for all of a table.
RARE = {"clamp_clocks", "leased_in_slots", "look_held", "segments", "spooled"}

_FILL = """
INSERT INTO sites (key, due_at, not_before, not_before_lease, last_request_at, crawl_delay_seconds, lease, admitted,
    queued, head, tail, head_offset, tail_bytes, failures, slot, is_seeded, name)
SELECT n, CASE n % 10 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' ELSE 1e9 + n END, 1e9 + n, 0, 0, 0,
    CASE n % 10 WHEN 1 THEN n ELSE 0 END, 1, CASE n % 10 WHEN 0 THEN 0 ELSE 1 END, 1, 1, 0, 24, 0, n % 64, false,
    convert_to('site-' || n, 'UTF8')
FROM generate_series(1, {rows}) AS n;
INSERT INTO seen SELECT n, n FROM generate_series(1, {rows}) AS n;
INSERT INTO variants SELECT n, n, 1 FROM generate_series(1, {rows}) AS n;
INSERT INTO blocks SELECT n, 1, '\\x010000000000000000000000000000000000000000000061'
FROM generate_series(1, {rows}) AS n;
INSERT INTO held SELECT n, n, n % 64, false, CASE n % 2 WHEN 0 THEN 'segment-' || n / 64 END, 'x'
FROM generate_series(1, {rows}) AS n;
SELECT setval('numbers', {rows});
INSERT INTO robots SELECT n, 'x' FROM generate_series(1, {rows}) AS n;
"""


@pytest.fixture(scope="module")
def large(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a server with a frontier of `ROWS` of everything; the crawl is `CRAWL`."""

    async def fill() -> None:
        store = PostgresStore(connecting(postgres_server.url))
        await store.open()
        await store.close()
        connection = await asyncpg.connect(postgres_server.url)
        await connection.execute(f"SET search_path = gossamer_{CRAWL}; SET synchronous_commit = off")
        await connection.execute(_FILL.format(rows=ROWS))
        await connection.execute("ANALYZE")
        await connection.close()

    async def drop() -> None:
        connection = await asyncpg.connect(postgres_server.url)
        await connection.execute(f"DROP SCHEMA gossamer_{CRAWL} CASCADE")
        await connection.close()

    asyncio.run(fill())
    yield postgres_server.url
    asyncio.run(drop())


def connecting(url: str) -> Connecting:
    return Connecting(url=url, crawl=CRAWL, slots=SLOTS, may_create=True, patience_seconds=60)


async def plan_of(connection: Any, statement: str) -> dict[str, Any]:
    """The plan that is used for every value of its parameters."""
    number = max((int(found) for found in re.findall(r"\$(\d+)", re.sub("--.*", "", statement))), default=0)
    await connection.execute(f"PREPARE explained AS {statement}")
    values = f"({', '.join(['NULL'] * number)})" if number else ""
    (plan,) = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE explained{values}"))
    await connection.execute("DEALLOCATE explained")
    return dict(plan["Plan"])


def statements() -> dict[str, str]:
    files = resources.files("gossamer.frontier.stores").joinpath("postgres_sql").iterdir()
    return {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in files if file.name.endswith(".sql")}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


async def explained(url: str) -> dict[str, dict[str, Any]]:
    connection = await connect(url, f"gossamer_{CRAWL}")
    plans = {
        name: await plan_of(connection, statement)
        for name, statement in statements().items()
        if not re.sub("--.*", "", statement).lstrip().startswith("LOCK")
    }
    await connection.close()
    return plans


def assert_no_hot_statement_reads_a_large_table(large: str) -> None:
    plans = asyncio.run(explained(large))
    assert plans.keys() >= RARE
    wrong = {
        name: node["Relation Name"]
        for name, plan in plans.items()
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and not (name in RARE or node["Relation Name"] in SMALL)
    }
    assert wrong == {}
    read = {node["Relation Name"] for plan in plans.values() for node in nodes(plan) if "Relation Name" in node}
    assert read >= LARGE


def scans(plan: dict[str, Any]) -> list[str]:
    """What is read, from the outermost loop to the innermost."""
    return [node.get("Index Name", node["Node Type"]) for node in nodes(plan) if node["Node Type"].endswith("Scan")]


def assert_statements_lock_rows_in_the_order_of_their_keys(large: str) -> None:
    """Either they sort first, or they follow an array that the caller has sorted, row by row, or they look for an array
    of keys in the index, which does that in the order of the index."""
    plans = asyncio.run(explained(large))
    kinds = [node["Node Type"] for node in nodes(plans["lock_sites"])]
    assert kinds in (["LockRows", "Sort", "Index Scan"], ["LockRows", "Index Scan"])
    for name, index in (
        ("release", "sites_pkey"),
        ("spool", "held_pkey"),
        ("finish", "held_pkey"),
        ("return_leased", "held_pkey"),
        ("return_spooled", "held_pkey"),
    ):
        table = index.removesuffix("_pkey")
        (change,) = [
            node
            for node in nodes(plans[name])
            if (node["Node Type"], node.get("Relation Name")) == ("ModifyTable", table)
        ]
        assert scans(change) == (["Function Scan", index] if table == "sites" else [index]), name


def assert_no_verb_makes_the_server_read_a_large_table(large: str) -> None:
    """As the server itself counts it, with what is inside of functions."""

    async def whole_reads(connection: Any) -> dict[str, int]:
        # A session has told its counts when it has ended.
        while await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gossamer'"):  # noqa: ASYNC110 (the server tells nobody)
            await asyncio.sleep(0.01)
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        rows = await connection.fetch(
            "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = ANY ($2::text[])",
            f"gossamer_{CRAWL}",
            list(LARGE),
        )
        return dict(rows)

    async def run() -> None:
        connection = await asyncpg.connect(large)
        before = await whole_reads(connection)
        store = PostgresStore(connecting(large))
        await store.open()
        links = [
            Candidate(f"https://{n % 200}.test/{n}", f"{n % 200}.test", stable_hash(f"{n}"), path_fingerprint=7)
            for n in range(1_000)
        ]
        assert await store.admit(links, AdmitLimits(), now=0.0) == [Reason.NEW] * 1_000
        await store.admit(links, AdmitLimits(site_urls=1, path_variants=1), now=0.0)
        # Nothing is taken from anyone: whoever takes a slot reads all that is held.
        await connection.execute(f"UPDATE gossamer_{CRAWL}.slots SET owner = 'fetcher', epoch = 1")
        epochs = await store.own("fetcher", range(SLOTS), now=NOW, until=2 * NOW, delay_seconds=1)
        for max_pages in (0, ROWS):  # those of the test itself are due, the others are not
            given = await store.lease(f"{max_pages}", epochs, 100, now=NOW, delay_seconds=1, max_pages=max_pages)
            leases = given.leases
            assert len(leases) == 100
            await store.lease(f"{max_pages}", epochs, 100, now=NOW, delay_seconds=1, max_pages=max_pages)
            await store.release([Release(lease, True, NOW, SiteClock()) for lease in leases[10:]])
            await store.release([Release(lease, True, NOW, SiteClock(), Reason.DNS) for lease in leases[:10]])
            moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases[:50]]
            moves += [Move(lease, Destination.TAIL, Reason.DNS) for lease in leases[50:]]
            assert await store.spool("mine", moves) == set()
            await store.finish(
                [
                    Finished("mine", lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 1)
                    for lease in leases[:50]
                ]
            )
        await store.counts(now=NOW)
        await store.save_robots([RobotsCopy(origin="https://new.example", access="parsed")])
        await store.load_robots(["https://new.example", "https://other.example"])
        await store.now()
        await store.close()
        assert await whole_reads(connection) == before
        await connection.close()

    asyncio.run(run())


@pytest.mark.long
@pytest.mark.timeout(900)  # it is the number of rows that is limited, however slow the machine is
def test_large_tables_are_read_by_their_indexes_alone_and_locked_in_the_order_of_their_keys(large: str) -> None:
    """One test for all: to fill the tables takes seconds in every process that runs one."""
    assert_no_hot_statement_reads_a_large_table(large)
    assert_statements_lock_rows_in_the_order_of_their_keys(large)
    assert_no_verb_makes_the_server_read_a_large_table(large)
