"""Rows of a table on their way out: for a person, as lines of JSON, as CSV. The commands that look into a crawl use it.

What goes to a terminal is made printable whatever the format, as pages may hold what steers one. What goes elsewhere
is left as it is, but for CSV: spreadsheets run a cell that begins like a formula, so such a text gets an apostrophe.
"""

import argparse
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import Any, TextIO
from unicodedata import category, east_asian_width

from gossamer.cli.arguments import Parser, printable
from gossamer.errors import UsageError
from gossamer.look.tables import Row, Rows
from gossamer.units import counted

FORMATS = ("table", "jsonl", "csv")
#: Rows that a table's widths are taken from; those that follow are cut to them, so that any number can be printed.
MEASURED_ROWS = 1_000
#: A column that is narrower says nothing any more; where not all fit, those behind are left out.
NARROWEST = 6
#: Where no terminal says how wide it is, and COLUMNS does not either.
USUAL_WIDTH = 120
_GAP = 2
#: What makes a spreadsheet read a text as a formula: https://owasp.org/www-community/attacks/CSV_Injection. The wide
#: forms are those that it takes for the narrow ones under East Asian settings. White space and invisible characters
#: before them are dropped by some programs when they read a file.
_INVISIBLE = r"\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_FORMULA = re.compile(rf"[\t\r\n]|[{_INVISIBLE}]*[=+\-@＝＋－＠]")
#: Also what separates cells elsewhere: LibreOffice splits at semicolons and tabs too unless it is told otherwise.
_TO_QUOTE = re.compile(r'[,;\t"\r\n]')
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table: cut to fit the terminal; jsonl: a JSON object on each line; csv: with a line of names [table]",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="in csv, leave texts that a spreadsheet would run as a formula; otherwise they get an apostrophe in front",
    )


def check_format(arguments: argparse.Namespace) -> None:
    """Before a query is run for nothing."""
    if arguments.raw and arguments.format != "csv":
        raise UsageError("--raw: only --format csv changes any text; leave the flag out")


def write_rows(found: Rows, wanted: str, stream: TextIO | None = None, *, raw: bool = False) -> None:
    """To standard output, if no other stream is given."""
    stream = stream or sys.stdout
    if wanted == "table":
        _write_table(found, stream)
    elif wanted == "jsonl":
        write_json_lines(found, stream)
    else:
        _write_csv(found, stream, raw=raw)


# JSON and CSV.


def write_json_lines(found: Rows, stream: TextIO) -> None:
    names = _different(found.columns)
    # Plain ASCII has nothing that a terminal obeys: JSON writes its controls out itself.
    is_ascii = stream.isatty() or not (stream.encoding or "").lower().startswith("utf")
    for row in found.rows:
        line = dict(zip(names, map(_plain, row), strict=True))
        stream.write(json.dumps(line, ensure_ascii=is_ascii) + "\n")


def _different(names: Sequence[str]) -> list[str]:
    """A query may name two of its columns alike; an object has only one of each."""
    found: list[str] = []
    for name in names:
        number, wanted = 0, name
        while wanted in found:
            number += 1
            wanted = f"{name}_{number}"
        found.append(wanted)
    return found


def _plain(value: object) -> Any:
    """What JSON has: times are UTC, bytes hex digits, durations seconds; no number is none."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()[:-6] + "Z" if value.tzinfo else value.isoformat() + "Z"
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return _text(value)


def _write_csv(found: Rows, stream: TextIO, *, raw: bool) -> None:
    shown: Callable[[str], str] = printable if stream.isatty() else str
    text: Callable[[object], str] = _text if raw else _harmless_text
    for row in chain([found.columns], found.rows):
        cells = [_quoted(shown(text(value))) for value in row]
        # One empty cell would be an empty line, which readers skip.
        stream.write((",".join(cells) if cells != [""] else '""') + "\n")


def _quoted(cell: str) -> str:
    """As RFC 4180 has it. Python's writer leaves a carriage return bare before 3.13, and readers end the line there."""
    return '"' + cell.replace('"', '""') + '"' if _TO_QUOTE.search(cell) else cell


def _harmless_text(value: object) -> str:
    """Numbers stay numbers, also where a text holds nothing else."""
    text = _text(value)
    if not _FORMULA.match(text) or isinstance(value, int | float | Decimal) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


# For a person.


def _write_table(found: Rows, stream: TextIO) -> None:
    rows = iter(found.rows)
    measured = list(islice(rows, MEASURED_ROWS))
    width = shutil.get_terminal_size((USUAL_WIDTH, 24)).columns
    shown = max(1, min(len(found.columns), (width + _GAP) // (NARROWEST + _GAP)))
    header = [printable(name) for name in found.columns[:shown]]
    cells = [[_cell(value) for value in row[:shown]] for row in measured]
    wanted = [max(map(_width, column)) for column in zip(header, *cells, strict=True)]
    widths = _fit(wanted, width - _GAP * (shown - 1))
    right = [_is_numeric(row[index] for row in measured) for index in range(shown)]
    lines: Iterable[Sequence[str]] = chain([header, ["-" * size for size in widths]], cells, _cells(rows, shown))
    for line in lines:
        padded = (_pad(cell, size, right=side) for cell, size, side in zip(line, widths, right, strict=True))
        stream.write((" " * _GAP).join(padded).rstrip() + "\n")
    if shown < len(found.columns):
        lacking = len(found.columns) - shown
        verb = "does" if lacking == 1 else "do"
        left_out = f"{counted(lacking, 'more column')} {verb} not fit; --format jsonl has them all"
        print(left_out, file=sys.stderr)


def _cells(rows: Iterator[Row], shown: int) -> Iterator[list[str]]:
    for row in rows:
        yield [_cell(value) for value in row[:shown]]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) >= 1 or value == 0 else f"{value:.3g}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
    # White space of any kind becomes one space: a title may have line ends in it.
    return printable(" ".join(_text(value)[: 10 * USUAL_WIDTH].split()))


def _is_numeric(values: Iterable[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float | Decimal) for value in known)


def _fit(wanted: Sequence[int], room: int) -> list[int]:
    """The widest give way first, until all of them fit."""
    widths = list(wanted)
    while sum(widths) > room and max(widths) > NARROWEST:
        widest = max(widths)
        at = [index for index, size in enumerate(widths) if size == widest]
        next_widest = max((size for size in widths if size < widest), default=NARROWEST)
        step = max(1, min(widest - max(next_widest, NARROWEST), -(-(sum(widths) - room) // len(at))))
        for index in at:
            widths[index] -= step
    return widths


def _pad(cell: str, size: int, *, right: bool) -> str:
    width = _width(cell)
    if width > size:
        cell, width = _cut(cell, size)
    space = " " * (size - width)
    return space + cell if right else cell + space


def _cut(cell: str, size: int) -> tuple[str, int]:
    taken = 0
    for index, character in enumerate(cell):
        width = _width(character)
        if taken + width > size - 1:
            return cell[:index] + "…", taken + 1
        taken += width
    return cell, taken


def _width(text: str) -> int:
    """Columns of a terminal: two for wide characters, none for marks on others."""
    if text.isascii():
        return len(text)
    return sum(0 if category(c) in {"Mn", "Me"} else 2 if east_asian_width(c) in "WF" else 1 for c in text)
