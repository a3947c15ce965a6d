"""The time of a store on a server: the server's clock, corrected for whenever somebody sets it.

The store's time is the server's clock plus an offset that stands in the store. A process that sees that sum run ahead
of, or behind, its own steady clock between two readings knows that the server's clock was set, and moves the offset by
as much. Between two runs nobody watches; then the steady clock of the machine that led the last run tells, if it was
not restarted since.
"""

import time

import msgspec

from gossamer.frontier.stores.boot import since_boot

#: A difference that no slow call and no drift between two readings, some seconds apart, explains.
JUMP_SECONDS = 2.0


class ClockFacts(msgspec.Struct, frozen=True):
    """What stands in the store."""

    offset: float = 0.0
    """Store's time less the server's clock."""
    latest: float = 0.0
    """The latest time that any owner of slots has named."""
    boot: int = 0
    """Of the machine that led the last run; see boot.py."""
    boot_offset: float = 0.0
    """Store's time less that machine's seconds since its start."""


def at_begin_of_run(facts: ClockFacts, server_seconds: float) -> ClockFacts:
    """The store's time goes on from where it was, whatever clocks were set to since; never back."""
    boot, seconds = since_boot()
    now = server_seconds + facts.offset
    if boot and boot == facts.boot:
        now = seconds + facts.boot_offset
    now = max(now, facts.latest)
    return ClockFacts(now - server_seconds, now, boot, now - seconds)


class ServerClock:
    """One process's view of it: `read` for each answer of the server to "what time is it"."""

    def __init__(self) -> None:
        self._least = float("-inf")
        """Of how far the store's time is ahead of `steady`."""
        self._most = float("inf")

    @staticmethod
    def steady() -> float:
        """Counts the machine's sleep where the system tells it."""
        return since_boot()[1] or time.monotonic()

    def read(self, now: float, *, asked_at: float, answered_at: float) -> float:
        """How far the offset is to be moved for the store's time to go on steadily; 0.0 almost always.

        `now` is the store's time that the server told between these two moments of `steady`.
        """
        least, most = now - answered_at, now - asked_at
        if least <= self._most and most >= self._least:
            # Both are true, so what they have in common is: the quickest of many calls counts.
            self._least, self._most = max(least, self._least), min(most, self._most)
            return 0.0
        if least <= self._most + JUMP_SECONDS and most >= self._least - JUMP_SECONDS:
            self._least, self._most = least, most
            return 0.0
        return (self._least + self._most) / 2 - (least + most) / 2
