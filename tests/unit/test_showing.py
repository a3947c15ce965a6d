"""What a crawl says of its servers at the start, to whom, and what it never says elsewhere than on a terminal."""

import contextlib
import io
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.config import ReportSettings
from gossamer.report import screen
from gossamer.report.board import Board, Facts
from gossamer.report.dashboard.addresses import read_addresses
from gossamer.report.metrics_server import MetricsServer
from gossamer.report.progress import Terminal
from gossamer.run.showing import Showing


class Person(io.StringIO):
    """A terminal in memory."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class NoControls:
    """Nobody uses them here."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...

    def block(self, site: str) -> None: ...


@pytest.fixture(autouse=True)
def patient_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "CLOSE_SECONDS", 60.0)


def made_board() -> Board:
    return Board(
        Facts(
            version="1",
            data_directory="/crawl",
            run=1,
            started_at=0.0,
            store="sqlite",
            delay_seconds=1.0,
            max_pages=0,
            max_duration_seconds=0.0,
        )
    )


@contextlib.contextmanager
def taken() -> Iterator[tuple[int, int]]:
    """Two ports that others listen on."""
    with (
        contextlib.closing(MetricsServer(made_board(), "127.0.0.1", 0)) as one,
        contextlib.closing(MetricsServer(made_board(), "127.0.0.1", 0)) as other,
    ):
        yield one.port, other.port


def said_on(stream: io.StringIO, data: Path, settings: ReportSettings, *, quiet: bool = False) -> tuple[str, str]:
    """All that was said, and the token."""
    with Terminal(stream, quiet=quiet, environment={}) as terminal:
        showing = Showing(data, settings, made_board(), NoControls(), terminal)
        with contextlib.closing(showing):
            written = read_addresses(data)
            assert written == showing.addresses
            assert stat.S_IMODE((data / "dashboard.json").stat().st_mode) == 0o600
    return stream.getvalue(), written.token


def test_a_terminal_gets_the_address_with_the_token(tmp_path: Path) -> None:
    with taken() as (ui, metrics):
        said, token = said_on(Person(), tmp_path, ReportSettings(ui_port=ui, metrics_port=metrics))
    assert f"/#token={token}\n" in said


def test_what_is_no_terminal_gets_the_name_of_the_file_that_holds_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "gossamer")
    with taken() as (ui, metrics):
        said, token = said_on(io.StringIO(), tmp_path, ReportSettings(ui_port=ui, metrics_port=metrics))
    assert token not in said
    assert token not in caplog.text
    assert f"(the token is in {tmp_path / 'dashboard.json'})" in said


@pytest.mark.parametrize("quiet", [False, True])
def test_a_taken_port_is_said_for_both_addresses_with_the_one_that_is_used(tmp_path: Path, quiet: bool) -> None:
    with taken() as (ui, metrics):
        said, _ = said_on(Person(), tmp_path, ReportSettings(ui_port=ui, metrics_port=metrics), quiet=quiet)
    lines = [line for line in said.splitlines() if "is taken" in line]
    assert [line.rpartition(" ")[0] for line in lines] == [
        f"dashboard: port {ui} is taken; using",
        f"metrics: port {metrics} is taken; using",
    ]
    used = [int(line.rpartition(" ")[2]) for line in lines]
    assert used[0] not in {ui, metrics, used[1]}
    if not quiet:
        assert f"dashboard: http://127.0.0.1:{used[0]}/#token=" in said
        assert f"metrics: http://127.0.0.1:{used[1]}/metrics\n" in said
        # The reason comes before the address that it explains.
        assert said.index(lines[0]) < said.index("dashboard: http:")
        assert said.index(lines[1]) < said.index("metrics: http:")
