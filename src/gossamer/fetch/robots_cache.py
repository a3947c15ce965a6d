"""The robots.txt of every origin that is being crawled: asked for once a day, compiled once, kept in bounded memory.

    known(origin, url), or remember(the store's copy), or ask(url)  ->  Standing of one URL  ->  its worker

An origin belongs to one site and a site has one lease at a time, so nobody asks for the same file twice at once. What
was learnt goes to the store as well, failures too: another process, or the next run, need not ask again.
"""

import random
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from gossamer.config import PolitenessSettings
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.robots import COPY_LIMIT_SECONDS, Access, parse
from gossamer.fetch.robots_request import Heard, RobotsLimits, request_robots
from gossamer.fetch.robots_rules import Rules, Verdict
from gossamer.frontier.politeness import ROBOTS_TRIES, retry_after_seconds, robots_hold
from gossamer.frontier.store_clock import StoreClock
from gossamer.records import Answer, RobotsCopy
from gossamer.url import Url

#: The product token of our User-Agent.
AGENT = "Gossamer"

#: The standing of an empty file takes 0.6 kB, so this is 12 MB. What is in work at a time are some hundred origins.
ORIGINS_KEPT = 20_000
#: A rule takes 0.2 kB, with wildcards 0.4 kB, so this is 20 MB at most, or one file of the largest that is parsed. What
#: is forgotten is read from the store again.
RULES_KEPT = 50_000

_USABLE = frozenset({Access.PARSE.value, Access.ALLOW_ALL.value})


class Standing(msgspec.Struct, frozen=True):
    """What an origin's robots.txt comes to for one URL, and what the origin itself has asked for."""

    verdict: Verdict | None
    """None while there is no usable answer: nothing may be fetched."""
    crawl_delay: float
    expires_at: float
    """By the store's clock: from then on it has to be asked for again."""
    failures: int
    """In a row."""
    detail: str = ""
    """What was wrong with the last answer, for a person."""
    busy_until: float = 0.0
    """By the store's clock: until then the origin asked for no requests."""
    busy_answers: int = 0
    """In a row."""

    @property
    def is_given_up(self) -> bool:
        """Whether it failed so often that URLs are dropped instead of waiting for it; so a crawl can end."""
        return self.verdict is None and self.failures >= ROBOTS_TRIES


class _Known(msgspec.Struct):
    rules: Rules | None
    expires_at: float
    failures: int
    detail: str
    busy_until: float
    busy_answers: int

    def standing(self, url: str) -> Standing:
        rules = self.rules
        return Standing(
            None if rules is None else rules.verdict(url),
            0.0 if rules is None else rules.crawl_delay or 0.0,
            self.expires_at,
            self.failures,
            self.detail,
            self.busy_until,
            self.busy_answers,
        )


class RobotsCache:
    """The standings used last. The feeder and the workers of one process share it; `save` passes on what was learnt.

    No answer is never a permission.
    """

    def __init__(
        self,
        client: Client,
        clock: StoreClock,
        settings: PolitenessSettings,
        save: Callable[[RobotsCopy], None],
        save_busy: Callable[[str, float, int], None],
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.asked = 0
        self._client = client
        self._clock = clock
        self._settings = settings
        self._save = save
        self._save_busy = save_busy
        self._chance = chance
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._rules = 0

    def known(self, origin: str, url: str) -> Standing | None:
        """What this process knows, expired or not."""
        known = self._known.get(origin)
        if known is None:
            return None
        self._known.move_to_end(origin)
        return known.standing(url)

    def remember(self, copy: RobotsCopy, url: str, detail: str = "") -> Standing:
        rules = parse(copy.body).for_agent(AGENT) if copy.access in _USABLE else None
        known = _Known(rules, copy.expires_at, copy.failures, detail, copy.busy_until, copy.busy_answers)
        self._forget(copy.origin)
        self._known[copy.origin] = known
        self._rules += _rule_count(known)
        while len(self._known) > ORIGINS_KEPT or (self._rules > RULES_KEPT and len(self._known) > 1):
            self._forget(next(iter(self._known)))
        return known.standing(url)

    async def ask(
        self, url: Url, before: Standing | None, answers: list[Answer], limits: RobotsLimits
    ) -> Standing | Failure:
        """Ask the origin of a URL, of which `before` was known.

        A Failure says that the origin cannot be reached at all, which is no answer about robots.txt: nothing is kept.
        What was answered on the way is added to `answers`.
        """
        self.asked += 1
        heard = await request_robots(self._client, url, answers, limits)
        if isinstance(heard, Failure):
            return heard
        now = self._clock.latest()
        failures = 0 if before is None else before.failures
        if heard.access.value in _USABLE:
            copy = RobotsCopy(
                origin=url.origin,
                access=heard.access.value,
                body=heard.body,
                fetched_at=now,
                expires_at=now + COPY_LIMIT_SECONDS,
                busy_until=0.0 if before is None else before.busy_until,
                busy_answers=0 if before is None else before.busy_answers,
            )
        else:
            copy = RobotsCopy(
                origin=url.origin,
                access=heard.access.value,
                expires_at=now + self._hold_seconds(heard, failures),
                failures=failures + 1,
                busy_until=0.0 if before is None else before.busy_until,
                busy_answers=0 if before is None else before.busy_answers,
            )
        self._save(copy)
        return self.remember(copy, url.text, heard.detail)

    def note_busy(self, origin: str, until: float, answers: int) -> None:
        """Until when an origin asked for no requests, with so many busy answers in a row; 0 and 0 after a good one."""
        known = self._known.get(origin)
        if known is not None:
            known.busy_until, known.busy_answers = until, answers
        self._save_busy(origin, until, answers)

    def _hold_seconds(self, heard: Heard, failures: int) -> float:
        if failures + 1 >= ROBOTS_TRIES:
            return COPY_LIMIT_SECONDS
        wish = None if heard.retry_after is None else retry_after_seconds(heard.retry_after, time.time())
        return robots_hold(failures, self._chance(), self._settings) if wish is None else wish

    def _forget(self, origin: str) -> None:
        known = self._known.pop(origin, None)
        if known is not None:
            self._rules -= _rule_count(known)


def _rule_count(known: _Known) -> int:
    return 0 if known.rules is None else known.rules.rule_count
