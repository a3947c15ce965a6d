"""Where a running crawl can be looked at: the servers of the leader, and the file that names them."""

import logging
import time
from importlib.metadata import version
from pathlib import Path

from gossamer.config import ReportSettings, Settings
from gossamer.report.board import Board, Controls, Facts
from gossamer.report.dashboard.addresses import (
    Addresses,
    addresses_file,
    make_token,
    remove_addresses,
    write_addresses,
)
from gossamer.report.dashboard.questions import ExplainCommand
from gossamer.report.dashboard.server import DashboardServer
from gossamer.report.metrics_server import MetricsServer
from gossamer.report.progress import Terminal
from gossamer.run.data_directory import DataDirectory
from gossamer.url import redacted

log = logging.getLogger("gossamer.run")

LOOPBACK = ("127.0.0.1", "::1")


class Showing:
    """From its making to `close`. What cannot be had is said, and the crawl goes without it."""

    def __init__(
        self, data: Path, settings: ReportSettings, board: Board, controls: Controls, terminal: Terminal
    ) -> None:
        self._data = data
        self._board = board
        self._metrics_address = settings.metrics_address
        self._terminal = terminal
        self._dashboard: DashboardServer | None = None
        self._metrics: MetricsServer | None = None
        token = make_token()
        if settings.ui_port:
            try:
                self._dashboard = DashboardServer(board, controls, token, settings.ui_port, ExplainCommand(data))
            except OSError as error:
                self._warn(f"no dashboard: port {settings.ui_port} and those after it cannot be had ({error})")
        if settings.metrics_port:
            try:
                self._metrics = MetricsServer(
                    board, settings.metrics_address, settings.metrics_port, settings.metrics_hosts.split()
                )
            except OSError as error:
                where = f"{settings.metrics_address} port {settings.metrics_port}"
                self._warn(f"no metrics: {where} and those after it cannot be had ({error})")
        self.addresses = Addresses(
            dashboard=None if self._dashboard is None else self._dashboard.url,
            metrics=None if self._metrics is None else self._metrics.url,
            token=token,
        )
        self._write_addresses()
        self._tell(settings)

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """No page may send a fetcher there."""
        ports = [server.port for server in (self._dashboard, self._metrics) if server is not None]
        return [(address, port) for address in {*LOOPBACK, self._metrics_address} for port in ports]

    def close(self) -> None:
        """The pages that are open get to know how it ended, if they ask soon."""
        self._board.finish()
        for server in (self._dashboard, self._metrics):
            if server is not None:
                server.close()
        remove_addresses(self._data)

    def _write_addresses(self) -> None:
        try:
            write_addresses(self._data, self.addresses)
        except OSError as error:
            log.warning("the addresses cannot be written into %s: %s", self._data, error)

    def _tell(self, settings: ReportSettings) -> None:
        if self._dashboard is not None:
            self._tell_other_port("dashboard", settings.ui_port, self._dashboard.port)
            if self._terminal.is_terminal:
                self._terminal.say(f"dashboard: {self.addresses.link}")
            else:
                # A log file, a pipe or a journal may have other readers than the owner of the crawl.
                self._terminal.say(f"dashboard: {self._dashboard.url} (the token is in {addresses_file(self._data)})")
        if self._metrics is not None:
            self._tell_other_port("metrics", settings.metrics_port, self._metrics.port)
            self._terminal.say(f"metrics: {self._metrics.url}")

    def _tell_other_port(self, what: str, wanted: int, found: int) -> None:
        """Before the address: it says why that is not the usual one."""
        if wanted != found:
            # Who asks the usual port gets another crawl's.
            self._warn(f"{what}: port {wanted} is taken; using {found}")

    def _warn(self, line: str) -> None:
        log.warning("%s", line)
        self._terminal.say(line, important=True)


def facts_of(data: DataDirectory, settings: Settings, run: int) -> Facts:
    return Facts(
        version=version("gossamer"),
        data_directory=str(data.root),
        run=run,
        started_at=time.time(),
        store=redacted(settings.frontier.store),
        delay_seconds=settings.politeness.delay_seconds,
        max_pages=settings.run.max_pages,
        max_duration_seconds=settings.run.max_duration_seconds,
    )
