"""The README's first command."""

import gc
import json
import re
import shlex
from pathlib import Path

import pytest

from gossamer.cli.main import main
from tests.crawl.conftest import pages_in

README = Path(__file__).parents[2] / "README.md"
#: What differs from one demo to the next: times, sizes and numbers of files.
CHANGING = re.compile(r"[\d.,]+( files?| [KM]?B| bytes)?")


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
    # This process led the crawl and is still there; a shell's has ended.
    processes = tmp_path / "demo" / "crawl" / "processes.json"
    processes.write_text(json.dumps(json.loads(processes.read_text()) | {"started": {}}))
    for command, answer in readme_examples():
        assert main([word.replace("demo/crawl", str(tmp_path / "demo" / "crawl")) for word in command]) == 0, command
        said = capsys.readouterr().out.replace(str(tmp_path / "demo" / "crawl"), "demo/crawl")
        shown = {CHANGING.sub("", line).strip() for line in said.splitlines()}
        missing = [line for line in answer if CHANGING.sub("", line).strip() not in shown]
        assert missing == [], f"{command} does not say what README shows, but:\n{said}"
    # What stays frozen is never taken apart, and libraries complain of that when the process ends.
    assert gc.get_freeze_count() == 0


def readme_examples() -> list[tuple[list[str], list[str]]]:
    """Each command of README on the demo's crawl, and the lines that it is said to print."""
    blocks = re.findall(
        r"^    \$ \./gossamer (.*demo/crawl.*)\n((?:    .*\n)+)", README.read_text("utf-8"), re.MULTILINE
    )
    found = [
        (shlex.split(command), [line for line in answer.splitlines() if line.strip() != "…"])
        for command, answer in blocks
    ]
    assert len(found) == 5
    return found


def test_the_demo_wants_a_sensible_duration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds=0"]) == 2
    assert "--seconds" in capsys.readouterr().err
