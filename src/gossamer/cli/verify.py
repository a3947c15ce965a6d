"""`gossamer verify`: whether what a crawl left is whole, and agrees."""

import argparse
import json
import sys
import time

import msgspec

from gossamer.cli.arguments import Parser, at_least, print_row, printable
from gossamer.cli.looking import add_crawl, crawl_of, settings_of
from gossamer.errors import StoreUnavailable
from gossamer.look.verify import Verification, verify
from gossamer.look.verify_findings import EXAMPLES
from gossamer.units import counted

SUMMARY = "Check a crawl's archive, index, tables and store against each other."
NOTES = """Every record of the archive is read and its digests are computed; every line of the index and every row of
the tables must point to a record that is what they say, and every record must be in them; no URL may be there twice;
the store must count as many pages as the tables hold. A crawl that runs is refused. Nothing is changed.

A Parquet file has no checksum: a changed byte that still decodes is found only where a column contradicts the archive.
If --sinks was changed between two runs, what the left-out sink lacks is reported as missing.

exit codes: 0 nothing is wrong, 1 something is wrong, 2 bad usage or the crawl is running, 3 nothing is wrong and the
store is not available"""

#: Between two updates of the line on the terminal.
_PROGRESS_SECONDS = 0.2
_CLEAR_LINE = "\r\x1b[K"


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument(
        "--examples", type=int, default=EXAMPLES, metavar="N", help=f"how many of each kind are shown [{EXAMPLES}]"
    )


def run(arguments: argparse.Namespace) -> int:
    examples = at_least("--examples", arguments.examples, 1) or 1
    data = crawl_of(arguments)
    line = _ProgressLine()
    try:
        found = verify(data, settings_of(data), examples=examples, progress=line)
    finally:
        line.clear()
    if arguments.json:
        # In ASCII: what a file holds could steer a terminal as JSON too.
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        _print(found)
    if not found.is_sound:
        return 1
    return 0 if found.store_error is None else StoreUnavailable.exit_code


def _print(found: Verification) -> None:
    for fault in found.faults:
        print(f"{fault.kind}: {printable(fault.text)}")
    shown = {kind: sum(fault.kind == kind for fault in found.faults) for kind in found.fault_counts}
    for kind, count in found.fault_counts.items():
        if count > shown[kind]:
            print(f"{kind}: {count - shown[kind]:,} more")
    for note in found.notes:
        print(f"note: {printable(note.text)}")
    total = sum(found.fault_counts.values())
    print(f"{printable(found.data_directory)}: {counted(total, 'fault') if total else 'nothing is wrong'}")
    print_row("archive", f"{counted(found.archives, 'file')}, {counted(found.records, 'response')}")
    print_row("index", counted(found.index_lines, "line"))
    print_row("tables", f"{counted(found.pages, 'page')}; {counted(found.fetched_pages, 'page')} by the log")
    if found.store_error is None:
        print_row("store", counted(found.store_pages or 0, "page"))
    else:
        print_row("store", f"not available: {found.store_error}")


class _ProgressLine:
    """One line on a terminal that is drawn again; nothing elsewhere."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._drawn_at = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self._is_shown and now - self._drawn_at >= _PROGRESS_SECONDS:
            self._drawn_at = now
            share = 100 * done // max(total, 1)
            print(f"{_CLEAR_LINE}reading the {what}: {share}% of {total:,} bytes", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._drawn_at:
            print(end=_CLEAR_LINE, file=sys.stderr, flush=True)
