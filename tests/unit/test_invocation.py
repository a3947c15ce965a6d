"""Commands that messages suggest can be copied: they name the program as it was called."""

from pathlib import Path

import pytest

from gossamer.cli.main import main
from gossamer.cli.running import print_end
from gossamer.config import Settings
from gossamer.frontier.store import Counts
from gossamer.invocation import VARIABLE, command
from gossamer.layers import environment_layer
from gossamer.report.status import summarise
from gossamer.run.data_directory import DataDirectory


def test_a_suggested_command_is_quoted_and_names_the_program_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert command("status", "a crawl") == "gossamer status 'a crawl'"
    monkeypatch.setenv(VARIABLE, "./gossamer")
    assert command("resume", "c") == "./gossamer resume c"
    monkeypatch.setenv(VARIABLE, "a checkout/gossamer")
    assert command("resume", "c") == "'a checkout/gossamer' resume c"


def test_the_variable_is_no_setting() -> None:
    assert environment_layer({VARIABLE: "./gossamer"}) == {}


def test_every_hint_of_the_command_line_is_called_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "./gossamer")
    data = DataDirectory(tmp_path / "crawl")
    data.create()
    data.write_settings(Settings())
    root = str(data.root)
    hints = {
        ("--nothing",): "see ./gossamer --help",
        ("nothing",): "see ./gossamer --help",
        ("status", "--nothing"): "see ./gossamer status --help",
        ("show", root, "http://a.test/"): f"ask why: ./gossamer explain {root} http://a.test/",
        ("crawl", "http://a.test/", "--email=a@example.org", f"--data-dir={root}"): f"./gossamer resume {root}",
    }
    for arguments, hint in hints.items():
        assert main(arguments) in {1, 2}
        assert hint in capsys.readouterr().err
    summary = summarise(
        Counts(admitted=1),
        stop_reason="interrupted",
        data_directory=root,
        run=1,
        pages_before=0,
        refused={},
        duration_seconds=1.0,
        cpu_seconds={},
        restarts=0,
        waits={},
    )
    print_end(summary, as_json=False)
    said = capsys.readouterr().out
    assert f"./gossamer status {root}" in said
    assert f"./gossamer resume {root}" in said
