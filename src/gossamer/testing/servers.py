"""Private Redis and PostgreSQL servers for tests, benchmarks and campaigns.

    with RedisServer(find_redis_servers()[0]) as redis:
        redis.url            redis://127.0.0.1:PORT/0
        redis.kill()         SIGKILL, as a crash would
        redis.restart()      the same port, the same data

Each runs on a loopback port and in a directory of its own, and both are gone afterwards: on leaving the block, on an
exception, and when this process is killed. Servers that the system runs are never touched.
`python -m gossamer.testing.servers` prints what was found.
"""

import atexit
import contextlib
import functools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gossamer.testing.browser import CHROMIUM_VARIABLE, find_chromium
from gossamer.testing.guard import Guard, children, is_running
from gossamer.testing.postgres_clusters import make_cluster
from gossamer.testing.server_binaries import (
    LOGROTATE_VARIABLE,
    POSTGRES_VARIABLE,
    PROMETHEUS_VARIABLE,
    REDIS_VARIABLE,
    ServerBinary,
    ServerUnavailable,
    copied_installation,
    find_logrotate,
    find_postgres_servers,
    find_prometheus_servers,
    find_redis_servers,
    programs_at,
    public_temporary_directory,
    readable_by_others,
)

#: Below the ports that Linux gives to outgoing connections (from 32768): otherwise a busy crawler could take the port
#: of a server that is down for a moment. Above the ports of well-known services.
PORTS = range(20000, 32000)
PORT_ATTEMPTS = 10

#: initdb and recovery take 1 to 3 s on an idle core; a loaded one may need ten times that.
START_SECONDS = 180.0
STOP_SECONDS = 60.0


class Server:
    """One server process over one directory. It runs from `__enter__` to `__exit__`, but for `kill` to `restart`."""

    stop_signal = signal.SIGTERM
    #: How the guard, and `__exit__`, end it: its data is about to be removed.
    end_signal = signal.SIGKILL

    def __init__(
        self, binary: ServerBinary, settings: Mapping[str, str] | None = None, *, parent: Path | None = None
    ) -> None:
        """`parent` is where its directory is made, if not among the temporary ones."""
        self.binary = binary
        self._parent = parent
        self.version = binary.version
        self.port = 0
        self.directory = Path()
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerUnavailable(f"{self.binary} is not running; call restart()")
        return self._process.pid

    def __enter__(self) -> Self:
        self.directory = self._make_directory()
        self._guard = Guard(self.directory, self.end_signal.name.removeprefix("SIG"))
        try:
            self._initialise()
            self._start_on_a_free_port()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def kill(self) -> None:
        """SIGKILL to the server and to every process it started; returns when all of them are gone."""
        if self._process is None:
            return
        # Stopped first: it starts no child between the listing and the kill, and no child answers after another died.
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)
        family = list(children(self._process.pid))
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self._process.kill()
        self._process.wait()
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._forget_process(family)

    def restart(self) -> None:
        """Up again on the same port and data; a server that still runs is stopped in an orderly way first."""
        self._stop(self.stop_signal)
        deadline = time.monotonic() + START_SECONDS
        while not self._start():
            if time.monotonic() > deadline:
                raise ServerUnavailable(f"{self.binary}: port {self.port} was taken while it was down")
            time.sleep(0.1)

    def _start_on_a_free_port(self) -> None:
        for _ in range(PORT_ATTEMPTS):
            self.port = free_port()
            if self._start():
                return
        raise ServerUnavailable(f"{self.binary}: {PORT_ATTEMPTS} ports in a row were taken; the last was {self.port}")

    def _start(self) -> bool:
        """False when somebody else has the port."""
        log = self.directory / "server.log"
        user, group, groups = self._identity()
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 (a program that we found)
                self._command(),
                cwd=self.directory,
                env=self.binary.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=groups,
            )
        self._process = process
        if self._guard is not None:
            self._guard.watch(process.pid)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if process.poll() is not None:
                self._forget_process([])
                said = log.read_text(errors="replace")
                if "address already in use" in said.lower():
                    return False
                raise ServerUnavailable(
                    f"{self.binary} ended at once with {process.returncode}: {said[-2000:].strip()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                said = log.read_text(errors="replace")
                raise ServerUnavailable(f"{self.binary} did not answer in {START_SECONDS} s: {said[-2000:].strip()}")
            time.sleep(0.02)
        return True

    def _stop(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        family = list(children(self._process.pid))
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._forget_process(family)

    def _end(self) -> None:
        try:
            self._stop(self.end_signal)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
            if self._guard is not None:
                self._guard.close()  # removes what may be left of the directory
                self._guard = None

    def _forget_process(self, family: list[int]) -> None:
        self._process = None
        if self._guard is not None:
            self._guard.watch(None)
        deadline = time.monotonic() + STOP_SECONDS
        while any(is_running(pid) for pid in family):
            if time.monotonic() > deadline:
                raise ServerUnavailable(f"{self.binary} left processes behind: {family}")
            time.sleep(0.01)

    def _make_directory(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="gossamer-server-", dir=self._parent))

    def _initialise(self) -> None:
        pass

    def _identity(self) -> tuple[int | None, int | None, list[int] | None]:
        """User, group and further groups of the process; None means ours."""
        return None, None, None

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError


class RedisServer(Server):
    """Redis or Valkey with the settings that the store insists on: append-only file, no eviction, no snapshots."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "protected-mode": "yes",
            "dir": str(self.directory),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
        } | self._settings
        return [str(self.binary.path), *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\nINFO server\r\nQUIT\r\n")
                answer = b"".join(iter(functools.partial(connection.recv, 65536), b""))
        except OSError:
            return False
        # While it loads its file it refuses PING. The pid tells our server from one that took the port before it.
        return answer.startswith(b"+PONG\r\n") and f"\nprocess_id:{self.pid}\r\n".encode() in answer


class PostgresServer(Server):
    """PostgreSQL without a Unix socket and without passwords on its loopback port; the superuser is `gossamer`.

    Its data survives the death of the process, not of the machine, unless `settings` has fsync on. PostgreSQL refuses
    to run as root: then it runs as the user nobody, from a copy of its programs if that user cannot reach them.
    """

    stop_signal = signal.SIGINT
    end_signal = signal.SIGQUIT

    @property
    def url(self) -> str:
        return f"postgresql://gossamer@127.0.0.1:{self.port}/postgres"

    def _make_directory(self) -> Path:
        if os.geteuid() != 0:
            return super()._make_directory()
        parent = self._parent or public_temporary_directory()
        directory = Path(tempfile.mkdtemp(prefix="gossamer-server-", dir=parent))
        os.chown(directory, *_unprivileged())
        return directory

    def _initialise(self) -> None:
        owner = None
        if os.geteuid() == 0:
            owner = _unprivileged()
            if not readable_by_others(self.binary.path):
                self.binary = _reachable_copy(self.binary)
        make_cluster(self.binary, self.directory / "data", owner)

    def _identity(self) -> tuple[int | None, int | None, list[int] | None]:
        if os.geteuid() != 0:
            return None, None, None
        return *_unprivileged(), []

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "fsync": "off",
        } | self._settings
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binary.path), "-D", str(self.directory / "data"), *options]

    def _answers(self) -> bool:
        # The eighth line says whether connections are taken; the first tells our server from one that was killed.
        try:
            lines = (self.directory / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def free_port() -> int:
    """A loopback port that nobody had a moment ago."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _unprivileged() -> tuple[int, int]:
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534  # what nobody is on Linux; PostgreSQL asks only that it is not 0
    return nobody.pw_uid, nobody.pw_gid


@functools.cache
def _reachable_copy(binary: ServerBinary) -> ServerBinary:
    directory = Path(tempfile.mkdtemp(prefix="gossamer-postgres-", dir=public_temporary_directory()))
    # At the end of this process, however it comes, the guard removes the copy.
    atexit.register(Guard(directory, "KILL").close)
    directory.chmod(0o755)
    return copied_installation(binary, directory)


def _find_chromium() -> list[ServerBinary]:
    try:
        return programs_at([find_chromium()])
    except ServerUnavailable:
        return []


def main(kinds: list[str]) -> int:
    """Prints what there is of these kinds (all if none is named), one per line; 1 if there is nothing of some kind."""
    missing = 0
    for kind, find, variable in (
        ("redis", find_redis_servers, REDIS_VARIABLE),
        ("postgresql", find_postgres_servers, POSTGRES_VARIABLE),
        ("prometheus", find_prometheus_servers, PROMETHEUS_VARIABLE),
        ("logrotate", find_logrotate, LOGROTATE_VARIABLE),
        ("chromium", _find_chromium, CHROMIUM_VARIABLE),
    ):
        if kinds and kind not in kinds:
            continue
        found = find()
        missing += not found
        for line in [str(binary) for binary in found] or [f"no {kind}; {variable} can name one"]:
            sys.stdout.write(f"{line}\n")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
