"""Archive, index and tables against each other: joins in DuckDB, which go to the disk where memory ends.

The records of the archive and the lines of the index are held by file number, offset, and hashes of URL and digest:
some 50 bytes each, so that ten million of them fit into what DuckDB may take.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # the wheel ships no stubs

from gossamer.look.tables import Tables
from gossamer.look.verify_findings import Findings

#: Rows that are handed to DuckDB at once.
BATCH_ROWS = 10_000

Kind = Literal["records", "lines"]
#: File number, offset, length, URL, status, digest.
Place = tuple[int, int, int, str, int, str]

_PLACES = pa.schema(
    [
        ("file", pa.int32()),
        ("byte_offset", pa.int64()),
        ("byte_length", pa.int64()),
        ("url", pa.string()),
        ("status", pa.int64()),
        ("digest", pa.string()),
    ]
)
#: A row of a table as a place, with its URL and the archive's name as text for messages. `file` is null if there is no
#: such archive; robots.txt rows of the log have no digest, nor have the others.
_TABLE_PLACES = """
CREATE VIEW {table}_places AS
SELECT file, warc_record_offset AS byte_offset, warc_record_length AS byte_length, hash(url) AS url,
       {status}::BIGINT AS status, {digest} AS digest, url AS address, warc_filename AS name
FROM {table} LEFT JOIN files ON name = warc_filename
WHERE warc_filename IS NOT NULL
"""
_IS_PAGE = "kind = 'url' AND outcome = 'done' AND failure_kind IS NULL AND status BETWEEN 200 AND 299"
_IS_END = "kind = 'url' AND outcome <> 'retry'"
_DIFFERENCES = """concat_ws(', ',
    if(a.url <> b.url, 'URL', NULL), if(a.byte_length <> b.byte_length, 'length', NULL),
    if(a.status <> b.status, 'status', NULL), if(a.digest <> b.digest, 'digest', NULL))"""


class _Question(NamedTuple):
    """The columns that a query finds fill the text."""

    kind: str
    text: str
    query: str


_OF_INDEX = (
    _Question(
        "index-without-record",
        "the index of {} has a line for offset {}, where no sound response begins",
        "SELECT name, byte_offset FROM lines ANTI JOIN records USING (file, byte_offset) JOIN files USING (file)",
    ),
    _Question(
        "record-without-index",
        "the response in {} at offset {} has no line in the index",
        "SELECT name, byte_offset FROM records ANTI JOIN lines USING (file, byte_offset) JOIN files USING (file)",
    ),
    _Question(
        "index-differs",
        "the line for {} at offset {} and the record there differ in: {}",
        f"SELECT name, byte_offset, {_DIFFERENCES} AS what FROM lines a JOIN records b USING (file, byte_offset)"  # noqa: S608
        " JOIN files USING (file) WHERE what <> ''",
    ),
    _Question(
        "index-twice",
        "the index of {} has more than one line for offset {}",
        "SELECT name, byte_offset FROM lines JOIN files USING (file) GROUP BY ALL HAVING count(*) > 1",
    ),
)


def _of_archive(table: str) -> tuple[_Question, ...]:
    return (
        _Question(
            f"{table}-without-record",
            f"{table}: the row of {{}} points to {{}} at offset {{}}, where no sound response begins",
            f"SELECT address, name, byte_offset FROM {table}_places ANTI JOIN records USING (file, byte_offset)",  # noqa: S608
        ),
        _Question(
            f"{table}-differs",
            f"{table}: the row of {{}} and the record in {{}} at offset {{}} differ in: {{}}",
            f"SELECT address, name, byte_offset, {_DIFFERENCES} AS what"  # noqa: S608
            f" FROM {table}_places a JOIN records b USING (file, byte_offset) WHERE what <> ''",
        ),
        _Question(
            f"{table}-same-record",
            f"{table}: more than one row points to {{}} at offset {{}}",
            f"SELECT name, byte_offset FROM {table}_places GROUP BY ALL HAVING count(*) > 1",  # noqa: S608
        ),
    )


_OF_LOG = (
    _Question(
        "record-without-fetch",
        "the response in {} at offset {} has no row in fetches",
        "SELECT name, byte_offset FROM records ANTI JOIN fetches_places USING (file, byte_offset)"
        " JOIN files USING (file)",
    ),
    _Question(
        "url-ended-twice",
        "fetches: {} was done or dropped {} times",
        f"SELECT any_value(url), count(*) FROM fetches WHERE {_IS_END} GROUP BY hash(url) HAVING count(*) > 1",  # noqa: S608
    ),
)
_OF_PAGES = (
    _Question(
        "page-twice",
        "pages: {} has {} rows",
        "SELECT any_value(url), count(*) FROM pages GROUP BY hash(url) HAVING count(*) > 1",
    ),
)
_OF_PAGES_AND_LOG = (
    _Question(
        "fetch-without-page",
        "fetches: {} is a page, and has no row in pages",
        f"SELECT url FROM fetches WHERE {_IS_PAGE} AND hash(url) NOT IN (SELECT hash(url) FROM pages)",  # noqa: S608
    ),
    _Question(
        "page-without-fetch",
        "pages: the row of {} has no page of that URL in fetches",
        f"SELECT url FROM pages WHERE hash(url) NOT IN (SELECT hash(url) FROM fetches WHERE {_IS_PAGE})",  # noqa: S608
    ),
)


def prepare(tables: Tables, files: Sequence[str]) -> None:
    """Empty tables for what `add` brings; `files` are the archives, whose place in the list is their number."""
    run = tables.connection.execute
    run("CREATE TABLE files (file INTEGER, name VARCHAR)")
    for number, name in enumerate(files):
        run("INSERT INTO files VALUES (?, ?)", [number, name])
    for name in ("records", "lines"):
        run(
            f"CREATE TABLE {name} (file INTEGER, byte_offset BIGINT, byte_length BIGINT, url UBIGINT, status BIGINT,"
            " digest UBIGINT)"
        )
    run(_TABLE_PLACES.format(table="pages", status="fetch_status", digest="hash(content_digest)"))
    run(_TABLE_PLACES.format(table="fetches", status="status", digest="NULL::UBIGINT"))


def add(tables: Tables, kind: Kind, rows: Sequence[Place]) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _PLACES, strict=True)]
    tables.connection.register("batch", pa.table(columns, schema=_PLACES))
    tables.connection.execute(
        f"INSERT INTO {kind} SELECT file, byte_offset, byte_length, hash(url), status, hash(digest) FROM batch"  # noqa: S608
    )
    tables.connection.unregister("batch")


def compare(tables: Tables, findings: Findings, *, has_archive: bool, has_pages: bool, has_log: bool) -> None:
    """What is there against what else is there; a sink that was not wanted has nothing to be compared with."""
    questions: list[_Question] = []
    if has_archive:
        questions += _OF_INDEX
    if has_pages:
        questions += _OF_PAGES + (_of_archive("pages") if has_archive else ())
    if has_log:
        questions += _OF_LOG if has_archive else _OF_LOG[1:]
        questions += _of_archive("fetches") if has_archive else ()
    if has_pages and has_log:
        questions += _OF_PAGES_AND_LOG
    for question in questions:
        query = f"SELECT *, count(*) OVER () AS times FROM ({question.query}) LIMIT {findings.examples}"  # noqa: S608
        rows = list(tables.query(query).rows)
        for *values, _ in rows:
            findings.fault(question.kind, question.text.format(*values))
        if rows:
            findings.count_only(question.kind, rows[0][-1] - len(rows))


def page_counts(tables: Tables) -> tuple[int, int]:
    """Rows of pages, and pages by the log."""
    ((pages,),) = tables.query("SELECT count(*) FROM pages").rows
    ((fetched,),) = tables.query(f"SELECT count(*) FROM fetches WHERE {_IS_PAGE}").rows  # noqa: S608
    return pages, fetched
