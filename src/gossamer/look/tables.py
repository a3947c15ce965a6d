"""The tables of a crawl, for SQL: `pages` and `fetches` over the Parquet files that are committed, while it runs too.

Common Crawl's name for its index, `ccindex` (and `ccindex.ccindex`), is another name of `pages`: what is written for
that runs unchanged.

A part may be merged into another, and deleted, at any moment of a running crawl. So every part is opened here first,
and DuckDB reads the descriptors through `read_only_files.py`: what is open stays readable under all names' changes, no
query fails halfway, nothing in a path can be taken for a pattern, and no statement can write a part.
"""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import msgspec

from gossamer.errors import GossamerError, UsageError
from gossamer.look.read_only_files import ReadOnlyFiles
from gossamer.report.resources import raise_descriptor_limit
from gossamer.sinks.columns import FETCHES, PAGES, Column
from gossamer.sinks.parts import committed_parts

#: Where the parts of each table are, and how their names begin.
TABLES: dict[str, tuple[tuple[Column, ...], str, str]] = {
    "pages": (PAGES, "pages", "part"),
    "fetches": (FETCHES, "log", "fetches"),
}
#: A look at a crawl is not to take the processors from it.
THREADS = 2
#: What a sort or a grouping may hold before it goes to the disk; a result that is only read through takes far less.
MEMORY = "1GB"
#: Rows that are taken from DuckDB at once: with a page's text, some megabytes.
FETCH_ROWS = 500
#: Of a Parquet file that is written: what is held of one group is some tens of megabytes of text.
GROUP_ROWS = 10_240
#: How often parts are listed anew when they change meanwhile. Each time costs a moment; merges come minutes apart.
LISTINGS = 20
#: Statements that read, or make something in memory; MULTI is a PIVOT. Others are refused for the sake of a clear
#: message: what keeps files from being written is that DuckDB can open none for it (`read_only_files.py`).
_ALLOWED = frozenset({"SELECT", "EXPLAIN", "MULTI", "CREATE", "DROP", "INSERT", "UPDATE", "DELETE", "PRAGMA", "CALL"})
_ONLY_READS = "a query only reads; to write files, give --format and redirect the output, or use gossamer export"
_PART = re.compile(r"part://(\d+)")

Row = tuple[Any, ...]


class Rows(msgspec.Struct, frozen=True):
    """A result: its columns at once, its rows as they are asked for, once. Times have their zone, UTC."""

    columns: list[str]
    rows: Iterator[Row]


class Tables:
    """A DuckDB in memory that sees these tables and nothing else: no other file, no network, no extension.

    The commands that look into a crawl open it with `with`, and close it soon: it holds a descriptor for each part. It
    has what was committed when it was opened, and never writes anything into the data directory.
    """

    def __init__(self, data: Path, *, output: Path | None = None, without: Collection[Path] = ()) -> None:
        """`output` is a file that there is, for `write_parquet`; `without` names parts that are left out."""
        self._data = data
        self._without = without
        self._output = None if output is None else str(output.resolve())
        self._stack = contextlib.ExitStack()
        self._names: dict[int, Path] = {}
        """The descriptors of parts, for what is said of them."""
        self._files = ReadOnlyFiles()

    def __enter__(self) -> Self:
        raise_descriptor_limit(0)
        with contextlib.ExitStack() as stack:
            parts = {name: self._open_parts(stack, *where) for name, (_, *where) in TABLES.items()}
            allowed = [path for paths in parts.values() for path in paths]
            if self._output is not None:
                allowed.append(self._output)
            self.connection = _connect(stack, self._files, allowed)
            for name, (columns, *_) in TABLES.items():
                self._run(_view(name, columns, parts[name]))
            for statement in (
                "CREATE SCHEMA ccindex",
                "CREATE VIEW ccindex.ccindex AS FROM main.pages",
                "CREATE VIEW main.ccindex AS FROM main.pages",
                # Only now: the views must be allowed to see their files.
                "SET lock_configuration = true",
            ):
                self._run(statement)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """The last statement's result. Of ours and of a user; what is wrong with it is a UsageError in one line."""
        try:
            statements = self.connection.extract_statements(sql)
        except duckdb.Error as error:
            raise self._complaint(error) from None
        if not statements:
            raise UsageError("there is no query; give one, such as: select url, title from pages limit 10")
        for statement in statements:
            word = _kind(statement)
            if word not in _ALLOWED:
                raise UsageError(f"{word.lower().replace('_', ' ')}: {_ONLY_READS}")
        # One of its own: a result that is not read to its end would stand in the way of the next one.
        cursor = self.connection.cursor()
        self._stack.callback(cursor.close)
        try:
            for statement in statements[:-1]:
                cursor.execute(statement)
            return self._last(cursor, statements[-1], parameters)
        except duckdb.Error as error:
            raise self._complaint(error) from None

    def write_parquet(self, query: str, parameters: Sequence[object] = ()) -> None:
        """A query of ours, into the output."""
        assert self._output is not None, "it was opened without an output"  # noqa: S101 (a mistake of ours)
        options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS}, USE_TMP_FILE false"
        try:
            self.connection.execute(f"COPY ({query}) TO {_literal(self._output)} ({options})", list(parameters))
        except duckdb.Error as error:
            raise self._complaint(error) from None

    def _last(self, cursor: duckdb.DuckDBPyConnection, statement: Any, parameters: Sequence[object]) -> Rows:
        """DuckDB gives Python a time with its zone only if another library is there: so the zone is taken off."""
        zoned: list[int] = []
        names: list[str] = []
        if statement.type.name == "SELECT" and not parameters:
            relation = cursor.sql(statement)
            types = [str(kind) for kind in relation.types]
            if any("TIME ZONE" in kind for kind in types):
                names = list(relation.columns)
                relation.create_view("_result", replace=True)
                zoned = [index for index, kind in enumerate(types) if kind == "TIMESTAMP WITH TIME ZONE"]
                statement = _without_zones(cursor.execute("DESCRIBE _result").fetchall())
        cursor.execute(statement, list(parameters))
        columns = names or [column[0] for column in cursor.description or ()]
        return Rows(columns, self._rows(cursor, zoned))

    def _rows(self, cursor: duckdb.DuckDBPyConnection, zoned: Sequence[int]) -> Iterator[Row]:
        while True:
            try:
                rows = cursor.fetchmany(FETCH_ROWS)
            except duckdb.Error as error:
                raise self._complaint(error) from None
            if not rows:
                cursor.close()
                return
            if not zoned:
                yield from rows
                continue
            for row in rows:
                values = list(row)
                for index in zoned:
                    values[index] = _in_utc(values[index])
                yield tuple(values)

    def _run(self, statement: Any) -> None:
        try:
            self.connection.execute(statement)
        except duckdb.Error as error:
            raise self._complaint(error) from None

    def _complaint(self, error: duckdb.Error) -> GossamerError:
        """In one line, with the names of files instead of their descriptors."""
        is_refusal = isinstance(error, duckdb.IOException) and "Cannot write to" in str(error)
        if self._files.has_refused or is_refusal:
            self._files.has_refused = False
            return UsageError(_ONLY_READS)
        if isinstance(error, duckdb.OutOfMemoryException):
            return GossamerError(f"the query needs more than {MEMORY} of memory; ask for fewer columns or fewer rows")
        raw = str(error).partition("\n\nLINE ")[0]
        said = " ".join(_PART.sub(lambda found: str(self._names.get(int(found[1]), found[0])), raw).split())
        if any(int(number) in self._names for number in _PART.findall(raw)):
            return GossamerError(f"{said}; the file is damaged: restore it, or move it away to go on without its rows")
        if isinstance(error, duckdb.IOException | duckdb.InternalException):
            return GossamerError(said)
        return UsageError(said)

    def _open_parts(self, stack: contextlib.ExitStack, folder: str, prefix: str) -> list[str]:
        """Of one table, as paths for DuckDB; all that count at one moment, and each row of them once."""
        for _ in range(LISTINGS):
            listed = committed_parts(self._data / folder, prefix)
            with contextlib.ExitStack() as opened:
                descriptors: dict[int, Path] = {}
                try:
                    for path in listed:
                        if path in self._without:
                            continue
                        # Without blocking: a pipe of that name would be waited for.
                        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                        opened.callback(os.close, descriptor)
                        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                            raise GossamerError(f"{path} is not a regular file; move it away")
                        descriptors[descriptor] = path
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise GossamerError(f"{error.filename} cannot be opened: {error.strerror or error}") from None
                # A listing that goes on while files come and go may have missed a part and what it was merged into.
                if committed_parts(self._data / folder, prefix) != listed:
                    continue
                stack.push(opened.pop_all())
                self._names |= descriptors
                return [self._files.add(descriptor) for descriptor in descriptors]
        raise GossamerError(f"the files of {self._data / folder} change faster than they can be listed; try again")


def _connect(stack: contextlib.ExitStack, files: ReadOnlyFiles, paths: Sequence[str]) -> duckdb.DuckDBPyConnection:
    spill = stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-"))
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": THREADS,
            "memory_limit": MEMORY,
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            # Otherwise a name that is no table may be a variable of this program.
            "python_enable_replacements": False,
        },
    )
    stack.callback(connection.close)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.register_filesystem(files)
    connection.execute(f"SET allowed_paths = {_literals(paths)}")
    connection.execute("SET enable_external_access = false")
    return connection


def _kind(statement: duckdb.Statement) -> str:
    try:
        return statement.type.name
    except ValueError:  # DuckDB's library knows a kind that its Python does not
        return "this statement"


def _view(name: str, columns: Sequence[Column], parts: Sequence[str]) -> str:
    """All columns in their order, also where no file has them; those of a later version behind them."""
    nothing = ", ".join(f'NULL::{column.type} AS "{column.name}"' for column in columns)
    query = f"SELECT {nothing} WHERE false"
    if parts:
        query += (
            f" UNION ALL BY NAME FROM read_parquet({_literals(parts)}, union_by_name = true, hive_partitioning = false)"
        )
    return f"CREATE VIEW {name} AS {query}"


def _without_zones(described: Sequence[Row]) -> str:
    """What is within a list or a structure becomes text."""
    expressions = []
    for name, kind, *_ in described:
        quoted = '"' + name.replace('"', '""') + '"'
        if kind == "TIMESTAMP WITH TIME ZONE":
            quoted += " AT TIME ZONE 'UTC'"
        elif "TIME ZONE" in kind:
            quoted = f"CAST({quoted} AS VARCHAR)"
        expressions.append(quoted)
    return f"SELECT {', '.join(expressions)} FROM _result"  # noqa: S608 (a view of ours, its names quoted)


def _in_utc(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _literals(paths: Sequence[str]) -> str:
    return f"[{', '.join(map(_literal, paths))}]"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
