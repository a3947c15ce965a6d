"""A Redis server as the store sees it: scripts by name, and what its errors mean."""

import asyncio
import functools
import hashlib
import ssl
from collections.abc import Callable
from importlib import resources

import msgspec
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    InvalidResponse,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.frontier.store import PoolUse
from gossamer.frontier.stores.redis_pool import Address, Pool, Reply, command, packed
from gossamer.frontier.stores.server import Calls, Trouble, unnoted

#: For a question that is not worth a wait.
ONCE_SECONDS = 2.0
#: Answers that begin with one of these pass.
_TROUBLES = {
    "LOADING": Trouble.STARTING,
    "BUSY": Trouble.AWAY,
    "READONLY": Trouble.AWAY,
    "MASTERDOWN": Trouble.AWAY,
    "NOREPLICAS": Trouble.AWAY,
    "CLUSTERDOWN": Trouble.AWAY,
    "TRYAGAIN": Trouble.AWAY,
    "OOM": Trouble.FULL,
    "MISCONF": Trouble.FULL,
}
#: And these do not.
_ADVICE = {
    "NOAUTH": "it wants a password: give it in the address, as in redis://:PASSWORD@HOST",
    "WRONGPASS": "it does not accept this password or user: correct them in the address",
    "NOPERM": "its user may not do what a crawl needs: ACL SETUSER it with ~* +@all -@admin -@dangerous +info",
    "DENIED": "it takes connections from its own machine only: set a password there, and protected-mode no",
    "MOVED": "it is a cluster, and a frontier wants one server",
    "ASK": "it is a cluster, and a frontier wants one server",
    "CROSSSLOT": "it is a cluster, and a frontier wants one server",
}


class Script:
    """One Lua file, known to the server by the hash of its text."""

    def __init__(self, name: str, common: str) -> None:
        self.name = name
        text = _script_files()[name]
        # The first line says to the server what kind of script it is, and has to stay the first.
        first, _, rest = text.partition("\n")
        self.source = f"{first}\n{common}\n{rest}".encode()
        digest = hashlib.sha1(self.source, usedforsecurity=False).hexdigest()
        self._words = packed(b"EVALSHA", digest.encode())

    def call(self, keys: list[bytes], *arguments: bytes) -> bytes:
        """The command that runs it; `keys` are packed already."""
        return b"*%d\r\n%b%b%b%b" % (
            3 + len(keys) + len(arguments),
            self._words,
            packed(b"%d" % len(keys)),
            b"".join(keys),
            packed(*arguments),
        )


@functools.cache
def _script_files() -> dict[str, str]:
    """All at once, when the store is made: later there may be no descriptor left to read a file."""
    files = resources.files(__package__).joinpath("redis_scripts").iterdir()
    return {file.name.removesuffix(".lua"): file.read_text("utf-8") for file in files if file.name.endswith(".lua")}


class RedisServer:
    """One server and the frontier of one crawl on it. Every call waits while the server is away."""

    def __init__(
        self,
        url: str,
        crawl: str,
        *,
        pool: int,
        client_name: str,
        patience_seconds: float | None = None,
        note_connection: Callable[[float], None] = unnoted,
    ) -> None:
        self.address = Address(url, client_name)
        self.name = self.address.server
        self.crawl = crawl
        self._pool = Pool(self.address, pool, note_connection)
        self._common = _script_files()["common"]
        self._scripts: dict[str, Script] = {}
        self._calls = Calls(self.name, (RedisError, OSError), self._judge, patience_seconds=patience_seconds)

    @property
    def is_away(self) -> bool:
        return self._calls.is_away

    @property
    def is_full(self) -> bool:
        return self._calls.is_full

    @property
    def pool(self) -> PoolUse:
        return msgspec.structs.replace(self._pool.use, outages=self._calls.outages)

    async def close(self) -> None:
        await self._pool.close()

    async def run(
        self,
        verb: str,
        script: str,
        keys: list[bytes],
        *arguments: bytes,
        patience_seconds: float | None = None,
    ) -> Reply:
        """The answer of a script, on behalf of a verb; `keys` are packed."""
        known = self._scripts.get(script)
        if known is None:
            known = self._scripts[script] = Script(script, self._common)
        words = known.call(keys, *arguments)
        return await self._calls.make(verb, lambda: self._once(known, words), patience_seconds=patience_seconds)

    async def _once(self, script: Script, words: bytes) -> Reply:
        try:
            return await self._pool.call(words)
        except NoScriptError:
            # A server that was restarted knows none. Nothing was run, so this is still the first time.
            await self._pool.call(command(b"SCRIPT", b"LOAD", script.source))
            return await self._pool.call(words)

    async def ask(self, verb: str, *words: bytes, patience_seconds: float | None = None) -> Reply:
        """The answer to a plain command."""
        return await self._calls.make(verb, lambda: self._pool.call(command(*words)), patience_seconds=patience_seconds)

    async def ask_once(self, *words: bytes) -> Reply | None:
        """The answer to a plain command; None if there is none now, for whatever reason."""
        try:
            async with asyncio.timeout(ONCE_SECONDS):
                return await self._pool.call(command(*words))
        except (RedisError, OSError):
            return None

    async def ask_if_allowed(self, verb: str, *words: bytes) -> Reply:
        """The same; None if the server does not let us."""

        async def once() -> Reply:
            try:
                return await self._pool.call(command(*words))
            except ResponseError as error:
                if _code(error) == "NOPERM" or "unknown command" in str(error):
                    return None
                raise

        return await self._calls.make(verb, once)

    def gone(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the frontier of crawl {self.crawl} is not on {self.name}: it was created before, so something removed"
            " it; bring it back from a backup, or start a new crawl"
        )

    def _judge(self, error: Exception) -> Trouble | GossamerError:
        """What an error means: it passes, or it is raised as what is returned."""
        said = str(error).rstrip(".")
        code = _code(error)
        if code == "GONE":
            return self.gone()
        if code == "PARTLY":
            return UsageError(
                f"the frontier of crawl {self.crawl} was removed from {self.name}, but not all of it: remove it again"
            )
        if code in _TROUBLES:
            return _TROUBLES[code]
        if code in _ADVICE:
            return StoreUnavailable(f"{self.name} refuses us ({said}): {_ADVICE[code]}")
        if isinstance(error, AuthenticationError):
            return StoreUnavailable(f"{self.name} refuses us ({said}): correct user and password in the address")
        if isinstance(error, BusyLoadingError):
            return Trouble.STARTING
        if isinstance(error, InvalidResponse) or _is_tls(error):
            return StoreUnavailable(
                f"{self.name} does not speak as a Redis server does ({said}): correct the address;"
                " with TLS it begins with rediss://, without it with redis://"
            )
        if isinstance(error, RedisConnectionError | RedisTimeoutError | OSError):
            return Trouble.AWAY
        if isinstance(error, ResponseError) and "DB index" in said:
            return StoreUnavailable(f"{self.name} has no such database ({said}): correct its number in the address")
        return StoreUnavailable(f"{self.name} did not do as it was told: {said or type(error).__name__}")


def _code(error: Exception) -> str:
    """The first word of an answer; redis-py takes off those that it knows."""
    return getattr(error, "status_code", None) or str(error).partition(" ")[0]


def _is_tls(error: BaseException | None) -> bool:
    """Whether encryption failed somewhere below: certificates, or a server that has none."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
