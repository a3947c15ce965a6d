"""`gossamer status`: where a crawl stands, once or again and again."""

import argparse
import asyncio
import sys
import time
from typing import NoReturn

import msgspec

from gossamer.cli.arguments import Parser, duration, print_row, printable
from gossamer.cli.looking import add_crawl, crawl_of, settings_of
from gossamer.config import Settings
from gossamer.errors import StoreUnavailable, UsageError
from gossamer.invocation import command
from gossamer.look.status import Progress, Status, look
from gossamer.look.wording import paused
from gossamer.records import Reason
from gossamer.run.data_directory import DataDirectory
from gossamer.units import counted

SUMMARY = "Show where a crawl stands, while it runs or after: pages, queues, sites, outcomes, files."
NOTES = """Counts are of all runs of the crawl. A page counts when it is committed: every thousand outcomes, or
after two minutes, unless --commit-pages and --commit-interval say otherwise. If the store does not answer, the counts
are what the files say.

exit codes: 0 shown, 2 bad usage, 3 the store is not available"""

#: Of --watch without a number: often enough to see it move.
WATCH_SECONDS = 2.0
_CLEAR_SCREEN = "\x1b[H\x1b[2J"
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object; with --watch one for each look")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=duration,
        const=WATCH_SECONDS,
        metavar="DURATION",
        help=f"look again and again, until interrupted [every {WATCH_SECONDS:g} s]",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.watch is not None and not 0.1 <= arguments.watch <= 86400:
        raise UsageError(f"--watch: {arguments.watch:g} is not a sensible duration; give 100ms to 1d")
    data = crawl_of(arguments)
    settings = settings_of(data)
    if arguments.watch is None:
        status = asyncio.run(look(data, settings))
        if arguments.json:
            print(msgspec.json.encode(status).decode())
        else:
            _print(status)
        return 0 if status.store_error is None else StoreUnavailable.exit_code
    try:
        _watch(data, settings, arguments.watch, as_json=arguments.json)
    except KeyboardInterrupt:
        return 0


def _watch(data: DataDirectory, settings: Settings, seconds: float, *, as_json: bool) -> NoReturn:
    before: tuple[float, Progress] | None = None
    while True:
        status = asyncio.run(look(data, settings))
        at = time.monotonic()
        rate = "" if before is None else _rate(before[1], status.progress, at - before[0])
        before = at, status.progress
        if as_json:
            print(msgspec.json.encode(status).decode(), flush=True)
        elif sys.stdout.isatty():
            print(end=_CLEAR_SCREEN)
            _print(status, rate)
            print(f"\nevery {seconds:g} s; ends with an interrupt", flush=True)
        else:
            print(_line(status, rate), flush=True)
        time.sleep(seconds)


def _rate(before: Progress, now: Progress, seconds: float) -> str:
    pages = (now.pages - before.pages) / seconds
    finished = ((now.finished or 0) - (before.finished or 0)) / seconds
    return (
        f"{pages:.1f} pages/s, {finished:.1f} URLs/s, {size((now.received_bytes - before.received_bytes) / seconds)}/s"
    )


def _line(status: Status, rate: str) -> str:
    progress = status.progress
    facts = [
        time.strftime("%H:%M:%S"),
        "paused" if status.paused_by else "running" if status.is_running else "not running",
        counted(progress.pages, "page"),
        rate,
        *(
            f"{count:,} {word}"
            for word, count in (("queued", progress.queued), ("leased", progress.leased), ("spooled", progress.spooled))
            if count is not None
        ),
        f"{size(progress.received_bytes)} received",
        "" if status.store_error is None else f"from the files: {printable(status.store_error)}",
    ]
    return "  ".join(filter(None, facts))


def _print(status: Status, rate: str = "") -> None:
    progress = status.progress
    print(f"the crawl in {printable(status.data_directory)} {_state(status)}")
    if status.store_error is not None:
        print_row("store", f"not available: {status.store_error}")
        print_row("", "what follows is what the files say")
    else:
        print_row("store", status.store)
    if status.dashboard is not None:
        print_row("dashboard", status.dashboard)
    if status.metrics is not None:
        print_row("metrics", status.metrics)
    facts = [f"{progress.pages:,}"]
    facts += [f"{counted(progress.spooled, 'outcome')} fetched and not yet written"] if progress.spooled else []
    facts += [f"since the last look {rate}"] if rate else []
    print_row("pages", "; ".join(facts))
    if progress.admitted is not None:
        print_row(
            "URLs",
            f"{progress.admitted:,} admitted: {progress.finished:,} finished, {progress.queued:,} queued,"
            f" {progress.leased:,} leased, {progress.spooled:,} spooled",
        )
        print_row(
            "sites",
            f"{progress.sites:,}: {progress.sites_ready:,} ready, {progress.sites_cooling:,} cooling,"
            f" {progress.sites_busy:,} busy",
        )
    elif progress.finished is not None:
        print_row("URLs", f"{progress.finished:,} finished")
    print_row("received", size(progress.received_bytes))
    others = {word: count for word, count in progress.outcomes.items() if word != Reason.PAGE}
    print_row("other outcomes", _counts(others) or "none")
    print_row("retries", _counts(progress.retries) or "none")
    print_row("to be parsed", f"{counted(status.backlog.pages, 'outcome')}, {size(status.backlog.bytes)}")
    for name, used in status.disk.items():
        print_row(f"{name}{'' if name == 'frontier' else '/'}", f"{counted(used.files, 'file')}, {size(used.bytes)}")


def _state(status: Status) -> str:
    run = "" if status.run is None else f" (run {status.run})"
    if status.is_running:
        pause = "" if status.paused_by is None else f", {paused(status.paused_by)}"
        return f"is running, led by process {status.leader}{run}{pause}"
    if status.leader is None:
        return "was not begun"
    if status.stragglers:
        return f"has lost its leader; {counted(status.stragglers, 'process', 'processes')} not ended yet{run}"
    progress = status.progress
    if progress.admitted is not None and progress.admitted == progress.finished:
        if not progress.pages:
            return f"is done and has no page: nothing is left to fetch{run}"
        return f"is done: everything that was admitted is fetched{run}"
    resume = f"go on with: {printable(command('resume', status.data_directory))}"
    if status.max_pages and progress.pages >= status.max_pages:
        return f"has the pages that max_pages allows, {status.max_pages:,}{run}; {resume} --more-pages N"
    return f"is not running{run}; {resume}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in sorted(counts.items(), key=lambda item: -item[1]))


def size(count: float) -> str:
    """In the largest unit that leaves a number of at least one."""
    unit = 0
    while abs(count) >= 1000 and unit < len(_UNITS) - 1:
        count /= 1000
        unit += 1
    return f"{count:,.0f} {_UNITS[unit]}" if unit == 0 else f"{count:,.1f} {_UNITS[unit]}"
