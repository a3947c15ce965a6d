"""Whether a PostgreSQL server is fit for a crawl: what `gossamer store check` shows, and what the store looks at when
it opens. And what is on it of ours, and how that is removed."""

import os
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]

from gossamer.errors import UsageError
from gossamer.frontier.stores.examination import Finding, Verdict
from gossamer.frontier.stores.postgres_errors import ERRORS, judge_of
from gossamer.frontier.stores.postgres_pool import Connection, connect, show
from gossamer.frontier.stores.postgres_schema import PREFIX, schema_of
from gossamer.frontier.stores.server import Calls
from gossamer.units import counted

OLDEST = 150_000
#: Findings that say whether what was acknowledged survives a power loss.
DURABILITY = frozenset({"synchronous_commit", "fsync", "full_page_writes"})
#: How long a server that does not answer is waited for by somebody who sits before it.
_PATIENCE_SECONDS = 5.0
#: Removing the tables of a large frontier, and counting what is in them.
_LONG_SECONDS = 600.0
#: Connections that a crawl of a dozen processes takes, 4 each, twice over. The default of the server is 100.
_CONNECTIONS = 100
_SHARED_BUFFERS_BYTES = 512 << 20
_WAL_BYTES = 4 << 30
_TABLES = ("meta", "held", "calls", "deltas", "totals", "slots", "robots", "variants", "blocks", "seen", "sites")

T = TypeVar("T")

_FACTS = """
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS number,
    current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum') AS autovacuum,
    current_setting('max_connections')::integer AS max_connections,
    (SELECT count(*)::integer FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers,
    pg_size_bytes(current_setting('max_wal_size')) AS max_wal_size,
    pg_is_in_recovery() AS is_standby, current_user::text AS person, current_database()::text AS database,
    has_database_privilege(current_database(), 'CREATE') AS may_create,
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS has_tls
"""


async def examine(url: str) -> list[Finding]:
    """Everything that is known of a server, for `gossamer store check`. Raises StoreUnavailable if it is not there."""

    async def look(connection: Connection) -> list[Finding]:
        return [*await findings(connection, url, None), *await _crawls(connection)]

    return await _with_connection(url, PREFIX, look)


async def remove(url: str, crawl: str) -> None:
    """A crawl's frontier is gone from the server: a table at a time, so that nobody else waits long."""
    schema = schema_of(crawl)

    async def drop(connection: Connection) -> None:
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", f'"{schema}"'):
            raise UsageError(f"there is no frontier of crawl {crawl} on {show(url)}: see `gossamer store check`")
        # `meta` first: whoever still uses it is told that it is gone, and none of it looks whole from here on.
        for table in _TABLES:
            await connection.execute(f'DROP TABLE IF EXISTS "{schema}"."{table}" CASCADE')
        await connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

    await _with_connection(url, schema, drop)


async def _with_connection(url: str, search_path: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    async def once() -> T:
        connection = await connect(url, search_path, limit_seconds=_LONG_SECONDS)
        try:
            return await work(connection)
        finally:
            connection.terminate()

    calls = Calls(show(url), ERRORS, judge_of(show(url), None))
    # To connect has a time limit of its own; what is done then may take long in a large frontier.
    return await calls.make("store check", once, patience_seconds=_PATIENCE_SECONDS, attempt_seconds=_LONG_SECONDS)


async def findings(connection: Connection, url: str, schema: str | None) -> list[Finding]:
    """What matters to a frontier; to that of one schema, if it is there already."""
    facts = await connection.fetchrow(_FACTS)
    has_schema = schema is not None and await connection.fetchval(
        "SELECT to_regnamespace($1) IS NOT NULL", f'"{schema}"'
    )
    return [
        _judged("version", facts["version"], facts["number"] >= OLDEST, Verdict.REFUSED, "use PostgreSQL 15 or newer"),
        _judged(
            "server_encoding", facts["encoding"], facts["encoding"] == "UTF8", Verdict.REFUSED,
            "create a database with ENCODING 'UTF8' for it",
        ),
        _judged(
            "standby", _yes(facts["is_standby"]), not facts["is_standby"], Verdict.REFUSED,
            "give the address of the primary server",
        ),
        _judged(
            "right to create a schema", _yes(facts["may_create"]), facts["may_create"] or has_schema, Verdict.REFUSED,
            f"GRANT CREATE ON DATABASE {_quoted(facts['database'])} TO {_quoted(facts['person'])}",
        ),
        _access(url),
        _encryption(url, has_tls=facts["has_tls"]),
        _judged(
            "synchronous_commit", facts["synchronous_commit"], facts["synchronous_commit"] != "off", Verdict.REFUSED,
            "a crash would lose what was acknowledged:"
            f" ALTER ROLE {_quoted(facts['person'])} SET synchronous_commit = on",
        ),
        _judged(
            "fsync", facts["fsync"], facts["fsync"] == "on", Verdict.ADVICE,
            "a power cut can destroy the whole server: set fsync = on",
        ),
        _judged(
            "full_page_writes", facts["full_page_writes"], facts["full_page_writes"] == "on", Verdict.ADVICE,
            "a power cut can destroy pages: set full_page_writes = on",
        ),
        _judged(
            "autovacuum", facts["autovacuum"], facts["autovacuum"] == "on", Verdict.ADVICE,
            "the tables would grow without end: set autovacuum = on",
        ),
        _judged(
            "max_connections", f"{facts['max_connections']}, {facts['connections']} of them in use",
            facts["max_connections"] - facts["connections"] >= _CONNECTIONS // 2, Verdict.ADVICE,
            f"each process of a crawl takes up to `store_pool`, 4: set max_connections = {_CONNECTIONS} or more",
        ),
        _judged(
            "shared_buffers", _mebibytes(facts["shared_buffers"]), facts["shared_buffers"] >= _SHARED_BUFFERS_BYTES,
            Verdict.ADVICE, "for millions of URLs a quarter of the memory is better: shared_buffers = 1GB, say",
        ),
        _judged(
            "max_wal_size", _mebibytes(facts["max_wal_size"]), facts["max_wal_size"] >= _WAL_BYTES, Verdict.ADVICE,
            "fewer checkpoints write less: max_wal_size = 4GB",
        ),
    ]  # fmt: skip


def _judged(name: str, value: str, is_good: bool, otherwise: Verdict, advice: str) -> Finding:
    return Finding(name, value) if is_good else Finding(name, value, otherwise, advice)


def _access(url: str) -> Finding:
    """What can be seen from here of who gets in."""
    given = urlsplit(url)
    query = parse_qs(given.query)
    if _is_local(given, query):
        return Finding("access", "from this machine")
    if given.password or "password" in query or {"PGPASSWORD", "PGPASSFILE"} & os.environ.keys():
        return Finding("access", "with a password")
    if "sslcert" in query or "PGSSLCERT" in os.environ:
        return Finding("access", "with a certificate")
    return Finding(
        "access",
        "without a password",
        Verdict.REFUSED,
        "demand one in pg_hba.conf (scram-sha-256), and give it in the URL of the store",
    )


def _encryption(url: str, *, has_tls: bool) -> Finding:
    given = urlsplit(url)
    if _is_local(given, parse_qs(given.query)):
        return Finding("encryption", "not needed on this machine")
    return _judged(
        "encryption", _yes(has_tls), has_tls, Verdict.ADVICE, "set ssl = on, and add ?sslmode=verify-full to the URL"
    )


def _is_local(given: SplitResult, query: dict[str, list[str]]) -> bool:
    hosts = query.get("host") or [given.netloc.rpartition("@")[2] or os.environ.get("PGHOST", "")]
    return all(_is_local_host(host) for part in hosts for host in part.split(","))


def _is_local_host(host: str) -> bool:
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if not host or host == "localhost" or host.startswith(("/", "%2F")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def _crawls(connection: Connection) -> list[Finding]:
    """What is on the server of ours."""
    schemas = await connection.fetch(
        "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname, $1) ORDER BY nspname", PREFIX
    )
    found = []
    for (schema,) in schemas:
        try:
            found.append(await _crawl(connection, schema))
        except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError) as error:
            found.append(Finding(_name(schema), f"cannot be read: {error}", Verdict.ADVICE, "see who made it"))
    return found


async def _crawl(connection: Connection, schema: str) -> Finding:
    quoted = _quoted(schema)
    made = await connection.fetchrow(f"SELECT created_by, created_at, version FROM {quoted}.meta")  # noqa: S608 (quoted)
    counts = dict(await connection.fetch(f"SELECT name, value FROM {quoted}.counts"))  # noqa: S608 (quoted)
    size = await connection.fetchval(
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
        " WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'",
        quoted,
    )
    return Finding(
        _name(schema),
        f"created by {made['created_by'] or 'somebody'} on {made['created_at']:%Y-%m-%d %H:%M} UTC,"
        f" {counted(counts.get('admitted', 0), 'URL')} admitted, {counts.get('finished', 0):,} finished,"
        f" {_mebibytes(size)}",
    )


def _name(schema: str) -> str:
    return f"crawl {schema.removeprefix(PREFIX)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
