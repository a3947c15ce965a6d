"""How long each call takes inside of a server, as the server itself says: PostgreSQL in its log, Redis in its slow log.

Both cost time of their own, so they are asked for this alone, and not while CPU time is measured.
"""

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources

import asyncpg  # type: ignore[import-untyped]
from redis.asyncio import Redis

from benchmarks.frontier.places import Place
from gossamer.frontier import stores
from gossamer.frontier.stores.redis_server import Script

#: Calls that Redis remembers; more than one pass makes.
_REDIS_CALLS = 100_000
#: What a script takes at least. The commands inside of scripts are logged, too, and take less.
_SCRIPT_MICROSECONDS = 50
#: For an answer of the server: of the slow log it is long, and the machine may be busy.
_PATIENCE_SECONDS = 60.0
#: A line of PostgreSQL's log; the statement may go on in further lines.
_DURATION = re.compile(r" \[(\d+)\] LOG:  duration: ([\d.]+) ms  (?:(parse|bind|execute) [^:]*|statement): (.*)")
#: Of a statement, for its name: its description, if it begins with one.
_NAME_CHARACTERS = 60
#: What is said here, to switch it on and off.
_OURS = ("ALTER SYSTEM", "SELECT pg_reload_conf")
#: Until the server has read its settings anew.
_RELOAD_SECONDS = 0.5


@asynccontextmanager
async def watched(place: Place, found: dict[str, list[float]]) -> AsyncIterator[None]:
    """Adds to `found`, by the name of the statement or script, the seconds of each that is run meanwhile."""
    if place.kind == "redis":
        async with _slow_log(place, found):
            yield
    elif place.kind == "postgresql":
        async with _log_of_durations(place, found):
            yield
    else:
        yield


@asynccontextmanager
async def _slow_log(place: Place, found: dict[str, list[float]]) -> AsyncIterator[None]:
    async with Redis.from_url(place.address, socket_timeout=_PATIENCE_SECONDS) as redis:
        await redis.slowlog_reset()
        await redis.config_set("slowlog-max-len", _REDIS_CALLS)
        await redis.config_set("slowlog-log-slower-than", _SCRIPT_MICROSECONDS)
        yield
        await redis.config_set("slowlog-log-slower-than", -1)
        names = _names_of_scripts()
        for call in await redis.slowlog_get(_REDIS_CALLS):
            name = names.get(call["command"].split()[1])
            if name is not None:
                found.setdefault(name, []).append(call["duration"] / 1e6)
        await redis.slowlog_reset()


def _names_of_scripts() -> dict[bytes, str]:
    """By the hash under which the server knows each."""
    scripts = [file.name for file in resources.files(stores).joinpath("redis_scripts").iterdir()]
    names = [name.removesuffix(".lua") for name in scripts if name != "common.lua"]
    common = resources.files(stores).joinpath("redis_scripts", "common.lua").read_text("utf-8")
    return {hashlib.sha1(Script(name, common).source).hexdigest().encode(): f"{name}.lua" for name in names}


@asynccontextmanager
async def _log_of_durations(place: Place, found: dict[str, list[float]]) -> AsyncIterator[None]:
    log = place.directory / "server.log"
    connection = await asyncpg.connect(place.address)
    try:
        await connection.execute("ALTER SYSTEM SET log_parameter_max_length = 0")
        await _log_durations(connection, "0")
        begin = log.stat().st_size
        yield
        await _log_durations(connection, "-1")
        with log.open("rb") as source:
            source.seek(begin)
            text = source.read().decode(errors="replace")
    finally:
        await connection.close()
    for name, seconds in _durations(text).items():
        found.setdefault(name, []).extend(seconds)


async def _log_durations(connection: asyncpg.Connection, milliseconds: str) -> None:
    """Of statements that take at least so long. The sessions take it over when they begin their next statement."""
    await connection.execute(f"ALTER SYSTEM SET log_min_duration_statement = {milliseconds}")
    await connection.execute("SELECT pg_reload_conf()")
    await asyncio.sleep(_RELOAD_SECONDS)


def _durations(log: str) -> dict[str, list[float]]:
    """Of each statement with its parameters and its plan, by its first line."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    bound: dict[str, float] = {}
    for session, milliseconds, step, statement in _DURATION.findall(log):
        seconds = float(milliseconds) / 1e3
        if step == "bind":
            bound[session] = seconds
        elif step != "parse" and not statement.startswith(_OURS):
            found[statement[:_NAME_CHARACTERS]].append(seconds + bound.pop(session, 0.0))
    return found
