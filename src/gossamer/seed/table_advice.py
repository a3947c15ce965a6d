"""Advice for a table that was given as a seed file: the command that takes the URLs out of it, if that is certain."""

import re
import shlex
from collections.abc import Sequence

_GENERAL = "give a file with one URL or domain on each line and no header"
_DELIMITERS = ",;\t"
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_HOST = re.compile(r"(?:[\w-]+\.)+[a-z][\w-]+(?::\d+)?(?:/\S*)?", re.IGNORECASE)


def table_advice(file: str, first_line: int, lines: Sequence[str]) -> str:
    """`lines` are the first ones of the table, which begins at line `first_line` of the file."""
    rows = _rows(lines)
    found = None if rows is None else _seed_column(rows)
    if rows is None or found is None:
        return f"{_GENERAL}; `cut` can take one column of it"
    column, has_header = found
    name = "FILE" if file == "-" else shlex.quote(file)
    delimiter = _delimiter(lines)
    steps = [f"zcat {name}"] if file.endswith(".gz") else []
    if has_header:
        steps.append(f"tail -n +{first_line + 1}")
    if delimiter is not None:
        option = {",": "-d, ", ";": "-d';' ", "\t": ""}[delimiter]
        steps.append(f"cut {option}-f{column + 1}")
    if not file.endswith(".gz"):
        steps[0] += f" {name}"
    return f"{_GENERAL}, such as: {' | '.join(steps)} | gossamer crawl --seed-file - …"


def _delimiter(lines: Sequence[str]) -> str | None:
    """The one that is in every line, as often in each; None if there is none, or more than one."""
    found = [
        delimiter
        for delimiter in _DELIMITERS
        if lines[0].count(delimiter) and len({line.count(delimiter) for line in lines}) == 1
    ]
    return found[0] if len(found) == 1 else None


def _rows(lines: Sequence[str]) -> list[list[str]] | None:
    """None if the columns are not certain, or if `cut` would not find them."""
    delimiter = _delimiter(lines)
    text = "".join(lines)
    if '"' in text or (delimiter is None and any(one in text for one in _DELIMITERS)):
        return None
    return [[cell.strip("\ufeff \r\n") for cell in (line.split(delimiter) if delimiter else [line])] for line in lines]


def _seed_column(rows: list[list[str]]) -> tuple[int, bool] | None:
    """Which column has the seeds, and whether a header stands above it; None if no column, or more than one, may."""
    for pattern in (_URL, _HOST):
        found = []
        for column in range(len(rows[0])):
            header, *below = (pattern.fullmatch(row[column]) is not None for row in rows)
            if all(below) and (header or below):
                found.append((column, not header))
        if found:
            return found[0] if len(found) == 1 else None
    return None
