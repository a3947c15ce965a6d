"""What a log file promises while others rename it, while threads write to it, and when the disk is full."""

import errno
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.report import logs
from gossamer.report.logs import LogFile

LOGGER = logging.getLogger("gossamer.test_logs")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(directory: Path) -> Iterator[LogFile]:
    """Rotated by somebody else."""
    log = LogFile(directory, "parser-0", "debug", max_bytes=0)
    log.open()
    yield log
    log.close()


def lines_in(*files: Path) -> list[dict[str, object]]:
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def numbers_in(*files: Path) -> list[object]:
    return [line["number"] for line in lines_in(*files)]


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


class FullDisk:
    """In place of `os.write` in `gossamer.report.logs`: there is room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    full = FullDisk(1 << 40)
    monkeypatch.setattr("gossamer.report.logs.os.write", full)
    return full


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("gossamer.report.logs.os.open", refuse)


@pytest.mark.usefixtures("log")
def test_lines_are_numbered_without_gaps(directory: Path) -> None:
    for _ in range(5):
        LOGGER.info("a line")
    assert numbers_in(directory / "parser-0.log") == [1, 2, 3, 4, 5]


def test_no_line_of_any_thread_is_lost_or_doubled_while_the_file_is_moved_and_reopened(
    log: LogFile, directory: Path
) -> None:
    path = directory / "parser-0.log"
    done = threading.Event()

    def talk(name: int) -> None:
        count = 0
        while not done.is_set() or count < 200:
            LOGGER.info("%d %d", name, count)
            count += 1

    threads = [threading.Thread(target=talk, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    moved = []
    try:
        for number in range(40):
            while not path.stat().st_size:
                time.sleep(0.001)
            moved.append(path.rename(directory / f"moved-{number}"))
            log.reopen()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    LOGGER.info("the last")
    log.close()

    numbers = numbers_in(*moved, path)
    assert numbers == list(range(1, len(numbers) + 1))
    assert lines_in(path)[-1]["message"] == "the last"
    assert all(file.stat().st_size for file in (*moved, path))
    said = [line["message"] for line in lines_in(*moved, path)]
    assert len(set(said)) == len(said) > 4 * 200


def test_a_reopened_log_leaves_no_descriptor_behind(log: LogFile, directory: Path) -> None:
    before = descriptors()
    for number in range(20):
        (directory / "parser-0.log").rename(directory / f"moved-{number}")
        log.reopen()
    assert descriptors() == before


def test_a_log_that_was_not_moved_is_gone_on_with(log: LogFile, directory: Path) -> None:
    LOGGER.info("before")
    log.reopen()
    LOGGER.info("after")
    assert numbers_in(directory / "parser-0.log") == [1, 2]


def test_a_file_that_was_made_for_us_is_used_with_its_mode(log: LogFile, directory: Path) -> None:
    path = directory / "parser-0.log"
    path.rename(directory / "moved")
    path.touch(mode=0o600)
    log.reopen()
    LOGGER.info("a line")
    assert path.stat().st_mode & 0o777 == 0o600
    assert numbers_in(path) == [1]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.EACCES])
def test_the_old_file_is_kept_until_a_new_one_can_be_opened(
    log: LogFile, directory: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    path = directory / "parser-0.log"
    moved = path.rename(directory / "moved")
    with monkeypatch.context() as refused:
        refuse_to_open(refused, error)
        log.reopen()
        LOGGER.info("into the old one")
        LOGGER.info("and again")
    assert numbers_in(moved) == [1, 2]
    LOGGER.info("into the new one, without being told again")
    assert numbers_in(path) == [3]


@pytest.mark.usefixtures("log")
def test_what_a_full_disk_refuses_is_lost_whole_and_leaves_a_gap_in_the_numbers(
    directory: Path, disk: FullDisk
) -> None:
    LOGGER.info("there is room")
    disk.room = 0
    LOGGER.info("there is none")
    LOGGER.info("nor now")
    disk.room = 1 << 40
    LOGGER.info("there is again")
    assert numbers_in(directory / "parser-0.log") == [1, 4]


@pytest.mark.usefixtures("log")
def test_a_line_that_was_cut_by_a_full_disk_is_finished_before_the_next(directory: Path, disk: FullDisk) -> None:
    disk.room = 20
    LOGGER.info("cut in the middle")
    LOGGER.info("lost")
    disk.room = 1 << 40
    LOGGER.info("whole")
    assert numbers_in(directory / "parser-0.log") == [1, 3]


def test_a_line_that_was_cut_is_finished_in_its_own_file_before_the_next_file_is_begun(
    log: LogFile, directory: Path, disk: FullDisk
) -> None:
    path = directory / "parser-0.log"
    disk.room = 20
    LOGGER.info("cut in the middle")
    moved = path.rename(directory / "moved")
    log.reopen()
    assert not path.exists()
    disk.room = 1 << 40
    LOGGER.info("whole")
    assert numbers_in(moved) == [1]
    assert numbers_in(path) == [2]


def test_a_log_ends_quietly_on_a_full_disk(log: LogFile, disk: FullDisk) -> None:
    before = descriptors()
    disk.room = 20
    LOGGER.info("cut in the middle")
    log.close()
    assert descriptors() == before - 1


@pytest.mark.usefixtures("log")
def test_a_record_that_cannot_be_said_is_not_its_callers_care_and_leaves_a_gap(directory: Path) -> None:
    LOGGER.info("%d", "no number")
    LOGGER.info("a line")
    assert numbers_in(directory / "parser-0.log") == [2]


@pytest.mark.usefixtures("log")
def test_with_no_limit_a_file_is_never_renamed_by_us(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 1000)  # the default, which 0 must not mean
    for _ in range(50):
        LOGGER.info("x" * 100)
    assert [file.name for file in directory.iterdir()] == ["parser-0.log"]
    assert numbers_in(directory / "parser-0.log") == list(range(1, 51))


def test_a_file_within_its_limit_is_rotated_by_us_and_the_newest_are_kept(directory: Path) -> None:
    log = LogFile(directory, "parser-0", "debug", max_bytes=1000)
    log.open()
    for _ in range(60):
        LOGGER.info("x" * 100)
    log.close()
    files = [directory / f"parser-0.log.{number}" for number in range(logs.KEPT_FILES, 0, -1)]
    files.append(directory / "parser-0.log")
    assert sorted(directory.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= 1000 for file in files)
    numbers = numbers_in(*files)
    assert numbers == list(range(61 - len(numbers), 61))
    assert len(numbers) > 4 * 3


def test_our_rotation_goes_on_where_an_earlier_process_left_the_file(directory: Path) -> None:
    for _ in range(3):
        log = LogFile(directory, "parser-0", "debug", max_bytes=1500)
        log.open()
        for _ in range(3):
            LOGGER.info("x" * 100)
        log.close()
    assert numbers_in(directory / "parser-0.log.1", directory / "parser-0.log") == [1, 2, 3] * 3


def test_a_file_that_somebody_else_has_moved_is_not_moved_by_us_as_well(directory: Path) -> None:
    log = LogFile(directory, "parser-0", "debug", max_bytes=1000)
    log.open()
    LOGGER.info("x" * 500)
    (directory / "parser-0.log").rename(directory / "theirs")
    (directory / "parser-0.log").touch()  # made for us, and we were not told yet
    LOGGER.info("x" * 500)
    LOGGER.info("x" * 100)
    log.close()
    assert numbers_in(directory / "theirs") == [1]
    assert numbers_in(directory / "parser-0.log") == [2, 3]
    assert sorted(file.name for file in directory.iterdir()) == ["parser-0.log", "theirs"]


def test_a_file_that_cannot_be_renamed_grows_and_pushes_no_older_one_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def refuse(path: Path, target: Path) -> Path:
        tries.append((path.name, target.name))
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    log = LogFile(directory, "parser-0", "debug", max_bytes=1000)
    log.open()
    monkeypatch.setattr(Path, "replace", refuse)
    for _ in range(30):
        LOGGER.info("x" * 100)
    log.close()
    assert numbers_in(directory / "parser-0.log") == list(range(1, 31))
    assert 1 <= len(tries) <= 10


def test_a_closed_log_is_neither_written_to_nor_reopened(directory: Path, log: LogFile) -> None:
    log.close()
    log.reopen()
    log.close()
    LOGGER.info("nobody listens")
    assert numbers_in(directory / "parser-0.log") == []
