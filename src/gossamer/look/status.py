"""Where a crawl stands: whether it runs, what its store counts, what waits in the spool, what is on the disk.

If the store does not answer, its counts are taken from the tables as far as these go.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from gossamer.config import Settings
from gossamer.errors import StoreUnavailable
from gossamer.frontier.store import Store
from gossamer.look.tables import Tables
from gossamer.report.dashboard.addresses import read_addresses
from gossamer.run.data_directory import DataDirectory, PausedBy
from gossamer.run.stores import open_reader
from gossamer.spool.directory import Backlog, SpoolDirectory
from gossamer.url import redacted

#: What a person waits for a store that does not answer, before the files are asked instead.
PATIENCE_SECONDS = 10.0
#: What is added up of the data directory, under these names.
FOLDERS = {"warc": ("warc",), "index": ("index",), "pages": ("pages",), "log": ("log",), "spool": ("spool",)}
FRONTIER = ("frontier.db*", "queues")


class DiskUse(msgspec.Struct, frozen=True):
    """Of one folder, with all in it."""

    files: int
    bytes: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a crawl has come; None is what only the store knows. Over all of its runs."""

    pages: int = 0
    admitted: int | None = None
    finished: int | None = None
    queued: int | None = None
    leased: int | None = None
    spooled: int | None = None
    sites: int | None = None
    sites_ready: int | None = None
    """With something queued, and due; those that wait for their time are `sites_cooling`."""
    sites_cooling: int | None = None
    sites_busy: int | None = None
    received_bytes: int = 0
    outcomes: dict[str, int] = {}
    """Finished URLs by reason."""
    retries: dict[str, int] = {}
    """How often one went back to its queue, by reason."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `gossamer status` shows; `--json` prints it as it is."""

    data_directory: str
    is_running: bool
    paused_by: PausedBy | None
    """`dashboard` or `disk`, while it is paused; None if it is not, or does not run."""
    leader: int | None
    """Of the last run; None if there was none."""
    stragglers: int
    """Processes that are still there although their leader is not."""
    dashboard: str | None
    """Where a crawl that runs has its dashboard, and its metrics; None if it has none."""
    metrics: str | None
    run: int | None
    store: str
    store_error: str | None
    """Why the store was not asked; then `progress` is what the files say."""
    max_pages: int
    """Over all runs; 0 is no limit."""
    progress: Progress
    backlog: Backlog
    """What waits in the spool for a parser."""
    disk: dict[str, DiskUse]


@contextlib.asynccontextmanager
async def reading(data: DataDirectory, settings: Settings) -> AsyncIterator[Store]:
    """The crawl's store, for reading alone. Raises StoreUnavailable also where it would have to be waited for."""
    store = open_reader(data, settings)
    try:
        async with _patience(settings):
            await store.open()
        yield store
    finally:
        await store.close()


async def look(data: DataDirectory, settings: Settings) -> Status:
    """At this moment."""
    last, there = data.processes(), data.running()
    leader = None if last is None else last.leader
    addresses = read_addresses(data.root) if leader in there else None
    error = None
    try:
        progress = await _from_store(data, settings)
    except StoreUnavailable as unavailable:
        error = str(unavailable)
        progress = _from_files(data.root)
    return Status(
        data_directory=str(data.root),
        is_running=leader in there,
        paused_by=data.paused_by(),
        leader=leader,
        stragglers=0 if leader in there else len(there),
        dashboard=None if addresses is None else addresses.dashboard,
        metrics=None if addresses is None else addresses.metrics,
        run=last.run or None if last is not None else None,
        store=redacted(settings.frontier.store),
        store_error=error,
        max_pages=settings.run.max_pages,
        progress=progress,
        backlog=_backlog(data),
        disk=_disk(data.root),
    )


@contextlib.asynccontextmanager
async def _patience(settings: Settings) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except TimeoutError:
        raise StoreUnavailable(
            f"{redacted(settings.frontier.store)} does not answer within {PATIENCE_SECONDS:g} s"
        ) from None


async def _from_store(data: DataDirectory, settings: Settings) -> Progress:
    async with reading(data, settings) as store, _patience(settings):
        counts = await store.counts(now=await store.now())
    return Progress(
        pages=counts.pages,
        admitted=counts.admitted,
        finished=counts.finished,
        queued=counts.queued,
        leased=counts.leased,
        spooled=counts.spooled,
        sites=counts.sites,
        sites_ready=counts.sites_ready,
        sites_cooling=counts.sites_waiting - counts.sites_ready,
        sites_busy=counts.sites_busy,
        received_bytes=counts.received_bytes,
        outcomes=dict(sorted(counts.outcomes.items())),
        retries=dict(sorted(counts.retries.items())),
    )


def _from_files(root: Path) -> Progress:
    """Redirects are what was done without a failure and is no page."""
    with Tables(root) as tables:
        ((pages, page_bytes),) = tables.query("SELECT count(*), coalesce(sum(received_bytes), 0) FROM pages").rows
        rows = list(
            tables.query(
                "SELECT outcome, coalesce(failure_kind, if(status < 300, 'page', 'redirect')) AS word, count(*),"
                " coalesce(sum(bytes), 0) FROM fetches WHERE kind = 'url' GROUP BY ALL ORDER BY ALL"
            ).rows
        )
    outcomes: dict[str, int] = {}
    for outcome, word, count, _ in rows:
        if outcome != "retry":
            outcomes[word] = outcomes.get(word, 0) + count
    return Progress(
        pages=pages or outcomes.get("page", 0),
        finished=sum(outcomes.values()) or None,
        received_bytes=sum(size for outcome, *_, size in rows if outcome != "retry") if rows else page_bytes,
        outcomes=outcomes,
        retries={word: count for outcome, word, count, _ in rows if outcome == "retry"},
    )


def _backlog(data: DataDirectory) -> Backlog:
    spool = SpoolDirectory(data.spool)
    return spool.backlog() if spool.ready.is_dir() else Backlog(0, 0)


def _disk(root: Path) -> dict[str, DiskUse]:
    used = {name: _use(root / folder for folder in folders) for name, folders in FOLDERS.items()}
    return used | {"frontier": _use(path for pattern in FRONTIER for path in root.glob(pattern))}


def _use(paths: Iterator[Path]) -> DiskUse:
    sizes = [size for path in paths for size in _sizes(path)]
    return DiskUse(len(sizes), sum(sizes))


def _sizes(path: Path) -> Iterator[int]:
    """Of a file, or of all in a folder. What is gone by now, or is not ours to see, does not count."""
    with contextlib.suppress(OSError):
        if not path.is_dir():
            yield path.stat().st_size
            return
        with os.scandir(path) as entries:
            for entry in list(entries):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        yield from _sizes(Path(entry.path))
                    else:
                        yield entry.stat(follow_symlinks=False).st_size
