"""All that a crawl has left in its files, read without the crawler's own readers, and whether it agrees.

The archives are read byte by byte with nothing but zlib; the index and the tables must name exactly what is in them.
The nemesis and the tests of crawls ask this when a crawl has come to its end.
"""

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

#: Fed to the decompressor at once: what it leaves over is copied, so it must not be the whole file.
_CHUNK_BYTES = 1 << 16
_NO_PAGES = {204, 205, 206}

#: (URL, status) of an answer.
Answered = tuple[str, int]


class Record(NamedTuple):
    """One record of an archive, in a gzip member of its own."""

    kind: str
    url: str
    length: int
    status: int
    digest: str
    """Of the body as it is stored, computed here."""


class Said(NamedTuple):
    """What is said of a record elsewhere; numbers as text, as the index has them."""

    url: str
    status: str
    digest: str
    length: str


class Holdings(msgspec.Struct, kw_only=True):
    """The pages that each kind of file has, how often, and everything that is wrong in words."""

    archived: Counter[Answered]
    indexed: Counter[Answered]
    tabled: Counter[Answered]
    logged: Counter[Answered]
    """Pages, by the log's rows."""
    ended: Counter[str]
    """URLs that were finished, by the log's rows: done or dropped."""
    digests: dict[str, str]
    """Of the archived pages' bodies."""
    faults: list[str]


def holdings(data: Path) -> Holdings:
    """Of a crawl that has ended: an open file is a fault."""
    faults = [f"{path.relative_to(data)} is still open" for path in sorted(data.glob("*/*.open"))]
    records: dict[tuple[str, int], Record] = {}
    for path in sorted((data / "warc").glob("*.warc.gz")):
        name = path.relative_to(data).as_posix()
        try:
            records |= {(name, offset): record for offset, record in _records(path)}
        except ValueError as error:
            faults.append(f"{name}: {error}")
    robots = _robots_places(data)
    pages = {place: record for place, record in records.items() if _is_page(record) and place not in robots}
    held = Holdings(
        archived=Counter((record.url, record.status) for record in pages.values()),
        indexed=_indexed(data, records, pages.keys(), faults),
        tabled=Counter(),
        logged=Counter(),
        ended=Counter(),
        digests={record.url: record.digest for record in pages.values()},
        faults=faults,
    )
    _read_tables(data, records, held)
    return held


def _is_page(record: Record) -> bool:
    return record.kind == "response" and 200 <= record.status <= 299 and record.status not in _NO_PAGES


def _robots_places(data: Path) -> set[tuple[str, int]]:
    """Of what was said about robots.txt: an archive does not tell it from a page, where it was redirected."""
    if not list((data / "log").glob("fetches-*.parquet")):
        return set()
    with duckdb.connect() as tables:
        return set(
            tables.execute(
                "SELECT warc_filename, warc_record_offset FROM read_parquet($1) WHERE kind = 'robots'",
                [f"{data}/log/fetches-*.parquet"],
            ).fetchall()
        )


def _records(path: Path) -> Iterator[tuple[int, Record]]:
    """Where each begins, and what it is. Raises ValueError where the file is not what it should be."""
    content = path.read_bytes()
    offset = 0
    while offset < len(content):
        member, end = _member(content, offset)
        head, _, block = member.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        if first != "WARC/1.1" or int(fields["Content-Length"]) != len(block) - 4 or not block.endswith(b"\r\n\r\n"):
            raise ValueError(f"no whole record at byte {offset}")
        if (offset == 0) != (fields["WARC-Type"] == "warcinfo"):
            raise ValueError(f"a {fields['WARC-Type']} at byte {offset}")
        block = block[:-4]
        if _digest(block) != fields["WARC-Block-Digest"]:
            raise ValueError(f"the digest at byte {offset} is not that of its block")
        status, digest = 0, ""
        if fields["WARC-Type"] == "response":
            http, _, body = block.partition(b"\r\n\r\n")
            status, digest = int(http.split(b" ", 2)[1]), _digest(body)
            if digest != fields["WARC-Payload-Digest"]:
                raise ValueError(f"the digest at byte {offset} is not that of its body")
        yield (
            offset,
            Record(fields["WARC-Type"], fields.get("WARC-Target-URI", ""), end - offset, status, digest),
        )
        offset = end


def _member(content: bytes, offset: int) -> tuple[bytes, int]:
    """One gzip member, and where it ends."""
    inflater = zlib.decompressobj(wbits=31)
    pieces: list[bytes] = []
    while not inflater.eof:
        chunk = content[offset : offset + _CHUNK_BYTES]
        if not chunk:
            raise ValueError("the last record is cut")
        try:
            pieces.append(inflater.decompress(chunk))
        except zlib.error as error:
            raise ValueError(f"damaged near byte {offset}: {error}") from None
        offset += len(chunk) - len(inflater.unused_data)
    return b"".join(pieces), offset


def _digest(content: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()


def _indexed(
    data: Path, records: dict[tuple[str, int], Record], pages: Collection[tuple[str, int]], faults: list[str]
) -> Counter[Answered]:
    found: Counter[Answered] = Counter()
    named: set[tuple[str, int]] = set()
    for path in sorted((data / "index").glob("*.cdxj")):
        lines = path.read_bytes().splitlines()
        if lines != sorted(lines):
            faults.append(f"{path.name} is not sorted")
        for line in lines:
            fields = json.loads(line.split(b" ", 2)[2])
            place = (fields["filename"], int(fields["offset"]))
            record = records.get(place)
            said = Said(fields["url"], fields["status"], f"sha1:{fields['digest']}", fields["length"])
            faults += _differences(path.name, said, record)
            named.add(place)
            if record is not None and place in pages:
                found[record.url, record.status] += 1
    unnamed = {place for place, record in records.items() if record.kind == "response"} - named
    faults += [f"{name} at {offset} is in no index" for name, offset in sorted(unnamed)[:3]]
    return found


def _read_tables(data: Path, records: dict[tuple[str, int], Record], held: Holdings) -> None:
    with duckdb.connect() as tables:
        if list((data / "pages").glob("*.parquet")):
            rows = tables.execute(
                "SELECT url, fetch_status, content_digest, warc_filename, warc_record_offset, warc_record_length"
                " FROM read_parquet($1)",
                [f"{data}/pages/*.parquet"],
            ).fetchall()
            for url, status, digest, name, offset, length in rows:
                held.tabled[url, status] += 1
                said = Said(url, str(status), f"sha1:{digest}", str(length))
                held.faults += _differences("pages/", said, records.get((name, offset)))
        if list((data / "log").glob("fetches-*.parquet")):
            rows = tables.execute(
                "SELECT url, outcome, failure_kind, status FROM read_parquet($1) WHERE kind = 'url'",
                [f"{data}/log/fetches-*.parquet"],
            ).fetchall()
            for url, outcome, failure_kind, status in rows:
                if outcome != "retry":
                    held.ended[url] += 1
                if outcome == "done" and failure_kind is None and status is not None and 200 <= status <= 299:
                    held.logged[url, status] += 1


def _differences(where: str, said: Said, record: Record | None) -> list[str]:
    """Between what an index or a table says of a record, and the record."""
    if record is None:
        return [f"{where} names a record of {said.url} that is in no archive"]
    held = Said(record.url, str(record.status), record.digest, str(record.length))
    return [] if said == held else [f"{where} says {said}, and the archive holds {held}"]
