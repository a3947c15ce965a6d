"""How many bytes of bodies a fetcher holds in memory, and who waits when it is used up.

A body counts from the moment its bytes are received until they are in a segment file, or dropped; so do the bodies of
robots.txt. While the budget is used up, connections are not read: TCP holds the servers back.

    0 ──────────────── free_below_bytes ──────── small_below_bytes ──────── limit_bytes
      everybody reads                   small ones                the visit with the grant

Four rules keep pages flowing and exclude a dead-lock. Small bodies (up to the allowance) have a part of the
budget for themselves. One visit at a time, the one that has waited longest, has the grant: it may go on to its end, and
the reserve is large enough for everything that one visit can receive. The grant is given only when all of that still
fits, so finished bodies that wait for a slow store or disk never lead beyond the limit. And where so many bodies came
together that hardly any goes on, the youngest give up: their URLs go back, and nobody is charged for it.
"""

import asyncio
import heapq
from itertools import count
from typing import Literal, Protocol

from gossamer.config import ROBOTS_ALLOWANCE_BYTES, Settings
from gossamer.fetch.connection import BUFFER_BYTES

#: Nine of ten pages are smaller as received: they pass although large bodies wait.
ALLOWANCE_BYTES = 64 << 10
#: When who is next has waited so long, room is made for it.
PATIENCE_SECONDS = 5.0


class Reader(Protocol):
    """Who receives a body: an exchange."""

    fetch_type: Literal["page", "robots"]
    holder: object
    """The visit that it belongs to. A visit has one exchange at a time."""
    wait_number: int
    """0 before its first wait; later waits keep its place in the order."""
    is_waiting: bool
    waiting_since: float
    """Monotonic."""

    @property
    def body_bytes(self) -> int:
        """Received and counted so far."""

    def go_on(self) -> None:
        """Read again, now if there is anything to be read."""

    def give_up_waiting(self) -> None:
        """End without an answer."""


class ByteBudget:
    """One for each fetcher process; used on its event loop only.

    Exchanges ask for room and count what they receive; whoever drops a body or has written it gives its bytes back.
    """

    def __init__(
        self, limit_bytes: int, *, largest_body_bytes: int, readers: int, robots_bytes: int = ROBOTS_ALLOWANCE_BYTES
    ) -> None:
        """`readers` is the largest number of exchanges at once; `robots_bytes` is the most that a visit can receive
        beside its page."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.waits = 0
        """Number of times that a connection had to wait."""
        self._page_bytes = largest_body_bytes + BUFFER_BYTES
        self._visit_bytes = largest_body_bytes + robots_bytes
        self.allowance_bytes = max(1, min(ALLOWANCE_BYTES, limit_bytes // 8 // readers))
        self._small_below_bytes = limit_bytes - self._visit_bytes
        self.free_below_bytes = self._small_below_bytes - max(2 * self.allowance_bytes * readers, BUFFER_BYTES)
        self._granted: object = None
        self._granted_reader: Reader | None = None
        self._numbers = count(1)
        self._large: list[tuple[int, Reader]] = []
        self._small: list[tuple[int, Reader]] = []

    @property
    def waiting(self) -> int:
        """Connections that wait for room now."""
        return len(self._large) + len(self._small)

    def room(self, reader: Reader) -> int:
        """How many bytes it may read now; 0 if it has to wait: then `go_on` is called when there is room."""
        if reader.holder is self._granted:
            self._granted_reader = reader
            return BUFFER_BYTES
        if self.used_bytes < self.free_below_bytes:
            return BUFFER_BYTES
        is_small = reader.body_bytes < self.allowance_bytes
        if is_small and self._has_small_room():
            return self.allowance_bytes
        if self._granted is None and not self._large and not self._small and self._fits(reader):
            self._granted, self._granted_reader = reader.holder, reader
            return BUFFER_BYTES
        reader.wait_number = reader.wait_number or next(self._numbers)
        reader.is_waiting = True
        self.waits += 1
        heapq.heappush(self._small if is_small else self._large, (reader.wait_number, reader))
        return 0

    def ended(self, reader: Reader, *, is_kept: bool) -> None:
        """It receives no more. What it has received is dropped, or kept: then it is given back later."""
        if reader.is_waiting:
            # The heaps would keep it, with all that it has received.
            reader.is_waiting = False
            for heap in (self._large, self._small):
                heap[:] = [entry for entry in heap if entry[1] is not reader]
                heapq.heapify(heap)
        if reader is self._granted_reader:
            self._granted_reader = None
        # A visit that has read robots.txt goes on to its page, and keeps the grant until then.
        if reader.holder is self._granted and not (is_kept and reader.fetch_type == "robots"):
            self._granted = None
        self.give_back(0 if is_kept else reader.body_bytes)

    def delivered(self, holder: object) -> None:
        """The visit is over."""
        if holder is self._granted and holder is not None:
            self._granted = None
            self.give_back(0)

    def give_back(self, body_bytes: int) -> None:
        """So many bytes were written or dropped."""
        self.used_bytes = max(0, self.used_bytes - body_bytes)
        if self._large or self._small:
            self._wake()

    def crowded_out(self, now: float, open_bytes: int) -> list[Reader]:
        """Who has to give up, so that those that have waited longer come to their end.

        Hundreds of bodies that came together would each hold a small part, and only one would go on. If who is next has
        waited in vain, the youngest give up until it has room. `open_bytes` is what open exchanges hold; where most of
        the budget is held by finished bodies, it is the store or the disk that everybody waits for.
        """
        oldest = self._large[0][1] if self._large else None
        if oldest is None or now - oldest.waiting_since < PATIENCE_SECONDS or 2 * open_bytes < self.used_bytes:
            return []
        chosen: list[Reader] = []
        room_bytes = self._page_bytes
        for _, reader in sorted(self._large, reverse=True):
            if room_bytes <= 0 or reader is oldest:
                break
            chosen.append(reader)
            room_bytes -= reader.body_bytes
        return chosen

    def _has_small_room(self) -> bool:
        # What the visit with the grant receives comes out of the reserve.
        reserved_bytes = 0 if self._granted_reader is None else self._granted_reader.body_bytes
        return self.used_bytes - reserved_bytes + self.allowance_bytes <= self._small_below_bytes

    def _fits(self, reader: Reader) -> bool:
        """Whether all that its visit may still receive fits into the budget."""
        most_bytes = self._page_bytes if reader.fetch_type == "page" else self._visit_bytes
        return self.used_bytes + most_bytes - reader.body_bytes <= self.limit_bytes

    def _wake(self) -> None:
        """Those that have waited longest go on first. Each reads at once, so that what it reads is counted before the
        next one is asked."""
        while self.used_bytes < self.free_below_bytes and self._large:
            _go_on(self._large)
        while self._has_small_room() and self._small:
            _go_on(self._small)
        waiting = [heap for heap in (self._large, self._small) if heap]
        if self._granted is None and waiting:
            heap = min(waiting)
            reader = heap[0][1]
            if self._fits(reader):
                self._granted, self._granted_reader = reader.holder, reader
                _go_on(heap)


def _go_on(heap: list[tuple[int, Reader]]) -> None:
    """The first of a heap, which has waited longest."""
    _, reader = heapq.heappop(heap)
    reader.is_waiting = False
    reader.go_on()


def budget_for(settings: Settings) -> ByteBudget:
    """Raises UsageError if the budget is too small for the largest body."""
    settings.check()
    return ByteBudget(
        settings.fetch.max_in_flight_bytes,
        largest_body_bytes=settings.parse.max_body_bytes,
        readers=settings.fetch.fetcher_workers,
    )


def current_visit() -> object:
    """The worker task that runs now stands for its visit: it makes one at a time."""
    return asyncio.current_task()
