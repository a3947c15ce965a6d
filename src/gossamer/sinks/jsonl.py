"""Pages as lines of JSON, in `pages/`: one object a page, its keys in the order of `PageRecord`."""

import os
from pathlib import Path

import msgspec

from gossamer.sinks.sink import OPEN_SUFFIX, Mark, OpenFile, PageRecord, cut, write_all

DIRECTORY = "pages"
#: Large enough that ten million pages are some hundred files, small enough to be copied and looked into.
FILE_BYTES = 1_000_000_000
#: What is handed to the system at once; more gains nothing, less costs a system call for every few pages.
_BUFFER_BYTES = 1 << 20


class JsonLinesSink:
    """Every line is whole, and every file ends between two segments.

    One parser writes to it. It holds no descriptor between two writes, so there is nothing to close, and makes no file
    before there is a page.
    """

    def __init__(self, data: Path, run: int, parser: str, file_bytes: int = FILE_BYTES) -> None:
        self._data = data
        self._file_bytes = file_bytes
        self._stem = f"{run:05d}-{parser}-"
        self._serial = 0
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        self._complete: list[OpenFile] = []
        self._current: OpenFile | None = None

    def write(self, record: PageRecord) -> None:
        # What waits goes first: if the disk does not take it, this record is not half-way in.
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()
        self._encoder.encode_into(record, self._buffer, -1)
        self._buffer += b"\n"

    def mark(self) -> Mark:
        self._flush()
        if self._current is not None and self._current.length_bytes >= self._file_bytes:
            self._complete.append(msgspec.structs.replace(self._current, is_complete=True))
            self._current = None
        return self._files()

    def rollback(self, mark: Mark) -> None:
        self._buffer = bytearray()
        kept = {file.path: file for file in mark}
        for file in self._files():
            if file.path not in kept:
                (self._data / file.path).unlink(missing_ok=True)
            elif not kept[file.path].is_complete:
                cut(self._data / file.path, kept[file.path].length_bytes)
        self._complete = [file for file in mark if file.is_complete]
        self._current = next((file for file in mark if not file.is_complete), None)

    def after_commit(self, mark: Mark) -> None:
        self._complete = [file for file in self._complete if file not in mark]

    def _files(self) -> Mark:
        return (*self._complete, *([] if self._current is None else [self._current]))

    def _flush(self) -> None:
        if not self._buffer:
            return
        file = self._current = self._current or self._new_file()
        descriptor = os.open(self._data / file.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            # Where an earlier try left a part of this, because the disk was full.
            cut(self._data / file.path, file.length_bytes)
            write_all(descriptor, self._buffer)
        finally:
            os.close(descriptor)
        self._current = OpenFile(file.path, file.length_bytes + len(self._buffer))
        self._buffer = bytearray()

    def _new_file(self) -> OpenFile:
        """With the next number that is free: an earlier life of this parser may have left files in this run."""
        directory = self._data / DIRECTORY
        directory.mkdir(exist_ok=True)
        taken = {path.name.removesuffix(OPEN_SUFFIX) for path in directory.glob(f"{self._stem}*")}
        while (name := f"{self._stem}{self._serial:06d}.jsonl") in taken:
            self._serial += 1
        self._serial += 1  # not to be used again, even if the file is moved away as soon as it is complete
        return OpenFile(f"{DIRECTORY}/{name}{OPEN_SUFFIX}", 0)
