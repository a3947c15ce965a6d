"""The tables of a crawl as a user asks them: by SQL, as lists, as files. What the files hold is written here."""

import contextlib
import csv
import io
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from gossamer.cli.main import command_module, command_parser
from gossamer.cli.rows_output import write_rows
from gossamer.config import FrontierSettings, Settings
from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.look import tables as tables_module
from gossamer.look.export import written_beside
from gossamer.look.reference import reference
from gossamer.look.tables import Rows, Tables
from gossamer.run.data_directory import DataDirectory, Frontier
from gossamer.sinks.columns import FETCHES, PAGES
from gossamer.spool.segment import SegmentName

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "data.md"

#: All that a shell, a pattern, SQL or DuckDB could take for something else.
HOSTILE_NAME = 'a crawl\'s [x]*?{a,b} crawl=CC "ü" %s'


def part(folder: Path, name: str, query: str) -> Path:
    """A file of a table, with what a query gives."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    beside = folder.parent / "written.parquet"
    literal = "'" + str(beside).replace("'", "''") + "'"
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute(f"COPY ({query}) TO {literal} (FORMAT parquet)")
    beside.rename(path)
    return path


def page(number: int, **more: object) -> str:
    """A row of `pages`; the columns that are not given are missing in the file."""
    values = {
        "url": f"https://www.example.org/{number}",
        "url_host_name": "www.example.org",
        "site": "example.org",
        "fetch_status": 200,
        "received_bytes": 1000 + number,
        "title": f"page {number}",
        "text": f"all words of {number}",
        "main_text": f"words of {number}",
        "subset": "warc",
    } | more
    columns = ", ".join(f"{_literal(value)} AS {name}" for name, value in values.items())
    return f"SELECT {columns}, TIMESTAMP '2026-01-01 00:00:00' + INTERVAL {number} SECOND AS fetch_time"


def _literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else "NULL" if value is None else str(value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A crawl in a directory with a name that is hard to quote."""
    root = tmp_path / HOSTILE_NAME
    for other in ('a crawl\'s xyz?{a,b} crawl=CC "ü" %s', 'a crawl\'s x?a crawl=CC "ü" %s'):
        part(tmp_path / other / "pages", "part-parser-0-000000-000000.parquet", page(99))
    root.mkdir()
    DataDirectory(root).write_settings(Settings())
    return root


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "100")

    def call(command: str, *arguments: str) -> Ran:
        try:
            code = command_module(command).run(command_parser(command).read(arguments))
        except GossamerError as error:
            return Ran(error.exit_code, capsys.readouterr().out, str(error))
        return Ran(code, *capsys.readouterr())

    return call


def refusal(ran: Ran) -> str:
    assert (ran.code, ran.out) == (2, "")
    assert "\n" not in ran.err
    return ran.err


# --- the tables -------------------------------------------------------------------------------------------------------


def test_a_crawl_without_files_has_its_tables_with_all_columns(data: Path) -> None:
    with Tables(data) as tables:
        for name, columns in (("pages", PAGES), ("fetches", FETCHES), ("ccindex.ccindex", PAGES), ("ccindex", PAGES)):
            described = tables.query(f"DESCRIBE {name}").rows
            assert [(row[0], row[1]) for row in described] == [
                (column.name, column.type.replace("REAL", "FLOAT")) for column in columns
            ]
            assert list(tables.query(f"SELECT count(*) FROM {name}").rows) == [(0,)]


def test_a_path_is_no_pattern_and_no_sql(data: Path, tmp_path: Path) -> None:
    # What a pattern would find instead.
    for other in ('a crawl\'s xyz?{a,b} crawl=CC "ü" %s', 'a crawl\'s x?a crawl=CC "ü" %s'):
        part(tmp_path / other / "pages", "part-parser-0-000000-000000.parquet", page(99))
    part(data / "pages", "part-parser-0-000000-000000.parquet", page(1))
    with Tables(data) as tables:
        assert list(tables.query("SELECT url, title, depth FROM pages").rows) == [
            ("https://www.example.org/1", "page 1", None)
        ]


def test_files_of_other_versions_are_read_together(data: Path) -> None:
    part(data / "pages", "part-parser-0-000000-000000.parquet", page(1))
    part(data / "pages", "part-parser-0-000001-000001.parquet", page(2, depth=3, mood="new"))
    with Tables(data) as tables:
        found = tables.query("SELECT url, depth, mood FROM pages ORDER BY url")
        assert list(found.rows) == [
            ("https://www.example.org/1", None, None),
            ("https://www.example.org/2", 3, "new"),
        ]


def test_a_part_that_is_merged_into_another_counts_once_while_both_are_there(data: Path) -> None:
    for number in range(3):
        part(data / "pages", f"part-parser-0-{number:06d}-{number:06d}.parquet", page(number))
    part(data / "pages", "part-parser-0-000000-000001.parquet", f"{page(0)} UNION ALL {page(1)}")
    (data / "pages" / "part-parser-0-000003-000003.parquet.parser-0.open").write_bytes(b"not whole")
    with Tables(data) as tables:
        assert list(tables.query("SELECT count(*), count(DISTINCT url) FROM pages").rows) == [(3, 3)]


def test_what_was_open_stays_readable_when_it_is_merged_away(data: Path) -> None:
    paths = [part(data / "pages", f"part-parser-0-{n:06d}-{n:06d}.parquet", page(n)) for n in range(2)]
    with Tables(data) as tables:
        rows = iter(tables.query("SELECT url FROM pages").rows)
        for path in paths:
            path.unlink()
        assert len(list(rows)) == 2
        assert list(tables.query("SELECT count(*) FROM pages").rows) == [(2,)]


def test_no_row_is_missed_or_doubled_while_parts_are_merged_all_the_time(data: Path) -> None:
    """Every reader sees all rows, whichever moment of a merge it meets."""
    folder = data / "pages"
    small = [part(folder, f"part-parser-0-{n:06d}-{n:06d}.parquet", page(n)).read_bytes() for n in range(4)]
    merged = part(folder, "part-parser-0-000000-000003.parquet", " UNION ALL ".join(page(n) for n in range(4)))
    large = merged.read_bytes()
    ended = threading.Event()

    def merge_again_and_again() -> None:
        while not ended.is_set():
            for number, content in enumerate(small):
                path = folder / f"part-parser-0-{number:06d}-{number:06d}.parquet"
                path.with_suffix(".new").write_bytes(content)
                path.with_suffix(".new").rename(path)
            merged.unlink()
            merged.with_suffix(".new").write_bytes(large)
            merged.with_suffix(".new").rename(merged)
            for number in range(len(small)):
                (folder / f"part-parser-0-{number:06d}-{number:06d}.parquet").unlink()
            ended.wait(0.002)

    merging = threading.Thread(target=merge_again_and_again)
    merging.start()
    try:
        counts: list[object] = []
        for _ in range(10):
            # Merges come minutes apart in a crawl, and here without a pause: some looks find no quiet moment.
            with contextlib.suppress(GossamerError), Tables(data) as tables:
                counts += tables.query("SELECT count(*), count(DISTINCT url) FROM pages").rows
    finally:
        ended.set()
        merging.join()
    assert counts
    assert set(counts) == {(4, 4)}


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_not_a_file_is_refused_and_not_waited_for(data: Path, make: Callable[[Path], None]) -> None:
    (data / "pages").mkdir(exist_ok=True)
    make(data / "pages" / "part-parser-0-000000-000000.parquet")
    with pytest.raises(GossamerError, match="not a regular file"), Tables(data):
        pass


def test_a_listing_that_missed_a_merge_is_not_believed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was read while a part came and what it replaces went may have seen neither."""
    path = part(data / "pages", "part-parser-0-000000-000001.parquet", page(1))
    torn: Iterator[list[Path]] = iter([[]])
    monkeypatch.setattr(
        tables_module,
        "committed_parts",
        lambda folder, _: next(torn, [path] if folder.name == "pages" else []),
    )
    with Tables(data) as tables:
        assert list(tables.query("SELECT count(*) FROM pages").rows) == [(1,)]


def test_files_that_change_at_every_look_are_given_up_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = iter(range(1000))
    monkeypatch.setattr(tables_module, "committed_parts", lambda *_: [data / f"{next(gone)}"])
    with pytest.raises(GossamerError, match="try again"), Tables(data):
        pass
    assert next(gone) == tables_module.LISTINGS


def test_a_damaged_file_is_named_and_is_no_mistake_of_the_query(data: Path) -> None:
    (data / "pages").mkdir()
    path = data / "pages" / "part-parser-0-000000-000000.parquet"
    path.write_bytes(b"this is no Parquet file at all")
    with pytest.raises(GossamerError) as caught, Tables(data):
        pass
    assert str(path) in str(caught.value)
    assert "/dev/fd" not in str(caught.value)
    assert "move it away" in str(caught.value)
    assert caught.value.exit_code == 1


def test_nothing_is_left_open(data: Path) -> None:
    part(data / "pages", "part-parser-0-000000-000000.parquet", page(1))
    before = len(list(Path("/dev/fd").iterdir()))
    with Tables(data) as tables:
        tables.query("SELECT * FROM pages")
    assert len(list(Path("/dev/fd").iterdir())) == before


#: Each would write a file or read one that is not of the tables, or change what keeps it from that. {part} is a
#: committed part by its path, {number} the descriptor under which it is open, {root} the data directory.
FORBIDDEN = (
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_csv('{root}/crawl.toml')",
    "SELECT * FROM glob('{root}/*')",
    "SELECT * FROM glob('/dev/fd/*')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
    "COPY pages TO '{root}/out.csv'",
    "COPY (SELECT 1) TO '{part}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY pages TO '{root}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{part}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '/dev/fd/{number}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '/proc/self/fd/{number}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'part://{number}' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO 'part://{number}' (USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1 AS a, 2 AS b) TO 'part://{number}' (PARTITION_BY (a), OVERWRITE true)",
    "EXPLAIN ANALYZE COPY (SELECT 1 AS a, 2 AS b) TO 'part://{number}' (PARTITION_BY (a), APPEND true)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'part://{number}' (PER_THREAD_OUTPUT true)",
    "WITH x AS (COPY (SELECT 1) TO 'part://{number}' (USE_TMP_FILE false)) SELECT * FROM x",
    "WITH x AS (COPY (SELECT 1) TO '{part}' (USE_TMP_FILE false)) SELECT * FROM x",
    "SELECT * FROM query('WITH x AS (COPY (SELECT 1) TO ''part://{number}'' (USE_TMP_FILE false)) SELECT * FROM x')",
    "SELECT 1; EXPLAIN ANALYZE COPY (SELECT 1) TO 'part://{number}' (USE_TMP_FILE false); SELECT 2",
    "PREPARE p AS COPY pages TO '{root}/out.csv'",
    "PREPARE p AS SELECT 1; EXECUTE p",
    "EXPLAIN ANALYZE PREPARE p AS COPY (SELECT 1) TO 'part://{number}' (USE_TMP_FILE false); EXPLAIN ANALYZE EXECUTE p",
    "EXPORT DATABASE '{root}/out'",
    "IMPORT DATABASE '{root}/out'",
    "ATTACH '{root}/out.db'",
    "ATTACH 'part://{number}' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET temp_directory = '{root}'",
    "RESET lock_configuration",
    "PRAGMA enable_external_access = true",
    "PRAGMA enable_profiling; PRAGMA profiling_output = '{part}'; SELECT 1",
    "CALL enable_profiling(format = 'json', save_location = '{part}'); SELECT 1",
    "SELECT * FROM enable_profiling(format = 'json', save_location = '{part}'); SELECT 1",
    "CALL enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{root}'}}); SELECT 1",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = '{root}'); SELECT 1",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "CALL pragma_copy_database('memory', 'x')",
    "INSERT INTO pages SELECT * FROM pages",
    "EXPLAIN ANALYZE DELETE FROM pages",
    "UPDATE EXTENSIONS",
    "SELECT * FROM data",
)


@pytest.mark.parametrize("query", FORBIDDEN)
def test_a_query_reads_the_tables_and_leaves_every_file_as_it_is(query: str, data: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = part(data / "pages", "part-parser-0-000000-000000.parquet", page(1))
    before = _contents(tmp_path)

    def quoted(path: Path) -> str:
        return str(path).replace("'", "''")

    with Tables(data) as tables:
        number = next(
            int(entry.name)
            for entry in Path("/dev/fd").iterdir()
            if os.path.realpath(entry) == str(path) and entry.is_symlink()
        )
        with pytest.raises(UsageError) as caught:
            list(tables.query(query.format(secret=secret, root=quoted(data), part=quoted(path), number=number)).rows)
        assert "\n" not in str(caught.value)
        assert "Traceback" not in str(caught.value)
        # It still answers, with what is in the file.
        assert list(tables.query("SELECT url FROM pages").rows) == [("https://www.example.org/1",)]
    assert _contents(tmp_path) == before


@pytest.mark.parametrize("path", ["{own}/out", "{own}/../out", "{own}/x/../../out", "file://{own}/../out", "{own}out"])
def test_of_what_a_query_may_write_nothing_is_left(
    path: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB sorts in a directory of its own, which no query can use to get out of it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = _contents(tmp_path)
    with Tables(data) as tables:
        [(own,)] = tables.query("SELECT value FROM duckdb_settings() WHERE name = 'temp_directory'").rows
        with contextlib.suppress(UsageError):
            tables.query(f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{path.format(own=own)}' (USE_TMP_FILE false)")
        outside = {file for file in _contents(tmp_path) if not file.is_relative_to(own)}
        assert outside == set(before)
    assert _contents(tmp_path) == before


def _contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_the_ways_to_ask_a_question_work(data: Path) -> None:
    part(data / "pages", "part-parser-0-000000-000000.parquet", page(1))
    with Tables(data) as tables:
        for query in (
            "FROM pages",
            "WITH x AS (SELECT url FROM pages) SELECT * FROM x",
            "PIVOT pages ON fetch_status USING count(*)",
            "SUMMARIZE SELECT url FROM pages",
            "DESCRIBE pages",
            "SHOW TABLES",
            "EXPLAIN SELECT * FROM pages",
            "EXPLAIN ANALYZE SELECT * FROM pages",
            "SELECT * FROM query('SELECT url FROM pages')",
            "PRAGMA table_info('pages')",
        ):
            assert list(tables.query(query).rows), query


def test_several_statements_may_lead_to_the_answer(data: Path) -> None:
    with Tables(data) as tables:
        found = tables.query(
            "CREATE TEMP TABLE n AS SELECT range AS i FROM range(3); SELECT sum(i) AS s FROM n; -- done"
        )
        assert (found.columns, list(found.rows)) == (["s"], [(3,)])


def test_times_with_a_zone_come_without_a_further_library(data: Path) -> None:
    query = "SELECT TIMESTAMPTZ '2026-01-01 00:00:00+02' AS a, 1 AS a, [TIMESTAMPTZ '2026-01-01 00:00:00+00'] AS b"
    out = io.StringIO()
    with Tables(data) as tables:
        write_rows(tables.query(query), "jsonl", out)
    assert json.loads(out.getvalue()) == {"a": "2025-12-31T22:00:00Z", "a_1": 1, "b": "['2026-01-01 00:00:00+00']"}


# --- how rows are written ---------------------------------------------------------------------------------------------


def test_a_table_fits_its_width_and_cuts_the_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    write_rows(Rows(["n", "url", "word"], iter([(1, "x" * 300, "short"), (20, None, "中文字")])), "table", out)
    lines = out.getvalue().splitlines()
    assert lines == [
        " n  url                           word",
        "--  ----------------------------  ------",
        " 1  xxxxxxxxxxxxxxxxxxxxxxxxxxx…  short",
        "20                                中文字",
    ]


def test_columns_that_do_not_fit_are_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    write_rows(Rows([f"column_{n}" for n in range(9)], iter([tuple(range(9))])), "table")
    written = capsys.readouterr()
    assert max(map(len, written.out.splitlines())) <= 30
    assert written.err == "5 more columns do not fit; --format jsonl has them all\n"


def test_a_table_of_any_length_is_written_as_it_comes() -> None:
    out = io.StringIO()
    write_rows(Rows(["n"], ((n,) for n in range(3000))), "table", out)
    assert len(out.getvalue().splitlines()) == 3002


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanted", ["table", "jsonl", "csv"])
def test_nothing_of_a_page_steers_a_terminal(wanted: str) -> None:
    out = Terminal()
    write_rows(Rows(["title\x1b"], iter([("\x1b]0;owned\x07 \x9b31m \u202e é",)])), wanted, out)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out.getvalue())


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('=HYPERLINK("http://x.test")', '\'=HYPERLINK("http://x.test")'),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("＝1+1", "'＝1+1"),
        (" =1+1", "' =1+1"),
        ("\xa0\u3000@SUM(1)", "'\xa0\u3000@SUM(1)"),
        ("\ufeff=1", "'\ufeff=1"),
        ("\u200b\u202e+1+1", "'\u200b\u202e+1+1"),
        ("\x00=1", "'\x00=1"),
        (" a=1", " a=1"),
        ("-", "'-"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        (-5, "-5"),
        (-0.25, "-0.25"),
        (Decimal("-1.10"), "-1.10"),
        ("a=1", "a=1"),
        ("'=1", "'=1"),
        (["=1"], "['=1']"),
        (None, ""),
        ("", ""),
    ],
)
def test_csv_has_no_cell_that_a_spreadsheet_runs_and_numbers_stay_numbers(value: object, cell: str) -> None:
    for raw, expected in ((False, cell), (True, str(value) if value is not None else "")):
        out = io.StringIO(newline="")
        write_rows(Rows(["=name"], iter([(value,)])), "csv", out, raw=raw)
        read = list(csv.reader(io.StringIO(out.getvalue(), newline="")))
        assert read == [["=name" if raw else "'=name"], [expected] if expected else [""]]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_cell_stays_one_where_a_spreadsheet_splits_at_other_separators_too(separator: str) -> None:
    out = io.StringIO(newline="")
    write_rows(Rows(["a"], iter([(f"x{separator}=1+1",)])), "csv", out)
    # The quotes come first, whatever a reader takes for a separator.
    assert out.getvalue() == f'a\n"x{separator}=1+1"\n'


@pytest.mark.parametrize("command", ["pages", "sites", "sql"])
def test_raw_is_refused_where_no_text_is_changed(command: str, data: Path, run: Run) -> None:
    words = ["select 1"] if command == "sql" else []
    assert "--raw" in refusal(run(command, str(data), *words, "--raw"))
    assert run(command, str(data), *words, "--raw", "--format=csv").code in {0, 3}


def test_csv_and_json_give_back_what_was_there() -> None:
    rows = [("=1+1", 'a "quoted"\nline, with; all\r\n', None, 1.5, True), ("é\x00\x1b", "", 3, None, False)]
    out = io.StringIO(newline="")
    write_rows(Rows(list("abcde"), iter(rows)), "csv", out, raw=True)
    read = list(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert read[1:] == [
        ["=1+1", 'a "quoted"\nline, with; all\r\n', "", "1.5", "true"],
        ["é\x00\x1b", "", "3", "", "false"],
    ]
    out = io.StringIO()
    write_rows(Rows(list("abcde"), iter(rows)), "jsonl", out)
    assert [tuple(json.loads(line).values()) for line in out.getvalue().splitlines()] == rows


def test_json_has_no_number_that_is_none(data: Path) -> None:
    out = io.StringIO()
    with Tables(data) as tables:
        found = tables.query(
            "SELECT 'nan'::DOUBLE, 2::HUGEINT ** 100, 1.25::DECIMAL(9,2), {'a': [1]}, MAP {1: 'x'}, '\\xFF'::BLOB"
        )
        write_rows(found, "jsonl", out)
    assert list(json.loads(out.getvalue()).values()) == [None, 2.0**100, 1.25, {"a": [1]}, {"1": "x"}, "ff"]


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def three_pages(data: Path) -> Path:
    part(data / "pages", "part-parser-0-000000-000000.parquet", f"{page(1)} UNION ALL BY NAME {page(3)}")
    other = page(2, url="http://b\u00fccher.example/2", url_host_name="xn--bcher-kva.example", fetch_status=203)
    part(data / "pages", "part-parser-1-000000-000000.parquet", other)
    return data


def test_pages_are_listed_from_the_newest(run: Run, three_pages: Path) -> None:
    ran = run("pages", str(three_pages))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0].split() == ["time", "status", "bytes", "url", "title"]
    assert [line.rsplit("page ", 1)[1] for line in ran.out.splitlines()[2:]] == ["3", "2", "1"]
    assert "2026-01-01 00:00:03" in ran.out


@pytest.mark.parametrize(
    "command",
    [
        ("pages",),
        ("sql", "select count(*) from pages"),
        ("sites",),
        ("export", "--format=jsonl", "--output=-"),
        ("export", "--format=jsonl", "--output=FILE"),
    ],
    ids=lambda words: words[0],
)
def test_what_a_running_crawl_has_fetched_and_not_committed_is_told_on_stderr(
    run: Run, three_pages: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    data = DataDirectory(three_pages)
    waiting = [data.spool / "ready", data.spool / "claimed" / "parser-0", data.spool / "claimed" / "parser-1"]
    for serial, folder in enumerate(waiting):
        folder.mkdir(parents=True)
        (folder / str(SegmentName(1, serial, 0, outcomes=serial + 1, size_bytes=10))).touch()
    name, *flags = (word.replace("FILE", str(tmp_path / "exported")) for word in command)
    flags += ["--force"] if name == "export" else []
    before = run(name, str(three_pages), *flags)
    assert "not yet written" not in before.err
    data.record_processes([], [])  # this process is its leader
    ran = run(name, str(three_pages), *flags)
    assert (ran.code, ran.out) == (before.code, before.out)
    line = "6 outcomes fetched and not yet written: not shown until the next commit, in 2 min at most"
    assert f"gossamer: {line}\n" in ran.err


def test_pages_of_a_host_and_of_a_status(run: Run, three_pages: Path) -> None:
    for filters in (["--host=B\u00fccher.example"], ["--status=203"], ["--host=xn--bcher-kva.example", "--status=203"]):
        ran = run("pages", str(three_pages), *filters, "--format=jsonl")
        assert [json.loads(line)["title"] for line in ran.out.splitlines()] == ["page 2"]


def test_pages_in_full_have_every_column(run: Run, three_pages: Path) -> None:
    names = [column.name for column in PAGES]
    lines = [
        json.loads(line) for line in run("pages", str(three_pages), "--format=jsonl", "--limit=2").out.splitlines()
    ]
    assert [list(line) for line in lines] == [names, names]
    assert (lines[0]["text"], lines[0]["fetch_time"]) == ("all words of 3", "2026-01-01T00:00:03Z")
    rows = list(csv.DictReader(io.StringIO(run("pages", str(three_pages), "--format=csv").out)))
    assert [row["main_text"] for row in rows] == ["words of 3", "words of 2", "words of 1"]
    assert list(rows[0]) == names


def test_sql_asks_the_tables(run: Run, three_pages: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = "select fetch_status, count(*) as pages from pages group by all order by 1 -- the end"
    assert json.loads(run("sql", str(three_pages), query, "--format=jsonl").out.splitlines()[1]) == {
        "fetch_status": 203,
        "pages": 1,
    }
    (tmp_path / "query.sql").write_text(query)
    with (tmp_path / "query.sql").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run("sql", str(three_pages), "-", "--format=csv").out == "fetch_status,pages\n200,2\n203,1\n"


def test_pages_come_in_spans_of_time_that_fit_the_memory(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page once, in their order, wherever a span ends; those of one moment are not divided."""
    for number in range(4):
        rows = " UNION ALL ".join(page(moment, url=f"http://{number}.test/") for moment in (1, number, 9))
        part(data / "pages", f"part-parser-{number}-000000-000000.parquet", rows)
    arguments = ("pages", str(data), "--format=jsonl")
    at_once = run(*arguments).out
    assert len(at_once.splitlines()) == 12
    monkeypatch.setattr("gossamer.look.newest.SPAN_BYTES", 1)
    assert run(*arguments).out == at_once
    for limit in (1, 5, 12, 100):
        assert run(*arguments, f"--limit={limit}").out == "".join(at_once.splitlines(keepends=True)[:limit])
    found = run(*arguments, "--host=www.example.org", "--limit=2").out
    assert found == "".join(at_once.splitlines(keepends=True)[:2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sql", "select nope from pages"], '"nope" not found'),
        (["sql", "selct 1"], "syntax error"),
        (["sql", ""], "no query"),
        (["sql", "select 1/0::int + 'x'::int"], "Could not convert"),
        (["pages", "--host=not a host"], "--host"),
        (["pages", "--host=example.org/path"], "--host"),
        (["pages", "--host=example.org:81"], "--host"),
        (["pages", "--host="], "--host"),
        (["pages", "--status=2xx"], "--status"),
        (["pages", "--status=1000"], "--status"),
        (["pages", "--limit=-3"], "--limit: -3"),
        (["pages", "--limit=x"], "--limit"),
        (["pages", "--format=xml"], "--format"),
        (["export", "--format=jsonl"], "-o"),
        (["export", "--format=jsonl", "-o", "/nowhere/at/all"], "/nowhere/at/all"),
        (["export", "--format=jsonl", "-o", "/"], "directory"),
        (["sites", "--top=0"], "--top"),
        (["sites", "--by=mood"], "--by"),
        (["status", "--watch=0"], "--watch"),
    ],
)
def test_bad_input_is_named_in_one_line(run: Run, data: Path, arguments: list[str], words: str) -> None:
    command, *others = arguments
    try:
        ran = run(command, str(data), *others)
    except UsageError as error:
        ran = Ran(error.exit_code, "", str(error))
    assert words in refusal(ran)


@pytest.mark.parametrize("command", ["status", "pages", "sql", "export", "sites"])
def test_a_directory_without_a_crawl_is_refused(run: Run, tmp_path: Path, command: str) -> None:
    more = {"sql": ["select 1"], "export": ["--format=text", "-o", str(tmp_path / "out")]}.get(command, [])
    assert "holds no crawl" in refusal(run(command, str(tmp_path), *more))
    assert "does not exist" in refusal(run(command, str(tmp_path / "nowhere"), *more))


@pytest.fixture
def without_store(three_pages: Path) -> Path:
    """Its server is not there, and its URL has a password."""
    where = FrontierSettings(store="redis://:secret@127.0.0.1:1/0", store_patience_seconds=0.1)
    crawl = DataDirectory(three_pages)
    crawl.write_settings(Settings(frontier=where))
    crawl.record_frontier(Frontier(crawl="abc", is_made=True))
    return three_pages


def test_without_its_store_a_crawl_says_what_the_files_say(run: Run, without_store: Path) -> None:
    ran = run("status", str(without_store))
    assert ran.code == StoreUnavailable.exit_code
    assert "not available" in ran.out
    assert "  pages             3" in ran.out.splitlines()
    as_json = run("status", str(without_store), "--json")
    assert as_json.code == StoreUnavailable.exit_code
    assert json.loads(as_json.out)["progress"]["pages"] == 3
    sites = run("sites", str(without_store), "--format=jsonl")
    assert sites.code == StoreUnavailable.exit_code
    assert [(row["site"], row["pages"], row["queued"]) for row in map(json.loads, sites.out.splitlines())] == [
        ("example.org", 3, None)
    ]
    for text in (*ran, *as_json, *sites):
        assert "secret" not in str(text)


def test_watching_on_a_terminal_draws_the_screen_anew(
    run: Run, without_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([None, KeyboardInterrupt])
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    def sleep(_: float) -> None:
        if (stop := next(looks)) is not None:
            raise stop

    monkeypatch.setattr("gossamer.cli.status.time.sleep", sleep)
    assert run("status", str(without_store), "--watch").code == 0
    first, second = terminal.getvalue().split("\x1b[H\x1b[2J")[1:]
    assert "since the last look" not in first
    assert "since the last look 0.0 pages/s" in second


def test_the_manual_has_the_columns_as_they_are() -> None:
    """Written anew by: python -c "from gossamer.look.reference import reference; print(reference())"."""
    assert reference() in MANUAL.read_text("utf-8")


def test_an_export_has_all_pages_in_any_format(run: Run, three_pages: Path, tmp_path: Path) -> None:
    out = tmp_path / "it's [all] of it"
    assert run("export", str(three_pages), "--format=jsonl", "-o", str(out)) == (0, "", "")
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert sorted(line["text"] for line in lines) == [f"all words of {n}" for n in (1, 2, 3)]
    assert run("export", str(three_pages), "--format=parquet", "-o", str(out), "--force") == (0, "", "")
    with duckdb.connect() as connection:
        found = connection.read_parquet(str(out).replace("[", "[[]"))
        assert found.columns == [column.name for column in PAGES]
        assert len(found.fetchall()) == 3
    ran = run("export", str(three_pages), "--format=text", "-o", "-", "--status=203")
    assert ran.out == "==> http://bücher.example/2\npage 2\n\nwords of 2\n\n"
    assert not list(tmp_path.glob(".*"))


def test_no_line_of_a_text_looks_like_the_beginning_of_a_page(run: Run, data: Path) -> None:
    text = "==> http://evil.example/\nmore"
    row = page(1, main_text=None, text=text, title="two\nlines")
    part(data / "pages", "part-parser-0-000000-000000.parquet", row)
    ran = run("export", str(data), "--format=text", "-o", "-")
    assert ran.out == "==> https://www.example.org/1\ntwo lines\n\n ==> http://evil.example/\nmore\n\n"


def test_an_export_does_not_write_through_a_link_that_was_put_in_its_way(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".all.{os.getpid()}.part").symlink_to(victim)
    with written_beside(tmp_path / "all", may_replace=False) as path:
        path.write_text("pages")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "all").is_symlink()
    assert (tmp_path / "all").read_text() == "pages"


def test_an_export_replaces_nothing_unasked_and_leaves_nothing_half(
    run: Run, three_pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "pages.txt"
    out.write_text("precious")
    message = refusal(run("export", str(three_pages), "--format=text", "-o", str(out)))
    assert "--force" in message
    monkeypatch.setattr("gossamer.cli.export.page_texts", lambda rows: (str(1 / 0) for _ in rows))
    with pytest.raises(ZeroDivisionError):
        run("export", str(three_pages), "--format=text", "-o", str(out), "--force")
    assert out.read_text() == "precious"
    assert not list(tmp_path.glob(".*"))
