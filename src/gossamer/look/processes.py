"""The processes of a crawl that runs: seen from outside, and asked for what they find in themselves.

Only the leader is asked, with SIGUSR1, and passes it on. Each process writes `diagnosis/<process>.json` between two
things that it does; one that is busy with a page for long answers late, one that is stuck not at all.
"""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec
import psutil

from gossamer.report.diagnosis import Diagnosis, read
from gossamer.run.data_directory import DataDirectory

#: The costliest page known takes a second, a diagnosis one or two; on a busy machine several times that.
PATIENCE_SECONDS = 15.0
LOOK_SECONDS = 0.05
#: Over which CPU is measured, before anybody is asked: answering costs some.
MEASURED_SECONDS = 1.0

_Stamp = tuple[int, int]


class ProcessSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One process, from outside. None is what the system does not tell us."""

    name: str
    """Such as `parser-0`; empty if it cannot be found out."""
    pid: int
    state: str
    """In the system's word: `running`, `sleeping`, `stopped` …"""
    cpu: float
    """Of one processor: 1 is all of it."""
    memory_bytes: int
    descriptors: int | None
    descriptor_limit: int | None
    threads: int
    has_answered: bool = False

    @property
    def shown(self) -> str:
        return self.name or f"process {self.pid}"


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking."""

    diagnoses: list[Diagnosis] = []
    refusal: str = ""
    """Why nobody was asked."""


async def look_at_processes(data: DataDirectory, pids: list[int]) -> list[ProcessSeen]:
    """Those of them that are still there."""
    before = {pid: _cpu_seconds(pid) for pid in pids}
    began_at = time.monotonic()
    await asyncio.sleep(MEASURED_SECONDS)
    last = data.processes()
    found: list[ProcessSeen] = []
    for pid in pids:
        seconds = time.monotonic() - began_at
        with contextlib.suppress(psutil.Error, OSError):
            name = "leader" if last is not None and pid == last.leader else _name(data.log, pid)
            found.append(_seen(psutil.Process(pid), name, (_cpu_seconds(pid) - before[pid]) / seconds))
    return found


def _cpu_seconds(pid: int) -> float:
    try:
        used = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):
        return 0.0
    return float(used.user + used.system)


def _seen(process: psutil.Process, name: str, cpu: float) -> ProcessSeen:
    descriptors = limit = None
    with contextlib.suppress(psutil.Error, OSError):
        descriptors = process.num_fds()
    if hasattr(process, "rlimit"):
        with contextlib.suppress(psutil.Error, OSError):
            soft = process.rlimit(psutil.RLIMIT_NOFILE)[0]
            limit = None if soft == psutil.RLIM_INFINITY else soft
    with process.oneshot():
        return ProcessSeen(
            name=name,
            pid=process.pid,
            state=str(process.status()),
            cpu=max(0.0, cpu),
            memory_bytes=process.memory_info().rss,
            descriptors=descriptors,
            descriptor_limit=limit,
            threads=process.num_threads(),
        )


def _name(log: Path, pid: int) -> str:
    """A process is called as its log file, which it has open."""
    with contextlib.suppress(psutil.Error, OSError):
        directory = str(log.resolve())
        for file in psutil.Process(pid).open_files():
            folder, _, name = file.path.rpartition("/")
            if folder == directory and name.endswith(".log"):
                return name.removesuffix(".log")
    return ""


async def ask(data: DataDirectory, leader: int) -> Answers:
    """All processes, through their leader; returns when every one that is alive has answered, or time is up."""
    before = _stamps(data.diagnosis)
    if not _answers(leader):
        return Answers(refusal="its leader is just starting or ending, and cannot be asked")
    try:
        os.kill(leader, signal.SIGUSR1)
    except ProcessLookupError:
        return Answers(refusal="it has just ended")
    except PermissionError:
        return Answers(refusal=f"its processes are another user's: ask as that user, or as root ({leader} leads)")
    # One that is started from here on was not asked.
    asked = set(data.running())
    until = time.monotonic() + PATIENCE_SECONDS
    found: dict[int, Diagnosis] = {}
    while not asked.intersection(data.running()) <= found.keys() and time.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)
        for path, stamp in _stamps(data.diagnosis).items():
            # Those that are written at the same moment are replaced as a whole, and looked at again.
            if before.get(path) != stamp and (diagnosis := read(path)) is not None:
                before[path] = stamp
                found[diagnosis.pid] = diagnosis
    # The leader first, then by name.
    in_order = sorted(found.values(), key=lambda one: (one.pid != leader, one.process))
    return Answers(diagnoses=in_order)


def _stamps(directory: Path) -> dict[Path, _Stamp]:
    found: dict[Path, _Stamp] = {}
    with contextlib.suppress(OSError):
        for path in directory.glob("*.json"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                found[path] = facts.st_ino, facts.st_mtime_ns
    return found


def _answers(pid: int) -> bool:
    """Whether it has a place for the signal: of a process that has none, it would be the end."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        # Not told on this system; a leader that is recorded has been listening for a while.
        return True
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)
