"""What a process uses: CPU, memory, descriptors; and how many descriptors it may have."""

import contextlib
import ctypes
import gc
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from gossamer.errors import UsageError

#: Store, logs, spool, pipes, name server, event loop, what libraries open for themselves; 32 for who looks at the
#: dashboard; and connections that are being closed while their worker has the next: of 100 workers up to 50.
SPARE_DESCRIPTORS = 128

#: Bodies of this size are few, so that asking the system for room for each costs nothing that counts.
LARGE_BLOCK_BYTES = 1 << 20
#: A page's tree takes some megabytes, a page of a MiB up to 16; of what is freed so much may stay with the process.
KEPT_BLOCK_BYTES = 16 << 20
#: Objects made and not yet freed before the young ones are looked through, and how often that is before the older ones
#: are. What runs here makes no cycles per URL: looking through the leases, futures and rows that wait finds nothing.
#: With Python's own numbers it took 100 µs a page in the leader and 37 in a parser; so, 45 and 7.
GARBAGE_THRESHOLDS = (10_000, 20, 20)
#: Of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_PROC = Path("/proc")
#: Whether the system tells how much CPU another process has used.
HAS_CPU_TIMES = (_PROC / "self/stat").exists()


class Usage(msgspec.Struct, frozen=True):
    """What one process uses now."""

    cpu_seconds: float
    memory_bytes: int
    descriptors: int


def own_usage() -> Usage:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        cpu_seconds=used.ru_utime + used.ru_stime,
        memory_bytes=_resident_bytes(),
        descriptors=_descriptors(),
    )


def _descriptors() -> int:
    try:
        return len(os.listdir("/dev/fd")) - 1  # noqa: PTH208 (names alone: it is done twice a second)
    except OSError:
        # Counting needs one itself: all are in use.
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def cpu_seconds(pid: int) -> float | None:
    """Of another process, by now; None where the system does not tell or the process is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waits_for_disk(pid: int) -> bool:
    """Whether a process is in the uninterruptible sleep of a system call that waits for a device."""
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"D"
    except OSError:
        return False


def started(pid: int) -> str | None:
    """When a process was started, in whatever words the system has for it; None if there is none of that number.

    With this a process is known again: its number alone may be another's by now.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        pass
    else:
        # One that is dead and was not yet waited for runs no more, though it still has its number.
        return None if fields[0] in {b"Z", b"X"} else fields[19].decode()
    program = shutil.which("ps")
    if _PROC.joinpath("self").exists() or program is None:
        return None
    said = subprocess.run([program, "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603 (a number is all that is passed)
    return said.stdout.strip() or None


def descriptor_limit() -> float:
    """How many this process, and those that it starts, may have open; infinite where there is no limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if soft in {resource.RLIM_INFINITY, -1} else float(soft)


def raise_descriptor_limit(workers: int) -> int:
    """To the most that the system allows; refuses where that many workers cannot fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS says that there is no limit, and then refuses more than its own.
        for wanted in (hard, 1 << 20, 10_240):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                break
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft not in {resource.RLIM_INFINITY, -1} and workers + SPARE_DESCRIPTORS > soft:
        raise UsageError(
            f"--fetcher-workers: {workers} need {workers + SPARE_DESCRIPTORS} descriptors, the system allows {soft};"
            f" give {max(1, soft - SPARE_DESCRIPTORS)} or fewer, or raise the limit (ulimit -n)"
        )
    return soft


def give_large_blocks_back() -> None:
    """To the system, as soon as they are freed.

    By default glibc learns from the first large block that is freed to keep those up to 32 MiB among the small ones,
    where what lies behind them holds them for ever. Elsewhere this does nothing.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        # Setting the one makes the other small; as it would have become by itself.
        set_option(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)


def keep_freed_blocks() -> None:
    """For the next page. What is given back to the system is asked for again, and each piece costs a fault: 0.19 ms a
    page. Elsewhere than with glibc this does nothing."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        set_option(_M_TRIM_THRESHOLD, 2 * KEPT_BLOCK_BYTES)


def collect_garbage_seldom() -> None:
    """Called when a process is set up: what is there then stays, and is never looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def limit_memory(most_bytes: int) -> None:
    """What this process and those that it starts may allocate; beyond that an allocation fails, and whoever made it.

    Only what is written to counts. Address space would count reserved and shared memory as well, of which there is
    much and which costs nothing.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _resident_bytes() -> int:
    try:
        return int((_PROC / "self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
