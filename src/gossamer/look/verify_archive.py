"""Reads an archive file from its beginning to its end, and checks every record against what it says of itself.

A record is never held as a whole: it is hashed while it is decompressed. Behind a damaged record the next one is
searched for, so that one bad byte costs one record and not the rest of the file.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from isal import isal_zlib

from gossamer.sinks.sink import base32

#: What is read, and what is decompressed, at once.
CHUNK_BYTES = 1 << 18
#: Ours are shorter than 100 KiB, with a URL of 64 KiB; HTTP heads are cut to 32,000 bytes.
MOST_HEAD_BYTES = 1 << 18
#: Of a Content-Length: more bytes than any file has. Python refuses to read a number with thousands of digits.
MOST_LENGTH_DIGITS = 18

_ISAL_ERROR: Final[type[Exception]] = isal_zlib.IsalError  # type: ignore[assignment]  # its stub names an instance
_MAGIC = b"\x1f\x8b\x08"
_RECORD_END = b"\r\n\r\n"
_STATUS_LINE = re.compile(rb"HTTP/\d\.\d (\d{3})")
_KINDS = frozenset({"warcinfo", "response", "request"})


class Response(NamedTuple):
    """A response record that is whole; its digest is that of the body, without the name of the algorithm."""

    offset: int
    length: int
    url: str
    status: int
    digest: str


class Damage(NamedTuple):
    """What is wrong with a record."""

    offset: int
    what: str


class _Damaged(Exception):  # noqa: N818 (it never leaves this file)
    pass


def read_archive(path: Path, length_bytes: int) -> Iterator[Response | Damage]:
    """Response records and damages in the order of the file, of which the first `length_bytes` count."""
    with path.open("rb") as file:
        offset, rest = 0, b""
        while offset < length_bytes:
            try:
                record, offset, rest = _member(file, offset, rest, length_bytes)
            except (_Damaged, _ISAL_ERROR) as damage:
                yield Damage(offset, str(damage))
                offset, rest = _next_member(file, offset + 1, length_bytes), b""
                continue
            if record is not None:
                yield record


def _member(file: BinaryIO, offset: int, rest: bytes, end: int) -> tuple[Response | None, int, bytes]:
    """One record, where the next one begins, and what was read beyond it. `rest` was read before, from `offset` on."""
    position = offset + len(rest)
    file.seek(position)
    stream, check = isal_zlib.decompressobj(31), _Check(is_first=offset == 0)
    while not stream.eof:
        if not rest:
            rest = file.read(min(CHUNK_BYTES, end - position))
            position += len(rest)
        is_last = not rest
        content = stream.decompress(rest, CHUNK_BYTES)
        rest = stream.unconsumed_tail
        if is_last and not content and not stream.eof:
            raise _Damaged("the file ends within it")
        check.feed(content)
    rest = stream.unused_data
    check.end()
    length = position - len(rest) - offset
    response = None
    if check.kind == "response":
        response = Response(offset, length, check.fields["warc-target-uri"], check.status, check.digest)
    return response, offset + length, rest


class _Check:
    """One record on its way through: head, then block, then the four bytes that end it."""

    def __init__(self, *, is_first: bool) -> None:
        self._is_first = is_first
        self._head = b""
        self.fields: dict[str, str] = {}
        self._left = -1
        """Bytes of the block that are still to come; -1 before its head has ended."""
        self._block = hashlib.sha1(usedforsecurity=False)
        self._body = hashlib.sha1(usedforsecurity=False)
        self._http_head: bytes | None = None
        """Of a response, until it has ended."""
        self.status = 0
        self._tail = b""

    @property
    def kind(self) -> str:
        return self.fields["warc-type"]

    @property
    def digest(self) -> str:
        return base32(self._body.digest())

    def feed(self, content: bytes) -> None:
        if self._left < 0:
            self._head += content
            head, found, content = self._head.partition(b"\r\n\r\n")
            if not found:
                if len(self._head) > MOST_HEAD_BYTES:
                    raise _Damaged("its head has no end")
                return
            self._head = b""
            self._read_head(head)
        block, tail = content[: self._left], content[self._left :]
        self._left -= len(block)
        self._block.update(block)
        if self._http_head is not None:
            self._read_http_head(block)
        elif self.kind == "response":
            self._body.update(block)
        self._tail += tail
        if len(self._tail) > len(_RECORD_END):
            raise _Damaged("it is longer than it says")

    def end(self) -> None:
        if self._left < 0:
            raise _Damaged("its head has no end")
        if self._left or self._tail != _RECORD_END:
            raise _Damaged("its length is not what it says")
        if self.fields.get("warc-block-digest") != f"sha1:{base32(self._block.digest())}":
            raise _Damaged("the digest of its block is not what it says")
        if self.kind != "response":
            return
        if self._http_head is not None:
            raise _Damaged("it has no head of HTTP")
        if self.fields.get("warc-payload-digest") != f"sha1:{self.digest}":
            raise _Damaged("the digest of its payload is not what it says")

    def _read_head(self, head: bytes) -> None:
        version, *lines = head.split(b"\r\n")
        for line in lines:
            name, colon, value = line.partition(b": ")
            if not colon:
                raise _Damaged("a line of its head has no colon")
            self.fields[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")
        if version != b"WARC/1.1" or self.fields.get("warc-type") not in _KINDS:
            raise _Damaged("it is not a record that this crawler writes")
        if self._is_first != (self.kind == "warcinfo"):
            raise _Damaged("the first record of a file, and no other, is its warcinfo")
        if self.kind != "warcinfo" and not self.fields.get("warc-target-uri"):
            raise _Damaged("it has no WARC-Target-URI")
        length = self.fields.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) <= MOST_LENGTH_DIGITS):
            raise _Damaged("it has no Content-Length")
        self._left = int(length)
        self._http_head = b"" if self.kind == "response" else None

    def _read_http_head(self, block: bytes) -> None:
        assert self._http_head is not None  # noqa: S101 (its caller has looked)
        self._http_head += block
        head, found, body = self._http_head.partition(b"\r\n\r\n")
        if not found:
            if len(self._http_head) > MOST_HEAD_BYTES:
                raise _Damaged("its head of HTTP has no end")
            return
        status = _STATUS_LINE.match(head)
        if status is None:
            raise _Damaged("it has no status line")
        self.status = int(status[1])
        self._http_head = None
        self._body.update(body)


def _next_member(file: BinaryIO, start: int, end: int) -> int:
    """Where the next record begins, at `start` or behind; the end if there is none."""
    while start < end:
        file.seek(start)
        chunk = file.read(min(CHUNK_BYTES, end - start))
        found = chunk.find(_MAGIC)
        if found < 0:
            # The mark may lie across two chunks.
            start += max(1, len(chunk) - len(_MAGIC) + 1)
            continue
        start += found
        file.seek(start)
        try:
            if isal_zlib.decompressobj(31).decompress(file.read(4096), 5) == b"WARC/":
                return start
        except _ISAL_ERROR:
            pass
        start += 1
    return end
