"""What a person does on the dashboard reaches the crawl, from whatever thread, and stays after a resume."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.config import ScopeSettings
from gossamer.errors import UsageError
from gossamer.frontier.admission import AdmissionRules, parse_exclusions
from gossamer.frontier.store import PoolUse
from gossamer.records import Reason
from gossamer.run.condition import Condition
from gossamer.run.controls import LeaderControls
from gossamer.run.data_directory import DataDirectory
from gossamer.testing.stores.model import ModelStore


class Leader:
    """What the leader keeps of it."""

    def __init__(self, root: Path) -> None:
        self.data = DataDirectory(root)
        self.said: list[str] = []
        self.condition = Condition(root, 0, self.said.append)
        self.interrupts = 0
        self.rereads = 0

    def interrupt(self) -> None:
        self.interrupts += 1
        self.condition.is_stopping = True

    def reread(self) -> None:
        self.rereads += 1

    def when(self, act: Callable[[LeaderControls], None]) -> None:
        """In a thread, as the dashboard's server has them, while the leader's loop runs."""

        async def run() -> None:
            controls = LeaderControls(self.data, self.condition, interrupt=self.interrupt, reread=self.reread)
            await asyncio.to_thread(act, controls)
            await asyncio.sleep(0.01)

        asyncio.run(run())


def test_pause_and_go_on_are_the_condition_of_the_crawl(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.when(LeaderControls.pause)
    assert (leader.condition.is_paused, leader.condition.state) == (True, "paused")
    leader.when(LeaderControls.resume)
    assert (leader.condition.is_paused, leader.condition.state) == (False, "running")


def test_a_person_who_goes_on_does_not_overrule_a_full_disk(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.condition = Condition(tmp_path, 1 << 62, leader.said.append)
    leader.condition.look_at_disk()
    leader.when(LeaderControls.resume)
    assert leader.condition.is_paused
    assert len(leader.said) == 1


def test_a_second_stop_does_not_leave_at_once_as_a_second_interrupt_does(tmp_path: Path) -> None:
    leader = Leader(tmp_path)

    def stop_twice(controls: LeaderControls) -> None:
        controls.stop()
        controls.stop()

    leader.when(stop_twice)
    assert leader.interrupts == 1


@pytest.mark.parametrize("site", ["example.org\rcom", "example.org\tcom", "example.org # com", "EXAMPLE.org."])
def test_a_blocked_site_is_written_as_the_one_domain_that_was_checked(tmp_path: Path, site: str) -> None:
    leader = Leader(tmp_path)
    leader.when(lambda controls: controls.block(site))
    (domain,) = parse_exclusions(site, "block").domains
    assert leader.data.exclusions_file.read_text() == f"{domain}\n"
    assert leader.data.exclusions().domains == {domain}


def test_a_blocked_site_stands_in_the_exclude_file_once_beside_what_was_there(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.data.write_exclusions("# a comment\nother.example\n")

    def block(controls: LeaderControls) -> None:
        for site in ("example.org", " example.org ", "example.net"):
            controls.block(site)

    leader.when(block)
    assert leader.data.exclusions_file.read_text() == "# a comment\nother.example\nexample.org\nexample.net\n"
    assert leader.rereads == 3
    rules = AdmissionRules(ScopeSettings(), parse_exclusions("", ""))
    assert rules.judge("https://www.example.org/", "example.org", 0, 0, False) is None
    rules.exclude(leader.data.exclusions())
    assert rules.judge("https://www.example.org/", "example.org", 0, 0, False) is Reason.BLOCKED_SITE
    assert rules.judge("https://example.com/", "example.com", 0, 0, False) is None


@pytest.mark.parametrize("site", ["", "  ", "a b", "https://example.org/x", "example.org\nexample.net", "*.org", "#"])
def test_what_is_no_site_is_refused_and_nothing_is_written(tmp_path: Path, site: str) -> None:
    leader = Leader(tmp_path)

    def block(controls: LeaderControls) -> None:
        with pytest.raises(UsageError):
            controls.block(site)

    leader.when(block)
    assert not leader.data.exclusions_file.exists()
    assert leader.rereads == 0


@pytest.mark.parametrize("suffix", ["com", "CO.UK", "github.io", "рф", " ck ", "kawasaki.jp"])
def test_a_public_suffix_is_not_blocked_with_every_site_below_it(tmp_path: Path, suffix: str) -> None:
    leader = Leader(tmp_path)

    def block(controls: LeaderControls) -> None:
        with pytest.raises(UsageError, match=r"is a public suffix: .* every site below it.*--exclude-file"):
            controls.block(suffix)

    leader.when(block)
    assert not leader.data.exclusions_file.exists()


@pytest.mark.parametrize("site", ["example.co.uk", "someone.github.io", "www.ck", "intranet", "192.0.2.7"])
def test_a_site_next_to_a_public_suffix_can_be_blocked(tmp_path: Path, site: str) -> None:
    leader = Leader(tmp_path)
    leader.when(lambda controls: controls.block(site))
    assert leader.data.exclusions_file.read_text() == f"{site}\n"


def test_an_exclude_file_may_hold_a_public_suffix() -> None:
    """It was written down on purpose, and can be taken out again."""
    assert parse_exclusions("co.uk\n", "file").covers("www.example.co.uk")


def test_a_control_after_the_end_of_the_crawl_does_nothing(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    kept: list[LeaderControls] = []
    leader.when(kept.append)
    late = threading.Thread(target=kept[0].pause)
    late.start()
    late.join()
    assert not leader.condition.is_paused


def test_the_outages_of_a_store_are_said_once_each_and_counted(tmp_path: Path) -> None:
    class Away(ModelStore):
        """A server that comes and goes."""

        away = False

        @property
        def is_away(self) -> bool:
            return self.away

        @property
        def pool(self) -> PoolUse:
            return PoolUse()

    leader, store = Leader(tmp_path), Away(slots=4)
    for away in (False, True, True, False, True):
        store.away = away
        leader.condition.look_at_shortages(store, is_short=False)
    assert leader.condition.outages == 2
    assert [line.split(":")[0] for line in leader.said] == [
        "the store does not answer",
        "the store is back",
        "the store does not answer",
    ]
