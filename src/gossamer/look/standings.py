"""How the origin and the site of a URL stand at this moment: what robots.txt says, when it may be asked again. Pure."""

from enum import StrEnum

import msgspec
from msgspec.structs import replace

from gossamer.config import Settings
from gossamer.fetch.robots import Access, is_old_copy_used, parse
from gossamer.fetch.robots_file import AGENT
from gossamer.frontier.politeness import ROBOTS_TRIES
from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import SiteState
from gossamer.records import RobotsCopy
from gossamer.url import Url

_USABLE = frozenset({Access.PARSE.value, Access.ALLOW_ALL.value})


class RobotsAccess(StrEnum):
    """What robots.txt says of the URL."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    UNREACHABLE = "unreachable"
    """There is no usable answer, so nothing may be fetched."""
    NEVER_ASKED = "never-asked"


class RobotsStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the robots.txt of the URL's origin, and its verdict."""

    origin: str
    access: RobotsAccess
    reason: str = ""
    """`rule` and the like: which step of RFC 9309 decided."""
    line: int | None = None
    rule: str | None = None
    crawl_delay_seconds: float | None = None
    failures: int = 0
    """In a row, since the last usable answer."""
    is_given_up: bool = False
    """It failed so often that URLs are dropped instead of waiting for it."""
    age_seconds: float | None = None
    """Since the last usable answer."""
    is_old_copy: bool = False
    """The last answer was not usable, so the file of the answer before it decides for a while."""
    valid_seconds: float = 0.0
    """Until it is asked for again; negative: it has expired, and is asked for before the next request."""
    busy_seconds: float = 0.0
    """For how long yet the origin has asked for no requests; 0: it has not."""
    busy_answers: int = 0
    """In a row."""

    @property
    def is_fresh(self) -> bool:
        return self.valid_seconds > 0


class SiteStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the URL's site and of its slot."""

    name: str
    slot: int
    is_known: bool
    """False: no URL of it was ever admitted."""
    is_seeded: bool = False
    dropped: str | None = None
    queued: int = 0
    admitted: int = 0
    is_busy: bool = False
    wait_seconds: float = 0.0
    """Until it may be asked again; 0: now."""
    gap_seconds: float = 0.0
    """Between two requests to it, its Crawl-delay considered."""
    failures: int = 0
    """In a row."""
    since_request_seconds: float | None = None
    """Since the last request to it ended."""
    owner: str = ""
    """Of its slot; empty: nobody has it."""
    epoch: int = 0
    owned_seconds: float = 0.0
    """For how long yet; negative: its time has run out."""

    @property
    def waits_beyond_gap(self) -> bool:
        """It is waited for although its own gap is over: for a turn at its server address, or for a pause."""
        is_over = self.since_request_seconds is None or self.since_request_seconds >= self.gap_seconds
        return self.wait_seconds > 0 and not self.is_busy and not self.failures and is_over


def robots_standing(url: Url, copy: RobotsCopy | None, now: float) -> RobotsStanding:
    """What a fetcher would make of the copy that the store has."""
    if copy is None:
        return RobotsStanding(origin=url.origin, access=RobotsAccess.NEVER_ASKED)
    is_old_copy = is_old_copy_used(copy, now)
    is_usable = copy.access in _USABLE or is_old_copy
    standing = RobotsStanding(
        origin=url.origin,
        access=RobotsAccess.UNREACHABLE,
        failures=copy.failures,
        is_given_up=not is_usable and copy.failures >= ROBOTS_TRIES,
        age_seconds=now - copy.fetched_at if copy.fetched_at else None,
        is_old_copy=is_old_copy,
        valid_seconds=copy.expires_at - now,
        busy_seconds=max(0.0, copy.busy_until - now),
        busy_answers=copy.busy_answers,
    )
    if not is_usable:
        return standing
    rules = parse(copy.body).for_agent(AGENT)
    said = rules.verdict(url.text)
    return replace(
        standing,
        access=RobotsAccess.ALLOWED if said.allowed else RobotsAccess.DISALLOWED,
        reason="no-file" if copy.access == Access.ALLOW_ALL.value else str(said.reason),
        line=said.line,
        rule=said.rule,
        crawl_delay_seconds=rules.crawl_delay,
    )


def site_standing(url: Url, site: SiteState | None, settings: Settings, now: float) -> SiteStanding:
    """`site` is None if nothing is known of it."""
    delay_seconds = settings.politeness.delay_seconds
    if site is None:
        slot = slot_of(url.site, settings.url.slots)
        return SiteStanding(name=url.site, slot=slot, is_known=False, gap_seconds=delay_seconds)
    clock = site.clock
    return SiteStanding(
        name=site.name,
        slot=site.slot,
        is_known=True,
        is_seeded=site.is_seeded,
        dropped=site.dropped,
        queued=site.queued,
        admitted=site.admitted,
        is_busy=site.is_busy,
        wait_seconds=max(0.0, site.not_before - now),
        gap_seconds=max(delay_seconds, clock.crawl_delay_seconds),
        failures=clock.failures,
        since_request_seconds=now - clock.last_request_at if clock.last_request_at else None,
        owner=site.owner,
        epoch=site.epoch,
        owned_seconds=site.owned_until - now if site.owner else 0.0,
    )
