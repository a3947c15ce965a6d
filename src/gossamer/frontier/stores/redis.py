"""The store on a Redis or Valkey server: the frontier in its memory, changed by Lua scripts, one for each verb.

redis_pool.py          connections
redis_server.py        scripts by name; what errors mean
redis_codec.py         what travels, and how it is packed
redis_scripts/         the verbs themselves; common.lua says which keys there are
redis_queues.py        the tails of long queues, which stand in files
redis_looking.py       what is known of one URL, of sites
redis_examination.py   versions and settings; what is on a server, and how it is removed
"""

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gossamer.errors import UsageError
from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import AdmitLimits, Counts, Leases, PoolUse, Sighting, SiteState, Store
from gossamer.frontier.stores import redis_codec as codec
from gossamer.frontier.stores.entries import lease_of
from gossamer.frontier.stores.examination import refuse, refuse_volatile
from gossamer.frontier.stores.redis_examination import DURABILITY, settings_of
from gossamer.frontier.stores.redis_keys import CRAWLS_KEY, VERSION, check_crawl, header_key, meta_key
from gossamer.frontier.stores.redis_looking import RedisLooking
from gossamer.frontier.stores.redis_pool import Reply, packed
from gossamer.frontier.stores.redis_queues import Queues
from gossamer.frontier.stores.redis_server import RedisServer
from gossamer.frontier.stores.redis_vitals import vitals
from gossamer.frontier.stores.robots_copies import decode_robots, encode_robots
from gossamer.frontier.stores.server import Connecting
from gossamer.frontier.stores.server_clock import ClockFacts, ServerClock, at_begin_of_run
from gossamer.records import Candidate, Finished, Lease, Move, Reason, Release, RobotsCopy
from gossamer.units import counted

#: URLs of one call of a script, some 4 ms in which the server does nothing else.
BATCH = 1_000
#: The same of `admit`, some 6 ms. Most URLs come by it, and larger steps are cheaper for both sides.
ADMIT_BATCH = 2_000
#: Slots of one call of `own`: each may have to take back what somebody held.
OWN_SLOTS = 16
#: Sites of one step of a clamp.
CLAMP_SITES = 500
#: Counting more sites than these that are due is of no use to anyone.
MOST_READY = 10_000
#: How often `now` corrects the clock before it takes it as it is: one correction is enough, unless several processes
#: see the jump at the same moment.
CLOCK_READINGS = 3

T = TypeVar("T")


class RedisStore(Store):
    """One handle on the frontier of a crawl, of one process.

    A verb with many URLs is cut into steps, and each URL's part of it is atomic. The server writes its append-only file
    before it answers, so what was acknowledged outlives it as far as its `appendfsync` says.
    """

    def __init__(self, connecting: Connecting, *, queues: Path, queue_in_memory: int = 10_000) -> None:
        check_crawl(connecting.crawl)
        self._connecting = connecting
        self._slots = connecting.slots
        self._server = RedisServer(
            connecting.url,
            connecting.crawl,
            pool=connecting.pool,
            note_connection=connecting.note_connection,
            client_name=f"gossamer-{connecting.crawl}",
            # Nothing is lost by who looks and gives up.
            patience_seconds=connecting.patience_seconds if connecting.is_reader else None,
        )
        self._headers = [packed(header_key(connecting.crawl, slot)) for slot in range(connecting.slots)]
        self._meta = [packed(meta_key(connecting.crawl))]
        self._queue_in_memory = queue_in_memory
        self._queues = Queues(self._server, self._headers, queues, queue_in_memory)
        self._looking = RedisLooking(self._server, self._headers, self._queues)
        self._clock = ServerClock()
        self._turn = 0

    @property
    def is_full(self) -> bool:
        return self._server.is_full

    @property
    def is_away(self) -> bool:
        return self._server.is_away

    @property
    def pool(self) -> PoolUse:
        return self._server.pool

    async def open(self) -> None:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        connecting = self._connecting
        known = await (self._known() if connecting.is_reader else self._created())
        if known is None:
            raise self._server.gone()
        version, slots = map(int, known)
        if version != VERSION:
            raise UsageError(
                f"the frontier of crawl {connecting.crawl} on {self._server.name} is not one of this version of"
                " Gossamer: resume with the version that made it, or start a new crawl"
            )
        if slots != self._slots:
            raise UsageError(
                f"the frontier of crawl {connecting.crawl} on {self._server.name} was created with"
                f" {counted(slots, 'slot')}, not {self._slots}: the number is fixed when a crawl is created"
            )

    async def _created(self) -> Reply:
        """Version and slots of the frontier, which is made if it may be; None if it is not there."""
        connecting = self._connecting
        findings = await settings_of(self._server, patience_seconds=connecting.patience_seconds)
        if not connecting.is_unsafe:
            refuse(self._server.name, findings)
        if connecting.is_durable:
            refuse_volatile(self._server.name, findings, DURABILITY)
        return await self._server.run(
            "open",
            "create",
            [*self._meta, packed(CRAWLS_KEY), *self._headers],
            connecting.crawl.encode(),
            b"%d" % self._slots,
            b"%d" % VERSION,
            connecting.created_by.encode(errors="replace"),
            b"1" if connecting.may_create else b"0",
            patience_seconds=connecting.patience_seconds,
        )

    async def _known(self) -> Reply:
        """The same for a reader, to whom the settings of the server do not matter."""
        known = await self._server.ask("open", b"HMGET", meta_key(self._connecting.crawl), b"version", b"slots")
        return None if None in known else known

    async def close(self) -> None:
        await self._queues.close()
        await self._server.close()

    async def begin_run(self, *, latest_not_before_seconds: float) -> int:
        seconds, offset, latest, boot, boot_offset = await self._facts("begin_run")
        facts = at_begin_of_run(ClockFacts(float(offset), latest, boot, boot_offset), seconds)
        word = uuid.uuid4().hex
        times = (facts.offset, facts.latest, facts.boot, facts.boot_offset)
        run = await self._server.run("begin_run", "begin_run", self._meta, word.encode(), *map(_decimals, times))
        closed_until = facts.latest + latest_not_before_seconds
        for header in self._headers:
            cursor = b"0"
            while True:
                cursor = await self._server.run(
                    "begin_run", "clamp", [header], _decimals(closed_until), cursor, b"%d" % CLAMP_SITES
                )
                if cursor == b"0":
                    break
        self._clock = ServerClock()  # the offset was moved, on purpose
        return int(run)

    async def _facts(self, verb: str) -> tuple[float, bytes, float, int, float]:
        """The server's clock, and the facts of the store's; the offset as it is written there."""
        seconds, micros, offset, latest, boot, boot_offset = await self._server.run(verb, "clock", self._meta)
        return int(seconds) + int(micros) / 1e6, offset, float(latest), int(boot), float(boot_offset)

    async def now(self) -> float:
        now = 0.0
        for _ in range(CLOCK_READINGS):
            asked_at = self._clock.steady()
            seconds, offset, *_ = await self._facts("now")
            now = seconds + float(offset)
            shift = self._clock.read(now, asked_at=asked_at, answered_at=self._clock.steady())
            if not shift or self._connecting.is_reader:
                break
            await self._server.run("now", "move_clock", self._meta, offset, _decimals(float(offset) + shift))
        return now

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        reasons = [Reason.NEW] * len(candidates)
        rules = (
            float(now),
            limits.only_seeded_sites,
            limits.site_queue,
            limits.site_queue_bytes,
            limits.site_urls,
            limits.path_variants,
        )
        if not candidates:
            return reasons
        # One after the other: what a site gets in two steps is queued in their order.
        for step in codec.steps(candidates, self._slots, ADMIT_BATCH):
            refused = await self._server.run(
                "admit",
                "admit",
                [self._headers[slot] for slot in step.slots],
                codec.encode((*rules, self._queue_in_memory, step.groups)),
                step.entries,
            )
            codec.answers(step, refused, reasons)
        return reasons

    async def own(
        self, owner: str, slots: Collection[int], *, now: float, until: float, delay_seconds: float
    ) -> dict[int, int]:
        owned: dict[int, int] = {}
        arguments = codec.encode((owner, float(now), float(until), float(delay_seconds)))
        for step in _steps(list(slots), OWN_SLOTS):
            epochs = await self._run("own", "own", step, arguments)
            owned.update((slot, epoch) for slot, epoch in zip(step, epochs, strict=True) if epoch >= 0)
        if slots:
            await self._server.run("own", "note_time", self._meta, _decimals(now))
            # Here, because owners call every few seconds.
            await self._run("own", "forget_calls", range(self._slots))
        self._queues.serve(owned)
        return owned

    async def disown(self, owner: str) -> None:
        await self._run("disown", "disown", range(self._slots), owner.encode())

    async def lease(
        self,
        call: str,
        slots: Mapping[int, int],
        limit: int,
        *,
        now: float,
        delay_seconds: float,
        max_pages: int,
    ) -> Leases:
        if not slots:
            return Leases([], None)
        # Another slot is the first each time, so that none is always last.
        self._turn += 1
        turn = self._turn % len(slots)
        wanted = [*slots][turn:] + [*slots][:turn]
        epochs = [slots[slot] for slot in wanted]
        arguments = codec.encode(
            (call, limit, float(now), float(delay_seconds), max_pages, self._slots, wanted, epochs)
        )
        tried: dict[bytes, int] = {}
        while True:
            next_due_at, needed, leased = await self._run("lease", "lease", wanted, arguments)
            if not needed:
                break
            await self._queues.put_in_place(wanted, needed, tried)
        return Leases(_leases(leased, wanted, epochs), float(next_due_at) if next_due_at else None)

    async def release(self, releases: Sequence[Release]) -> None:
        for step in _steps(releases):
            by_slot = codec.releases_by_slot(step)
            await self._run("release", "release", by_slot, codec.encode([*by_slot.values()]))

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        refused: set[int] = set()
        for step in _steps(moves):
            by_slot = codec.moves_by_slot(step)
            refused.update(await self._run("spool", "spool", by_slot, codec.encode((segment, [*by_slot.values()]))))
        return refused

    async def finish(self, finished: Sequence[Finished]) -> None:
        for step in _steps(finished):
            by_slot = codec.finished_by_slot(step)
            await self._run("finish", "finish", by_slot, codec.encode([*by_slot.values()]))

    async def sync(self) -> None:
        """Left to the server: with `appendfsync always` it has synced before it answered, with `everysec` it will have
        within a second or two. (Redis 7.0 has no command that waits for that.)"""

    async def segments(self) -> dict[str, int]:
        fields = await self._run("segments", "segments", range(self._slots))
        numbers: Counter[str] = Counter()
        for segment, number in zip(fields[::2], fields[1::2], strict=True):
            numbers[segment.decode()] += number
        return dict(numbers)

    async def spooled(self, segment: str) -> set[int]:
        return set(map(int, await self._run("spooled", "spooled", range(self._slots), segment.encode())))

    async def unspool(self, segment: str) -> None:
        await self._run("unspool", "unspool", range(self._slots), segment.encode())

    async def counts(self, *, now: float) -> Counts:
        totals: Counter[str] = Counter()
        outcomes: Counter[str] = Counter()
        retries: Counter[str] = Counter()
        for raw, counters, leased, sites, busy, waiting, ready in await self._run(
            "counts", "counts", range(self._slots), _decimals(now)
        ):
            header = codec.header_of(raw)
            for field, number in zip(counters[::2], counters[1::2], strict=True):
                (outcomes if field.startswith(b"o ") else retries)[field[2:].decode()] += int(number)
            totals["admitted"] += int(header.admitted)
            totals["spooled"] += int(header.spooled)
            totals["received_bytes"] += int(header.received_bytes)
            totals["leased"] += leased
            totals["sites"] += sites
            totals["sites_busy"] += busy
            totals["sites_waiting"] += waiting
            totals["sites_ready"] += ready
        return Counts(
            finished=outcomes.total(),
            admitted=totals["admitted"],
            leased=totals["leased"],
            spooled=totals["spooled"],
            pages=outcomes[Reason.PAGE],
            received_bytes=totals["received_bytes"],
            outcomes={reason: number for reason, number in outcomes.items() if number},
            retries=dict(retries),
            sites=totals["sites"],
            sites_busy=totals["sites_busy"],
            sites_waiting=totals["sites_waiting"],
            sites_ready=min(totals["sites_ready"], MOST_READY),
        )

    async def find(self, candidate: Candidate) -> Sighting:
        return await self._looking.find(candidate)

    async def vitals(self) -> dict[str, float]:
        return await vitals(self._server)

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        return await self._looking.site_states(sites)

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        if not origins:
            return {}
        by_slot: dict[int, list[str]] = {}
        for origin in origins:
            by_slot.setdefault(slot_of(origin, self._slots), []).append(origin)
        copies = await self._run("load_robots", "load_robots", by_slot, codec.encode([*by_slot.values()]))
        asked = [origin for of_slot in by_slot.values() for origin in of_slot]
        return {origin: decode_robots(copy) for origin, copy in zip(asked, copies, strict=True) if copy is not None}

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        for step in _steps(list(copies), BATCH):
            places: dict[int, int] = {}
            words: list[bytes] = []
            for copy in step:
                place = places.setdefault(slot_of(copy.origin, self._slots), len(places) + 1)
                words += [b"%d" % place, copy.origin.encode(), encode_robots(copy)]
            await self._run("save_robots", "save_robots", places, *words)

    async def _run(self, verb: str, script: str, slots: Iterable[int], *arguments: bytes) -> Reply:
        return await self._server.run(verb, script, [self._headers[slot] for slot in slots], *arguments)


def _steps(items: Sequence[T], most: int = BATCH) -> list[Sequence[T]]:
    return [items[begin : begin + most] for begin in range(0, len(items), most)]


def _decimals(number: float) -> bytes:
    """All of them: the same number comes back."""
    return repr(number).encode()


def _leases(fields: Sequence[Reply], slots: Sequence[int], epochs: Sequence[int]) -> list[Lease]:
    """`fields` are number, place of the slot, site, its record and the entry, of each."""
    return [
        lease_of(
            entry,
            number=number,
            slot=slots[place - 1],
            epoch=epochs[place - 1],
            site=site.decode(),
            clock=codec.clock_of(record),
        )
        for number, place, site, record, entry in zip(*(fields[field::5] for field in range(5)), strict=True)
    ]
