"""What is found out about a PostgreSQL server, what of it is refused, and how a frontier is removed from it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace

from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores import postgres_examination
from gossamer.frontier.stores import server as server_module
from gossamer.frontier.stores.examination import Finding, Verdict
from gossamer.frontier.stores.postgres import PostgresStore
from gossamer.frontier.stores.postgres_examination import _access, examine, remove
from gossamer.frontier.stores.server import Connecting
from gossamer.records import Candidate
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import PostgresServer


def connecting(url: str) -> Connecting:
    return Connecting(
        url=url,
        crawl=f"t{secrets.token_hex(8)}",
        slots=4,
        may_create=True,
        created_by="host:/data/crawl",
        patience_seconds=60,
    )


async def open_and_close(given: Connecting) -> None:
    store = PostgresStore(given)
    try:
        await store.open()
    finally:
        await store.close()


def refusal(given: Connecting) -> str:
    with pytest.raises(GossamerError) as raised:
        asyncio.run(open_and_close(given))
    return f"{type(raised.value).__name__}: {raised.value}"


@asynccontextmanager
async def person_at(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_a_server_is_examined_and_what_is_on_it_of_ours_is_told(postgres_binary: ServerBinary) -> None:
    async def run(url: str) -> None:
        given = connecting(url)
        store = PostgresStore(given)
        await store.open()
        links = [Candidate(f"https://a.example/{number}", "a.example", number) for number in range(7)]
        await store.admit(links, AdmitLimits(), now=0.0)
        await store.close()
        found = by_name(await examine(url))
        assert found["version"].value.startswith(postgres_binary.version.split()[0])
        assert found["fsync"] == Finding("fsync", "off", Verdict.ADVICE, found["fsync"].advice)
        assert found["shared_buffers"].verdict is Verdict.ADVICE
        assert found["synchronous_commit"].verdict is Verdict.GOOD
        assert not [finding for finding in found.values() if finding.verdict is Verdict.REFUSED]
        told = found[f"crawl {given.crawl}"].value
        assert "host:/data/crawl" in told
        assert "7 URLs admitted, 0 finished" in told
        await remove(url, given.crawl)
        assert f"crawl {given.crawl}" not in by_name(await examine(url))
        with pytest.raises(UsageError, match="there is no frontier"):
            await remove(url, given.crawl)

    with PostgresServer(postgres_binary) as server:
        asyncio.run(run(server.url))


def test_a_durable_crawl_refuses_a_server_that_is_not_and_says_what_to_set(postgres_binary: ServerBinary) -> None:
    async def run(url: str) -> None:
        given = replace(connecting(url), is_durable=True, is_unsafe=True)
        store = PostgresStore(given)
        with pytest.raises(StoreUnavailable, match=r"cannot be used with --durable: fsync is off: .*set fsync = on"):
            await store.open()
        await store.close()

    with PostgresServer(postgres_binary) as server:
        asyncio.run(run(server.url))


def test_a_durable_crawl_syncs_its_commits_whatever_the_servers_default_is(postgres_binary: ServerBinary) -> None:
    async def run(url: str) -> None:
        store = PostgresStore(replace(connecting(url), is_durable=True))
        await store.open()
        assert await store._call("test", lambda link: link.fetchval("SHOW synchronous_commit")) == "on"
        await store.close()

    with PostgresServer(postgres_binary, {"fsync": "on", "synchronous_commit": "off"}) as server:
        asyncio.run(run(server.url))


def test_a_frontier_in_use_is_removed_and_its_user_told(postgres_server: PostgresServer) -> None:
    async def run() -> None:
        given = connecting(postgres_server.url)
        store = PostgresStore(given)
        await store.open()
        await store.counts(now=0)
        await remove(given.url, given.crawl)
        with pytest.raises(StoreUnavailable, match="something removed it"):
            await store.counts(now=0)
        await store.close()

    asyncio.run(run())


def test_a_removal_that_takes_longer_than_a_server_is_waited_for_is_not_given_up(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has answered, and is at work."""
    monkeypatch.setattr(postgres_examination, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(server_module, "_LEAST_ATTEMPT_SECONDS", 0.1)

    async def run() -> None:
        given = connecting(postgres_server.url)
        await open_and_close(given)
        async with person_at(given.url) as person:
            async with person.transaction():
                await person.execute(f"LOCK TABLE gossamer_{given.crawl}.sites")
                removing = asyncio.create_task(remove(given.url, given.crawl))
                done, _ = await asyncio.wait([removing], timeout=1.0)
                assert done == set()
            await removing
            assert await person.fetchval("SELECT to_regnamespace($1) IS NULL", f"gossamer_{given.crawl}")

    asyncio.run(run())


def test_what_was_half_removed_can_be_removed(postgres_server: PostgresServer) -> None:
    async def run() -> None:
        given = connecting(postgres_server.url)
        await open_and_close(given)
        async with person_at(given.url) as person:
            await person.execute(f"DROP TABLE gossamer_{given.crawl}.meta")
        assert by_name(await examine(given.url))[f"crawl {given.crawl}"].verdict is Verdict.ADVICE
        with pytest.raises(StoreUnavailable, match="something removed it"):
            await open_and_close(replace(given, may_create=False))
        await remove(given.url, given.crawl)

    asyncio.run(run())


def test_settings_that_would_lose_urls_are_refused_unless_told_otherwise(postgres_server: PostgresServer) -> None:
    name = f"lax{secrets.token_hex(4)}"
    given = connecting(postgres_server.url.replace("//gossamer@", f"//{name}@"))

    async def prepare(person: Any) -> None:
        await person.execute(f"CREATE ROLE {name} LOGIN; ALTER ROLE {name} SET synchronous_commit = off")

    asyncio.run(with_person(postgres_server, prepare))
    said = refusal(given)
    assert said.startswith("StoreUnavailable")
    assert f'ALTER ROLE "{name}" SET synchronous_commit = on' in said
    # Both that is wrong is told at once.
    assert f'GRANT CREATE ON DATABASE "postgres" TO "{name}"' in said

    async def allow(person: Any) -> None:
        await person.execute(f'GRANT CREATE ON DATABASE "postgres" TO "{name}"')

    asyncio.run(with_person(postgres_server, allow))
    asyncio.run(open_and_close(replace(given, is_unsafe=True)))
    # Once it is there, nobody needs that right any more.
    asyncio.run(with_person(postgres_server, lambda person: person.execute(
        f'REVOKE CREATE ON DATABASE "postgres" FROM "{name}"; ALTER ROLE {name} RESET synchronous_commit'
    )))  # fmt: skip
    asyncio.run(open_and_close(replace(given, may_create=False)))
    asyncio.run(remove(given.url, given.crawl))
    asyncio.run(with_person(postgres_server, lambda person: person.execute(f"DROP ROLE {name}")))


async def with_person(server: PostgresServer, work: Callable[[Any], Any]) -> None:
    async with person_at(server.url) as person:
        await work(person)


def test_a_database_in_another_encoding_is_refused(postgres_server: PostgresServer) -> None:
    name = f"ascii{secrets.token_hex(4)}"
    asyncio.run(with_person(postgres_server, lambda person: person.execute(
        f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )))  # fmt: skip
    assert "ENCODING 'UTF8'" in refusal(connecting(postgres_server.url.replace("/postgres", f"/{name}")))
    asyncio.run(with_person(postgres_server, lambda person: person.execute(f"DROP DATABASE {name} WITH (FORCE)")))


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("postgresql://127.0.0.1/x", Verdict.GOOD),
        ("postgresql://u@localhost:5433/x", Verdict.GOOD),
        ("postgresql://u@[::1]:5433/x", Verdict.GOOD),
        ("postgresql:///x?host=/var/run/postgresql", Verdict.GOOD),
        ("postgresql://u:p@db.example/x", Verdict.GOOD),
        ("postgresql://u@db.example/x?sslcert=/c&sslkey=/k", Verdict.GOOD),
        ("postgresql://u@db.example/x", Verdict.REFUSED),
        ("postgresql://u@127.0.0.1,db.example:5433/x", Verdict.REFUSED),
        ("postgresql://u@192.0.2.1:5432/x", Verdict.REFUSED),
        ("postgresql://u@[2001:db8::1]/x", Verdict.REFUSED),
    ],
)
def test_who_comes_from_elsewhere_brings_a_password_or_a_certificate(
    url: str, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPASSWORD", "PGPASSFILE", "PGSSLCERT", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    assert _access(url).verdict is verdict


def test_a_wrong_password_and_a_missing_database_are_told_at_once_and_no_password_is_shown(
    postgres_binary: ServerBinary,
) -> None:
    with PostgresServer(postgres_binary) as server:

        async def demand_passwords(person: Any) -> None:
            await person.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
            (server.directory / "data" / "pg_hba.conf").write_text(
                "host all gossamer 127.0.0.1/32 trust\nhost all guest 127.0.0.1/32 scram-sha-256\n"
            )
            await person.execute("SELECT pg_reload_conf()")

        asyncio.run(with_person(server, demand_passwords))
        at = f"127.0.0.1:{server.port}"
        said = refusal(connecting(f"postgresql://guest:wrong-secret@{at}/postgres"))
        assert "password is not accepted" in said
        assert "wrong-secret" not in said
        said = refusal(connecting(f"postgresql://guest@{at}/postgres?password=wrong-secret"))
        assert "password is not accepted" in said
        assert "wrong-secret" not in said
        assert "pg_hba.conf" in refusal(connecting(f"postgresql://nobody@{at}/postgres"))
        assert "no such database" in refusal(connecting(f"postgresql://gossamer@{at}/absent"))
        missing = replace(connecting(f"postgresql://gossamer@{at}/absent"), may_create=False)
        assert "something removed it" in refusal(missing)


def test_a_url_that_is_none_is_told_without_the_password_in_it() -> None:
    for url in (
        "postgresql://u:sec/ret@127.0.0.1/x",
        "postgresql://u:sec#ret@127.0.0.1/x",
        "postgresql://u:sec@127.0.0.1:99999/x",
    ):
        said = refusal(connecting(url))
        assert said.startswith("UsageError")
        assert "sec" not in said


def test_what_is_no_postgresql_is_told_at_once() -> None:
    async def run() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"-ERR unknown command\r\n")
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(answer, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(StoreUnavailable, match="no PostgreSQL"):
                await open_and_close(connecting(f"postgresql://u@127.0.0.1:{port}/x"))

    asyncio.run(run())


def test_a_server_that_is_not_there_is_waited_for_as_long_as_was_said(postgres_server: PostgresServer) -> None:
    nobody = postgres_server.url.replace(str(postgres_server.port), "1")
    assert "does not answer" in refusal(replace(connecting(nobody), patience_seconds=0.3))
