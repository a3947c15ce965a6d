"""Archive, index, tables and store of a crawl, each against itself and against the others.

    1  which files count, and how far: final ones wholly, open ones up to the last commit
    2  every part of a table is read
    3  every record of the archive is read and hashed (verify_archive.py), every line of the index parsed
       (verify_index.py)
    4  records, lines and rows must name each other (verify_joins.py)
    5  the store must count as many pages as the tables have

A crawl that runs is refused: what is committed moves on while it is read. The crawl's lock is shared meanwhile, so
that none is started. Nothing is written into the data directory.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # the wheel ships no stubs
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from gossamer.config import Settings
from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.invocation import command
from gossamer.look.status import reading
from gossamer.look.tables import TABLES, Tables
from gossamer.look.verify_archive import Damage, read_archive
from gossamer.look.verify_findings import EXAMPLES, Finding, Findings
from gossamer.look.verify_index import BadLine, read_index
from gossamer.look.verify_joins import BATCH_ROWS, Kind, Place, add, compare, page_counts, prepare
from gossamer.run.data_directory import DataDirectory
from gossamer.sinks.commit import OUTPUT_DIRECTORIES, RECORD_DIRECTORY, CommitRecord
from gossamer.sinks.parts import committed_parts
from gossamer.sinks.sink import OPEN_SUFFIX
from gossamer.spool.directory import segments_in

#: Rows of a part that are decoded at once; with the text of their pages some megabytes.
PART_ROWS = 512

#: What is being read, bytes done, bytes in all.
Progress = Callable[[str, int, int], None]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What `gossamer verify` shows; `--json` prints it as it is."""

    data_directory: str
    is_sound: bool
    archives: int
    records: int
    """Responses in them that are sound."""
    index_lines: int
    pages: int
    fetched_pages: int
    """Pages by the log."""
    store_pages: int | None
    store_error: str | None
    """Why the store was not asked."""
    fault_counts: dict[str, int]
    faults: list[Finding]
    notes: list[Finding]


class _File(msgspec.Struct, frozen=True):
    """A file that counts, by its final name below the data directory."""

    name: str
    path: Path
    length_bytes: int

    @property
    def is_open(self) -> bool:
        return self.path.name.endswith(OPEN_SUFFIX)


def verify(
    data: DataDirectory, settings: Settings, *, examples: int = EXAMPLES, progress: Progress = lambda *_: None
) -> Verification:
    findings = Findings(examples)
    with _not_running(data):
        records = _commit_records(data.root)
        archives = _counting_files(data.root, "warc", ".warc.gz", records, findings)
        indexes = _counting_files(data.root, "index", ".cdxj", records, findings)
        _note_leftovers(data, records, findings)
        damaged = _damaged_parts(data.root, findings, progress)
        sinks = set(settings.sinks.sinks.split(","))
        with Tables(data.root, without=damaged) as tables:
            prepare(tables, list(archives))
            found_records = _read_archives(tables, archives, findings, progress)
            found_lines = _read_indexes(tables, archives, indexes, findings)
            pages, fetched = page_counts(tables)
            compare(
                tables,
                findings,
                has_archive="warc" in sinks or bool(archives),
                has_pages="pages" in sinks,
                has_log="log" in sinks,
            )
        store_pages, store_error = _store_pages(data, settings)
        if store_pages is not None:
            pending = sum(len(record.finished) for record in records)
            _compare_store(findings, store_pages, pending, {"pages": pages, "log": fetched}, sinks)
    return Verification(
        data_directory=str(data.root),
        is_sound=not findings.faults,
        archives=len(archives),
        records=found_records,
        index_lines=found_lines,
        pages=pages,
        fetched_pages=fetched,
        store_pages=store_pages,
        store_error=store_error,
        fault_counts=dict(sorted(findings.counts.items())),
        faults=findings.faults,
        notes=findings.notes,
    )


@contextlib.contextmanager
def _not_running(data: DataDirectory) -> Iterator[None]:
    try:
        lock = os.open(data.root / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # a copy, or a crawl that was never begun
        return
    try:
        _share(lock, data.root)
        yield
    finally:
        os.close(lock)


def _share(lock: int, root: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"the crawl in {str(root)!r} is running, and its files change; stop it first") from None


def _commit_records(root: Path) -> list[CommitRecord]:
    """Of a run that was killed: a run that ends closes its files and leaves none."""
    found: list[CommitRecord] = []
    for path in sorted((root / RECORD_DIRECTORY).glob("*.json")):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=CommitRecord)
        except msgspec.MsgspecError as error:
            raise GossamerError(f"{path} is not a commit record: {error}; restore it from a backup") from None
        if any(file.is_complete and (root / file.path).exists() for file in record.files):
            raise UsageError(
                f"the last run was killed during a commit, and its files are between two states;"
                f" complete the commit first: {command('resume', str(root))}"
            )
        found.append(record)
    return found


def _counting_files(
    root: Path, folder: str, suffix: str, records: list[CommitRecord], findings: Findings
) -> dict[str, _File]:
    """By name, final ones and those that are open in a commit record."""
    files: dict[str, _File] = {}
    for path in sorted((root / folder).glob(f"*{suffix}")):
        name = f"{folder}/{path.name}"
        if path.is_file():
            files[name] = _File(name, path, path.stat().st_size)
        else:
            findings.fault("not-a-file", f"{name} is not a regular file")
    for open_file in (file for record in records for file in record.files if file.path.startswith(f"{folder}/")):
        path, name = root / open_file.path, open_file.final_path
        if name in files or open_file.is_complete:
            continue
        if not path.is_file():
            findings.fault("file-missing", f"{open_file.path} is missing: {open_file.length_bytes:,} bytes of it count")
            continue
        size = path.stat().st_size
        if size < open_file.length_bytes:
            findings.fault(
                "file-cut", f"{open_file.path} has {size:,} bytes, and {open_file.length_bytes:,} were committed"
            )
        files[name] = _File(name, path, min(size, open_file.length_bytes))
    return files


def _note_leftovers(data: DataDirectory, records: list[CommitRecord], findings: Findings) -> None:
    known = {file.path for record in records for file in record.files}
    for folder in OUTPUT_DIRECTORIES:
        for path in sorted((data.root / folder).glob(f"*{OPEN_SUFFIX}")):
            name = path.relative_to(data.root).as_posix()
            state = "counts up to its last commit" if name in known else "was never committed"
            findings.note("open-file", f"{name} is left by a run that was killed, and {state}; a resume closes it")
    quarantine = data.spool / "quarantine"
    if quarantine.is_dir() and (segments := segments_in(quarantine)):
        findings.note(
            "quarantine",
            f"spool/quarantine has {len(segments):,} segments that could not be read; their URLs went back",
        )


def _damaged_parts(root: Path, findings: Findings, progress: Progress) -> list[Path]:
    """Parts that cannot be read; all others are read wholly, column by column."""
    parts = [path for _, folder, prefix in TABLES.values() for path in committed_parts(root / folder, prefix)]
    damaged = [path for path in parts if not path.is_file()]
    for path in damaged:
        findings.fault("not-a-file", f"{path.relative_to(root)} is not a regular file")
    sizes = {path: path.stat().st_size for path in parts if path not in damaged}
    done, total = 0, sum(sizes.values())
    for path, size in sizes.items():
        try:
            with pq.ParquetFile(path) as file:
                rows = sum(batch.num_rows for batch in file.iter_batches(PART_ROWS))
                expected = file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            findings.fault("part-damaged", f"{path.relative_to(root)} cannot be read: {' '.join(str(error).split())}")
            damaged.append(path)
        else:
            if rows != expected:
                findings.fault("part-damaged", f"{path.relative_to(root)} has {rows:,} rows and says {expected:,}")
        done += size
        progress("tables", done, total)
    return damaged


class _Batches:
    """Rows on their way to DuckDB."""

    def __init__(self, tables: Tables, kind: Kind) -> None:
        self._tables = tables
        self._kind: Kind = kind
        self._rows: list[Place] = []
        self.count = 0

    def add(self, row: Place) -> None:
        self._rows.append(row)
        self.count += 1
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            add(self._tables, self._kind, self._rows)
            self._rows = []


def _read_archives(tables: Tables, archives: dict[str, _File], findings: Findings, progress: Progress) -> int:
    batches = _Batches(tables, "records")
    done, total = 0, sum(file.length_bytes for file in archives.values())
    for number, file in enumerate(archives.values()):
        for found in read_archive(file.path, file.length_bytes):
            if isinstance(found, Damage):
                findings.fault("record-damaged", f"{file.name}: the record at offset {found.offset}: {found.what}")
                continue
            batches.add((number, found.offset, found.length, found.url, found.status, found.digest))
            progress("archive", done + found.offset, total)
        done += file.length_bytes
    batches.flush()
    return batches.count


def _read_indexes(tables: Tables, archives: dict[str, _File], indexes: dict[str, _File], findings: Findings) -> int:
    batches = _Batches(tables, "lines")
    numbers = {name: number for number, name in enumerate(archives)}
    for name in archives:
        if _index_name(name) not in indexes:
            findings.fault("index-missing", f"{name} has no index: {_index_name(name)} is missing")
    of_index = {_index_name(name): name for name in archives}
    for file in indexes.values():
        archive = of_index.get(file.name)
        if archive is None:
            findings.fault("archive-missing", f"{file.name} is the index of an archive that is missing")
            continue
        for found in read_index(file.path, file.length_bytes, is_sorted=not file.is_open):
            if isinstance(found, BadLine):
                findings.fault("index-line", f"{file.name}: line {found.number} {found.what}")
            elif found.file != archive:
                findings.fault("index-line", f"{file.name}: line {found.number} names another file: {found.file:.200}")
            else:
                batches.add((numbers[archive], found.offset, found.length, found.url, found.status, found.digest))
    batches.flush()
    return batches.count


def _index_name(archive: str) -> str:
    return f"index/{archive.removeprefix('warc/').removesuffix('.warc.gz')}.cdxj"


def _store_pages(data: DataDirectory, settings: Settings) -> tuple[int | None, str | None]:
    try:
        return asyncio.run(_counted_pages(data, settings)), None
    except StoreUnavailable as error:
        return None, str(error)


async def _counted_pages(data: DataDirectory, settings: Settings) -> int:
    async with reading(data, settings) as store:
        return (await store.counts(now=await store.now())).pages


def _compare_store(findings: Findings, stored: int, pending: int, counted: dict[str, int], sinks: set[str]) -> None:
    """`pending` URLs were committed by a run that was killed, and the store may not know of them yet."""
    for sink, pages in counted.items():
        if sink in sinks and not pages - pending <= stored <= pages:
            table = "pages" if sink == "pages" else "fetches"
            findings.fault("store-differs", f"the store counts {stored:,} pages, and {table} has {pages:,}")
