"""The store's time, kept by each process with its own monotonic clock between two answers of the store.

Every answer of the store names its time as it was at some moment between our question and that answer. So the offset
from our monotonic clock is known as an interval, never as a number. What ended is dated by its late end, what begins by
its early one: then no gap between two requests is shortened by how long a call took, in this process or another.
"""

import time

from gossamer.frontier.store import Store

#: Clocks drift apart by some microseconds in this time, and a step of the server's clock is noticed soon enough.
SAMPLE_SECONDS = 10.0


class StoreClock:
    """The store's time by our monotonic clock: never more than one call's duration away from it.

    Fetchers sample it at each renewal of their slots; everyone in the process reads it.
    """

    def __init__(self) -> None:
        self._least = float("-inf")
        self._most = float("inf")

    def sample(self, now: float, *, asked_at: float, answered_at: float) -> None:
        """The store said `now` in answer to a call between these two monotonic times."""
        least, most = now - answered_at, now - asked_at
        if least <= self._most and most >= self._least:
            # Both are true, so what they have in common is: the quickest of many calls counts.
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most = least, most

    def earliest(self) -> float:
        """The store's time now, or a little before it: whether something may begin."""
        return time.monotonic() + self._least

    def latest(self) -> float:
        """The store's time now, or a little after it: when something has ended."""
        return time.monotonic() + self._most


class SampledClock:
    """The store's time for those who own no slots: parsers and the seed loader, which give it to `admit`.

    It samples by itself, as part of a call that needs the time; most calls find a sample that is young enough.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = StoreClock()
        self._sampled_at = float("-inf")

    async def earliest(self) -> float:
        """The store's time, or a little before it: then nothing that is admitted is due later than it was found."""
        asked_at = time.monotonic()
        if asked_at - self._sampled_at >= SAMPLE_SECONDS:
            now = await self._store.now()
            self._sampled_at = time.monotonic()
            self._clock.sample(now, asked_at=asked_at, answered_at=self._sampled_at)
        return self._clock.earliest()
