"""What is kept of pages and segments that did harm to their readers."""

import fcntl
import resource
from pathlib import Path

import pytest

from gossamer.spool import suspects as module
from gossamer.spool.suspects import LONG_BYTES, PARSER_DEATHS, Finding, Suspects

ONE, OTHER = "00001-000-00000001", "00001-000-00000002"


def known(path: Path) -> Suspects:
    suspects = Suspects(path)
    suspects.refresh()
    return suspects


def test_what_one_process_adds_another_reads_after_a_restart_too(tmp_path: Path) -> None:
    reader = known(tmp_path)
    writer = Suspects(tmp_path)
    assert ONE not in reader
    writer.add(ONE, Finding.PARSER_DIED, 3)
    writer.add(ONE, Finding.PARSER_DIED)
    writer.add(ONE, Finding.PARSER_DIED)
    for suspects in (writer, reader, Suspects(tmp_path)):
        suspects.refresh()
        assert ONE in suspects
        assert OTHER not in suspects
        assert (suspects.deaths(ONE), suspects.deaths(ONE, 3), suspects.deaths(ONE, 2)) == (2, 1, 0)


def test_a_page_is_given_up_by_verdict_or_by_the_third_death_of_a_parser(tmp_path: Path) -> None:
    suspects = Suspects(tmp_path)
    suspects.add(ONE, Finding.CRASH, 0)
    for _ in range(PARSER_DEATHS - 1):
        suspects.add(ONE, Finding.PARSER_DIED, 1)
    assert [suspects.is_crash(ONE, index) for index in range(3)] == [True, False, False]
    suspects.add(ONE, Finding.PARSER_DIED, 1)
    assert suspects.is_crash(ONE, 1)


def test_findings_about_the_segment_are_not_about_its_pages(tmp_path: Path) -> None:
    suspects = Suspects(tmp_path)
    suspects.add(ONE, Finding.RETURNING, is_durable=True)
    assert suspects.has(ONE, Finding.RETURNING)
    assert not suspects.has(ONE, Finding.FAILED)
    assert not suspects.has_pages()
    suspects.add(OTHER, Finding.CRASH, 1)
    assert suspects.has_pages()


def test_lines_of_segments_that_are_gone_are_removed_and_everybody_notices(tmp_path: Path) -> None:
    writer, reader = Suspects(tmp_path), Suspects(tmp_path)
    writer.add(ONE, Finding.CRASH, 1)
    writer.add(OTHER, Finding.PARSER_DIED)
    writer.add(OTHER, Finding.PARSER_DIED)
    reader.refresh()
    writer.remove_all_but({OTHER})
    reader.refresh()
    for suspects in (writer, reader, known(tmp_path)):
        assert ONE not in suspects
        assert suspects.deaths(OTHER) == 2
    # And goes on to be written by those that knew the old file.
    reader.add(ONE, Finding.FAILED)
    writer.refresh()
    assert writer.has(ONE, Finding.FAILED)


def test_a_file_that_was_replaced_twice_between_two_looks_is_read_from_its_beginning(tmp_path: Path) -> None:
    """A file system may give the number of a file that is gone to the next one."""
    writer, reader = Suspects(tmp_path), Suspects(tmp_path)
    for finding in (Finding.FAILED, Finding.RETURNING):
        writer.add(ONE, finding)
        reader.refresh()
        for _ in range(2):
            writer.remove_all_but({OTHER})
        writer.add(OTHER, finding)
        reader.refresh()
        assert ONE not in reader
        assert reader.has(OTHER, finding)


def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    Suspects(tmp_path).add(ONE, Finding.RETURNING)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Suspects(tmp_path).refresh()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_whoever_cannot_have_the_file_is_told_and_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TRIES", 2)
    suspects = Suspects(tmp_path)
    suspects.add(ONE, Finding.FAILED)
    with (tmp_path / "suspects").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            suspects.add(OTHER, Finding.FAILED)
    suspects.add(OTHER, Finding.FAILED)
    assert suspects.has(OTHER, Finding.FAILED)


def test_it_says_when_it_has_grown_long(tmp_path: Path) -> None:
    suspects = Suspects(tmp_path)
    assert not suspects.is_long()
    suspects.remove_all_but(set())
    (tmp_path / "suspects").write_bytes(b"x" * (LONG_BYTES + 1))
    assert suspects.is_long()


def test_lines_that_are_cut_or_not_ours_are_passed_over(tmp_path: Path) -> None:
    Suspects(tmp_path).add(ONE, Finding.FAILED)
    with (tmp_path / "suspects").open("ab") as file:
        file.write(b'["00001-000-000\xff\n{}\n\n["x","crash","y"]\n["half')
    suspects = known(tmp_path)
    assert suspects.has(ONE, Finding.FAILED)
    # What follows half a line, as a full disk leaves it, is whole.
    suspects.add(OTHER, Finding.FAILED)
    assert suspects.has(OTHER, Finding.FAILED)


def test_a_view_that_nobody_has_any_more_leaves_no_descriptor(tmp_path: Path) -> None:
    Suspects(tmp_path).add(ONE, Finding.FAILED)
    before = len(list(Path("/proc/self/fd").iterdir()))
    view = known(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    del view
    assert len(list(Path("/proc/self/fd").iterdir())) == before
