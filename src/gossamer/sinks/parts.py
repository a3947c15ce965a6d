"""The names of a table's files, and which of them count: known from the names alone, at any moment.

    pages/part-<parser>-<first>-<last>.parquet      log/fetches-<parser>-<first>-<last>.parquet

Every file that a parser writes has the next number. One that was merged from several has the range of theirs, and
stands beside them for a moment: what is contained in another one's range does not count any more.

    numbers   0 ─ 15         16 ─ 31        32  33  34 …
    tier      1              1              0   0   0        sixteen neighbours of a tier become one of the next
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from gossamer.sinks.sink import OPEN_SUFFIX

#: So many neighbours become one file. A commit every two minutes makes 20,000 files in a month; with tiers of sixteen
#: some dozens are left, and each row was moved twice.
MERGED_PARTS = 16
#: Merging never gathers much more: a million usual pages make some seventy of them, and one holds a parser up for a
#: sixth of a second.
FULL_BYTES = 64 << 20
#: A file that has come to so much is left as it is. Those of pages with much text are so large from the beginning; to
#: have half as many of them would cost each page 30 µs.
LARGE_BYTES = FULL_BYTES // 4

_NAME = re.compile(r"([a-z]+)-([A-Za-z0-9_-]+)-([0-9]{6,})-([0-9]{6,})\.parquet")


class Part(NamedTuple):
    """One file of a table, by what its name says; `length_bytes` is the caller's to know."""

    prefix: str
    parser: str
    first: int
    last: int
    length_bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.parser}-{self.first:06d}-{self.last:06d}.parquet"

    @property
    def tier(self) -> int:
        """How often its rows were merged."""
        tier, span = 0, self.last - self.first + 1
        while span >= MERGED_PARTS:
            tier, span = tier + 1, span // MERGED_PARTS
        return tier


def parse_name(name: str) -> Part | None:
    match = _NAME.fullmatch(name)
    return None if match is None else Part(match[1], match[2], int(match[3]), int(match[4]))


def committed_parts(directory: Path, prefix: str) -> list[Path]:
    """The files that count, each parser's in its order. One may be gone when it is opened, merged into another: then
    this is to be asked again."""
    parts = [part for path in _files(directory) if (part := parse_name(path.name)) and part.prefix == prefix]
    # The widest first of those that begin together: whatever ends before it does is contained in it.
    parts.sort(key=lambda part: (part.parser, part.first, -part.last))
    found: list[Path] = []
    parser, reach = "", -1
    for part in parts:
        if part.parser != parser:
            parser, reach = part.parser, -1
        if part.last > reach:
            reach = part.last
            found.append(directory / part.name)
    return found


def next_number(directory: Path, prefix: str, parser: str) -> int:
    """Behind all that a parser has written, open files included."""
    names = (path.name.removesuffix(f".{parser}{OPEN_SUFFIX}") for path in _files(directory))
    own = (part for name in names if (part := parse_name(name)) and (part.prefix, part.parser) == (prefix, parser))
    return max((part.last + 1 for part in own), default=0)


def to_merge(parts: Sequence[Part], left_alone: Collection[str] = ()) -> list[Part]:
    """Neighbours that are to become one file, of one parser's parts in their order; none if it is not yet time."""
    run: list[Part] = []
    for part in parts:
        if part.length_bytes >= LARGE_BYTES or part.name in left_alone:
            run = []
            continue
        if run and (part.first != run[-1].last + 1 or part.tier != run[-1].tier):
            run = []
        run.append(part)
        if len(run) == MERGED_PARTS or (len(run) > 1 and sum(one.length_bytes for one in run) >= FULL_BYTES):
            return run
    return []


def _files(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []
