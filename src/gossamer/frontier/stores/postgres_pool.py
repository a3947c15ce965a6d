"""Connections to PostgreSQL: no more than a process may have, each used by one call at a time, none of them spoilt.

A call that was cancelled, or took too long, leaves its connection in the middle of something. It is closed and never
used again, so that no reply can reach another call; what the server still does for it is ended before the next call.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg  # type: ignore[import-untyped]

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import PoolUse
from gossamer.frontier.stores.server import unnoted
from gossamer.frontier.stores.slowness import note_held
from gossamer.url import redacted

#: Of one attempt at a call; a batch takes milliseconds.
LIMIT_SECONDS = 30.0
#: A connection that was not used for so long is asked whether it still stands: firewalls forget those that are quiet.
IDLE_SECONDS = 30.0
_CHECK_SECONDS = 5.0
_CONNECT_SECONDS = 10.0
#: How long a session that was given up may take to end.
_END_MILLISECONDS = 5_000

#: asyncpg has no types of its own.
Connection = Any
T = TypeVar("T")

#: What every statement of ours is meant to be planned as: by its index, row by row, whatever is known of the sizes of
#: tables. Statistics come a minute late, and a plan that was made for an empty table would read a million rows.
_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "timezone": "UTC",
    # Whoever is stopped in the middle of a transaction, or gone without a word, must not keep others from its sites.
    "idle_in_transaction_session_timeout": f"{int(LIMIT_SECONDS * 1000)}",
}


def show(url: str) -> str:
    """The server, as it is named to a person: without the password, which may stand in the query, too."""
    return redacted(url).partition("?")[0]


async def connect(
    url: str,
    search_path: str,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    is_reader: bool = False,
    is_durable: bool = False,
) -> Connection:
    """One connection, set up. `search_path` is the name of a schema, of letters, digits and `_`.

    With `is_durable` its commits are synced, whatever the server's default is.
    """
    try:
        connection = await asyncpg.connect(
            url,
            timeout=_CONNECT_SECONDS,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings={"application_name": "gossamer"},
        )
    except (ValueError, OverflowError):
        # What it says of the URL may have the password in it, and so may the exception.
        raise UsageError(
            f"{show(url)} is no URL of a PostgreSQL server: it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE,"
            " and in the password / is %2F, # is %23, @ is %40"
        ) from None
    settings = _SETTINGS | {
        "search_path": f'"{search_path}"',
        "statement_timeout": f"{int(limit_seconds * 1000)}",
    }
    if is_reader:
        settings["default_transaction_read_only"] = "on"
    if is_durable:
        settings["synchronous_commit"] = "on"
    try:
        # Not as parameters of the connection: poolers refuse those.
        await connection.execute(
            "".join(f"SET {name} = '{value}';" if name != "search_path" else f"SET {name} = {value};"
                    for name, value in settings.items()),
            timeout=_CHECK_SECONDS,
        )  # fmt: skip
    except BaseException:
        connection.terminate()
        raise
    return connection


class Pool:
    """At most `size` connections. Calls beyond that wait, the first first; used by `PostgresStore` alone."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        size: int,
        note_connection: Callable[[float], None] = unnoted,
    ) -> None:
        self._note_connection = note_connection
        self._connect = connect
        self._free = asyncio.Semaphore(size)
        self._idle: list[tuple[Connection, float]] = []
        self._making: set[asyncio.Task[Connection]] = set()
        self._abandoned: list[int] = []
        self._in_use = 0
        self._waiting = 0
        self._taken = 0
        self._waited_seconds = 0.0
        self._is_closed = False

    @property
    def use(self) -> PoolUse:
        return PoolUse(
            created=len(self._idle) + self._in_use,
            in_use=self._in_use,
            waiting=self._waiting,
            taken=self._taken,
            waited_seconds=self._waited_seconds,
        )

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, limit_seconds: float = LIMIT_SECONDS) -> T:
        """The answer of `work`, which has a connection for itself until then."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        began_at = time.monotonic()
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
            self._waited_seconds += time.monotonic() - began_at
        self._in_use += 1
        since = time.monotonic()
        connection = await self._take()
        self._taken += 1
        self._note_connection(time.monotonic() - began_at)
        is_whole = False
        try:
            async with asyncio.timeout(limit_seconds):
                answer = await work(connection)
            is_whole = True
        except asyncpg.PostgresError:
            # The server has refused a statement, and told so: nothing is on its way any more.
            is_whole = True
            raise
        else:
            return answer
        finally:
            self._give_back(connection, is_whole=is_whole)
            note_held(since)

    async def _take(self) -> Connection:
        """A connection that stands. Without one, the place in the pool is free again."""
        try:
            while self._idle:
                connection, since = self._idle.pop()
                if await self._stands(connection, time.monotonic() - since):
                    return connection
        except BaseException:
            self._leave()
            raise
        # In a task of its own: if the caller is cancelled, the next one has use for it.
        making = asyncio.create_task(self._make())
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._keep)
            raise
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        self._in_use -= 1
        self._free.release()

    async def _make(self) -> Connection:
        connection = await self._connect()
        try:
            await self._end_abandoned(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _keep(self, making: asyncio.Task[Connection]) -> None:
        """It was made, and nobody waits for it any more."""
        if making.cancelled() or making.exception() is not None:
            self._leave()
        else:
            self._give_back(making.result(), is_whole=True)

    async def _end_abandoned(self, connection: Connection) -> None:
        """A call that was given up must not happen after it was made again: nobody would know of what it did."""
        abandoned = list(self._abandoned)
        if abandoned:
            await connection.fetchval(
                "SELECT count(pg_terminate_backend(pid, $2)) FROM pg_stat_activity"
                " WHERE pid = ANY ($1::integer[]) AND usename = current_user AND application_name = 'gossamer'",
                abandoned,
                _END_MILLISECONDS,
                timeout=_CHECK_SECONDS + len(abandoned) * _END_MILLISECONDS / 1000,
            )
            self._abandoned = [pid for pid in self._abandoned if pid not in abandoned]

    async def _stands(self, connection: Connection, idle_seconds: float) -> bool:
        """Whether it can be used; one that cannot is closed."""
        if connection.is_closed():
            return False
        try:
            if idle_seconds >= IDLE_SECONDS:
                await connection.execute("SELECT 1", timeout=_CHECK_SECONDS)
            await self._end_abandoned(connection)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            connection.terminate()
            return False
        except BaseException:
            connection.terminate()
            raise
        return True

    def _give_back(self, connection: Connection, *, is_whole: bool) -> None:
        if is_whole and not self._is_closed and not connection.is_closed() and not connection.is_in_transaction():
            self._idle.append((connection, time.monotonic()))
        else:
            if not connection.is_closed():
                self._abandoned.append(connection.get_server_pid())
            connection.terminate()
        self._leave()

    async def close(self) -> None:
        """Calls that are under way end by themselves, and their connections with them."""
        self._is_closed = True
        if self._making:
            await asyncio.wait(self._making)
        while self._idle:
            connection, _ = self._idle.pop()
            try:
                await connection.close(timeout=_CHECK_SECONDS)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                connection.terminate()
