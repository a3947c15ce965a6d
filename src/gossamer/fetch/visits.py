"""The visits in progress, and how many workers the slow ones among them may have.

A visit is the robots.txt of one origin, if it has to be asked for, and at most one page. It is slow from an age on that
is far beyond what visits take in this crawl. Slow visits may have half of the workers while others wait for one; beyond
that the oldest of them is ended. So a thousand servers that answer one byte a second leave half of the workers to those
that answer at once.
"""

import asyncio
import time
from collections import OrderedDict, deque

import msgspec

from gossamer.fetch.server_addresses import Turn
from gossamer.records import Answer, Lease

#: No visit is slow before this age: the round trips of robots.txt and page, each with a handshake, to a distant server.
SLOW_SECONDS = 5.0
#: Nor before so many times what the fast quarter of the latest visits took. On a narrow line every visit takes long,
#: and ending them would only mean to begin them again.
SLOW_FACTOR = 4.0
#: Visits that count for it.
_LATEST = 100
#: Between two looks at the visits in progress.
_LOOK_SECONDS = 0.25


class Visit(msgspec.Struct):
    """What is known of one lease on its way. Its worker alone has it."""

    lease: Lease
    """With a Crawl-delay that was learnt on the way in its clock."""
    fetched_at: float
    """Wall clock."""
    began_at: float
    """Monotonic, as the next one is."""
    ends_at: float
    turn: Turn | None = None
    was_sent: bool = False
    """Whether a request for the page was begun; if in doubt it was."""
    was_robots_sent: bool = False
    """Whether robots.txt was asked for; likewise."""
    robots: list[Answer] = []
    """What was said when robots.txt was asked for: there as soon as it came, so that it is in the outcome however this
    ends. Only an answer that is still on its way when the visit is cancelled is lost."""
    undelivered_bytes: int = 0
    """Of the body of its answer, from the moment at which it came until the outcome is delivered."""
    cut_detail: str = ""
    """Why it was ended before its time."""


class Visits:
    """Those of one fetcher. Workers begin and end theirs; the fetcher calls `cut_slow` with every tick."""

    def __init__(self, workers: int) -> None:
        self.cut = 0
        """Visits that were ended so that others get a worker."""
        self._most_slow = workers // 2
        self._visits: dict[asyncio.Task[None], Visit] = {}
        """By the task of the worker, in the order in which they began."""
        self._latest: deque[float] = deque(maxlen=_LATEST)
        self._looked_at = float("-inf")
        self._waited_at = float("-inf")

    def begin(self, task: asyncio.Task[None], visit: Visit) -> None:
        self._visits[task] = visit

    def end(self, task: asyncio.Task[None]) -> None:
        del self._visits[task]

    def answered(self, visit: Visit) -> None:
        """The page was answered for; this is how long a visit takes."""
        self._latest.append(time.monotonic() - visit.began_at)

    def note_wait(self) -> None:
        """Bodies wait for room in memory: what passes now is not the time of the sites."""
        self._waited_at = time.monotonic()

    def cut_slow(self, waiting: int) -> None:
        """End the oldest slow visits beyond half of the workers, if leases wait for a worker.

        Its task is cancelled in its visit, where it waits, and goes on with another.
        """
        now = time.monotonic()
        if not waiting or len(self._visits) <= self._most_slow or now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        slow_since = now - self._slow_seconds()
        if self._waited_at > slow_since:
            return
        slow = []
        for task, visit in self._visits.items():
            if visit.began_at > slow_since:
                break
            if not visit.cut_detail:
                slow.append((visit, task))
        for visit, task in slow[: max(0, len(slow) - self._most_slow)]:
            seconds = now - visit.began_at
            visit.cut_detail = f"ended after {seconds:.0f} s: more than half of the workers wait for slow sites"
            self.cut += 1
            task.cancel()

    def _slow_seconds(self) -> float:
        if not self._latest:
            return SLOW_SECONDS
        fast = sorted(self._latest)[len(self._latest) // 4]
        return max(SLOW_SECONDS, SLOW_FACTOR * fast)


#: Sites whose latest visits requested no page; some 150 bytes each. One that is forgotten begins again with a second.
_SITES_KEPT = 20_000


class VisitsInARow:
    """How many visits of one kind a site has had in a row since a page of it was requested: those that asked for
    nothing but robots.txt, or those that sent nothing because the origin is held.

    In memory: after a restart the count begins at 0, and the store still has the site's `not_before`.
    """

    def __init__(self) -> None:
        self._sites: OrderedDict[str, int] = OrderedDict()

    def count(self, site: str) -> int:
        """One more; how many there were before it."""
        before = self._sites.pop(site, 0)
        self._sites[site] = before + 1
        if len(self._sites) > _SITES_KEPT:
            self._sites.popitem(last=False)
        return before

    def forget(self, site: str) -> None:
        """A page of it is requested."""
        self._sites.pop(site, None)
