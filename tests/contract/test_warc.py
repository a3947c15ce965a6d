"""The archive: what others' readers find in it is what the servers sent, each answer once, whatever fails."""

import asyncio
import contextlib
import errno
import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import warnings
from base64 import b32encode
from collections import Counter
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
import pytest
from click.testing import CliRunner
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]
from warcio.bufferedreaders import BufferedReader  # type: ignore[import-untyped]
from warcio.checker import Checker  # type: ignore[import-untyped]

from gossamer.config import UrlSettings
from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.look.archive import archived_answer
from gossamer.records import Answer, Finished, Lease, Outcome, Reason, Result
from gossamer.sinks import cdxj
from gossamer.sinks.cdxj import close_index
from gossamer.sinks.commit import Committer, recover
from gossamer.sinks.redirect import redirect_target
from gossamer.sinks.sink import Entry, PageRecord, Place, Prepared
from gossamer.sinks.surt import surt_key
from gossamer.sinks.warc import WarcSink
from gossamer.url import Refusal, canonicalise

with warnings.catch_warnings():
    # The library warns of classes of its own when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import fastwarc.cli
    from fastwarc.warc import ArchiveIterator as FastIterator
    from fastwarc.warc import WarcRecordType

FACTS = {"software": "Gossamer/0", "operator": "ops@example.org", "robots": "obeyed\r\nno: way"}
TEXT = b"".join(b"<p>Line %d of a page, \xc3\xa9.</p>\n" % number for number in range(2_000))
NOISE = random.Random(1).randbytes(200_000)


def made_answer(url: str = "https://www.example.com/a/?b=1", **changes: Any) -> Answer:
    request = b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
    headers = ((b"Server", b"x"), (b"Content-Type", b"text/html; charset=utf-8"))
    answer = Answer(url, 1_767_323_045.678901, request, b"HTTP/1.1 200 OK", 200, headers, TEXT, address="192.0.2.1")
    if "status" in changes:
        changes.setdefault("status_line", b"HTTP/1.1 %d Said" % changes["status"])
    return msgspec.structs.replace(answer, **changes)


def made_page(answer: Answer) -> PageRecord:
    url = canonicalise(answer.url)
    assert not isinstance(url, Refusal)
    return PageRecord(
        url=url,
        media_type="text/html",
        media_type_detected="application/xhtml+xml",
        charset="UTF-8",
        truncated=answer.truncated,
        decoded_bytes=len(answer.body),
        title="",
        description="",
        language="",
        canonical=None,
        robots=(),
        noindex=False,
        nofollow=False,
        links=0,
        text=None,
        main_text=None,
    )


def made_entry(answer: Answer | None, *robots: Answer, result: Result = Result.DONE, **changes: Any) -> Entry:
    url = "https://www.example.com/" if answer is None else answer.url
    lease = Lease(1, 0, 1, url, "example.com", 1, 0, 0, False, 0, 0)
    is_page = answer is not None and answer.status < 300
    reason = Reason.PAGE if is_page else Reason.STATUS
    entry = Entry(Outcome(lease, result, reason, 0.0, answer=answer, robots=robots), reason)
    if answer is not None and is_page:
        entry.page = made_page(answer)
    for name, value in changes.items():
        setattr(entry, name, value)
    return entry


class Journal:
    """A store that only remembers what was finished."""

    def __init__(self) -> None:
        self.finished: set[int] = set()
        self.is_away = False

    async def sync(self) -> None: ...

    async def finish(self, finished: Sequence[Finished]) -> None:
        if self.is_away:
            raise StoreUnavailable("away")
        self.finished |= {done.number for done in finished}


class Crawl:
    """One parser's end: segments without a spool behind them."""

    def __init__(self, data: Path, *, file_bytes: int = 1 << 30, parser: str = "p0") -> None:
        self.data = data
        self.store = Journal()
        self.sink = WarcSink(data, run=3, parser=parser, index=12, file_bytes=file_bytes, facts=FACTS)
        self.committer = Committer(data, parser, self.store, [self.sink])
        self.parser = parser

    def write(self, *entries: Entry) -> None:
        for entry in entries:
            self.sink.write(entry)
            self.sink.flush()

    def done(self, number: int, *entries: Entry) -> None:
        segment = self.data / "spool" / f"{number}.seg"
        segment.parent.mkdir(exist_ok=True)
        segment.write_bytes(b"")
        self.write(*entries)
        self.mark(number)

    def mark(self, number: int) -> None:
        finished = Finished(str(number), number, 0, "example.com", number, Reason.PAGE, 1)
        self.committer.segment_done(self.data / "spool" / f"{number}.seg", [finished])

    def commit(self) -> None:
        asyncio.run(self.committer.commit())

    def recover(self) -> None:
        asyncio.run(recover(self.data, self.store, parser=self.parser))


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path)


def page(number: int, **changes: Any) -> Entry:
    return made_entry(made_answer(f"https://example.com/{number}", **changes))


def archived(data: Path, *entries: Entry) -> list[Path]:
    """Written, committed and closed; the archives."""
    crawl = Crawl(data)
    crawl.done(1, *entries)
    crawl.commit()
    crawl.committer.close()
    assert not list(data.glob("*/*.open"))
    return sorted((data / "warc").iterdir())


def lines_in(data: Path, pattern: str = "*.cdxj") -> list[tuple[str, str, dict[str, str]]]:
    lines = []
    for path in sorted((data / "index").glob(pattern)):
        for line in path.read_bytes().decode("ascii").splitlines():
            key, stamp, fields = line.split(" ", 2)
            lines.append((key, stamp, json.loads(fields)))
    return lines


def urls_in(data: Path) -> Counter[str]:
    """Of the closed files: the archive by its records, which must be those of its index, and intact."""
    found: Counter[str] = Counter()
    for path in (data / "warc").glob("*.warc.gz"):
        assert is_intact(path)
        found.update(
            fields["WARC-Target-URI"] for fields, _, _ in records_of(path) if fields["WARC-Type"] == "response"
        )
    indexed = Counter(fields["url"] for _, _, fields in lines_in(data))
    assert found == indexed
    return found


def records_of(path: Path) -> list[tuple[dict[str, str], bytes, list[tuple[str, str]]]]:
    """Fields, block's body and headers of HTTP, as warcio reads them."""
    found = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            headers = [] if record.http_headers is None else record.http_headers.headers
            found.append((dict(record.rec_headers.headers), record.raw_stream.read(), headers))
    return found


def warcio_check(path: Path) -> bool:
    """Without its reader of brotli, which dies where the library of that name is installed. The digest needs it not."""
    with mock.patch.dict(BufferedReader.DECOMPRESSORS):
        BufferedReader.DECOMPRESSORS.pop("br", None)
        return bool(Checker(SimpleNamespace(inputs=[str(path)], verbose=False)).process_all() == 0)


def fastwarc_check(path: Path) -> bool:
    result = CliRunner().invoke(fastwarc.cli.main, ["check", "--verify-payloads", "--quiet", str(path)])
    with path.open("rb") as file:
        whole = sum(1 for _ in FastIterator(file))
    return result.exit_code == 0 and whole == len(records_of(path))


def gunzip_check(path: Path) -> bool:
    return subprocess.run(["gzip", "-t", str(path)], capture_output=True, check=False).returncode == 0


def is_intact(path: Path) -> bool:
    return gunzip_check(path) and warcio_check(path) and fastwarc_check(path)


def odd_answers() -> list[Answer]:
    gzipped = gzip.compress(TEXT)
    return [
        made_answer(),
        made_answer("https://example.com/gzip", headers=((b"Content-Encoding", b"gzip"),), body=gzipped),
        made_answer("https://example.com/long", headers=((b"content-encoding", b"br"),), body=NOISE),
        made_answer("https://example.com/empty", body=b"", headers=()),
        made_answer("https://example.com/no-bytes", headers=((b"Content-Encoding", b"gzip"),), body=b""),
        made_answer("https://example.com/one", body=b"\r\n\r\nWARC/1.1\r\n\r\n"),
        made_answer("http://example.com/old", status_line=b"HTTP/1.0 200 ", tls=""),
        made_answer("https://example.com/tls", tls="TLSv1.3"),
        made_answer("http://[2001:db8::1]:8080/", address="2001:db8::1"),
        made_answer("https://example.com/cut", truncated="length", headers=((b"Content-Length", b"9000000"),)),
        made_answer("https://example.com/" + 1_980 * "a"),
        made_answer("https://example.com/gone", status=404, status_line=b"HTTP/1.1 404 Gone \xe9", body=b""),
        made_answer("https://example.com/many", headers=tuple((b"X-%d" % n, b"v" * 100) for n in range(256))),
        made_answer("https://example.com/bytes", headers=((b"X-A", b"\xff\xfe\x80"), (b"X-B", b""), (b"X-C", b": :"))),
    ]


def test_archives_pass_the_checks_of_gunzip_warcio_and_fastwarc(tmp_path: Path) -> None:
    [path] = archived(tmp_path, *map(made_entry, odd_answers()))
    assert gunzip_check(path)
    assert warcio_check(path)
    assert fastwarc_check(path)
    assert len(records_of(path)) == 1 + 2 * len(odd_answers())


@pytest.mark.parametrize("headers", [(), ((b"Content-Encoding", b"gzip"),)])
def test_each_of_the_checks_fails_on_a_flipped_byte(tmp_path: Path, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    body = bytes(range(32, 127)) * 30
    entry = made_entry(made_answer(headers=headers, body=body))
    [path] = archived(tmp_path, entry)
    content = path.read_bytes()
    assert entry.place is not None
    middle = entry.place.offset + entry.place.length // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert not gunzip_check(path)
    # What is compressed again has no wrong checksum, only a wrong digest.
    end = entry.place.offset + entry.place.length
    record = gzip.decompress(content[entry.place.offset : end])
    for changed, is_right in ((body[:-1] + b"?", False), (body, True)):
        member = gzip.compress(record.replace(body, changed))
        path.write_bytes(content[: entry.place.offset] + member + content[end:])
        assert gunzip_check(path)
        assert warcio_check(path) is is_right
        assert fastwarc_check(path) is is_right


def test_a_record_is_found_by_its_offset_with_three_readers_and_has_the_bytes_that_came(tmp_path: Path) -> None:
    entries = list(map(made_entry, odd_answers()))
    [path] = archived(tmp_path, *entries)
    content = path.read_bytes()
    places = {fields["url"]: fields for _, _, fields in lines_in(tmp_path)}
    for entry in entries:
        answer, place = entry.outcome.answer, entry.place
        assert answer is not None
        assert place is not None
        fields = places[answer.url]
        assert fields["filename"] == place.file == f"warc/{path.name}"
        assert (fields["offset"], fields["length"]) == (str(place.offset), str(place.length))
        member = content[place.offset : place.offset + place.length]
        record = next(ArchiveIterator(BytesIO(member)))
        assert record.rec_headers["WARC-Target-URI"] == answer.url
        assert record.raw_stream.read() == answer.body
        fast = next(FastIterator(BytesIO(member), record_types=WarcRecordType.response))
        assert fast.headers["WARC-Target-URI"] == answer.url
        assert fast.reader.read() == answer.body
        assert fast.http_headers.status_code == answer.status
        ours = archived_answer(tmp_path, place)
        # A length that does not fit what is there stands beside one that does.
        kept = [(name.removeprefix(b"X-Crawl-"), value) for name, value in ours.headers][: len(answer.headers)]
        assert kept == list(answer.headers)
        assert ours == msgspec.structs.replace(answer, headers=ours.headers)


def test_the_records_say_what_the_standard_asks_for(tmp_path: Path) -> None:
    answer = made_answer(tls="TLSv1.2")
    [path] = archived(tmp_path, made_entry(answer))
    [(described, block, _), (response, body, _), (request, sent, _)] = records_of(path)
    assert described["WARC-Type"] == "warcinfo"
    assert described["WARC-Filename"] == path.name
    assert described["Content-Type"] == "application/warc-fields"
    assert block.decode().splitlines() == [
        "software: Gossamer/0",
        "operator: ops@example.org",
        "robots: obeyed no: way",
        "format: WARC File Format 1.1",
        "conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
    ]
    assert (response["WARC-Type"], request["WARC-Type"]) == ("response", "request")
    assert response["WARC-Concurrent-To"] == request["WARC-Record-ID"]
    assert request["WARC-Concurrent-To"] == response["WARC-Record-ID"]
    assert len({fields["WARC-Record-ID"] for fields in (described, response, request)}) == 3
    for fields in (response, request):
        assert fields["WARC-Warcinfo-ID"] == described["WARC-Record-ID"]
        assert fields["WARC-Target-URI"] == answer.url
        assert fields["WARC-Date"] == "2026-01-02T03:04:05.678901Z"
        assert fields["WARC-IP-Address"] == "192.0.2.1"
    assert response["Content-Type"] == "application/http;msgtype=response"
    assert request["Content-Type"] == "application/http;msgtype=request"
    assert response["WARC-Identified-Payload-Type"] == "application/xhtml+xml"
    assert response["WARC-Payload-Digest"] == f"sha1:{b32encode(hashlib.sha1(TEXT).digest()).decode()}"
    assert "WARC-Truncated" not in response
    assert (body, sent) == (TEXT, b"")
    for record in list(FastIterator(BytesIO(path.read_bytes())))[1:]:
        protocols = [value for name, value in record.headers if name == "WARC-Protocol"]
        assert protocols == ["http/1.1", "tls/1.2"]
    assert gzip.decompress(path.read_bytes()).count(answer.request + b"\r\n\r\n") == 1


@pytest.mark.parametrize(
    ("at", "date"),
    [
        (1_767_323_045.0, "2026-01-02T03:04:05.000000Z"),
        (1_767_323_045.000_04, "2026-01-02T03:04:05.000040Z"),
        (1_767_323_045.999_999_9, "2026-01-02T03:04:06.000000Z"),
        (1_767_225_599.999_999_9, "2026-01-01T00:00:00.000000Z"),
    ],
)
def test_the_index_has_the_second_that_the_records_have(tmp_path: Path, at: float, date: str) -> None:
    [path] = archived(tmp_path, made_entry(made_answer(fetched_at=at)))
    assert [fields["WARC-Date"] for fields, _, _ in records_of(path)][1:] == [date, date]
    [index] = (tmp_path / "index").iterdir()
    assert index.read_text().split()[1] == "".join(filter(str.isdigit, date))[:14]


@pytest.mark.parametrize(("record_bytes", "blocks"), [(0xFFFF, 1), (0x10000, 2)])
def test_an_encoded_answer_is_whole_where_a_block_of_its_member_ends(
    crawl: Crawl, record_bytes: int, blocks: int
) -> None:
    def written(body_bytes: int) -> tuple[Place, bytes]:
        body = random.Random(0).randbytes(body_bytes)
        entry = made_entry(made_answer(headers=((b"Content-Encoding", b"br"),), body=body))
        crawl.done(1, entry)
        assert entry.place is not None
        return entry.place, body

    # The head and the tail of a member are 18 bytes long, the head of a block 5.
    shorter, _ = written(60_000)
    place, body = written(60_000 + record_bytes - (shorter.length - 18 - 5))
    crawl.commit()
    assert place.length == record_bytes + 18 + 5 * blocks
    assert archived_answer(crawl.data, place).body == body


def test_an_index_line_says_what_common_crawls_does(tmp_path: Path) -> None:
    cut = made_answer(truncated="time")
    moved = made_answer(
        "http://www.example.com/A?b=2&a=1",
        status=301,
        headers=((b"Content-Length", b"0"), (b"Location", b"/B c\xc3\xa9#x"), (b"Content-Type", b"Text/HTML\x80")),
        body=b"",
    )
    [path] = archived(tmp_path, made_entry(cut), made_entry(moved))
    [(key, stamp, fields), (other_key, _, other)] = lines_in(tmp_path)
    assert (key, stamp) == ("com,example)/a?a=1&b=2", "20260102030405")
    assert list(fields) == ["url", "status", "digest", "length", "offset", "filename", "redirect"]
    assert fields["redirect"] == "http://www.example.com/B%20c%C3%A9"
    assert fields["digest"] == b32encode(hashlib.sha1(b"").digest()).decode()
    assert other_key == surt_key(cut.url) == "com,example)/a?b=1"
    assert {name: value for name, value in other.items() if name not in {"digest", "length", "offset"}} == {
        "url": cut.url,
        "mime": "text/html",
        "mime-detected": "application/xhtml+xml",
        "status": "200",
        "filename": f"warc/{path.name}",
        "charset": "UTF-8",
        "truncated": "time",
    }


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"https://user:secret@Example.org:443/x", "https://example.org/x"),
        (b"mailto:someone@example.org", "mailto:someone@example.org"),
        (b"ftp://user:secret@example.org/", "ftp://***@example.org/"),
        (b"\xe9", "https://www.example.com/a/%C3%A9"),
        (b"http://[", "http://["),
        (b"x" * 9_000, "x" * 2_000),
    ],
)
def test_a_redirect_leads_to_a_canonical_url_or_shows_no_password(location: bytes, target: str) -> None:
    assert redirect_target(made_answer(status=302, headers=((b"LOCATION", location),)), UrlSettings()) == target
    assert redirect_target(made_answer(status=200, headers=((b"LOCATION", location),)), UrlSettings()) == ""


def test_no_reader_is_told_of_chunks_or_of_a_length_that_does_not_fit(tmp_path: Path) -> None:
    fitting = b"%d" % len(TEXT)
    sent: list[list[tuple[bytes, bytes]]] = [
        [(b"transfer-encoding", b"chunked"), (b"X-A", b"1")],
        [(b"Content-Length", b"5")],
        [(b"Content-Length", fitting)],
        [(b"Content-Length", fitting), (b"Transfer-Encoding", b"chunked")],
        [(b"X-A", b"1")],
    ]
    answers = [made_answer(f"https://example.com/{number}", headers=tuple(h)) for number, h in enumerate(sent)]
    [path] = archived(tmp_path, *map(made_entry, answers))
    found = [headers for fields, _, headers in records_of(path) if fields["WARC-Type"] == "response"]
    length = ("Content-Length", fitting.decode())
    assert found == [
        [("X-Crawl-transfer-encoding", "chunked"), ("X-A", "1"), length],
        [("X-Crawl-Content-Length", "5"), length],
        [length],
        [length, ("X-Crawl-Transfer-Encoding", "chunked")],
        [("X-A", "1")],
    ]


def test_no_header_can_split_a_head_or_a_record(tmp_path: Path) -> None:
    hostile = (
        (b"X-A", b"1\r\nX-Evil: 2"),
        (b"X-B", b"1\r\n\r\n<html>"),
        (b"X-C", b"1\nWARC/1.1\n"),
        (b"X-D", b"\0\r"),
    )
    answer = made_answer(headers=hostile, status_line=b"HTTP/1.1 200 O\r\n\r\nK")
    entry = made_entry(answer)
    [path] = archived(tmp_path, entry, made_entry(made_answer("https://example.com/next")))
    assert is_intact(path)
    records = records_of(path)
    assert len(records) == 5
    assert records[1][1] == TEXT
    assert [name for name, _ in records[1][2]] == ["X-A", "X-B", "X-C", "X-D"]
    assert records[1][2][0] == ("X-A", "1  X-Evil: 2")
    assert entry.place is not None
    ours = archived_answer(tmp_path, entry.place)
    assert ours.headers[1] == (b"X-B", b"1    <html>")
    assert ours.status_line == b"HTTP/1.1 200 O    K"


def test_of_a_head_that_is_too_long_for_readers_the_longest_headers_are_left_out(tmp_path: Path) -> None:
    many = tuple((b"X-%d" % number, b"v" * 200) for number in range(250))
    huge = (b"X-Huge", b"v" * 60_000)
    encoding = (b"Content-Encoding", b"gzip")
    entries = [
        made_entry(made_answer("https://example.com/many", headers=(*many, encoding))),
        made_entry(made_answer("https://example.com/huge", headers=(huge, *many[:100], encoding))),
        made_entry(made_answer("https://example.com/phrase", status_line=b"HTTP/1.1 200 " + b"x" * 60_000)),
    ]
    [path] = archived(tmp_path, *entries)
    assert is_intact(path)
    found = [archived_answer(tmp_path, entry.place).headers for entry in entries if entry.place is not None]
    assert all(encoding in headers for headers in found[:2])
    assert found[0][-1] == (b"X-Crawl-Headers-Left-Out", b"%d" % (250 - len(found[0]) + 2))
    assert found[1][-1] == (b"X-Crawl-Headers-Left-Out", b"1")
    assert found[1][:100] == many[:100]


def test_what_is_archived_and_what_is_not(tmp_path: Path) -> None:
    robots = made_answer("https://example.com/robots.txt", body=b"User-agent: *\n")
    entries = {
        "page": page(1),
        "busy": page(2, status=503),
        "too many": page(3, status=429),
        "declined": page(4, is_declined=True, body=b""),
        "crashed": made_entry(made_answer("https://example.com/5"), reason=Reason.PARSE_CRASH, page=None),
        "retried": made_entry(made_answer("https://example.com/6", status=500, body=b""), result=Result.RETRY),
        "failed": made_entry(None),
        "disallowed": made_entry(None, robots),
        "asked": made_entry(
            made_answer("https://example.com/7"),
            msgspec.structs.replace(robots, status=301, status_line=b"HTTP/1.1 301 ", body=b""),
            msgspec.structs.replace(robots, status=503),
            robots,
        ),
    }
    [path] = archived(tmp_path, *entries.values())
    found = [fields["WARC-Target-URI"] for fields, _, _ in records_of(path) if fields["WARC-Type"] == "response"]
    assert [url.removeprefix("https://example.com/") for url in found] == [
        "1",
        "6",
        "robots.txt",
        "robots.txt",
        "robots.txt",
        "7",
    ]
    assert {name for name, entry in entries.items() if entry.place is None} == {
        "busy",
        "too many",
        "declined",
        "crashed",
        "failed",
        "disallowed",
    }
    first, busy, last = entries["asked"].robots_places
    assert busy is None
    for place, status in ((first, 301), (last, 200), (entries["disallowed"].robots_places[0], 200)):
        assert place is not None
        assert (archived_answer(tmp_path, place).url, archived_answer(tmp_path, place).status) == (robots.url, status)
    statuses = Counter(fields["status"] for _, _, fields in lines_in(tmp_path))
    assert statuses == {"200": 4, "301": 1, "500": 1}


def test_a_crawl_that_archives_nothing_leaves_no_file(crawl: Crawl) -> None:
    crawl.done(1, made_entry(None), page(1, status=503))
    assert crawl.sink.prepare() == Prepared()
    crawl.commit()
    crawl.committer.close()
    assert not list(crawl.data.glob("warc/*")) + list(crawl.data.glob("index/*"))


def test_files_are_named_by_run_parser_and_count_and_rotate_only_at_a_commit(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, file_bytes=1_000)
    for number in range(0, 6, 2):
        crawl.done(number, page(number), page(number + 1))
        crawl.commit()
    crawl.committer.close()
    names = [path.name.removesuffix(".warc.gz") for path in sorted((tmp_path / "warc").iterdir())]
    assert [name.split("-")[2] for name in names] == ["000301200000", "000301200001", "000301200002"]
    assert all(name.startswith("GOSSAMER-2") and len(name.split("-")[1]) == 14 for name in names)
    assert [path.name.removesuffix(".cdxj") for path in sorted((tmp_path / "index").iterdir())] == names
    assert urls_in(tmp_path) == {f"https://example.com/{number}": 1 for number in range(6)}
    again = Crawl(tmp_path)
    again.done(7, page(7))
    again.commit()
    again.committer.close()
    assert len(list((tmp_path / "warc").glob("GOSSAMER-*-000301200003-*.warc.gz"))) == 1


def test_an_answer_can_be_read_while_its_file_is_open(crawl: Crawl) -> None:
    entry = page(1)
    crawl.done(1, entry)
    crawl.commit()
    assert entry.place is not None
    assert not list((crawl.data / "warc").glob("*.gz"))
    assert archived_answer(crawl.data, entry.place).body == TEXT
    crawl.committer.close()
    assert not list((crawl.data / "warc").glob("*.open"))
    assert archived_answer(crawl.data, entry.place).body == TEXT


def test_what_was_only_begun_is_taken_back_from_archive_and_index(crawl: Crawl) -> None:
    crawl.write(page(0))
    crawl.committer.abandon()
    assert crawl.sink.mark() == (0, 0, 0)
    crawl.done(1, page(1))
    crawl.write(*(page(number, headers=((b"Content-Encoding", b"br"),), body=NOISE) for number in range(10, 20)))
    crawl.committer.abandon()
    crawl.done(2, page(2))
    crawl.commit()
    crawl.write(page(3))
    crawl.committer.close()
    assert urls_in(crawl.data) == {"https://example.com/1": 1, "https://example.com/2": 1}
    assert [record[0]["WARC-Type"] for record in records_of(next((crawl.data / "warc").iterdir()))] == [
        "warcinfo",
        *["response", "request"] * 2,
    ]


@pytest.mark.parametrize("file_bytes", [1, 1 << 30])
def test_what_comes_between_a_commit_that_failed_and_the_next_is_kept(tmp_path: Path, file_bytes: int) -> None:
    crawl = Crawl(tmp_path, file_bytes=file_bytes)
    crawl.done(1, page(1))
    crawl.store.is_away = True
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    crawl.done(2, page(2))
    crawl.write(page(99))
    crawl.committer.abandon()
    with pytest.raises(StoreUnavailable):
        crawl.commit()
    crawl.write(page(99))
    crawl.committer.abandon()
    crawl.store.is_away = False
    crawl.commit()
    crawl.done(3, page(3))
    crawl.commit()
    crawl.committer.close()
    assert urls_in(tmp_path) == {f"https://example.com/{number}": 1 for number in (1, 2, 3)}
    assert not list(tmp_path.glob("*/*.open"))


def test_a_complete_file_whose_commit_was_never_written_can_be_taken_back(tmp_path: Path) -> None:
    sink = Crawl(tmp_path, file_bytes=1).sink
    start = sink.mark()
    sink.write(page(1))
    first = sink.mark()
    prepared = sink.prepare()
    assert all(file.is_complete for file in prepared.files)
    assert sink.mark() == first
    sink.write(page(2))
    assert len(sink.prepare().files) == 4
    sink.rollback(first)
    assert sink.mark() == first
    assert sink.prepare() == prepared
    sink.write(page(3))
    sink.rollback(start)
    assert sink.mark() == start
    assert sink.prepare() == Prepared()
    assert not list(tmp_path.glob("*/*.open"))


@pytest.mark.parametrize("room", range(0, 7_800, 600))
def test_a_disk_that_is_full_for_a_while_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    crawl = Crawl(tmp_path, file_bytes=2_000)
    really, left = os.write, [room]

    def write(descriptor: int, data: memoryview) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "full")
        left[0] -= (written := really(descriptor, data[: left[0]]))
        return written

    monkeypatch.setattr(os, "write", write)
    failures = 0
    for number in range(4):
        crawl.done(number, page(number, body=TEXT[:300]))
        with contextlib.suppress(OSError):
            crawl.commit()
            continue
        failures += 1
        crawl.write(page(99))
        crawl.committer.abandon()
        left[0] = 1 << 30
        crawl.commit()
    assert failures == 1
    crawl.committer.close()
    assert urls_in(tmp_path) == {f"https://example.com/{number}": 1 for number in range(4)}
    assert not list(tmp_path.glob("*/*.open"))


def test_a_part_that_a_full_disk_left_is_not_closed_into_a_file(crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl.done(1, page(1))
    crawl.commit()
    really = os.write
    calls = [0]

    def write(descriptor: int, data: memoryview) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(errno.ENOSPC, "full")
        return really(descriptor, data[:100])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="full"):
        crawl.write(*(page(number, headers=((b"Content-Encoding", b"br"),), body=NOISE) for number in range(10, 20)))
    monkeypatch.setattr(os, "write", really)
    crawl.committer.abandon()
    crawl.committer.close()
    assert urls_in(crawl.data) == {"https://example.com/1": 1}


class Killed(BaseException):
    """The process is gone. Nothing of ours may catch this."""


def mortal(patched: pytest.MonkeyPatch, steps: int) -> list[int]:
    """After so many changes of the file system nothing more is done; the last write is done by half."""
    left = [steps]

    def counted(name: str, really: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            if name == "write" and left[0] == 0:
                really(arguments[0], arguments[1][: len(arguments[1]) // 2])
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return None if name == "fsync" else really(*arguments, **named)

        return operation

    for name in ("open", "write", "fsync", "rename", "unlink", "truncate"):
        patched.setattr(os, name, counted(name, getattr(os, name)))
    return left


@pytest.mark.parametrize("sorted_bytes", [1 << 20, 500])
def test_an_index_whose_closing_is_killed_at_any_step_is_closed_by_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sorted_bytes: int
) -> None:
    monkeypatch.setattr(cdxj, "SORTED_BYTES", sorted_bytes)
    order = random.Random(2).sample(range(20), 20)
    crawl = Crawl(tmp_path / "begun")
    crawl.data.mkdir()
    crawl.done(1, *(page(number) for number in order))
    crawl.commit()
    survived = False
    steps = 0
    while not survived:
        data = tmp_path / str(steps)
        shutil.copytree(crawl.data, data)
        for more in (steps, 3, 1 << 30):
            with monkeypatch.context() as patched:
                left = mortal(patched, more)
                try:
                    asyncio.run(recover(data, Journal(), parser="p0"))
                    survived = survived or more == steps
                except Killed:
                    assert left[0] < 0
        names = sorted(path.name for path in data.glob("*/*") if path.parent.name != "spool")
        assert [name.rpartition(".")[2] for name in names] == ["cdxj", "gz"]
        lines = next((data / "index").iterdir()).read_bytes().splitlines()
        assert lines == sorted(lines)
        assert {json.loads(line.split(b" ", 2)[2])["url"] for line in lines} == {
            f"https://example.com/{number}" for number in order
        }
        assert len(lines) == len(order)
        steps += 1
    assert steps > 8, "the scenario has too few steps to show anything"


def test_a_long_index_is_sorted_in_parts_as_it_would_be_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    lines = [b"%x %s\n" % (chance.getrandbits(16), b"x" * chance.randrange(300)) for _ in range(2_000)]
    path, final = tmp_path / "a.cdxj.p0.open", tmp_path / "a.cdxj"
    monkeypatch.setattr(cdxj, "SORTED_BYTES", 20_000)
    monkeypatch.setattr(cdxj, "_BLOCK_BYTES", 1_000)
    path.write_bytes(b"".join(lines))
    close_index(path, final)
    assert final.read_bytes() == b"".join(sorted(lines))
    assert list(tmp_path.iterdir()) == [final]


def test_a_place_that_holds_no_answer_of_ours_is_refused_by_file_and_offset(tmp_path: Path) -> None:
    entry = page(1)
    [path] = archived(tmp_path, entry)
    place = entry.place
    assert place is not None
    content = path.read_bytes()
    for offset, length in ((0, place.offset), (place.offset, place.length + 1), (place.offset, place.length - 1)):
        with pytest.raises(GossamerError, match=f"GOSSAMER-.* at offset {offset} cannot be read"):
            archived_answer(tmp_path, Place(place.file, offset, length))
    for wrong in (
        Place("../secret.warc.gz", 0, 10),
        Place("warc/../x.warc.gz", 0, 10),
        Place(place.file, -1, 10),
        Place(place.file, 0, 1 << 40),
    ):
        with pytest.raises(GossamerError, match="is no place in an archive"):
            archived_answer(tmp_path, wrong)
    with pytest.raises(GossamerError, match=f"at offset {len(content)} cannot be read: .* ends before it"):
        archived_answer(tmp_path, Place(place.file, len(content), 5))
    with pytest.raises(GossamerError, match="there is no such file"):
        archived_answer(tmp_path, Place("warc/GOSSAMER-x.warc.gz", 0, 5))
    # Behind the ten bytes of gzip's own head, some of which mean nothing.
    for flipped in range(place.offset + 10, place.offset + place.length, 53):
        path.write_bytes(content[:flipped] + bytes([content[flipped] ^ 0x10]) + content[flipped + 1 :])
        with pytest.raises(GossamerError, match=f"{place.file} at offset {place.offset} cannot be read"):
            archived_answer(tmp_path, place)


@pytest.mark.parametrize(
    "record",
    [
        b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n",
        b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 4\r\n\r\nabc\r\n\r\n",
        b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 21\r\n\r\nHTTP/1.1 2xx OK\r\nA: b\r\n\r\n\r\n",
        b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\r\n\r\n",
        b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Date: x\r\nContent-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\r\n\r\n",
        b"WARC/1.1\r\nno colon\r\n\r\n\r\n\r\n",
        b"WARC/1.0\r\nWARC-Type: response\r\n\r\n\r\n\r\n",
        b"",
    ],
)
def test_a_whole_member_that_is_no_record_of_ours_is_refused(tmp_path: Path, record: bytes) -> None:
    (tmp_path / "warc").mkdir()
    member = gzip.compress(record)
    (tmp_path / "warc" / "a.warc.gz").write_bytes(member)
    with pytest.raises(GossamerError, match=r"the record in warc/a\.warc\.gz at offset 0 cannot be read"):
        archived_answer(tmp_path, Place("warc/a.warc.gz", 0, len(member)))
