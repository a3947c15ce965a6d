"""How late an event loop is: what one task holds up, all others wait for.

A machine that is busy with something else makes a loop late as well, and that is nobody's fault. So two numbers are
kept: how late it was, and how much of that this process has spent computing.
"""

import asyncio
import logging
import time

log = logging.getLogger("gossamer.report")

#: How often it looks; a loop that is held up for less than this may be seen as late by less than it was.
LOOK_SECONDS = 0.25
#: Nothing that one page or one answer needs takes a tenth of this; from here on, time-outs and renewals suffer.
LATE_SECONDS = 1.0


class LoopLag:
    """Watches the loop that `watch` runs in, for ever; the two numbers are the most so far."""

    def __init__(self) -> None:
        self.most_seconds = 0.0
        self.most_own_seconds = 0.0
        """As far as this process was computing meanwhile."""

    async def watch(self) -> None:
        while True:
            began_at, used = time.monotonic(), time.process_time()
            await asyncio.sleep(LOOK_SECONDS)
            self.note(time.monotonic() - began_at - LOOK_SECONDS, time.process_time() - used)

    def note(self, late_seconds: float, used_seconds: float) -> None:
        own_seconds = min(late_seconds, used_seconds)
        self.most_seconds = max(self.most_seconds, late_seconds)
        self.most_own_seconds = max(self.most_own_seconds, own_seconds)
        if late_seconds >= LATE_SECONDS:
            log.warning("the event loop was %.2f s late, %.2f s of it by work of ours", late_seconds, own_seconds)

    def numbers(self) -> dict[str, int]:
        return {
            "loop_lag_ms_max": round(self.most_seconds * 1000),
            "loop_lag_own_ms_max": round(self.most_own_seconds * 1000),
        }
