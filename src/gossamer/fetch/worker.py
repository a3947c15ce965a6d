"""One lease at a time: from the last look at the rules to the outcome.

    still ours? ─► rules of admission ─► came back too often? ─► origin held? ─►
    robots.txt, if it is due ─► Crawl-delay ─► verdict ─► page

Each step may be the last one; the outcome says which it was. The first request of a visit needs a turn at its server's
address (server_addresses.py).
What follows from an outcome for the URL and for its site stands in `frontier/politeness.py`.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from msgspec.structs import replace

from gossamer.config import Settings, UrlSettings
from gossamer.errors import GossamerError
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.deliveries import Deliveries
from gossamer.fetch.feeder import Work
from gossamer.fetch.media_types import declined_type
from gossamer.fetch.meter import UNMEASURED, FetchMeter
from gossamer.fetch.robots_cache import RobotsCache, Standing
from gossamer.fetch.robots_redirects import RobotsRedirects
from gossamer.fetch.robots_request import RobotsLimits
from gossamer.fetch.server_addresses import ServerAddresses, Turn
from gossamer.fetch.shortage import Shortage
from gossamer.fetch.slots_held import HeldSlots
from gossamer.fetch.ticks import Ticks
from gossamer.fetch.visits import Visit, Visits, VisitsInARow
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.politeness import Decision, busy_hold, closed_seconds, decide, held_seconds
from gossamer.records import Answer, Destination, Lease, Move, Outcome, PhaseTimes, Reason, Release, Result
from gossamer.units import counted
from gossamer.url import Url, canonicalise

_LOG = logging.getLogger("gossamer.fetch")

#: A URL that so many fetchers have died on is not given to another one.
RETURNS_LIMIT = 5

#: Two that have no body, and a piece that nobody asked for: successes, but no pages.
_NO_PAGES = frozenset({204, 205, 206})
_BUSY = frozenset({429, 503})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Worker:
    """Does what is in the queue, as many at once as there are tasks in `run`. Each ends every lease that it takes.

    It talks to servers and never to the store; `Deliveries` does that for it. Whatever limits it (a server's address, a
    held origin), it never waits: the lease goes back and says when to come again.
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
        addresses: ServerAddresses,
        visits: Visits,
        ticks: Ticks,
        meter: FetchMeter = UNMEASURED,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.busy = 0
        """Leases in work."""
        self.errors = 0
        """Internal errors, not failures of sites."""
        self._politeness = settings.politeness
        self._max_body_bytes = settings.parse.max_body_bytes
        self._media_types = frozenset(settings.fetch.media_types.lower().split())
        self._client = client
        self._rules = rules
        self._slots = slots
        self._robots = robots
        self._deliveries = deliveries
        self._shortage = shortage
        self._addresses = addresses
        self._redirects = RobotsRedirects(rules, addresses, slots.clock)
        self._visits = visits
        self._ticks = ticks
        self._visit_seconds = settings.fetch.visit_timeout_seconds
        self._fruitless = VisitsInARow()
        self._held = VisitsInARow()
        # What is leased is canonical already and stays to the letter what it is, whatever the settings say now.
        self._as_admitted = UrlSettings(max_url_length=65_536, site_key=settings.url.site_key)
        self._meter = meter
        self._chance = chance

    async def run(self, queue: asyncio.Queue[Work]) -> None:
        """For ever; a task that is cancelled hands back what it has."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (a coroutine runs in a task)
        while True:
            work = await queue.get()
            self.busy += 1
            try:
                await self._do(work, task)
            finally:
                self.busy -= 1
                self._ticks.ended(self.busy + queue.qsize())

    def hand_back(self, lease: Lease) -> None:
        """It was leased, and nothing was done with it."""
        self._end(self._visit(lease), Reason.STOPPED)

    def _visit(self, lease: Lease) -> Visit:
        began_at = time.monotonic()
        return Visit(lease, time.time(), began_at, began_at + self._visit_seconds)

    async def _do(self, work: Work, task: asyncio.Task[None]) -> None:
        visit = self._visit(work.lease)
        self._visits.begin(task, visit)
        try:
            await self._fetch(visit, work.standing)
        except asyncio.CancelledError:
            # A visit that was ended for others leaves its worker as it was, unless that is cancelled as well.
            if visit.cut_detail and not task.uncancel():
                self._end(visit, Reason.TIMEOUT, detail=visit.cut_detail)
            else:
                self._end(visit, Reason.STOPPED)
                raise
        except Exception as error:  # noqa: BLE001 (the per-URL guard)
            # One URL must not end the process, and its site has done nothing wrong.
            self.errors += 1
            self._meter.erred()
            _LOG.exception("internal error at %s", work.lease.url)
            self._client.budget.give_back(visit.undelivered_bytes)
            # An error may quote anything; what is no valid text cannot be written to the spool.
            detail = f"{type(error).__name__}: {error}"[:500].encode(errors="backslashreplace").decode()
            self._end(visit, Reason.INTERNAL_ERROR, detail=detail)
        finally:
            self._visits.end(task)
            if visit.turn is not None:
                visit.turn.end()

    async def _fetch(self, visit: Visit, standing: Standing | None) -> None:
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
        url = canonicalise(lease.url, None, self._as_admitted)
        if not isinstance(url, Url):
            raise GossamerError(f"{lease.url!r} was admitted and is no URL: {url.detail}")
        now = self._slots.clock.earliest()
        if standing is not None and standing.busy_until > now:
            self._keep_silence(visit, standing)
            return
        visit.turn = turn = Turn(self._addresses, self._slots.clock.latest, lease.site)
        if standing is None or standing.expires_at <= now:
            visit.was_robots_sent = True
            limits = RobotsLimits(
                ends_at=visit.ends_at, turn=turn, redirects=self._redirects, settings=self._as_admitted
            )
            asked = await self._robots.ask(url, standing, visit.robots, limits)
            if isinstance(asked, Failure):
                visit.was_robots_sent = asked.was_sent or bool(visit.robots)
                # A blocked address is not asked for robots.txt either.
                self._fail(visit, asked, "" if asked.reason is Reason.BLOCKED_ADDRESS else "robots.txt: ")
                return
            standing = asked
            # That may have taken minutes.
            if not self._slots.may_request(lease):
                self._end(visit, Reason.STOPPED, detail="the slot is not ours any more")
                return
        if self._may_fetch(visit, standing):
            visit.was_sent = True
            visit.fetched_at = time.time()
            answer = await self._client.get(
                url,
                max_body_bytes=self._max_body_bytes,
                media_types=self._media_types,
                ends_at=visit.ends_at,
                may_connect=turn,
            )
            if isinstance(answer, Failure):
                self._fail(visit, answer)
            else:
                visit.undelivered_bytes = len(answer.body)
                self._shortage.survived()
                self._visits.answered(visit)
                self._answered(visit, answer, url.origin, standing)

    def _keep_silence(self, visit: Visit, standing: Standing) -> None:
        """Its origin was busy and has asked for silence, or is given up for a day."""
        if standing.busy_answers >= self._politeness.max_failures:
            self._end(
                visit, Reason.BUSY, detail=f"busy {counted(standing.busy_answers, 'time')} in a row", is_given_up=True
            )
        else:
            detail = standing.detail or "its origin asked for silence"
            self._hold_origin(visit, Reason.ORIGIN_HELD, standing.busy_until, detail)

    def _may_fetch(self, visit: Visit, standing: Standing) -> bool:
        """Whether robots.txt lets us, now; if not, that is the outcome."""
        verdict = standing.verdict
        if verdict is None:
            if standing.is_given_up:
                self._end(visit, Reason.ROBOTS_UNREACHABLE, detail=standing.detail)
            else:
                self._hold_origin(visit, Reason.ROBOTS_UNREACHABLE, standing.expires_at, standing.detail)
            return False
        crawl_delay = standing.crawl_delay
        if crawl_delay > self._politeness.max_crawl_delay_seconds:
            self._end(visit, Reason.CRAWL_DELAY, detail=f"{crawl_delay:g} s")
            return False
        clock = visit.lease.clock
        if crawl_delay > clock.crawl_delay_seconds:
            # The lease was given by the delay known until now; this one counts from this request on.
            visit.lease = replace(visit.lease, clock=replace(clock, crawl_delay_seconds=crawl_delay))
            due_at = clock.last_request_at + crawl_delay
            if clock.last_request_at and due_at > self._slots.clock.earliest():
                self._hold(visit, Destination.HEAD, Reason.CRAWL_DELAY, due_at, f"{crawl_delay:g} s")
                return False
        if not verdict.allowed:
            self._end(visit, Reason.ROBOTS, detail=f"line {verdict.line}: {verdict.rule}")
        return verdict.allowed

    def _answered(self, visit: Visit, answer: Answer, origin: str, standing: Standing) -> None:
        status = answer.status
        if status in _BUSY:
            self._was_busy(visit, answer, origin, standing.busy_answers)
            return
        if status in _REDIRECTS and answer.header(b"location"):
            reason = Reason.REDIRECT
        elif not 200 <= status <= 299 or status in _NO_PAGES:
            reason = Reason.STATUS
        else:
            reason = Reason.MEDIA_TYPE if answer.is_declined else Reason.PAGE
        if standing.busy_answers and status < 500:
            self._robots.note_busy(origin, 0.0, 0)
        detail = declined_type(answer.header(b"content-type")) if reason is Reason.MEDIA_TYPE else ""
        self._end(visit, reason, answer=answer, detail=detail)

    def _was_busy(self, visit: Visit, answer: Answer, origin: str, answers: int) -> None:
        """What it asks for is kept with the origin: the other origins of its site go on."""
        hold = busy_hold(answer.header(b"retry-after"), answers, self._chance(), time.time(), self._politeness)
        self._robots.note_busy(origin, self._slots.clock.latest() + hold, answers + 1)
        is_given_up = answers + 1 >= self._politeness.max_failures
        detail = (
            f"busy {counted(answers + 1, 'time')} in a row" if is_given_up else f"its origin is held for {hold:.0f} s"
        )
        self._end(visit, Reason.BUSY, detail=detail, answer=answer, is_given_up=is_given_up)

    def _fail(self, visit: Visit, failure: Failure, said_by: str = "") -> None:
        visit.was_sent = failure.was_sent
        if failure.reason is Reason.SERVER_ADDRESS and visit.turn is not None:
            self._hold(visit, Destination.HEAD, failure.reason, visit.turn.until, failure.detail)
            return
        if failure.reason is Reason.OUR_SHORTAGE and not failure.gave_up_waiting:
            self._shortage.met(failure.detail)
        self._end(
            visit,
            failure.reason,
            detail=f"{said_by}{failure.detail}",
            address=failure.address,
            times=failure.times,
        )

    def _hold_origin(self, visit: Visit, reason: Reason, until: float, detail: str) -> None:
        """The URL waits at the tail; its site is closed for a moment, so that other origins of it get their turn."""
        closed = held_seconds(self._held.count(visit.lease.site), self._gap_seconds(visit))
        not_before = min(until, self._slots.clock.latest() + closed)
        self._hold(visit, Destination.LATER, reason, not_before, detail)

    def _hold(self, visit: Visit, destination: Destination, reason: Reason, not_before: float, detail: str) -> None:
        """No page was requested; the URL goes back, and its site waits."""
        decision = Decision(destination, Result.RETRY, reason, not_before, visit.lease.clock)
        outcome = Outcome(visit.lease, Result.RETRY, reason, visit.fetched_at, detail, robots=tuple(visit.robots))
        self._deliver(visit, decision, outcome)

    def _end(
        self,
        visit: Visit,
        reason: Reason,
        *,
        detail: str = "",
        answer: Answer | None = None,
        address: str = "",
        times: PhaseTimes = PhaseTimes(),  # noqa: B008 (frozen)
        is_given_up: bool = False,
    ) -> None:
        decision = decide(
            visit.lease,
            reason,
            status=None if answer is None else answer.status,
            is_given_up=is_given_up,
            was_sent=visit.was_sent,
            ended_at=self._slots.clock.latest(),
            chance=self._chance(),
            settings=self._politeness,
        )
        if answer is not None:
            address, times = answer.address, answer.times
        outcome = Outcome(
            visit.lease, decision.result, reason, visit.fetched_at, detail, answer, address, times, tuple(visit.robots)
        )
        self._deliver(visit, decision, outcome)

    def _deliver(self, visit: Visit, decision: Decision, outcome: Outcome) -> None:
        lease, clock, not_before = visit.lease, decision.clock, decision.not_before
        if visit.was_sent:
            self._fruitless.forget(lease.site)
            self._held.forget(lease.site)
            if not_before == clock.last_request_at:
                # There is no gap that could be shortened, so the site is due by the time that leases are asked for by.
                not_before = self._slots.clock.earliest()
        else:
            if visit.was_robots_sent:
                closed = closed_seconds(self._fruitless.count(lease.site), self._gap_seconds(visit))
                not_before = max(not_before, self._slots.clock.latest() + closed)
            if clock.last_request_at:
                # A Crawl-delay that was learnt without a request holds for the next one all the same.
                not_before = max(not_before, clock.last_request_at + clock.crawl_delay_seconds)
        visit.undelivered_bytes = 0
        self._ticks.released(not_before - self._slots.clock.latest())
        self._deliveries.add(
            outcome,
            Move(lease, decision.destination, decision.reason),
            Release(lease, visit.was_sent, not_before, clock, decision.dropped_site),
        )

    def _gap_seconds(self, visit: Visit) -> float:
        return max(self._politeness.delay_seconds, visit.lease.clock.crawl_delay_seconds)
