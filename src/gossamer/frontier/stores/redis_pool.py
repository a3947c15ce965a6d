"""The connections of one process to a Redis server: a few, each with one call at a time.

A reply belongs to the call that waits for it. So a connection whose call was cancelled, ran out of time or failed in
any other way than by an answer of the server is closed, and never given to another call.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from gossamer.errors import UsageError
from gossamer.frontier.store import PoolUse
from gossamer.frontier.stores.slowness import note_held
from gossamer.url import redacted

#: One attempt at a call, connecting included. Calls take milliseconds; a server that forks or writes its file may
#: stand still for seconds.
ATTEMPT_SECONDS = 30.0
#: A connection that was idle for longer is asked whether it lives: routers forget those that are silent for minutes.
IDLE_SECONDS = 15.0
#: What is read from a socket at once: a batch of leases is some 10 KiB, a block of a queue 100 KiB.
_READ_BYTES = 1 << 16
#: Settings that a URL may carry; all others would change what we rely on.
_URL_SETTINGS = frozenset(
    {"connection_class", "host", "port", "path", "db", "username", "password"}
    | {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)

#: Integers, bytes, None, and lists of these.
Reply = Any


def packed(*words: bytes) -> bytes:
    """Words as Redis reads them."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def command(*words: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(words), packed(*words))


class Address:
    """Where a server is, from its URL: redis://, rediss:// or unix://."""

    def __init__(self, url: str, client_name: str) -> None:
        self.server = redacted(url)
        try:
            settings: dict[str, Any] = dict(parse_url(url))
        except ValueError:
            # What it says of the URL may have a part of the password in it.
            raise UsageError(
                f"{self.server} is not the address of a Redis server: it is redis://USER:PASSWORD@HOST:PORT/DATABASE,"
                " and in the password / is %2F, # is %23, ? is %3F, @ is %40"
            ) from None
        unknown = settings.keys() - _URL_SETTINGS
        if unknown:
            raise UsageError(f"{self.server}: {', '.join(sorted(unknown))} cannot be set in the address")
        self.path = settings.get("path", "")
        self.host = settings.get("host", "localhost")
        self.has_password = "password" in settings
        self._kind: type[AbstractConnection] = settings.pop("connection_class", Connection)
        # Time limits are the pool's, and repeating is `Calls`'s. RESP2 saves a round trip, and we need no more.
        self._settings = settings | {
            "protocol": 2,
            "socket_timeout": None,
            "socket_connect_timeout": ATTEMPT_SECONDS,
            "socket_read_size": _READ_BYTES,
            "client_name": client_name,
            "driver_info": None,
        }

    def connection(self) -> AbstractConnection:
        return self._kind(**self._settings)


class _Idle:
    """A connection that nobody uses, and since when."""

    __slots__ = ("connection", "since")

    def __init__(self, connection: AbstractConnection) -> None:
        self.connection = connection
        self.since = time.monotonic()


class Pool:
    """At most `size` connections. Calls beyond them wait for one, in the order in which they came."""

    def __init__(self, address: Address, size: int, note_connection: Callable[[float], None]) -> None:
        self._address = address
        self._note_connection = note_connection
        self._permits = asyncio.Semaphore(size)
        self._idle: list[_Idle] = []
        self._in_use = 0
        self._waiting = 0
        self._taken = 0
        self._waited_seconds = 0.0

    @property
    def use(self) -> PoolUse:
        return PoolUse(
            created=self._in_use + len(self._idle),
            in_use=self._in_use,
            waiting=self._waiting,
            taken=self._taken,
            waited_seconds=self._waited_seconds,
        )

    async def close(self) -> None:
        while self._idle:
            await _close(self._idle.pop().connection, waits=True)

    async def call(self, words: bytes) -> Reply:
        """The answer to one packed command. Raises what redis-py raises, or TimeoutError."""
        asked_at = time.monotonic()
        await self._permit()
        since = time.monotonic()
        self._in_use += 1
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                connection = await self._healthy()
                if connection is None:
                    connection = self._address.connection()
                    await connection.connect()  # type: ignore[no-untyped-call]
                self._note_connection(time.monotonic() - asked_at)
                answer = await _ask(connection, words)
        except ResponseError:
            # The server has answered, if not as we wished: there is nothing left to be read.
            if connection is not None and connection.is_connected:
                self._idle.append(_Idle(connection))
            raise
        except BaseException:
            if connection is not None:
                await _close(connection, waits=False)
            raise
        else:
            self._idle.append(_Idle(connection))
            return answer
        finally:
            self._in_use -= 1
            self._permits.release()
            note_held(since)

    async def _permit(self) -> None:
        if not self._permits.locked():
            await self._permits.acquire()  # at once
            self._taken += 1
            return
        began_at = time.monotonic()
        self._waiting += 1
        try:
            await self._permits.acquire()
        finally:
            self._waiting -= 1
            self._waited_seconds += time.monotonic() - began_at
        self._taken += 1

    async def _healthy(self) -> AbstractConnection | None:
        """One that is open and has nothing left to say. Those that are not are closed."""
        while self._idle:
            idle = self._idle.pop()
            connection = idle.connection
            try:
                if not await connection.can_read():
                    if time.monotonic() - idle.since < IDLE_SECONDS:
                        return connection
                    await _ask(connection, command(b"PING"))
                    return connection
            except (RedisError, OSError):
                pass
            except BaseException:
                await _close(connection, waits=False)
                raise
            await _close(connection, waits=False)
        return None


async def _ask(connection: AbstractConnection, words: bytes) -> Reply:
    await connection.send_packed_command([words], check_health=False)  # type: ignore[no-untyped-call,unused-ignore]
    return await connection.read_response()  # type: ignore[no-untyped-call,unused-ignore]


async def _close(connection: AbstractConnection, *, waits: bool) -> None:
    with contextlib.suppress(RedisConnectionError, TimeoutError, OSError):
        await connection.disconnect(nowait=not waits)
