"""One of several processes that work on one frontier at the same moment, and tells what it was given.

`python -m gossamer.testing.stores.crowd TASK` says "ready", waits for a line, and writes its `Story` at the end; the
task and the story are JSON. It offers URLs, most of which others offer too, then fetches nothing of them at great
speed: leases, releases, spools and finishes, without any delay, until everything is finished. Every now and then it
leaves with leases in its hands and frees its slots; whoever comes next takes them.
"""

import asyncio
import itertools
import random
import sys
import time

import msgspec

from gossamer.frontier.store import AdmitLimits, Store
from gossamer.records import Candidate, Destination, Finished, Lease, Move, Reason, Release
from gossamer.testing.stores.places import SharedFrontier
from gossamer.url import stable_hash

#: As many as a parser offers at once, and more than a fetcher leases.
ADMIT_BATCH = 500
LEASE_BATCH = 200
#: Turns of one process between two times that it looks for free slots, and between two times that it leaves.
TURNS_PER_LOOK = 4
TURNS_PER_LEAVING = 12
#: How long it is away then: long enough that others find its slots free.
AWAY_SECONDS = 0.05
#: Between two looks at a frontier in which nothing is due.
IDLE_SECONDS = 0.01
#: Longer than any test.
UNTIL_SECONDS = 3600.0


class Task(msgspec.Struct, frozen=True):
    """What one member of a crowd has to do. URL number n is the same for all of them."""

    frontier: SharedFrontier
    member: int
    members: int
    sites: int
    first: int
    """Of the URLs that it offers, round the end to the beginning."""
    offers: int
    total: int
    """URLs that all of them offer together."""


class Story(msgspec.Struct):
    """What happened to one member. URLs are told by their fingerprints."""

    new: list[int] = []
    leases: list[tuple[int, int, int, int]] = []
    """Number, fingerprint, attempt and returned of each lease."""
    spooled: list[int] = []
    tails: list[int] = []
    heads: list[int] = []
    refused: int = 0
    leavings: int = 0


def candidate(number: int, sites: int) -> Candidate:
    site = f"site{number % sites}.example"
    url = f"https://{site}/{number}"
    return Candidate(url, site, stable_hash(url))


class Member:
    """One process of a crowd."""

    def __init__(self, task: Task, store: Store) -> None:
        self._task = task
        self._store = store
        self._owner = f"member {task.member}"
        self._slots = range(task.frontier.slots)
        self._epochs: dict[int, int] = {}
        self._choice = random.Random(task.member)  # noqa: S311 (no secret)
        self._ahead = 0.0
        self.story = Story()

    async def work(self) -> Story:
        self._ahead = await self._store.now() - time.monotonic()
        await self._offer()
        await self._own(self._slots[self._task.member :: self._task.members])
        for turn in itertools.count(1):
            leases = await self._lease(turn)
            if not leases:
                if (await self._store.counts(now=self._now())).finished == self._task.total:
                    break
                await asyncio.sleep(IDLE_SECONDS)
            if turn % TURNS_PER_LEAVING == self._task.member:
                await self._leave()
            await self._spool(turn, leases)
            if turn % TURNS_PER_LOOK == 0 or not leases:
                await self._own(self._slots)
        await self._store.disown(self._owner)
        return self.story

    def _now(self) -> float:
        return time.monotonic() + self._ahead

    async def _offer(self) -> None:
        task = self._task
        numbers = [number % task.total for number in range(task.first, task.first + task.offers)]
        self._choice.shuffle(numbers)
        for begin in range(0, len(numbers), ADMIT_BATCH):
            batch = [candidate(number, task.sites) for number in numbers[begin : begin + ADMIT_BATCH]]
            answers = await self._store.admit(batch, AdmitLimits(), now=self._now())
            self.story.new += [
                offered.fingerprint for offered, answer in zip(batch, answers, strict=True) if answer is Reason.NEW
            ]

    async def _own(self, slots: range) -> None:
        now = self._now()
        self._epochs = await self._store.own(self._owner, slots, now=now, until=now + UNTIL_SECONDS, delay_seconds=0.0)

    async def _leave(self) -> None:
        """With what it holds; when it comes back, some of it is another's."""
        self.story.leavings += 1
        await self._store.disown(self._owner)
        self._epochs = {}
        await asyncio.sleep(AWAY_SECONDS)

    async def _lease(self, turn: int) -> list[Lease]:
        answer = await self._store.lease(
            f"{self._owner} {turn}", self._epochs, LEASE_BATCH, now=self._now(), delay_seconds=0.0, max_pages=0
        )
        self.story.leases += [
            (lease.number, lease.fingerprint, lease.attempt, lease.returned) for lease in answer.leases
        ]
        return answer.leases

    async def _spool(self, turn: int, leases: list[Lease]) -> None:
        story = self.story
        now = self._now()
        await self._store.release([Release(lease, True, now, lease.clock) for lease in leases])
        moves = [Move(lease, *self._way(lease)) for lease in leases]
        segment = f"{self._task.member}-{turn}"
        refused = await self._store.spool(segment, moves)
        story.refused += len(refused)
        taken = [move for move in moves if move.lease.number not in refused]
        spooled = [move.lease for move in taken if move.destination is Destination.PAGE]
        story.spooled += [lease.fingerprint for lease in spooled]
        story.tails += [move.lease.fingerprint for move in taken if move.destination is Destination.TAIL]
        story.heads += [move.lease.fingerprint for move in taken if move.destination is Destination.HEAD]
        await self._store.finish(
            [
                Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 7)
                for lease in spooled
            ]
        )

    def _way(self, lease: Lease) -> tuple[Destination, Reason]:
        """One in twenty fails once, and one in twenty is put back now and then."""
        if lease.fingerprint % 20 == 0 and not lease.attempt:
            return Destination.TAIL, Reason.DNS
        if lease.fingerprint % 20 == 1 and self._choice.random() < 0.5:
            return Destination.HEAD, Reason.BUSY
        return Destination.PAGE, Reason.PAGE


async def work(task: Task) -> Story:
    store = task.frontier.store()
    await store.open()
    try:
        return await Member(task, store).work()
    finally:
        await store.close()


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(msgspec.json.encode(asyncio.run(work(task))).decode() + "\n")


if __name__ == "__main__":
    main()
