"""What the deaths of processes lead to; time is played."""

from pathlib import Path

from gossamer.parse.note import Noted, Stage
from gossamer.run.deaths import CAREFUL_SECONDS, CRASH_LOOP_DEATHS, EXPLAINED_DEATHS, GUARD_SECONDS, Deaths
from gossamer.spool.suspects import PARSER_DEATHS, SEGMENT_DEATHS, Finding, Suspects


def segment(number: int) -> str:
    return f"00001-000-{number:08d}"


def on_page(number: int, page: int = 0) -> Noted:
    return Noted(segment(number), Stage.PAGE, page)


def judge(tmp_path: Path, now: float = 0.0) -> Deaths:
    return Deaths(Suspects(tmp_path), now)


def died(deaths: Deaths, noted: Noted | None, now: float = 0.0, *, was_guarded: bool = False, parsers: int = 1) -> bool:
    return deaths.note_parser("parser-0", noted, now, was_guarded=was_guarded, parsers=parsers)


def test_five_deaths_that_nothing_explains_are_a_crash_loop(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    for _ in range(CRASH_LOOP_DEATHS - 1):
        assert not died(deaths, None)
        assert not deaths.is_crash_loop
    deaths.note_fetcher()
    assert deaths.is_crash_loop


def test_progress_ends_every_loop(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    for number in range(100):
        died(deaths, None)
        died(deaths, Noted(segment(number), Stage.SINKS))
        deaths.note_progress()
    assert not deaths.is_crash_loop


def test_however_many_parsers_die_at_once_on_deadly_pages_it_is_no_loop(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    assert all(died(deaths, on_page(number), parsers=64) for number in range(64))
    assert not deaths.is_crash_loop


def test_a_page_explains_deaths_until_it_should_not_have_been_read_any_more(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    assert [died(deaths, on_page(1)) for _ in range(PARSER_DEATHS + 1)] == [True] * PARSER_DEATHS + [False]


def test_a_segment_explains_deaths_until_it_should_have_been_set_aside(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    noted = Noted(segment(1), Stage.COMMIT)
    assert [died(deaths, noted) for _ in range(SEGMENT_DEATHS + 1)] == [True] * SEGMENT_DEATHS + [False]


def test_when_every_segment_kills_its_parsers_it_is_a_crash_loop_at_last(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    count = 0
    while not deaths.is_crash_loop:
        died(deaths, Noted(segment(count), Stage.SINKS))
        count += 1
    assert count == EXPLAINED_DEATHS - 1 + CRASH_LOOP_DEATHS


def test_a_death_on_a_page_puts_parsers_on_their_guard_and_it_is_kept(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    assert (deaths.guard_seconds(0.0), deaths.careful_seconds(0.0)) == (0.0, 0.0)
    died(deaths, on_page(1, 7), 100.0)
    assert deaths.guard_seconds(100.0) == GUARD_SECONDS
    assert deaths.careful_seconds(100.0) == 0.0
    kept = Suspects(tmp_path)
    kept.refresh()
    assert kept.deaths(segment(1), 7) == 1


def test_a_death_on_no_page_makes_parsers_careful(tmp_path: Path) -> None:
    for noted in (None, Noted(segment(1), Stage.SEGMENT)):
        deaths = judge(tmp_path)
        died(deaths, noted, 100.0)
        assert (deaths.careful_seconds(100.0), deaths.guard_seconds(100.0)) == (CAREFUL_SECONDS, 0.0)


def test_the_guard_lasts_from_the_last_deadly_page_and_doubles_with_each_relapse(tmp_path: Path) -> None:
    deaths = judge(tmp_path)
    died(deaths, on_page(1), 0.0)
    # One more while it lasts, as a parser has survived it: counted from there.
    assert deaths.note_crashes(1, 500.0)
    assert not deaths.note_crashes(1, 550.0)
    assert deaths.guard_seconds(550.0) == GUARD_SECONDS - 50
    assert deaths.guard_seconds(500.0 + GUARD_SECONDS) == 0.0
    died(deaths, on_page(2), 2000.0)
    assert deaths.guard_seconds(2000.0) == 2 * GUARD_SECONDS
    died(deaths, on_page(3), 2000.0 + 2 * GUARD_SECONDS)
    assert deaths.guard_seconds(2000.0 + 2 * GUARD_SECONDS) == 4 * GUARD_SECONDS


def test_a_resume_with_deadly_pages_in_its_spool_begins_on_guard(tmp_path: Path) -> None:
    Suspects(tmp_path).add(segment(1), Finding.CRASH, 3)
    assert judge(tmp_path, 50.0).guard_seconds(50.0) == GUARD_SECONDS
