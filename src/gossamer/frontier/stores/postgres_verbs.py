"""The verbs of the PostgreSQL store, each on a connection that it has for itself.

Most are one statement, and so one transaction. Those that put URLs back into queues, which are not written in SQL, lock
their sites first, think, and write: `Sites` is what they think about.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from gossamer.frontier.store import AdmitLimits, Counts, Leases
from gossamer.frontier.stores.entries import lease_of, returned_once_more, tried_again
from gossamer.frontier.stores.postgres_admission import Batch, admit
from gossamer.frontier.stores.postgres_pool import Connection
from gossamer.frontier.stores.postgres_sites import Sites, site_key
from gossamer.frontier.stores.postgres_statements import literal, statement
from gossamer.frontier.stores.server_clock import ClockFacts, ServerClock, at_begin_of_run
from gossamer.records import Destination, Finished, Move, Reason, Release, SiteClock

#: Counting more sites than these that are due would cost more than anyone gains from the number.
MOST_READY = 10_000
#: Rows of `deltas` that are folded in one go.
_MOST_FOLDED = 50_000
_SPOOLED = frozenset({Destination.PAGE, Destination.OUTCOME})


async def begin_run(connection: Connection, latest_not_before_seconds: float, limit_seconds: float) -> int:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL statement_timeout = {int(limit_seconds * 1000)}")
        server, *known = await connection.fetchrow(statement("clock_facts"))
        facts = at_begin_of_run(ClockFacts(*known), server)
        run: int = await connection.fetchval(
            statement("begin_run"), facts.offset, facts.latest, facts.boot, facts.boot_offset
        )
        await connection.execute(statement("clamp_clocks"), facts.latest + latest_not_before_seconds)
    return run


async def now(connection: Connection, clock: ServerClock | None) -> float:
    """Without a clock of its own, as the server tells it."""
    while True:
        asked_at = ServerClock.steady()
        server, offset = await connection.fetchrow(statement("clock"))
        told: float = server + offset
        moved = clock.read(told, asked_at=asked_at, answered_at=clock.steady()) if clock is not None else 0.0
        if not moved:
            return told
        if await connection.fetchval(statement("move_clock"), offset, offset + moved):
            return told + moved
        # Somebody else has moved it meanwhile.


async def admit_step(connection: Connection, slots: int, batch: Batch, limits: AdmitLimits, now: float) -> list[Reason]:
    async with connection.transaction():
        return await admit(connection, slots, batch, limits, now)


async def own(
    connection: Connection,
    slots: int,
    owner: str,
    wanted: Collection[int],
    *,
    now: float,
    until: float,
    delay_seconds: float,
) -> dict[int, int]:
    owned = await connection.fetch(statement("renew_slots"), owner, list(wanted), until)
    epochs: dict[int, int] = dict(owned)
    missing = [slot for slot in wanted if slot not in epochs]
    if missing:
        async with connection.transaction():
            await connection.execute(statement("lock_slots"))
            # Once more: this very call may have been made before, and be done only now.
            epochs.update(await connection.fetch(statement("renew_slots"), owner, missing, until))
            taken = dict(await connection.fetch(statement("take_slots"), owner, missing, now, until))
            if taken:
                await _take_back(connection, slots, list(taken), now, delay_seconds)
            epochs.update(taken)
    await connection.execute(statement("note_time"), now)
    # Here, because owners call every few seconds.
    await connection.execute(statement("forget_calls"))
    return epochs


async def _take_back(
    connection: Connection, slots: int, taken: Sequence[int], now: float, delay_seconds: float
) -> None:
    """What former owners held: their URLs, and their sites, of which some may have spooled their URL already."""
    leased = await connection.fetch(statement("leased_in_slots"), taken)
    busy = {key for (key,) in await connection.fetch(statement("busy_in_slots"), taken)}
    if not leased and not busy:
        return
    sites = Sites(connection, slots)
    locked = await sites.lock(busy | {key for _, key in leased})
    # A late holder may have spooled or released some since.
    returned = await connection.fetch(statement("return_leased"), sorted(number for number, _ in leased))
    for _, key, url in sorted(returned, reverse=True):  # the one that was taken first stands first again
        sites.requeue(locked[key], returned_once_more(url), at_head=True)
    sites.totals["leased"] -= len(returned)
    for key in {key for key in busy if locked[key].lease} | {key for _, key, _ in returned}:
        site = locked[key]
        site.lease = 0
        site.not_before = max(site.not_before, now + max(delay_seconds, site.crawl_delay_seconds))
        site.last_request_at = max(site.last_request_at, now)
        site.is_changed = True
    await sites.write()


async def disown(connection: Connection, owner: str) -> None:
    await connection.execute(statement("disown"), owner)


async def lease(
    connection: Connection,
    call: str,
    slots: Mapping[int, int],
    limit: int,
    *,
    now: float,
    delay_seconds: float,
    max_pages: int,
    turn: int,
    is_late: bool,
) -> Leases:
    """`turn` decides with which slot to begin, so that none is always last; `is_late`, whether locks are waited for."""
    order = list(slots)
    if order:
        turn %= len(order)
        order = order[turn:] + order[:turn]
    *rows, last = await connection.fetch(
        statement("lease"),
        call,
        literal(order),
        literal(slots[slot] for slot in order),
        limit,
        now,
        delay_seconds,
        max_pages,
        is_late,
    )
    leases = [
        lease_of(
            url,
            number=number,
            slot=slot,
            epoch=epoch,
            site=name.decode(),
            clock=SiteClock(last_request_at, crawl_delay_seconds, failures),
        )
        for number, slot, epoch, name, url, last_request_at, crawl_delay_seconds, failures, _ in rows
    ]
    return Leases(leases, last["next_due_at"])


async def release(connection: Connection, slots: int, releases: Sequence[Release]) -> None:
    given: dict[int, tuple[int, Release]] = {}
    for release in releases:
        given.setdefault(release.lease.number, (site_key(release.lease.site), release))
    kept = sorted((key, number) for number, (key, release) in given.items() if release.dropped is None)
    dropped = [(key, release) for key, release in given.values() if release.dropped is not None]
    if kept:
        plain = [given[number][1] for _, number in kept]
        await connection.execute(
            statement("release"),
            literal(key for key, _ in kept),
            literal(number for _, number in kept),
            literal(release.was_requested for release in plain),
            literal(release.not_before for release in plain),
            literal(release.clock.last_request_at for release in plain),
            literal(release.clock.crawl_delay_seconds for release in plain),
            literal(release.clock.failures for release in plain),
        )
    if dropped:
        await _drop(connection, slots, dropped)


async def _drop(connection: Connection, slots: int, releases: Sequence[tuple[int, Release]]) -> None:
    async with connection.transaction():
        sites = Sites(connection, slots)
        locked = await sites.lock({key for key, _ in releases})
        for key, release in releases:
            site = locked.get(key)
            if site is None or site.lease != release.lease.number or release.dropped is None:
                continue
            site.lease = 0
            stood_at = site.not_before if release.was_requested else site.not_before_lease
            site.not_before = max(stood_at, release.not_before)
            site.last_request_at = release.clock.last_request_at
            site.crawl_delay_seconds = release.clock.crawl_delay_seconds
            site.failures = release.clock.failures
            sites.drop(site, release.dropped)
        await sites.write()


async def spool(connection: Connection, slots: int, segment: str, moves: Sequence[Move]) -> set[int]:
    first: dict[int, Move] = {}
    twice: set[int] = set()
    for move in moves:
        if first.setdefault(move.lease.number, move) is not move:
            twice.add(move.lease.number)
    kept = [number for number, move in first.items() if move.destination in _SPOOLED]
    back = {number: move for number, move in first.items() if move.destination not in _SPOOLED}
    if back:
        async with connection.transaction():
            moved = await _return(connection, slots, back)
            moved_too = await _keep(connection, segment, first, kept)
        # Whoever sends one back and spools it afterwards in the same batch has nothing to spool any more.
        refused = moved & twice
        moved = moved | moved_too
    else:
        moved = await _keep(connection, segment, first, kept)
        refused = set()
    others = first.keys() - moved
    if others:
        spooled = {number for (number,) in await connection.fetch(statement("find_spooled"), list(others), segment)}
        refused |= others - spooled
    return refused


async def _keep(connection: Connection, segment: str, moves: Mapping[int, Move], numbers: Sequence[int]) -> set[int]:
    """What goes to the parsers: those of it that were leased until now."""
    if not numbers:
        return set()
    ordered = sorted(numbers)
    are_pages = [moves[number].destination is Destination.PAGE for number in ordered]
    return {number for (number,) in await connection.fetch(statement("spool"), ordered, are_pages, segment)}


async def _return(connection: Connection, slots: int, moves: Mapping[int, Move]) -> set[int]:
    """What goes back into its queue: likewise."""
    sites = Sites(connection, slots)
    locked = await sites.lock({site_key(move.lease.site) for move in moves.values()})
    rows = {row[0]: row for row in await connection.fetch(statement("return_leased"), sorted(moves))}
    for number, move in moves.items():
        if number in rows:
            _, key, url = rows[number]
            sites.totals[f"retry {move.reason}"] += 1
            entry = tried_again(url) if move.destination is Destination.TAIL else url
            sites.requeue(locked[key], entry, at_head=move.destination is Destination.HEAD)
    sites.totals["leased"] -= len(rows)
    await sites.write()
    return set(rows)


async def finish(connection: Connection, finished: Sequence[Finished]) -> None:
    left: Sequence[Finished] = finished
    while left:
        # The statement looks up a number once. Whoever names one twice, in two segments, say, has two statements.
        given: dict[int, Finished] = {}
        left = [done for done in left if given.setdefault(done.number, done) is not done]
        ordered = [given[number] for number in sorted(given)]
        await connection.execute(
            statement("finish"),
            [done.number for done in ordered],
            [done.segment for done in ordered],
            [str(done.reason) for done in ordered],
            [done.received_bytes for done in ordered],
        )


async def segments(connection: Connection) -> dict[str, int]:
    return dict(await connection.fetch(statement("segments")))


async def spooled(connection: Connection, segment: str) -> set[int]:
    return {number for number, _ in await connection.fetch(statement("spooled"), segment)}


async def unspool(connection: Connection, slots: int, segment: str) -> None:
    async with connection.transaction():
        known = await connection.fetch(statement("spooled"), segment)
        if not known:
            return
        sites = Sites(connection, slots)
        locked = await sites.lock({key for _, key in known})
        # Some may be finished since.
        rows = await connection.fetch(statement("return_spooled"), sorted(number for number, _ in known), segment)
        for _, key, is_page, url in sorted(rows, reverse=True):  # the one that was taken first stands first again
            sites.totals["spooled_pages"] -= is_page
            sites.requeue(locked[key], returned_once_more(url), at_head=True)
        sites.totals["spooled"] -= len(rows)
        await sites.write()


async def counts(connection: Connection, slots: int, now: float) -> Counts:
    totals = Counter(dict(await connection.fetch(statement("counts"), slots, now, MOST_READY)))
    return Counts(
        finished=totals["finished"],
        admitted=totals["admitted"],
        leased=totals["leased"],
        spooled=totals["spooled"],
        pages=totals["outcome page"],
        received_bytes=totals["received_bytes"],
        outcomes=_with_prefix("outcome ", totals),
        retries=_with_prefix("retry ", totals),
        sites=totals["sites"],
        sites_busy=totals["sites_busy"],
        sites_waiting=totals["sites_waiting"],
        sites_ready=totals["sites_ready"],
    )


def _with_prefix(prefix: str, totals: Counter[str]) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in totals.items() if number and name.startswith(prefix)}


async def fold(connection: Connection) -> None:
    """What was counted since the last time goes into the totals; nobody waits for it but who does it."""
    await connection.execute(statement("fold"), _MOST_FOLDED)


async def load_robots(connection: Connection, origins: Iterable[str]) -> list[bytes]:
    """Encoded, and of more origins than were asked for if two names share a hash."""
    return [copy for (copy,) in await connection.fetch(statement("load_robots"), [site_key(name) for name in origins])]


async def save_robots(connection: Connection, copies: Mapping[str, bytes]) -> None:
    keyed = sorted((site_key(origin), copy) for origin, copy in copies.items())
    await connection.execute(statement("save_robots"), [key for key, _ in keyed], [copy for _, copy in keyed])
