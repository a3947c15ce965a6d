"""The robots.txt of every origin that is being crawled: asked for once a day, compiled once, kept in bounded memory.

    known(origin, url), or remember(the store's copy, url), or ask(url)  ->  Standing: may this URL be fetched?

Compiled rules are in this cache and nowhere else: what waits in a queue has only the verdict on its own URL. An origin
belongs to one site and a site has one lease at a time, so nobody asks for the same file twice at once. What was learnt
goes to the store as well, failures too: another process, or the next run, need not ask again. Where a file cannot be
had any more, the last good one goes on to count for a while (`robots.old_copy_until`).
"""

import random
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from gossamer.config import PolitenessSettings
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.robots import COPY_LIMIT_SECONDS, Access, is_old_copy_used, old_copy_until
from gossamer.fetch.robots_copies import Change
from gossamer.fetch.robots_file import SHORT_BYTES, RobotsReader, compiled
from gossamer.fetch.robots_request import Heard, RobotsLimits, request_robots
from gossamer.fetch.robots_rules import Rules, Verdict
from gossamer.frontier.politeness import ROBOTS_TRIES, retry_after_seconds, robots_hold
from gossamer.frontier.store_clock import StoreClock
from gossamer.records import Answer, RobotsCopy
from gossamer.url import Url

#: An empty file takes 1 kB, so these are thirty thousand origins; what is in work at a time are some hundred. The
#: largest file that is parsed takes less than this. What is forgotten is read from the store again.
CACHE_BYTES = 32 << 20
#: What an origin takes beside its rules.
_ORIGIN_BYTES = 400

_USABLE = frozenset({Access.PARSE.value, Access.ALLOW_ALL.value})
#: Of an origin that has no robots.txt: the rules of an empty file, once.
_NO_RULES = compiled(b"")


class Standing(msgspec.Struct, frozen=True):
    """What an origin's robots.txt comes to, for one URL."""

    verdict: Verdict | None
    """None while there is no usable answer: nothing may be fetched."""
    crawl_delay: float
    """Seconds; 0 if the file asks for none."""
    expires_at: float
    """By the store's clock: from then on it has to be asked for again."""
    failures: int
    """In a row."""
    detail: str = ""
    """What was wrong with the last answer, for a person."""
    busy_until: float = 0.0
    """By the store's clock: the origin has asked for no requests until then."""
    busy_answers: int = 0
    """In a row."""
    old_copy_until: float = 0.0
    """By the store's clock: until when the file that was read last serves if no other can be had; 0: there is none."""

    @property
    def is_given_up(self) -> bool:
        """Whether it failed so often that URLs are dropped instead of waiting for it; so a crawl can end."""
        return self.verdict is None and self.failures >= ROBOTS_TRIES


_NEVER_ASKED = Standing(None, 0.0, 0.0, 0)


class _Origin(msgspec.Struct):
    """What is kept of one origin."""

    rules: Rules | None
    """Of the last good answer."""
    is_usable: bool
    """Whether these rules count now."""
    expires_at: float
    failures: int
    detail: str
    busy_until: float
    busy_answers: int
    old_copy_until: float
    size_bytes: int

    def standing(self, url: str) -> Standing:
        rules = self.rules if self.is_usable else None
        return Standing(
            None if rules is None else rules.verdict(url),
            0.0 if rules is None else rules.crawl_delay or 0.0,
            self.expires_at,
            self.failures,
            self.detail,
            self.busy_until,
            self.busy_answers,
            self.old_copy_until,
        )


class RobotsCache:
    """The origins used last. The feeder and the workers of one process share it; `save` passes on what was learnt.

    No answer is never a permission.
    """

    def __init__(
        self,
        client: Client,
        clock: StoreClock,
        settings: PolitenessSettings,
        save: Callable[[RobotsCopy], None],
        change: Callable[[str, Change], None],
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.asked = 0
        self._client = client
        self._clock = clock
        self._settings = settings
        self._save = save
        self._change = change
        self._chance = chance
        self._reader = RobotsReader()
        self._origins: OrderedDict[str, _Origin] = OrderedDict()
        self._used_bytes = 0

    def known(self, origin: str, url: str) -> Standing | None:
        """What this process knows, expired or not, for a URL of that origin."""
        found = self._origins.get(origin)
        if found is None:
            return None
        self._origins.move_to_end(origin)
        return found.standing(url)

    @staticmethod
    def is_long(copy: RobotsCopy) -> bool:
        """Whether `remember` has to wait for a thread."""
        return len(copy.body) > SHORT_BYTES

    async def remember(self, copy: RobotsCopy, url: str) -> Standing:
        """Take in what the store has; the standing of a URL of its origin."""
        now = self._clock.latest()
        rules: Rules | None = None
        if copy.body and (copy.access in _USABLE or old_copy_until(copy) > now):
            rules = await self._reader.compile(copy.body)
        elif copy.access in _USABLE:
            rules = _NO_RULES
        is_usable = copy.access in _USABLE or is_old_copy_used(copy, now)
        return self._keep(copy, rules, is_usable=is_usable).standing(url)

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
        access, detail, rules, body = heard.access, heard.detail, None, b""
        if heard.answer is not None:
            read = await self._reader.read(heard.answer)
            rules, body, detail = read.rules, read.body, read.detail
            if rules is None:
                access = Access.DISALLOW_ALL
        elif access is Access.ALLOW_ALL:
            rules = _NO_RULES
        if rules is None:
            return self._failed(url, before or _NEVER_ASKED, heard, access, detail)
        now = self._clock.latest()
        copy = RobotsCopy(
            origin=url.origin,
            access=access.value,
            body=body,
            fetched_at=now,
            expires_at=now + COPY_LIMIT_SECONDS,
            busy_until=0.0 if before is None else before.busy_until,
            busy_answers=0 if before is None else before.busy_answers,
        )
        self._save(copy)
        return self._keep(copy, rules, detail).standing(url.text)

    def _failed(self, url: Url, before: Standing, heard: Heard, access: Access, detail: str) -> Standing:
        """No usable answer. The file that was read last serves for a while, unless the server asks for silence."""
        now = self._clock.latest()
        if heard.retry_after is not None:
            access = Access.BACK_OFF
        has_copy = before.old_copy_until > now
        known = self._origins.get(url.origin)
        rules = known.rules if has_copy and known is not None else None
        is_served = rules is not None and access is Access.DISALLOW_ALL
        # Failures while the old file served have kept nobody out, so they do not count towards giving the origin up.
        failures = before.failures if is_served or before.verdict is None else 0
        if is_served:
            # Nobody waits for it, so it is asked for less often than where everybody does.
            hold = robots_hold(failures + ROBOTS_TRIES, self._chance(), self._settings)
            expires_at = min(now + hold, before.old_copy_until)
        else:
            expires_at = now + self._hold_seconds(heard, failures)
        copy = RobotsCopy(
            origin=url.origin,
            access=access.value,
            expires_at=expires_at,
            failures=failures + 1,
            busy_until=before.busy_until,
            busy_answers=before.busy_answers,
        )
        if has_copy:
            # The store has its body, and keeps it.
            self._change(url.origin, {"access": access.value, "expires_at": expires_at, "failures": copy.failures})
        else:
            self._save(copy)
        kept = self._keep(copy, rules, detail, is_usable=is_served)
        kept.old_copy_until = before.old_copy_until
        if has_copy and rules is None:
            # Other origins have displaced its rules during the request; the next lease gets them from the store.
            self._forget(url.origin)
        return kept.standing(url.text)

    def note_busy(self, origin: str, until: float, answers: int) -> None:
        """Until when an origin asked for no requests, with so many busy answers in a row; 0 and 0 after a good one."""
        known = self._origins.get(origin)
        if known is not None:
            known.busy_until, known.busy_answers = until, answers
        self._change(origin, {"busy_until": until, "busy_answers": answers})

    def close(self) -> None:
        self._reader.close()

    def _keep(self, copy: RobotsCopy, rules: Rules | None, detail: str = "", *, is_usable: bool = True) -> _Origin:
        size_bytes = _ORIGIN_BYTES + 2 * len(copy.origin) + len(detail)
        if rules is not None and rules is not _NO_RULES:
            size_bytes += rules.size_bytes
        kept = _Origin(
            rules,
            is_usable,
            copy.expires_at,
            copy.failures,
            detail,
            copy.busy_until,
            copy.busy_answers,
            old_copy_until(copy),
            size_bytes,
        )
        self._forget(copy.origin)
        self._origins[copy.origin] = kept
        self._used_bytes += size_bytes
        while self._used_bytes > CACHE_BYTES:
            self._forget(next(iter(self._origins)))
        return kept

    def _hold_seconds(self, heard: Heard, failures: int) -> float:
        if failures + 1 >= ROBOTS_TRIES:
            return COPY_LIMIT_SECONDS
        wish = None if heard.retry_after is None else retry_after_seconds(heard.retry_after, time.time())
        return robots_hold(failures, self._chance(), self._settings) if wish is None else wish

    def _forget(self, origin: str) -> None:
        found = self._origins.pop(origin, None)
        if found is not None:
            self._used_bytes -= found.size_bytes
