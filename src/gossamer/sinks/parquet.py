"""A table in Parquet files, and all of a sink but the rows: what both tables have in common.

Rows are gathered in memory and become a file, a *part*, at a commit, or before it when they have come to much. A part
is complete from the beginning, and a failure leaves nothing of it that the next try does not overwrite. Sometimes a
commit also replaces small parts of earlier ones by one (`merge.py`).
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

#: Characters that are gathered before they become a part; some take four bytes, and they are in memory twice while they
#: do. Usual pages of one commit come to twice as much.
PART_WEIGHT = 8 << 20
#: Of a row beside its long texts.
ROW_WEIGHT = 600

_LOG = logging.getLogger("gossamer.sinks")


class _Written(NamedTuple):
    """A part that is on the disk and not committed."""

    part: Part
    first_row: int


class _Merged(NamedTuple):
    """A part that was merged and is not committed, and those that it replaces."""

    part: Part
    replaced: list[Part]


class TableSink:
    """What a table does with its rows; `write`, which makes them, is the table's own. One parser's.

    Its mark is the number of rows that it was given. A part holds whole segments, or rows that came after the last
    mark: so no mark that is gone back to lies within a part.
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
        self._whole = 0
        """How many of `_rows` came before the last mark."""
        self._written: list[_Written] = []
        self._prepared = 0
        """How many of those the last commit named."""
        self._merged: _Merged | None = None
        self._committed = list(self._parts_on_disk())
        self._next = next_number(self._directory, table.prefix, parser)
        self._left_alone: set[str] = set()
        """Parts that could not be merged."""

    def flush(self) -> None:
        if self._weight >= PART_WEIGHT and self._whole:
            self._write_part(self._whole)
        if self._weight >= PART_WEIGHT:
            self._write_part(len(self._rows))

    def mark(self) -> Mark:
        self._whole = len(self._rows)
        return (self._taken,)

    def rollback(self, mark: Mark) -> None:
        (taken,) = mark
        while self._written and self._written[-1].first_row >= taken:
            self._remove(self._written.pop().part)
            # A merged part is prepared together with parts: if one of those goes, no commit has named any of them.
            if self._prepared > len(self._written) and self._merged is not None:
                self._remove(self._merged.part)
                self._merged = None
            self._prepared = min(self._prepared, len(self._written))
        self._forget_rows(slice(max(0, taken - (self._taken - len(self._rows))), None))
        self._whole = min(self._whole, len(self._rows))
        self._taken = taken

    def prepare(self) -> Prepared:
        if self._rows:
            self._write_part(len(self._rows))
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

    def _add(self, row: Sequence[Any], weight: int = 0) -> None:
        """`weight` is that of its long texts, in characters."""
        weight += ROW_WEIGHT
        self._rows.append(row)
        self._weights.append(weight)
        self._weight += weight
        self._taken += 1

    def _write_part(self, rows: int) -> None:
        """Of the first rows. May be called again after an OSError."""
        part = Part(self._table.prefix, self._parser, self._next, self._next)
        file = GrowingFile(self._data, self._final(part), self._parser)
        with self._table.writer(Stream(file.append)) as writer:
            writer.write_table(_arrow(self._rows[:rows], self._table.schema))
        file.flush()
        self._written.append(_Written(part._replace(length_bytes=file.length_bytes), self._taken - len(self._rows)))
        self._next += 1
        self._forget_rows(slice(rows))
        self._whole = max(0, self._whole - rows)

    def _forget_rows(self, which: slice) -> None:
        del self._rows[which], self._weights[which]
        self._weight = sum(self._weights)

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


def _arrow(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays(
        [_array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        # Half a character, which no file can hold. What pages say is cleaned when it is read; this is for all the rest.
        return pa.array(
            [value and value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for value in values], kind
        )
