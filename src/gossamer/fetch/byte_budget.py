"""How many bytes of bodies a fetcher holds in memory, and who waits when it is used up.

A body counts from the moment its bytes are received until they are in a segment file, or dropped; so do the bodies of
robots.txt. While the budget is used up, connections are not read: TCP holds the servers back.

    0 ───────────────────── _large_below_bytes ──────── _small_below_bytes ──────── limit_bytes
      everybody, then grants                   small ones                  one grant

Below the first mark everybody reads. Beyond it, a body needs a grant, and those that have waited longest get them: a
grant sets aside all that its visit may still receive, so whoever has one comes to its end. Three rules keep pages
flowing and exclude a dead-lock. Small bodies (up to the allowance) have a part of the budget for themselves. If nobody
has a grant, one is given out of the reserve, which is large enough for any visit. And where so many bodies came
together that nobody can get one, the youngest give up: their URLs go back, and nobody is charged for it.
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

    @property
    def most_bytes(self) -> int:
        """The most that its body can have."""

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
        self.allowance_bytes = max(1, min(ALLOWANCE_BYTES, limit_bytes // 8 // readers))
        self._visit_bytes = largest_body_bytes + robots_bytes
        self._small_below_bytes = limit_bytes - self._visit_bytes
        self._large_below_bytes = self._small_below_bytes - max(2 * self.allowance_bytes * readers, BUFFER_BYTES)
        self.free_below_bytes = self._large_below_bytes
        """While less is in use, everybody may read; nobody need ask."""
        self._grants: dict[object, _Grant] = {}
        self._numbers = count(1)
        self._large: list[tuple[int, Reader]] = []
        self._small: list[tuple[int, Reader]] = []

    @property
    def waiting(self) -> int:
        """Connections that wait for room now."""
        return len(self._large) + len(self._small)

    def room(self, reader: Reader) -> int:
        """How many bytes it may read now; 0 if it has to wait: then `go_on` is called when there is room."""
        grant = self._grants.get(reader.holder)
        if grant is not None:
            grant.reader = reader
            return BUFFER_BYTES
        if self.used_bytes < self.free_below_bytes:
            return BUFFER_BYTES
        is_small = reader.body_bytes < self.allowance_bytes
        if is_small and self._has_small_room():
            return self.allowance_bytes
        if not self.waiting and self._grant(reader):
            return BUFFER_BYTES
        reader.wait_number = reader.wait_number or next(self._numbers)
        reader.is_waiting = True
        self.waits += 1
        heapq.heappush(self._small if is_small else self._large, (reader.wait_number, reader))
        self._set_mark()
        return 0

    def ended(self, reader: Reader, *, is_kept: bool) -> None:
        """It receives no more. What it has received is dropped, or kept: then it is given back later."""
        if reader.is_waiting:
            # The heaps would keep it, with all that it has received.
            reader.is_waiting = False
            for heap in (self._large, self._small):
                heap[:] = [entry for entry in heap if entry[1] is not reader]
                heapq.heapify(heap)
        grant = self._grants.get(reader.holder)
        if grant is not None:
            grant.reader = None
            # A visit that has read robots.txt goes on to its page, and keeps the grant until then.
            if not is_kept or reader.fetch_type == "page":
                del self._grants[reader.holder]
        self.give_back(0 if is_kept else reader.body_bytes)

    def delivered(self, holder: object) -> None:
        """The visit is over."""
        if self._grants and self._grants.pop(holder, None) is not None:
            self.give_back(0)

    def give_back(self, body_bytes: int) -> None:
        """So many bytes were written or dropped."""
        self.used_bytes = max(0, self.used_bytes - body_bytes)
        if self._large or self._small or self.free_below_bytes != self._large_below_bytes:
            self._wake()

    def crowded_out(self, now: float, open_bytes: int) -> list[Reader]:
        """Who has to give up, so that who is next and has waited in vain gets a grant.

        `open_bytes` is what open exchanges hold; where most of the budget is held by finished bodies, it is the store
        or the disk that everybody waits for.
        """
        if not self._large or 2 * open_bytes < self.used_bytes:
            return []
        first = self._large[0][1]
        missing_bytes = self._with_grant(first) - self._large_below_bytes
        others = [reader for _, reader in sorted(self._large, reverse=True) if reader is not first]
        if now - first.waiting_since < PATIENCE_SECONDS or sum(one.body_bytes for one in others) < missing_bytes:
            return []
        chosen: list[Reader] = []
        for reader in others:
            if missing_bytes <= 0:
                break
            chosen.append(reader)
            missing_bytes -= reader.body_bytes
        return chosen

    def _set_aside(self) -> int:
        """What is in use by those without a grant, and all that is set aside for the others."""
        return self.used_bytes + sum(grant.most_bytes - grant.body_bytes for grant in self._grants.values())

    def _has_small_room(self) -> bool:
        # Without a grant, the reserve for one stays untouched.
        most_bytes = self.limit_bytes if self._grants else self._small_below_bytes
        return self._set_aside() + self.allowance_bytes <= most_bytes

    def _with_grant(self, reader: Reader) -> int:
        return self._set_aside() + self._most_bytes(reader) - reader.body_bytes

    def _most_bytes(self, reader: Reader) -> int:
        return self._visit_bytes if reader.fetch_type == "robots" else reader.most_bytes + BUFFER_BYTES

    def _grant(self, reader: Reader) -> bool:
        """Give it a grant, if all that its visit may still receive fits into the budget."""
        if self._with_grant(reader) > (self._large_below_bytes if self._grants else self.limit_bytes):
            return False
        self._grants[reader.holder] = _Grant(self._most_bytes(reader), reader)
        self._set_mark()
        return True

    def _wake(self) -> None:
        """Those that have waited longest go on first. Each reads at once, so that what it reads is counted before the
        next one is asked."""
        while self.waiting:
            heap = min(heap for heap in (self._large, self._small) if heap)
            if not self._grant(heap[0][1]):
                break
            _go_on(heap)
        while self._small and self._has_small_room():
            _go_on(self._small)
        self._set_mark()

    def _set_mark(self) -> None:
        grants_bytes = sum(grant.most_bytes for grant in self._grants.values())
        self.free_below_bytes = 0 if self._large else max(0, self._large_below_bytes - grants_bytes)


class _Grant:
    """What is set aside for one visit, and who receives it now."""

    __slots__ = ("most_bytes", "reader")

    def __init__(self, most_bytes: int, reader: Reader | None) -> None:
        self.most_bytes = most_bytes
        self.reader = reader

    @property
    def body_bytes(self) -> int:
        return 0 if self.reader is None else self.reader.body_bytes


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
