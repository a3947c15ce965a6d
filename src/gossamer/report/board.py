"""Where the leader puts what it measures, and where those who show it take it from, in whatever thread they are."""

import secrets
import time
from typing import Literal, Protocol

import msgspec

from gossamer.report.history import History
from gossamer.report.sample import Activity, Sample

State = Literal["running", "paused", "stopping", "finished"]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a run lasts."""

    version: str
    data_directory: str
    run: int
    started_at: float
    """Wall clock."""
    store: str
    """Without a password."""
    delay_seconds: float
    max_pages: int
    """0 is no limit."""
    max_duration_seconds: float
    """0 is no limit."""
    identity: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))
    """Of this run and no other, of any crawl: an address may be another run's the next moment."""


class End(msgspec.Struct, frozen=True):
    """A run that is over."""

    reason: str
    """As the summary has it (`run.stop.StopReason`), or `failed`: the log of the leader has why."""
    at: float
    """Wall clock."""


class Controls(Protocol):
    """What a person may do with a crawl that runs. May be called in any thread; each returns at once."""

    def pause(self) -> None:
        """No URL is leased until `resume`; what is in flight ends."""

    def resume(self) -> None: ...

    def stop(self) -> None:
        """As an interrupt does: nothing is lost, and the crawl can be resumed."""

    def block(self, site: str) -> None:
        """Ask nothing of this site any more, in this run and after. Raises UsageError for what is not a site."""


class Board:
    """The latest of everything. The leader alone writes; each attribute is replaced as a whole."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.state: State = "running"
        self.stop_reason = "failed"
        """The leader says why it stops when all has gone well; until then it would have failed."""
        self.end: End | None = None
        self.sample: Sample | None = None
        self.activity = Activity()
        self.exposition = b""
        """The metrics as Prometheus reads them, of the same moment as `sample`."""
        self.history = History()

    def put(self, sample: Sample, activity: Activity, exposition: bytes) -> None:
        self.history.add(sample)
        self.activity = activity
        self.exposition = exposition
        self.sample = sample

    def finish(self) -> None:
        """The last call: nothing is put here any more."""
        self.end = End(self.stop_reason, time.time())
        self.state = "finished"
