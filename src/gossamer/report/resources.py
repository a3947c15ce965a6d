"""What a process uses: CPU, memory, descriptors; and how many descriptors it may have."""

import contextlib
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import msgspec

from gossamer.errors import UsageError

#: Store, logs, spool, pipes, name server, event loop, and what libraries open for themselves.
SPARE_DESCRIPTORS = 64

_PROC = Path("/proc")
_KINDS = ((stat.S_ISSOCK, "socket"), (stat.S_ISFIFO, "pipe"), (stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"))


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
        descriptors=sum(1 for _ in Path("/dev/fd").iterdir()) - 1,
    )


def descriptor_kinds() -> dict[str, int]:
    """How many descriptors of each kind this process has open; files by what they are, not by name."""
    kinds: dict[str, int] = {}
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):
            mode = os.fstat(int(entry.name)).st_mode
            kind = next((name for test, name in _KINDS if test(mode)), "other")
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def cpu_seconds(pid: int) -> float | None:
    """Of another process, by now; None where the system does not tell or the process is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(pid: int) -> str | None:
    """When a process was started, in whatever words the system has for it; None if there is none of that number.

    With this a process is known again: its number alone may be another's by now.
    """
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        pass
    program = shutil.which("ps")
    if _PROC.joinpath("self").exists() or program is None:
        return None
    said = subprocess.run([program, "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603 (a number is all that is passed)
    return said.stdout.strip() or None


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


def _resident_bytes() -> int:
    try:
        return int((_PROC / "self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
