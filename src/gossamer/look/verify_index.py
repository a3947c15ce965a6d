"""Reads an index file line by line: what each line says of the record that it points to."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

#: A line has a URL of at most 64 KiB twice, each byte of it as six characters at most.
MOST_LINE_BYTES = 1 << 20


class Line(NamedTuple):
    """What the index says of one record; the file is as the line names it."""

    number: int
    file: str
    offset: int
    length: int
    url: str
    status: int
    digest: str


class BadLine(NamedTuple):
    """What is wrong with a line, counted from 1."""

    number: int
    what: str


class _Fields(msgspec.Struct):
    """The fields that are compared; all are text."""

    url: str
    status: str
    digest: str
    length: str
    offset: str
    filename: str


def read_index(path: Path, length_bytes: int, *, is_sorted: bool) -> Iterator[Line | BadLine]:
    """`is_sorted`: it has its final name, and readers search it by halving."""
    decoder = msgspec.json.Decoder(_Fields)
    number, position, last = 0, 0, b""
    with path.open("rb") as file:
        while position < length_bytes and (line := file.readline(min(MOST_LINE_BYTES, length_bytes - position))):
            position += len(line)
            number += 1
            if not line.endswith(b"\n"):
                yield BadLine(number, "has no end")
                continue
            if is_sorted and line < last:
                yield BadLine(number, "is not in its order")
            last = line
            try:
                _, _, content = line.split(b" ", 2)
                found = decoder.decode(content)
                numbers = [int(text) for text in (found.offset, found.length, found.status)]
            except (ValueError, msgspec.MsgspecError):
                yield BadLine(number, "is not key, time and JSON as this crawler writes them")
                continue
            if not all(0 <= value < 1 << 62 for value in numbers):
                yield BadLine(number, "has a number out of range")
                continue
            offset, length, status = numbers
            yield Line(number, found.filename, offset, length, found.url, status, found.digest)
