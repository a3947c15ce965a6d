"""CPU time, memory and writes of a tree of processes, seen from outside. Linux alone.

The kernel's clock for another process counts in nanoseconds and has all of its threads, those that ended too. What a
child spent is added to its parent's account once the parent has waited for it, in hundredths of a second.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple, Self

#: In the number that names the CPU clock of a process: user and system time together, to the nanosecond.
_SCHEDULED = 2
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Since each process of the tree began, those that have ended included."""

    cpu_seconds: float
    written_bytes: int
    """To a disk, sooner or later; what goes to a file system in memory is none."""

    def since(self, before: Self) -> "Usage":
        return Usage(self.cpu_seconds - before.cpu_seconds, self.written_bytes - before.written_bytes)


def cpu_seconds(pid: int) -> float:
    """Of the process alone. Also of one that has ended, until somebody has waited for it."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | _SCHEDULED)
    return 0.0


def family(pid: int) -> list[int]:
    """The process and all that it has started, and so on."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def tree(pid: int) -> Usage:
    """Of the process and its whole family."""
    while True:
        pids = family(pid)
        ended = sum(map(_ended_seconds, pids))
        usage = Usage(ended + sum(map(cpu_seconds, pids)), sum(map(written_bytes, pids)))
        # One that ends in between would be counted twice or not at all.
        if family(pid) == pids and sum(map(_ended_seconds, pids)) == ended:
            return usage


def _ended_seconds(pid: int) -> float:
    """Of the children that have ended and were waited for."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) * _TICK_SECONDS
    return 0.0


def written_bytes(pid: int) -> int:
    """By the process, and by those of its children that it has waited for."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/io").read_text().partition("\nwrite_bytes: ")[2].split()[0])
    return 0


def memory_bytes(pids: list[int]) -> int:
    """Resident memory; of what several processes share, each has its part."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("\nPss:")[2].split()[0]) << 10
    return total


def directory_bytes(directory: Path) -> int:
    """Of all files in it, as they are on the disk at this moment."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
    return total
