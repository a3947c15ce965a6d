"""The processes of a running crawl: who is who among them, and what the death of one costs at most.

One that is to be met in the middle of a transaction is watched by the lock of the embedded store; with a server, the
transactions are the server's own, and each of its deaths meets some.
"""

import contextlib
import fcntl
import os
import re
import signal
import struct
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from gossamer.report.resources import started
from gossamer.run.data_directory import DataDirectory
from gossamer.testing.nemesis.stores import AttackedStore

_LOG_FILE = re.compile(r"(fetcher|parser)-([0-9]+)\.log")

#: Where SQLite locks the index of its write-ahead log for the one who writes (WAL_WRITE_LOCK in its file format), and
#: how Linux is asked who has it (struct flock).
_WRITE_LOCK = 120
_FLOCK = "hhqqi"

#: How long it is tried to catch a process in a transaction. Those take a hundredth of its time.
_CATCH_SECONDS = 3.0
#: A signal is on its way for some microseconds, on a busy machine for longer.
_STOPPED_SECONDS = 0.002


class Victim(msgspec.Struct, frozen=True):
    """One process. `started` tells it from a later one of the same number."""

    pid: int
    started: str
    name: str
    """`leader`, or as its log file is named; empty if it has not come so far."""

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def fetcher(self) -> int | None:
        """Its place among the fetchers, the leader's being 0."""
        if self.kind == "fetcher":
            return int(self.name.partition("-")[2])
        return 0 if self.kind == "leader" else None

    @property
    def is_alive(self) -> bool:
        return started(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """One that is gone hears nothing."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Victims:
    """Looks at one data directory from outside; it changes nothing there, and never waits for the crawl."""

    def __init__(self, root: Path, slots: int, fetchers: int, store: AttackedStore) -> None:
        self._data = DataDirectory(root)
        self._store = store
        self._slots = slots
        self._fetchers = fetchers

    def all(self) -> list[Victim]:
        """Those that live, the leader first; the newest may be without a name."""
        known = self._data.processes()
        if known is None:
            return []
        found = [
            Victim(pid, when, "leader" if pid == known.leader else _name(pid)) for pid, when in known.started.items()
        ]
        return sorted((victim for victim in found if victim.is_alive), key=lambda victim: victim.pid != known.leader)

    def of(self, *kinds: str, led_by: int | None = None) -> list[Victim]:
        """With `led_by`, none as long as that process does not lead."""
        found = self.all()
        if led_by is not None and not any(victim.pid == led_by for victim in found):
            return []
        return [victim for victim in found if victim.kind in kinds]

    def leased(self, fetchers: Collection[int] | None = None) -> int:
        """How many URLs the store has leased to these fetchers, or to all: what their death has asked for in vain."""
        wanted = [slot for slot in range(self._slots) if fetchers is None or slot % self._fetchers in fetchers]
        return self._store.leased(self._data, wanted)

    def stop(self, victim: Victim, *, is_writing: bool) -> bool:
        """Stop it; if asked for, in the middle of a transaction. Whether it was caught in one.

        One that writes too little is stopped wherever it is in the end.
        """
        index_file = self._data.frontier.with_name(f"{self._data.frontier.name}-shm")
        if not is_writing or not index_file.exists():
            victim.signal(signal.SIGSTOP)
            return False
        deadline = time.monotonic() + _CATCH_SECONDS
        with index_file.open("rb+") as index:
            while victim.is_alive:
                while (is_late := time.monotonic() > deadline) is False and _writer(index.fileno()) != victim.pid:
                    pass  # a transaction is over in less than any sleep
                victim.signal(signal.SIGSTOP)
                time.sleep(_STOPPED_SECONDS)
                if _writer(index.fileno()) == victim.pid:
                    return True
                if is_late:
                    return False
                victim.signal(signal.SIGCONT)
        return False


def _writer(index: int) -> int:
    """The process that has the store's write lock, 0 if none has. Asking does not touch the lock."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _WRITE_LOCK, 1, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(index, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def _name(pid: int) -> str:
    """By the log file that it has open."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                file = descriptor.readlink()
                if _LOG_FILE.fullmatch(file.name):
                    return file.stem
    return ""
