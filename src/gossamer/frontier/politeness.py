"""When a site may be asked next, and what becomes of a URL that was not fetched. Pure: time and chance are arguments.

`COURSES` is the one table of what follows from which reason; `decide` reads it. Times are the store's, except where a
server's date is compared with the wall clock.
"""

from email.utils import mktime_tz, parsedate_tz
from enum import Enum

import msgspec

from gossamer.config import PolitenessSettings
from gossamer.records import Destination, Lease, Reason, Result, SiteClock

#: No hold is longer, whoever asks for it: a crawl that lasts longer may ask once a day, a shorter one has lost nothing.
LONGEST_HOLD_SECONDS = 24 * 3600.0
#: A server that says 0 or gives a date gone by still wants to be left alone.
SHORTEST_HOLD_SECONDS = 1.0
#: Requests for an origin's robots.txt that fail in a row before its URLs are dropped. With the default back-off the
#: last one comes three and a half minutes after the first: longer than a restart takes, and the crawl can still end.
ROBOTS_TRIES = 4
#: Visits in a row that request no page close their site for this long, and each for twice as long as the one before.
FRUITLESS_SECONDS = 1.0
#: Leases of held origins in a row that close their site for a second each: URLs of other origins may be queued behind
#: them. After so many all that the site has seems to be held, and asking more rarely costs less.
HELD_IN_A_ROW = 1_000
#: A site backs off from this failure in a row on; until then a failure costs it one gap.
BACKS_OFF_AT = 3
#: 2**32 times the shortest back-off is over a year, and no float overflows.
_MOST_DOUBLINGS = 32
#: The longest HTTP date ("Wednesday, 09-Nov-94 08:49:37 GMT") has 33 characters; a longer value is not even looked at.
_LONGEST_DATE = 64
#: Statuses by which a server says that the same request may do later; all of 5xx say so too.
_PASSING_STATUSES = frozenset({408, 425})


class Course(Enum):
    """What follows for a URL and its site."""

    PAGE = "the site answered, the URL is done and may count as a page"
    DONE = "the site answered, the URL is done"
    ANSWERED = "the site answered, the URL is dropped"
    PASSING = "the site is charged, the URL goes to the tail until its attempts are used up"
    BUSY = "its origin is held as it asks, the URL goes to the tail as it is, until the origin is given up"
    HELD = "nobody is charged, the URL goes to the tail as it is"
    OURS = "nobody is charged, the URL goes back to the head"
    INTERNAL = "the site is not charged, the URL goes to the tail until its attempts are used up"
    REFUSED = "nobody is charged, the URL is dropped: a rule of ours or theirs"
    CLOSED = "as REFUSED, and the rule is about the whole site: it is dropped too"


#: By reason. STATUS stands here for the final ones; 408, 425 and 5xx are PASSING.
COURSES = {
    Reason.PAGE: Course.PAGE,
    Reason.REDIRECT: Course.DONE,
    Reason.STATUS: Course.ANSWERED,
    Reason.MEDIA_TYPE: Course.ANSWERED,
    Reason.TOO_LARGE: Course.ANSWERED,
    Reason.DNS: Course.PASSING,
    Reason.CONNECT: Course.PASSING,
    Reason.TLS: Course.PASSING,
    Reason.TIMEOUT: Course.PASSING,
    Reason.RESET: Course.PASSING,
    Reason.PROTOCOL: Course.PASSING,
    Reason.BUSY: Course.BUSY,
    Reason.OUR_SHORTAGE: Course.OURS,
    Reason.INTERNAL_ERROR: Course.INTERNAL,
    Reason.STOPPED: Course.OURS,
    Reason.SERVER_ADDRESS: Course.OURS,
    Reason.ORIGIN_HELD: Course.HELD,
    Reason.BLOCKED_ADDRESS: Course.REFUSED,
    Reason.ROBOTS: Course.REFUSED,
    Reason.ROBOTS_UNREACHABLE: Course.REFUSED,
    Reason.RETURNED: Course.REFUSED,
    Reason.EXTENSION: Course.REFUSED,
    Reason.DEPTH: Course.REFUSED,
    Reason.HOPS: Course.REFUSED,
    Reason.NOT_INCLUDED: Course.REFUSED,
    Reason.EXCLUDED: Course.REFUSED,
    Reason.PATH_DEPTH: Course.REFUSED,
    Reason.PATH_REPEATS: Course.REFUSED,
    Reason.CRAWL_DELAY: Course.REFUSED,
    Reason.BLOCKED_SITE: Course.CLOSED,
}


#: Where a URL goes on those courses that do not depend on how often it or its site failed.
_ENDS = {
    Course.PAGE: (Destination.PAGE, Result.DONE),
    Course.DONE: (Destination.OUTCOME, Result.DONE),
    Course.ANSWERED: (Destination.OUTCOME, Result.DROPPED),
    Course.HELD: (Destination.LATER, Result.RETRY),
    Course.OURS: (Destination.HEAD, Result.RETRY),
    Course.REFUSED: (Destination.OUTCOME, Result.DROPPED),
    Course.CLOSED: (Destination.OUTCOME, Result.DROPPED),
}
_ANSWERS = (Course.PAGE, Course.DONE, Course.ANSWERED)


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What a worker makes its Outcome, its Move and its Release of."""

    destination: Destination
    result: Result
    reason: Reason
    not_before: float
    """0 where the site's clock is left alone."""
    clock: SiteClock
    dropped_site: Reason | None = None
    """Why the site is given up with this, if it is."""


def decide(
    lease: Lease,
    reason: Reason,
    *,
    status: int | None = None,
    is_given_up: bool = False,
    was_sent: bool = True,
    ended_at: float,
    chance: float,
    settings: PolitenessSettings,
) -> Decision:
    """What follows from how a lease ended.

    `was_sent` says whether a connection to the site was tried; if in doubt it was. `chance` is drawn from 0 to 1. Of a
    busy origin `is_given_up` says that it was busy too often in a row.
    """
    course = COURSES[reason]
    if reason is Reason.STATUS and status is not None and (status >= 500 or status in _PASSING_STATUSES):
        course = Course.PASSING
    known = lease.clock
    gap = max(settings.delay_seconds, known.crawl_delay_seconds)
    last_request_at = ended_at if was_sent else known.last_request_at
    if course in _ENDS:
        destination, result = _ENDS[course]
        failures = 0 if course in _ANSWERS else known.failures
        not_before = ended_at + gap if was_sent else 0.0
        dropped_site = reason if course is Course.CLOSED else None
    elif course is Course.BUSY:
        destination, result = Destination.LATER, Result.RETRY
        if is_given_up:
            destination, result = Destination.OUTCOME, Result.DROPPED
        failures, dropped_site = known.failures, None
        not_before = ended_at + gap if was_sent else 0.0
    elif course is Course.INTERNAL:
        # A request that was sent costs the gap, as any other. The attempts bound how often a URL can meet a bug.
        is_given_up = lease.attempt + 1 >= settings.max_attempts
        destination, result = (Destination.OUTCOME, Result.DROPPED) if is_given_up else (Destination.TAIL, Result.RETRY)
        failures, dropped_site = known.failures, None
        not_before = ended_at + gap if was_sent else 0.0
    else:
        failures = known.failures + 1
        # Each attempt at this URL was a failure, and there was no other since: it seems to be all that the site has.
        has_nothing_else = 0 < known.failures <= lease.attempt
        hold = gap
        if failures >= BACKS_OFF_AT or has_nothing_else:
            hold = max(gap, _back_off_seconds(known.failures, chance, settings))
        not_before = ended_at + hold
        dropped_site = Reason.SITE_FAILING if failures >= settings.max_failures else None
        if dropped_site or lease.attempt + 1 >= settings.max_attempts:
            destination, result = Destination.OUTCOME, Result.DROPPED
        else:
            destination, result = Destination.TAIL, Result.RETRY
    clock = SiteClock(last_request_at, known.crawl_delay_seconds, failures)
    return Decision(destination, result, reason, not_before, clock, dropped_site)


def closed_seconds(fruitless: int, gap_seconds: float) -> float:
    """How long a visit closes its site that asked for robots.txt and for no page, after so many such visits in a row.

    Less than the gap at first: most origins of a site let us in, and a site with many hosts need not wait for each.
    """
    return min(gap_seconds, FRUITLESS_SECONDS * 2.0 ** min(fruitless, _MOST_DOUBLINGS))


def held_seconds(held: int, gap_seconds: float) -> float:
    """How long a lease closes its site that could not be used because its origin is held, after so many in a row.

    Never nothing: where all that is queued is held, leases would follow each other without a pause.
    """
    return closed_seconds(max(0, held - HELD_IN_A_ROW), max(gap_seconds, FRUITLESS_SECONDS))


def busy_hold(
    retry_after: bytes | None, answers: int, chance: float, wall_now: float, settings: PolitenessSettings
) -> float:
    """Seconds for which an origin is not asked that was busy, after so many busy answers in a row before this one.

    With the last one that it is given it is given up: its URLs are dropped for a day without asking it.
    """
    if answers + 1 >= settings.max_failures:
        return LONGEST_HOLD_SECONDS
    asked = retry_after_seconds(retry_after, wall_now) if retry_after else None
    return _back_off_seconds(answers, chance, settings) if asked is None else asked


def robots_hold(failures: int, chance: float, settings: PolitenessSettings) -> float:
    """Seconds until a robots.txt that did not come is asked for again; `failures` in a row before this one."""
    return _back_off_seconds(failures, chance, settings)


def retry_after_seconds(value: bytes, wall_now: float) -> float | None:
    """How long a Retry-After asks us to wait (RFC 9110 section 10.2.3), within our bounds; None for nonsense."""
    value = value.strip()
    if value.isdigit():
        # By their number first: what has more digits than the bound is over it, and int() of a million takes minutes.
        digits = value.lstrip(b"0")
        seconds = float(digits or 0) if len(digits) <= 6 else LONGEST_HOLD_SECONDS
    else:
        date = _http_date(value)
        if date is None:
            return None
        seconds = date - wall_now
    return min(max(seconds, SHORTEST_HOLD_SECONDS), LONGEST_HOLD_SECONDS)


def _back_off_seconds(failures: int, chance: float, settings: PolitenessSettings) -> float:
    """Doubles with each failure in a row; spread over half of it either way, so that sites of one host part ways."""
    hold = settings.backoff_seconds * 2.0 ** min(failures, _MOST_DOUBLINGS) * (0.5 + chance)
    return min(hold, LONGEST_HOLD_SECONDS)


def _http_date(value: bytes) -> float | None:
    """Any of the three formats of RFC 9110 section 5.6.7, as seconds since 1970."""
    if len(value) > _LONGEST_DATE or not value.isascii():
        return None
    try:
        parts = parsedate_tz(value.decode("ascii"))
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, IndexError, OverflowError):
        return None
