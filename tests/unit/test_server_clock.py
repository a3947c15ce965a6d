"""The time of a store on a server, when somebody sets the server's clock."""

import pytest

from gossamer.frontier.stores import server_clock
from gossamer.frontier.stores.server_clock import ClockFacts, ServerClock, at_begin_of_run

HOUR = 3600.0
BOOT = 4711


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Boot and seconds since of the machine that asks."""
    facts = [BOOT, 1000.0]
    monkeypatch.setattr(server_clock, "since_boot", lambda: tuple(facts))
    return facts


def test_a_steady_clock_is_left_alone() -> None:
    clock = ServerClock()
    for second in range(0, 1000, 10):
        assert clock.read(5000.0 + second, asked_at=second, answered_at=second + 0.2) == 0.0


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 5.0, -5.0])
def test_a_clock_that_was_set_is_set_back(jump: float) -> None:
    clock = ServerClock()
    assert clock.read(5000.0, asked_at=0.0, answered_at=0.0) == 0.0
    assert clock.read(5010.0 + jump, asked_at=10.0, answered_at=10.0) == pytest.approx(-jump)
    # The offset was moved: from now on the store's time is what it would have been.
    assert clock.read(5020.0, asked_at=20.0, answered_at=20.0) == 0.0


def test_if_another_process_has_moved_the_offset_first_nothing_is_left_to_do() -> None:
    clock = ServerClock()
    clock.read(5000.0, asked_at=0.0, answered_at=0.0)
    clock.read(5010.0 + HOUR, asked_at=10.0, answered_at=10.0)
    assert clock.read(5010.1, asked_at=10.1, answered_at=10.1) == 0.0


def test_a_slow_answer_is_no_jump() -> None:
    clock = ServerClock()
    clock.read(5000.0, asked_at=0.0, answered_at=0.0)
    assert clock.read(5010.0, asked_at=10.0, answered_at=40.0) == 0.0
    assert clock.read(5050.0, asked_at=50.0, answered_at=50.0) == 0.0


def test_drift_adds_up_to_nothing() -> None:
    clock = ServerClock()
    for second in range(0, 100_000, 10):
        assert clock.read(5000.0 + second * 1.01, asked_at=second, answered_at=second) == 0.0


def test_the_first_run_begins_at_the_server_s_time() -> None:
    assert at_begin_of_run(ClockFacts(), 5000.0) == ClockFacts(0.0, 5000.0, BOOT, 4000.0)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_was_set_between_two_runs_opens_no_gap_and_closes_none(jump: float, machine: list[float]) -> None:
    first = at_begin_of_run(ClockFacts(), 5000.0)
    machine[1] += 60.0
    second = at_begin_of_run(first, 5060.0 + jump)
    assert 5060.0 + jump + second.offset == pytest.approx(5060.0)


def test_after_a_restart_of_the_machine_the_server_tells_how_long_it_was(machine: list[float]) -> None:
    first = at_begin_of_run(ClockFacts(), 5000.0)
    machine[:] = [BOOT + 1, 10.0]
    assert at_begin_of_run(first, 9000.0).latest == 9000.0


def test_the_store_s_time_never_goes_back(machine: list[float]) -> None:
    machine[:] = [0, 0.0]
    facts = ClockFacts(offset=0.0, latest=7000.0)
    assert at_begin_of_run(facts, 5000.0).latest == 7000.0
