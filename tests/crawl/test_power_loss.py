"""The machine loses its power: what was not synced is gone, of the crawl and of its store alike.

Crawl and server run on a disk of their own (`gossamer.testing.loop_disk`). At some moment all of them are stopped, and
what has reached the disk is kept; they are killed, the disk is set back to that, and the crawl is resumed.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gossamer.frontier.store import Counts
from gossamer.run.data_directory import DataDirectory
from gossamer.testing.guard import children
from gossamer.testing.loop_disk import DiskUnavailable, LoopDisk
from gossamer.testing.nemesis.checker import Findings, Forgiven, check
from gossamer.testing.nemesis.stores import AttackedStore, EmbeddedStore, PostgresUnderAttack, RedisUnderAttack
from gossamer.testing.servers import PostgresServer, RedisServer
from gossamer.testing.web.graph import Web
from tests.conftest import postgres_binaries, present, redis_binaries
from tests.crawl.conftest import STORES_VARIABLE, Crawls, crawls_of, on_server
from tests.crawl.test_deaths import until
from tests.crawl.test_stopping import until_pages_are_fetched

#: Longer than the restart of a crawl takes: a gap that was forgotten shows.
DELAY_SECONDS = 4.0
WEB = Web(sites=60, pages=4, links_per_page=20, median_bytes=4_000, https_share=0.2, crawl_delay_seconds=DELAY_SECONDS)
#: After how many requests, of some 280, the power is lost.
MOMENTS = [150] if STORES_VARIABLE not in os.environ else [5, 60, 100, 150, 180, 210]
#: The kernel writes data by itself when it is 30 s old.
YOUNG_SECONDS = 25.0
#: Of servers that sync before they answer.
DURABLE = {"redis": {"appendfsync": "always"}, "postgresql": {"fsync": "on"}}


@pytest.fixture
def disk() -> Iterator[LoopDisk]:
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(LoopDisk())
        except DiskUnavailable as error:
            pytest.skip(f"no disk whose power could be lost can be made here: {error}")
        yield disk


@contextlib.contextmanager
def store_on(disk: LoopDisk, kind: str, settings: Mapping[str, str]) -> Iterator[AttackedStore]:
    if kind == "sqlite":
        yield EmbeddedStore()
    elif kind == "redis":
        binary = present(next(iter(redis_binaries()), None), "Redis")
        with RedisServer(binary, settings, parent=disk.path) as redis:
            yield RedisUnderAttack(redis)
    else:
        binary = present(next(iter(postgres_binaries()), None), "PostgreSQL")
        with PostgresServer(binary, settings, parent=disk.path) as postgres:
            yield PostgresUnderAttack(postgres)


def stop(pid: int) -> list[int]:
    """A process and all that it has started stand still; their numbers, the first first."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    return [pid, *(one for child in children(pid) for one in stop(child))]


def tell(pids: list[int], what: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


class Machine:
    """A crawl, its store and their disk."""

    def __init__(self, disk: LoopDisk, store: AttackedStore, crawls: Crawls) -> None:
        self.disk = disk
        self.store = store
        self.crawls = crawls
        disk.sync()
        self._synced_at = time.monotonic()

    @property
    def data(self) -> DataDirectory:
        return DataDirectory(self.crawls.data)

    def start(self, *flags: str) -> subprocess.Popen[str]:
        return self.crawls.start("--num-fetcher-processes=2", "--num-parser-processes=2", *flags, delay=DELAY_SECONDS)

    def sync(self, running: subprocess.Popen[str]) -> None:
        """As the kernel does now and then: all that was written so far is on the disk."""
        stopped = self._stop(running)
        self.disk.sync()
        self._synced_at = time.monotonic()
        tell(stopped, signal.SIGCONT)

    def skip_if_old(self) -> None:
        """For a test that needs something to be lost."""
        if time.monotonic() - self._synced_at > YOUNG_SECONDS:
            pytest.skip("this machine is too slow: the kernel may have synced by itself what was to be lost")

    def lose_power(self, running: subprocess.Popen[str]) -> Counts:
        """And get it back. What the store knows then."""
        stopped = self._stop(running)
        self.disk.keep()
        if self.store.server is not None:
            self.store.server.kill()
        tell(stopped, signal.SIGKILL)
        running.communicate()
        until(lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in stopped), "they do not die")
        self.disk.lose_power()
        if self.store.server is not None:
            self.store.server.restart()
        return self.store.counts(self.data)

    def _stop(self, running: subprocess.Popen[str]) -> list[int]:
        stopped = stop(running.pid)
        if self.store.server is not None:
            stopped += stop(self.store.server.pid)
        return stopped

    def judge(self, *, repeats: int, deaths: int) -> Findings:
        return check(
            self.crawls.data,
            self.crawls.requests(),
            self.crawls.graph,
            self.store.counts(self.data),
            delay_seconds=DELAY_SECONDS,
            forgiven=Forgiven(repeats=repeats, fetcher_deaths=deaths),
        )


@contextlib.contextmanager
def machine(disk: LoopDisk, directory: Path, kind: str, settings: Mapping[str, str]) -> Iterator[Machine]:
    with (
        store_on(disk, kind, settings) as store,
        crawls_of(WEB, directory, store.url, disk=disk.path) as crawls,
    ):
        yield Machine(disk, store, crawls)


def committed(crawls: Crawls) -> int:
    return len(list((crawls.data / "pages").glob("*.parquet")))


def test_the_disk_keeps_what_was_synced_and_nothing_else(disk: LoopDisk) -> None:
    """Otherwise the tests below would show nothing."""
    with (disk.path / "synced").open("wb") as file:
        file.write(b"kept")
        file.flush()
        os.fsync(file.fileno())
    (disk.path / "unsynced").write_bytes(b"lost")
    with (disk.path / "synced").open("ab") as file:
        file.write(b" and lost")
    disk.keep()
    disk.lose_power()
    assert (disk.path / "synced").read_bytes() == b"kept"
    assert not (disk.path / "unsynced").exists()


@pytest.mark.parametrize("requests", MOMENTS)
@pytest.mark.parametrize("kind", [on_server("sqlite"), on_server("redis"), on_server("postgresql")])
def test_a_durable_crawl_loses_by_a_power_loss_no_more_than_what_was_in_flight(
    disk: LoopDisk, tmp_path: Path, kind: str, requests: int
) -> None:
    """No URL lost, no page missing or there twice, no gap too short; nothing asked for again that was not leased."""
    with machine(disk, tmp_path, kind, DURABLE.get(kind, {})) as here:
        running = here.start("--durable", "--commit-pages=20")
        until_pages_are_fetched(here.crawls, requests, running)
        leased = here.lose_power(running).leased
        assert here.crawls.resume()["stop_reason"] == "exhausted"
        findings = here.judge(repeats=leased, deaths=2)
        assert findings.is_clean, findings


def test_a_crawl_that_is_not_durable_has_each_page_once_and_asks_again_for_what_was_not_committed(
    disk: LoopDisk, tmp_path: Path
) -> None:
    """The setting makes the difference; and the test above can fail."""
    with machine(disk, tmp_path, "sqlite", {}) as here:
        running = here.start("--commit-pages=100000", "--commit-interval=3600")
        until_pages_are_fetched(here.crawls, 150, running)
        leased = here.lose_power(running).leased
        here.skip_if_old()
        assert here.crawls.resume()["stop_reason"] == "exhausted"
        findings = here.judge(repeats=1_000, deaths=2)
        assert findings.repeats > leased
        lost = (findings.urls_lost, findings.pages_missing, findings.pages_doubled, findings.pages_unexpected)
        assert lost == (0, 0, 0, 0), findings


#: Stands for a store that says it has synced and has not, in every process of the crawl.
LIAR = """
from gossamer.frontier.stores import sqlite

sqlite.sync = lambda path: None
"""


def test_pages_come_twice_when_the_store_forgets_what_was_committed(
    disk: LoopDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sync before each commit is for; and the checker sees it."""
    (tmp_path / "liar").mkdir()
    (tmp_path / "liar" / "sitecustomize.py").write_text(LIAR)
    path = os.pathsep.join(filter(None, (str(tmp_path / "liar"), os.environ.get("PYTHONPATH"))))
    with machine(disk, tmp_path, "sqlite", {}) as here:
        monkeypatch.setenv("PYTHONPATH", path)
        running = here.start("--commit-pages=20")
        until_pages_are_fetched(here.crawls, 70, running)
        here.sync(running)
        before = committed(here.crawls)
        until(lambda: committed(here.crawls) > before + 2, "nothing is committed")
        here.lose_power(running)
        here.skip_if_old()
        assert here.crawls.resume()["stop_reason"] == "exhausted"
        assert here.judge(repeats=1_000, deaths=2).pages_doubled > 0
