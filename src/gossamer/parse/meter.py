"""What a parser tells whoever measures it, as it happens. `run/meters.py` counts; in tests nobody does."""

from typing import Protocol

from gossamer.records import Outcome
from gossamer.sinks.sink import PageRecord


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


class Unmeasured:
    """Nobody measures."""

    def read(self, outcome: Outcome, page: PageRecord, seconds: float) -> None: ...

    def committed(self, seconds: float) -> None: ...

    def crashed(self) -> None: ...

    def damaged(self) -> None: ...


UNMEASURED = Unmeasured()
