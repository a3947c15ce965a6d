"""Fixtures that every kind of test may use."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.testing.server_binaries import ServerBinary, find_postgres_servers, find_redis_servers
from gossamer.testing.servers import PostgresServer, RedisServer

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


#: Each of these needs a real server; a test that asks for one is marked `servers` without saying so itself.
REDIS_FIXTURES = {"redis_binary", "redis_server"}
POSTGRES_FIXTURES = {"postgres_binary", "postgres_server"}


@functools.cache
def redis_binaries() -> tuple[ServerBinary, ...]:
    return tuple(find_redis_servers())


@functools.cache
def postgres_binaries() -> tuple[ServerBinary, ...]:
    return tuple(find_postgres_servers())


def present(binary: ServerBinary | None, kind: str) -> ServerBinary:
    if binary is not None:
        return binary
    reason = f"there is no {kind} server: ./check says how to get one"
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(f"{reason} (with CI set this is a failure)")
    pytest.skip(reason)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `redis_binary` or `postgres_binary` runs once for each that this machine has."""
    for name, find in (("redis_binary", redis_binaries), ("postgres_binary", postgres_binaries)):
        if name in metafunc.fixturenames:
            found: tuple[ServerBinary | None, ...] = find() or (None,)
            names = [f"{binary.product}-{binary.version}" if binary else "missing" for binary in found]
            metafunc.parametrize(name, found, ids=names, indirect=True)


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
def redis_server() -> Iterator[RedisServer]:
    """The preferred Redis, shared by all tests of the session: leave it running, and clear what you wrote."""
    with RedisServer(present(next(iter(redis_binaries()), None), "Redis")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The preferred PostgreSQL, shared by all tests of the session: leave it running, and drop what you made."""
    with PostgresServer(present(next(iter(postgres_binaries()), None), "PostgreSQL")) as server:
        yield server
