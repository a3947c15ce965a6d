"""The commit: from one moment on, some segments' pages are in the files, their URLs finished, and the segments gone.

    1  sinks hand everything to the system; the store, the open files and their directories are synced
    2  the record (files and lengths, segments, URLs) is written beside its place, synced, renamed into it, synced
    ── from here on it counts ──
    3  complete files get their final names, and what they replace is deleted
    4  the store finishes the URLs
    5  the segments are deleted
    6  the directories are synced, before another record may take this one's place

A record stays until the next one replaces it: it also says how far the open files count. Steps 3 to 6 change nothing
when they are done again, so recovery does them for every record that it finds, and then cuts the open files back.

The store is synced before a record is written, replaced or removed. So after a power loss it still knows that the URLs
of the record are spooled, with all links of their pages, and that those of the record before are finished. Otherwise it
would have pages fetched again that are in the files already.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from gossamer.disk import sync, sync_entries
from gossamer.errors import GossamerError
from gossamer.records import Finished, Reason
from gossamer.sinks.cdxj import close_index
from gossamer.sinks.sink import Mark, OpenFile, Sink, cut, owner_of, write_all

RECORD_DIRECTORY = "commit"
#: Where sinks have their files, in the order in which these get their final names: an archive's index is complete
#: before the archive is.
OUTPUT_DIRECTORIES = ("index", "warc", "pages", "log")
#: Most URLs that the store is asked to finish at once, so that other processes get their turn in between.
_FINISH_BATCH = 1_000


class Finisher(Protocol):
    """What a commit needs of the store."""

    async def finish(self, finished: Sequence[Finished]) -> None: ...

    async def sync(self) -> None: ...


class CommitRecord(msgspec.Struct, frozen=True):
    """What a commit has decided. Paths are below the data directory."""

    files: list[OpenFile]
    replaced: list[str]
    segments: list[str]
    finished: list[Finished]


class Committer:
    """Commits whole segments, in the order in which they were done; a segment that was begun never counts.

    One parser calls it, after it wrote a segment's last page to the sinks and the store has its links. A commit that
    the store could not follow is brought to its end by the next one, or by recovery. It reads no segment, and never
    touches the files of another parser.
    """

    def __init__(self, data: Path, parser: str, store: Finisher, sinks: Sequence[Sink]) -> None:
        self._data = data
        self._path = _record_path(data, parser)
        self._store = store
        self._sinks = sinks
        self._segments: list[str] = []
        self._finished: list[Finished] = []
        self._boundary: list[Mark] = [sink.mark() for sink in sinks]
        """Where the last whole segment ends."""
        self._committed = self._boundary
        self._open: list[OpenFile] = []
        """As the last commit named them: they get their final names at the end."""
        self._decided: CommitRecord | None = None
        """It counts, and its last steps are still to be done."""

    def segment_done(self, segment: Path, finished: Sequence[Finished]) -> None:
        """All of a claimed segment is in the sinks, and its links are admitted."""
        self._boundary = [sink.mark() for sink in self._sinks]
        self._segments.append(segment.relative_to(self._data).as_posix())
        self._finished += finished

    def abandon(self) -> None:
        """What was written since the last whole segment is taken back."""
        for sink, mark in zip(self._sinks, self._boundary, strict=True):
            sink.rollback(mark)

    @property
    def segments(self) -> list[Path]:
        """Those that are done and not committed."""
        return [self._data / segment for segment in self._segments]

    @property
    def is_decided(self) -> bool:
        """Whether a commit counts whose last steps are still to be done."""
        return self._decided is not None

    def abandon_all(self) -> list[Path]:
        """What was written since the last commit is taken back; the segments that were done."""
        for sink, mark in zip(self._sinks, self._committed, strict=True):
            sink.rollback(mark)
        segments = self.segments
        self._boundary = self._committed
        self._segments, self._finished = [], []
        return segments

    async def commit(self) -> int:
        """All segments done so far; the number of pages that count from now on. Nothing may have been begun after them.

        If it raises, call it again, or leave it to recovery. What has been done so far is neither lost nor done twice.
        """
        pages = await self._carry_out_decided()
        if not self._segments:
            return pages
        if [sink.mark() for sink in self._sinks] != self._boundary:
            raise GossamerError("a segment that was only begun would be committed")
        prepared = [sink.prepare() for sink in self._sinks]
        record = CommitRecord(
            [file for part in prepared for file in part.files],
            [path for part in prepared for path in part.replaced],
            self._segments,
            self._finished,
        )
        await self._store.sync()
        _write_record(self._data, self._path, record)
        self._decided = record
        self._segments, self._finished = [], []
        return pages + await self._carry_out_decided()

    def close(self) -> None:
        """The files keep what is committed, and get their final names. Nothing may be written after this.

        The caller has synced the store since the last commit: the record goes.
        """
        if self._decided is not None:
            return  # recovery still needs the record, and does the rest
        for sink, mark in zip(self._sinks, self._committed, strict=True):
            sink.rollback(mark)
        _close_files(self._data, self._open)
        self._path.unlink(missing_ok=True)

    async def _carry_out_decided(self) -> int:
        record = self._decided
        if record is None:
            return 0
        sync_entries([self._path])
        await _carry_out(self._data, record, self._store)
        self._decided = None
        self._open = [file for file in record.files if not file.is_complete]
        for sink in self._sinks:
            sink.after_commit()
        self._boundary = self._committed = [sink.mark() for sink in self._sinks]
        return sum(finished.reason is Reason.PAGE for finished in record.finished)


async def recover(data: Path, store: Finisher, *, parser: str | None = None) -> None:
    """Bring the commits of the dead to their end, cut their open files back to what counts, and close those.

    For one parser while others run, or for all at the start, when nothing runs. Only after this may claimed segments go
    back to `ready`. It may itself be killed, and called again.
    """
    parsers = {path.stem for path in (data / RECORD_DIRECTORY).glob("*.*")} if parser is None else {parser}
    records = [_record_path(data, name) for name in sorted(parsers)]
    files: dict[str, OpenFile] = {}
    for path in records:
        record = _read_record(path)
        if record is not None:
            await _carry_out(data, record, store)
            files |= {file.path: file for file in record.files if not file.is_complete}
    for directory in OUTPUT_DIRECTORIES:
        for path in sorted((data / directory).glob("*.open")):
            owner = owner_of(path.name)
            # An index that is closed here takes what an earlier try has left of it along.
            if owner is not None and parser in {None, owner} and path.exists():
                relative = path.relative_to(data).as_posix()
                file = files.get(relative, OpenFile(relative, 0))
                cut(path, file.length_bytes)
                _close_files(data, [file])
    await store.sync()
    for path in records:
        path.unlink(missing_ok=True)
        _temporary(path).unlink(missing_ok=True)


async def _carry_out(data: Path, record: CommitRecord, store: Finisher) -> None:
    complete = [file for file in record.files if file.is_complete]
    for file in complete:
        if (data / file.path).exists():
            cut(data / file.path, file.length_bytes)
    _close_files(data, complete)
    replaced = [data / path for path in record.replaced]
    for path in replaced:
        path.unlink(missing_ok=True)
    sync_entries(replaced)
    for start in range(0, len(record.finished), _FINISH_BATCH):
        await store.finish(record.finished[start : start + _FINISH_BATCH])
    segments = [data / segment for segment in record.segments]
    for segment in segments:
        segment.unlink(missing_ok=True)
    sync_entries(segments)


def _close_files(data: Path, files: Sequence[OpenFile]) -> None:
    """Final names for files that hold nothing but what counts. One that has it already, or was moved away, is left."""
    there = [file for file in files if (data / file.path).exists()]
    for file in sorted(there, key=lambda file: OUTPUT_DIRECTORIES.index(file.path.partition("/")[0])):
        path = data / file.path
        if not file.length_bytes:
            path.unlink()
        elif file.path.startswith("index/"):
            close_index(path, data / file.final_path)
        else:
            path.rename(data / file.final_path)
    # Also of files that have their names already: an earlier attempt may have failed before this.
    sync_entries(data / file.path for file in files)


def _write_record(data: Path, path: Path, record: CommitRecord) -> None:
    files = [data / file.path for file in record.files]
    for file in files:
        sync(file)
    sync_entries(files)
    if not path.exists():
        # The first of this parser: its directory, and those of the sinks, may be new.
        path.parent.mkdir(exist_ok=True)
        sync(data)
    temporary = _temporary(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(descriptor, msgspec.json.encode(record))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)


def _read_record(path: Path) -> CommitRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=CommitRecord)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise GossamerError(
            f"{path} is not a commit record ({error}): something else has changed it."
            " Restore it, or move it away together with the open files of its parser"
        ) from error


def _record_path(data: Path, parser: str) -> Path:
    return data / RECORD_DIRECTORY / f"{parser}.json"


def _temporary(path: Path) -> Path:
    return path.with_suffix(".new")
