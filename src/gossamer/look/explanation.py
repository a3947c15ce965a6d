"""What `gossamer explain` says of a URL, as plain values: `explain.py` makes it, the command line prints it."""

from datetime import datetime
from enum import StrEnum

import msgspec

from gossamer.frontier.store import UrlState
from gossamer.look.attempts import Attempt
from gossamer.look.refusals import Refused
from gossamer.look.standings import RobotsStanding, SiteStanding
from gossamer.run.data_directory import PausedBy
from gossamer.sinks.sink import Place


class Verdict(StrEnum):
    """The answer in one word."""

    FETCHED = "fetched"
    """It is a page, and in the files."""
    REDIRECTED = "redirected"
    """The server sent us elsewhere."""
    FAILED = "failed"
    """It was tried, or its site was, and there is no page."""
    REFUSED = "refused"
    """A rule keeps it out: ours of admission, the server's in robots.txt, a bound. `refusal` says which."""
    EXCLUDED_LATER = "excluded-later"
    """It was admitted, and the rules of admission were against it at its turn, or will be."""
    QUEUED = "queued"
    BACKING_OFF = "backing-off"
    """Queued, and its site is waited for because it failed or asked for time."""
    LEASED = "leased"
    """A fetcher has it."""
    SPOOLED = "spooled"
    """It was asked for, and what came is not read or not committed yet."""
    FINISHED = "finished"
    """It is done with, and no file says how."""
    DUPLICATE = "duplicate"
    """What was typed is another spelling of a URL that is known; `canonical_verdict` is of that one."""
    ROBOTS_FILE = "robots-file"
    """It was asked for as a robots.txt, never as a page."""
    UNSEEN = "unseen"
    """It was never admitted, and no rule is against it."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `summary` is the answer in one line, and the others are why."""

    verdict: Verdict
    summary: str
    typed: str
    """Without a password, if one was typed."""
    url: str | None = None
    """The canonical form; None: there is none."""
    canonical_verdict: Verdict | None = None
    """Of `url`, where `verdict` is of what was typed."""
    is_running: bool | None = None
    """The crawl."""
    paused_by: PausedBy | None = None
    """The crawl, if it runs and is paused."""
    state: UrlState | None = None
    is_admitted: bool = False
    """At any time."""
    refusal: Refused | None = None
    """The rule that decided."""
    rules_now: Refused | None = None
    """What the rules of admission would say of it at this moment; None: nothing is against it."""
    depth: int | None = None
    hops: int | None = None
    is_seed: bool | None = None
    via: str | None = None
    attempt: int | None = None
    """Of a URL that waits or is held: which attempt the next one is, or the present one."""
    returned: int | None = None
    ahead: int | None = None
    """URLs of its site that stand before it."""
    turn_seconds: float | None = None
    """Its turn is not sooner than this, if those before it are asked for and nothing is put before it."""
    segment: str | None = None
    path_variants: int | None = None
    site: SiteStanding | None = None
    robots: RobotsStanding | None = None
    attempts: list[Attempt] = []
    fetched_at: datetime | None = None
    place: Place | None = None
    """Of its page, or of the last answer, in the archive."""
    notes: list[str] = []
    """What else is worth knowing, or cannot be known."""
