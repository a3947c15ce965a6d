"""When this machine runs short of something: descriptors, ports, memory, disk."""

import logging
import time

from gossamer.fetch.meter import UNMEASURED, FetchMeter

_LOG = logging.getLogger("gossamer.fetch")

#: Long enough for some requests to end and give back what they hold.
_FIRST_PAUSE_SECONDS = 1.0
#: A shortage that lasts is somebody else's doing; looking again twice a minute costs nothing.
_LONGEST_PAUSE_SECONDS = 30.0


class Shortage:
    """Nothing is leased during a pause; each pause of an episode is twice as long as the one before.

    Workers report to it, the feeder asks it. It is never a site's fault, so no site hears of it.
    """

    def __init__(self, meter: FetchMeter = UNMEASURED) -> None:
        self._meter = meter
        self.failures = 0
        self.pauses = 0
        self.is_spool_stuck = False
        """Outcomes wait in memory for room on the disk: until it is there, nothing is added to them."""
        self._pause_seconds = 0.0
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        return self.is_spool_stuck or time.monotonic() < self._until

    @property
    def is_met(self) -> bool:
        """From the first failure to the end of the episode."""
        return self._pause_seconds > 0

    def met(self, detail: str) -> None:
        """A request failed by it. Those that were under way together make one pause."""
        self.failures += 1
        if self.is_on:
            return
        if not self._pause_seconds:
            _LOG.error("short of resources on this machine: %s; leasing pauses", detail)
        self._pause_seconds = min(max(2 * self._pause_seconds, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._until = time.monotonic() + self._pause_seconds
        self.pauses += 1
        self._meter.fell_short()

    def survived(self) -> None:
        """A request went through; after a pause that ends the episode."""
        if self._pause_seconds and not self.is_on:
            self._pause_seconds = 0.0
