"""The Protocol: what every store guarantees. The stages know this file, and no store in particular.

A URL's states and who moves it:

    queued ──lease──► leased ──spool──► spooled ──finish──► finished
       ▲────────────────┘ spool (TAIL, LATER, HEAD), own (a dead holder's), unspool

Every verb is atomic, takes a batch, and may be called again after its reply was lost:

- `admit` answers SEEN where it answered NEW before; nothing is queued twice.
- `lease` with the same call id answers the same leases again, as long as they are still held.
- `release`, `spool` and `finish` know each lease by its number: what was moved by it already is left as it is.

Times are the store's: callers ask `now` now and then and go on with their monotonic clock from there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from gossamer.records import Candidate, Finished, Lease, Move, Reason, Release, RobotsCopy, SiteClock

#: Characters of a `via` that is kept with its URL. Longer ones are rare and would fill the queues, and a part of a URL
#: is none.
LONGEST_VIA = 500


class AdmitLimits(msgspec.Struct, frozen=True, gc=False):
    """The rules of admission that only the store can judge."""

    only_seeded_sites: bool = False
    site_queue: int = 1 << 62
    """Most URLs that may wait in one site's queue."""
    site_queue_bytes: int = 1 << 62
    """A URL is refused if a queue of one URL more, all of its length in UTF-8, would take more bytes than this. So no
    store has to keep a sum, short URLs still find room where long ones do not, and the URLs of one site's queue take at
    most `site_queue_bytes * (1 + ln(site_queue * longest / site_queue_bytes))` bytes together, where `longest` is the
    length of the longest URL: the one that was queued k-th of those that still wait is no longer than
    `site_queue_bytes / k`. What the store keeps with each URL (`via`, some 30 bytes) comes on top."""
    site_urls: int = 1 << 62
    """Most URLs of one site that are ever admitted. Seeds count, and are admitted beyond it."""
    path_variants: int = 1 << 62
    """Most URLs with one `path_fingerprint` that are ever admitted, of one site. Seeds likewise."""


class Leases(msgspec.Struct, frozen=True):
    """What `lease` gave, and when it is worth asking again."""

    leases: list[Lease]
    next_due_at: float | None
    """When the next site of these slots may be leased; None if none of them has anything queued, or the page budget is
    spent. None does not mean that the crawl is finished: what is leased or spooled may bring links."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Where all URLs are. Cheap to read however large the frontier is.

    `admitted` is read after `finished`, and both only grow: if they are equal, nothing is left to be done.
    """

    finished: int = 0
    admitted: int = 0
    leased: int = 0
    spooled: int = 0
    pages: int = 0
    received_bytes: int = 0
    outcomes: dict[str, int] = {}
    """Finished URLs by reason."""
    retries: dict[str, int] = {}
    """By reason, how often a leased URL went back."""
    sites: int = 0
    sites_busy: int = 0
    sites_waiting: int = 0
    """With something queued, and not busy."""
    sites_ready: int = 0
    """Those of the waiting that are due; counted up to 10,000."""

    @property
    def queued(self) -> int:
        return self.admitted - self.finished - self.leased - self.spooled


class UrlState(StrEnum):
    """Where a URL is."""

    UNSEEN = "unseen"
    """It was never admitted."""
    QUEUED = "queued"
    LEASED = "leased"
    SPOOLED = "spooled"
    FINISHED = "finished"


class SiteState(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a site, and of the slot that it is in."""

    name: str
    slot: int
    is_seeded: bool = False
    dropped: Reason | None = None
    """Why it was given up."""
    not_before: float = 0.0
    clock: SiteClock = SiteClock()
    queued: int = 0
    admitted: int = 0
    """URLs of it, ever."""
    is_busy: bool = False
    """One of its URLs is leased, and the site not released yet."""
    owner: str = ""
    """Of the slot; empty if it is free."""
    epoch: int = 0
    owned_until: float = 0.0
    """0 if the slot is free. An owner stays one after this, until another takes the slot."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """Where one URL was found."""

    state: UrlState
    site: SiteState | None = None
    """None if nothing of the site was ever admitted, and no seed offered."""
    ahead: int | None = None
    """Of a queued one: how many of its site stand before it. None if its queue changed faster than it could be read;
    then it is there, or was finished meanwhile."""
    lease: Lease | None = None
    """The URL as it is leased or spooled, or with number 0 as it waits; None if it was not found in any of these."""
    segment: str = ""
    """Of a spooled one."""
    path_variants: int = 0
    """How many URLs with its `path_fingerprint` were admitted; 0 if it has none, or its site was given up."""


class PoolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of one process to a store on a server."""

    created: int = 0
    """Open now; never more than the pool may have."""
    in_use: int = 0
    waiting: int = 0
    """Calls that wait for one."""
    taken: int = 0
    """How often a call has got one, ever."""
    waited_seconds: float = 0.0
    """How long calls have waited for one, ever, all together."""
    outages: int = 0
    """How often the server was away, or had no room."""


class Store(Protocol):
    """The frontier of one crawl, shared by all of its processes. Each process opens its own."""

    @property
    def is_full(self) -> bool:
        """Whether calls of this process wait for room in the store; they go on when there is some."""
        return False

    @property
    def is_away(self) -> bool:
        """Whether they wait for a server that does not answer; they go on when it does."""
        return False

    @property
    def pool(self) -> PoolUse:
        """Of the embedded store: none."""
        return PoolUse()

    async def open(self) -> None:
        """Connect, and create what is missing. Raises StoreUnavailable, or UsageError where it holds another crawl."""

    async def close(self) -> None:
        """Give back what `open` took. What was acknowledged stays."""

    async def begin_run(self, *, latest_not_before_seconds: float) -> int:
        """Called by the leader alone, before anything else: the number of this run, from 1.

        A site whose `not_before` lies further ahead than `latest_not_before_seconds` is brought back to there: a clock
        that once ran wild must not keep it closed for years.
        """

    async def now(self) -> float:
        """The store's time in seconds. It does not jump with the wall clock of one process."""

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        """Queue what was never seen. The answer to each, in order: NEW or SEEN, or the first of these that holds:
        SITE_DROPPED, SCOPE, SITE_FULL, PATH_VARIANTS, QUEUE_FULL.

        Only NEW marks it as seen, together with queueing it, and only NEW is counted for `site_urls` and
        `path_variants`. A seed makes its site a seeded one in any case. Wakes no site: its `not_before` never moves
        back. A site that is not leased and gets the first URL of its queue is due from `now` on at the earliest, so
        that sites are leased in the order in which they became due: new ones never come before those that are overdue.
        A `via` of more than `LONGEST_VIA` characters is not kept.
        """

    async def own(
        self, owner: str, slots: Collection[int], *, now: float, until: float, delay_seconds: float
    ) -> dict[int, int]:
        """Take or keep slots until a time; those that are the owner's now, with their epochs.

        A slot that is this owner's already keeps its epoch, even if its time had run out. One that is free, or whose
        owner's time ran out, gets a new epoch: what was leased under an older one goes back to the head of its queue,
        returned once more, and its site is closed until `now` plus its delay at least. Its last request counts as made
        `now`: nobody knows when it was, and a Crawl-delay that is learnt later counts from there. Others are not given.
        """

    async def disown(self, owner: str) -> None:
        """Free the slots of an owner that has left or is known to be dead. What it holds goes back when they are taken
        again."""

    async def lease(
        self,
        call: str,
        slots: Mapping[int, int],
        limit: int,
        *,
        now: float,
        delay_seconds: float,
        max_pages: int,
    ) -> Leases:
        """One URL each of up to `limit` sites that are due, have something queued and no lease, earliest first within
        a slot; their clocks move to `now` plus the delay (or the site's Crawl-delay, if that is longer). Slots take
        turns: the site that is due for longest waits for no more calls than there are slots.

        `slots` are slots with the epochs under which the caller owns them; those with another epoch give nothing.
        With `max_pages` over 0, no more than would keep pages + leased + spooled pages within it.
        """

    async def release(self, releases: Sequence[Release]) -> None:
        """Free the sites of leases; one that is no longer held under its number is left alone.

        The URL itself stays leased until `spool`. With `dropped`, what the site has queued is finished at once.
        """

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        """Move leased URLs to where their outcome sends them; the numbers of those that are not held any more.

        Those changed nothing. What this segment has spooled already is not refused.
        """

    async def finish(self, finished: Sequence[Finished]) -> None:
        """Spooled URLs are done with, and counted. Those that are not in that segment any more are left alone."""

    async def sync(self) -> None:
        """What was acknowledged so far, to any process, survives a power loss when this returns.

        On a server that is up to the server: it writes to its disk before it answers, or as late as it is set to. May
        raise OSError, and may be called again then.
        """

    async def segments(self) -> dict[str, int]:
        """The segments in which URLs are spooled, and how many in each."""

    async def spooled(self, segment: str) -> set[int]:
        """The numbers of the leases that are spooled in a segment."""

    async def unspool(self, segment: str) -> None:
        """The segment is lost: what was spooled in it goes back to the head of its queues, returned once more."""

    async def counts(self, *, now: float) -> Counts: ...

    async def vitals(self) -> dict[str, float]:
        """What its server says of its own state, by the names of the metrics; of one that tells nothing: nothing.

        Does not wait for a server that is away: then it is nothing, too.
        """
        return {}

    async def find(self, candidate: Candidate) -> Sighting:
        """Where a URL is; of the candidate, only site and fingerprints matter. Changes nothing, locks nothing.

        For a person, not for a stage: a long queue is read from its head on, piece by piece, which may take seconds.
        The crawl goes on meanwhile, so the answer is of one moment between call and return. A URL that is there all the
        time is found, also if it moves: what is held and the first thousands of its queue are read at one moment, and
        those that stand behind them stay where they are until they are read.
        """

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        """Of the sites that are known. Changes nothing, locks nothing."""

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        """Of the origins that are known."""

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        """Replaces what was known of their origins. Does not wait for room: a store that has none may leave out large
        copies, which are then asked for again."""
