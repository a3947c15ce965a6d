"""All columns of many pages, the newest first, within a bound of memory.

DuckDB sorts rows with long texts only as far as its memory goes. So the times alone are sorted, and cut into spans
whose pages fit; these are read one after the other. Parts are written in the order of time, more or less: of each, only
a few hold pages of a span, and the others are left alone.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from gossamer.look.tables import Row, Rows, Tables

#: Of the pages of one span, by their decoded bodies: text is less.
SPAN_BYTES = 64 << 20
#: Of a page beside its body.
ROW_BYTES = 2_000

Span = tuple[datetime, datetime]


def newest_pages(tables: Tables, condition: str, parameters: Sequence[object], limit: int | None) -> Rows:
    """`condition` is a WHERE clause, or empty."""
    columns = tables.query("SELECT * FROM pages LIMIT 0").columns
    return Rows(columns, _pages(tables, condition, list(parameters), limit))


def _pages(tables: Tables, condition: str, parameters: list[object], limit: int | None) -> Iterator[Row]:
    left = -1 if limit is None else limit
    within = f"{condition} AND" if condition else " WHERE"
    query = f"SELECT * FROM pages{within} fetch_time BETWEEN ? AND ? ORDER BY fetch_time DESC, url"  # noqa: S608
    for first, last in _spans(tables, condition, parameters):
        for row in tables.query(query, [*parameters, first, last]).rows:
            if left == 0:
                return
            yield row
            left -= 1


def _spans(tables: Tables, condition: str, parameters: list[object]) -> Iterator[Span]:
    """From the last to the first; pages of one moment are never divided."""
    weight = f"coalesce(sum(coalesce(decoded_bytes, received_bytes)), 0) + count(*) * {ROW_BYTES}"
    query = f"SELECT fetch_time, {weight} FROM pages{condition} GROUP BY fetch_time ORDER BY fetch_time DESC"  # noqa: S608
    begin: datetime | None = None
    end: datetime | None = None
    gathered = 0
    for moment, size in tables.query(query, parameters).rows:
        end = end or moment
        begin = moment
        gathered += size
        if gathered >= SPAN_BYTES:
            yield begin, end
            begin = end = None
            gathered = 0
    if begin is not None and end is not None:
        yield begin, end
