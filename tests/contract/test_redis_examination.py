"""What is found out about a Redis server, what is refused, and how a crawl is removed from it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.stores.examination import Finding, Verdict
from gossamer.frontier.stores.redis import RedisStore
from gossamer.frontier.stores.redis_examination import examine, remove, settings_of
from gossamer.frontier.stores.redis_server import RedisServer as Connected
from gossamer.records import RobotsCopy
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import RedisServer
from tests.contract.redis_stores import (
    LATE,
    NO_LIMITS,
    client,
    lease,
    link,
    make,
    moved,
    with_store,
    work_off,
)


@pytest.fixture
def server(redis_binary: ServerBinary) -> Iterator[RedisServer]:
    """One of its own, which a test may stop, fill and empty."""
    with RedisServer(redis_binary, {"enable-debug-command": "local"}) as running:
        yield running


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_a_server_as_it_should_be_is_found_good(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(1), link(2)], NO_LIMITS, now=0.0)
        await work_off(store, await lease(store, LATE))
        with client(server) as admin:
            admin.config_set("maxmemory", 100 << 20)
            admin.config_set("appendfsync", "always")
        findings = by_name(await examine(server.url))
        assert [name for name, finding in findings.items() if finding.verdict is not Verdict.GOOD] == []
        assert findings["server"].value == f"{server.binary.product} {server.version}"
        assert findings["crawl abc"].value == "2 URLs admitted, 1 finished, made by host:/data"

    with_store(make(server, tmp_path, created_by="host:/data"), work)


def test_a_server_that_would_lose_urls_is_refused_with_all_that_is_to_be_changed(
    redis_binary: ServerBinary, tmp_path: Path
) -> None:
    settings = {"appendonly": "no", "maxmemory-policy": "allkeys-lru", "set-max-intset-entries": "100"}

    async def nothing(_: RedisStore) -> None: ...

    with RedisServer(redis_binary, settings) as server:
        with pytest.raises(StoreUnavailable, match=r"maxmemory-policy noeviction.*appendonly yes.*--unsafe-store"):
            with_store(make(server, tmp_path), nothing)
        with_store(make(server, tmp_path, is_unsafe=True), nothing)
        findings = by_name(asyncio.run(examine(server.url)))
        assert findings["set-max-intset-entries"].verdict is Verdict.ADVICE
        assert findings["maxmemory"].verdict is Verdict.ADVICE
        assert findings["appendfsync"].verdict is Verdict.ADVICE


def test_a_durable_crawl_refuses_a_server_that_is_not_and_says_what_to_set(
    redis_binary: ServerBinary, tmp_path: Path
) -> None:
    async def nothing(_: RedisStore) -> None: ...

    def opened(*, is_unsafe: bool = False) -> None:
        with_store(make(running, tmp_path, is_durable=True, is_unsafe=is_unsafe), nothing)

    with RedisServer(redis_binary, {"no-appendfsync-on-rewrite": "yes"}) as running, client(running) as admin:
        with pytest.raises(
            StoreUnavailable,
            match=r"cannot be used with --durable: appendfsync is everysec: .*set appendfsync always"
            r".*no-appendfsync-on-rewrite is yes: set it to no",
        ):
            opened()
        admin.config_set("appendfsync", "always")
        with pytest.raises(StoreUnavailable, match="no-appendfsync-on-rewrite is yes"):
            opened(is_unsafe=True)
        admin.config_set("no-appendfsync-on-rewrite", "no")
        opened()
        admin.config_set("appendfsync", "everysec")
        with_store(make(running, tmp_path), nothing)


def test_a_server_for_other_machines_is_refused_without_a_password(server: RedisServer) -> None:
    async def password(url: str) -> Finding:
        connected = Connected(url, "", pool=1, client_name="x")
        connected.address.host = "192.0.2.1"
        findings = by_name(await settings_of(connected, patience_seconds=60.0))
        await connected.close()
        return findings["password"]

    assert asyncio.run(password(server.url)).verdict is Verdict.REFUSED
    with client(server) as admin:
        admin.config_set("requirepass", "secret")
        found = asyncio.run(password(server.url.replace("//", "//:secret@")))
        admin.config_set("requirepass", "")
    assert found.verdict is Verdict.GOOD


def test_settings_that_a_user_may_not_see_are_said_to_be_so(server: RedisServer) -> None:
    with client(server) as admin:
        admin.acl_setuser("crawler", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-config"])
    findings = by_name(asyncio.run(examine(server.url.replace("//", "//crawler:pw@"))))
    for name in ("appendfsync", "set-max-intset-entries"):
        assert (findings[name].value, findings[name].verdict) == ("not visible", Verdict.ADVICE)
    assert findings["appendonly"].verdict is Verdict.GOOD


def test_a_replica_is_refused(redis_binary: ServerBinary, server: RedisServer, tmp_path: Path) -> None:
    async def nothing(_: RedisStore) -> None: ...

    with (
        RedisServer(redis_binary, {"replicaof": f"127.0.0.1 {server.port}"}) as replica,
        pytest.raises(StoreUnavailable, match="address of its primary"),
    ):
        with_store(make(replica, tmp_path), nothing)


def test_removing_a_crawl_takes_all_of_it_and_nothing_of_others(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        other = make(server, tmp_path / "other", crawl="abcd")
        await other.open()
        for handle in (store, other):
            await handle.admit([link(number, f"{number % 50}.example") for number in range(2_000)], NO_LIMITS, now=0.0)
            await handle.save_robots([RobotsCopy(origin="https://a.example", access="x")])
        await lease(store, LATE, 5)
        await moved(store)
        with client(server) as admin:
            admin.set("somebody:else", "s")
            await remove(server.url, "abc")
            left = list(admin.scan_iter("*abc*", 1000))
            assert left
            assert all(b"abcd" in key for key in left)
            assert admin.hkeys("gossamer:crawls") == [b"abcd"]
            assert admin.get("somebody:else") == b"s"
        with pytest.raises(StoreUnavailable, match="crawl abc is not on"):
            await store.counts(now=LATE)
        assert (await other.counts(now=LATE)).admitted == 2_000
        with pytest.raises(UsageError, match="no crawl abc"):
            await remove(server.url, "abc")
        await other.close()

    with_store(make(server, tmp_path), work)
