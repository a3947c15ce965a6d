"""The data directory: what is where in it, and who may use it.

crawl.toml         the settings it runs with; a resume reads them
seeds              the copy, and beside it the offset up to which it is admitted
exclusions         the copy of the exclude file
frontier.json      which frontier is this crawl's, and whether it was made
processes.json     the processes of the last run, and the owners of its slots
lock               held by every process of a run
frontier.db        the embedded store; queues/ with one on Redis
spool/             what is on its way from fetchers to parsers
warc/, index/, pages/, log/    what the crawl leaves behind; see docs/data.md
commit/            how far that counts
metrics/           what each process has counted
refused/           which links were refused, as far as that is remembered
diagnosis/         what each process found in itself, when it was last asked
dashboard.json     where a crawl that runs can be looked at
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import time
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from gossamer import layers
from gossamer.config import Settings
from gossamer.disk import sync
from gossamer.errors import GossamerError, UsageError
from gossamer.frontier.admission import Exclusions, parse_exclusions
from gossamer.invocation import command
from gossamer.report.resources import started

#: Settings that say what the frontier's entries mean: with other values, what is stored would mean something else.
FIXED = frozenset({"site_key", "slots", "max_url_length", "strip_session_ids", "strip_tracking"})

#: What is written before `crawl.toml`, which makes a crawl of it: until then nothing was fetched, or even admitted.
_BEFORE_SETTINGS = {"lock", "seeds", "seeds.part", "exclusions", "exclusions.new", "crawl.toml.new"}
#: What a start writes besides, until its frontier is made.
_BEFORE_FRONTIER = {"crawl.toml", "frontier.json", "frontier.json.new", "log", "metrics"}

#: Processes of a dead leader leave by themselves within this time, unless they hang.
_STRAGGLERS_SECONDS = 15.0
_LOOK_SECONDS = 0.05


#: A person on the dashboard, or the leader because the disk is nearly full.
PausedBy = Literal["dashboard", "disk"]


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """Who runs, as `processes.json` has it: for whoever comes after a kill."""

    leader: int
    started: dict[int, str]
    """When each process was started, by its number."""
    owners: list[str]
    run: int = 0
    paused_by: PausedBy | None = None
    """Why nothing is leased. It counts only while the leader runs."""


class Frontier(msgspec.Struct, frozen=True, kw_only=True):
    """Which frontier is this crawl's, as `frontier.json` has it."""

    crawl: str
    """Its name on a server, where others may have theirs."""
    is_made: bool = False
    """Once it was made, a store without it has lost it: it must not be made again, as if nothing had been crawled."""


class DataDirectory:
    """The paths of one crawl, and its lock. Opened by the leader; the others only ask it for paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings_file = root / "crawl.toml"
        self.seeds = root / "seeds"
        self.exclusions_file = root / "exclusions"
        self.frontier = root / "frontier.db"
        self.queues = root / "queues"
        self.spool = root / "spool"
        self.log = root / "log"
        self.metrics = root / "metrics"
        self.refused = root / "refused"
        self.diagnosis = root / "diagnosis"
        self._frontier_file = root / "frontier.json"
        self._processes_file = root / "processes.json"
        self._lock: int | None = None
        self._made_folders: list[Path] = []

    # Making one, finding one.

    def create(self) -> None:
        """A new one; what exists is refused, but for what a kill may have left before there was a crawl.

        It is the owner's alone: pages, and URLs with what is in them, are nobody else's. A directory that exists keeps
        its mode, which somebody has chosen; files with secrets are the owner's alone in any case.
        """
        missing = [folder for folder in (self.root, *self.root.parents) if not folder.exists()]
        try:
            self.root.mkdir(mode=0o700, parents=True)
            self._made_folders = missing
            with contextlib.suppress(PermissionError):  # who may write there may not be allowed to read
                sync(self.root.parent)
        except FileExistsError:
            if not self.root.is_dir():
                raise UsageError(f"--data-dir: {str(self.root)!r} is a file; name a directory") from None
            found = {path.name for path in self.root.iterdir()}
            # The lock comes first: without one, a file called `seeds` is somebody's own.
            if found and not ("lock" in found and found <= _BEFORE_SETTINGS):
                raise UsageError(self._refusal()) from None
        except OSError as error:
            raise UsageError(f"--data-dir: cannot make {str(self.root)!r}: {error.strerror or error}") from None

    def clear(self) -> None:
        """Remove what such a kill has left. Only after `take`: it may be somebody's who is at it at this moment."""
        for path in self.root.iterdir():
            if path.name in _BEFORE_SETTINGS - {"lock"}:
                path.unlink()

    def undo_create(self) -> None:
        """After a start that was refused: remove what it wrote, and the directories that `create` made.

        The lock is given up when a run ends, so it is taken again. If another process has it, or has made a frontier
        meanwhile, the directory is the crawl of that process. Files that no start writes are somebody else's, too.
        """
        if self._lock is None:
            self._open_lock()
        if not self._try_lock() or self.which_frontier().is_made:
            self.give_up()
            return
        for path in self.root.iterdir():
            if path.name in _BEFORE_FRONTIER | _BEFORE_SETTINGS - {"lock"} or path.name.startswith(self.frontier.name):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        (self.root / "lock").unlink()
        self.give_up()
        for folder in self._made_folders:
            try:
                folder.rmdir()
            except OSError:
                return  # somebody else has put something into it

    def _refusal(self) -> str:
        if self.settings_file.exists():
            return f"{str(self.root)!r} holds a crawl already; go on with it: {command('resume', str(self.root))}"
        return f"--data-dir: {str(self.root)!r} is not empty and holds no crawl; name another directory"

    def read_settings(self) -> layers.Layer:
        """The settings that the crawl was created or last resumed with."""
        try:
            return layers.toml_layer(tomllib.loads(self.settings_file.read_text("utf-8")), str(self.settings_file))
        except FileNotFoundError:
            raise UsageError(self._no_crawl()) from None
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{str(self.settings_file)!r} cannot be read: {error}") from None

    def _no_crawl(self) -> str:
        if not self.root.exists():
            return f"{str(self.root)!r} does not exist; start a crawl with gossamer crawl"
        words = f"{str(self.root)!r} holds no crawl: there is no crawl.toml in it"
        below = [path.parent for path in self.root.glob("*/crawl.toml")]
        return f"{words}; did you mean {below[0]}?" if len(below) == 1 else f"{words}; start one with gossamer crawl"

    def write_settings(self, settings: Settings) -> None:
        lines = ["# The settings of this crawl. `gossamer resume` reads them, and writes what it was given anew."]
        section = ""
        values = {name: value for part in msgspec.to_builtins(settings).values() for name, value in part.items()}
        for setting in layers.settings_by_name().values():
            if setting.section != section:
                section = setting.section
                lines += ["", f"[{section}]"]
            lines.append(f"{setting.name} = {layers.show(values[setting.name])}")
        # The store's URL may hold a password.
        replace_file(self.settings_file, ("\n".join(lines) + "\n").encode(), mode=0o600)

    def rewrite_settings(self) -> None:
        """As they are. On a full disk this fails at once, where opening an embedded store would wait for room."""
        try:
            content = self.settings_file.read_bytes()
        except FileNotFoundError:
            raise UsageError(f"{str(self.root)!r} holds no crawl any more: its start was refused") from None
        replace_file(self.settings_file, content, mode=0o600)

    def which_frontier(self) -> Frontier:
        try:
            return msgspec.json.decode(self._frontier_file.read_bytes(), type=Frontier)
        except FileNotFoundError:
            return Frontier(crawl=secrets.token_hex(6))
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{str(self._frontier_file)!r} cannot be read: {error}; it names the crawl's frontier: bring it back"
            ) from None

    def record_frontier(self, frontier: Frontier) -> None:
        replace_file(self._frontier_file, msgspec.json.encode(frontier))

    def note(self, parser: str) -> Path:
        """The page that a parser is on."""
        return self.spool / "claimed" / f"{parser}.note"

    def write_exclusions(self, text: str) -> None:
        replace_file(self.exclusions_file, text.encode())

    def exclusions(self) -> Exclusions:
        return parse_exclusions(self.exclusions_text(), str(self.exclusions_file))

    def exclusions_text(self) -> str:
        try:
            return self.exclusions_file.read_text("utf-8") if self.exclusions_file.exists() else ""
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{str(self.exclusions_file)!r} is no UTF-8 text ({error.reason} at byte {error.start}): something else"
                " has changed it; give the exclusions anew with --exclude-file"
            ) from None

    # Whose it is.

    @property
    def lock(self) -> int:
        """The descriptor that every process of the run inherits: the lock is free when the last of them has left."""
        assert self._lock is not None, "take() comes first"  # noqa: S101 (a mistake of ours)
        return self._lock

    def take(self) -> None:
        """For this run alone. Comes before anything is written that an earlier run may still read.

        A crawl that runs is refused. What a killed leader left running is waited for, and ended if it does not leave.
        """
        self._open_lock()
        if self._try_lock():
            return
        last = self.processes()
        if last is not None and _is_running(last, last.leader):
            self.give_up()
            raise UsageError(f"the crawl in {str(self.root)!r} is running, led by process {last.leader}; stop it first")
        if self._wait_for_lock():
            return
        for pid in () if last is None else last.started:
            if last is not None and _is_running(last, pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._wait_for_lock():
            return
        self.give_up()
        raise GossamerError(f"processes of an earlier run still use {str(self.root)!r} and do not end; see `lsof`")

    def give_up(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def processes(self) -> Processes | None:
        """Of the last run; None if there was none, or if nothing certain is known of it."""
        try:
            return msgspec.json.decode(self._processes_file.read_bytes(), type=Processes)
        except (OSError, msgspec.DecodeError):
            return None

    def running(self) -> list[int]:
        """Those processes of the last run that are there; none if it has ended. The leader is the first, if it is."""
        last = self.processes()
        found = [] if last is None else [pid for pid in last.started if _is_running(last, pid)]
        return sorted(found, key=lambda pid: (last is None or pid != last.leader, pid))

    def is_running(self) -> bool:
        last = self.processes()
        return last is not None and _is_running(last, last.leader)

    def paused_by(self) -> PausedBy | None:
        """Why the crawl that runs is paused; None if it is not, or if no crawl runs."""
        last = self.processes()
        return last.paused_by if last is not None and _is_running(last, last.leader) else None

    def record_processes(
        self, pids: list[int], owners: list[str], *, run: int = 0, paused_by: PausedBy | None = None
    ) -> None:
        known = {pid: started(pid) for pid in (os.getpid(), *pids)}
        alive = {pid: when for pid, when in known.items() if when is not None}
        running = Processes(leader=os.getpid(), started=alive, owners=owners, run=run, paused_by=paused_by)
        replace_file(self._processes_file, msgspec.json.encode(running))

    def _open_lock(self) -> None:
        try:
            self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            raise UsageError(f"{str(self.root)!r} is gone: the start of a crawl in it was refused") from None

    def _try_lock(self) -> bool:
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self.lock), (self.root / "lock").stat()):
                    return True
            # Whoever had the lock has removed the file (`undo_create`); the next one may take another.
            self.give_up()
            self._open_lock()

    def _wait_for_lock(self) -> bool:
        until = time.monotonic() + _STRAGGLERS_SECONDS
        while not self._try_lock():
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
        return True


def replace_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """The whole new content or the old one, whatever happens."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync(path.parent)


def _is_running(last: Processes, pid: int) -> bool:
    """Whether this very process, not a later one of the same number."""
    return pid in last.started and started(pid) == last.started[pid]
