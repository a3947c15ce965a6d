"""The names of processes in `ps` and `top`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.run.titles import SHORT_TITLE_BYTES, short_title, title


def test_a_title_names_the_program_the_process_and_the_crawl() -> None:
    assert title("parser-1", Path("/data/mycrawl")) == "gossamer: parser-1 mycrawl"
    assert title("leader", Path("/")) == "gossamer: leader"


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\u202eb", "a\udc80b", "a\x9bb"])
def test_a_directory_cannot_act_on_the_terminal_of_who_looks(name: str) -> None:
    shown = title("leader", Path("/data") / name)
    assert shown.isprintable()
    assert shown.encode("utf-8").startswith(b"gossamer: leader a?")


def test_a_long_directory_is_cut() -> None:
    assert len(title("parser-1", Path("/") / ("x" * 255))) < 100


@pytest.mark.parametrize(
    ("process", "short"),
    [
        ("leader", "gossamer:leader"),
        ("fetcher-1", "gossamer:fetch1"),
        ("parser-0", "gossamer:parse0"),
        ("parser-12", "gossamer:pars12"),
        ("parser-123", "gossamer:par123"),
    ],
)
def test_a_short_title_keeps_the_number_whole(process: str, short: str) -> None:
    assert short_title(process) == short
    assert len(short) <= SHORT_TITLE_BYTES


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="titles are read from /proc")
def test_ps_and_top_show_the_title_and_the_environment_stays() -> None:
    program = (
        "import os; from pathlib import Path; from gossamer.run.titles import set_title;"
        "set_title('parser-1', Path('/data/mycrawl'));"
        "print(Path('/proc/self/cmdline').read_bytes().rstrip(b'\\0').decode());"
        "print(Path('/proc/self/comm').read_text().strip());"
        "print(os.environ['KEPT'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"KEPT": "as it was"}, capture_output=True, check=True
    )
    assert ran.stdout.decode().splitlines() == ["gossamer: parser-1 mycrawl", "gossamer:parse1", "as it was"]
