"""What a parser tells whoever measures it, as it happens. `run/meters.py` counts; in tests nobody does."""

from typing import Protocol

import msgspec

from gossamer.records import Outcome
from gossamer.sinks.sink import PageRecord


class ParserStatistics(msgspec.Struct, kw_only=True):
    """Plain numbers since the parser started, for the leader."""

    pages: int = 0
    outcomes: int = 0
    """Pages included; both of whole segments."""
    links_found: int = 0
    links_nofollow: int = 0
    offered: int = 0
    """Candidates that the store was asked about."""
    admitted: int = 0
    """Those of them that were new."""
    refused: dict[str, int] = {}
    """Links and redirects that were not admitted, by reason; those that were seen before not among them."""
    commits: int = 0
    damaged_segments: int = 0
    failed_segments: int = 0
    """Set aside because they raised an exception, or parsers died on them. Damaged ones are not among them."""
    parse_crashes: int = 0
    disk_waits: int = 0
    """How often the disk was full, or descriptors were short; one for each time that lasted."""
    is_short: int = 0
    """1 while it waits for that."""


class ParseMeter(Protocol):
    """Called for every page: it must not take more than some microseconds, and never raises."""

    def read(self, outcome: Outcome, page: PageRecord, seconds: float) -> None:
        """A page was read, in this time."""

    def committed(self, seconds: float) -> None:
        """All that was read is on the disk and finished; that took this time."""

    def crashed(self) -> None:
        """A page kills whoever reads it."""

    def damaged(self) -> None:
        """A segment could not be read."""

    def failed(self) -> None:
        """A segment could be read, and was set aside all the same."""


class Unmeasured:
    """Nobody measures."""

    def read(self, outcome: Outcome, page: PageRecord, seconds: float) -> None: ...

    def committed(self, seconds: float) -> None: ...

    def crashed(self) -> None: ...

    def damaged(self) -> None: ...

    def failed(self) -> None: ...


UNMEASURED = Unmeasured()
