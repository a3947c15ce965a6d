"""A small disk whose power can be cut: an ext4 file system in an image file, mounted through a loop device.

    with LoopDisk() as disk:
        …                        processes write below disk.path, and are stopped
        disk.keep()              what has reached the image so far, without the page cache
        …                        they are killed
        disk.lose_power()        at the same path is now what was kept, after the journal was replayed

What a program wrote and did not sync stands in the page cache of the mounted file system, and so is not in the image.
The kernel would bring it there by itself after some seconds. That is put off by mount options for metadata, and is
after 30 s for data: what is to be lost must be younger. Making one needs root, or the capability to mount.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from gossamer.testing.server_binaries import public_temporary_directory

SIZE_BYTES = 1 << 30
#: The journal is written when somebody syncs, not every five seconds; a rename is no reason to write a file's content.
_OPTIONS = "loop,commit=3600,noauto_da_alloc"
#: How often an image is copied if something was written to it meanwhile.
_COPIES = 20

#: Unmounts and removes when the pipe from us is closed, by whatever end of ours.
_GUARD = 'read -r _; umount -l "$1/disk" 2>/dev/null; rm -rf "$1"'


class DiskUnavailable(Exception):  # noqa: N818 (as ServerUnavailable)
    """This process may not mount, or has no program to make a file system; the text says which."""


class LoopDisk:
    """One image, mounted from `__enter__` to `__exit__`; both are gone afterwards, also when this process is killed."""

    def __init__(self) -> None:
        self._directory = Path()
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def path(self) -> Path:
        """Where it is mounted; other users may enter."""
        return self._directory / "disk"

    @property
    def _image(self) -> Path:
        return self._directory / "image"

    @property
    def _kept(self) -> Path:
        return self._directory / "kept"

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise DiskUnavailable("only root may mount a file system")
        for program in ("mkfs.ext4", "mount", "umount", "losetup"):
            if shutil.which(program) is None:
                raise DiskUnavailable(f"there is no {program}")
        self._directory = Path(tempfile.mkdtemp(prefix="gossamer-disk-", dir=public_temporary_directory()))
        self._guard = subprocess.Popen(  # noqa: S603 (our own script)
            ["/bin/sh", "-c", _GUARD, "guard", str(self._directory)], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            self._directory.chmod(0o755)
            self.path.mkdir()
            with self._image.open("wb") as image:
                image.truncate(SIZE_BYTES)
            _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self._image))
            self._mount()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def sync(self) -> None:
        """All that was written so far is on the disk."""
        _run("sync", "--file-system", str(self.path))

    def keep(self) -> None:
        """What is on the disk at this moment. Whoever writes to it must have been stopped."""
        for _ in range(_COPIES):
            before = self._writes()
            _run("cp", "--sparse=always", str(self._image), str(self._kept))
            if self._writes() == before:
                return
        raise DiskUnavailable("something writes to the disk all the time")

    def lose_power(self) -> None:
        """What was kept last takes the place of all that was written since. No process may have files open here."""
        _run("umount", str(self.path))
        self._kept.rename(self._image)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", _OPTIONS, str(self._image), str(self.path))

    def _writes(self) -> str:
        """How often the device was written to, and what is under way."""
        device = _run("losetup", "--noheadings", "--output", "NAME", "--associated", str(self._image)).strip()
        fields = Path("/sys/block", Path(device).name, "stat").read_text().split()
        return " ".join((fields[4], fields[8]))

    def _end(self) -> None:
        with contextlib.suppress(DiskUnavailable):
            _run("umount", str(self.path))
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (words of ours)
    if done.returncode != 0:
        raise DiskUnavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
