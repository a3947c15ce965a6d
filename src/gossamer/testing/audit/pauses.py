"""The pauses around visits that ask for robots.txt and for no page.

A visit is the robots.txt of one origin, redirects within the site included, and at most one page. One with a page is
judged by the gaps between pages (`auditor.py`). One without closes the site for a second, twice as long after each
further one in a row, and never for longer than the site's delay.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

from gossamer.testing.audit.report import Charges, Offence
from gossamer.testing.audit.robots import RobotsVisits
from gossamer.testing.audit.rules import Rules
from gossamer.testing.audit.visits import Visit

#: After the first such visit; doubled with each that follows.
FIRST_PAUSE_SECONDS = 1.0
#: 2**17 seconds are longer than the longest delay that can be set.
_MOST_DOUBLINGS = 17


class _OpenVisit(msgspec.Struct):
    """A robots.txt was asked for; the next request decides whether a page belongs to it."""

    origins: AbstractSet[str]
    """Whose rules it may have been: with redirects it can be several."""
    last: Visit


def judge_pauses(
    visits: Iterable[Visit], origins: AbstractSet[str], robots: RobotsVisits, rules: Rules, charges: Charges
) -> None:
    """Of one site, whose visits come in the order of their starts.

    A page right after the robots.txt of its origin counts as one visit with it, however late it comes: what looks like
    one visit may be two, so this forgives and never convicts wrongly. For the same reason a robots.txt to which another
    site redirects is left out: the log does not say who asked for it.
    """
    open_visit: _OpenVisit | None = None
    previous: Visit | None = None
    in_a_row = 0
    restarts = rules.restarts
    for visit in visits:
        owners = robots.owners.get(visit.url)
        if owners is not None and not owners <= origins:
            continue
        if open_visit is not None and _belongs(visit, owners, open_visit, robots):
            in_a_row = 0 if owners is None else in_a_row
            open_visit = None if owners is None else _OpenVisit(owners & open_visit.origins, visit)
            previous = visit
            continue
        in_a_row += open_visit is not None
        # From page to page is judged by the site's delay.
        if previous is not None and (in_a_row or owners is not None):
            gap_seconds = _gap_seconds(previous, visit, rules)
            least = min(rules.delay_seconds, FIRST_PAUSE_SECONDS)
            longer = min(rules.delay_seconds, FIRST_PAUSE_SECONDS * 2.0 ** min(max(in_a_row - 1, 0), _MOST_DOUBLINGS))
            if least <= gap_seconds < longer and restarts:
                # Whoever counted the visits in a row died, and the next one counts anew.
                restarts -= 1
                in_a_row = 1
            elif gap_seconds < longer:
                detail = f"{gap_seconds:.6f} s after {previous.url}, not {longer:g} s"
                charges.add(Offence.ROBOTS_TOO_SOON, visit.started_at_ns, visit.url, detail)
        open_visit = None if owners is None else _OpenVisit(owners, visit)
        in_a_row = 0 if owners is None else in_a_row
        previous = visit


def _belongs(visit: Visit, owners: AbstractSet[str] | None, open_visit: _OpenVisit, robots: RobotsVisits) -> bool:
    """Whether it is the page for which the rules were asked, or the next redirect on the way to them."""
    if owners is None:
        return visit.origin in open_visit.origins
    return any(
        robots.place(origin, visit.url) > robots.place(origin, open_visit.last.url)
        for origin in owners & open_visit.origins
    )


def _gap_seconds(previous: Visit, visit: Visit, rules: Rules) -> float:
    """As for pages: a busy server may see late that a client has left."""
    ended_at_ns = previous.ended_at_ns
    if previous.aborted:
        ended_at_ns = max(previous.started_at_ns, ended_at_ns - round(rules.abort_lateness_seconds * 1e9))
    return (visit.started_at_ns - ended_at_ns) / 1e9
