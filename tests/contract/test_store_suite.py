"""Every store passes the conformance suite that we ship."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.frontier.store import Store
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.testing.stores.model import ModelStore

# Before the import below: a check that fails then shows the values that it compared.
from gossamer.testing.stores.suite import SLOTS, Check, checks, run


def model(_: Path) -> Callable[[], Store]:
    frontier = ModelStore(SLOTS)
    return lambda: frontier


def sqlite(directory: Path) -> Callable[[], Store]:
    return lambda: SqliteStore(directory / "frontier.db", SLOTS)


def name(value: Callable[..., object]) -> str:
    return value.__name__.removeprefix("test_")


@pytest.mark.parametrize("check", checks(), ids=name)
@pytest.mark.parametrize("frontier", [model, sqlite], ids=name)
def test_store(frontier: Callable[[Path], Callable[[], Store]], check: Check, tmp_path: Path) -> None:
    asyncio.run(run(check, frontier(tmp_path)))


def test_every_check_is_found_and_has_a_name_of_its_own() -> None:
    names = [name(check) for check in checks()]
    assert len(names) == len(set(names)) >= 80
