"""The README's first command."""

import gc
import re
from pathlib import Path

import pytest

from gossamer.cli.main import main
from tests.crawl.conftest import pages_in


def test_the_demo_crawls_its_web_to_the_end_and_misses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--seconds=600", f"--data-dir={tmp_path / 'demo'}"]) == 0
    output = capsys.readouterr().out
    assert "everything that was admitted is fetched" in output
    found = re.search(r"^  pages +([\d,]+) ", output, re.MULTILINE)
    assert found is not None
    pages = int(found[1].replace(",", ""))
    assert len(pages_in(tmp_path / "demo" / "crawl")) == pages > 50
    reached = re.search(r"^  reachable URLs +([\d,]+) of ([\d,]+) requested$", output, re.MULTILINE)
    assert reached is not None
    assert reached[1] == reached[2]
    assert re.search(r"^  verdict +clean$", output, re.MULTILINE)
    assert "what to try next" in output
    # What stays frozen is never taken apart, and libraries complain of that when the process ends.
    assert gc.get_freeze_count() == 0


def test_the_demo_wants_a_sensible_duration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds=0"]) == 2
    assert "--seconds" in capsys.readouterr().err
