"""What a process says of itself: its log, its use of resources, the summary."""

import ast
import errno
import json
import logging
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import gossamer
from gossamer.cli.running import print_end
from gossamer.errors import UsageError
from gossamer.frontier.store import Counts
from gossamer.report.logs import JsonLines, LogFile
from gossamer.report.resources import (
    SPARE_DESCRIPTORS,
    cpu_seconds,
    own_usage,
    raise_descriptor_limit,
    started,
)
from gossamer.report.sample import StoreUse
from gossamer.report.status import summarise


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[LogFile]:
    log = LogFile(tmp_path / "log", "parser-3", "info")
    log.open()
    yield log
    log.close()


def test_a_log_is_lines_of_json_whatever_is_said(log_file: LogFile, tmp_path: Path) -> None:
    logger = logging.getLogger("gossamer.test")
    logger.info("from the web: %s", 'a\nb\x1b[31m"')
    logger.debug("not at this level")
    try:
        raise ValueError("broken")  # noqa: TRY301
    except ValueError:
        logger.warning("failed", exc_info=True)
    log_file.close()
    text = (tmp_path / "log" / "parser-3.log").read_text("utf-8")
    assert "\x1b" not in text
    first, second = (json.loads(line) for line in text.splitlines())
    assert first["process"] == "parser-3"
    assert first["level"] == "info"
    assert first["message"].startswith("from the web: a\nb\x1b[31m")
    assert second["traceback"].endswith("ValueError: broken")


def test_a_log_line_can_be_written_whatever_characters_are_in_it() -> None:
    record = logging.LogRecord("gossamer", logging.INFO, "", 0, "%s", ("\ud800\u202e\x00",), None)
    line = JsonLines("leader").format(record)
    assert line.isascii()
    assert json.loads(line)["message"] == "\ud800\u202e\x00"


def line_of(message: str, *args: object, **extra: object) -> dict[str, object]:
    made = logging.getLogger("gossamer").makeRecord("gossamer", logging.INFO, "", 0, message, args, None, extra=extra)
    made.created = 1_793_520_117.12345
    line: dict[str, object] = json.loads(JsonLines("leader").format(made))
    return line


def test_a_log_line_has_its_time_in_utc_and_the_process_that_wrote_it() -> None:
    line = line_of("a line")
    assert line["time"] == "2026-11-01T08:01:57.123Z"
    assert line["pid"] == os.getpid()


def test_figures_of_a_log_line_are_json() -> None:
    line = line_of("seeds loaded", fields={"lines": 3, "refused": {"scheme": 1}})
    assert line["message"] == "seeds loaded"
    assert line["fields"] == {"lines": 3, "refused": {"scheme": 1}}
    assert line_of("counts", fields=Counts(pages=2))["fields"] == msgspec.to_builtins(Counts(pages=2))


def test_a_log_message_has_no_python_notation() -> None:
    assert line_of("refused: %s", {"scheme": 1})["message"] == 'refused: {"scheme":1}'
    assert line_of("%d of %s", 1, ["a", Path("b")])["message"] == '1 of ["a","b"]'
    assert line_of("%s", StoreUse(connections=1))["message"].startswith('{"connections":1,')  # type: ignore[attr-defined]
    full = OSError(errno.ENOSPC, "No space left on device", "/data/log")
    assert line_of("waits: %s", full)["message"] == "waits: No space left on device: /data/log"
    assert line_of("waits: %s", OSError(errno.EMFILE, "Too many open files"))["message"] == "waits: Too many open files"
    assert line_of("gave up: %s", TimeoutError())["message"] == "gave up: TimeoutError"
    assert line_of("segment %s, page %s", b"1-2\xff", None)["message"] == "segment 1-2\\xff, page none"


def test_no_call_to_a_log_asks_for_python_notation() -> None:
    """All that is logged; seeds are copied before there is a log file, and what is said of them goes to a terminal."""
    asked = []
    for path in sorted(Path(gossamer.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id.lower().strip("_") == "log"
            ):
                text = "".join(ast.unparse(argument) for argument in node.args)
                asked += [f"{path.name}:{node.lineno}"] * bool(re.search(r"%[-.0-9]*[ra]|![ra]\}|\brepr\(", text))
    assert [place for place in asked if not place.startswith("copy.py")] == []


def test_a_log_that_was_moved_away_is_begun_anew(log_file: LogFile, tmp_path: Path) -> None:
    path = tmp_path / "log" / "parser-3.log"
    logging.getLogger("gossamer.test").warning("one")
    path.rename(path.with_name("kept"))
    log_file.reopen()
    logging.getLogger("gossamer.test").warning("two")
    log_file.close()
    assert "one" in path.with_name("kept").read_text()
    assert "two" in path.read_text()
    assert "one" not in path.read_text()


def test_a_process_knows_what_it_uses() -> None:
    before = own_usage()
    with Path(os.devnull).open() as _:
        assert own_usage().descriptors == before.descriptors + 1
    assert before.cpu_seconds > 0
    assert before.memory_bytes > 10 << 20


def test_a_process_is_known_again_by_its_start() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert started(other.pid) == started(other.pid) is not None
        assert started(other.pid) != started(os.getpid())
        assert cpu_seconds(other.pid) is not None
        other.communicate(b"\n")
    assert started(other.pid) is None
    assert cpu_seconds(other.pid) is None


def test_workers_that_cannot_fit_are_refused_with_the_number_that_can() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this system has no limit on descriptors")
    spare = SPARE_DESCRIPTORS
    refusal = f"--fetcher-workers: {hard} need {hard + spare} descriptors.* give {hard - spare} "
    with pytest.raises(UsageError, match=refusal):
        raise_descriptor_limit(hard)
    assert raise_descriptor_limit(10) == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard


def test_the_summary_tells_failures_from_what_was_kept() -> None:
    counts = Counts(
        admitted=20,
        finished=15,
        leased=1,
        pages=8,
        outcomes={"page": 8, "redirect": 2, "dns": 4, "robots": 1},
        retries={"busy": 3},
    )
    summary = summarise(
        counts,
        stop_reason="max_pages",
        data_directory="d",
        run=2,
        pages_before=5,
        refused={"scheme": 2},
        duration_seconds=1.23456,
        cpu_seconds={"leader": 0.12345},
        restarts=0,
        waits={},
    )
    assert summary.outcomes == {"done": 10, "retry": 3, "dropped": 5}
    assert summary.failures == {"dns": 4, "robots": 1}
    assert summary.pages_this_run == 3
    assert summary.queued == 5
    assert summary.retries == {"busy": 3}


def test_the_end_of_a_run_without_a_page_names_what_failed_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    def said(counts: Counts) -> str:
        summary = summarise(
            counts,
            stop_reason="interrupted",
            data_directory="d",
            run=1,
            pages_before=0,
            refused={},
            duration_seconds=60.0,
            cpu_seconds={},
            restarts=0,
            waits={},
        )
        assert print_end(summary, as_json=False) == 130
        return capsys.readouterr().out

    retries = {"connect": 1, "dns": 2, "origin-held": 3}
    assert "\n  tried again       2 dns, 1 connect\n" in said(Counts(admitted=2, retries=retries))
    assert "tried again" not in said(Counts(admitted=2, pages=1, outcomes={"page": 1}, retries=retries))
