"""Which page a parser is on, written where the leader can read it after the parser's death, or while it hangs.

A memory-mapped file: a note costs no system call, and outlives the process that wrote it. (Not the machine; nobody asks
after a restart.) The leader compares the notes of deaths, and of moments: a note that a reader catches half-written is
one that differs, which only says that the parser is alive.
"""

import mmap
import struct
from pathlib import Path

#: The page's place in its segment counted from 1, so that an empty file says "none"; then the segment's id. Ids are
#: shorter by half than the room for them.
_NOTE = struct.Struct("<I60s")
_NO_PAGE = bytes(_NOTE.size)


class PageNote:
    """Names the page in work and nothing else: it is empty whenever no page is being read.

    The parser writes it before each page, the supervisor reads the file with `read_note`. It never raises after it was
    opened, and the file stays when it is closed.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_NO_PAGE)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _NOTE.size)

    def set(self, segment: str, index: int) -> None:
        self._map[:] = _NOTE.pack(index + 1, segment.encode())

    def clear(self) -> None:
        self._map[:] = _NO_PAGE

    def close(self) -> None:
        self._map.close()


def read_note(path: Path) -> tuple[str, int] | None:
    """Segment id and index of the page that the parser of this file is on, or died on; None if it is on none."""
    try:
        written = path.read_bytes()
    except OSError:
        # There is none, or descriptors are short: then nothing is known of this moment.
        return None
    if len(written) != _NOTE.size:
        # Its parser died while it made the file.
        return None
    place, segment = _NOTE.unpack(written)
    return (segment.rstrip(b"\0").decode("ascii", "replace"), place - 1) if place else None
