"""Times, numbers and outcomes as a person reads them."""

from collections.abc import Sequence
from datetime import datetime

from gossamer.look.attempts import Attempt
from gossamer.records import Reason
from gossamer.run.data_directory import PausedBy

#: Rows of leases that went back before anything was sent.
HELD = frozenset({Reason.ORIGIN_HELD, Reason.SERVER_ADDRESS})


def last_failure(attempts: Sequence[Attempt]) -> str:
    """Of a URL that waits to be tried again; empty if its last attempt in the files did not fail."""
    asked = [attempt for attempt in attempts if attempt.failure_kind not in HELD]
    last = asked[-1] if asked else None
    if last is None or last.failure_kind is None:
        return ""
    return f"; its last attempt: {what(last)}{f' ({last.reason})' if last.reason else ''}"


#: What OpenSSL says when the answer is no TLS at all.
_NO_TLS = ("wrong version number", "record layer failure", "packet length too long")


def plain_http_hint(url: str, attempts: Sequence[Attempt]) -> str | None:
    """For a seed: one that is given without a scheme gets https, and its server may know http alone."""
    last = attempts[-1] if attempts else None
    if last is None or last.depth or last.failure_kind != Reason.TLS:
        return None
    if not any(words in (last.reason or "").lower() for words in _NO_TLS):
        return None
    return f"the server may speak plain http there: seed http:{url.removeprefix('https:')} instead"


def moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """For a person: as many digits as matter."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def what(attempt: Attempt) -> str:
    """What came, in a word or two."""
    if attempt.status is not None:
        is_told = attempt.failure_kind in {None, Reason.STATUS}
        return f"status {attempt.status}" if is_told else f"{attempt.failure_kind} (status {attempt.status})"
    return attempt.failure_kind or attempt.outcome


def paused(by: PausedBy) -> str:
    where = {
        "dashboard": "on the dashboard until it is resumed there",
        "disk": "because the disk is nearly full, until there is room",
    }
    return f"paused {where[by]}"


def times(number: int) -> str:
    return "once" if number == 1 else f"{number} times in a row"
