"""Why a URL is where it is: from what the store, the files and the settings say to one answer. Pure.

    Evidence (gathered by evidence.py)  ──explain──►  Explanation (printed by the command line)

The order of the questions is that of a URL's life, from its end: does a row say how it ended? Where does it stand? If
nowhere, which rule would keep it out?
"""

import msgspec
from msgspec.structs import replace

from gossamer.config import Settings
from gossamer.fetch.worker import RETURNS_LIMIT
from gossamer.frontier.admission import Exclusions
from gossamer.frontier.politeness import COURSES, Course
from gossamer.frontier.store import Sighting, UrlState
from gossamer.look.attempts import Attempt
from gossamer.look.blocked import blocked_advice, is_still_blocked
from gossamer.look.explanation import Explanation, Verdict
from gossamer.look.refusals import Refused, RulesNow, site_words
from gossamer.look.refused_before import (
    FORGOTTEN,
    NOT_RECORDED,
    NOT_STORED,
    Remembered,
    refused_before,
    words_of,
)
from gossamer.look.standings import RobotsAccess, robots_standing, site_standing
from gossamer.look.wording import HELD, duration, last_failure, moment, paused, plain_http_hint, times, what
from gossamer.records import Reason, RobotsCopy
from gossamer.run.data_directory import PausedBy
from gossamer.units import counted
from gossamer.url import Refusal, Url, redacted

#: What the rules of admission say of a lease: the URL was admitted under others.
_OF_ADMISSION = frozenset(
    {
        Reason.BLOCKED_SITE,
        Reason.EXCLUDED,
        Reason.DEPTH,
        Reason.HOPS,
        Reason.EXTENSION,
        Reason.PATH_DEPTH,
        Reason.PATH_REPEATS,
        Reason.NOT_INCLUDED,
    }
)
#: Dropped without an answer of its own, and nobody's rule: fetchers died on it.
_DEADLY = Reason.RETURNED
_WORDS = {str(reason) for reason in Reason}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one URL. The store is read before the files: what it has finished is in them."""

    typed: str
    url: Url
    settings: Settings
    exclusions: Exclusions = Exclusions()
    now: float
    """The store's time."""
    sighting: Sighting
    robots: RobotsCopy | None = None
    attempts: list[Attempt] = []
    """In the order of time."""
    page: Attempt | None = None
    """What `pages` has, where `fetches` has nothing."""
    site_attempt: Attempt | None = None
    """The last request to the site, if the files have it."""
    pages: int = 0
    """Of the whole crawl."""
    remembered: Remembered = Remembered()
    """Of links that were refused."""
    is_running: bool = True
    paused_by: PausedBy | None = None
    is_loading: bool = False
    """Whether some of the seeds are not admitted yet."""


class _Answer(msgspec.Struct, frozen=True):
    verdict: Verdict
    line: str
    refusal: Refused | None = None


def explain_refusal(typed: str, refusal: Refusal) -> Explanation:
    """Of what is no URL that is ever fetched, whatever the crawl."""
    words = f"it is no URL that is fetched ({refusal.reason}): {refusal.detail}"
    return Explanation(
        verdict=Verdict.REFUSED,
        summary=f"refused: {words}",
        typed=redacted(typed),
        refusal=Refused(Reason(refusal.reason.value), words),
    )


def explain(evidence: Evidence) -> Explanation:
    return _Case(evidence).explanation()


class _Case:
    """One URL and what is known of it; each method answers a question about it."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.url = evidence.url
        self.sighting = evidence.sighting
        self.rules = RulesNow(evidence.settings.scope, evidence.exclusions)
        self.robots = robots_standing(evidence.url, evidence.robots, evidence.now)
        self.site = site_standing(evidence.url, evidence.sighting.site, evidence.settings, evidence.now)
        self.own = [attempt for attempt in evidence.attempts if attempt.kind == "url"]
        self.ending = next((attempt for attempt in reversed(self.own) if attempt.is_final), evidence.page)
        self.rules_now = self._rules_now()

    def explanation(self) -> Explanation:
        evidence, lease, ending = self.evidence, self.sighting.lease, self.ending
        answer = self._answer()
        is_known = answer.verdict not in {Verdict.UNSEEN, Verdict.REFUSED} or self.sighting.state is not UrlState.UNSEEN
        last = ending or next(reversed(evidence.attempts), None)
        known = Explanation(
            verdict=answer.verdict,
            summary=answer.line,
            typed=redacted(evidence.typed),
            url=self.url.text,
            is_running=evidence.is_running,
            paused_by=evidence.paused_by,
            state=self.sighting.state,
            is_admitted=self.sighting.state is not UrlState.UNSEEN,
            refusal=answer.refusal,
            rules_now=answer.refusal if self._is_still_blocked() else self.rules_now,
            depth=lease.depth if lease else ending.depth if ending else None,
            hops=lease.hops if lease else ending.hops if ending else None,
            is_seed=lease.is_seed if lease else None,
            via=(lease.via if lease else ending.via if ending else None) or None,
            attempt=lease.attempt + 1 if lease else None,
            returned=lease.returned if lease else None,
            ahead=self.sighting.ahead,
            turn_seconds=self._turn_seconds(),
            segment=self.sighting.segment or None,
            path_variants=self.sighting.path_variants,
            site=self.site,
            robots=self.robots,
            attempts=evidence.attempts,
            fetched_at=last.at if last else None,
            place=last.place if last else None,
            notes=self._notes(answer),
        )
        if evidence.typed.strip() == self.url.text or not is_known:
            return known
        return replace(
            known,
            verdict=Verdict.DUPLICATE,
            canonical_verdict=known.verdict,
            summary=f"duplicate: another spelling of {self.url.text}, which is {known.summary}",
        )

    def _answer(self) -> _Answer:
        state, ending = self.sighting.state, self.ending
        if state is UrlState.QUEUED and (ending is None or self.sighting.lease is not None):
            return self._queued()
        if state is UrlState.LEASED:
            return self._leased()
        if ending is not None:
            tries = sum(attempt.failure_kind not in HELD for attempt in self.own)
            return _ended(ending, tries, self.evidence.settings.fetch.media_types)
        if state is UrlState.SPOOLED:
            segment = self.sighting.segment
            return _Answer(
                Verdict.SPOOLED,
                f"spooled: it was asked for, and what came of it waits in segment {segment} for a parser or its commit"
                f"{self._unless_running()}",
            )
        return self._lost() if state is UrlState.FINISHED else self._unseen()

    def _queued(self) -> _Answer:
        place = {None: "", 0: "first in its queue; ", 1: "1 before it; "}.get(
            self.sighting.ahead, f"{self.sighting.ahead} before it; "
        )
        refusal = self.rules_now
        if refusal is not None:
            line = f"refused: {refusal.words}; it was queued before, and will be dropped when its turn comes"
            return _Answer(Verdict.EXCLUDED_LATER, line, refusal)
        refusal = self._robots_refusal()
        if refusal is not None:
            return _Answer(
                Verdict.REFUSED, f"refused: {refusal.words}; it is queued, and will be dropped at its turn", refusal
            )
        lease = self.sighting.lease
        if lease is not None and lease.returned >= RETURNS_LIMIT:
            words = f"{counted(lease.returned, 'fetcher')} died with it"
            return _Answer(
                Verdict.FAILED, f"failed: {words}; it will be dropped at its turn", Refused(Reason.RETURNED, words)
            )
        held = self._held()
        cause = self._back_off()
        wait = (held or self._wait(cause)) + last_failure(self.own) + self._unless_running()
        if self.evidence.paused_by is not None:
            pause = f"the crawl is {paused(self.evidence.paused_by)}"
            wait = f"{wait}; {pause}" if held or cause or self.site.is_busy else pause
        if held is not None or cause is not None:
            return _Answer(Verdict.BACKING_OFF, f"queued: {place}{wait}")
        return _Answer(Verdict.QUEUED, f"queued: {place}{wait}")

    def _held(self) -> str | None:
        """How long its origin is waited for, and why; other origins of its site may go on."""
        robots = self.robots
        if robots.busy_seconds > 0:
            seconds, why = robots.busy_seconds, f"it was busy, {times(robots.busy_answers)}"
        elif robots.access is RobotsAccess.UNREACHABLE and robots.is_fresh:
            seconds, why = robots.valid_seconds, f"its robots.txt did not come, {times(robots.failures)}"
        else:
            return None
        return f"its origin may be asked again in {duration(seconds)} ({why})"

    def _back_off(self) -> str | None:
        """Why the site is waited for, if that is for a failure."""
        site = self.site
        if site.wait_seconds <= 0 or site.is_busy or not site.failures:
            return None
        last = self.evidence.site_attempt
        cause = f": {what(last)}" if last is not None and last.failure_kind is not None else ""
        return f"back-off after {counted(site.failures, 'failure')}{cause}"

    def _wait(self, cause: str | None) -> str:
        site = self.site
        if site.is_busy:
            return "another URL of its site is being fetched"
        most = self.evidence.settings.run.max_pages
        if most and self.evidence.pages >= most:
            return f"the crawl has the {counted(most, 'page')} that max_pages allows"
        if site.wait_seconds <= 0:
            return "its site may be asked now"
        if cause is None and site.waits_beyond_gap:
            last = next(reversed(self.own), None)
            is_sure = last is not None and last.failure_kind == Reason.SERVER_ADDRESS
            why = "for its turn at its server address, which it shares with other sites"
            why += "" if is_sure else ", or after a visit for robots.txt alone"
            return f"its site waits {duration(site.wait_seconds)} yet {why}"
        why = cause or f"{site.gap_seconds:g} s between requests"
        return f"the site may be asked again in {duration(site.wait_seconds)} ({why})"

    def _leased(self) -> _Answer:
        owner, lease = self.site.owner, self.sighting.lease
        which = "" if lease is None or not lease.attempt else f", attempt {lease.attempt + 1}"
        if owner and self.site.owned_seconds > 0 and self.evidence.is_running:
            return _Answer(Verdict.LEASED, f"leased: {owner} has it now{which}")
        return _Answer(
            Verdict.LEASED,
            f"leased: {owner or 'a fetcher'} had it{which}, and is gone; it goes back to the"
            f" head of its queue when its slot is taken again{self._unless_running()}",
        )

    def _lost(self) -> _Answer:
        """Finished, and no row of its own says how: with its site, or where no log is written."""
        dropped = self.sighting.site.dropped if self.sighting.site is not None else None
        if dropped is not None:
            verdict = {Reason.SITE_FAILING: Verdict.FAILED, Reason.BLOCKED_SITE: Verdict.EXCLUDED_LATER}
            word = "failed" if dropped is Reason.SITE_FAILING else "refused"
            words = f"its site was given up while it was queued: {site_words(dropped)}"
            return _Answer(verdict.get(dropped, Verdict.REFUSED), f"{word}: {words}", Refused(dropped, words))
        return _Answer(Verdict.FINISHED, f"finished: no file says how{self._without_log()}")

    def _unseen(self) -> _Answer:
        asked = next(reversed(self.evidence.attempts), None)
        if asked is not None:
            line = f"robots.txt: {what(asked)} on {moment(asked.at)}; it was never asked for as a page"
            return _Answer(Verdict.ROBOTS_FILE, line)
        if self.evidence.remembered.links:
            line, refused = refused_before(self.evidence.remembered.links[0], self.rules_now)
            return _Answer(Verdict.REFUSED, line, refused)
        refusal = self.rules_now
        if refusal is not None:
            return _Answer(
                Verdict.REFUSED, f"refused: not admitted; the rules as they are now refuse it: {refusal.words}", refusal
            )
        deepest = self.rules.deepest()
        where = "" if deepest is None else f" up to {counted(deepest, 'link')} away from a seed"
        banned = self._robots_refusal()
        but = "" if banned is None else f", but {banned.words}"
        return _Answer(
            Verdict.UNSEEN,
            "never seen: no seed that was loaded and no link that was followed leads to it; the rules would admit"
            f" it{where}{but}",
        )

    def _rules_now(self) -> Refused | None:
        lease, ending = self.sighting.lease, self.ending
        if lease is not None:
            return self.rules.against(self.url, depth=lease.depth, hops=lease.hops, is_seed=lease.is_seed)
        if ending is not None:
            # Only a seed is at depth 0, or where it redirects to, which counts as one.
            depth, hops = ending.depth or 0, ending.hops or 0
            return self.rules.against(self.url, depth=depth, hops=hops, is_seed=not depth)
        if self.sighting.state is UrlState.UNSEEN:
            found_at = next((link.depth for link in self.evidence.remembered.links), None)
            return self.rules.against_unseen(self.url, self.sighting, found_at)
        return self.rules.against(self.url, depth=0, hops=0, is_seed=False)

    def _is_still_blocked(self) -> bool:
        return self.ending is not None and is_still_blocked(self.ending, self.url, self.evidence.settings.fetch)

    def _robots_refusal(self) -> Refused | None:
        """What robots.txt, as it was read last, will do to it at its turn."""
        robots = self.robots
        longest = self.evidence.settings.politeness.max_crawl_delay_seconds
        if (robots.crawl_delay_seconds or 0.0) > longest:
            words = f"robots.txt asks for a Crawl-delay of {robots.crawl_delay_seconds:g} s, and max_crawl_delay is"
            return Refused(Reason.CRAWL_DELAY, f"{words} {longest:g} s")
        if robots.access is RobotsAccess.DISALLOWED:
            doubt = "" if robots.is_fresh else ", unless it changed: it is asked for again first"
            line = "" if robots.line is None else f" (line {robots.line}: {robots.rule})"
            return Refused(Reason.ROBOTS, f"robots.txt disallows it{line}{doubt}")
        if robots.is_given_up and robots.is_fresh:
            return Refused(Reason.ROBOTS_UNREACHABLE, f"its robots.txt did not come, {times(robots.failures)}")
        if robots.busy_seconds > 0 and robots.busy_answers >= self.evidence.settings.politeness.max_failures:
            return Refused(Reason.BUSY, f"its origin was busy, {times(robots.busy_answers)}")
        return None

    def _turn_seconds(self) -> float | None:
        if self.sighting.state is not UrlState.QUEUED or self.sighting.ahead is None or self.evidence.paused_by:
            return None
        wait_seconds = max(self.site.wait_seconds, self.robots.busy_seconds, 0.0)
        return wait_seconds + self.sighting.ahead * self.site.gap_seconds

    def _unless_running(self) -> str:
        return "" if self.evidence.is_running else "; the crawl is not running"

    def _without_log(self) -> str:
        return "" if "log" in self.evidence.settings.sinks.sinks.split(",") else " (its sinks do not have the log)"

    def _notes(self, answer: _Answer) -> list[str]:
        notes = []
        state, lease, remembered = self.sighting.state, self.sighting.lease, self.evidence.remembered
        if state is UrlState.UNSEEN and answer.verdict in {Verdict.UNSEEN, Verdict.REFUSED}:
            if remembered.links:
                notes.append(NOT_STORED)
            elif not remembered.is_recorded:
                notes.append(NOT_RECORDED)
            elif remembered.may_have_forgotten:
                notes.append(FORGOTTEN)
            if answer.refusal is not None and self.rules.would_admit_seed(self.url, self.sighting):
                notes.append("as a seed it would be admitted")
            if self.evidence.is_loading:
                notes.append("not all seeds are admitted yet: it may be one of those")
        if answer.verdict is Verdict.REDIRECTED and remembered.target:
            notes.append(f"where it redirects to was refused: {words_of(remembered.target[0])}")
        if (hint := plain_http_hint(self.url.text, self.own)) is not None:
            notes.append(hint)
        written = max((attempt.attempt or 0 for attempt in self.own), default=0)
        if lease is not None and lease.attempt > written:
            missing = counted(lease.attempt - written, "attempt")
            notes.append(f"{missing} not in the files yet{self._without_log() or ': they are written at a commit'}")
        return notes


def _ended(ending: Attempt, attempts: int, media_types: str) -> _Answer:
    """From the row that says what became of it."""
    when = moment(ending.at)
    where = "" if ending.place is None else f", {'answer' if ending.failure_kind else 'page'} in {ending.place.file}"
    if ending.failure_kind is None and ending.redirect is not None:
        return _Answer(Verdict.REDIRECTED, f"redirected: {ending.status} on {when} to {ending.redirect}")
    if ending.failure_kind is None:
        return _Answer(Verdict.FETCHED, f"fetched: {ending.status} on {when}{where or ', page not archived'}")
    reason = Reason(ending.failure_kind) if ending.failure_kind in _WORDS else None
    said = f" ({ending.reason})" if ending.reason else ""
    if reason is not None and reason is not _DEADLY and COURSES.get(reason) in {Course.REFUSED, Course.CLOSED}:
        verdict = Verdict.EXCLUDED_LATER if reason in _OF_ADMISSION else Verdict.REFUSED
        queued = "it was queued, and the rules dropped it at its turn" if reason in _OF_ADMISSION else "dropped"
        words = "; ".join(filter(None, [f"{_REFUSALS.get(reason, str(reason))}{said}", blocked_advice(ending)]))
        return _Answer(verdict, f"refused: {words}; {queued} on {when}", Refused(reason, words))
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    if reason is Reason.INTERNAL_ERROR:
        words = f"an internal error of the crawler, not the site's fault{said}; the fetchers' log files have it"
        return _Answer(Verdict.FAILED, f"failed{tries}: {words}; dropped on {when}")
    if reason is Reason.MEDIA_TYPE:
        words = f"the server sent {ending.reason or 'a media type'}, which is not one of media_types ({media_types})"
        return _Answer(Verdict.FAILED, f"failed{tries}: {words}, on {when}{where}")
    detail = said if ending.status is None else ""
    return _Answer(Verdict.FAILED, f"failed{tries}: {what(ending)}{detail} on {when}{where}")


#: For those that end a lease; the words of the row itself follow.
_REFUSALS = {
    Reason.ROBOTS: "robots.txt disallows it",
    Reason.ROBOTS_UNREACHABLE: "its robots.txt did not come",
    Reason.CRAWL_DELAY: "its robots.txt asks for a longer Crawl-delay than max_crawl_delay",
    Reason.BLOCKED_ADDRESS: "its address or port is blocked",
    Reason.BLOCKED_SITE: "the exclude file listed its site",
    Reason.EXCLUDED: "it was excluded",
    Reason.DEPTH: "it is too far from a seed (max_depth)",
    Reason.HOPS: "too many redirects led to it (max_hops)",
    Reason.EXTENSION: "its path ends as skip_extensions has it",
    Reason.PATH_DEPTH: "its path has too many segments (max_path_segments)",
    Reason.PATH_REPEATS: "its path repeats itself (max_path_repeats)",
    Reason.NOT_INCLUDED: "include is not found in it",
}
