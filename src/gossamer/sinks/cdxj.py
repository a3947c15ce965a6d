"""The index of an archive: a line for every answer in it, which says what it is and where.

    com,example)/a?b=1 20260102030405 {"url": "https://www.example.com/a?b=1", "mime": "text/html", "status": "200", …}

Key, time and JSON, as pywb and Common Crawl have it, all values strings, all of it ASCII. An open index has its lines
in the order of its archive; the final one has them sorted by their bytes, so that readers search it by halving.
"""

import heapq
import os
import re
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii as _json
from pathlib import Path

from gossamer.disk import sync
from gossamer.records import Answer
from gossamer.sinks.sink import PageRecord, Place, open_name, owner_of, write_all
from gossamer.sinks.surt import surt_key

#: An index is sorted in parts of this size, which are merged: about three times as much memory is taken, however long
#: it is. That of a gigabyte of archive, with some 500,000 lines, has two dozen of them and takes a second.
SORTED_BYTES = 8 << 20
#: What is read of each part at once while they are merged, and written of the whole.
_BLOCK_BYTES = 256 << 10

#: RFC 6838 §4.2 allows 127 characters on each side of the slash.
_MEDIA_TYPE = re.compile(r"[!-~]{1,255}")


def index_line(answer: Answer, page: PageRecord | None, place: Place, *, stamp: str, digest: str, redirect: str) -> str:
    """`stamp` is the 14 digits of its time. What is not known is left out."""
    if page is None:
        media_type, detected, charset = _media_type(answer), "", ""
    else:
        media_type, detected, charset = page.media_type, page.media_type_detected, page.charset
    return (
        f'{surt_key(answer.url)} {stamp} {{"url": {_json(answer.url)}'
        + (f', "mime": {_json(media_type)}' if _MEDIA_TYPE.fullmatch(media_type) else "")
        + (f', "mime-detected": {_json(detected)}' if detected else "")
        + f', "status": "{answer.status}", "digest": "{digest}", "length": "{place.length}"'
        f', "offset": "{place.offset}", "filename": {_json(place.file)}'
        + (f', "charset": {_json(charset)}' if charset else "")
        + (f', "truncated": {_json(answer.truncated)}' if answer.truncated else "")
        + (f', "redirect": {_json(redirect)}' if redirect else "")
        + "}\n"
    )


def close_index(path: Path, final: Path) -> None:
    """Sort the lines of an open index into its final file. May be done again after a death at any moment.

    What it writes meanwhile are open files too, by their names: recovery takes them away.
    """
    owner = owner_of(path.name) or ""
    parts, result = (final.with_name(open_name(f"{final.name}.{word}", owner)) for word in ("parts", "sorting"))
    if path.stat().st_size <= SORTED_BYTES:
        _write(result, sorted(path.read_bytes().splitlines(keepends=True)))
    else:
        ends = _write_parts(path, parts)
        descriptor = os.open(parts, os.O_RDONLY)
        try:
            starts = [0, *ends[:-1]]
            _write(result, heapq.merge(*(_lines(descriptor, *span) for span in zip(starts, ends, strict=True))))
        finally:
            os.close(descriptor)
        parts.unlink()
    result.rename(final)
    # The sorted file must outlast the machine's death before the other may go.
    sync(final.parent)
    path.unlink()


def _media_type(answer: Answer) -> str:
    value = answer.header(b"content-type") or b""
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def _write_parts(path: Path, parts: Path) -> list[int]:
    """Sorted parts of the lines, one behind the other; where each of them ends."""
    ends: list[int] = []
    with path.open("rb") as file:
        descriptor = os.open(parts, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            while lines := file.readlines(SORTED_BYTES):
                lines.sort()
                write_all(descriptor, b"".join(lines))
                ends.append(file.tell())
        finally:
            os.close(descriptor)
    return ends


def _lines(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Of one part. All parts are read through one descriptor, so their number does not matter."""
    rest = b""
    while start < end:
        block = os.pread(descriptor, min(_BLOCK_BYTES, end - start), start)
        start += len(block)
        lines = (rest + block).splitlines(keepends=True)
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield from lines


def _write(path: Path, lines: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        block = bytearray()
        for line in lines:
            block += line
            if len(block) >= _BLOCK_BYTES:
                write_all(descriptor, block)
                block.clear()
        write_all(descriptor, block)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
