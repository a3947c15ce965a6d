"""The diagnosis of this very process: its descriptors, its memory, its largest objects; written when SIGUSR1 comes.

`run/process.py` imports this module when it is first asked for one, and never before. It runs in the event loop, within
a second or two of CPU time. Nothing that goes wrong in it ends the process: what could not be found out is said so.
"""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from gossamer.report.descriptors import Descriptors, look_at_descriptors
from gossamer.report.objects import Objects, look_at_objects
from gossamer.report.resources import started

log = logging.getLogger("gossamer.report")

#: Whatever the system, a foreign object or a change by another thread can raise here; none of it is worth a process.
MISHAPS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    ReferenceError,
    MemoryError,
)
#: Characters; a shorter one is none, such as the name of the embedded store.
LEAST_SECRET = 8
#: Names of tasks and threads that are listed.
MOST_NAMES = 20

_STATUS = {
    "VmRSS": "resident_bytes",
    "VmHWM": "resident_peak_bytes",
    "RssAnon": "own_bytes",
    "VmData": "data_bytes",
    "VmSwap": "swapped_bytes",
}
_LIMITS = ("NOFILE", "NPROC", "AS", "DATA", "FSIZE", "STACK", "CORE")

#: In the order of malloc.h.
_MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)

T = TypeVar("T")


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has found out about itself, as `diagnosis/<process>.json` has it."""

    process: str
    pid: int
    started: str | None = None
    """With which the process is known again."""
    at: float
    """Wall clock."""
    last_at: float | None = None
    """Of the report before this one, if this process has made it."""
    cpu_seconds: float = 0.0
    """That the diagnosis took."""
    descriptors: Descriptors = Descriptors()
    memory: dict[str, int] = {}
    objects: Objects = Objects()
    tasks: dict[str, int] = {}
    """Of the event loop, by coroutine."""
    threads: dict[str, int] = {}
    collector: dict[str, Any] = {}
    used: dict[str, float] = {}
    """By the process since it was started."""
    limits: dict[str, tuple[int | None, int | None]] = {}
    """Soft and hard; None is no limit."""
    extra: dict[str, Any] = {}
    """What the process says itself; the leader has `bound` and `sample`."""
    errors: dict[str, str] = {}
    """What could not be found out, and why."""


class _Mallinfo(ctypes.Structure):
    """Of malloc.h: what `mallinfo2` answers."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO)


def write(
    path: Path,
    *,
    process: str,
    store_endpoints: frozenset[tuple[str, int]],
    data: Path,
    extra: Mapping[str, object],
    web: Mapping[int, str] | None = None,
    secrets: Collection[str] = (),
) -> None:
    """Look at this process and replace the file at `path`.

    `web` has the scheme of each connection of the client, by its descriptor. What is in `secrets` appears in no
    excerpt: the store's URL, the dashboard's token.
    """
    found = _diagnose(
        read(path),
        process=process,
        descriptors=lambda: look_at_descriptors(data, store_endpoints, web or {}),
        extra=extra,
        secrets=secrets,
    )
    try:
        _replace(path, msgspec.json.encode(found))
    except OSError as error:
        # Whoever asked may find no file; what matters most then is why.
        log.error(  # noqa: TRY400 (a full disk, or no descriptor left)
            "the diagnosis cannot be written: %s; %d descriptors are open, %s are allowed",
            error,
            found.descriptors.total,
            found.descriptors.soft_limit,
            extra={"fields": {"descriptors": found.descriptors.kinds, "memory": found.memory}},
        )


def read(path: Path) -> Diagnosis | None:
    """None if there is none, or none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Diagnosis)
    except (OSError, msgspec.DecodeError, MemoryError):
        return None


def _diagnose(
    last: Diagnosis | None,
    *,
    process: str,
    descriptors: Callable[[], Descriptors],
    extra: Mapping[str, object],
    secrets: Collection[str],
) -> Diagnosis:
    """`last` counts only if it is of this very process: addresses of another's objects mean nothing."""
    began = time.thread_time()
    at = time.time()
    errors: dict[str, str] = {}

    def part(name: str, look: Callable[[], T], otherwise: T) -> T:
        try:
            return look()
        except MISHAPS as error:
            errors[name] = f"{type(error).__name__}: {error}"[:200]
            return otherwise

    when = part("started", lambda: started(os.getpid()), None)
    if last is not None and (last.pid, last.started) != (os.getpid(), when):
        last = None
    before = Objects() if last is None else last.objects
    hidden = {secret for secret in secrets if len(secret) >= LEAST_SECRET}.union(*map(_passwords, secrets))
    return Diagnosis(
        process=process,
        pid=os.getpid(),
        started=when,
        at=at,
        last_at=None if last is None else last.at,
        # First of all: what follows opens files.
        descriptors=part("descriptors", descriptors, Descriptors()),
        memory=part("memory", _memory, {}),
        objects=part("objects", lambda: look_at_objects(before, now=at, secrets=hidden), Objects()),
        tasks=part("tasks", _tasks, {}),
        threads=part("threads", _threads, {}),
        collector=part("collector", _collector, {}),
        used=part("used", _used, {}),
        limits=part("limits", _limits, {}),
        extra=part("extra", lambda: _plain(extra), {}),
        errors=errors,
        cpu_seconds=round(time.thread_time() - began, 3),
    )


def _passwords(url: str) -> list[str]:
    """Of a store's URL, as it stands there and as it is sent."""
    told = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    parameters = [field.partition("=") for field in url.partition("?")[2].split("&")]
    found = [told, *(value for name, _, value in parameters if "pass" in name.lower() or "pwd" in name.lower())]
    return [form for password in found if password for form in (password, unquote(password))]


def _memory() -> dict[str, int]:
    found = {"python_blocks": sys.getallocatedblocks()}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in _STATUS:
                found[_STATUS[name]] = int(value.split()[0]) * 1024
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                found["proportional_bytes"] = int(line.split()[1]) * 1024
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is not None:
        ask.restype = _Mallinfo
        said = ask()
        found |= {
            "malloc_heap_bytes": said.arena,
            "malloc_mapped_bytes": said.hblkhd,
            "malloc_used_bytes": said.uordblks,
            "malloc_free_bytes": said.fordblks,
        }
    # Tables that are being made are not the interpreter's memory; asked only where it is used anyway.
    tables = sys.modules.get("pyarrow")
    if tables is not None and hasattr(tables, "total_allocated_bytes"):
        found["arrow_bytes"] = tables.total_allocated_bytes()
    return found


def _tasks() -> dict[str, int]:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return {}
    names = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks(loop))
    return dict(names.most_common(MOST_NAMES))


def _threads() -> dict[str, int]:
    """Those that Python knows; a library's own are in `others`."""
    names = Counter(thread.name.rstrip("0123456789_-") or thread.name for thread in threading.enumerate())
    found = dict(names.most_common(MOST_NAMES))
    with contextlib.suppress(OSError):
        others = sum(1 for _ in Path("/proc/self/task").iterdir()) - names.total()
        if others > 0:
            found["others"] = others
    return found


def _collector() -> dict[str, Any]:
    return {
        "is_enabled": gc.isenabled(),
        "thresholds": gc.get_threshold(),
        "waiting": gc.get_count(),
        "generations": gc.get_stats(),
        "uncollectable": len(gc.garbage),
        "frozen": gc.get_freeze_count(),
    }


def _used() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user_seconds": used.ru_utime,
        "system_seconds": used.ru_stime,
        "minor_faults": used.ru_minflt,
        "major_faults": used.ru_majflt,
        "blocks_read": used.ru_inblock,
        "blocks_written": used.ru_oublock,
        "switches_to_wait": used.ru_nvcsw,
        "switches_forced": used.ru_nivcsw,
    }


def _limits() -> dict[str, tuple[int | None, int | None]]:
    found: dict[str, tuple[int | None, int | None]] = {}
    for name in _LIMITS:
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(number))
            found[name.lower()] = (soft, hard)
    return found


def _plain(extra: Mapping[str, object]) -> dict[str, Any]:
    """As the file will have it: what cannot be written is missed here, not when all is written."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(extra)))
    return found


def _replace(path: Path, content: bytes) -> None:
    """For its owner alone: excerpts are from the web, and from memory."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)
