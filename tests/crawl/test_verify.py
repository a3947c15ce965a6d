"""`gossamer verify` finds every kind of damage in what a crawl has left, and finds nothing where nothing is wrong."""

import fcntl
import gzip
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pytest

from gossamer.cli.main import main
from gossamer.sinks.commit import CommitRecord
from gossamer.sinks.sink import OpenFile
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import crawls_of


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("verified")
    web = Web(sites=6, pages=8, links_per_page=20, median_bytes=4_000)
    with crawls_of(web, directory, "sqlite") as crawls:
        crawls.crawl("--num-parser-processes=1", "--warc-bytes=100000", "--commit-pages=10", "--commit-interval=1")
        shutil.copytree(crawls.data, directory / "kept")
    return directory / "kept"


@pytest.fixture
def data(crawled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(crawled, tmp_path / "crawl")


class Ran(NamedTuple):
    code: int
    out: str
    err: str
    found: dict[str, Any]

    @property
    def kinds(self) -> set[str]:
        return set(self.found["fault_counts"])


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(data: Path, *arguments: str) -> Ran:
        code = main(["verify", str(data), *arguments])
        out, err = capsys.readouterr()
        return Ran(code, out, err, json.loads(out) if "--json" in arguments and out else {})

    return call


def archive(data: Path) -> Path:
    return min((data / "warc").iterdir())


def index(data: Path) -> Path:
    return min((data / "index").iterdir())


def part(data: Path, table: str = "pages") -> Path:
    return min((data / table).glob("*.parquet"))


def rewrite(path: Path, query: str) -> None:
    """A part with what a query over it gives; `part` is what it was."""
    new = path.with_name("rewritten")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW part AS FROM read_parquet('{path}')")
        connection.execute(f"COPY ({query}) TO '{new}' (FORMAT parquet)")
    new.rename(path)


def offset_of_a_page(data: Path) -> int:
    query = (
        f"SELECT warc_record_offset FROM '{data}/pages/*.parquet'"
        f" WHERE warc_filename = 'warc/{archive(data).name}' ORDER BY ALL"
    )
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    return int(rows[len(rows) // 2][0])


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def contents(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_nothing_is_wrong_with_a_crawl_that_has_ended_and_nothing_is_written(data: Path, run: Run) -> None:
    before = contents(data)
    ran = run(data, "--json")
    assert (ran.code, ran.err, ran.found["faults"], ran.found["notes"]) == (0, "", [], [])
    assert ran.found["pages"] == ran.found["fetched_pages"] == ran.found["store_pages"] > 20
    assert ran.found["records"] == ran.found["index_lines"] >= ran.found["pages"]
    assert ran.found["archives"] > 1
    shown = run(data)
    assert shown.code == 0
    assert "nothing is wrong" in shown.out
    assert contents(data) == before


def test_a_changed_byte_of_an_archive_costs_one_record_and_names_it(data: Path, run: Run) -> None:
    offset = offset_of_a_page(data)
    flip(archive(data), offset + 300)
    ran = run(data, "--json")
    assert ran.code == 1
    assert ran.found["fault_counts"] == {
        "record-damaged": 1,
        "index-without-record": 1,
        "pages-without-record": 1,
        "fetches-without-record": 1,
    }
    assert all(archive(data).name in fault["text"] for fault in ran.found["faults"])
    assert all(f"offset {offset}" in fault["text"] for fault in ran.found["faults"])


def test_a_body_that_was_changed_together_with_its_checksum_is_found_by_its_digest(data: Path, run: Run) -> None:
    path, offset = archive(data), offset_of_a_page(data)
    content = path.read_bytes()
    stream = zlib.decompressobj(31)
    record = bytearray(stream.decompress(content[offset:]))
    record[-10] ^= 1
    path.write_bytes(content[:offset] + gzip.compress(bytes(record), 9) + stream.unused_data)
    ran = run(data, "--json")
    assert ran.code == 1
    assert ran.found["faults"][0]["text"].endswith("the digest of its block is not what it says")


def test_an_archive_that_was_cut_is_found(data: Path, run: Run) -> None:
    path = archive(data)
    path.write_bytes(path.read_bytes()[:-100])
    ran = run(data, "--json")
    assert "record-damaged" in ran.kinds
    assert "the file ends within it" in ran.out


def test_an_archive_that_is_missing_is_found(data: Path, run: Run) -> None:
    archive(data).unlink()
    assert {"archive-missing", "pages-without-record", "fetches-without-record"} <= run(data, "--json").kinds


def test_an_index_that_is_missing_is_found(data: Path, run: Run) -> None:
    index(data).unlink()
    assert run(data, "--json").kinds == {"index-missing", "record-without-index"}


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda lines: lines[:1] + lines[2:], {"record-without-index"}),
        (lambda lines: [*lines[:-1], lines[-1][:-20]], {"index-line", "record-without-index"}),
        (lambda lines: [lines[0], *lines], {"index-twice"}),
        (lambda lines: [lines[1], lines[0], *lines[2:]], {"index-line"}),
        (lambda lines: [lines[0].replace(b'"offset": "', b'"offset": "9'), *lines[1:]],
         {"index-without-record", "record-without-index"}),
        (lambda lines: [lines[0].replace(b'"digest": "', b'"digest": "X'), *lines[1:]], {"index-differs"}),
        (lambda lines: [lines[0].replace(b'"filename": "warc/', b'"filename": "warc/X'), *lines[1:]],
         {"index-line", "record-without-index"}),
        (lambda lines: [lines[0], b"nonsense\n", *lines[1:]], {"index-line"}),
    ],
    ids=["dropped", "cut", "twice", "unsorted", "offset", "digest", "file", "nonsense"],
)  # fmt: skip
def test_a_damaged_index_is_found(
    data: Path, run: Run, change: Callable[[list[bytes]], list[bytes]], kinds: set[str]
) -> None:
    path = index(data)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    ran = run(data, "--json")
    assert ran.code == 1
    assert kinds <= ran.kinds <= kinds | {"index-line"}


@pytest.mark.parametrize(
    ("table", "query", "kinds"),
    [
        ("pages", "FROM part OFFSET 1", {"fetch-without-page", "store-differs"}),
        ("pages", "FROM part UNION ALL (FROM part LIMIT 1)", {"page-twice", "pages-same-record", "store-differs"}),
        ("pages", "SELECT * REPLACE (url || 'x' AS url) FROM part",
         {"pages-differs", "fetch-without-page", "page-without-fetch"}),
        ("pages", "SELECT * REPLACE (warc_record_length + 1 AS warc_record_length) FROM part", {"pages-differs"}),
        ("pages", "SELECT * REPLACE (404::SMALLINT AS fetch_status) FROM part", {"pages-differs"}),
        ("pages", "SELECT * REPLACE ('X' AS content_digest) FROM part", {"pages-differs"}),
        ("pages", "SELECT * REPLACE (warc_record_offset + 1 AS warc_record_offset) FROM part",
         {"pages-without-record"}),
        ("log", "FROM part WHERE kind = 'robots'",
         {"record-without-fetch", "page-without-fetch", "store-differs"}),
        ("log", "FROM part UNION ALL (FROM part WHERE kind = 'url' AND status = 200 LIMIT 1)",
         {"url-ended-twice", "fetches-same-record", "store-differs"}),
    ],
)  # fmt: skip
def test_rows_that_disagree_are_found(data: Path, run: Run, table: str, query: str, kinds: set[str]) -> None:
    rewrite(part(data, table), query)
    ran = run(data, "--json")
    assert ran.code == 1
    assert ran.kinds == kinds


def test_a_part_that_is_missing_is_found(data: Path, run: Run) -> None:
    part(data).unlink()
    assert run(data, "--json").kinds == {"fetch-without-page", "store-differs"}


def test_a_part_that_cannot_be_read_is_named_and_the_rest_is_verified(data: Path, run: Run) -> None:
    part(data).write_bytes(part(data).read_bytes()[:-30])
    flip(archive(data), offset_of_a_page_by_index(data) + 300)
    ran = run(data, "--json")
    assert {"part-damaged", "record-damaged"} <= ran.kinds
    assert part(data).name in ran.found["faults"][0]["text"]


def offset_of_a_page_by_index(data: Path) -> int:
    return int(json.loads(index(data).read_text().splitlines()[-1].split(" ", 2)[2])["offset"])


def test_a_store_that_is_not_there_is_said_and_is_no_fault(data: Path, run: Run) -> None:
    (data / "frontier.db").unlink()
    ran = run(data, "--json")
    assert (ran.code, ran.found["is_sound"], ran.found["store_pages"]) == (3, True, None)
    assert ran.found["store_error"]


def test_a_crawl_that_runs_is_refused(data: Path, run: Run) -> None:
    with (data / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = run(data)
    assert ran.code == 2
    assert "is running" in ran.err


def as_killed(data: Path) -> None:
    """The last archive as a kill leaves it: open, with bytes behind what was committed, its index in no order."""
    files = []
    for folder, beyond in (("warc", b"half a record"), ("index", b"half a line")):
        path = max((data / folder).iterdir())
        content = path.read_bytes()
        if folder == "index":
            content = b"".join(reversed(content.splitlines(keepends=True)))
        path.unlink()
        name = f"{folder}/{path.name}.parser-0.open"
        (data / name).write_bytes(content + beyond)
        files.append(OpenFile(name, len(content)))
    record = CommitRecord(files, [], [], [])
    (data / "commit" / "parser-0.json").write_bytes(msgspec.json.encode(record))


def test_open_files_of_a_killed_run_are_verified_up_to_what_was_committed(data: Path, run: Run) -> None:
    as_killed(data)
    (data / "pages" / "part-parser-0-000999-000999.parquet.parser-0.open").write_bytes(b"half a table")
    (data / "spool" / "quarantine").mkdir(exist_ok=True)
    ran = run(data, "--json")
    assert (ran.code, ran.found["faults"]) == (0, [])
    assert sorted(note["kind"] for note in ran.found["notes"]) == ["open-file"] * 3
    # Something else has cut it.
    [path] = (data / "warc").glob("*.open")
    path.write_bytes(path.read_bytes()[:-500])
    assert {"file-cut", "record-damaged"} <= run(data, "--json").kinds
    path.unlink()
    assert "file-missing" in run(data, "--json").kinds


def test_a_run_that_was_killed_during_a_commit_is_to_be_resumed_first(data: Path, run: Run) -> None:
    path = max((data / "warc").iterdir())
    path.rename(path.with_name(f"{path.name}.parser-0.open"))
    record = CommitRecord([OpenFile(f"warc/{path.name}.parser-0.open", 1, is_complete=True)], [], [], [])
    (data / "commit" / "parser-0.json").write_bytes(msgspec.json.encode(record))
    ran = run(data)
    assert ran.code == 2
    assert "gossamer resume" in ran.err


def test_what_files_hold_cannot_steer_a_terminal(data: Path, run: Run) -> None:
    rewrite(part(data), "SELECT * REPLACE (url || chr(27) || '[2J' || chr(10) || 'nothing is wrong' AS url) FROM part")
    path = index(data)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b'"filename": "warc/', b'"filename": "\\u001b]0;x\\u0007\\u202e')
    path.write_bytes(b"".join(lines))
    for arguments in ((), ("--json",)):
        ran = run(data, *arguments)
        assert ran.code == 1
        assert not set(ran.out) & {"\x1b", "\x07", "\u202e", "\r"}
        assert not any(line.startswith("nothing is wrong") for line in ran.out.splitlines())


def test_many_faults_of_a_kind_are_counted_and_some_are_shown(data: Path, run: Run) -> None:
    for path in (data / "pages").glob("*.parquet"):
        rewrite(path, "SELECT * REPLACE ('X' AS content_digest) FROM part")
    ran = run(data, "--json", "--examples=3")
    assert len(ran.found["faults"]) == 3
    assert ran.found["fault_counts"] == {"pages-differs": ran.found["pages"]}
    shown = run(data, "--examples=3")
    assert f"pages-differs: {ran.found['pages'] - 3:,} more" in shown.out
    assert run(data, "--examples=0").code == 2


@pytest.mark.parametrize("name", ["warc/z.warc.gz", "index/z.cdxj", "pages/part-parser-9-000000-000000.parquet"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_is_not_a_file_is_reported_and_not_waited_for(
    data: Path, run: Run, name: str, make: Callable[[Path], None]
) -> None:
    make(data / name)
    ran = run(data, "--json")
    assert ran.code == 1
    assert ran.found["fault_counts"] == {"not-a-file": 1}


def test_a_length_with_thousands_of_digits_is_damage(data: Path, run: Run) -> None:
    head = "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://x/\r\nContent-Length: " + "9" * 5000
    with archive(data).open("ab") as file:
        file.write(gzip.compress(f"{head}\r\n\r\nx\r\n\r\n".encode()))
    assert run(data, "--json").found["fault_counts"] == {"record-damaged": 1}


def test_a_url_of_any_length_is_shown_in_one_short_line(data: Path, run: Run) -> None:
    rewrite(part(data), "SELECT * REPLACE ('http://x/' || repeat('a', 1000000) AS url) FROM part LIMIT 1")
    ran = run(data)
    assert ran.code == 1
    assert max(map(len, ran.out.splitlines())) < 3_000
