"""One lease at a time: from the last look at the rules to the outcome.

    still ours? ─► rules of admission ─► came back too often? ─► robots.txt ─► Crawl-delay ─► verdict ─► request
        └──────────────┴───────────────────────┴──────────────────┴───────────────┴────────────┴────────────┴─► outcome

What follows from an outcome for the URL and for its site stands in `frontier/politeness.py`.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from gossamer.config import Settings, UrlSettings
from gossamer.errors import GossamerError
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.deliveries import Deliveries
from gossamer.fetch.feeder import Work
from gossamer.fetch.meter import UNMEASURED, FetchMeter
from gossamer.fetch.robots_cache import RobotsCache, Standing
from gossamer.fetch.shortage import Shortage
from gossamer.fetch.slots_held import HeldSlots
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.politeness import Decision, decide
from gossamer.records import Answer, Destination, Lease, Move, Outcome, PhaseTimes, Reason, Release, Result
from gossamer.url import Url, canonicalise

_LOG = logging.getLogger("gossamer.fetch")

#: A URL that so many fetchers have died on is not given to another one.
RETURNS_LIMIT = 5

#: Two that have no body, and a piece that nobody asked for: successes, but no pages.
_NO_PAGES = frozenset({204, 205, 206})
_BUSY = frozenset({429, 503})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

#: What is leased is canonical already and stays to the letter what it is, whatever the settings say now.
_AS_ADMITTED = UrlSettings(max_url_length=65_536)


class _Visit(msgspec.Struct):
    """What is known of one lease on its way. Its worker alone has it."""

    lease: Lease
    """With a Crawl-delay that was learnt on the way in its clock."""
    fetched_at: float
    was_sent: bool = False
    """Whether a request to the site was begun; if in doubt it was."""
    robots: list[Answer] = []
    """What was said when robots.txt was asked for: there as soon as it came, so that it is in the outcome however this
    ends. Only an answer that is still on its way when the visit is cancelled is lost."""


class Worker:
    """Does what is in the queue, as many at once as there are tasks in `run`. Each ends every lease that it takes.

    It talks to servers and never to the store; `Deliveries` does that for it.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        client: Client,
        rules: AdmissionRules,
        slots: HeldSlots,
        robots: RobotsCache,
        deliveries: Deliveries,
        shortage: Shortage,
        meter: FetchMeter = UNMEASURED,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.busy = 0
        """Leases in work."""
        self.errors = 0
        """Of ours."""
        self._politeness = settings.politeness
        self._max_body_bytes = settings.parse.max_body_bytes
        self._media_types = frozenset(settings.fetch.media_types.lower().split())
        self._client = client
        self._rules = rules
        self._slots = slots
        self._robots = robots
        self._deliveries = deliveries
        self._shortage = shortage
        self._meter = meter
        self._chance = chance

    async def run(self, queue: asyncio.Queue[Work]) -> None:
        """For ever; a task that is cancelled hands back what it has."""
        while True:
            work = await queue.get()
            self.busy += 1
            try:
                await self._do(work)
            finally:
                self.busy -= 1

    def hand_back(self, lease: Lease) -> None:
        """It was leased, and nothing was done with it."""
        self._end(_Visit(lease, time.time()), Reason.STOPPED)

    async def _do(self, work: Work) -> None:
        visit = _Visit(work.lease, time.time())
        try:
            await self._fetch(visit, work.standing)
        except asyncio.CancelledError:
            self._end(visit, Reason.STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 (the per-URL guard)
            # One URL must not end the process. It goes to the tail, so that its attempts bound this.
            self.errors += 1
            self._meter.erred()
            _LOG.exception("an error of ours at %s", work.lease.url)
            self._end(visit, Reason.PROTOCOL, detail=f"an error of ours: {type(error).__name__}: {error}"[:500])

    async def _fetch(self, visit: _Visit, standing: Standing | None) -> None:
        lease = visit.lease
        if not self._slots.may_request(lease):
            self._end(visit, Reason.STOPPED, detail="the slot is not ours any more")
            return
        refusal = self._rules.judge_lease(lease)
        if refusal is None and lease.returned >= RETURNS_LIMIT:
            refusal = Reason.RETURNED
        if refusal is not None:
            self._end(visit, refusal)
            return
        url = canonicalise(lease.url, None, _AS_ADMITTED)
        if not isinstance(url, Url):
            raise GossamerError(f"{lease.url!r} was admitted and is no URL: {url.detail}")
        if standing is None or standing.expires_at <= self._slots.clock.earliest():
            asked = await self._robots.ask(url, 0 if standing is None else standing.failures, visit.robots)
            if isinstance(asked, Failure):
                self._fail(visit, asked, "robots.txt: ")
                return
            standing = asked
            # That may have taken minutes.
            if not self._slots.may_request(lease):
                self._end(visit, Reason.STOPPED, detail="the slot is not ours any more")
                return
        if self._may_fetch(visit, standing):
            visit.was_sent = True
            visit.fetched_at = time.time()
            answer = await self._client.get(url, max_body_bytes=self._max_body_bytes, media_types=self._media_types)
            if isinstance(answer, Failure):
                self._fail(visit, answer)
            else:
                self._shortage.survived()
                self._answered(visit, answer)

    def _may_fetch(self, visit: _Visit, standing: Standing) -> bool:
        """Whether robots.txt lets us, now; if not, that is the outcome."""
        rules = standing.rules
        if rules is None:
            if standing.is_given_up:
                self._end(visit, Reason.ROBOTS_UNREACHABLE, detail=standing.detail)
            else:
                self._hold(visit, Reason.ROBOTS_UNREACHABLE, standing.expires_at, standing.detail)
            return False
        crawl_delay = rules.crawl_delay or 0.0
        if crawl_delay > self._politeness.max_crawl_delay_seconds:
            self._end(visit, Reason.CRAWL_DELAY, detail=f"{crawl_delay:g} seconds")
            return False
        clock = visit.lease.clock
        if crawl_delay > clock.crawl_delay_seconds:
            # The lease was given by the delay known until now; this one counts from this request on.
            visit.lease = replace(visit.lease, clock=replace(clock, crawl_delay_seconds=crawl_delay))
            due_at = clock.last_request_at + crawl_delay
            if clock.last_request_at and due_at > self._slots.clock.earliest():
                self._hold(visit, Reason.CRAWL_DELAY, due_at, f"{crawl_delay:g} seconds")
                return False
        verdict = rules.verdict(visit.lease.url)
        if not verdict.allowed:
            self._end(visit, Reason.ROBOTS, detail=f"line {verdict.line}: {verdict.rule}")
        return verdict.allowed

    def _answered(self, visit: _Visit, answer: Answer) -> None:
        status = answer.status
        if status in _BUSY:
            reason = Reason.BUSY
        elif status in _REDIRECTS and answer.header(b"location"):
            reason = Reason.REDIRECT
        elif not 200 <= status <= 299 or status in _NO_PAGES:
            reason = Reason.STATUS
        else:
            reason = Reason.MEDIA_TYPE if answer.is_declined else Reason.PAGE
        self._end(visit, reason, answer=answer)

    def _fail(self, visit: _Visit, failure: Failure, said_by: str = "") -> None:
        visit.was_sent = failure.was_sent
        if failure.reason is Reason.OUR_SHORTAGE:
            self._shortage.met(failure.detail)
        self._end(
            visit,
            failure.reason,
            detail=f"{said_by}{failure.detail}",
            address=failure.address,
            times=failure.times,
        )

    def _hold(self, visit: _Visit, reason: Reason, not_before: float, detail: str) -> None:
        """Nothing was asked; the URL goes back, and its site waits."""
        decision = Decision(Destination.HEAD, Result.RETRY, reason, not_before, visit.lease.clock)
        outcome = Outcome(visit.lease, Result.RETRY, reason, visit.fetched_at, detail, robots=tuple(visit.robots))
        self._deliver(visit, decision, outcome)

    def _end(
        self,
        visit: _Visit,
        reason: Reason,
        *,
        detail: str = "",
        answer: Answer | None = None,
        address: str = "",
        times: PhaseTimes = PhaseTimes(),  # noqa: B008 (frozen)
    ) -> None:
        decision = decide(
            visit.lease,
            reason,
            status=None if answer is None else answer.status,
            retry_after=None if answer is None else answer.header(b"retry-after"),
            was_sent=visit.was_sent,
            ended_at=self._slots.clock.latest(),
            wall_now=time.time(),
            chance=self._chance(),
            settings=self._politeness,
        )
        if answer is not None:
            address, times = answer.address, answer.times
        outcome = Outcome(
            visit.lease, decision.result, reason, visit.fetched_at, detail, answer, address, times, tuple(visit.robots)
        )
        self._deliver(visit, decision, outcome)

    def _deliver(self, visit: _Visit, decision: Decision, outcome: Outcome) -> None:
        lease, clock, not_before = visit.lease, decision.clock, decision.not_before
        if not visit.was_sent and clock.last_request_at:
            # A Crawl-delay that was learnt without a request holds for the next one all the same.
            not_before = max(not_before, clock.last_request_at + clock.crawl_delay_seconds)
        self._deliveries.add(
            outcome,
            Move(lease, decision.destination, decision.reason),
            Release(lease, visit.was_sent, not_before, clock, decision.dropped_site),
        )
