"""The request that an archived answer answers: the record right behind it, as `sinks/warc.py` writes them."""

import glob
import re
import zlib
from pathlib import Path

from gossamer.records import Answer
from gossamer.sinks.sink import OPEN_SUFFIX, Place

#: Ours have a few hundred bytes, and no URL is longer than 64 KiB.
MOST_BYTES = 1 << 18
_HEAD = re.compile(rb"WARC/1\.1\r\nWARC-Type: request\r\n.*?\r\n\r\n", re.DOTALL)


def read_request(data: Path, place: Place, answer: Answer) -> bytes:
    """As it was sent; empty if the archive has none for the answer at this place."""
    final = data / place.file
    # A file may get its final name while we look, but never loses it.
    for path in (final, *final.parent.glob(f"{glob.escape(final.name)}.*{OPEN_SUFFIX}"), final):
        try:
            with path.open("rb") as file:
                file.seek(place.offset + place.length)
                record = zlib.decompressobj(31).decompress(file.read(MOST_BYTES), MOST_BYTES)
        except FileNotFoundError:
            continue
        except (OSError, zlib.error):
            return b""
        head = _HEAD.match(record)
        target = b"\r\nWARC-Target-URI: " + answer.url.encode() + b"\r\n"
        return record[head.end() :].removesuffix(b"\r\n\r\n") if head and target in head[0] else b""
    return b""
