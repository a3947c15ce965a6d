"""What the rules kept out, remembered within bounds: how often each rule did, and of which URLs lately.

    refused = RefusedLinks(path)                                    one process writes its own file
    refused.note(url.fingerprint, Reason.DEPTH, depth=2)

    found = RefusedLinksReader(directory)                           anybody reads all of them, at any time
    found.totals[Reason.DEPTH], found.find(url.fingerprint)

Refused URLs are not in the store: it would grow with what is not crawled. A file here has a fixed size: a header, a
counter for each reason, and a table of cells. A URL has one cell, by the last bits of its fingerprint, and keeps it
until another refused URL needs it. So the latest are remembered, and the older the more of them are forgotten. A link
that stands on many pages is counted on each, and takes one cell.

The file is mapped into memory, so a kill loses nothing. It is never synced: after a power failure it may lack the last
half minute. Whoever writes it never waits for it.
"""

import logging
import mmap
import os
from array import array
from collections import Counter
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from gossamer.records import Reason

log = logging.getLogger("gossamer.frontier")

SUFFIX = ".refused"
#: A power of two, at least 2^16. It takes 2 MiB for each parser. A page brings some 60 links: where the limit of
#: depth refuses all of them, 4,000 pages fill it.
CELLS = 1 << 18
#: Of the leader, which has seeds alone.
SEED_CELLS = 1 << 16

_MAGIC = b"gossamer refused links, 1\n".ljust(32, b"\0")
_CELL_BYTES = 8
#: The magic, then a counter for each code.
_HEADER_BYTES = 32 + 32 * _CELL_BYTES
#: A cell is a fingerprint whose last 16 bits, which its place in the table tells, have given way to a mark.
MARK_BITS = 16
TAG = (1 << 64) - (1 << MARK_BITS)
#: Of a mark: the code of the reason, what was refused, and its depth.
CODE = 31
_KIND_SHIFT, _DEPTH_SHIFT = 5, 8
_DEEPEST = (1 << MARK_BITS - _DEPTH_SHIFT) - 1

#: The place in this row is the code in the files, so it only ever grows at its end. Code 0 is an empty cell's.
_REASONS = (
    Reason.EXTENSION,
    Reason.DEPTH,
    Reason.HOPS,
    Reason.SCOPE,
    Reason.NOT_INCLUDED,
    Reason.EXCLUDED,
    Reason.BLOCKED_SITE,
    Reason.PATH_DEPTH,
    Reason.PATH_REPEATS,
    Reason.LINK_BYTES,
    Reason.QUEUE_FULL,
    Reason.SITE_FULL,
    Reason.PATH_VARIANTS,
    Reason.SITE_DROPPED,
    # These have no canonical URL, so they are only counted.
    Reason.NOT_A_URL,
    Reason.SCHEME,
    Reason.TOO_LONG,
)
CODES = {reason: code for code, reason in enumerate(_REASONS, start=1)}


class Found(IntEnum):
    """How a refused URL was found."""

    LINK = 0
    REDIRECT = 1
    SEED = 2


class RefusedLink(NamedTuple):
    """What is remembered of one refused URL."""

    reason: Reason
    found: Found
    depth: int
    """Links from a seed, at most 255."""


class RefusedLinks:
    """Of this process, which alone writes the file. Without a path, or where no file can be made, in memory alone.

    `cells`, `counts` and `marks` are for the loop over a page's links, where a call of `note` would cost too much.
    """

    def __init__(self, path: Path | None = None, cells: int = CELLS) -> None:
        size = _HEADER_BYTES + cells * _CELL_BYTES
        try:
            self._map = mmap.mmap(-1, size) if path is None else _mapped(path, size)
        except OSError as error:
            log.warning("%s cannot be made (%s): refused links are not remembered", path, error)
            self._map = mmap.mmap(-1, size)
        self._view = memoryview(self._map).cast("Q")
        header = _HEADER_BYTES // _CELL_BYTES
        self.counts = self._view[len(_MAGIC) // _CELL_BYTES : header]
        self.cells = self._view[header:]
        self.cell_mask = cells - 1
        self._counts_before = list(self.counts)
        self._marks: dict[int, dict[Reason, int]] = {}

    @property
    def counted(self) -> Counter[Reason]:
        """What was refused since this object was made."""
        since = {reason: self.counts[code] - self._counts_before[code] for reason, code in CODES.items()}
        return Counter({reason: count for reason, count in since.items() if count})

    def count(self, reason: Reason) -> None:
        """Of what has no canonical URL."""
        self.counts[CODES[reason]] += 1

    def note(self, fingerprint: int, reason: Reason, depth: int, found: int = 0) -> None:
        """`found` is a `Found`; a link, unless it is given."""
        mark = self.marks(depth)[reason]
        self.counts[mark & CODE] += 1
        if found:
            mark |= found << _KIND_SHIFT
        self.cells[fingerprint & self.cell_mask] = fingerprint & TAG | mark

    def marks(self, depth: int) -> dict[Reason, int]:
        """The mark of each reason, for links of this depth."""
        marks = self._marks.get(depth)
        if marks is None:
            shown = min(depth, _DEEPEST)
            marks = self._marks[shown] = {reason: shown << _DEPTH_SHIFT | code for reason, code in CODES.items()}
        return marks

    def close(self) -> None:
        for view in (self.counts, self.cells, self._view):
            view.release()
        self._map.close()


class RefusedLinksReader:
    """What all processes of a crawl, of all its runs, have noted in a directory; at the moment at which it is made."""

    def __init__(self, directory: Path) -> None:
        self._paths = sorted(directory.glob(f"*{SUFFIX}"))
        self.totals: Counter[Reason] = Counter()
        self.may_have_forgotten = False
        """Whether so many were refused that a URL may be forgotten with a chance of one in a hundred or more."""
        for path in self._paths:
            counts = _read(path, len(_MAGIC), 32)
            cells = _cells_in(path)
            if counts is not None and cells:
                found = {reason: counts[code] for reason, code in CODES.items() if counts[code]}
                self.totals.update(found)
                self.may_have_forgotten |= sum(found.values()) > cells // 100

    @property
    def is_there(self) -> bool:
        """Not in crawls of which every run was of a version that kept no trace."""
        return bool(self._paths)

    def find(self, fingerprint: int) -> list[RefusedLink]:
        """What is remembered of a URL, once for each reason: another parser may have met it under other rules."""
        found: dict[Reason, RefusedLink] = {}
        for path in self._paths:
            cells = _cells_in(path)
            place = _HEADER_BYTES + (fingerprint & cells - 1) * _CELL_BYTES
            cell = _read(path, place, 1) if cells else None
            if cell is None or not cell[0] & CODE or (cell[0] ^ fingerprint) & TAG:
                continue
            mark = cell[0] & ~TAG
            kind = mark >> _KIND_SHIFT & 3
            if (mark & CODE) <= len(_REASONS) and kind <= max(Found):
                reason = _REASONS[(mark & CODE) - 1]
                found[reason] = RefusedLink(reason, Found(kind), mark >> _DEPTH_SHIFT)
        return list(found.values())


def _mapped(path: Path, size: int) -> mmap.mmap:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if os.fstat(descriptor).st_size != size or not _is_sound(os.pread(descriptor, _HEADER_BYTES, 0)):
            os.ftruncate(descriptor, 0)
            # Written, not stretched: a page that the disk has no room for would kill whoever touches it.
            os.pwrite(descriptor, _MAGIC + bytes(size - len(_MAGIC)), 0)
            if os.fstat(descriptor).st_size != size:
                os.ftruncate(descriptor, 0)
                raise OSError(None, "there is no room for it", str(path))
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _is_sound(header: bytes) -> bool:
    """Counters far beyond what any crawl counts are damage: they would overflow."""
    return header.startswith(_MAGIC) and max(array("Q", header[len(_MAGIC) :])) < 1 << 62


def _cells_in(path: Path) -> int:
    """0 if it is no such file."""
    try:
        with path.open("rb") as file:
            is_ours = file.read(len(_MAGIC)) == _MAGIC
            cells = (os.fstat(file.fileno()).st_size - _HEADER_BYTES) // _CELL_BYTES
    except OSError:
        return 0
    return cells if is_ours and cells >= 1 << MARK_BITS and not cells & cells - 1 else 0


def _read(path: Path, offset: int, numbers: int) -> list[int] | None:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(numbers * _CELL_BYTES)
    except OSError:
        return None
    return array("Q", content).tolist() if len(content) == numbers * _CELL_BYTES else None
