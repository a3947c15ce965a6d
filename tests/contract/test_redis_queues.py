"""Long queues of the store on Redis: their tails stand in files, and nothing of them is lost on the way."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.stores import redis_queues
from gossamer.frontier.stores.redis import RedisStore
from gossamer.records import Reason, Release, SiteClock
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import RedisServer
from tests.contract.redis_stores import (
    LATE,
    NO_LIMITS,
    SLOTS,
    client,
    drain,
    lease,
    link,
    make,
    moved,
    with_store,
    work_off,
)


@pytest.fixture
def server(redis_binary: ServerBinary) -> Iterator[RedisServer]:
    """One of its own, which a test may stop, fill and empty."""
    with RedisServer(redis_binary, {"enable-debug-command": "local"}) as running:
        yield running


def queue_bytes(admin: Any) -> int:
    kinds = ("q:*", "blocks", "unmoved", "files", "long")
    keys = [key for kind in kinds for key in admin.scan_iter("{g:abc:*}:" + kind, 1000)]
    return sum(admin.memory_usage(key, 0) or 0 for key in keys)


def test_a_queue_beyond_its_share_of_memory_stands_in_files(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        candidates = [link(number) for number in range(50_000)]
        await store.admit(candidates, NO_LIMITS, now=0.0)
        with client(server) as admin:
            before = queue_bytes(admin)
            await lease(store, LATE, 1)
            await moved(store)
            after = queue_bytes(admin)
        assert before > 50_000 * 60
        assert after < before / 20
        assert sum(path.stat().st_size for path in (tmp_path / "queues").iterdir()) > 48_000 * 60
        counts = await store.counts(now=LATE)
        assert (counts.queued, counts.leased, counts.sites_waiting) == (49_999, 1, 0)

    with_store(make(server, tmp_path, in_memory=1_000), work)


@pytest.mark.parametrize("file_bytes", [redis_queues.FILE_BYTES, 1], ids=["one-file", "a-file-for-each-block"])
def test_a_queue_in_files_keeps_its_order_and_its_files_go_when_it_is_worked_off(
    server: RedisServer, tmp_path: Path, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_queues, "FILE_BYTES", file_bytes)

    async def work(store: RedisStore) -> None:
        candidates = [link(number) for number in range(600)]
        for begin in range(0, 600, 150):
            await store.admit(candidates[begin : begin + 150], NO_LIMITS, now=0.0)
            await store.own("fetcher", range(SLOTS), now=LATE, until=2 * LATE, delay_seconds=1)
            await moved(store)
        assert list((tmp_path / "queues").iterdir())
        assert await drain(store) == [candidate.url for candidate in candidates]
        await moved(store)
        await store.own("fetcher", range(SLOTS), now=2 * LATE, until=3 * LATE, delay_seconds=1)
        await moved(store)
        assert list((tmp_path / "queues").iterdir()) == []
        with client(server) as admin:
            assert queue_bytes(admin) == 0

    with_store(make(server, tmp_path, in_memory=100), work)


@pytest.mark.parametrize("step", ["read_block", "swap"])
def test_death_between_the_steps_of_moving_a_queue_loses_nothing(
    server: RedisServer, tmp_path: Path, step: str
) -> None:
    candidates = [link(number) for number in range(500)]

    async def dying(store: RedisStore) -> None:
        await store.admit(candidates, NO_LIMITS, now=0.0)
        run = store._server.run

        async def run_until(verb: str, script: str, *others: Any, **more: Any) -> Any:
            if script == step:
                raise GossamerError("killed here")
            return await run(verb, script, *others, **more)

        store._server.run = run_until  # type: ignore[method-assign]
        await store.own("dead", range(SLOTS), now=0.0, until=1.0, delay_seconds=1)
        await moved(store)
        with client(server) as admin:
            assert list(admin.scan_iter("{g:abc:*}:unmoved"))

    async def next_owner(store: RedisStore) -> None:
        await store.own("fetcher", range(SLOTS), now=10.0, until=1e9, delay_seconds=1)
        await moved(store)
        with client(server) as admin:
            assert not list(admin.scan_iter("{g:abc:*}:unmoved"))
            used = {name for key in admin.scan_iter("{g:abc:*}:files") for name in admin.hkeys(key)}
        assert {path.name.encode() for path in (tmp_path / "queues").iterdir()} == used != set()
        assert await drain(store) == [candidate.url for candidate in candidates]

    with_store(make(server, tmp_path, in_memory=100), dying)
    with_store(make(server, tmp_path, in_memory=100), next_owner)


def test_what_was_cut_and_never_written_is_leased_from_memory(server: RedisServer, tmp_path: Path) -> None:
    candidates = [link(number) for number in range(300)]

    async def work(store: RedisStore) -> None:
        await store.admit(candidates, NO_LIMITS, now=0.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redis_queues, "_append", _no_room)
            assert await drain(store) == [candidate.url for candidate in candidates]

    with_store(make(server, tmp_path, in_memory=100), work)
    assert not (tmp_path / "queues").exists()


def _no_room(*_: object) -> list[Any]:
    raise OSError(28, "No space left on device")


def test_a_late_owner_cannot_point_to_a_file_that_the_next_one_may_have_removed(
    server: RedisServer, tmp_path: Path
) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(number) for number in range(300)], NO_LIMITS, now=0.0)
        slot = next(iter(await lease(store, LATE, 1))).slot
        await moved(store)
        with client(server) as admin:
            files = admin.hgetall(f"{{g:abc:{slot}}}:files")
            admin.hset(f"{{g:abc:{slot}}}:blocks", "77", b"Bentries")
            header = [store._headers[slot]]
            words = (b"x.queue", b"77", b"0", b"9")
            assert await store._server.run("own", "swap", header, b"0", *words) == 0
            assert admin.hgetall(f"{{g:abc:{slot}}}:files") == files
            assert await store._server.run("own", "swap", header, b"1", *words) == 1

    with_store(make(server, tmp_path, in_memory=100), work)


@pytest.mark.parametrize("harm", ["missing", "short", "changed"])
def test_a_file_of_a_queue_that_cannot_be_read_is_named(server: RedisServer, tmp_path: Path, harm: str) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(number) for number in range(300)], NO_LIMITS, now=0.0)
        await work_off(store, await lease(store, LATE, 1))
        await moved(store)
        (path,) = (tmp_path / "queues").iterdir()
        content = path.read_bytes()
        if harm == "missing":
            path.unlink()
        else:
            path.write_bytes(content[:100] if harm == "short" else b"x".join([content[:50], content[51:]]))
        with pytest.raises(StoreUnavailable, match=path.name):
            await drain(store, 2 * LATE)

    with_store(make(server, tmp_path, in_memory=100), work)


def test_giving_up_a_site_gives_up_what_stands_in_files(server: RedisServer, tmp_path: Path) -> None:
    async def work(store: RedisStore) -> None:
        await store.admit([link(number) for number in range(1_000)], NO_LIMITS, now=0.0)
        (given,) = await lease(store, LATE, 1)
        await moved(store)
        await store.release([Release(given, True, 0.0, SiteClock(), Reason.SITE_FAILING)])
        counts = await store.counts(now=LATE)
        assert (counts.outcomes, counts.queued) == ({Reason.SITE_FAILING: 999}, 0)
        await lease(store, 2 * LATE)
        await moved(store)
        assert list((tmp_path / "queues").iterdir()) == []
        with client(server) as admin:
            assert queue_bytes(admin) == 0

    with_store(make(server, tmp_path, in_memory=100), work)


@pytest.mark.parametrize("is_reply_lost", [False, True])
def test_a_survey_that_is_outdated_removes_no_file_that_is_wanted(
    server: RedisServer, tmp_path: Path, is_reply_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slots were lost and taken again since; or the answer that pointers were made has not arrived."""
    candidates = [link(number) for number in range(300)]

    async def work(store: RedisStore) -> None:
        real = store._server.run
        is_at_it, is_over = asyncio.Event(), asyncio.Event()

        async def run(verb: str, script: str, keys: list[bytes], *arguments: bytes, **others: Any) -> Any:
            answer = await real(verb, script, keys, *arguments, **others)
            if script == "swap" and is_reply_lost:
                return await real(verb, script, keys, *arguments, **others)
            if script == "read_block" and not is_reply_lost and not is_at_it.is_set():
                is_at_it.set()
                await is_over.wait()
            return answer

        monkeypatch.setattr(store._server, "run", run)
        await store.admit(candidates, NO_LIMITS, now=0.0)
        await store.own("first", range(SLOTS), now=LATE, until=2 * LATE, delay_seconds=1)
        if not is_reply_lost:
            await is_at_it.wait()
            await store.disown("first")
            another = make(server, tmp_path, in_memory=100)
            await another.open()
            await another.own("second", range(SLOTS), now=LATE, until=2 * LATE, delay_seconds=1)
            await moved(another)
            await another.disown("second")
            await another.close()
            await store.own("first", range(SLOTS), now=LATE, until=2 * LATE, delay_seconds=1)
            is_over.set()
        await moved(store)
        assert list((tmp_path / "queues").iterdir()) != []
        await store.disown("first")
        assert await drain(store) == [candidate.url for candidate in candidates]

    with_store(make(server, tmp_path, in_memory=100), work)
