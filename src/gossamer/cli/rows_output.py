"""Rows of a table on their way out: for a person, as lines of JSON, as CSV. The commands that look into a crawl use it.

What goes to a terminal is made printable whatever the format, as pages may hold what steers one. What goes elsewhere
is left as it is.
"""

import csv
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import Any, TextIO
from unicodedata import category, east_asian_width

from gossamer.cli.arguments import Parser, printable
from gossamer.look.tables import Row, Rows

FORMATS = ("table", "jsonl", "csv")
#: Rows that a table's widths are taken from; those that follow are cut to them, so that any number can be printed.
MEASURED_ROWS = 1_000
#: A column that is narrower says nothing any more; where not all fit, those behind are left out.
NARROWEST = 6
#: Where no terminal says how wide it is, and COLUMNS does not either.
USUAL_WIDTH = 120
_GAP = 2


def add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table: cut to fit the terminal; jsonl: a JSON object on each line; csv: with a line of names [table]",
    )


def write_rows(found: Rows, wanted: str, stream: TextIO | None = None) -> None:
    """To standard output, if no other stream is given."""
    stream = stream or sys.stdout
    if wanted == "table":
        _write_table(found, stream)
    elif wanted == "jsonl":
        write_json_lines(found, stream)
    else:
        _write_csv(found, stream)


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


def _write_csv(found: Rows, stream: TextIO) -> None:
    shown: Callable[[str], str] = printable if stream.isatty() else str
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([shown(name) for name in found.columns])
    for row in found.rows:
        writer.writerow([shown(_text(value)) for value in row])


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
        left_out = f"{len(found.columns) - shown} more columns do not fit; --format jsonl has them all"
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
