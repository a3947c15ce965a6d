"""Where the frontier of one crawl stands on a server: a schema, made once and brought up to date by who opens it."""

import re
from collections.abc import Sequence

from gossamer.errors import UsageError
from gossamer.frontier.stores.postgres_errors import missing
from gossamer.frontier.stores.postgres_pool import Connection
from gossamer.frontier.stores.server import Connecting
from gossamer.units import counted

PREFIX = "gossamer_"
#: PostgreSQL cuts longer names off, so that two crawls would share one.
_LONGEST = 63 - len(PREFIX)
_CRAWL = re.compile(rf"[A-Za-z0-9]{{1,{_LONGEST}}}")


def schema_of(crawl: str) -> str:
    """Safe to stand in a statement, in double quotes."""
    if not _CRAWL.fullmatch(crawl):
        raise UsageError(f"{crawl!r} is no id of a crawl: it has letters and digits, at most {_LONGEST} of them")
    return PREFIX + crawl


async def prepare(connection: Connection, connecting: Connecting, server: str, migrations: Sequence[str]) -> None:
    """Make what is missing; many processes may do it at once. Each migration is one transaction.

    Raises StoreUnavailable if there is no such frontier and none may be made, UsageError if it is another one.
    """
    version = 0
    while version < len(migrations):
        version = await _step(connection, connecting, server, migrations)


async def check(connection: Connection, connecting: Connecting, server: str, newest: int) -> None:
    """Whether the frontier can be read as it is; for who may not change it. Raises as `prepare` does."""
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f'"{schema_of(connecting.crawl)}".meta'):
        raise missing(server, connecting.crawl)
    version, slots = await connection.fetchrow("SELECT version, slots FROM meta")
    _check(connecting, server, version, slots, newest)
    if version < newest:
        raise UsageError(
            f"the frontier of crawl {connecting.crawl} on {server} was made by an older version of Gossamer"
            f" (schema {version}; this one has {newest}): resume the crawl, which brings it up to date, or look into it"
            " with that version"
        )


async def _step(connection: Connection, connecting: Connecting, server: str, migrations: Sequence[str]) -> int:
    """The version of the frontier after it."""
    schema = schema_of(connecting.crawl)
    version = 0
    async with connection.transaction():
        # Held until the end of the transaction: whoever comes second finds what the first has made.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", schema)
        is_there = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f'"{schema}".meta')
        if is_there:
            row = await connection.fetchrow("SELECT version, slots FROM meta")
            version = int(row["version"])
            _check(connecting, server, version, row["slots"], len(migrations))
            if version == len(migrations):
                return version
        elif connecting.may_create:
            # An administrator may have made it, empty, for a user who may not.
            if await connection.fetchval("SELECT to_regnamespace($1) IS NULL", f'"{schema}"'):
                await connection.execute(f'CREATE SCHEMA "{schema}"')
        else:
            raise missing(server, connecting.crawl)
        await connection.execute(migrations[version])
        if not is_there:
            await connection.execute(
                "INSERT INTO meta (version, slots, created_by) VALUES (0, $1, $2)",
                connecting.slots,
                connecting.created_by.replace("\0", ""),
            )
            await connection.execute("INSERT INTO slots (slot) SELECT generate_series(0, $1 - 1)", connecting.slots)
        await connection.execute("UPDATE meta SET version = $1", version + 1)
    return version + 1


def _check(connecting: Connecting, server: str, version: int, slots: int, newest: int) -> None:
    if version > newest:
        raise UsageError(
            f"the frontier of crawl {connecting.crawl} on {server} was made by a newer version of Gossamer"
            f" (schema {version}; this one knows {newest}): resume with that version, or start a new crawl"
        )
    if slots != connecting.slots:
        raise UsageError(
            f"the frontier of crawl {connecting.crawl} on {server} was created with {counted(slots, 'slot')},"
            f" not {connecting.slots}: the number is fixed when a crawl is created"
        )
