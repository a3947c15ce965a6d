"""What a crawl stands on: the disk of its data directory, the machine's memory, its clock. `doctor.py` asks it."""

import contextlib
import ctypes
import os
import shutil
from pathlib import Path

import msgspec
import psutil

_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_ON_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "9p"})
_NETWORK_PREFIX = "fuse.ssh"
_IN_CONTAINER = frozenset({"overlay", "aufs"})

#: Of timex.h: what the kernel answers when nobody keeps its clock right.
_TIME_ERROR = 5
#: More than the structure has on any machine.
_TIMEX_BYTES = 512

_CGROUPS = Path("/sys/fs/cgroup")


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """That the data directory is on."""

    total_bytes: int
    free_bytes: int
    files_free: int | None
    """How many more there may be; None where the file system has no such limit."""
    files_total: int | None
    kind: str
    """Of file system, in the system's word; empty if it does not tell."""
    mounted_at: str
    is_in_memory: bool
    is_on_network: bool
    is_in_container: bool
    """In the layer that is lost with its container."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """That this command runs on, and so does the crawl."""

    processors: int
    load: float | None
    """Processes that want to run, over the last minute."""
    memory_total_bytes: int
    memory_available_bytes: int
    swap_used_bytes: int
    memory_limit_bytes: int | None = None
    """Of the group that the crawl is in; None without a limit."""
    memory_of_limit_bytes: int | None = None
    is_clock_kept: bool | None = None
    """Whether the system says that its clock is synchronised; None where it does not tell."""


def look_at_disk(root: Path) -> Disk:
    use = shutil.disk_usage(root)
    counted = os.statvfs(root)
    kind, mounted_at = _file_system(root.resolve())
    return Disk(
        total_bytes=use.total,
        free_bytes=use.free,
        files_free=counted.f_favail if counted.f_files else None,
        files_total=counted.f_files or None,
        kind=kind,
        mounted_at=mounted_at,
        is_in_memory=kind in _IN_MEMORY,
        is_on_network=kind in _ON_NETWORK or kind.startswith(_NETWORK_PREFIX),
        is_in_container=kind in _IN_CONTAINER,
    )


def _file_system(root: Path) -> tuple[str, str]:
    found = ("", "")
    with contextlib.suppress(OSError):
        for partition in psutil.disk_partitions(all=True):
            # Of two at one place, the later one lies above.
            if root.is_relative_to(partition.mountpoint) and len(partition.mountpoint) >= len(found[1]):
                found = partition.fstype, partition.mountpoint
    return found


def look_at_machine(pid: int | None) -> Machine:
    """With the memory group of this process: the leader, or whoever asks."""
    memory = psutil.virtual_memory()
    swapped = 0
    # Containers may not tell.
    with contextlib.suppress(OSError, RuntimeError):
        swapped = psutil.swap_memory().used
    limit, used = _memory_group(pid)
    return Machine(
        processors=psutil.cpu_count() or 1,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available,
        swap_used_bytes=swapped,
        memory_limit_bytes=limit,
        memory_of_limit_bytes=used,
        is_clock_kept=_is_clock_kept(),
    )


def _memory_group(pid: int | None) -> tuple[int | None, int | None]:
    """The limit of its control group, and what counts of it; what the system could give back does not."""
    try:
        told = Path(f"/proc/{pid or 'self'}/cgroup").read_text().partition("0::")[2].splitlines()
        group = _CGROUPS / (told[0] if told else "").lstrip("/")
        limit = (group / "memory.max").read_text().strip()
        if limit == "max":
            return None, None
        used = int((group / "memory.current").read_text())
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(limit), used - int(facts.get("inactive_file", 0))
    except (OSError, ValueError):
        return None, None


def _is_clock_kept() -> bool | None:
    ask = getattr(ctypes.CDLL(None), "adjtimex", None)
    if ask is None:
        return None
    # All zero: nothing is set, all is asked.
    state = ask(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if state < 0 else state != _TIME_ERROR
