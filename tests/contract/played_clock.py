"""A clock that a test can put ahead: what ends by a time-out then ends when everything else has happened."""

import asyncio
import time

import pytest


class PlayedClock:
    """In place of the module `time` where time-outs are measured: real time, and as much more as the test says."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_seconds

    def advance(self, seconds: float) -> None:
        self.ahead_seconds += seconds


def client_clock(patched: pytest.MonkeyPatch) -> PlayedClock:
    """The clock of every `Client`, and of the visits that it fetches for."""
    clock = PlayedClock()
    for module in ("client", "exchange", "worker", "visits"):
        patched.setattr(f"gossamer.fetch.{module}.time", clock)
    return clock


def advance_loop(seconds: float) -> None:
    """Whatever the running loop was to call within so many seconds, it calls now. Once for each loop."""
    loop = asyncio.get_running_loop()
    loop.time = lambda: time.monotonic() + seconds  # type: ignore[method-assign]
