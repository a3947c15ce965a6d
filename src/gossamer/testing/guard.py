"""What sees to it that a server leaves nothing behind: a guard that outlives us, and a look at the process table."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

#: Ends the server and removes its directory when the pipe from us is closed, by whatever end of ours. A parent-death
#: signal would follow the thread that started the server, not the process, and exists on Linux alone.
#: Each line names the server process of the moment, an empty one says that there is none. A dying process may put a
#: file into a directory that is just being removed: then it is removed again.
GUARD = """
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -s "$1" "$pid"
    tenths=0
    while kill -0 "$pid" && [ "$tenths" -lt 50 ]; do sleep 0.1; tenths=$((tenths + 1)); done
    kill -s KILL "$pid"
fi
tenths=0
until rm -rf "$2" || [ "$tenths" -ge 100 ]; do sleep 0.1; tenths=$((tenths + 1)); done
"""


class Guard:
    """Stands by one directory and at most one process, and outlives us by the moment that their removal takes."""

    def __init__(self, directory: Path, last_signal: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 (our own script)
            ["/bin/sh", "-c", GUARD, "guard", last_signal, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is meant for us, and must not end the guard
        )

    def watch(self, pid: int | None) -> None:
        assert self._process.stdin is not None  # noqa: S101 (opened above; for the type checker)
        self._process.stdin.write(f"{pid or ''}\n".encode())
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.communicate()


def children(parent: int) -> Iterator[int]:
    for pid, (_, its_parent) in _processes().items():
        if its_parent == parent:
            yield pid


def is_running(pid: int) -> bool:
    state, _ = _processes().get(pid, ("Z", 0))
    return not state.startswith("Z")


def _processes() -> dict[int, tuple[str, int]]:
    """State and parent of every process."""
    if not Path("/proc/self/stat").exists():
        command = ["/bin/ps", "-A", "-o", "pid=,state=,ppid="]
        rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603
        return {int(pid): (state, int(parent)) for pid, state, parent in (row.split() for row in rows)}
    processes = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The second field is the program's name in brackets, which may itself hold spaces and brackets.
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            processes[int(entry.parent.name)] = (state, int(parent))
    return processes
