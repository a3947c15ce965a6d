"""Where segments are, and how they change hands: by renames alone, so that each is in one place at any moment.

spool/
  open/              being written by its fetcher, or not yet known to be accepted by the store
  ready/             waits for a parser
  claimed/<parser>/  being parsed, or parsed and not yet committed
  quarantine/        could not be read or parsed; its URLs went back; left for a person to look at
  serials/<fetcher>  up to where its serial numbers are given out
  suspects           what is known of pages and segments that did harm to their readers (suspects.py)
"""

import contextlib
import os
from pathlib import Path

import msgspec

from gossamer.disk import sync
from gossamer.errors import GossamerError
from gossamer.spool.segment import SegmentName, parse_name

#: Serial numbers that a writer reserves at once; at two segments a second it comes back for more after eighty minutes.
SERIAL_BLOCK = 10_000


class Backlog(msgspec.Struct, frozen=True, gc=False):
    """What waits for a parser. Every outcome counts as a page: it, too, must be read before it is forgotten.

    Segments that are claimed are not in it. They wait for nothing but their commit, and a commit waits for pages:
    limits that counted them could hold the fetchers until the clock forces a commit.
    """

    pages: int
    bytes: int


class SpoolDirectory:
    """The folders of one crawl's spool. Every process has its own object of this; what they share is the file system.

    Of two parsers that claim the same segment one gets it. It never reads a segment, and decides nothing by a file's
    time: all that it knows is in the names.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.open = root / "open"
        self.ready = root / "ready"
        self.claimed = root / "claimed"
        self._quarantine = root / "quarantine"
        self._serials = root / "serials"
        self._next_ready: list[SegmentName] = []

    def create(self) -> None:
        for folder in (self.open, self.ready, self.claimed, self._quarantine, self._serials):
            folder.mkdir(parents=True, exist_ok=True)
        sync(self.root)
        sync(self.root.parent)

    def backlog(self) -> Backlog:
        names = segments_in(self.ready)
        return Backlog(sum(name.outcomes for name in names), sum(name.size_bytes for name in names))

    def uncommitted(self) -> int:
        """Outcomes that wait for a parser or for their commit. A segment that changes hands may count twice."""
        total = 0
        with contextlib.suppress(FileNotFoundError):  # there is no spool yet
            for folder in [self.ready, *self.claimed_folders()]:
                with contextlib.suppress(FileNotFoundError):  # its parser has just left
                    total += sum(name.outcomes for name in segments_in(folder))
        return total

    def used_bytes(self) -> int:
        """Of all segments but those in quarantine. One that is moved meanwhile may count twice, and is never missed."""
        folders = [self.open, self.ready, *self.claimed_folders()]
        total = 0
        for folder in folders:
            # That of a parser that has just left may be gone.
            with contextlib.suppress(FileNotFoundError):
                total += sum(name.size_bytes for name in segments_in(folder))
        return total

    def claim(self, parser: str) -> Path | None:
        """The oldest segment that is ready, now in this parser's folder; None if there is none."""
        home = self.claimed / parser
        home.mkdir(exist_ok=True)
        while self._next_ready or self._list_ready():
            name = str(self._next_ready.pop())
            # Another parser may have been quicker.
            with contextlib.suppress(FileNotFoundError):
                (self.ready / name).rename(home / name)
                return home / name
        return None

    def publish(self, path: Path) -> None:
        """Into `ready/`, from wherever it is."""
        path.rename(self.ready / path.name)

    def quarantine(self, path: Path) -> None:
        path.rename(self._quarantine / path.name)

    def claimed_folders(self) -> list[Path]:
        return sorted(path for path in self.claimed.iterdir() if path.is_dir())

    def reserve_serials(self, fetcher: int) -> range:
        """Numbers that no segment of this fetcher had before, in any of its lives: an id must never come back, not even
        after its segment is gone."""
        path = self._serials / f"{fetcher:03d}"
        start = _read_serial(path) if path.exists() else 0
        temporary = path.with_suffix(".new")
        temporary.write_bytes(b"%d" % (start + SERIAL_BLOCK))
        sync(temporary)
        temporary.rename(path)
        sync(self._serials)
        return range(start, start + SERIAL_BLOCK)

    def _list_ready(self) -> bool:
        """Remember what is ready, oldest last. Listing once for many claims keeps a long backlog cheap."""
        self._next_ready = sorted(segments_in(self.ready), reverse=True)
        return bool(self._next_ready)


def _read_serial(path: Path) -> int:
    written = path.read_bytes()
    if not written.isdigit():
        raise GossamerError(
            f"{path} does not say how far serial numbers are given out: something else has changed it. Stop the crawl,"
            " remove the file, and resume: the segments of another run have other names"
        )
    return int(written)


def segments_in(folder: Path) -> list[SegmentName]:
    """In no order. Files that are no segments are passed over."""
    with os.scandir(folder) as entries:
        return [name for entry in entries if (name := parse_name(entry.name)) is not None]
