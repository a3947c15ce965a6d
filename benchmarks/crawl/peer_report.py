"""What a peer says of itself, for whoever measures it: a line at the end of the warm-up and one at the end.

Used in the environment of the peers: imports nothing but the standard library.
"""

import json
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Task(NamedTuple):
    """What a peer is told, as the first word of its command line: JSON."""

    seeds: str
    directory: str
    http_port: int
    https_port: int
    warm_up: int
    pages: int

    @classmethod
    def told(cls) -> "Task":
        return cls(**json.loads(sys.argv[1]))


class PageCount:
    """Counts the pages that were read, and says a line when the warm-up is over."""

    def __init__(self, task: Task) -> None:
        self._warm_up = task.warm_up
        self._last = task.warm_up + task.pages
        self._pages = 0
        self._received_bytes = 0

    def page(self, received_bytes: int) -> bool:
        """After each page with status 200 that was read, links and all; True when there are enough."""
        self._pages += 1
        self._received_bytes += received_bytes
        if self._pages == self._warm_up:
            self.say()
        return self._pages >= self._last

    def say(self) -> None:
        line = {
            "at": time.monotonic(),
            "pages": self._pages,
            "received_bytes": self._received_bytes,
            "cpu_seconds": time.process_time(),
            "written_bytes": int(Path("/proc/self/io").read_text().partition("\nwrite_bytes: ")[2].split()[0]),
        }
        print(json.dumps(line), flush=True)
