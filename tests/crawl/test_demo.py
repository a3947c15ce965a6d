"""The README's first command."""

import gc
import re
from pathlib import Path

import pytest

from gossamer.cli.main import main
from gossamer.config import RunSettings
from gossamer.frontier.store import Counts
from gossamer.run import leader
from gossamer.run.stop import StopReason, reason_to_stop
from gossamer.testing.web import access_log
from tests.crawl.conftest import pages_in

#: Answers that the web has given before the demo's time is up.
ANSWERS = 300


def test_the_demo_crawls_a_web_and_says_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "demo" / "web" / "access-0.log"

    def when_answered(
        counts: Counts, settings: RunSettings, *, elapsed_seconds: float, seeds_are_loaded: bool
    ) -> StopReason | None:
        """However long this machine takes: the clock stands still until there are answers."""
        seconds = elapsed_seconds if sum(1 for _ in access_log.read([log])) >= ANSWERS else 0.0
        return reason_to_stop(counts, settings, elapsed_seconds=seconds, seeds_are_loaded=seeds_are_loaded)

    monkeypatch.setattr(leader, "reason_to_stop", when_answered)
    assert main(["demo", "--seconds=1", f"--data-dir={tmp_path / 'demo'}"]) == 0
    output = capsys.readouterr().out
    found = re.search(r"^  pages +([\d,]+) ", output, re.MULTILINE)
    assert found is not None
    pages = int(found[1].replace(",", ""))
    assert len(pages_in(tmp_path / "demo" / "crawl")) == pages > 50
    assert re.search(r"^  verdict +clean$", output, re.MULTILINE)
    assert "what to try next" in output
    # What stays frozen is never taken apart, and libraries complain of that when the process ends.
    assert gc.get_freeze_count() == 0


def test_the_demo_wants_a_sensible_duration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds=0"]) == 2
    assert "--seconds" in capsys.readouterr().err
