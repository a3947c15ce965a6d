"""What a parser is at, written where the leader can read it after the parser's death, or while it hangs.

A memory-mapped file: a note costs no system call, and outlives the process that wrote it. (Not the machine.) The leader
compares the notes of deaths, and of moments: a note that a reader catches half-written is one that differs, which only
says that the parser is alive.
"""

import mmap
import struct
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

#: The stage, the page's index, the segment's id. Ids are shorter by half than the room for them.
_NOTE = struct.Struct("<II56s")
_NOTHING = bytes(_NOTE.size)


class Stage(IntEnum):
    """What is done with the segment. 0 is in an empty file, and says that no segment is in work."""

    PAGE = 1
    """One of its pages is read."""
    SEGMENT = 2
    """The segment itself: its file is read, its links are offered."""
    SINKS = 3
    COMMIT = 4
    """It alone is committed. A commit of more than one segment is not noted."""
    RETURN = 5
    """Its URLs go back, and its file goes to quarantine."""


class Noted(NamedTuple):
    """What a note says."""

    segment: str
    stage: Stage
    page: int = 0
    """Its index, in that stage."""


class PageNote:
    """Names the segment in work, and the page while one is read; it is empty whenever no segment is in work.

    The parser writes it, the supervisor reads the file with `read_note`. It never raises after it was opened, and the
    file stays when it is closed.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_NOTHING)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _NOTE.size)

    def page(self, segment: str, index: int) -> None:
        self._map[:] = _NOTE.pack(Stage.PAGE, index, segment.encode())

    def stage(self, segment: str, stage: Stage) -> None:
        self._map[:] = _NOTE.pack(stage, 0, segment.encode())

    def clear(self) -> None:
        self._map[:] = _NOTHING

    def close(self) -> None:
        self._map.close()


def read_note(path: Path) -> Noted | None:
    """What the parser of this file is at, or was when it died; None if it was at no segment."""
    try:
        written = path.read_bytes()
    except OSError:
        # There is none, or descriptors are short: then nothing is known of this moment.
        return None
    if len(written) != _NOTE.size:
        # Its parser died while it made the file.
        return None
    stage, index, segment = _NOTE.unpack(written)
    if stage not in Stage.__members__.values():
        return None
    return Noted(segment.rstrip(b"\0").decode("ascii", "replace"), Stage(stage), index)
