"""Fixtures that every kind of test may use."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from gossamer.testing.server_binaries import ServerBinary, find_postgres_servers, find_redis_servers
from gossamer.testing.servers import PostgresServer, RedisServer
from gossamer.testing.stores.places import (
    EmptiedPostgresPlace,
    ModelPlace,
    Place,
    PostgresPlace,
    RedisPlace,
    Servers,
    SqlitePlace,
)

# Before any test imports it: its plain asserts then say what was compared.
pytest.register_assert_rewrite("gossamer.testing.stores.suite")

#: Public conformance data lives beside the checkout, not in it; its files keep their own licences.
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    directory = Path(os.environ.get("GOSSAMER_TEST_DATA", SHARED_DATA))
    if not directory.is_dir():
        pytest.skip(f"the conformance data is not at {directory}; GOSSAMER_TEST_DATA names another place")
    return directory


#: Of the state machine, for each kind of store; with GOSSAMER_TEST_EXAMPLES, so many for each server that there is.
HISTORIES = 80
EVERY_HISTORY = int(os.environ["GOSSAMER_TEST_EXAMPLES"]) if "GOSSAMER_TEST_EXAMPLES" in os.environ else None

#: Each of these needs a real server; a test that asks for one is marked `servers` without saying so itself.
REDIS_FIXTURES = {"redis_binary", "redis_server"}
POSTGRES_FIXTURES = {"postgres_binary", "postgres_server"}


@functools.cache
def redis_binaries() -> tuple[ServerBinary, ...]:
    return tuple(find_redis_servers())


@functools.cache
def postgres_binaries() -> tuple[ServerBinary, ...]:
    """The oldest and the newest; the campaign takes those between them, too."""
    found = find_postgres_servers()
    by_age = sorted(found, key=lambda binary: [int(part) for part in binary.version.split(".")])
    left_out = set() if EVERY_HISTORY is not None else set(by_age[1:-1])
    return tuple(binary for binary in found if binary not in left_out)


def present(binary: ServerBinary | None, kind: str) -> ServerBinary:
    if binary is not None:
        return binary
    reason = f"there is no {kind} server: ./check says how to get one"
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(f"{reason} (with CI set this is a failure)")
    pytest.skip(reason)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `redis_binary` or `postgres_binary` runs once for each that this machine has; one that asks
    for a place (see `PLACES`), once for each of these."""
    for name, find in (("redis_binary", redis_binaries), ("postgres_binary", postgres_binaries)):
        if name in metafunc.fixturenames:
            found: tuple[ServerBinary | None, ...] = find() or (None,)
            metafunc.parametrize(name, found, ids=[_named(binary) for binary in found], indirect=True)
    for name, where in PLACES.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [_parameter(*place) for place in where()], indirect=True)


def _named(binary: ServerBinary | None) -> str:
    return f"{binary.product}-{binary.version}" if binary else "missing"


#: A kind of store, and on which server; None if it needs none, or there is none.
Where = tuple[str, ServerBinary | None]


def _parameter(kind: str, binary: ServerBinary | None) -> ParameterSet:
    if kind in {"model", "sqlite"}:
        return pytest.param((kind, None), id=kind)
    return pytest.param((kind, binary), id=_named(binary) if binary else f"{kind}-missing", marks=pytest.mark.servers)


def _on_servers(*, most: int | None = None) -> list[Where]:
    """On each that this machine has, or on the preferred ones."""
    redis: list[Where] = [("Redis", binary) for binary in redis_binaries()[:most] or (None,)]
    postgres: list[Where] = [("PostgreSQL", binary) for binary in postgres_binaries()[:most] or (None,)]
    return redis + postgres


#: Fixtures that say where a frontier under test lives, and what they stand for.
PLACES: dict[str, Callable[[], list[Where]]] = {
    "place": lambda: [("model", None), ("sqlite", None), *_on_servers()],
    "place_on_a_server": _on_servers,
    "place_of_each_store": lambda: [("sqlite", None), *_on_servers(most=1)],
    "place_of_its_own": lambda: _on_servers(most=1),
    "histories": lambda: [("model", None), ("sqlite", None), *_on_servers()],
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if (REDIS_FIXTURES | POSTGRES_FIXTURES) & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)


@pytest.fixture
def redis_binary(request: pytest.FixtureRequest) -> ServerBinary:
    return present(request.param, "Redis")


@pytest.fixture
def postgres_binary(request: pytest.FixtureRequest) -> ServerBinary:
    return present(request.param, "PostgreSQL")


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """One of each program, shared by all tests of the session that ask for it."""
    with Servers() as running:
        yield running


@pytest.fixture(scope="session")
def redis_server(servers: Servers) -> RedisServer:
    """The preferred Redis, shared by all tests of the session: leave it running, and clear what you wrote."""
    return servers.redis(present(next(iter(redis_binaries()), None), "Redis"))


@pytest.fixture(scope="session")
def postgres_server(servers: Servers) -> PostgresServer:
    """The preferred PostgreSQL, shared by all tests of the session: leave it running, and drop what you made."""
    return servers.postgres(present(next(iter(postgres_binaries()), None), "PostgreSQL"))


def _place(request: pytest.FixtureRequest) -> Place:
    kind, binary = request.param
    if kind == "model":
        return ModelPlace()
    if kind == "sqlite":
        return SqlitePlace()
    servers: Servers = request.getfixturevalue("servers")
    if kind == "Redis":
        return RedisPlace(servers.redis(present(binary, kind)))
    return PostgresPlace(servers.postgres(present(binary, kind)))


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return _place(request)


@pytest.fixture
def place_on_a_server(request: pytest.FixtureRequest) -> Place:
    return _place(request)


class Histories(NamedTuple):
    """Where, and how many."""

    place: Place
    number: int


@pytest.fixture
def histories(request: pytest.FixtureRequest) -> Histories:
    """`HISTORIES` of each kind of store: its servers share them."""
    place = _place(request)
    number = EVERY_HISTORY
    if number is None:
        number = HISTORIES // [kind for kind, _ in PLACES["histories"]()].count(request.param[0])
    if isinstance(place, PostgresPlace):
        place = EmptiedPostgresPlace(place.server)
    elif isinstance(place, RedisPlace):
        place = RedisPlace(place.server, queue_in_memory=4)  # their queues are short, and some have to reach the files
    return Histories(place, number)


@pytest.fixture
def place_of_each_store(request: pytest.FixtureRequest) -> Place:
    return _place(request)


@pytest.fixture
def place_of_its_own(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A server that nobody else uses, and that may be killed: what it has acknowledged it has written."""
    kind, binary = request.param
    if kind == "Redis":
        with RedisServer(present(binary, kind), {"appendfsync": "always"}) as redis:
            yield RedisPlace(redis)
    else:
        with PostgresServer(present(binary, kind)) as postgres:
            yield PostgresPlace(postgres)
