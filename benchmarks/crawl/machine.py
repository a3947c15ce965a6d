"""Where the benchmark ran, and with which versions."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.crawl.peers import PYTHON

_PEERS = ("scrapy", "twisted", "aiohttp", "uvloop", "selectolax", "isal", "pycurl")
_ASK = "import importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in %r))"


def processor() -> str:
    """Its name, as the system has it."""
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def described(stores: list[str]) -> list[str]:
    """Lines; with the versions of the stores that were used."""
    lines = [
        f"{processor()}, {os.cpu_count()} processors, Linux {platform.release()}, CPython {platform.python_version()}",
        f"Gossamer {version('gossamer')} ({', '.join(stores)})" if stores else f"Gossamer {version('gossamer')}",
        f"load of the last minute at the end: {os.getloadavg()[0]:.1f}",
    ]
    if PYTHON.exists():
        asked = subprocess.run([str(PYTHON), "-c", _ASK % (_PEERS,)], capture_output=True, text=True, check=False)
        lines.append(f"peers: {asked.stdout.strip()}")
    return lines
