"""What a fetcher tells whoever measures it, as it happens. `run/meters.py` counts; in tests nobody does."""

from typing import Literal, Protocol

from gossamer.records import Answer, Outcome, PhaseTimes, Reason
from gossamer.spool.pressure import State

FetchType = Literal["page", "robots"]


class FetchMeter(Protocol):
    """Called on the way of every URL: it must not take more than some microseconds, and never raises."""

    def sent(self, fetch_type: FetchType) -> None:
        """A request has just been handed to its connection."""

    def answered(self, fetch_type: FetchType, answer: Answer) -> None: ...

    def failed(self, fetch_type: FetchType, reason: Reason, times: PhaseTimes) -> None:
        """There was no answer."""

    def delivered(self, outcome: Outcome) -> None:
        """What became of a lease."""

    def pressed(self, state: State) -> None:
        """Leasing is slowed down from now on, or waits."""

    def fell_short(self) -> None:
        """Leasing pauses for want of descriptors, ports, memory or room."""

    def erred(self) -> None:
        """A mistake of ours, at one URL."""


class Unmeasured:
    """Nobody measures."""

    def sent(self, fetch_type: FetchType) -> None: ...

    def answered(self, fetch_type: FetchType, answer: Answer) -> None: ...

    def failed(self, fetch_type: FetchType, reason: Reason, times: PhaseTimes) -> None: ...

    def delivered(self, outcome: Outcome) -> None: ...

    def pressed(self, state: State) -> None: ...

    def fell_short(self) -> None: ...

    def erred(self) -> None: ...


UNMEASURED = Unmeasured()
