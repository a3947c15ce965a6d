"""The tails of long queues, in files: so that one site with a million URLs does not fill the server's memory.

    queue in Redis        entry entry … entry  reference reference … reference  entry entry
                                                   │         │           └ block in a file
                                                   │         └ block in a file
                                                   └ block in Redis, until it is written

A block is some hundred entries from the tail of a queue. The owner of the slot cuts it off (a script puts a reference
in its place), appends it to a file, brings that to the disk, and then has a script swap the block for a pointer to it.
Death at any point loses nothing: the block or a pointer to it is in Redis at every moment. When a reference comes to
the head of its queue, whoever leases reads the block and puts it back.

A file is written by one handle, under one epoch of one slot, and only grows. When no pointer leads to it any more, the
owner removes it; under an older epoch no pointer to it can be made, so nothing can be lost by that.
"""

import asyncio
import logging
import os
import re
import secrets
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from gossamer.disk import sync
from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.stores.redis_keys import key_in_slot
from gossamer.frontier.stores.redis_pool import Reply
from gossamer.frontier.stores.redis_server import RedisServer

#: Entries of a block: some 100 KiB, which a script moves in a millisecond.
BLOCK_ENTRIES = 1_000
#: Blocks that are written between two fsyncs.
BLOCKS_AT_ONCE = 16
#: A file that is larger gets no more blocks, so that its place is free again before the whole queue is worked off.
FILE_BYTES = 64 << 20

_FRAME = struct.Struct("<II")
_POINTER = struct.Struct("<dd")
#: Slot, epoch, and what tells the files of handles and times apart.
_NAME = re.compile(r"(\d+)-(\d+)-[0-9a-f]+\.queue")

T = TypeVar("T")

_LOG = logging.getLogger("gossamer.frontier")


class _Damaged(Exception):  # noqa: N818 (it says what is the matter)
    """A block cannot be read; the text says which and why."""


class _Written(NamedTuple):
    """Where a block stands in its file, its frame included."""

    begin: int
    size_bytes: int


class Queues:
    """The files of one process. `serve` is called by `own`, `put_in_place` by `lease`, `read` by `find`.

    At most one task moves blocks at a time, and only those of slots that this process owns.
    """

    def __init__(self, server: RedisServer, headers: Sequence[bytes], directory: Path, in_memory: int) -> None:
        self._server = server
        self._headers = headers
        self._directory = directory
        self._block_entries = max(1, min(BLOCK_ENTRIES, in_memory // 2))
        # When a queue has become too long it is cut to half of that, so that it is not cut again at once.
        self._most = max(1, in_memory // 2)
        self._owned: dict[int, int] = {}
        self._files: dict[int, str] = {}
        """By slot, the one that gets its next blocks."""
        self._made: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def serve(self, owned: Mapping[int, int]) -> None:
        """See to the queues of these slots, with their epochs, in the background."""
        self._owned.update(owned)
        if self._owned and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._look_after_all())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _look_after_all(self) -> None:
        try:
            slots = [*self._owned]
            surveys = await self._server.run("own", "survey", [self._headers[slot] for slot in slots])
            for slot, (epoch, sites, unmoved, files) in zip(slots, surveys, strict=True):
                if epoch != self._owned.get(slot):
                    self._owned.pop(slot, None)
                else:
                    used = {file.decode() for file in files}
                    await self._look_after(slot, epoch, sites, list(map(int, unmoved)), used)
        except (GossamerError, OSError) as error:
            # Whatever was not moved stays in Redis and is found there the next time. If the store is gone, the next
            # verb says so to somebody who can act on it.
            _LOG.warning("long queues stay in memory for now: %s", error)

    async def _look_after(
        self, slot: int, epoch: int, sites: Sequence[bytes], unmoved: list[int], files: set[str]
    ) -> None:
        """Under the epoch of the survey, whatever has become of the slot since: what it told holds for that one."""
        for site in sites:
            while True:
                block = await self._server.run(
                    "own",
                    "cut",
                    [self._headers[slot]],
                    site,
                    b"%d" % self._block_entries,
                    b"%d" % self._most,
                )
                if not block:
                    break
                unmoved.append(block)
                if len(unmoved) >= BLOCKS_AT_ONCE:
                    files |= await self._move(slot, epoch, unmoved)
                    unmoved.clear()
        for begin in range(0, len(unmoved), BLOCKS_AT_ONCE):
            files |= await self._move(slot, epoch, unmoved[begin : begin + BLOCKS_AT_ONCE])
        await _in_thread(lambda: self._remove_unused(slot, epoch, files))

    async def _move(self, slot: int, epoch: int, numbers: Sequence[int]) -> set[str]:
        """Blocks to the file of this slot; its name if a pointer may lead to it now."""
        blocks = {}
        for number in numbers:
            block = await self._server.run("own", "read_block", [self._headers[slot]], b"%d" % number)
            if block is not None:
                blocks[number] = block
        if not blocks:
            return set()
        name = self._files.get(slot, "")
        if not name.startswith(f"{slot}-{epoch}-"):
            name = self._files[slot] = f"{slot}-{epoch}-{secrets.token_hex(8)}.queue"
            self._made.add(name)
        written = await _in_thread(lambda: _append(self._directory / name, [*blocks.values()]))
        words = [
            b"%d" % number
            for block, place in zip(blocks, written, strict=True)
            for number in (block, place.begin, place.size_bytes)
        ]
        await self._server.run("own", "swap", [self._headers[slot]], b"%d" % epoch, name.encode(), *words)
        if written[-1].begin > FILE_BYTES:
            del self._files[slot]
        # How many were swapped is not asked: that may have been told by an answer that was lost.
        return {name}

    def _remove_unused(self, slot: int, epoch: int, used: set[str]) -> None:
        """Files of this slot that no pointer leads to: of older epochs, under which none can be made any more, and our
        own. Those of newer epochs are another's, or none of this survey's business."""
        if not self._directory.is_dir():
            return
        for path in self._directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is None or int(match[1]) != slot or path.name in used:
                continue
            if int(match[2]) < epoch or (int(match[2]) == epoch and path.name in self._made):
                path.unlink(missing_ok=True)
                self._made.discard(path.name)
                if path.name == self._files.get(slot):
                    del self._files[slot]

    async def put_in_place(self, slots: Sequence[int], needed: Sequence[Reply], tried: dict[bytes, int]) -> None:
        """Blocks that lease.lua asked for. `tried` is what this verb could not read so far.

        A file may be gone because somebody else has put its last block in place meanwhile; then lease.lua does not ask
        again. If it does, the block is lost.
        """
        for place, site, number, where in zip(*(needed[field::4] for field in range(4)), strict=True):
            try:
                entries = await _in_thread(lambda where=where: _read(self._directory, where))  # type: ignore[misc]
            except (OSError, _Damaged) as error:
                tried[where] = tried.get(where, 0) + 1
                if tried[where] > 1:
                    raise self._lost(site.decode(), error) from error
                continue
            await self._server.run(
                "lease", "put_in_place", [self._headers[slots[place - 1]]], site, b"%d" % number, entries
            )

    async def read(self, slot: int, site: str, number: int) -> bytes | None:
        """The entries of a block, wherever it stands; None if it is none any more."""
        key = key_in_slot(self._server.crawl, slot, b"blocks")
        tried = None
        while True:
            block = await self._server.ask("find", b"HGET", key, b"%d" % number)
            if block is None or block.startswith(b"B"):
                return None if block is None else block[1:]
            try:
                return await _in_thread(lambda block=block: _read(self._directory, block[1:]))  # type: ignore[misc]
            except (OSError, _Damaged) as error:
                # Its file may be gone because somebody has put the block in place since.
                if block == tried:
                    raise self._lost(site, error) from error
                tried = block

    def _lost(self, site: str, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"a part of the queue of {site} cannot be read: {error}; bring the directory"
            f" {self._directory} back from a backup that was made together with that of the server"
        )


async def _in_thread(work: Callable[[], T]) -> T:
    """Not left before it has ended, also when cancelled: it may be in the middle of a file."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _append(path: Path, blocks: Sequence[bytes]) -> list[_Written]:
    """On the disk when it returns. What an earlier attempt left unfinished at the end of the file stays there."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync(path.parent.parent)
    is_new = not path.exists()
    frames = [_FRAME.pack(len(block), zlib.crc32(block)) + block for block in blocks]
    with path.open("ab") as file:
        begin = file.tell()
        file.write(b"".join(frames))
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync(path.parent)
    written = []
    for frame in frames:
        written.append(_Written(begin, len(frame)))
        begin += len(frame)
    return written


def _read(directory: Path, where: bytes) -> bytes:
    """The entries of the block that a pointer leads to."""
    begin, size_bytes = map(int, _POINTER.unpack_from(where))
    name = where[_POINTER.size :].decode(errors="replace")
    if _NAME.fullmatch(name) is None:
        raise _Damaged(f"{name!r} is no file of ours")
    path = directory / name
    with path.open("rb") as file:
        file.seek(begin)
        frame = file.read(size_bytes)
    if len(frame) != size_bytes or size_bytes < _FRAME.size:
        raise _Damaged(f"{path} ends before byte {begin + size_bytes}")
    length, checksum = _FRAME.unpack_from(frame)
    block = frame[_FRAME.size :]
    if (length, checksum) != (len(block), zlib.crc32(block)):
        raise _Damaged(f"{path} is damaged at byte {begin}")
    return block
