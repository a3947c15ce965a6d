"""The page in work, as the leader reads it."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from gossamer.parse.note import PageNote, Stage, read_note

SEGMENT = "00001-000-00000042"


def test_a_note_names_the_page_in_work(tmp_path: Path) -> None:
    path = tmp_path / "claimed" / "parser-0.note"
    with closing(PageNote(path)) as note:
        assert read_note(path) is None
        note.page(SEGMENT, 0)
        assert read_note(path) == (SEGMENT, Stage.PAGE, 0)
        note.page("00001-000-00000043", 63)
        assert read_note(path) == ("00001-000-00000043", Stage.PAGE, 63)


def test_a_note_names_the_segment_and_what_is_done_with_it_between_pages(tmp_path: Path) -> None:
    path = tmp_path / "parser-0.note"
    with closing(PageNote(path)) as note:
        for stage in (Stage.SEGMENT, Stage.SINKS, Stage.COMMIT, Stage.RETURN):
            note.page(SEGMENT, 5)
            note.stage(SEGMENT, stage)
            assert read_note(path) == (SEGMENT, stage, 0)


def test_a_cleared_note_blames_no_page(tmp_path: Path) -> None:
    path = tmp_path / "parser-0.note"
    with closing(PageNote(path)) as note:
        note.page(SEGMENT, 7)
        note.clear()
    assert read_note(path) is None


def test_a_note_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "parser-0.note"
    program = (
        "import os, signal, sys; from pathlib import Path; from gossamer.parse.note import PageNote;"
        f"PageNote(Path(sys.argv[1])).page({SEGMENT!r}, 5); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert (ended.returncode, read_note(path)) == (-9, (SEGMENT, Stage.PAGE, 5))


def test_a_new_parser_starts_with_an_empty_note(tmp_path: Path) -> None:
    path = tmp_path / "parser-0.note"
    with closing(PageNote(path)) as note:
        note.page(SEGMENT, 5)
    with closing(PageNote(path)):
        assert read_note(path) is None


def test_a_missing_or_unfinished_file_blames_no_page(tmp_path: Path) -> None:
    path = tmp_path / "parser-0.note"
    assert read_note(path) is None
    path.write_bytes(b"")
    assert read_note(path) is None
