"""The store on a PostgreSQL server (15 or newer): the frontier of each crawl in a schema of its own.

postgres_verbs.py         the verbs
postgres_admission.py     of these, `admit`
postgres_looking.py       what is known of one URL, of sites
postgres_sites.py         sites and their queues, as one transaction sees them
postgres_sql/             the statements, a file each, and the migrations that make the tables
postgres_pool.py          the connections
postgres_errors.py        what the server answers, and whether it passes
postgres_schema.py        how a frontier is made and brought up to date
postgres_examination.py   whether the server is fit for it
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from gossamer.frontier.store import AdmitLimits, Counts, Leases, PoolUse, Sighting, SiteState, Store
from gossamer.frontier.stores import postgres_looking as looking
from gossamer.frontier.stores import postgres_verbs as verbs
from gossamer.frontier.stores.examination import refuse, refuse_volatile
from gossamer.frontier.stores.postgres_admission import Batch, Plain, admit_plain
from gossamer.frontier.stores.postgres_errors import ERRORS, MetAnother, judge_of, missing
from gossamer.frontier.stores.postgres_examination import DURABILITY, findings
from gossamer.frontier.stores.postgres_pool import LIMIT_SECONDS, Connection, Pool, connect, show
from gossamer.frontier.stores.postgres_schema import check, prepare, schema_of
from gossamer.frontier.stores.postgres_statements import migrations, statement
from gossamer.frontier.stores.robots_copies import decode_robots, encode_robots
from gossamer.frontier.stores.searching import Piece, find_in_blocks
from gossamer.frontier.stores.server import Calls, Connecting
from gossamer.frontier.stores.server_clock import ServerClock
from gossamer.records import Candidate, Finished, Move, Reason, Release, RobotsCopy

#: URLs of one transaction: some 15 ms, during which others wait for the sites that it has locked. A parser offers
#: as many at once.
BATCH = 2_000
#: Likewise of `finish`, which looks each URL up in its arguments: twice as many take four times as long there.
FINISH_BATCH = 250
#: After so many calls that count something a handle folds what was counted: of each process so many rows wait at most.
FOLD_EVERY = 100
#: A site that could have been leased so long ago is waited for if somebody has it locked.
LATE_SECONDS = 1.0
#: Of the few calls that read whole tables.
LONG_SECONDS = 600.0

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]


class PostgresStore(Store):
    """One handle on the frontier, of one process. Sites are known by the 64-bit hash of their name.

    A verb with many URLs is cut into steps, each a transaction. What was acknowledged is on the server's disk, if its
    settings are not told otherwise.
    """

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._slots = connecting.slots
        self._server = show(connecting.url)
        self._schema = schema_of(connecting.crawl)
        self._calls = self._calls_of_crawl()
        self._pool = Pool(self._connect, connecting.pool, connecting.note_connection)
        self._identity: object = None
        self._clock = ServerClock()
        self._turn = 0
        self._next_due_at: float | None = None
        self._late_at = float("-inf")
        self._counted = 0

    @property
    def is_full(self) -> bool:
        return self._calls.is_full

    @property
    def is_away(self) -> bool:
        return self._calls.is_away

    @property
    def pool(self) -> PoolUse:
        return msgspec.structs.replace(self._pool.use, outages=self._calls.outages)

    async def _connect(self) -> Connection:
        connecting = self._connecting
        connection = await connect(
            connecting.url, self._schema, is_reader=connecting.is_reader, is_durable=connecting.is_durable
        )
        try:
            identity = await connection.fetchval(statement("identity"))
        except BaseException:
            connection.terminate()
            raise
        if identity != self._identity:
            # Another frontier in its place, an empty one, say, is as bad as none.
            connection.terminate()
            raise missing(self._server, self._connecting.crawl)
        return connection

    async def _call(self, verb: str, work: Work[T], *, limit_seconds: float = LIMIT_SECONDS) -> T:
        return await self._calls.make(verb, lambda: self._pool.run(work, limit_seconds=limit_seconds))

    async def _count(self, verb: str, work: Work[T]) -> T:
        """A call that counts something. Folding comes first: nothing may come between an answer and its caller."""
        self._counted += 1
        if self._counted >= FOLD_EVERY:
            self._counted = 0
            await self._call(verb, verbs.fold)
        return await self._call(verb, work)

    async def open(self) -> None:
        connecting = self._connecting
        # Where it may be created nothing can be missing yet but the database.
        crawl = None if connecting.may_create else connecting.crawl
        self._calls = Calls(self._server, ERRORS, judge_of(self._server, crawl))
        await self._calls.make("open", self._prepare, patience_seconds=connecting.patience_seconds)
        self._calls = self._calls_of_crawl()

    def _calls_of_crawl(self) -> Calls:
        judge = judge_of(self._server, self._connecting.crawl, was_reached=True)
        # Nothing is lost by who looks and gives up.
        patience = self._connecting.patience_seconds if self._connecting.is_reader else None
        return Calls(self._server, (*ERRORS, MetAnother), judge, patience_seconds=patience)

    async def _prepare(self) -> None:
        connecting = self._connecting
        connection = await connect(
            connecting.url,
            self._schema,
            limit_seconds=LONG_SECONDS,
            is_reader=connecting.is_reader,
            is_durable=connecting.is_durable,
        )
        try:
            if connecting.is_reader:
                await check(connection, connecting, self._server, len(migrations()))
            else:
                found = await findings(connection, connecting.url, self._schema)
                if not connecting.is_unsafe:
                    refuse(self._server, found)
                if connecting.is_durable:
                    refuse_volatile(self._server, found, DURABILITY)
                await prepare(connection, connecting, self._server, migrations())
            self._identity = await connection.fetchval(statement("identity"))
        except BaseException:
            connection.terminate()
            raise
        await connection.close(timeout=LIMIT_SECONDS)

    async def close(self) -> None:
        await self._pool.close()

    async def begin_run(self, *, latest_not_before_seconds: float) -> int:
        run = await self._call(
            "begin_run",
            lambda connection: verbs.begin_run(connection, latest_not_before_seconds, LONG_SECONDS),
            limit_seconds=LONG_SECONDS,
        )
        # The offset may have been moved, which is no jump of the server's clock.
        self._clock = ServerClock()
        return run

    async def now(self) -> float:
        clock = None if self._connecting.is_reader else self._clock
        return await self._call("now", lambda connection: verbs.now(connection, clock))

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        answers: list[Reason] = []
        for begin in range(0, len(candidates), BATCH):
            answers += await self._admit(candidates[begin : begin + BATCH], limits, now)
        return answers

    async def _admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, now: float) -> list[Reason]:
        answers = [Reason.SEEN] * len(candidates)
        plain = Plain(candidates, self._slots)
        left = plain.others
        if plain.sites:
            new, left = await self._count("admit", lambda connection: admit_plain(connection, plain, limits, now))
            for index in new:
                answers[index] = Reason.NEW
        if left:
            batch = Batch([candidates[index] for index in left])
            judged = await self._count(
                "admit", lambda connection: verbs.admit_step(connection, self._slots, batch, limits, now)
            )
            for index, answer in zip(left, judged, strict=True):
                answers[index] = answer
        return answers

    async def own(
        self, owner: str, slots: Collection[int], *, now: float, until: float, delay_seconds: float
    ) -> dict[int, int]:
        return await self._count(
            "own",
            lambda connection: verbs.own(
                connection, self._slots, owner, slots, now=now, until=until, delay_seconds=delay_seconds
            ),
        )

    async def disown(self, owner: str) -> None:
        await self._call("disown", lambda connection: verbs.disown(connection, owner))

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
        self._turn += 1
        turn = self._turn
        # Looking for it takes as long as a small lease, and under a backlog there always is one: so now and then.
        is_late = (
            self._next_due_at is not None
            and self._next_due_at < now - LATE_SECONDS
            and time.monotonic() >= self._late_at + LATE_SECONDS
        )
        if is_late:
            self._late_at = time.monotonic()
        given = await self._count(
            "lease",
            lambda connection: verbs.lease(
                connection,
                call,
                slots,
                limit,
                now=now,
                delay_seconds=delay_seconds,
                max_pages=max_pages,
                turn=turn,
                is_late=is_late,
            ),
        )
        self._next_due_at = given.next_due_at
        return given

    async def release(self, releases: Sequence[Release]) -> None:
        await self._count("release", lambda connection: verbs.release(connection, self._slots, releases))

    async def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        return await self._count("spool", lambda connection: verbs.spool(connection, self._slots, segment, moves))

    async def finish(self, finished: Sequence[Finished]) -> None:
        for begin in range(0, len(finished), FINISH_BATCH):
            await self._finish(finished[begin : begin + FINISH_BATCH])

    async def _finish(self, step: Sequence[Finished]) -> None:
        await self._count("finish", lambda connection: verbs.finish(connection, step))

    async def sync(self) -> None:
        """The server has synced before it answered, as every transaction does with `synchronous_commit`."""

    async def segments(self) -> dict[str, int]:
        return await self._call("segments", verbs.segments)

    async def spooled(self, segment: str) -> set[int]:
        return await self._call("spooled", lambda connection: verbs.spooled(connection, segment))

    async def unspool(self, segment: str) -> None:
        await self._count("unspool", lambda connection: verbs.unspool(connection, self._slots, segment))

    async def counts(self, *, now: float) -> Counts:
        return await self._call("counts", lambda connection: verbs.counts(connection, self._slots, now))

    async def find(self, candidate: Candidate) -> Sighting:
        def next_piece(site: int, after: int) -> Awaitable[Piece]:
            return self._call("find", lambda connection: looking.piece(connection, site, after))

        first = await self._call("find", lambda connection: looking.look(connection, candidate))
        return await find_in_blocks(candidate, first, next_piece)

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        return await self._call("site_states", lambda connection: looking.site_states(connection, sites))

    async def load_robots(self, origins: Collection[str]) -> dict[str, RobotsCopy]:
        encoded = await self._call("load_robots", lambda connection: verbs.load_robots(connection, origins))
        copies = [decode_robots(copy) for copy in encoded]
        return {copy.origin: copy for copy in copies if copy.origin in origins}

    async def save_robots(self, copies: Iterable[RobotsCopy]) -> None:
        encoded = {copy.origin: encode_robots(copy) for copy in copies}
        await self._call("save_robots", lambda connection: verbs.save_robots(connection, encoded))
