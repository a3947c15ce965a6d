"""The machine that the leader runs on: its processors, memory, disk and network, as psutil reads them."""

import contextlib
import shutil
from pathlib import Path

import psutil

from gossamer.report.sample import SystemUse

_MODES = ("user", "system", "idle", "iowait")


class Machine:
    """Asked once for every sample; the share of the processors is of the time between two of them."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._busy, self._all = _processor_seconds()

    def use(self) -> SystemUse:
        busy, every = _processor_seconds()
        share = (busy - self._busy) / (every - self._all) if every > self._all else 0.0
        self._busy, self._all = busy, every
        memory = psutil.virtual_memory()
        disk = shutil.disk_usage(self._data)
        written = read = received = sent = 0
        # Containers may not tell.
        with contextlib.suppress(OSError, RuntimeError):
            io = psutil.disk_io_counters()
            if io is not None:
                read, written = io.read_bytes, io.write_bytes
        with contextlib.suppress(OSError):
            network = psutil.net_io_counters()
            received, sent = network.bytes_recv, network.bytes_sent
        return SystemUse(
            processors=psutil.cpu_count() or 1,
            cpu=min(1.0, max(0.0, share)),
            cpu_seconds=processor_modes(),
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
            disk_total_bytes=disk.total,
            disk_free_bytes=disk.free,
            disk_read_bytes=read,
            disk_written_bytes=written,
            network_received_bytes=received,
            network_sent_bytes=sent,
        )


def processor_modes() -> dict[str, float]:
    times = psutil.cpu_times()
    return {mode: getattr(times, mode) for mode in _MODES if hasattr(times, mode)}


def _processor_seconds() -> tuple[float, float]:
    """Busy ones, and all; what a guest uses is in user's already."""
    times = psutil.cpu_times()._asdict()
    every = sum(seconds for mode, seconds in times.items() if not mode.startswith("guest"))
    return every - times["idle"] - times.get("iowait", 0.0), every
