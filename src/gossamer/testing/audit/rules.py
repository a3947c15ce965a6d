"""What an auditor holds a crawler to, and what it asks of the web that was crawled."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from gossamer.fetch.robots import COPY_LIMIT_SECONDS
from gossamer.testing.web.policies import OUR_AGENT
from gossamer.testing.web.sites import Kind


class KnownLink(Protocol):
    """A link as the graph knows it."""

    @property
    def target(self) -> str | None: ...


class KnownAnswer(Protocol):
    """What the server answers to a URL, as far as an auditor asks."""

    @property
    def kind(self) -> Kind: ...
    @property
    def location(self) -> str | None: ...
    @property
    def text(self) -> str:
        """Of a robots.txt."""
        ...


class KnownWeb(Protocol):
    """What an auditor asks of a web: `gossamer.testing.web.graph.Web` answers, or any graph made by hand.

    It is asked for any URL, also for those that it does not know: they lead nowhere.
    """

    def is_known_site(self, site: str) -> bool: ...
    def reachable(
        self, seeds: Iterable[str], *, max_depth: int | None, same_sites_only: bool, files: bool
    ) -> AbstractSet[str]: ...
    def is_allowed(self, url: str) -> bool: ...
    def links(self, url: str) -> Sequence[KnownLink]: ...
    def answer(self, url: str) -> KnownAnswer: ...


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the crawler was told to do, and what it is forgiven."""

    seeds: Sequence[str]
    """Canonical URLs."""
    delay_seconds: float
    """Between the end of one request and the start of the next to a site; a higher Crawl-delay of one of its origins
    counts from the moment at which the crawler knows it."""
    user_agent: str = f"{OUR_AGENT}/"
    """A regular expression for the beginning of the User-Agent header, so a plain prefix will do."""
    is_partial: bool = False
    """The crawl was stopped before its end: what it did not fetch is no offence."""
    max_depth: int | None = None
    same_sites_only: bool = False
    files: bool = True
    """Whether what is not HTML by its name was to be requested as well."""
    other_sites: str = r"(?!)"
    """A regular expression for whole sites that are served besides the known graph: there only manners are judged."""
    repeats: int = 0
    """How many requests may be repeated although they were answered: what was in flight when a process was killed."""
    restarts: int = 0
    """How often a process that knew the robots.txt files was started anew; each may ask for every one once more."""
    robots_interval_seconds: float = COPY_LIMIT_SECONDS
    robots_failures: int = 10
    """How many requests for one robots.txt may go without a usable answer in one interval. Retries are welcome, but
    a site that fails must not be asked once per URL; ten spread over a day are more than any back-off needs."""
    abort_lateness_seconds: float = 0.25
    """How late a busy server may see that a client has left: a request that was cut off may have ended so much earlier
    than its record says. A whole answer needs no such allowance, for its record is never later than the client."""
