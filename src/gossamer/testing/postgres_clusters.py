"""New database clusters for PostgreSQL servers: made by initdb once, then copied, which takes a tenth of its time.

The first one of each version is kept in the environment that the tests run in, beside the downloaded servers.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gossamer.testing.server_binaries import ServerBinary, ServerUnavailable

_OPTIONS = ("--username=gossamer", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")


def make_cluster(binary: ServerBinary, data: Path, owner: tuple[int, int] | None) -> None:
    """Make `data`, which must not exist yet, for the server to run on as `owner` (user and group; None means ours)."""
    template = Path(sys.prefix) / "postgres-clusters" / binary.version
    # One that another user has made may be there, and closed to us.
    if not os.access(template, os.R_OK | os.X_OK):
        _run_initdb(binary, data, owner)
        _keep(data, template)
        return
    shutil.copytree(template, data)
    if owner is not None:
        for directory, _, files in os.walk(data):
            for path in (directory, *(os.path.join(directory, file) for file in files)):  # noqa: PTH118 (a thousand)
                os.chown(path, *owner)


def _run_initdb(binary: ServerBinary, data: Path, owner: tuple[int, int] | None) -> None:
    user, group = owner or (None, None)
    done = subprocess.run(  # noqa: S603 (a program that we found)
        [binary.path.parent / "initdb", *_OPTIONS, "--pgdata", data],
        cwd=data.parent,
        env=binary.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        user=user,
        group=group,
        extra_groups=None if owner is None else [],
    )
    if done.returncode != 0:
        raise ServerUnavailable(f"initdb of {binary} ended with {done.returncode}: {done.stdout[-2000:].strip()}")


def _keep(data: Path, template: Path) -> None:
    """As the template, whole or not at all: others may do the same at this moment, or have no room for it."""
    with contextlib.suppress(OSError):
        template.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=template.parent) as directory:
            copy = shutil.copytree(data, Path(directory) / "data")
            copy.rename(template)
