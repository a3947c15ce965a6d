"""Which store a crawl's frontier is in: from the setting to the object. Only this file names one.

The modules of a server's store are imported when it is asked for: a crawl on the embedded one needs neither client.
"""

import contextlib
import socket
from collections.abc import Awaitable, Callable
from importlib import import_module
from types import ModuleType
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from gossamer.config import Settings
from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.store import Store
from gossamer.frontier.stores.examination import Finding
from gossamer.frontier.stores.read_only import ServerReader
from gossamer.frontier.stores.server import Connecting, unnoted
from gossamer.frontier.stores.sqlite import SqliteStore, examine_sqlite
from gossamer.frontier.stores.sqlite_reader import SqliteReader
from gossamer.run.data_directory import DataDirectory, Frontier
from gossamer.url import redacted

#: By the scheme of the store's URL: where its modules are, and the port where it names none.
_SERVERS = {
    "redis": ("redis", 6379),
    "rediss": ("redis", 6379),
    "unix": ("redis", 0),
    "postgresql": ("postgres", 5432),
    "postgres": ("postgres", 5432),
}
EMBEDDED = "sqlite"


class StoreChoice(NamedTuple):
    """The store that a resume was given, and by what: a flag, a variable of the environment, or a file."""

    url: str
    source: str


Examine = Callable[[str], Awaitable[list[Finding]]]
Remove = Callable[[str, str], Awaitable[None]]


def store_kind(url: str) -> str:
    """`sqlite`, `redis` or `postgres`: what a frontier cannot be moved between by naming another address."""
    return EMBEDDED if url == EMBEDDED else _server(url)[0]


def check_same_kind(data: DataDirectory, kept: str, chosen: StoreChoice) -> None:
    """Refuse a store of another kind than the one that has the crawl's frontier; another address may be right.

    `kept` is the store of crawl.toml. A file of the data directory says more: older versions wrote a store into
    crawl.toml before they had opened it.
    """
    if not data.which_frontier().is_made:
        return
    here = EMBEDDED if data.frontier.exists() else kept
    if store_kind(here) == store_kind(chosen.url):
        return
    if chosen.source.startswith("--"):
        advice = f"leave {chosen.source} out"
    elif chosen.source.startswith("GOSSAMER_"):
        advice = f"unset {chosen.source}, or give --store {redacted(here)}"
    else:
        advice = f"give --store {redacted(here)}"
    raise UsageError(
        f"{chosen.source}: {redacted(chosen.url)!r} is another kind of store than {redacted(here)!r}, which has the"
        f" frontier of this crawl, and a frontier cannot be moved; {advice}. Nothing was changed"
    )


def open_store(
    data: DataDirectory,
    settings: Settings,
    which: Frontier,
    *,
    is_leader: bool,
    at_once: bool = False,
    note_connection: Callable[[float], None] = unnoted,
) -> Store:
    """Of one process; it is not open yet. The leader makes the frontier if it never was, and gives up a server that
    does not answer; the others come when it has answered once, and wait. `at_once`: who calls an embedded store waits
    for it anyhow, and runs the call itself. `note_connection`: see `Connecting`."""
    where = settings.frontier
    may_create = is_leader and not which.is_made
    if where.store == EMBEDDED:
        return SqliteStore(
            data.frontier, settings.url.slots, may_create=may_create, at_once=at_once, is_durable=where.durable
        )
    return _on_server(
        data,
        settings,
        Connecting(
            url=where.store,
            crawl=which.crawl,
            slots=settings.url.slots,
            may_create=may_create,
            created_by=f"{socket.gethostname()}:{data.root.resolve()}",
            patience_seconds=where.store_patience_seconds if is_leader else None,
            is_unsafe=where.unsafe_store,
            is_durable=where.durable,
            pool=where.store_pool,
            note_connection=note_connection,
        ),
    )


def open_reader(data: DataDirectory, settings: Settings) -> Store:
    """For who looks into a crawl, while it runs and after; it is not open yet.

    Writes nothing, creates nothing, and nobody waits for it: verbs that would change something raise UsageError. A
    server that does not answer is given up after the crawl's `store_patience_seconds`, with StoreUnavailable.
    """
    where = settings.frontier
    which = data.which_frontier()
    if not which.is_made:
        raise StoreUnavailable(f"the crawl in {str(data.root)!r} has no frontier yet: it has not begun, or not so far")
    if where.store == EMBEDDED:
        return SqliteReader(data.frontier, settings.url.slots)
    return ServerReader(
        _on_server(
            data,
            settings,
            Connecting(
                url=where.store,
                crawl=which.crawl,
                slots=settings.url.slots,
                patience_seconds=where.store_patience_seconds,
                pool=1,
                is_reader=True,
            ),
        )
    )


def _on_server(data: DataDirectory, settings: Settings, connecting: Connecting) -> Store:
    module = _module(connecting.url)
    store: Store
    if module.__name__.endswith("redis"):
        store = module.RedisStore(connecting, queues=data.queues, queue_in_memory=settings.frontier.queue_in_memory)
    else:
        store = module.PostgresStore(connecting)
    return store


def store_endpoints(url: str) -> frozenset[tuple[str, int]]:
    """Where the store's server listens: no page may send the crawler there."""
    found: set[tuple[str, int]] = set()
    for host, port in _hosts_and_ports(url):
        # A name that nobody knows cannot be reached either.
        with contextlib.suppress(OSError):
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.update((str(address[0]).partition("%")[0], port) for *_, address in addresses)
    return frozenset(found)


def _hosts_and_ports(url: str) -> list[tuple[str, int]]:
    scheme, _, rest = url.partition("://")
    usual = _SERVERS.get(scheme, ("", 0))[1]
    try:
        # PostgreSQL's may name several, also as parameters.
        address = urlsplit(f"//{rest}")
        places = [urlsplit(f"//{one}") for one in address.netloc.rpartition("@")[2].split(",")]
        given = {name: value.split(",") for name, value in parse_qsl(address.query)}
        ports = [int(port) for port in given.get("port", []) if port] or [usual]
        named = [(one.hostname, port) for one in places if one.hostname for port in ([one.port] if one.port else ports)]
        return named + [(host, port) for host in given.get("host", []) if host[:1] not in {"", "/"} for port in ports]
    except ValueError:
        # The reason that the library gives may quote a part of the password.
        raise UsageError(
            f"{redacted(url)!r} is not a valid store address; in a user name or password, write / ? # @ : [ ] % as"
            " %2F %3F %23 %40 %3A %5B %5D %25"
        ) from None


def store_numbers(store: Store) -> dict[str, int]:
    """What a process tells of its connections."""
    pool = store.pool
    return {
        "store_connections": pool.created,
        "store_in_use": pool.in_use,
        "store_waiting": pool.waiting,
        "store_taken": pool.taken,
        "store_waited_milliseconds": round(pool.waited_seconds * 1000),
        "store_outages": pool.outages,
    }


async def examine(url: str) -> list[Finding]:
    if url == EMBEDDED:
        return examine_sqlite()
    of_server: Examine = _module(url, "_examination").examine
    return await of_server(url)


async def remove(url: str, crawl: str) -> None:
    """One crawl's frontier, from a server."""
    if url == EMBEDDED:
        raise UsageError("sqlite: the embedded frontier is a file of the data directory; remove that")
    from_server: Remove = _module(url, "_examination").remove
    await from_server(url, crawl)


def _module(url: str, suffix: str = "") -> ModuleType:
    return import_module(f"gossamer.frontier.stores.{_server(url)[0]}{suffix}")


def _server(url: str) -> tuple[str, int]:
    scheme = url.partition("://")[0]
    if scheme not in _SERVERS:
        raise UsageError(
            f"{redacted(url)!r}: not a store; give sqlite, redis://HOST:PORT/DB, rediss://…, unix://PATH or"
            " postgresql://USER@HOST:PORT/DATABASE"
        )
    return _SERVERS[scheme]
