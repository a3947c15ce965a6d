"""CPU time and writes: of this process while it calls a store, and of a server with all of its processes.

The clock of the kernel for another process counts in nanoseconds and has all of its threads, those that ended too. What
child processes spent is added to their parent's account when they have ended, in hundredths of a second.
"""

import contextlib
import os
import time
from array import array
from collections import defaultdict
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from gossamer.testing.guard import children
from gossamer.url import stable_hash

#: In the number that names the CPU clock of a process: user and system time together, to the nanosecond.
_SCHEDULED = 2
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")

T = TypeVar("T")


class Spent(NamedTuple):
    """On one URL, in microseconds of CPU and KiB that go to the disk."""

    client: float
    server: float
    written: float

    @property
    def total(self) -> float:
        return self.client + self.server


class Stopwatch:
    """Counts the CPU time of this process inside calls to a store, and keeps how long each of them took.

    What a caller does between two calls, making the records for one, does not count.
    """

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self.took: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        """Seconds on the wall, by the name of the call."""

    async def time(self, name: str, call: Awaitable[T]) -> T:
        began, began_at = time.process_time(), time.perf_counter()
        answer = await call
        self.took[name].append(time.perf_counter() - began_at)
        self.cpu_seconds += time.process_time() - began
        return answer


class Reading(NamedTuple):
    """What was spent so far."""

    client_seconds: float
    server_seconds: float
    written_bytes: int

    def since(self, before: Self, urls: int) -> Spent:
        return Spent(
            (self.client_seconds - before.client_seconds) * 1e6 / urls,
            (self.server_seconds - before.server_seconds) * 1e6 / urls,
            (self.written_bytes - before.written_bytes) / 1024 / urls,
        )


def yardstick() -> float:
    """CPU milliseconds of a fixed piece of work, in portions between which others have the processor, as they have
    while a store is waited for. A busy machine makes CPU time dearer: two runs compare as far as this is the same."""
    spent = 0.0
    numbers = dict.fromkeys(range(200_000), 0)
    for portion in range(200):
        time.sleep(0.001)
        began = time.process_time()
        for number in range(100):
            numbers[stable_hash(f"https://www.site-{portion}.example/{number}") % len(numbers)] += 1
        spent += time.process_time() - began
    return spent * 1e3


def read(stopwatch: Stopwatch, server: int | None) -> Reading:
    """With the process id of the server's first process, if there is one; then writes are those of the server."""
    if server is None:
        return Reading(stopwatch.cpu_seconds, 0.0, _written_bytes(os.getpid()))
    while True:
        before = _ended_seconds(server)
        family = [server, *children(server)]
        seconds = sum(map(_cpu_seconds, family))
        written = sum(map(_written_bytes, family))
        # One that ends in between would be counted twice or not at all.
        if _ended_seconds(server) == before:
            return Reading(stopwatch.cpu_seconds, before + seconds, written)


def _cpu_seconds(pid: int) -> float:
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | _SCHEDULED)
    return 0.0


def _ended_seconds(pid: int) -> float:
    """Of the children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * _TICK_SECONDS


def _written_bytes(pid: int) -> int:
    """To a disk, sooner or later, by the process and those of its children that have ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/io").read_text().partition("\nwrite_bytes: ")[2].split()[0])
    return 0
