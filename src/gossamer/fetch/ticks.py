"""When the fetcher exchanges with the store next.

Exchanges are a tick apart, so that one carries what ended in it. Where sites have no delay, or a shorter one than a
tick, waiting for its end would be all that a small crawl does: a server that answers in a millisecond would be asked 60
times a second. So a tick ends early when half of what was under way has ended and can be leased again at once: one
exchange then carries no less than half of what there is to carry. Sites with a longer delay never end a tick.
"""

import asyncio
from contextlib import suppress

#: Between two exchanges with the store. At a thousand pages a second one carries fifteen.
TICK_SECONDS = 0.015
#: The least that the loop's timers can count.
_SHORTEST_SECONDS = 0.001


class Ticks:
    """The workers say what ended; the fetcher says when a tick begins, and rests until it is over."""

    def __init__(self) -> None:
        self._soon = 0
        """Sites that were released since the tick began, and may be leased before it ends."""
        self._is_quick = False
        """Whether such sites were released, nothing was leased since, and asking again soon may help."""
        self._is_over = asyncio.Event()

    def begin(self) -> None:
        """Before the exchange: whatever ends during it belongs to the next one."""
        self._is_over.clear()
        self._is_quick = self._is_quick or self._soon > 0
        self._soon = 0

    def released(self, wait_seconds: float) -> None:
        """A site may be leased again after so long."""
        if wait_seconds < TICK_SECONDS:
            self._soon += 1

    def ended(self, under_way: int) -> None:
        """A worker is free again; so many leases have not ended yet."""
        if self._soon and self._soon >= under_way:
            self._is_over.set()

    async def rest(self, due_seconds: float, under_way: int) -> None:
        """Until the tick is over; a site may be leased after `due_seconds`, and so many leases have not ended yet."""
        seconds = TICK_SECONDS
        if under_way or due_seconds >= TICK_SECONDS:
            self._is_quick = False
        elif self._is_quick:
            # Nothing else will end, so there is nothing to gather.
            seconds = max(due_seconds, _SHORTEST_SECONDS)
            # A site that is due and was not leased may have become due during the call, or another call has it locked:
            # one more try shows which, and further ones would be a busy loop.
            self._is_quick = due_seconds > 0
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_over.wait()
