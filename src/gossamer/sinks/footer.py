"""The end of a Parquet file, which says where everything in it is; so files can be strung together as they are.

No library moves row groups without reading and compressing them anew, which costs more than all else about a page's
row. The footer is a structure in Thrift's compact protocol. All of it is read into plain values, the few that are
positions in the file are changed, and it is written again; what a later version adds goes through as it is.

Names are those of the specification: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

MAGIC = b"PAR1"
#: The length of the footer, and the magic again.
TAIL = struct.Struct("<I4s")

#: A structure is its fields by number, each with its type; a list has the type of its elements.
Structure = dict[int, tuple[int, Any]]

# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_INTEGERS = frozenset({_I16, _I32, _I64})

# FileMetaData, RowGroup, ColumnChunk and ColumnMetaData: the fields that are looked at.
_SCHEMA, _NUM_ROWS, _ROW_GROUPS = 2, 3, 4
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_META_DATA = 3
_CHUNK_OFFSETS = (2, 4, 6)  # file_offset, offset_index_offset, column_index_offset
_DATA_OFFSETS = (9, 10, 11, 14)  # of data page, index page, dictionary page, bloom filter


class _List(NamedTuple):
    kind: int
    values: list[Any]


class _Reader:
    """Takes one value after the other from a footer."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self) -> Structure:
        fields: Structure = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            # The type of a field that is true or false says which.
            fields[number] = (kind, kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind))
        return fields

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct()
        if kind in {_LIST, _SET}:
            head = self._byte()
            size = self._varint() if head >> 4 == 15 else head >> 4
            return _List(head & 15, [self._value(head & 15) for _ in range(size)])
        if kind in {_TRUE, _FALSE, _BYTE}:
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        raise ValueError(f"a Parquet footer with a value of type {kind}")

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._content[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _written_struct(fields: Structure, into: bytearray) -> None:
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        if kind in {_TRUE, _FALSE}:
            kind = _TRUE if value else _FALSE  # noqa: PLW2901 (its type is its value)
        if number - last < 16:
            into.append(number - last << 4 | kind)
        else:
            into.append(kind)
            _written_varint(number << 1, into)
        last = number
        if kind not in {_TRUE, _FALSE}:
            _written_value(kind, value, into)
    into.append(0)


def _written_value(kind: int, value: Any, into: bytearray) -> None:
    if kind in _INTEGERS:
        _written_varint(value << 1 ^ value >> 63, into)
    elif kind == _BINARY:
        _written_varint(len(value), into)
        into += value
    elif kind == _STRUCT:
        _written_struct(value, into)
    elif kind in {_LIST, _SET}:
        if len(value.values) < 15:
            into.append(len(value.values) << 4 | value.kind)
        else:
            into.append(0xF0 | value.kind)
            _written_varint(len(value.values), into)
        for one in value.values:
            _written_value(value.kind, one, into)
    elif kind == _DOUBLE:
        into += value
    else:
        into.append(value)


def _written_varint(value: int, into: bytearray) -> None:
    while value > 127:
        into.append(value & 127 | 128)
        value >>= 7
    into.append(value)


def footer_of(content: bytes) -> Structure:
    """Of the bytes between the data and the tail. Raises ValueError if it is none."""
    try:
        footer = _Reader(content).struct()
        _ = footer[_SCHEMA], footer[_NUM_ROWS], footer[_ROW_GROUPS]
    except (IndexError, KeyError, RecursionError) as error:
        raise ValueError(f"no footer of a Parquet file: {error!r}") from None
    return footer


def strung_together(footers: Sequence[tuple[Structure, int]]) -> bytes:
    """One footer, with the tail, for files whose data stand one after the other: each was moved by so many bytes."""
    whole = dict(footers[0][0])
    groups: list[Structure] = []
    for footer, moved_bytes in footers:
        for group in footer[_ROW_GROUPS][1].values:
            _move(group, (_GROUP_OFFSET,), moved_bytes)
            for chunk in group[_COLUMNS][1].values:
                _move(chunk, _CHUNK_OFFSETS, moved_bytes)
                _move(chunk[_META_DATA][1], _DATA_OFFSETS, moved_bytes)
            group[_ORDINAL] = (_I16, len(groups))
            groups.append(group)
    whole[_NUM_ROWS] = (_I64, sum(footer[_NUM_ROWS][1] for footer, _ in footers))
    whole[_ROW_GROUPS] = (_LIST, _List(_STRUCT, groups))
    content = bytearray()
    _written_struct(whole, content)
    return bytes(content) + TAIL.pack(len(content), MAGIC)


def _move(fields: Structure, numbers: Sequence[int], moved_bytes: int) -> None:
    for number in numbers:
        # Nothing stands at 0, where the magic is: it says that there is none.
        if number in fields and fields[number][1]:
            kind, offset = fields[number]
            fields[number] = (kind, offset + moved_bytes)
