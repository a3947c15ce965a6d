"""Back-pressure: how much waits for the parsers decides how fast the fetchers go on. Pure; chance is an argument."""

from collections.abc import Callable
from enum import StrEnum

from gossamer.config import SpoolSettings
from gossamer.spool.directory import Backlog

#: The pause just below the hard limit. With a batch of leases a second a fetcher is far below any speed that made the
#: backlog, and a second is also often enough to look whether it has gone.
LONGEST_PAUSE_SECONDS = 1.0


class State(StrEnum):
    """OPEN: go on. SOFT: go on more slowly. HARD: lease nothing."""

    OPEN = "open"
    SOFT = "soft"
    HARD = "hard"


class Pressure:
    """Above the soft limit it is SOFT; above the hard limit it is HARD, and stays so until it is below the soft one.

    Of pages and bytes the worse counts. A fetcher's feeder updates it, and waits as long as it says before it leases.
    """

    def __init__(
        self, settings: SpoolSettings, jitter: Callable[[], float], pressed: Callable[[State], None] | None = None
    ) -> None:
        """`jitter` gives numbers from 0 to 1, so that the fetchers of a crawl do not all wake at once; `pressed` hears
        when one of the limits is passed."""
        self._settings = settings
        self._jitter = jitter
        self._pressed = pressed
        self._fullness = 0.0
        self.state = State.OPEN
        self.soft_events = 0
        self.hard_events = 0

    def update(self, backlog: Backlog) -> None:
        settings = self._settings
        self._fullness = max(
            _fullness(backlog.pages, settings.soft_limit, settings.hard_limit),
            _fullness(backlog.bytes, settings.spool_bytes // 3, settings.spool_bytes),
        )
        state = self._next_state()
        if state is not self.state:
            # Whoever finds both limits passed has passed the soft one too.
            for passed in (State.SOFT, State.HARD) if (self.state, state) == (State.OPEN, State.HARD) else (state,):
                self.soft_events += passed is State.SOFT
                self.hard_events += passed is State.HARD
                if self._pressed is not None and passed is not State.OPEN:
                    self._pressed(passed)
            self.state = state

    def pause_seconds(self) -> float:
        """How long to wait before the next leases; if HARD, before looking again."""
        if self.state is State.OPEN:
            return 0.0
        share = 1.0 if self.state is State.HARD else self._fullness
        return LONGEST_PAUSE_SECONDS * share * (0.5 + self._jitter())

    def _next_state(self) -> State:
        if self._fullness <= 0:
            return State.OPEN
        if self._fullness > 1 or self.state is State.HARD:
            return State.HARD
        return State.SOFT


def _fullness(waiting: int, soft: int, hard: int) -> float:
    """0 at the soft limit and below, 1 at the hard one. A soft limit above the hard one has no say."""
    soft = min(soft, hard - 1)
    return max(0.0, (waiting - soft) / (hard - soft))
