"""What `crawl`, `resume` and `demo` share: the flags of a crawl, one run of it, and what is said at its end."""

import argparse
import asyncio
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import uvloop

from gossamer.cli.arguments import Parser, print_row, printable, read_file
from gossamer.cli.flags import add_settings
from gossamer.config import Settings
from gossamer.errors import UsageError
from gossamer.frontier.admission import parse_exclusions
from gossamer.invocation import command
from gossamer.report.pace import failures_of
from gossamer.report.progress import Terminal
from gossamer.report.resources import raise_descriptor_limit
from gossamer.report.status import Summary
from gossamer.run.data_directory import DataDirectory
from gossamer.run.leader import Begin, Leader
from gossamer.run.places import process_counts
from gossamer.run.stop import StopReason
from gossamer.run.titles import set_title
from gossamer.units import counted

#: The exit code of a crawl that has nothing left to fetch, and has no page.
NO_PAGES = 1
#: In the order of the help.
SECTIONS = ("identity", "run", "report", "politeness", "scope", "fetch", "parse", "sinks", "frontier", "spool", "url")


def add_crawl_flags(parser: Parser) -> None:
    parser.add_argument(
        "--exclude-file",
        metavar="FILE",
        help="what is left alone: a domain or the beginning of a URL on each line; replaces the file of an earlier run",
    )
    parser.add_argument(
        "--seeded-urls-only", action="store_true", help="the same as --scope seeds: only sites that were seeded"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    add_quiet(parser)
    add_settings(parser, SECTIONS, only_common=True)


def add_quiet(parser: Parser) -> None:
    parser.add_argument(
        "--quiet", action="store_true", help="say nothing while it runs, but for what needs somebody to see to it"
    )


def scope_flag(arguments: argparse.Namespace) -> None:
    """`--seeded-urls-only` is a word for a setting."""
    if arguments.seeded_urls_only:
        if arguments.scope not in {None, "seeds"}:
            raise UsageError(f"--scope {arguments.scope}: the opposite of --seeded-urls-only; give one of the two")
        arguments.scope = "seeds"


def check_for_crawl(settings: Settings) -> None:
    """Refuse settings that no crawl can run with, before anything is printed, written or opened."""
    settings.identity.user_agent("")  # raises if there is no contact
    settings.check()
    raise_descriptor_limit(settings.fetch.fetcher_workers)  # raises if there are too many


def take_exclusions(data: DataDirectory, text: str | None) -> None:
    if text is not None:
        data.write_exclusions(text)


def read_exclusions(file: str | None) -> str | None:
    """The text of an exclude file that was understood; nothing is made of a crawl before this."""
    if file is None:
        return None
    try:
        text = read_file(file, source="--exclude-file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--exclude-file: {file!r} is no UTF-8 text: {error.reason} at byte {error.start}") from None
    parse_exclusions(text, file)
    return text


def run_crawl(data: DataDirectory, settings: Settings, *, quiet: bool = False, begin: Begin | None = None) -> Summary:
    """One run, from here to its end. `begin` is called when the store is open; see `Leader`."""
    settings.check()
    set_title("leader", data.root)
    fetchers, parsers = process_counts(settings)
    with Terminal(sys.stderr, quiet=quiet) as terminal:
        terminal.say(
            f"crawling into {data.root}: fetchers {fetchers} (with"
            f" {counted(settings.fetch.fetcher_workers, 'worker')} each), parsers {parsers},"
            f" {settings.politeness.delay_seconds:g} s between requests to a site"
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            leader = Leader(data, settings, terminal, begin or (lambda *_: settings))
            return runner.run(leader.run())


def print_end(summary: Summary, *, as_json: bool, is_resumable: bool = True, had_nothing_to_do: bool = False) -> int:
    """Data to stdout; the exit code says whether there is more to do."""
    reason = StopReason(summary.stop_reason)
    has_failed = reason is StopReason.EXHAUSTED and not summary.pages
    exit_code = NO_PAGES if has_failed else reason.exit_code
    if as_json:
        print(msgspec.json.encode(summary).decode())
        return exit_code
    is_at_limit = reason is StopReason.MAX_PAGES
    if has_failed:
        print("failed: no page was fetched, because no seed led to one")
        # Loaded only now: it brings DuckDB, which would take 25 MB of the leader's memory all along.
        first_failures = import_module("gossamer.look.no_pages").first_failures
        for url, words in first_failures(Path(summary.data_directory)):
            print(f"  {printable(url)}: {printable(words)}")
    elif is_at_limit and not summary.pages_this_run:
        has = counted(summary.pages, "page")
        print(f"nothing to do: the crawl has {has}, and --max-pages counts those of all runs")
    elif had_nothing_to_do and reason is StopReason.EXHAUSTED:
        print("nothing to do: no URL is queued; for more pages, start a new crawl with more seeds or wider rules")
    else:
        print(_WORDS[reason])
    rows: dict[str, object] = {
        "pages": f"{summary.pages:,} ({summary.pages_this_run:,} in this run)",
        "other outcomes": _counts({"redirect": summary.outcomes["done"] - summary.pages} | summary.failures),
        # Without a page, it matters what was in the way so far.
        "tried again": "" if summary.pages else _counts(failures_of(summary.retries)),
        "not admitted": _counts(summary.refused),
        "still queued": f"{summary.queued:,}",
        "received": counted(summary.bytes, "byte"),
        "took": f"{summary.duration_seconds:.1f} s, CPU seconds: {_counts(summary.cpu_seconds)}",
        "waited": ", ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in summary.waits.items() if count),
        "look into it": command("status", summary.data_directory),
    }
    if is_resumable and summary.queued:
        more = " --more-pages N" if is_at_limit else ""
        rows["go on with"] = f"{command('resume', summary.data_directory)}{more}"
    for name, value in rows.items():
        if value != "":
            print_row(name, value)
    return exit_code


_WORDS = {
    StopReason.EXHAUSTED: "done: everything that was admitted is fetched",
    StopReason.MAX_PAGES: "done: --max-pages is reached",
    StopReason.MAX_DURATION: "done: --max-duration is over",
    StopReason.INTERRUPTED: "interrupted; nothing is lost",
}


def _counts(counts: dict[str, int] | dict[str, float]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
