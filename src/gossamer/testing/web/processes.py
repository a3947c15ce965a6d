"""A simulated web in processes of its own, so that serving it costs its client nothing but the machine's time.

    with WebProcesses(Web(sites=1000), log_directory=directory, processes=2) as running:
        running.http_port, running.https_port, running.ca_certificate, running.log_files

Several processes share the two ports; the kernel deals the connections out to them. Each ends when its standard input
does, so none outlives whoever started it. A busy page counts its refusals per process.
"""

import asyncio
import contextlib
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from gossamer.errors import GossamerError
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import hostile_sites, tls_hosts
from gossamer.testing.web.server import SimulatedWeb, bound_socket, prepare

#: A machine that is very busy included.
_STOP_SECONDS = 60.0
#: An idle process has written its log in a millisecond; this is only to end a caller that waits for one that hangs.
_FLUSH_SECONDS = 60.0


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What a server process is told on its standard input."""

    web: Web
    log_directory: str
    http_port: int
    https_port: int
    process: int
    https: bool
    keep_alive: bool
    hostile: bool


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a server process says of itself when it ends."""

    answered: dict[int, int]
    body_bytes: int
    cpu_seconds: float
    peak_kib: int


class WebProcesses:
    """Server processes from `__enter__` to `__exit__`. Each writes its own access log; `totals` are there after it."""

    def __init__(
        self,
        web: Web,
        *,
        log_directory: Path,
        processes: int = 1,
        http_port: int = 0,
        https_port: int = 0,
        https: bool = True,
        keep_alive: bool = True,
        hostile: bool = False,
    ) -> None:
        self.web = web
        self.http_port = http_port
        self.https_port = https_port
        self.ca_certificate = log_directory / "ca.pem"
        self.log_files = [log_directory / f"access-{process}.log" for process in range(processes)]
        self.totals: list[Totals] = []
        self._directory = log_directory
        self._https = https
        self._keep_alive = keep_alive
        self._hostile = hostile
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    def __enter__(self) -> Self:
        prepare(self._directory, self.web, https=self._https)
        with contextlib.ExitStack() as stack:
            # A port that somebody else shares would be shared with us as well: this finds out.
            for port in (self.http_port, self.https_port):
                bound_socket(port, shared=False).close()
            # Bound until the processes have the ports; nobody listens on these, so they get no connections.
            http = stack.enter_context(bound_socket(self.http_port, shared=True))
            https = stack.enter_context(bound_socket(self.https_port, shared=True))
            self.http_port = http.getsockname()[1]
            self.https_port = https.getsockname()[1] if self._https else 0
            with contextlib.ExitStack() as unless_ready:
                unless_ready.callback(self._stop)
                for number in range(len(self.log_files)):
                    self._running.append(self._start(number))
                for process in self._running:
                    self._wait_until_ready(process)
                unless_ready.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def has_failed(self) -> bool:
        """Whether a server process has ended by itself."""
        return any(process.poll() is not None for process in self._running)

    def flush(self) -> None:
        """Every request that was answered until now is in the logs. Not for processes that somebody has stopped."""
        for process in self._running:
            process.send_signal(signal.SIGUSR1)
        for process in self._running:
            assert process.stdout is not None  # noqa: S101 (opened in _start; for the type checker)
            if not select.select([process.stdout], [], [], _FLUSH_SECONDS)[0]:
                raise GossamerError(f"a server process of the simulated web has not answered in {_FLUSH_SECONDS} s")
            process.stdout.readline()  # nothing, if the process has ended: then it has written its log

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        orders = Orders(
            web=self.web,
            log_directory=str(self._directory),
            http_port=self.http_port,
            https_port=self.https_port,
            process=number,
            https=self._https,
            keep_alive=self._keep_alive,
            hostile=self._hostile,
        )
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gossamer.testing.web.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the keyboard is meant for us; the process hears of it from us
        )
        assert process.stdin is not None  # noqa: S101 (opened above; for the type checker)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            process.stdin.flush()
        return process

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 (opened above; for the type checker)
        if process.stdout.readline() != b"ready\n":
            raise GossamerError("a server process of the simulated web did not start; it says why on standard error")

    def _stop(self) -> None:
        running, self._running = self._running, []
        for process in running:
            assert process.stdin is not None  # noqa: S101 (opened above; for the type checker)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running:
            process.stdin = None
            try:
                said, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                said, _ = process.communicate()
            if process.returncode == 0 and said:
                self.totals.append(msgspec.json.decode(said, type=Totals))


async def serve(orders: Orders) -> Totals:
    """One server process, until its standard input ends or it is told to."""
    simulated = SimulatedWeb(
        orders.web,
        log_directory=Path(orders.log_directory),
        hostile=hostile_sites() if orders.hostile else {},
        tls_hostile=tls_hosts() if orders.hostile else {},
        https=orders.https,
        keep_alive=orders.keep_alive,
        http_port=orders.http_port,
        https_port=orders.https_port,
        process=orders.process,
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def flush() -> None:
        simulated.flush()
        sys.stdout.write("flushed\n")
        sys.stdout.flush()

    async with simulated:
        loop.add_signal_handler(signal.SIGTERM, stopped.set)
        loop.add_signal_handler(signal.SIGUSR1, flush)
        loop.add_reader(sys.stdin.fileno(), stopped.set)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()
        loop.remove_reader(sys.stdin.fileno())
    return Totals(
        answered=dict(simulated.answered),
        body_bytes=simulated.body_bytes,
        cpu_seconds=time.process_time(),
        peak_kib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def main() -> None:
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as unbuffered:
        orders = msgspec.json.decode(unbuffered.readline(), type=Orders)
    totals = asyncio.run(serve(orders))
    sys.stdout.buffer.write(msgspec.json.encode(totals))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
