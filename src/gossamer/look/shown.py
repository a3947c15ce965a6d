"""What the files have of one URL: its page or its last attempt, and the answer itself from the archive. For `show`."""

from pathlib import Path
from typing import Any

import msgspec

from gossamer.look.archive import archived_answer
from gossamer.look.attempts import Attempt, attempts_at, pages_at, place_of
from gossamer.look.tables import Tables
from gossamer.records import Answer
from gossamer.sinks.sink import Place


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The latest of a URL; what is None is not in the files."""

    url: str
    page: dict[str, Any] | None = None
    """The row of `pages`, every column by its name."""
    attempt: Attempt | None = None
    """The row of `fetches` of the same answer, or of the last attempt if none was answered."""
    answers: int = 0
    """How often a server answered."""
    place: Place | None = None
    """Of the answer in the archive."""


def find_shown(data: Path, url: str) -> Shown | None:
    """None: nothing that was committed is about it."""
    with Tables(data) as tables:
        attempts = attempts_at(tables, url)
        pages = pages_at(tables, url)
    if not attempts and not pages:
        return None
    answered = [attempt for attempt in attempts if attempt.status is not None]
    page = pages[0] if pages else None
    if page is None:
        attempt = (answered or attempts)[-1]
        return Shown(url=url, attempt=attempt, answers=len(answered), place=attempt.place)
    # Requests for it as a robots.txt may have come later.
    own = [attempt for attempt in answered if attempt.kind == "url"]
    return Shown(
        url=url,
        page=page,
        attempt=own[-1] if own else None,
        answers=max(len(answered), len(pages)),
        place=place_of(page["warc_filename"], page["warc_record_offset"], page["warc_record_length"]),
    )


def read_shown(data: Path, shown: Shown) -> Answer | None:
    """The answer as it came, with its request; None if it is not archived. Raises GossamerError if it cannot be read
    though it is."""
    if shown.place is None:
        return None
    return archived_answer(data, shown.place)
