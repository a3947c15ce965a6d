"""`./bench` as a stranger meets it: two environments, and a lock for its peers."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.unit.test_launcher import Checkout, pins, wanted

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    shutil.copy(ROOT / "bench", made.root / "bench")
    (made.root / "requirements/bench.lock").write_text("peer==1\n")
    made.python()
    return made


def test_the_first_run_makes_an_environment_for_the_peers_beside_its_own(checkout: Checkout) -> None:
    run = checkout.run("--only", "a b", program="bench")
    assert run.code == 0, run.err
    assert run.out == ""
    made = re.findall(r"-m venv (.*)", run.calls)
    assert made == [f"{checkout.root}/.venv", f"{checkout.root}/.venv-bench"]
    assert run.calls.endswith("-m benchmarks.crawl --only a b\n")


def test_the_program_itself_is_not_installed_among_its_peers(checkout: Checkout) -> None:
    calls = checkout.run(program="bench").calls
    assert calls.count("--editable") == 1
    assert calls.index("--editable") < calls.index(".venv-bench")


def test_a_run_that_finds_all_in_order_sets_up_nothing(checkout: Checkout) -> None:
    checkout.run(program="bench")
    assert checkout.run("x", program="bench").calls == "-m benchmarks.crawl x\n"
    assert checkout.run("x").calls == "-P -m gossamer x\n"


def test_a_new_lock_of_the_peers_leaves_the_programs_environment_alone(checkout: Checkout) -> None:
    checkout.run(program="bench")
    (checkout.root / "requirements/bench.lock").write_text("peer==2\n")
    calls = checkout.run(program="bench").calls
    assert "requirements/bench.lock" in calls
    assert "requirements/check.lock" not in calls


def test_the_peers_lock_pins_with_hashes_and_shares_its_versions_with_the_program() -> None:
    run, bench = pins("run.lock"), pins("bench.lock")
    common = run.keys() & bench.keys()
    assert {name: run[name].split()[0] for name in common} == {name: bench[name].split()[0] for name in common}
    assert [name for name, entry in bench.items() if "--hash=sha256:" not in entry] == []
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert wanted(groups["bench"]) - set(bench) == set()


def test_the_peers_lock_names_neither_an_index_nor_a_place_on_somebodys_machine() -> None:
    text = (ROOT / "requirements/bench.lock").read_text()
    assert not re.search(r"://|index-url|find-links|/home/|/root/|/tmp/", text)
