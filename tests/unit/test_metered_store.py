"""Calls to the store are timed, and those that take long are named in the log with who waits for them."""

import asyncio
import logging
import re
from pathlib import Path

import pytest

from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores import slowness
from gossamer.frontier.stores.slowness import note_held, verb_in_work
from gossamer.report.counters import SUFFIX, Counters, histogram_slot, read, slot
from gossamer.report.metrics import CALL_SECONDS, OWN_TROUBLES, OwnTrouble
from gossamer.run.metered_store import MeteredStore
from gossamer.run.meters import StoreCounting
from gossamer.testing.stores.model import ModelStore


class Failing(ModelStore):
    """The verb fails, and took its time all the same."""

    async def now(self) -> float:
        raise StoreUnavailable("gone")


async def committer(store: MeteredStore) -> None:
    await store.finish([])


def calls(values: list[float], verb: str) -> float:
    place = histogram_slot(CALL_SECONDS, verb)
    return sum(values[place.first : place.sum])


def test_every_call_is_counted_under_its_verb_and_a_failed_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slowness, "SLOW_SECONDS", 1e6)
    path = tmp_path / f"fetcher-0{SUFFIX}"
    store = MeteredStore(Failing(slots=4), StoreCounting(Counters(path)))

    async def use() -> None:
        await store.finish([])
        await store.release([])
        await store.release([])
        await store.load_robots([])
        await store.save_robots([])
        with pytest.raises(StoreUnavailable):
            await store.now()

    asyncio.run(use())
    values = read(path)
    assert values is not None
    assert {verb: calls(values, verb) for verb in ("finish", "release", "robots", "other", "lease")} == {
        "finish": 1,
        "release": 2,
        "robots": 2,
        "other": 1,
        "lease": 0,
    }
    assert values[slot(OWN_TROUBLES, OwnTrouble.SLOW_CALL)] == 0


def test_a_slow_call_is_named_with_its_caller_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slowness, "SLOW_SECONDS", -1.0)
    path = tmp_path / f"fetcher-0{SUFFIX}"
    with caplog.at_level(logging.WARNING):
        asyncio.run(committer(MeteredStore(ModelStore(slots=4), StoreCounting(Counters(path)))))
    (record,) = caplog.records
    assert re.fullmatch(
        rf"the store's finish took \d+\.\d s, called by {re.escape(__name__)}\.committer, line \d+", record.getMessage()
    )
    values = read(path)
    assert values is not None
    assert values[slot(OWN_TROUBLES, OwnTrouble.SLOW_CALL)] == 1


def test_a_connection_that_is_held_for_long_is_named_with_its_verb_and_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def holder() -> None:
        verb_in_work.set("lease")
        note_held(float("-inf"))

    with caplog.at_level(logging.WARNING):
        holder()
    (record,) = caplog.records
    assert re.fullmatch(
        rf"lease held its connection for inf s, called by {re.escape(__name__)}\.holder, line \d+", record.getMessage()
    )
