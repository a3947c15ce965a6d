"""What the leader knows of its crawl at this moment: what it was told, what it is short of, what the store counts."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from gossamer.frontier.store import Counts, Store
from gossamer.report.board import State
from gossamer.run.data_directory import PausedBy

log = logging.getLogger("gossamer.run")

#: A paused crawl goes on when there is so much more room than the limit: not at every file that is deleted.
DISK_MARGIN = 1.1


class Condition:
    """The leader writes it and acts on it; the observation shows it."""

    def __init__(self, data: Path, min_free_bytes: int, say: Callable[[str], None]) -> None:
        self.counts = Counts()
        self.are_seeds_loaded = False
        self.is_held = False
        """A person has paused the crawl."""
        self.is_stopping = False
        self.is_disk_full = False
        self.is_short = False
        """Of disk, descriptors or memory, in any process."""
        self.is_away = False
        """The store does not answer."""
        self.outages = 0
        self._data = data
        self._min_free_bytes = min_free_bytes
        self._say = say

    @property
    def is_paused(self) -> bool:
        """Nothing is leased."""
        return self.is_held or self.is_disk_full

    @property
    def paused_by(self) -> PausedBy | None:
        if self.is_stopping or not self.is_paused:
            return None
        return "dashboard" if self.is_held else "disk"

    @property
    def state(self) -> State:
        return "stopping" if self.is_stopping else "paused" if self.is_paused else "running"

    def look_at_disk(self) -> None:
        free = shutil.disk_usage(self._data).free
        if not self.is_disk_full and free < self._min_free_bytes:
            self.is_disk_full = True
            self._warn(f"the disk is nearly full ({free} bytes free): nothing is leased until there is room")
        elif self.is_disk_full and free > self._min_free_bytes * DISK_MARGIN:
            self.is_disk_full = False
            self._warn(f"there is room on the disk again ({free} bytes free): going on")

    def look_at_shortages(self, store: Store, *, is_short: bool) -> None:
        """Of any process, as it reports it; the log files may be on the very disk that is full."""
        if store.is_away != self.is_away:
            self.is_away = store.is_away
            self.outages += self.is_away
            self._warn("the store does not answer: waiting for it" if self.is_away else "the store is back: going on")
        is_short = is_short or store.is_full
        if is_short and not self.is_short:
            self._warn("short of disk, descriptors or memory: waiting for it; the log files say who, and for what")
        elif self.is_short and not is_short:
            self._warn("the shortage is over: going on")
        self.is_short = is_short

    def _warn(self, line: str) -> None:
        """To the log and to the person: what concerns the disk may not reach the one."""
        log.warning("%s", line)
        self._say(line)
