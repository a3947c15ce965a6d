"""What the tables have of one URL: every attempt at it, and its page. `explain` and `show` read it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gossamer.look.tables import Tables
from gossamer.sinks.sink import Place

#: Of the table `fetches`, in the order of the fields of `Attempt`. Times as numbers: with a time zone DuckDB gives them
#: to Python only if a further library is there.
_COLUMNS = (
    "epoch_us(time), url, kind, outcome, failure_kind, status, redirect, bytes, total_seconds, attempt, returned,"
    " reason, address, via, depth, hops, warc_filename, warc_record_offset, warc_record_length"
)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `fetches`: what became of one lease of a URL, or of one request for a robots.txt."""

    at: datetime
    url: str
    kind: str = "url"
    outcome: str
    failure_kind: str | None = None
    status: int | None = None
    redirect: str | None = None
    bytes: int | None = None
    total_seconds: float | None = None
    attempt: int | None = None
    """The first is 1."""
    returned: int | None = None
    reason: str | None = None
    address: str | None = None
    via: str | None = None
    depth: int | None = None
    hops: int | None = None
    place: Place | None = None
    """Of its answer, if that is archived."""

    @property
    def is_final(self) -> bool:
        """Whether the URL is done with, for good or ill."""
        return self.outcome != "retry"


def attempts_at(tables: Tables, url: str) -> list[Attempt]:
    """In the order of time, requests for it as a robots.txt among them."""
    query = f"SELECT {_COLUMNS} FROM fetches WHERE url = ? ORDER BY time, attempt"  # noqa: S608 (names of ours)
    return [_attempt(row) for row in tables.query(query, [url]).rows]


def last_attempt_at_site(tables: Tables, site: str) -> Attempt | None:
    """The latest request to it that is in the files, whatever came of it; None if there is none."""
    query = (
        f"SELECT {_COLUMNS} FROM fetches WHERE site = ? AND kind = 'url' AND total_seconds > 0"  # noqa: S608
        " ORDER BY time DESC LIMIT 1"
    )
    return next((_attempt(row) for row in tables.query(query, [site]).rows), None)


def first_endings(tables: Tables, most: int) -> list[Attempt]:
    """The final rows of URLs, those nearest to the seeds first."""
    query = (
        f"SELECT {_COLUMNS} FROM fetches WHERE kind = 'url' AND outcome != 'retry'"  # noqa: S608 (names of ours)
        " ORDER BY depth, time, url LIMIT ?"
    )
    return [_attempt(row) for row in tables.query(query, [most]).rows]


def pages_at(tables: Tables, url: str) -> list[dict[str, Any]]:
    """The rows of `pages`, the latest first, every column by its name."""
    query = "SELECT * REPLACE (epoch_us(fetch_time) AS fetch_time) FROM pages WHERE url = ? ORDER BY fetch_time DESC"
    found = tables.query(query, [url])
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    return [row | {"fetch_time": _moment(row["fetch_time"])} for row in rows]


def place_of(file: object, offset: object, length: object) -> Place | None:
    if isinstance(file, str) and isinstance(offset, int) and isinstance(length, int):
        return Place(file, offset, length)
    return None


def _attempt(row: tuple[Any, ...]) -> Attempt:
    at, *values = row
    facts = dict(zip(Attempt.__struct_fields__[1:-1], values[:-3], strict=True))
    return msgspec.convert(facts | {"at": _moment(at), "place": place_of(*values[-3:])}, Attempt)


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
