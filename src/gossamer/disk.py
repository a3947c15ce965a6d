"""Bringing files and directory entries to the disk, so that they survive a power loss."""

import os
from collections.abc import Iterable
from pathlib import Path


def sync(path: Path) -> None:
    """The content of a file, or the entries of a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_entries(paths: Iterable[Path]) -> None:
    """What was created, renamed or deleted at these paths; a directory that is gone is skipped."""
    for directory in sorted({path.parent for path in paths}):
        if directory.exists():
            sync(directory)
