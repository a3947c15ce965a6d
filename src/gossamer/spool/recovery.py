"""What is done with the segments of the dead.

At the start, when nothing runs, in this order: the sinks' own recovery (it deletes the segments whose commit is
decided), then `return_claimed`, `recover_open`, `recover_ready`, `recover_lost`. While others run, for one dead parser:
the sinks' recovery for it, then `return_claimed`. For one dead fetcher: `recover_open`, and only when no late call of
it can reach the store any more.
"""

import contextlib
from pathlib import Path
from typing import Protocol

import msgspec

from gossamer.records import Result
from gossamer.spool.directory import SpoolDirectory, segments_in
from gossamer.spool.segment import DamagedSegment, SegmentReader, lease_numbers, seal
from gossamer.spool.suspects import Suspects


class SpoolIndex(Protocol):
    """What recovery needs of the store."""

    async def segments(self) -> dict[str, int]: ...

    async def spooled(self, segment: str) -> set[int]: ...

    async def unspool(self, segment: str) -> None: ...


class Recovered(msgspec.Struct, frozen=True):
    """How many segments were published, were deleted because the store never accepted them, and were damaged."""

    published: int = 0
    deleted: int = 0
    damaged: int = 0


async def recover_open(spool: SpoolDirectory, store: SpoolIndex, *, fetcher: int | None = None) -> Recovered:
    """Of one fetcher or of all: what the store has accepted is handed to the parsers, the rest is void or deleted."""
    published = deleted = damaged = 0
    for name in sorted(segments_in(spool.open)):
        if fetcher not in {None, name.fetcher}:
            continue
        path = spool.open / str(name)
        spooled = await store.spooled(name.id)
        if not spooled:
            path.unlink()
            deleted += 1
            continue
        try:
            seal(path, lease_numbers(path) - spooled)
        except DamagedSegment:
            # In this order: a death in between leaves a file that the store knows nothing of, which is deleted above.
            await store.unspool(name.id)
            spool.quarantine(path)
            damaged += 1
            continue
        spool.publish(path)
        published += 1
    return Recovered(published, deleted, damaged)


async def recover_ready(spool: SpoolDirectory, store: SpoolIndex, *, suspects: Suspects | None = None) -> int:
    """Put right what a power loss does to segments that wait for a parser; how many were deleted.

    A seal is not synced, so it may be missing: it is written again, from what the store knows. And the store may have
    forgotten a segment whose file is there: its URLs are fetched again, so their first answers must not be parsed. A
    segment that holds nothing but attempts, which no store knows, stays. `suspects` are left to the parsers.

    Only when nothing else runs, and no commit is undone: the store forgets finished segments, too.
    """
    known = await store.segments()
    deleted = 0
    for name in sorted(segments_in(spool.ready)):
        path = spool.ready / str(name)
        if name.id in known:
            if not _is_sealed(path):
                # One that is damaged otherwise is set aside by the parser that reads it.
                with contextlib.suppress(DamagedSegment):
                    seal(path, lease_numbers(path) - await store.spooled(name.id))
        elif not (suspects and name.id in suspects) and not _has_only_attempts(path):
            path.unlink()
            deleted += 1
    return deleted


async def recover_lost(spool: SpoolDirectory, store: SpoolIndex) -> list[str]:
    """Segments that the store knows and no file carries: their URLs go back.

    Only when nothing else runs: a segment on its way from one folder to the next could be missed.
    """
    folders = [spool.open, spool.ready, *spool.claimed_folders()]
    there = {name.id for folder in folders for name in segments_in(folder)}
    lost = sorted(set(await store.segments()) - there)
    for segment in lost:
        await store.unspool(segment)
    return lost


def _is_sealed(path: Path) -> bool:
    try:
        with SegmentReader(path):
            return True
    except DamagedSegment:
        return False


def _has_only_attempts(path: Path) -> bool:
    try:
        with SegmentReader(path) as segment:
            return all(outcome.result is Result.RETRY for outcome in iter(segment.next, None))
    except DamagedSegment:
        return False


def return_claimed(spool: SpoolDirectory, parser: str | None = None) -> int:
    """What one parser, or any, has claimed is ready again; how many segments. Those of decided commits must be gone."""
    returned = 0
    for folder in spool.claimed_folders():
        if parser in {None, folder.name}:
            for name in segments_in(folder):
                spool.publish(folder / str(name))
                returned += 1
            # What else may lie there is not ours, and stays.
            with contextlib.suppress(OSError):
                folder.rmdir()
    return returned
