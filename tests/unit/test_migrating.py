"""The page for people of the older crawler names nothing that does not exist here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gossamer.report.metrics import BY_NAME
from tests.contract.test_deploy import assert_known, metric_of
from tests.unit.test_docs import flags, full_help, section
from tests.unit.test_metrics import PROMISED

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text("utf-8")
#: A label's value, a function, a command.
NO_QUERY = re.compile(r"(?!crawler|system|redis|backpressure)[a-z_]+(-\d)?|rate\(\)|gossamer sql")


class Row(NamedTuple):
    question: str
    old: str
    new: str


def rows() -> Iterator[Row]:
    for line in section(PAGE, "Old query → new query").splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip("| "))
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "question":
            yield Row(*(cell.replace("\\|", "|") for cell in cells))


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.question)
def test_every_new_query_names_metrics_and_labels_that_exist(row: Row) -> None:
    named = [text for text in code(row.new) if text in BY_NAME]
    queries = [text for text in code(row.new) if text not in BY_NAME and not NO_QUERY.fullmatch(text)]
    assert named or queries or row.new.startswith("none")
    for query in queries:
        assert_known(query)


def test_whatever_looks_like_a_metric_on_the_right_is_one() -> None:
    named = {
        word for row in rows() for word in re.findall(r"\b(?:crawler|system|redis|backpressure)_\w+(?!\w|=)", row.new)
    }
    assert [word for word in sorted(named) if word not in BY_NAME and metric_of(word)[0] is None] == []


def test_what_was_promised_to_people_of_the_older_crawler_is_on_the_page() -> None:
    text = " ".join(row.old for row in rows())
    assert [name for name in PROMISED if not re.search(rf"\b{name}(_bucket)?\b", text)] == []


def test_every_new_flag_exists() -> None:
    known = flags(full_help("crawl")) | flags(full_help("resume"))
    lines = [line for line in section(PAGE, "Commands and flags").splitlines() if line.startswith("| `")]
    assert len(lines) > 5
    for line in lines:
        assert flags(line.rpartition(" | ")[2]) <= known, line
