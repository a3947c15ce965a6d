"""A suggestion is made only for what was meant."""

import pytest

from gossamer.cli.main import COMMANDS
from gossamer.spelling import closest

FLAGS = ["--exclude", "--exclude-file", "--max-pages", "--num-fetcher-processes", "--num-parser-processes"]


@pytest.mark.parametrize(
    ("word", "known", "nearest"),
    [
        ("crwal", COMMANDS, "crawl"),
        ("Crawl", COMMANDS, "crawl"),
        ("resme", COMMANDS, "resume"),
        ("sites", COMMANDS, "sites"),
        ("setings", COMMANDS, "settings"),
        ("get", COMMANDS, None),
        ("start", COMMANDS, None),
        ("--seed-file", FLAGS, None),
        ("--excude-file", FLAGS, "--exclude-file"),
        ("--max_page", FLAGS, "--max-pages"),
        ("--num-fetcher", FLAGS, "--num-fetcher-processes"),
        ("--num", FLAGS, None),
        ("x", [], None),
    ],
)
def test_only_what_is_close_is_suggested(word: str, known: list[str], nearest: str | None) -> None:
    assert closest(word, known) == nearest
