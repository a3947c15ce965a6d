"""The data directory: settings that survive, and a lock that the last process gives back."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer import layers
from gossamer.config import FetchSettings, IdentitySettings, ParseSettings, ScopeSettings, Settings
from gossamer.errors import UsageError
from gossamer.run import data_directory
from gossamer.run.data_directory import DataDirectory, Frontier


def is_free(data: DataDirectory) -> bool:
    with (data.root / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "crawl")
    directory.create()
    return directory


def test_settings_come_back_as_they_were_written(data: DataDirectory) -> None:
    settings = Settings(
        identity=IdentitySettings(email="a@b.org"),
        scope=ScopeSettings(include=(r'^https://[^"\\]+/é\d{2}$',), max_depth=3),
        parse=ParseSettings(max_body_bytes=12345, text=False),
    )
    data.write_settings(settings)
    assert layers.combine([data.read_settings()]) == settings


def test_what_is_empty_stays_empty_at_a_resume(data: DataDirectory) -> None:
    settings = Settings(scope=ScopeSettings(skip_extensions=""), fetch=FetchSettings(blocked_ports=""))
    data.write_settings(settings)
    assert layers.combine([data.read_settings()]) == settings


def test_the_settings_of_the_version_before_are_read(data: DataDirectory) -> None:
    """It had one pattern each, as text, and left an empty one out."""
    data.settings_file.write_text(
        '[scope]\ninclude = "/news/"\n# exclude = ""\n[politeness]\ndelay = 70.0\n[parse]\nmax_body = 10485760\n',
        "utf-8",
    )
    settings = layers.combine([data.read_settings()])
    assert (settings.scope.include, settings.scope.exclude) == (("/news/",), ())
    assert settings.politeness == Settings().politeness
    assert settings.parse == Settings().parse


def test_a_new_directory_is_its_owners_alone_and_one_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = DataDirectory(tmp_path / "new" / "crawl")
        made.create()
        made.write_settings(Settings())
        (tmp_path / "there").mkdir(mode=0o755)
        DataDirectory(tmp_path / "there").create()
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(made.settings_file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o755


def test_a_crawl_that_is_being_run_is_refused_by_name_of_its_leader(data: DataDirectory) -> None:
    data.take()
    data.record_processes([], ["me"])
    other = DataDirectory(data.root)
    with pytest.raises(UsageError, match=f"is running, led by process {os.getpid()}"):
        other.take()
    data.give_up()
    other.take()
    other.give_up()


def test_the_lock_is_free_only_when_the_last_process_has_left(data: DataDirectory) -> None:
    data.take()
    program = "import sys; print(flush=True); sys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(data.lock,)
    ) as straggler:
        assert straggler.stdout is not None
        straggler.stdout.readline()
        data.give_up()
        assert not is_free(data)
        straggler.communicate(b"\n")
        assert is_free(data)


def test_a_straggler_that_was_recorded_is_ended(data: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_directory, "_STRAGGLERS_SECONDS", 0.2)

    def kill(pid: int, number: int) -> None:
        os_kill(pid, number)
        # It was waited for in vain. From here on it has as long as it takes to end.
        monkeypatch.setattr(data_directory, "_STRAGGLERS_SECONDS", 60.0)

    os_kill = os.kill
    monkeypatch.setattr(os, "kill", kill)
    data.take()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(data.lock,)) as straggler:
        data.record_processes([straggler.pid], [])
        data.give_up()
        # As if the leader were dead: its number is another process's now, started at another time.
        recorded = (data.root / "processes.json").read_text()
        leader = f'"{os.getpid()}":'
        assert leader in recorded
        (data.root / "processes.json").write_text(recorded.replace(leader, '"1":'))
        other = DataDirectory(data.root)
        other.take()
        assert straggler.wait(timeout=60) == -9
        other.give_up()


def test_what_a_kill_left_before_there_was_a_crawl_is_taken_for_a_new_one(data: DataDirectory) -> None:
    for name in ("lock", "seeds", "seeds.part", "exclusions", "crawl.toml.new"):
        (data.root / name).write_text("old")
    data.create()
    data.take()
    data.clear()
    assert [path.name for path in data.root.iterdir()] == ["lock"]
    data.give_up()
    (data.root / "crawl.toml").write_text("")
    with pytest.raises(UsageError, match="gossamer resume"):
        data.create()


def test_damaged_records_of_processes_stop_nobody(data: DataDirectory) -> None:
    (data.root / "processes.json").write_bytes(b"{")
    assert data.processes() is None
    data.take()
    data.give_up()


def test_only_its_owner_may_read_the_settings_which_may_hold_a_password(data: DataDirectory) -> None:
    for _ in range(2):  # made, and replaced
        data.write_settings(Settings())
        assert data.settings_file.stat().st_mode & 0o777 == 0o600


def test_the_name_of_its_frontier_stays_and_a_damaged_one_is_never_guessed(data: DataDirectory) -> None:
    which = data.which_frontier()
    assert data.which_frontier() != which  # not recorded yet: nobody has it
    data.record_frontier(which)
    assert data.which_frontier() == which
    (data.root / "frontier.json").write_bytes(b"{")
    with pytest.raises(UsageError, match=r"frontier\.json"):
        data.which_frontier()


def refused_start(data: DataDirectory) -> None:
    """What a start has written when its store cannot be opened; the leader has given up the lock by then."""
    data.take()
    data.seeds.write_text("https://example.org/\n")
    data.write_settings(Settings())
    data.record_frontier(data.which_frontier())
    data.log.mkdir()
    (data.log / "leader.log").write_text("{}\n")
    data.give_up()


def test_a_refused_start_removes_what_it_wrote(data: DataDirectory, tmp_path: Path) -> None:
    refused_start(data)
    data.undo_create()
    assert list(tmp_path.iterdir()) == []


def test_a_refused_start_leaves_files_of_others_alone(data: DataDirectory) -> None:
    """As those of `gossamer crawl … | tee DIR/output`, which appear after the start has found the directory empty."""
    refused_start(data)
    (data.root / "output").write_text("mine")
    (data.root / "notes").mkdir()
    data.undo_create()
    assert {path.name for path in data.root.iterdir()} == {"output", "notes"}


def test_a_refused_start_leaves_a_crawl_alone_that_another_process_has_begun(data: DataDirectory) -> None:
    refused_start(data)
    other = DataDirectory(data.root)
    other.take()
    before = {path.name for path in data.root.iterdir()}
    data.undo_create()
    assert {path.name for path in data.root.iterdir()} == before
    # It may have ended, too, and can be resumed.
    other.record_frontier(Frontier(crawl="abc", is_made=True))
    other.give_up()
    data.undo_create()
    assert {path.name for path in data.root.iterdir()} == before
    assert is_free(data)


def test_whoever_waits_for_the_lock_of_a_refused_start_gets_a_new_one(
    data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.take()
    (data.root / "output").write_text("the directory stays")
    monkeypatch.setattr(time, "sleep", lambda _: data.undo_create())
    other = DataDirectory(data.root)
    other.take()
    assert not is_free(data)
    other.give_up()


def test_whoever_waits_for_a_directory_that_is_removed_is_told(
    data: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused_start(data)
    data.take()
    monkeypatch.setattr(time, "sleep", lambda _: data.undo_create())
    other = DataDirectory(data.root)
    with pytest.raises(UsageError, match="is gone"):
        other.take()
