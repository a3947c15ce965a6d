"""A table in Parquet files, and all of a sink but the rows: what both tables have in common.

Rows are gathered in memory and become a row group of a file, a *part*, at a commit, or before it when they have come to
much. A part is begun by its first row group and complete at the commit; what a failure or an end leaves of it counts
for nothing. Sometimes a commit also replaces small parts of earlier ones by one (`merge.py`).
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # the wheel ships no stubs

from gossamer.sinks.growing import GrowingFile
from gossamer.sinks.merge import ParquetTable, Stream, merge
from gossamer.sinks.parts import Part, committed_parts, next_number, parse_name, to_merge
from gossamer.sinks.sink import Mark, OpenFile, Prepared, open_name

#: Bytes that are gathered before they become a row group; they are in memory three times while they do. Usual pages of
#: one commit come to as much. More than a segment of pages with much text has: one that is on the disk before it is
#: whole needs a part of its own.
GROUP_WEIGHT = 16 << 20
#: Of a row beside its long texts.
ROW_WEIGHT = 600

_LOG = logging.getLogger("gossamer.sinks")


class _Unfinished(NamedTuple):
    """A part that row groups are added to."""

    part: Part
    file: GrowingFile
    writer: Any
    first_row: int


class _Written(NamedTuple):
    """A part that has all of its rows and is not committed."""

    part: Part
    file: GrowingFile
    first_row: int


class _Merged(NamedTuple):
    """A part that was merged and is not committed, and those that it replaces."""

    part: Part
    replaced: list[Part]


class TableSink:
    """What a table does with its rows; `write`, which makes them, is the table's own. One parser's.

    Its mark is the number of rows that it was given. No mark that is gone back to lies within a part: so what is taken
    back is a whole part, or still gathered.
    """

    def __init__(self, data: Path, table: ParquetTable, parser: str) -> None:
        # The library's own keeps a hundred megabytes of what it once needed, and is no faster for it.
        pa.set_memory_pool(pa.system_memory_pool())
        self._data = data
        self._table = table
        self._parser = parser
        self._directory = data / table.directory
        self._rows: list[Sequence[Any]] = []
        """Those that are in no part yet."""
        self._weights: list[int] = []
        self._weight = 0
        self._taken = 0
        self._marked = 0
        """The last mark."""
        self._unfinished: _Unfinished | None = None
        self._written: list[_Written] = []
        self._prepared = 0
        """How many of those the last commit named."""
        self._merged: _Merged | None = None
        self._committed = list(self._parts_on_disk())
        self._next = next_number(self._directory, table.prefix, parser)
        self._left_alone: set[str] = set()
        """Parts that could not be merged."""

    def flush(self) -> None:
        self._flush_files()
        if self._weight >= GROUP_WEIGHT and self._first_row < self._marked:
            self._write_group(self._marked - self._first_row)
        if self._weight >= GROUP_WEIGHT:
            self._write_group(len(self._rows))

    def mark(self) -> Mark:
        self._marked = self._taken
        return (self._taken,)

    def rollback(self, mark: Mark) -> None:
        (taken,) = mark
        if self._unfinished is not None and self._unfinished.first_row >= taken:
            self._finish_part()
        while self._written and self._written[-1].first_row >= taken:
            self._written.pop().file.cut_back(0)
            # A merged part is prepared together with parts: if one of those goes, no commit has named any of them.
            if self._prepared > len(self._written) and self._merged is not None:
                self._remove(self._merged.part)
                self._merged = None
            self._prepared = min(self._prepared, len(self._written))
        self._forget_rows(slice(max(0, taken - self._first_row), None))
        self._taken = taken
        self._marked = min(self._marked, taken)

    def prepare(self) -> Prepared:
        if self._rows:
            self._write_group(len(self._rows))
        self._finish_part()
        self._flush_files()
        self._prepared = len(self._written)
        if self._merged is None and self._written:
            self._merged = self._merge()
        files = [written.part for written in self._written]
        replaced: list[Part] = []
        if self._merged is not None:
            files.append(self._merged.part)
            replaced = self._merged.replaced
        return Prepared(
            tuple(
                OpenFile(open_name(self._final(part), self._parser), part.length_bytes, is_complete=True)
                for part in files
            ),
            tuple(self._final(part) for part in replaced),
        )

    def after_commit(self) -> None:
        if self._merged is not None:
            kept = [part for part in self._committed if part not in self._merged.replaced]
            self._committed = sorted([*kept, self._merged.part])
            self._merged = None
        self._committed += [written.part for written in self._written[: self._prepared]]
        del self._written[: self._prepared]
        self._prepared = 0

    @property
    def _first_row(self) -> int:
        """The number of the first one that is gathered."""
        return self._taken - len(self._rows)

    def _add(self, row: Sequence[Any], weight: int = 0) -> None:
        """`weight` is that of its long texts, in bytes."""
        weight += ROW_WEIGHT
        self._rows.append(row)
        self._weights.append(weight)
        self._weight += weight
        self._taken += 1

    def _write_group(self, rows: int) -> None:
        """Of the first rows. After an OSError they are taken, and wait for the next `_flush_files`."""
        end = self._first_row + rows
        if self._unfinished is not None and self._unfinished.first_row < self._marked < end:
            self._finish_part()
        if self._unfinished is None:
            part = Part(self._table.prefix, self._parser, self._next, self._next)
            file = GrowingFile(self._data, self._final(part), self._parser)
            writer = self._table.writer(Stream(file.append))
            self._unfinished = _Unfinished(part, file, writer, self._first_row)
            self._next += 1
        self._unfinished.writer.write_table(self._table.made_of(self._rows[:rows]))
        self._forget_rows(slice(rows))
        self._flush_files()

    def _finish_part(self) -> None:
        """It gets its footer, in memory."""
        if self._unfinished is not None:
            part, file, writer, first_row = self._unfinished
            writer.close()
            self._written.append(_Written(part._replace(length_bytes=file.length_bytes), file, first_row))
            self._unfinished = None

    def _flush_files(self) -> None:
        """May be called again after an OSError."""
        for written in self._written:
            written.file.flush()
        if self._unfinished is not None:
            self._unfinished.file.flush()

    def _forget_rows(self, which: slice) -> None:
        self._weight -= sum(self._weights[which])
        del self._rows[which], self._weights[which]

    def _merge(self) -> _Merged | None:
        """If it is time for it. That it fails is no reason not to commit: the parts are left as they are."""
        replaced = to_merge(self._committed, self._left_alone)
        if not replaced:
            return None
        part = Part(self._table.prefix, self._parser, replaced[0].first, replaced[-1].last)
        file = GrowingFile(self._data, self._final(part), self._parser)
        try:
            merge(self._table, [self._directory / one.name for one in replaced], file)
        except (OSError, ValueError, pa.ArrowException) as error:
            _LOG.warning("%s to %s are not merged: %s", replaced[0].name, replaced[-1].name, error)
            self._left_alone.update(one.name for one in replaced)
            self._remove(part)
            return None
        return _Merged(part._replace(length_bytes=file.length_bytes), replaced)

    def _final(self, part: Part) -> str:
        return f"{self._table.directory}/{part.name}"

    def _remove(self, part: Part) -> None:
        (self._data / open_name(self._final(part), self._parser)).unlink(missing_ok=True)

    def _parts_on_disk(self) -> Iterator[Part]:
        """Of earlier lives, and of earlier runs."""
        for path in committed_parts(self._directory, self._table.prefix):
            part = parse_name(path.name)
            if part is not None and part.parser == self._parser:
                yield part._replace(length_bytes=path.stat().st_size)
