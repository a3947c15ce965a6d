"""What the commands that look into a crawl share: which crawl, which of its pages, how many."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from gossamer import layers
from gossamer.cli.arguments import Parser
from gossamer.config import Settings, UrlSettings
from gossamer.errors import UsageError
from gossamer.look.wording import duration
from gossamer.run.data_directory import DataDirectory
from gossamer.spool.directory import SpoolDirectory
from gossamer.units import counted
from gossamer.url import Url, canonicalise, redacted


def add_crawl(parser: Parser) -> None:
    parser.add_argument("data_dir", metavar="DIR", help="the data directory of the crawl, running or not")


def crawl_of(arguments: argparse.Namespace) -> DataDirectory:
    """A directory that holds a crawl, or a complaint."""
    data = DataDirectory(Path(arguments.data_dir))
    if not data.settings_file.exists():
        data.read_settings()  # says what is missing
    return data


def settings_of(data: DataDirectory) -> Settings:
    return layers.combine([data.read_settings()])


@contextlib.contextmanager
def telling_uncommitted(data: DataDirectory) -> Iterator[None]:
    """After what is shown, a line on stderr says how much the files do not have yet. Counted before they are read: what
    is committed meanwhile may be counted and shown, and is never missing from both."""
    uncommitted = SpoolDirectory(data.spool).uncommitted() if data.is_running() else 0
    yield
    if uncommitted:
        sys.stdout.flush()
        most = duration(settings_of(data).sinks.commit_interval_seconds)
        outcomes = counted(uncommitted, "outcome")
        print(
            f"gossamer: {outcomes} fetched and not yet written: not shown until the next commit, in {most} at most",
            file=sys.stderr,
        )


def add_page_filters(parser: Parser) -> None:
    parser.add_argument("--host", metavar="H", help="only pages of this host, as in www.example.org")
    parser.add_argument("--status", metavar="S", help="only pages with this status, as in 200")


def page_condition(arguments: argparse.Namespace) -> tuple[str, list[object]]:
    """For the end of a query of `pages`: a condition, and its parameters."""
    conditions: list[str] = []
    parameters: list[object] = []
    if arguments.host is not None:
        conditions.append("url_host_name = ?")
        parameters.append(_host(arguments.host))
    if arguments.status is not None:
        conditions.append("fetch_status = ?")
        parameters.append(_status(arguments.status))
    return f" WHERE {' AND '.join(conditions)}" if conditions else "", parameters


def _host(text: str) -> str:
    """In the form that URLs have it: lower case, punycode."""
    found = canonicalise(f"http://{text}/", None, UrlSettings())
    if not isinstance(found, Url) or found.text != f"http://{found.host}/":
        raise UsageError(
            f"--host: {redacted(text)!r:.200} is no host; give a name or an address, as in www.example.org"
        )
    return found.host


def _status(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 100 <= int(text) <= 599):
        raise UsageError(f"--status: {text!r:.50} is no status; give a number from 100 to 599, as in 200")
    return int(text)
