"""The tables that a crawl leaves: what their rows say, that nothing from the web stops them, how parts are merged."""

import asyncio
import errno
import logging
import os
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace

from gossamer.config import UrlSettings
from gossamer.records import Answer, Finished, Lease, Outcome, PhaseTimes, Reason, Result
from gossamer.sinks import merge as merging
from gossamer.sinks import parquet
from gossamer.sinks.columns import FETCHES, PAGES, Column
from gossamer.sinks.commit import Committer
from gossamer.sinks.footer import TAIL, footer_of
from gossamer.sinks.log import LogSink
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.parts import FULL_BYTES, LARGE_BYTES, MERGED_PARTS, Part, committed_parts, next_number, to_merge
from gossamer.sinks.sink import Entry, PageRecord, Place, Sink
from gossamer.url import Url, canonicalise

WHEN = 1_700_000_000.25
TIMES = PhaseTimes(0.25, 0.5, None, 0.125, 2.0)
FOUND_AT = Place("warc/GOSSAMER-a.warc.gz", 5_000_000_000, 321)
#: Half a character, the end of a string in C, what moves a terminal's cursor, what ends a line elsewhere.
ODD = "\ud800 \x00 \x1b[2J \u2028 \udfff \U0001f577 ' \" , ; --"
AS_WRITTEN = ODD.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")


def url_of(text: str) -> Url:
    url = canonicalise(text)
    assert isinstance(url, Url)
    return url


def made_answer(url: str, status: int = 200, location: bytes | None = None, body: bytes = b"body") -> Answer:
    headers = () if location is None else ((b"Location", location),)
    line = b"HTTP/1.1 %d X" % status
    return Answer(url, WHEN, b"GET", line, status, headers, body, address="192.0.2.7", is_verified=True, times=TIMES)


def made_page(reference: str = "https://www.example.co.uk:8443/a/b?c=d&e", **facts: Any) -> Entry:
    url = url_of(reference)
    lease = Lease(7, 0, 1, url.text, url.site, url.fingerprint, 2, 1, False, 1, 3, via="https://example.com/")
    answer = made_answer(url.text)
    outcome = Outcome(lease, Result.DONE, Reason.PAGE, WHEN, answer=answer, address="192.0.2.7", times=TIMES)
    page = PageRecord(
        url=url,
        media_type="text/html",
        media_type_detected="application/xhtml+xml",
        charset="UTF-8",
        truncated="length",
        decoded_bytes=99,
        title="A title",
        description="What it is",
        language="en-GB",
        canonical="https://www.example.co.uk/a",
        robots=("noindex", "nofollow"),
        noindex=True,
        nofollow=True,
        links=12,
        text=b"All the text",
        main_text=b"The text",
    )
    return Entry(outcome, Reason.PAGE, replace(page, **facts), FOUND_AT)


class Nobody:
    """A store that has nothing to do."""

    async def sync(self) -> None: ...

    async def finish(self, finished: Sequence[Finished]) -> None: ...


def commit(data: Path, sink: Sink, *commits: Sequence[Entry]) -> None:
    """Each group of entries is a segment and a commit of its own."""
    committer = Committer(data, "parser-0", Nobody(), [sink])
    for entries in commits:
        for entry in entries:
            sink.write(entry)
            sink.flush()
        committer.segment_done(data / "segment", [])
        asyncio.run(committer.commit())
    committer.close()


def rows_of(data: Path, directory: str, prefix: str, *columns: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in committed_parts(data / directory, prefix):
        with pq.ParquetFile(path) as file:
            rows += file.read(list(columns) or None, use_threads=False).to_pylist()
    return rows


def pages_of(data: Path, *columns: str) -> list[dict[str, Any]]:
    return rows_of(data, "pages", "part", *columns)


def fetches_of(data: Path, *columns: str) -> list[dict[str, Any]]:
    return rows_of(data, "log", "fetches", *columns)


def paths_of(data: Path) -> list[str]:
    return [url["url_path"] for url in pages_of(data, "url_path")]


# What is in a row.


@pytest.mark.parametrize(
    ("sink", "columns", "files"), [(PagesSink, PAGES, "pages/part"), (LogSink, FETCHES, "log/fetches")]
)
def test_another_reader_finds_the_columns_in_their_order_with_their_types(
    tmp_path: Path, sink: type[Any], columns: tuple[Column, ...], files: str
) -> None:
    made = sink(tmp_path, parser="parser-0", **({"crawl": "c"} if sink is PagesSink else {}))
    commit(tmp_path, made, [made_page()])
    [file] = tmp_path.glob(f"{files}-parser-0-000000-000000.parquet")
    with duckdb.connect() as tables:
        described = tables.execute("DESCRIBE FROM read_parquet(?)", [str(file)]).fetchall()
    names = {"REAL": "FLOAT"}
    assert [row[:2] for row in described] == [(one.name, names.get(one.type, one.type)) for one in columns]


def test_a_page_is_a_row_as_common_crawl_has_it_with_what_was_read_of_it(tmp_path: Path) -> None:
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), [made_page()])
    [row] = pages_of(tmp_path)
    assert row == {
        "url_surtkey": "uk,co,example:8443)/a/b?c=d&e",
        "url": "https://www.example.co.uk:8443/a/b?c=d&e",
        "url_host_name": "www.example.co.uk",
        "url_host_tld": "uk",
        "url_host_2nd_last_part": "co",
        "url_host_3rd_last_part": "example",
        "url_host_4th_last_part": "www",
        "url_host_5th_last_part": None,
        "url_host_registry_suffix": "co.uk",
        "url_host_registered_domain": "example.co.uk",
        "url_host_private_suffix": "co.uk",
        "url_host_private_domain": "example.co.uk",
        "url_host_name_reversed": "uk.co.example.www",
        "url_protocol": "https",
        "url_port": 8443,
        "url_path": "/a/b",
        "url_query": "c=d&e",
        "fetch_time": datetime(2023, 11, 14, 22, 13, 20, 250_000),  # noqa: DTZ001 (UTC, without saying so)
        "fetch_status": 200,
        "fetch_redirect": None,
        "content_digest": "AIED6RLZ4CFGCJBFYDA2C7XEPLOXQO4U",
        "content_mime_type": "text/html",
        "content_mime_detected": "application/xhtml+xml",
        "content_charset": "UTF-8",
        "content_languages": None,
        "content_truncated": "length",
        "warc_record_id": None,
        "warc_filename": "warc/GOSSAMER-a.warc.gz",
        "warc_record_offset": 5_000_000_000,
        "warc_record_length": 321,
        "warc_segment": None,
        "crawl": "mine",
        "subset": "warc",
        "title": "A title",
        "description": "What it is",
        "text": "All the text",
        "main_text": "The text",
        "outlink_count": 12,
        "depth": 2,
        "canonical": "https://www.example.co.uk/a",
        "meta_robots": "noindex, nofollow",
        "language": "en-GB",
        "site": "example.co.uk",
        "hops": 1,
        "via": "https://example.com/",
        "address": "192.0.2.7",
        "is_verified": True,
        "received_bytes": 4,
        "decoded_bytes": 99,
    }


def test_what_a_page_does_not_say_is_null_and_what_was_not_computed_too(tmp_path: Path) -> None:
    nothing = dict.fromkeys(
        ("media_type", "media_type_detected", "charset", "truncated", "title", "description", "language"), ""
    )
    entry = made_page("http://example.com/", **nothing, canonical=None, robots=(), text=None, main_text=None)
    entry.place = None
    seed = replace(entry.outcome.lease, via="", hops=0)
    entry.outcome = replace(entry.outcome, lease=seed)
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), [entry, made_page("http://example.com/?")])
    row, other = pages_of(tmp_path)
    assert {name for name, value in row.items() if value is None} == {
        *("url_host_3rd_last_part", "url_host_4th_last_part", "url_host_5th_last_part", "url_port", "url_query"),
        *("fetch_redirect", "content_mime_type", "content_mime_detected", "content_charset", "content_languages"),
        *("content_truncated", "warc_record_id", "warc_filename", "warc_record_offset", "warc_record_length"),
        *("warc_segment", "title", "description", "text", "main_text", "canonical", "meta_robots", "language", "via"),
    }
    assert (row["url_path"], other["url_path"], other["url_query"]) == ("/", "/", "")


@pytest.mark.parametrize(
    ("text", "main_text"),
    [("Menu\nOne é — two\nEnd", "One é — two"), ("", ""), ("Some", ""), (None, "None of it"), ("Some", None)],
)
def test_both_texts_come_back(tmp_path: Path, text: str | None, main_text: str | None) -> None:
    encoded = [None if one is None else one.encode() for one in (text, main_text)]
    page = made_page(text=encoded[0], main_text=encoded[1])
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), [page])
    assert pages_of(tmp_path, "text", "main_text") == [{"text": text, "main_text": main_text}]


@pytest.mark.parametrize(
    ("host", "labels", "registry", "private", "reverse"),
    [
        ("a.b.c.d.e.f.com", ["com", "f", "e", "d", "c"], ("com", "f.com"), ("com", "f.com"), "com.f.e.d.c.b.a"),
        ("www.me.github.io", ["io", "github", "me", "www"], ("io", "github.io"), ("github.io", "me.github.io"), None),
        ("co.uk", ["uk", "co"], ("co.uk", None), ("co.uk", None), "uk.co"),
        ("localhost", ["localhost"], ("localhost", None), ("localhost", None), "localhost"),
        ("www.unheard-of.test", ["test", "unheard-of", "www"], ("test", "unheard-of.test"), None, None),
        ("192.0.2.1", [], (None, None), (None, None), ""),
        ("[2001:db8::1]", [], (None, None), (None, None), ""),
    ],
)
def test_the_host_is_taken_apart_as_common_crawl_does_it(
    tmp_path: Path,
    *,
    host: str,
    labels: list[str],
    registry: tuple[str | None, str | None],
    private: tuple[str | None, str | None] | None,
    reverse: str | None,
) -> None:
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), [made_page(f"https://{host}/")])
    [row] = pages_of(tmp_path)
    assert row["url_host_name"] == host
    numbers = ("tld", "2nd_last_part", "3rd_last_part", "4th_last_part", "5th_last_part")
    assert [row[f"url_host_{number}"] for number in numbers] == [*labels, None, None, None, None, None][:5]
    assert (row["url_host_registry_suffix"], row["url_host_registered_domain"]) == registry
    assert (row["url_host_private_suffix"], row["url_host_private_domain"]) == (private or registry)
    if reverse is None:
        reverse = ".".join(labels)
    assert (row["url_host_name_reversed"] or "") == reverse


def test_the_log_has_a_row_for_every_attempt_and_every_robots_txt_on_the_way(tmp_path: Path) -> None:
    page = made_page("https://example.com/")
    lease = page.outcome.lease
    robots = (
        made_answer("https://example.com/robots.txt", 301, b"//www.example.com/robots.txt", b""),
        made_answer("https://www.example.com/robots.txt"),
    )
    failed = Outcome(lease, Result.RETRY, Reason.CONNECT, WHEN, "refused", address="192.0.2.8", robots=robots)
    attempt = Entry(failed, Reason.CONNECT, robots_places=(None, FOUND_AT))
    dropped = Entry(Outcome(lease, Result.DROPPED, Reason.ROBOTS, WHEN, "line 3: /"), Reason.ROBOTS)
    commit(tmp_path, LogSink(tmp_path, parser="parser-0"), [attempt, page, dropped])
    moved, heard, first, second, third = fetches_of(tmp_path)
    of_url = {"depth": 2, "hops": 1, "via": "https://example.com/", "attempt": 2, "returned": 3}
    common = {"time": datetime(2023, 11, 14, 22, 13, 20, 250_000), "site": "example.com"}  # noqa: DTZ001 (UTC)
    answered = {"address": "192.0.2.7", "is_verified": True}
    seconds = {"dns_seconds": 0.25, "connect_seconds": 0.5, "first_byte_seconds": 0.125, "total_seconds": 2.0}
    archived = {"warc_filename": FOUND_AT.file, "warc_record_offset": FOUND_AT.offset, "warc_record_length": 321}
    is_robots = common | answered | seconds | {"kind": "robots", "outcome": "done"}
    is_url = common | of_url | {"kind": "url", "url": "https://example.com/"}
    assert [_known(row) for row in (moved, heard, first, second, third)] == [
        is_robots
        | {"url": "https://example.com/robots.txt", "status": 301, "redirect": "https://www.example.com/robots.txt"}
        | {"bytes": 0},
        is_robots | archived | {"url": "https://www.example.com/robots.txt", "status": 200, "bytes": 4},
        is_url
        | {"outcome": "retry", "failure_kind": "connect", "reason": "refused", "address": "192.0.2.8"}
        | {"total_seconds": 0.0},
        is_url | answered | seconds | archived | {"outcome": "done", "status": 200, "bytes": 4},
        is_url | {"outcome": "dropped", "failure_kind": "robots", "reason": "line 3: /", "total_seconds": 0.0},
    ]


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def test_a_page_that_could_not_be_parsed_is_in_the_log_as_that_and_no_row_of_pages(tmp_path: Path) -> None:
    entry = made_page()
    entry.page, entry.place, entry.reason = None, None, Reason.PARSE_CRASH
    commit(tmp_path, LogSink(tmp_path, parser="parser-0"), [entry])
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), [entry])
    [row] = fetches_of(tmp_path, "outcome", "failure_kind", "status", "warc_filename")
    assert row == {"outcome": "done", "failure_kind": "parse-crash", "status": 200, "warc_filename": None}
    assert list((tmp_path / "pages").glob("*")) == []


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (b"../c?utm_source=x#top", "https://example.com/c"),
        ("https://ex\u00e4mple.com/".encode(), "https://xn--exmple-cua.com/"),
        (b"https://user:secret@example.com/", "https://example.com/"),
        (b"ftp://user:secret@example.com/", "ftp://***@example.com/"),
        (b"mailto:me@example.com", "mailto:me@example.com"),
        (b"http://[", "http://["),
        (b"\xff\xfe", "https://example.com/a/%C3%BF%C3%BE"),
        (b"/" + b"x" * 9_000, "/" + "x" * 1_999),
    ],
)
def test_a_redirect_is_logged_as_it_would_be_asked_for_and_never_with_a_password(
    tmp_path: Path, location: bytes, shown: str
) -> None:
    entry = made_page("https://example.com/a/b")
    answer = made_answer("https://example.com/a/b", 302, location)
    entry = Entry(replace(entry.outcome, reason=Reason.REDIRECT, answer=answer), Reason.REDIRECT)
    commit(tmp_path, LogSink(tmp_path, parser="parser-0", urls=UrlSettings(strip_tracking=True)), [entry])
    assert fetches_of(tmp_path, "redirect", "failure_kind") == [{"redirect": shown, "failure_kind": None}]


def test_nothing_that_the_web_says_stops_a_table(tmp_path: Path) -> None:
    """Whatever a text holds comes back, but for halves of characters, which no file can hold."""
    texts = ("media_type", "media_type_detected", "charset", "truncated", "title", "description", "language")
    page = made_page(**dict.fromkeys((*texts, "canonical"), ODD), robots=(ODD,))
    outcome = page.outcome
    assert outcome.answer is not None
    lease = replace(outcome.lease, url=ODD, site=ODD, via=ODD)
    location = ODD.encode("utf-16", "surrogatepass")
    answer = replace(outcome.answer, url=ODD, address=ODD, status=399, headers=((b"Location", location),))
    page.outcome = replace(outcome, lease=lease, detail=ODD, address=ODD, answer=answer, robots=(answer,))
    page.place = Place(ODD, 2**62, 2**62)
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl=ODD), [made_page(), page])
    commit(tmp_path, LogSink(tmp_path, parser="parser-0"), [made_page(), page])
    plain, odd = pages_of(tmp_path)
    assert plain["title"] == "A title"
    assert {name for name, value in odd.items() if value == AS_WRITTEN} == {
        *("content_mime_type", "content_mime_detected", "content_charset", "content_truncated", "title", "description"),
        *("language", "canonical", "meta_robots", "site", "via", "address", "warc_filename"),
        "crawl",
    }
    _, robots, fetch = fetches_of(tmp_path)
    assert {name for name, value in fetch.items() if value == AS_WRITTEN} == {
        *("url", "site", "via", "reason", "address", "warc_filename")
    }
    assert robots["url"] == AS_WRITTEN
    with duckdb.connect() as tables:
        found = tables.execute("SELECT title FROM read_parquet(?)", [f"{tmp_path}/pages/*.parquet"]).fetchall()
    assert sorted(found) == sorted([("A title",), (AS_WRITTEN,)])


# Parts, and how they become fewer.


def test_a_part_that_is_contained_in_another_one_does_not_count(tmp_path: Path) -> None:
    names = [
        *("part-parser-0-000000-000255.parquet", "part-parser-0-000256-000256.parquet"),
        *("part-parser-10-000000-000001.parquet", "part-parser-10-1000000-1000001.parquet"),
    ]
    superseded = [
        *("part-parser-0-000000-000015.parquet", "part-parser-0-000240-000255.parquet"),
        *("part-parser-0-000100-000100.parquet", "part-parser-10-000001-000001.parquet"),
    ]
    others = [
        *("part-parser-0-000257-000257.parquet.parser-0.open", "fetches-parser-0-000900-000900.parquet"),
        *("part-parser-0-12-13.parquet", "notes.txt", "part-000000-000009.parquet"),
    ]
    for name in names + superseded + others:
        (tmp_path / name).touch()
    assert [path.name for path in committed_parts(tmp_path, "part")] == names
    assert committed_parts(tmp_path / "nowhere", "part") == []
    assert next_number(tmp_path, "part", "parser-0") == 258
    assert next_number(tmp_path, "part", "parser-1") == 0


@pytest.mark.parametrize(("part_bytes", "most_files", "most_rewrites"), [(20_000, 60, 3), (300_000, 130, 2)])
def test_a_month_of_commits_leaves_some_dozens_of_files(part_bytes: int, most_files: int, most_rewrites: float) -> None:
    """A commit every two minutes. Tiny parts are written anew once more often, which costs little: they are tiny."""
    commits, rewritten = 30 * 720, 0
    parts: list[Part] = []
    for number in range(commits):
        parts.append(Part("part", "parser-0", number, number, part_bytes))
        if merged := to_merge(parts):
            length_bytes = sum(part.length_bytes for part in merged)
            rewritten += length_bytes
            place = parts.index(merged[0])
            parts[place : place + len(merged)] = [
                Part("part", "parser-0", merged[0].first, merged[-1].last, length_bytes)
            ]
    assert sum(part.last - part.first + 1 for part in parts) == commits
    assert len(parts) <= most_files
    assert rewritten / commits / part_bytes <= most_rewrites


def test_what_is_large_or_missing_or_was_left_alone_parts_its_neighbours() -> None:
    def part(number: int, length_bytes: int = 10) -> Part:
        return Part("part", "parser-0", number, number, length_bytes)

    run = [part(number) for number in range(MERGED_PARTS)]
    assert to_merge(run) == run
    assert to_merge(run[:-1]) == []
    assert to_merge([*run[:3], *run[4:], part(MERGED_PARTS)]) == []
    assert to_merge(run, {run[5].name}) == []
    large = [part(0, LARGE_BYTES), *(part(number, LARGE_BYTES - 1) for number in range(1, 5)), part(5, 4), part(6)]
    assert FULL_BYTES == 4 * LARGE_BYTES
    assert to_merge(large) == large[1:6], "they come to a full one before they are sixteen"


def test_small_parts_become_one_with_all_rows_in_their_order(tmp_path: Path) -> None:
    entries = [made_page(f"https://example.com/{number}") for number in range(MERGED_PARTS + 1)]
    for sink in (PagesSink(tmp_path, parser="parser-0", crawl="mine"), LogSink(tmp_path, parser="parser-0")):
        commit(tmp_path, sink, *([entry] for entry in entries))
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == [
        "part-parser-0-000000-000015.parquet",
        "part-parser-0-000016-000016.parquet",
    ]
    assert len(list((tmp_path / "log").iterdir())) == 2
    assert paths_of(tmp_path) == [f"/{number}" for number in range(MERGED_PARTS + 1)]
    with pq.ParquetFile(tmp_path / "pages" / "part-parser-0-000000-000015.parquet") as file:
        assert file.num_row_groups == 1


def test_parts_of_an_earlier_run_are_merged_with_those_of_this_one(tmp_path: Path) -> None:
    entries = [made_page(f"https://example.com/{number}") for number in range(MERGED_PARTS + 1)]
    for some in (entries[:10], entries[10:]):
        commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), *([entry] for entry in some))
    assert len(list((tmp_path / "pages").iterdir())) == 2
    assert paths_of(tmp_path) == [f"/{number}" for number in range(MERGED_PARTS + 1)]


@pytest.mark.parametrize("copied_bytes", [0, 1 << 40])
def test_merged_parts_hold_what_their_parts_held_copied_or_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied_bytes: int
) -> None:
    monkeypatch.setattr(merging, "COPIED_BYTES", copied_bytes)
    entries = [
        made_page(f"https://example.com/{number}", text="é".encode() * 900 * (number % 3)) for number in range(60)
    ]
    commit(tmp_path, PagesSink(tmp_path, parser="apart", crawl="mine"), entries)
    commit(
        tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), *(entries[n : n + 4] for n in range(0, 60, 4))
    )
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), [made_page()], [made_page()])
    apart, merged, _ = committed_parts(tmp_path / "pages", "part")
    with pq.ParquetFile(merged) as file:
        assert file.num_row_groups == (1 if copied_bytes else MERGED_PARTS)
        rows = file.read().to_pylist()
    assert rows[:60] == pq.ParquetFile(apart).read().to_pylist()
    assert len(rows) == 61
    with duckdb.connect() as tables:
        query = "SELECT count(*), sum(length(text)) FROM read_parquet(?) WHERE url LIKE 'https://example.com/%'"
        assert tables.execute(query, [str(merged)]).fetchone() == (60, 20 * 900 * 3)
        query = "SELECT url_path FROM read_parquet(?) WHERE url = 'https://example.com/33'"
        assert tables.execute(query, [str(merged)]).fetchall() == [("/33",)]


def test_merging_takes_no_more_into_memory_than_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "GROUP_BYTES", 20_000)
    entries = [made_page(f"https://example.com/{number}", text=b"x" * 8_000) for number in range(MERGED_PARTS + 1)]
    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), *([entry] for entry in entries))
    with pq.ParquetFile(tmp_path / "pages" / "part-parser-0-000000-000015.parquet") as file:
        assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [2] * 8


def test_pages_that_are_too_large_for_the_memory_are_on_the_disk_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In row groups of one part, as long as what they hold is taken back together, if at all."""
    monkeypatch.setattr(parquet, "GROUP_WEIGHT", 100_000)
    sink = PagesSink(tmp_path, parser="parser-0", crawl="mine")
    committer = Committer(tmp_path, "parser-0", Nobody(), [sink])
    sizes = []
    for number in range(30):
        sink.write(
            made_page(f"https://example.com/{number}", text=random.Random(number).randbytes(10_000).hex().encode())
        )
        sink.flush()
        if number % 7 == 6:
            committer.segment_done(tmp_path / "segment", [])
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "pages").glob("*.open")))
    assert len(set(sizes)) > 5
    assert sizes[-1] > 20 * 10_000
    assert pages_of(tmp_path) == []
    committer.segment_done(tmp_path / "segment", [])
    asyncio.run(committer.commit())
    assert paths_of(tmp_path) == [f"/{number}" for number in range(30)]
    assert len(committed_parts(tmp_path / "pages", "part")) < len(set(sizes)) - 1


@pytest.mark.parametrize("seed", range(6))
def test_what_is_committed_is_there_in_its_order_whatever_is_taken_back_and_however_often_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(parquet, "GROUP_WEIGHT", chance.choice([1, 3, 8]) * parquet.ROW_WEIGHT)
    really = os.write

    def write(descriptor: int, data: memoryview) -> int:
        if chance.random() < 0.2:
            raise OSError(errno.ENOSPC, "full")
        # A part of it, as the system may.
        return really(descriptor, data[: chance.randint(1, 2 * len(data))])

    def until_done(step: Callable[[], object]) -> None:
        while True:
            try:
                step()
            except OSError:
                continue
            return

    monkeypatch.setattr(os, "write", write)
    sink = PagesSink(tmp_path, parser="parser-0", crawl="mine")
    committer = Committer(tmp_path, "parser-0", Nobody(), [sink])
    begun: list[str] = []
    whole: list[str] = []
    committed: list[str] = []
    for number in range(80):
        sink.write(made_page(f"https://example.com/{number}", text=None if number % 9 == 0 else f"{number}".encode()))
        begun.append(f"/{number}")
        if chance.random() < 0.8:
            until_done(sink.flush)
        step = chance.random()
        if step < 0.1:
            committer.abandon()
            begun.clear()
        elif step < 0.3:
            committer.segment_done(tmp_path / "segment", [])
            whole += begun
            begun.clear()
            if chance.random() < 0.4:
                until_done(lambda: asyncio.run(committer.commit()))
                committed += whole
                whole.clear()
    committer.close()
    assert paths_of(tmp_path) == committed
    assert not list((tmp_path / "pages").glob("*.open"))


@pytest.mark.parametrize("harm", ["cut", "other columns", "gone"])
def test_a_part_that_cannot_be_merged_is_left_alone_and_the_commit_is_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    def made(*numbers: int) -> list[list[Entry]]:
        return [[made_page(f"https://example.com/{number}")] for number in numbers]

    commit(tmp_path, PagesSink(tmp_path, parser="parser-0", crawl="mine"), *made(*range(MERGED_PARTS)))
    sink = PagesSink(tmp_path, parser="parser-0", crawl="mine")
    harmed = tmp_path / "pages" / "part-parser-0-000005-000005.parquet"
    if harm == "cut":
        os.truncate(harmed, 1_000)
    elif harm == "gone":
        harmed.unlink()
    else:
        pq.write_table(pa.table({"url": ["https://example.com/"]}), harmed)
    with caplog.at_level(logging.WARNING):
        commit(tmp_path, sink, *made(*range(MERGED_PARTS, 2 * MERGED_PARTS + 1)))
    assert [record.message.split(" are not merged: ")[0] for record in caplog.records] == [
        "part-parser-0-000000-000000.parquet to part-parser-0-000015-000015.parquet"
    ]
    names = [path.name for path in committed_parts(tmp_path / "pages", "part")]
    assert names[-2:] == ["part-parser-0-000016-000031.parquet", "part-parser-0-000032-000032.parquet"]
    assert len(names) == MERGED_PARTS + 2 - (harm == "gone")
    assert not list((tmp_path / "pages").glob("*.open"))


def test_a_footer_that_is_none_is_refused_whatever_it_holds(tmp_path: Path) -> None:
    commit(tmp_path, LogSink(tmp_path, parser="parser-0"), [made_page()])
    [path] = (tmp_path / "log").iterdir()
    content = path.read_bytes()
    length, _ = TAIL.unpack(content[-TAIL.size :])
    footer = content[-TAIL.size - length : -TAIL.size]
    assert footer_of(footer)[3][1] == 1
    for wrong in (b"", footer[:-1], footer[: length // 2], b"\x1c" * 100_000, b"\x15\x04\x00", b"\xff" * 100):
        with pytest.raises(ValueError, match="footer"):
            footer_of(wrong)
