"""The archive: every answer as it came, in WARC 1.1 files, each with its index beside it.

    warc/GOSSAMER-<time>-<serial>-<host>.warc.gz        index/GOSSAMER-<time>-<serial>-<host>.cdxj

A file begins with a `warcinfo` record. Then come pairs, a `response` and the `request` that it answers, each naming the
other. The response stands first, as most archives have it: its place is what an index gives, and whoever reads from
there finds the request right behind. What was said about robots.txt on the way stands before the answer that it was
asked for.

A response has the head as it came, and the body without chunks, in its content encoding. So that no reader looks for
chunks, Transfer-Encoding is called `X-Crawl-Transfer-Encoding`, and a Content-Length that does not fit what is there
`X-Crawl-Content-Length`, as public crawls do; a fitting one is then added. Of a head that is longer than readers take,
the longest headers are left out, and `X-Crawl-Headers-Left-Out` says how many.

Not archived are: 429 and 503, which say nothing about the URL; answers whose body was declined; and pages that killed
whoever read them.

Reference: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/ and, for WARC-Protocol,
https://github.com/iipc/warc-specifications/issues/42.
"""

import hashlib
import random
import re
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from pathlib import Path

from isal import isal_zlib

from gossamer.config import UrlSettings
from gossamer.records import Answer, Reason
from gossamer.sinks.cdxj import index_line
from gossamer.sinks.growing import BUFFER_BYTES, GrowingFile
from gossamer.sinks.redirect import redirect_target
from gossamer.sinks.sink import Entry, Mark, PageRecord, Place, Prepared, base32, body_digest
from gossamer.url import DEFAULT_SETTINGS

DIRECTORY = "warc"
INDEX_DIRECTORY = "index"

#: What every archive says of its format; names and values are those that the standard recommends.
_FORMAT = {
    "format": "WARC File Format 1.1",
    "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
}
_BUSY_STATUSES = frozenset({429, 503})

#: The next level gains 2 % for 10 % more time.
_LEVEL = 1
_RECORD_END = b"\r\n\r\n"

# A gzip member that is stored as it is: its head and its tail (RFC 1952 §2.3), and the head of a block in it, which
# says whether it is the last one, its length, and that with all bits turned (RFC 1951 §3.2.4).
_GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_GZIP_TAIL = struct.Struct("<II")
_BLOCK_HEAD = struct.Struct("<BHH")
_MOST_BLOCK_BYTES = 0xFFFF

#: A head must stay one: what would end a line in it becomes a space.
_ONE_LINE = bytes.maketrans(b"\r\n\0", b"   ")
#: FastWARC reads heads of up to 32 KiB, and stops at a longer one as if nothing came after it.
_MOST_HEAD_BYTES = 32_000
_MOST_STATUS_LINE_BYTES = 1_000
_LEFT_OUT = b"X-Crawl-Headers-Left-Out: %d"
_UNNAMED = re.compile(r"[^A-Za-z0-9.-]+")


class WarcSink:
    """One parser's archive. An archive and its index are always cut and closed together.

    It gives each entry the place of its answer, so it takes entries before other sinks do. A file is begun by the
    first answer that goes into it: one that holds nothing but its own description is never made.
    """

    def __init__(
        self,
        data: Path,
        *,
        run: int,
        parser: str,
        index: int,
        file_bytes: int,
        facts: Mapping[str, str],
        urls: UrlSettings = DEFAULT_SETTINGS,
    ) -> None:
        """`index` is the parser's number; `urls` says how the target of a redirect is written."""
        self._data = data
        self._urls = urls
        self._parser = parser
        self._file_bytes = file_bytes
        self._facts = facts
        self._serial = f"{run:04d}{index:03d}"
        # The name is the machine's, but nobody promises that it fits into a file's.
        self._host = _UNNAMED.sub("-", socket.gethostname())[:64] or "localhost"
        self._count = self._next_count()
        self._described_by = ""
        """The id of the warcinfo record."""
        self._archive, self._index = self._new_files()
        self._is_complete = False
        """As prepared last."""
        self._complete: list[tuple[GrowingFile, GrowingFile]] = []
        """Earlier files that were prepared as complete, and whose commit is not known to count yet."""
        # Ids must be unlike any other in the world, and need not be hard to guess.
        self._ids = _ids(random.Random())  # noqa: S311

    def write(self, entry: Entry) -> None:
        outcome = entry.outcome
        if outcome.robots:
            entry.robots_places = tuple(
                None if answer.status in _BUSY_STATUSES else self._add(answer, body_digest(answer), None)
                for answer in outcome.robots
            )
        answer = outcome.answer
        if (
            answer is not None
            and answer.status not in _BUSY_STATUSES
            and not answer.is_declined
            and entry.reason is not Reason.PARSE_CRASH
        ):
            entry.place = self._add(answer, entry.digest, entry.page)

    def flush(self) -> None:
        self._archive.flush(least_bytes=BUFFER_BYTES)
        self._index.flush(least_bytes=BUFFER_BYTES)

    def mark(self) -> Mark:
        return (self._count, self._archive.length_bytes, self._index.length_bytes)

    def rollback(self, mark: Mark) -> None:
        count, archive_bytes, index_bytes = mark
        while self._count > count:
            self._archive.cut_back(0)
            self._index.cut_back(0)
            self._archive, self._index = self._complete.pop()
            self._is_complete = True
            self._count -= 1
        self._is_complete &= self.mark() == mark
        self._archive.cut_back(archive_bytes)
        self._index.cut_back(index_bytes)

    def prepare(self) -> Prepared:
        self._archive.flush()
        self._index.flush()
        self._is_complete = self._archive.length_bytes >= self._file_bytes
        files = [file.as_prepared(is_complete=True) for pair in self._complete for file in pair]
        if self._archive.length_bytes:
            files += [file.as_prepared(is_complete=self._is_complete) for file in (self._index, self._archive)]
        return Prepared(tuple(files))

    def after_commit(self) -> None:
        self._complete.clear()
        if self._is_complete:
            self._open_next()

    def _add(self, answer: Answer, digest: str, page: PageRecord | None) -> Place:
        """Append the two records of an answer and its line in the index."""
        if self._is_complete:
            # The commit that closes the file was prepared and is not known to count: nothing more may go into it.
            self._complete.append((self._archive, self._index))
            self._open_next()
        if not self._archive.length_bytes:
            self._begin()
        date, stamp = _date(answer.fetched_at)
        response_id, request_id = next(self._ids), next(self._ids)
        common = (
            f"WARC-Warcinfo-ID: {self._described_by}\r\n"
            f"WARC-Target-URI: {answer.url}\r\n"
            f"WARC-Date: {date}\r\n"
            f"{_connection_fields(answer)}"
        )
        head, is_encoded = _response_head(answer)
        fields = (
            f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: {response_id}\r\n"
            + (f"WARC-Concurrent-To: {request_id}\r\n" if answer.request else "")
            + common
            + f"WARC-Payload-Digest: sha1:{digest}\r\nWARC-Block-Digest: {_digest(head, answer.body)}\r\n"
            + (f"WARC-Truncated: {answer.truncated}\r\n" if answer.truncated else "")
            + (
                f"WARC-Identified-Payload-Type: {page.media_type_detected}\r\n"
                if page is not None and page.media_type_detected
                else ""
            )
            + "Content-Type: application/http;msgtype=response\r\n"
            + f"Content-Length: {len(head) + len(answer.body)}\r\n\r\n"
        ).encode()
        offset = self._archive.length_bytes
        if is_encoded:
            self._archive.append(*_stored_member(fields + head, answer.body))
        else:
            self._archive.append(_member(fields, head, answer.body))
        place = Place(self._archive.final, offset, self._archive.length_bytes - offset)
        if answer.request:
            fields = (
                f"WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: {request_id}\r\n"
                f"WARC-Concurrent-To: {response_id}\r\n"
                f"{common}"
                f"WARC-Block-Digest: {_digest(answer.request)}\r\n"
                "Content-Type: application/http;msgtype=request\r\n"
                f"Content-Length: {len(answer.request)}\r\n\r\n"
            ).encode()
            self._archive.append(*_stored_member(fields, answer.request))
        redirect = redirect_target(answer, self._urls)
        self._index.append(index_line(answer, page, place, stamp=stamp, digest=digest, redirect=redirect).encode())
        return place

    def _begin(self) -> None:
        """With the time of its first record in its name; what it was called before was never on the disk."""
        self._archive, self._index = self._new_files()
        self._described_by = next(self._ids)
        lines = {**self._facts, **_FORMAT}
        block = "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in lines.items()).encode()
        fields = (
            f"WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: {self._described_by}\r\n"
            f"WARC-Date: {_date(time.time())[0]}\r\n"
            f"WARC-Filename: {self._archive.final.rpartition('/')[2]}\r\n"
            f"WARC-Block-Digest: {_digest(block)}\r\n"
            "Content-Type: application/warc-fields\r\n"
            f"Content-Length: {len(block)}\r\n\r\n"
        ).encode()
        self._archive.append(_member(fields, block))

    def _open_next(self) -> None:
        self._count += 1
        self._archive, self._index = self._new_files()
        self._is_complete = False

    def _new_files(self) -> tuple[GrowingFile, GrowingFile]:
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
        stem = f"GOSSAMER-{stamp}-{self._serial}{self._count:05d}-{self._host}"
        return (
            GrowingFile(self._data, f"{DIRECTORY}/{stem}.warc.gz", self._parser),
            GrowingFile(self._data, f"{INDEX_DIRECTORY}/{stem}.cdxj", self._parser),
        )

    def _next_count(self) -> int:
        """An earlier life of this parser may have left files in this run."""
        pattern = re.compile(rf"GOSSAMER-\d{{14}}-{self._serial}(\d{{5,}})-")
        paths = (path for name in (DIRECTORY, INDEX_DIRECTORY) for path in (self._data / name).glob("GOSSAMER-*"))
        return max((int(found[1]) + 1 for path in paths if (found := pattern.match(path.name))), default=0)


def _ids(chance: random.Random) -> Iterator[str]:
    """UUIDs (RFC 9562 §5.8) that begin by chance and count on from there: a record needs two, and chance takes time."""
    digits = f"{chance.getrandbits(64):016x}"
    prefix = f"<urn:uuid:{digits[:8]}-{digits[8:12]}-8{digits[12:15]}-b{chance.getrandbits(12):03x}-"
    for number in count(chance.getrandbits(47)):
        yield f"{prefix}{number:012x}>"


def _stored_member(head: bytes, body: bytes) -> list[bytes]:
    """A record as a gzip member of its own, in pieces, not compressed: for a body that is already, and for requests.

    To compress the body again takes six times as long and gains nothing. To compress the heads, its own and that of
    the request, takes a fifth of what an answer costs, and gains 2 % of its bytes.
    """
    content = b"".join((head, body, _RECORD_END))
    pieces = [_GZIP_HEAD]
    for start in range(0, len(content), _MOST_BLOCK_BYTES):
        piece = content[start : start + _MOST_BLOCK_BYTES]
        is_last = start + len(piece) == len(content)
        pieces += (_BLOCK_HEAD.pack(is_last, len(piece), len(piece) ^ 0xFFFF), piece)
    pieces.append(_GZIP_TAIL.pack(isal_zlib.crc32(content), len(content) & 0xFFFFFFFF))
    return pieces


def _member(*pieces: bytes) -> bytes:
    """A record as a gzip member of its own."""
    return isal_zlib.compress(b"".join((*pieces, _RECORD_END)), _LEVEL, 31)


def _response_head(answer: Answer) -> tuple[bytes, bool]:
    """The head for readers of the body as it is stored; whether that is encoded."""
    length = b"%d" % len(answer.body)
    lines = [answer.status_line]
    is_encoded, is_changed, is_fitting = False, False, False
    for name, value in answer.headers:
        kind = name.lower()
        if kind == b"transfer-encoding" or (kind == b"content-length" and value != length):
            is_changed = True
            lines.append(b"X-Crawl-" + name + b": " + value)
            continue
        is_fitting = is_fitting or kind == b"content-length"
        is_encoded = is_encoded or (kind == b"content-encoding" and value.lower() != b"identity")
        lines.append(name + b": " + value)
    if is_changed and not is_fitting:
        lines.append(b"Content-Length: " + length)
    head = b"\r\n".join(lines)
    if len(head) > _MOST_HEAD_BYTES:
        lines = _shortened(lines)
        head = b"\r\n".join(lines)
    if not head.count(b"\r") == head.count(b"\n") == len(lines) - 1 or b"\0" in head:
        head = b"\r\n".join(line.translate(_ONE_LINE) for line in lines)
    return head + b"\r\n\r\n", is_encoded


def _shortened(lines: list[bytes]) -> list[bytes]:
    """Without the longest headers: what a reader needs stands in short ones. A last one says how many are missing."""
    status_line, *headers = lines
    status_line = status_line[:_MOST_STATUS_LINE_BYTES]
    room, kept = _MOST_HEAD_BYTES - len(status_line), set[int]()
    for number in sorted(range(len(headers)), key=lambda number: len(headers[number])):
        room -= len(headers[number]) + 2
        if room < 0:
            break
        kept.add(number)
    left_out = _LEFT_OUT % (len(headers) - len(kept))
    return [status_line, *(line for number, line in enumerate(headers) if number in kept), left_out]


def _connection_fields(answer: Answer) -> str:
    """The address; then the protocols, HTTP first, in the spelling of the proposal (`TLSv1.3` is `tls/1.3`)."""
    fields = f"WARC-IP-Address: {answer.address}\r\n" if answer.address else ""
    protocol = answer.status_line[:8].lower()
    if protocol in {b"http/1.1", b"http/1.0"}:
        fields += f"WARC-Protocol: {protocol.decode()}\r\n"
    if answer.tls:
        name, _, number = answer.tls.lower().partition("v")
        fields += f"WARC-Protocol: {name}/{number if '.' in number else f'{number}.0'}\r\n"
    return fields


def _digest(*pieces: bytes) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return f"sha1:{base32(digest.digest())}"


def _date(at: float) -> tuple[str, str]:
    """As RFC 3339 has it, with microseconds; and the 14 digits that an index has."""
    second, fraction = divmod(at, 1)
    microseconds = round(fraction * 1e6)
    if microseconds == 1_000_000:
        second, microseconds = second + 1, 0
    date, stamp = _second(second)
    return f"{date}.{microseconds:06d}Z", stamp


# Hundreds of answers have the same second, and those of a segment began within a few minutes of each other.
@lru_cache(maxsize=256)
def _second(at: float) -> tuple[str, str]:
    date = datetime.fromtimestamp(at, UTC).isoformat()[:19]
    return date, re.sub("[-T:]", "", date)
