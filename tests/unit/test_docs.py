"""The manual cannot drift: every command, flag and setting is in it, and it speaks of nothing that is gone."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from gossamer import layers, records
from gossamer.cli.main import COMMANDS, command_module, command_parser, overview
from gossamer.fetch.robots_rules import Reason
from gossamer.report.metrics import KEPT, TOLD, Metric
from gossamer.report.sample import BoundBy
from gossamer.testing.audit.report import MEANINGS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text("utf-8")
CONFIGURATION_PAGE = (ROOT / "docs" / "configuration.md").read_text("utf-8")
OBSERVING_PAGE = (ROOT / "docs" / "observing.md").read_text("utf-8")
DEPENDENCIES_PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8")


#: Common to several commands, and documented once for all.
HELP_FLAGS = {"--help", "--help-all"}


def full_help(command: str) -> str:
    parser = command_parser(command)
    parser.show_all()
    return parser.format_help()


def flags(help_text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text))


def section(page: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading!r}"
    return found[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_each_of_its_flags_is_documented(command: str) -> None:
    text = section(COMMANDS_PAGE, f"gossamer {command}")
    settings = {
        name for setting in layers.settings_by_name().values() for name in (setting.flag, f"--no-{setting.flag[2:]}")
    }
    undocumented = flags(full_help(command)) - HELP_FLAGS - settings - flags(text)
    assert undocumented == set()
    assert f"`gossamer {command}`" in README or f"./gossamer {command}" in README


def test_no_command_is_documented_that_does_not_exist() -> None:
    documented = set(re.findall(r"^## gossamer (\w+)", COMMANDS_PAGE, re.MULTILINE))
    assert documented == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_flag_is_documented_that_does_not_exist(command: str) -> None:
    lines = section(COMMANDS_PAGE, f"gossamer {command}").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("    $ curl"))
    assert flags(text) <= flags(full_help(command)) | HELP_FLAGS


def test_every_reason_that_a_report_may_name_is_explained() -> None:
    tables = re.findall(r"^\| (`.*?) \|", section(COMMANDS_PAGE, "gossamer crawl"), re.MULTILINE)
    named = {word for cell in tables for word in re.findall(r"`([\w-]+)`", cell)}
    assert sorted(set(records.Reason) - named) == ["new", "page", "redirect"]


def test_every_reason_and_every_offence_is_explained() -> None:
    reasons = re.findall(r"^\| `([\w-]+)` \|", section(COMMANDS_PAGE, "gossamer robots"), re.MULTILINE)
    assert reasons == list(Reason)
    offences = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", section(COMMANDS_PAGE, "gossamer audit"), re.MULTILINE)
    assert dict(offences) == MEANINGS


def test_the_overview_lists_every_command() -> None:
    help_text = overview().format_help()
    for name in COMMANDS:
        assert re.search(rf"^  {name} +{re.escape(command_module(name).SUMMARY)}$", help_text, re.MULTILINE)


def test_the_configuration_page_is_what_the_model_says() -> None:
    """Written anew by: ./gossamer settings --reference."""
    start = CONFIGURATION_PAGE.index("## [")
    assert CONFIGURATION_PAGE[start:] == layers.reference()


def test_every_dependency_earns_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["check"]
    names = [re.split(r"[^\w-]", requirement)[0] for requirement in wanted]
    assert len(names) > 15
    missing = [name for name in names if not re.search(rf"^\| {re.escape(name)} ", DEPENDENCIES_PAGE, re.MULTILINE)]
    assert missing == []


def test_every_metric_is_in_the_manual_with_its_labels_and_what_it_means() -> None:
    documented = [
        line for line in OBSERVING_PAGE.splitlines() if re.match(r"\| `(crawler|system|redis|back)\w+` ", line)
    ]
    assert documented == [_metric_row(metric) for metric in (*TOLD, *KEPT)]
    bounds = re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| (`[^|]*) \| .* \|$", _bound_table(), re.MULTILINE)))
    assert sorted(bounds) == sorted(get_args(BoundBy))


def _metric_row(metric: Metric) -> str:
    labels = [
        f"`{name}`" + (f": {', '.join(f'`{value}`' for value in values)}" if values else "")
        for name, values in metric.labels.items()
    ]
    return f"| `{metric.name}` | {metric.kind} | {', '.join(labels)} | {metric.meaning} |"


def _bound_table() -> str:
    return OBSERVING_PAGE.partition("| by | what it means |")[2].partition("\n## ")[0]


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text("utf-8"))
    ]
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []
    assert links
