"""One answer of the archive, read back by its place.

Only what `sinks/warc.py` writes is understood. Nothing in a file is taken on trust: a record that is not exactly what
was written there is refused, by file and offset.
"""

import glob
import re
import zlib
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from gossamer.errors import GossamerError
from gossamer.records import Answer
from gossamer.sinks.sink import OPEN_SUFFIX, Place
from gossamer.units import counted

#: Bodies may be as long as a setting allows, so this is only against a record that has no end. A gigabyte is more than
#: a parser could have held.
MOST_RECORD_BYTES = 1 << 30

#: Ours have a few hundred bytes, and no URL is longer than 64 KiB.
MOST_REQUEST_BYTES = 1 << 18

_REQUEST_HEAD = re.compile(rb"WARC/1\.1\r\nWARC-Type: request\r\n.*?\r\n\r\n", re.DOTALL)
_ARCHIVE = re.compile(r"warc/[A-Za-z0-9.-]+\.warc\.gz")
_STATUS_LINE = re.compile(rb"HTTP/\d\.\d (\d{3})(?: .*)?", re.DOTALL)


class _Damage(Exception):  # noqa: N818 (it never leaves this file)
    """What is wrong with a record."""


def archived_answer(data: Path, place: Place) -> Answer:
    """As it is archived, with the request that it answers, and headers by the names that the archive gives them."""
    where = f"{place.file} at offset {place.offset}"
    if not _ARCHIVE.fullmatch(place.file) or place.offset < 0 or not 0 < place.length <= MOST_RECORD_BYTES:
        raise GossamerError(f"{where} with {counted(place.length, 'byte')} is no place in an archive")
    try:
        answer = _parsed(_inflated(_member(data, place)))
        return replace(answer, request=_request(data, place, answer.url))
    except _Damage as damage:
        raise GossamerError(
            f"the record in {where} cannot be read: {damage}; the file is damaged, or not ours"
        ) from None
    except OSError as error:
        raise GossamerError(f"{where} cannot be read: {error}") from error


def _member(data: Path, place: Place) -> bytes:
    content = _bytes_at(data / place.file, place.offset, place.length)
    if len(content) < place.length:
        raise _Damage("the file ends before it")
    return content


def _request(data: Path, place: Place, url: str) -> bytes:
    """The record right behind an answer, as it was sent; empty if it is none, or that of another."""
    content = _bytes_at(data / place.file, place.offset + place.length, MOST_REQUEST_BYTES)
    try:
        record = zlib.decompressobj(31).decompress(content, MOST_REQUEST_BYTES)
    except zlib.error:
        return b""
    head = _REQUEST_HEAD.match(record)
    target = b"\r\nWARC-Target-URI: " + url.encode() + b"\r\n"
    return record[head.end() :].removesuffix(b"\r\n\r\n") if head and target in head[0] else b""


def _bytes_at(final: Path, offset: int, length: int) -> bytes:
    """Of a file by its final name, which it may not have yet."""
    # A file may get its final name while we look, but never loses it.
    for path in (final, *final.parent.glob(f"{glob.escape(final.name)}.*{OPEN_SUFFIX}"), final):
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError:
            continue
    raise _Damage("there is no such file")


def _inflated(member: bytes) -> bytes:
    stream = zlib.decompressobj(31)
    try:
        record = stream.decompress(member, MOST_RECORD_BYTES)
    except zlib.error as error:
        raise _Damage(str(error)) from error
    if not stream.eof or stream.unused_data:
        raise _Damage("it is not one whole gzip member")
    return record


def _parsed(record: bytes) -> Answer:
    head, _, rest = record.partition(b"\r\n\r\n")
    version, fields = _fields(head)
    block = rest[:-4]
    if version != b"WARC/1.1" or _text(fields, b"warc-type") != "response":
        raise _Damage("it is no response of WARC 1.1")
    if rest[-4:] != b"\r\n\r\n" or _text(fields, b"content-length") != str(len(block)):
        raise _Damage("its length is not what it says")
    head, end, body = block.partition(b"\r\n\r\n")
    status_line, headers = _fields(head)
    status = _STATUS_LINE.fullmatch(status_line)
    if not end or status is None:
        raise _Damage("it has no head of HTTP")
    try:
        fetched_at = datetime.fromisoformat(_text(fields, b"warc-date")).timestamp()
    except ValueError as error:
        raise _Damage(str(error)) from error
    protocols = [value.decode("latin-1") for name, value in fields if name.lower() == b"warc-protocol"]
    tls = next((protocol for protocol in protocols if protocol.startswith("tls/")), "")
    return Answer(
        url=_text(fields, b"warc-target-uri"),
        fetched_at=fetched_at,
        request=b"",
        status_line=status_line,
        status=int(status[1]),
        headers=tuple(headers),
        body=body,
        truncated=_text(fields, b"warc-truncated", ""),
        address=_text(fields, b"warc-ip-address", ""),
        tls=tls.replace("tls/", "TLSv"),
    )


def _fields(head: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    first, *lines = head.split(b"\r\n")
    pairs = [line.partition(b": ") for line in lines]
    if not all(colon for _, colon, _ in pairs):
        raise _Damage("a line of its head has no colon")
    return first, [(name, value) for name, _, value in pairs]


def _text(fields: list[tuple[bytes, bytes]], name: bytes, default: str | None = None) -> str:
    value = next((value.decode("latin-1") for key, value in fields if key.lower() == name), default)
    if value is None:
        raise _Damage(f"it has no {name.decode()}")
    return value
