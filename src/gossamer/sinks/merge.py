"""How a table is written as Parquet, and how parts of it become one.

Parts whose row groups are large enough for readers are copied as they are, one behind the other. Small ones are read,
and written anew in larger row groups: that costs a page twenty times as much, and pages in small parts are few.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from io import RawIOBase
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pyarrow as pa  # type: ignore[import-untyped]  # the wheel ships no stubs
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from gossamer.sinks.columns import Column
from gossamer.sinks.footer import MAGIC, TAIL, Structure, footer_of, strung_together
from gossamer.sinks.growing import BUFFER_BYTES, GrowingFile

#: A row group of a merged part: what a reader takes at once, and what merging has in memory, before compression; not
#: more than a parser has there for the next part.
GROUP_BYTES = 8 << 20
#: Row groups of this size on average are copied. Readers gain little from larger ones; usual pages of a commit come to
#: three times as much.
COPIED_BYTES = 4 << 20
#: What DuckDB takes for a full one; only the log comes to so many.
GROUP_ROWS = 122_880
#: Text takes 3.2 µs a kilobyte, which is most of what a row costs, and shrinks to 38 %. Level 3: 5.6 µs, to 32 %.
ZSTD_LEVEL = 1

_TYPES = {
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "TIMESTAMP": pa.timestamp("ms"),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "REAL": pa.float32(),
    "BOOLEAN": pa.bool_(),
}


class ParquetTable:
    """Where a table's parts are, and how its columns are written."""

    def __init__(
        self,
        directory: str,
        prefix: str,
        columns: Sequence[Column],
        *,
        repeating: Sequence[str],
        unsearched: Sequence[str],
        encoded: Sequence[str] = (),
    ) -> None:
        """`repeating` columns have values that come again and again: a dictionary pays only there. In `unsearched` ones
        nobody looks for a value, so that their least and greatest are not noted. The texts of `encoded` ones are given
        as UTF-8."""
        self.directory = directory
        self.prefix = prefix
        self.schema = pa.schema([(column.name, _TYPES[column.type]) for column in columns])
        self._encoded = frozenset(encoded)
        self._repeating = [name for name in self.schema.names if name in repeating]
        self._searched = [name for name in self.schema.names if name not in unsearched]

    def writer(self, stream: "Stream") -> pq.ParquetWriter:
        return pq.ParquetWriter(
            stream,
            self.schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=self._repeating,
            write_statistics=self._searched,
            store_schema=False,
        )

    def made_of(self, rows: Sequence[Sequence[Any]]) -> pa.Table:
        columns = zip(zip(*rows, strict=True), self.schema, strict=True)
        return pa.Table.from_arrays(
            [
                _encoded_array(values) if field.name in self._encoded else _array(values, field.type)
                for values, field in columns
            ],
            schema=self.schema,
        )


class Stream:
    """What the Parquet writer takes for a file. After a failure it takes everything and keeps nothing: the writer
    writes its last words even then."""

    closed = False

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._has_failed = False

    def write(self, content: bytes) -> int:
        if not self._has_failed:
            self._has_failed = True
            self._write(content)
            self._has_failed = False
        return len(content)

    def flush(self) -> None:
        """Whoever made it knows when."""


def merge(table: ParquetTable, parts: Sequence[Path], into: GrowingFile) -> None:
    """All rows of the parts, in their order. What it has in memory does not depend on how many there are.

    Raises OSError, ValueError or ArrowException if that cannot be done.
    """
    sizes: list[int] = []
    for path in parts:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(table.schema):
                raise ValueError(f"{path.name} has other columns")
            sizes += (file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups))
    if sizes and sum(sizes) >= COPIED_BYTES * len(sizes):
        _copy(parts, into)
    else:
        _write_anew(table, parts, into)
        # Otherwise the parser would keep for ever what it needs now and then.
        pa.default_memory_pool().release_unused()
    into.flush()


def _copy(parts: Sequence[Path], into: GrowingFile) -> None:
    into.append(MAGIC)
    footers: list[tuple[Structure, int]] = []
    for path in parts:
        with path.open("rb", buffering=0) as file:
            tail_at = file.seek(-TAIL.size, os.SEEK_END)
            footer_bytes, _ = TAIL.unpack(_exactly(file, TAIL.size))
            data_end = file.seek(tail_at - footer_bytes)
            footers.append((footer_of(_exactly(file, footer_bytes)), into.length_bytes - len(MAGIC)))
            left = data_end - file.seek(len(MAGIC))
            while left:
                piece = _exactly(file, min(left, BUFFER_BYTES))
                left -= len(piece)
                into.append(piece)
                into.flush(least_bytes=BUFFER_BYTES)
    into.append(strung_together(footers))


def _exactly(file: RawIOBase, size: int) -> bytes:
    content = file.read(size) or b""
    if len(content) < size:
        raise ValueError("a part became shorter while it was read")
    return content


def _write_anew(table: ParquetTable, parts: Sequence[Path], into: GrowingFile) -> None:
    def write(content: bytes) -> None:
        into.append(content)
        into.flush(least_bytes=BUFFER_BYTES)

    with table.writer(Stream(write)) as writer:
        gathered: list[pa.Table] = []
        for group in _groups(parts):
            if gathered and not _has_room(gathered, group):
                _write_group(writer, gathered)
                gathered = []
            gathered.append(group)
        _write_group(writer, gathered)


def _groups(parts: Sequence[Path]) -> Iterator[pa.Table]:
    for path in parts:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, use_threads=False)


def _has_room(gathered: Sequence[pa.Table], group: pa.Table) -> bool:
    size_bytes: int = sum(one.nbytes for one in gathered) + group.nbytes
    rows: int = sum(one.num_rows for one in gathered) + group.num_rows
    return size_bytes <= GROUP_BYTES and rows <= GROUP_ROWS


def _write_group(writer: Any, gathered: Sequence[pa.Table]) -> None:
    group = pa.concat_tables(gathered)
    writer.write_table(group, row_group_size=max(1, group.num_rows))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        # What pages say is cleaned when it is read; this is for all the rest.
        return pa.array([value and _whole(value) for value in values], kind)


def _encoded_array(values: Sequence[bytes | None]) -> pa.Array:
    """Texts as they are in memory, one behind the other; whether they are UTF-8 is not looked at again."""
    if None in values:
        return pa.array(values, pa.binary()).view(pa.string())
    # In a third of the time.
    texts = cast("Sequence[bytes]", values)
    ends = array("i", accumulate(map(len, texts), initial=0))
    return pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))], null_count=0
    )


def _whole(text: str) -> str:
    """Half a character, which no file can hold, is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
