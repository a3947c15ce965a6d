"""What `./bench` makes of its figures, what it refuses, and what it knows of processes."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.crawl.gossamer import Reading, measured
from benchmarks.crawl.measured import FETCHER, PARSER, STORE, WHOLE, Floor, Measured, least, least_floor
from benchmarks.crawl.options import NAMES, Options, parse
from benchmarks.crawl.processes import Usage, directory_bytes, family, memory_bytes, tree
from benchmarks.crawl.ratios import complaints, load, ratios, recorded, save
from benchmarks.crawl.table import known_table, table
from gossamer.errors import GossamerError

ROOT = Path(__file__).resolve().parents[2]


def one(cpu: dict[str, float], system: str = "sqlite", scheme: str = "http") -> Measured:
    return Measured(
        system=system,
        scheme=scheme,
        pages=10_000,
        cpu=cpu,
        pages_per_second=100.0,
        peak_bytes=200_000_000,
        written_bytes=50_000.0,
        kept_bytes=30_000.0,
        received_bytes=25_000.0,
    )


def floor(scheme: str = "http", fetch: float = 0.2, gunzip: float = 0.1, parse: float = 0.7) -> Floor:
    return Floor(
        scheme=scheme, pages=2_000, fetch=fetch, gunzip=gunzip, parse=parse, received_bytes=24_000.0, client="curl"
    )


def reading(at: float, fetcher: float, parser: float, store: float, *, fetched: int, parsed: int) -> Reading:
    return Reading(at, fetcher, parser, Usage(store, int(store * 1e6)), int(at * 1e6), fetched, parsed, fetched * 1_000)


# --- what a crawl comes to --------------------------------------------------------------------------------------------


def test_each_kind_of_process_is_divided_by_the_pages_that_went_through_it_since_it_was_warm() -> None:
    fetching = reading(10.0, 1.0, 9.0, 9.0, fetched=100, parsed=0)
    parsing = reading(20.0, 9.0, 2.0, 1.0, fetched=400, parsed=100)
    ended = reading(30.0, 2.0, 6.0, 3.0, fetched=1_100, parsed=1_100)
    found = measured("redis", "http", fetching, parsing, ended, peak_bytes=7, kept_bytes=2_200_000)
    assert found.cpu == pytest.approx({FETCHER: 1.0, PARSER: 4.0, STORE: 2.0})
    assert found.total == pytest.approx(7.0)
    assert (found.pages, found.pages_per_second) == (1_000, 100.0)
    assert found.written_bytes == pytest.approx(10e6 / 1_000 + 2e6 / 1_000)
    assert found.kept_bytes == 2_000.0
    assert found.received_bytes == 1_000.0


def test_an_embedded_store_has_no_time_of_its_own() -> None:
    began, ended = reading(0, 0, 0, 0, fetched=0, parsed=0), reading(1, 1, 1, 0, fetched=10, parsed=10)
    assert STORE not in measured("sqlite", "http", began, began, ended, peak_bytes=0, kept_bytes=0).cpu


def test_a_crawl_that_ended_in_its_warm_up_is_no_figure() -> None:
    same = reading(1, 1, 1, 1, fetched=10, parsed=10)
    with pytest.raises(GossamerError, match="more pages"):
        measured("sqlite", "http", same, same, same, peak_bytes=0, kept_bytes=0)


def test_of_several_rounds_the_one_that_cost_least_is_taken_whole() -> None:
    rounds = [one({"a": 1.0, "b": 5.0}), one({"a": 3.0, "b": 2.0}), one({"a": 2.0, "b": 9.0})]
    assert least(rounds) is rounds[1]


def test_of_several_floors_the_least_of_each_part_is_taken() -> None:
    assert least_floor([floor(fetch=0.2, parse=0.9), floor(fetch=0.3, parse=0.5)]).total == pytest.approx(0.8)


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_has_as_many_cells_as_its_head() -> None:
    rows = [one({FETCHER: 1.0, PARSER: 2.0}), one({FETCHER: 1.0, STORE: 2.0}, "redis"), one({WHOLE: 9.0}, "scrapy")]
    lines = [line for line in table(rows, {"http": floor(), "https": floor("https")}) if line.startswith("|")]
    assert len(lines) == 2 + len(rows) + 2
    assert len({line.count("|") for line in lines}) == 1


def test_the_ratio_is_to_the_floor_of_the_same_scheme() -> None:
    lines = table([one({WHOLE: 6.0}, scheme="https")], {"http": floor(), "https": floor("https", fetch=1.2)})
    assert "| 3.00 |" in lines[2]
    assert "| 6.00 |" not in lines[2]


def test_without_a_floor_there_is_no_ratio() -> None:
    assert re.search(r"\*\*6\.00\*\* \| \(one process\) \|  \|  \|  \| 100 \|", table([one({WHOLE: 6.0})], {})[2])


def test_many_known_urls_are_shown_beside_few() -> None:
    assert known_table([one({WHOLE: 2.0}), one({WHOLE: 3.0})])[-1].endswith("| 3.00 | 1.50 |")


# --- ratios that are kept ---------------------------------------------------------------------------------------------


def test_a_ratio_may_be_a_quarter_worse_and_no_more() -> None:
    assert complaints({"sqlite": 5.0, "redis": 4.9}, {"sqlite": 4.0, "redis": 4.0}) == []
    assert [line[:6] for line in complaints({"sqlite": 5.1, "redis": 4.0}, {"sqlite": 4.0, "redis": 4.0})] == ["sqlite"]


def test_a_check_that_has_nothing_to_compare_does_not_pass() -> None:
    assert complaints({}, {"sqlite": 4.0})
    assert complaints({"redis": 1.0}, {"sqlite": 4.0})


def test_what_is_better_or_new_is_recorded_and_what_is_worse_only_when_that_is_accepted() -> None:
    now, kept = {"sqlite": 3.0, "redis": 5.0, "postgresql": 6.0}, {"sqlite": 4.0, "redis": 4.0, "sqlite-https": 2.0}
    assert recorded(now, kept, accept_worse=False)[0] == {
        "sqlite": 3.0,
        "redis": 4.0,
        "postgresql": 6.0,
        "sqlite-https": 2.0,
    }
    assert recorded(now, kept, accept_worse=True)[0]["redis"] == 5.0


def test_what_was_recorded_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "floors.json"
    assert load(file) == {}
    save({"sqlite": 2.5}, file)
    assert load(file) == {"sqlite": 2.5}


def test_ratios_are_only_of_what_has_a_floor() -> None:
    found = {"sqlite": one({WHOLE: 3.0}), "sqlite-https": one({WHOLE: 9.0}, scheme="https")}
    assert ratios(found, {"http": floor()}) == {"sqlite": 3.0}


# --- what can be asked for --------------------------------------------------------------------------------------------


def test_everything_is_measured_unless_something_is_named() -> None:
    given = parse([])
    assert given.only == list(NAMES)
    assert (given.pages, given.warm_up, given.rounds) == (10_000, 2_000, 3)
    assert parse(["--only", "sqlite, redis-https,sqlite"]).only == ["sqlite", "redis-https"]


@pytest.mark.parametrize("words", [["--known", "1000000"], ["--profile", "flames"]])
def test_known_urls_and_profiles_are_of_sqlite_unless_another_store_is_named(words: list[str]) -> None:
    assert parse(words).only == ["sqlite"]
    assert parse([*words, "--only", "redis"]).only == ["redis"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--only", "mysql"], "mysql: unknown; there are: sqlite"),
        (["--only", ","], "nothing: unknown"),
        (["--pages", "0"], "'0' is no number of 1 or more"),
        (["--pages", "many"], "'many' is no number"),
        (["--rounds", "-1"], "--rounds"),
        (["--accept-worse"], "give both"),
        (["--known", "9", "--profile", "d"], "one at a time"),
        (["--known", "9", "--check"], "go with the table"),
        (["--profile", "d", "--only", "scrapy"], "Gossamer alone"),
        (["--directory", "/nowhere/at/all"], "no directory '/nowhere/at/all'"),
        (["--page", "9"], "unrecognized"),
    ],
)
def test_a_wrong_flag_is_refused_with_its_reason(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_every_flag_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "docs/benchmarks.md").read_text("utf-8")))
    assert flags - documented == set()
    assert {f"--{name.replace('_', '-')}" for name in Options.__annotations__} == flags


# --- what is known of processes ---------------------------------------------------------------------------------------

BURNING = "import time\nwhile time.process_time() < 0.2: pass\n"


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[str]"]:
    """A process with a child that has spent 0.2 s and was waited for, and one that has and waits."""
    program = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {BURNING!r}], check=True)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {BURNING + 'print(flush=True); input()'!r}],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(flush=True)\n"
        "input()\n"
        "child.communicate(b'\\n')\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate("\n")


def test_the_time_of_a_tree_has_children_that_run_and_children_that_have_ended(parent: "subprocess.Popen[str]") -> None:
    assert len(family(parent.pid)) == 2
    # A child's account is closed in hundredths of a second.
    assert tree(parent.pid).cpu_seconds >= 0.39
    assert memory_bytes(family(parent.pid)) > memory_bytes([parent.pid]) > 1_000_000


def test_the_size_of_a_directory_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(700))
    (tmp_path / "other").write_bytes(bytes(300))
    assert directory_bytes(tmp_path) == 1_000
