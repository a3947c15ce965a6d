"""What crosses a process boundary: between a stage and the store, and from fetchers to parsers through the spool.

    Candidate ──admit──► (queued) ──lease──► Lease ──fetch──► Outcome ──spool──► Move, ──parse──► Finished
                                                └──────────────────────────────► Release, of its site

All are frozen and made of plain values, so that one codec (msgpack, by position) serves the spool and the stores.
"""

from enum import StrEnum

import msgspec


class Reason(StrEnum):
    """Why a candidate was not admitted, or what became of a leased URL. The words of counts, logs and metrics."""

    # What came, and was kept.
    PAGE = "page"
    REDIRECT = "redirect"
    # What went wrong on the wire; the failure kinds.
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"
    TOO_LARGE = "too-large"
    STATUS = "status"
    BUSY = "busy"
    MEDIA_TYPE = "media-type"
    BLOCKED_ADDRESS = "blocked-address"
    ROBOTS = "robots"
    ROBOTS_UNREACHABLE = "robots-unreachable"
    CRAWL_DELAY = "crawl-delay"
    SITE_FAILING = "site-failing"
    RETURNED = "returned"
    OUR_SHORTAGE = "our-shortage"
    INTERNAL_ERROR = "internal-error"
    ORIGIN_HELD = "origin-held"
    SERVER_ADDRESS = "server-address"
    STOPPED = "stopped"
    PARSE_CRASH = "parse-crash"
    # Why a reference or a candidate is not admitted.
    NOT_A_URL = "not-a-url"
    SCHEME = "scheme"
    TOO_LONG = "too-long"
    EXTENSION = "extension"
    DEPTH = "depth"
    HOPS = "hops"
    SCOPE = "scope"
    NOT_INCLUDED = "not-included"
    EXCLUDED = "excluded"
    BLOCKED_SITE = "blocked-site"
    PATH_DEPTH = "path-depth"
    PATH_REPEATS = "path-repeats"
    LINK_BYTES = "link-bytes"
    # The store's own answers to a candidate.
    NEW = "new"
    SEEN = "seen"
    QUEUE_FULL = "queue-full"
    SITE_FULL = "site-full"
    PATH_VARIANTS = "path-variants"
    SITE_DROPPED = "site-dropped"


class Result(StrEnum):
    """What became of a leased URL, in one word; a `Reason` says more."""

    DONE = "done"
    RETRY = "retry"
    DROPPED = "dropped"


class Candidate(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A canonical URL that was found and passed the rules; the store decides whether it is new."""

    url: str
    site: str
    fingerprint: int
    depth: int = 0
    hops: int = 0
    """Redirects that led here since the last page or seed."""
    is_seed: bool = False
    """A seed, or where one was redirected to: its site counts as seeded."""
    at_head: bool = False
    path_fingerprint: int = 0
    """What it shares with the other variants of its path (`frontier/traps.py`); 0 if it is the path itself."""
    via: str = ""
    """Where it was found: the page that links to it, or what was redirected to it; empty for a seed."""


class SiteClock(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the store remembers of a site for its politeness; times are the store's."""

    last_request_at: float = 0.0
    """When the last request to it ended; 0 if there was none."""
    crawl_delay_seconds: float = 0.0
    """The highest Crawl-delay of its origins so far."""
    failures: int = 0
    """In a row, of the site as a whole."""


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One URL of one site, handed to the owner of its slot. `number` names this lease and never another one."""

    number: int
    slot: int
    epoch: int
    url: str
    site: str
    fingerprint: int
    depth: int
    hops: int
    is_seed: bool
    attempt: int
    """How often it was tried and went back to the tail."""
    returned: int
    """How often it came back because its holder died or its segment was lost."""
    clock: SiteClock = SiteClock()
    via: str = ""


class Release(msgspec.Struct, frozen=True, gc=False):
    """A site is free again. Nothing after this touches its clock until its next lease."""

    lease: Lease
    was_requested: bool
    """False: nothing but robots.txt was asked for, so the clock stands where it stood before the lease."""
    not_before: float
    """The earliest next request; never moves the clock back."""
    clock: SiteClock
    """Replaces the one that the lease came with."""
    dropped: Reason | None = None
    """The site is given up: what is queued is finished with this reason, and nothing more is admitted to it."""


class Destination(StrEnum):
    """Where a leased URL goes."""

    PAGE = "page"
    """Spooled, and will count as a page if it is committed."""
    OUTCOME = "outcome"
    """Spooled, no page."""
    TAIL = "tail"
    """Back into its queue, one attempt more."""
    LATER = "later"
    """Back to the tail of its queue, attempt unchanged: nothing was requested."""
    HEAD = "head"
    """Back to where it was taken from, as it was."""


class Move(msgspec.Struct, frozen=True, gc=False):
    """One leased URL leaves its lease."""

    lease: Lease
    destination: Destination
    reason: Reason
    """Counted for those that go back."""


class Finished(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A spooled URL whose outcome is committed and whose links are admitted."""

    segment: str
    number: int
    """Of its lease."""
    slot: int
    site: str
    fingerprint: int
    reason: Reason
    """`PAGE` counts as a page."""
    received_bytes: int


class PhaseTimes(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Seconds that each phase of one request took; None where it was not reached."""

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    first_byte: float | None = None
    """From the request sent to the head of the answer."""
    total: float = 0.0


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a server answered to one request, as an archive keeps it."""

    url: str
    fetched_at: float
    """Wall clock, when the request began."""
    request: bytes
    """As it was sent."""
    status_line: bytes
    """As it came, without its end; what would end a line within it is a space, as in the headers."""
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """In the order and case in which they came."""
    body: bytes
    """Without chunks, still in its content encoding."""
    truncated: str = ""
    """Why the body is not whole: `length`, `time` or `disconnect`; empty if it is."""
    is_declined: bool = False
    """The body was not downloaded: its media type is none of those that are wanted."""
    address: str = ""
    """The numeric one that was judged, before any rewriting."""
    tls: str = ""
    """The version of the protocol, such as `TLSv1.3`; empty without."""
    is_verified: bool = False
    """Whether the certificate was verified."""
    times: PhaseTimes = PhaseTimes()

    def header(self, name: bytes) -> bytes | None:
        """The first header of that name (given in lower case)."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def location(self) -> str | None:
        """What its Location header says. Letters beyond ASCII are UTF-8 there, as browsers have it; what is not is
        taken byte by byte."""
        value = self.header(b"location")
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of one lease, as it travels through the spool."""

    lease: Lease
    result: Result
    reason: Reason
    fetched_at: float
    """Wall clock, when the request began."""
    detail: str = ""
    """For a person: what exactly failed, which rule decided."""
    answer: Answer | None = None
    address: str = ""
    """The numeric one that answered, or that was tried last."""
    times: PhaseTimes = PhaseTimes()
    robots: tuple[Answer, ...] = ()
    """What was said when robots.txt was asked for on the way, redirects included."""

    @property
    def is_page(self) -> bool:
        return self.reason is Reason.PAGE

    @property
    def body_bytes(self) -> int:
        return 0 if self.answer is None else len(self.answer.body)


class RobotsCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one origin's robots.txt, as the store keeps it."""

    origin: str
    access: str
    """A value of `fetch.robots.Access`: what the last answer meant."""
    body: bytes = b""
    """Of the last good answer."""
    fetched_at: float = 0.0
    """When the last good answer came, by the store's clock."""
    expires_at: float = 0.0
    """When it is to be asked for again."""
    failures: int = 0
    """In a row, since the last good answer."""
    busy_until: float = 0.0
    """Store time until which the origin has asked for no requests (429, 503, Retry-After); 0 if it has not."""
    busy_answers: int = 0
    """Busy answers in a row."""
