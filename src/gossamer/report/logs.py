"""Each process writes and rotates its own log file, as JSON lines; nobody renames another's.

What stands in a message may come from the web: as a JSON string it can neither end the line nor reach a terminal raw.
"""

import contextlib
import json
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from gossamer.config import LogLevel

#: Together 80 MiB per process at most: weeks of a quiet crawl, and an hour at DEBUG.
MAX_FILE_BYTES = 16 << 20
KEPT_FILES = 4


class JsonLines(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, and the traceback where there is one."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # escapes everything outside ASCII, lone surrogates too


class LogFile:
    """The log of this process, from `open` to `close`; `reopen` after somebody has moved the file away."""

    def __init__(self, directory: Path, process: str, level: LogLevel) -> None:
        self._path = directory / f"{process}.log"
        self._process = process
        self._level = level
        self._output: RotatingFileHandler | None = None

    def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._output = RotatingFileHandler(
            self._path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8", errors="backslashreplace"
        )
        self._output.setFormatter(JsonLines(self._process))
        logger = logging.getLogger("gossamer")
        logger.addHandler(self._output)
        logger.setLevel(self._level.upper())
        logger.propagate = False
        # A disk that is full must not fill the terminal with the logging module's own complaints.
        logging.raiseExceptions = False

    def reopen(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        if self._output is not None:
            logging.getLogger("gossamer").removeHandler(self._output)
            # What a full disk had no room for is lost; the process must not end in that.
            with contextlib.suppress(OSError):
                self._output.close()
            self._output = None
