"""Each process writes its own log file, as JSON lines; nobody renames another's.

What stands in a message may come from the web: as a JSON string it can neither end the line nor reach a terminal raw.
Figures that a program may want to read are passed as `extra={"fields": {...}}`, and become an object of their own.
Either the process rotates its file itself, or somebody else does: moves it away, and has it reopened (SIGHUP).
"""

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO, cast

import msgspec

from gossamer.config import LogLevel

#: Together 80 MiB per process at most: weeks of a quiet crawl, and an hour at DEBUG.
MAX_FILE_BYTES = 16 << 20
KEPT_FILES = 4


class JsonLines(logging.Formatter):
    """One object a line: number, time (ISO 8601, UTC), level, process, pid, logger, message; `fields` if the caller
    passed some, and the traceback if there is one.

    The numbers are consecutive from 1 for as long as a process lives: a gap is a line that was lost.
    """

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process
        self._number = 0

    def format(self, record: logging.LogRecord) -> str:
        self._number += 1  # first of all: a record that cannot be formatted leaves a gap, too
        line: dict[str, object] = {
            "number": self._number,
            "time": iso_time(record.created),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": _message(record),
        }
        fields = getattr(record, "fields", None)
        if fields:
            line["fields"] = msgspec.to_builtins(fields)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # escapes everything outside ASCII, lone surrogates too


def iso_time(seconds: float) -> str:
    """Such as 2026-11-18T08:01:57.123Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    """Without Python's notation: errors in words, collections as JSON."""
    message, args = str(record.msg), record.args
    if not args:
        return message
    # A single mapping is unpacked by the logging module.
    values = (args,) if isinstance(args, Mapping) else args
    return message % tuple(_plain(value) for value in values)


def _plain(value: object) -> object:
    if isinstance(value, OSError) and value.strerror:
        return value.strerror if value.filename is None else f"{value.strerror}: {os.fsdecode(value.filename)}"
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    if isinstance(value, Mapping | list | tuple | set | frozenset | msgspec.Struct):
        return msgspec.json.encode(value, enc_hook=str).decode()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return "none" if value is None else value


class Lines:
    """The file under the logging module's handler, whose lock is held in every call. Whole lines or none.

    There is a file to write to at every moment: a new one is opened before the old one is closed, and if that fails the
    old one is kept, under whatever name it has by now, and each line tries again. A line that the disk has no room for
    is lost; one of which a part was written is finished before the next.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._descriptor, self._size = self._opened()
        self._rest = b""
        self._is_moved = False

    def write(self, text: str) -> None:
        line = text.encode("ascii")  # as `JsonLines` makes it
        if self._max_bytes and self._size and self._size + len(line) > self._max_bytes and not self._is_moved:
            self._shift()
        if self._is_moved:
            self.follow()
        self._finish()
        self._rest = line
        try:
            self._finish()
        finally:
            if len(self._rest) == len(line):
                self._rest = b""

    def follow(self) -> None:
        """From now on into the file that has the name now, be it a new one."""
        self._is_moved = True
        with contextlib.suppress(OSError):  # no room, no descriptor: the old file is as good, and the next line tries
            self._finish()
            descriptor, self._size = self._opened()
            old, self._descriptor = self._descriptor, descriptor
            self._is_moved = False
            os.close(old)

    def flush(self) -> None:
        """Every line is with the system when `write` returns."""

    def close(self) -> None:
        # What a full disk had no room for is lost; the process must not end in that.
        with contextlib.suppress(OSError):
            self._finish()
        os.close(self._descriptor)

    def _opened(self) -> tuple[int, int]:
        """And how long it is. Appending: somebody else may have cut it short."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        return descriptor, os.fstat(descriptor).st_size

    def _finish(self) -> None:
        while self._rest:
            written = os.write(self._descriptor, self._rest)
            self._size += written
            self._rest = self._rest[written:]

    def _shift(self) -> None:
        """Our own rotation: `.1` is the newest. If what has our name is not what we write, somebody else has rotated,
        and we need only follow.
        """
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                for number in range(KEPT_FILES - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        self._numbered(number).replace(self._numbered(number + 1))
                self._path.replace(self._numbered(1))
        except FileNotFoundError:
            pass
        except OSError:
            self._size = 0  # it cannot be renamed: tried again after as much again, not at every line
            return
        self._is_moved = True

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class LogFile:
    """The log of this process, from `open` to `close`; `reopen` after somebody has moved the file away.

    With `max_bytes` of 0 the process never renames its file: that is left to whoever does it for all of them.
    """

    def __init__(self, directory: Path, process: str, level: LogLevel, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._path = directory / f"{process}.log"
        self._process = process
        self._level = level
        self._max_bytes = max_bytes
        self._lines: Lines | None = None
        self._output: logging.StreamHandler[TextIO] | None = None

    def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = Lines(self._path, self._max_bytes)
        # The module's own handler: it takes its lock around each line, and a line that fails is not the caller's care.
        self._output = logging.StreamHandler(cast("TextIO", self._lines))
        self._output.setFormatter(JsonLines(self._process))
        logger = logging.getLogger("gossamer")
        logger.addHandler(self._output)
        logger.setLevel(self._level.upper())
        logger.propagate = False
        # A disk that is full must not fill the terminal with the logging module's own complaints.
        logging.raiseExceptions = False

    def reopen(self) -> None:
        """Other threads wait a moment with their lines; none is lost, and none is written twice."""
        if self._output is not None and self._lines is not None:
            self._output.acquire()
            try:
                self._lines.follow()
            finally:
                self._output.release()

    def close(self) -> None:
        if self._output is not None and self._lines is not None:
            logging.getLogger("gossamer").removeHandler(self._output)
            self._output.acquire()  # a thread may be in the middle of a line
            try:
                self._output.close()
                self._lines.close()
            finally:
                self._output.release()
            self._lines = self._output = None
