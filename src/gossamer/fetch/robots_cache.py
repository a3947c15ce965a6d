"""The robots.txt of every origin that is being crawled: asked for once a day, compiled once, kept in bounded memory.

    known(origin), or remember(the store's copy), or ask(url)  ->  Standing  ->  a worker's verdict on each URL

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
from gossamer.fetch.robots_request import Heard, request_robots
from gossamer.fetch.robots_rules import Rules
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
    """What an origin's robots.txt comes to."""

    rules: Rules | None
    """None while there is no usable answer: nothing may be fetched."""
    expires_at: float
    """By the store's clock: from then on it has to be asked for again."""
    failures: int
    """In a row."""
    detail: str = ""
    """What was wrong with the last answer, for a person."""

    @property
    def is_given_up(self) -> bool:
        """Whether it failed so often that URLs are dropped instead of waiting for it; so a crawl can end."""
        return self.rules is None and self.failures >= ROBOTS_TRIES


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
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.asked = 0
        self._client = client
        self._clock = clock
        self._settings = settings
        self._save = save
        self._chance = chance
        self._standings: OrderedDict[str, Standing] = OrderedDict()
        self._rules = 0

    def known(self, origin: str) -> Standing | None:
        """What this process knows, expired or not."""
        standing = self._standings.get(origin)
        if standing is not None:
            self._standings.move_to_end(origin)
        return standing

    def remember(self, copy: RobotsCopy, detail: str = "") -> Standing:
        rules = parse(copy.body).for_agent(AGENT) if copy.access in _USABLE else None
        standing = Standing(rules, copy.expires_at, copy.failures, detail)
        self._forget(copy.origin)
        self._standings[copy.origin] = standing
        self._rules += _rule_count(standing)
        while len(self._standings) > ORIGINS_KEPT or (self._rules > RULES_KEPT and len(self._standings) > 1):
            self._forget(next(iter(self._standings)))
        return standing

    async def ask(self, url: Url, failures: int, answers: list[Answer]) -> Standing | Failure:
        """Ask the origin of a URL, which has failed to say so many times in a row before.

        A Failure says that the origin cannot be reached at all, which is no answer about robots.txt: nothing is kept.
        What was answered on the way is added to `answers`.
        """
        self.asked += 1
        heard = await request_robots(self._client, url, answers)
        if isinstance(heard, Failure):
            return heard
        now = self._clock.latest()
        if heard.access.value in _USABLE:
            copy = RobotsCopy(
                origin=url.origin,
                access=heard.access.value,
                body=heard.body,
                fetched_at=now,
                expires_at=now + COPY_LIMIT_SECONDS,
            )
        else:
            copy = RobotsCopy(
                origin=url.origin,
                access=heard.access.value,
                expires_at=now + self._hold_seconds(heard, failures),
                failures=failures + 1,
            )
        self._save(copy)
        return self.remember(copy, heard.detail)

    def _hold_seconds(self, heard: Heard, failures: int) -> float:
        if failures + 1 >= ROBOTS_TRIES:
            return COPY_LIMIT_SECONDS
        wish = None if heard.retry_after is None else retry_after_seconds(heard.retry_after, time.time())
        return robots_hold(failures, self._chance(), self._settings) if wish is None else wish

    def _forget(self, origin: str) -> None:
        standing = self._standings.pop(origin, None)
        if standing is not None:
            self._rules -= _rule_count(standing)


def _rule_count(standing: Standing) -> int:
    return 0 if standing.rules is None else standing.rules.rule_count
