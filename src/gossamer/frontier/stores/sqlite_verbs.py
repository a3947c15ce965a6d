"""The verbs of the store in SQL, each run on the store's thread inside a transaction that somebody else began."""

import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from gossamer.frontier.store import AdmitLimits, Counts, Leases
from gossamer.frontier.stores.boot import since_boot
from gossamer.frontier.stores.entries import returned_once_more, signed, tried_again
from gossamer.frontier.stores.robots_copies import decode_robots
from gossamer.frontier.stores.sqlite_admission import Admission
from gossamer.frontier.stores.sqlite_looking import Looking
from gossamer.frontier.stores.sqlite_sites import Site, Sites, json_array
from gossamer.records import Candidate, Destination, Finished, Lease, Move, Reason, Release, RobotsCopy
from gossamer.url import stable_hash

#: Counting more sites than these that are due would cost more than anyone gains from the number.
MOST_READY = 10_000
#: How long a transaction waits for those of other processes, which take 10 ms each. A process that is stopped in the
#: middle of one holds up all others: for that they wait longer than it may own its slots.
BUSY_SECONDS = 150.0
#: A page budget of nobody's.
_NO_BUDGET = 1 << 62

_ADD_COUNT = "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value"
_NEXT_DUE_AT = (
    "SELECT min((SELECT s.due_at FROM sites AS s INDEXED BY due WHERE s.slot = wanted.value AND s.due_at IS NOT NULL"
    " ORDER BY s.due_at LIMIT 1)) FROM json_each(?) AS wanted"
)
_READY = (
    "SELECT count(*) FROM (SELECT 1 FROM json_each(?) AS wanted CROSS JOIN sites AS s INDEXED BY due"
    " ON s.slot = wanted.value AND s.due_at <= ? LIMIT ?)"
)


class Verbs:
    """The frontier as one connection sees it. A verb either does all that it promises or raises.

    `begin` comes before verbs and `commit` after; what raised in between needs `rollback`. Only the store's thread
    calls any of these.
    """

    def __init__(self, connection: sqlite3.Connection, slots: int) -> None:
        self._connection = connection
        self._slots = slots
        self._totals: Counter[str] = Counter()
        self._sites = Sites(connection, slots, self._totals)
        self._admission = Admission(connection, self._sites, self._totals)
        self._looking = Looking(connection)

    def begin(self, *, writes: bool, wait_seconds: float | None = None) -> None:
        """Waits for the transactions of other processes; raises if one takes longer, than `BUSY_SECONDS` by default."""
        self._sites.forget()
        self._admission.forget()
        self._totals.clear()
        deadline = time.monotonic() + (BUSY_SECONDS if wait_seconds is None else wait_seconds)
        while True:
            try:
                if writes:
                    self._connection.execute("BEGIN IMMEDIATE")
                else:
                    self._connection.execute("BEGIN")
                    self._connection.execute("SELECT 1 FROM meta LIMIT 1").fetchone()  # only now is it begun
            except sqlite3.OperationalError as error:
                self.rollback()
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            else:
                return

    def commit(self) -> None:
        self._admission.write()
        self._sites.write()
        changed = [(name, number) for name, number in self._totals.items() if number]
        if changed:
            self._connection.executemany(_ADD_COUNT, changed)
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def begin_run(self, latest_not_before_seconds: float) -> int:
        # The store's time goes on from the latest known one, whatever the wall clock was set to since, and follows the
        # monotonic clock, which all processes of a machine share until it restarts. Only after that the wall clock is
        # asked how long ago the last run was: set an hour ahead, it would open every gap.
        boot, seconds = since_boot()
        is_same_boot = bool(boot) and boot == self._meta("boot", 0)
        now = max(seconds + self._meta("boot_offset", 0.0) if is_same_boot else time.time(), self._meta("time", 0.0))
        self._set_meta("boot", boot)
        self._set_meta("boot_offset", now - seconds)
        self._set_meta("clock_offset", now - time.monotonic())
        latest = now + latest_not_before_seconds
        self._sites.write()
        self._connection.execute(
            "UPDATE sites SET not_before = min(not_before, ?1), not_before_lease = min(not_before_lease, ?1),"
            " due_at = min(due_at, ?1) WHERE not_before > ?1 OR not_before_lease > ?1",
            (latest,),
        )
        run = int(self._meta("run", 0)) + 1
        self._set_meta("run", run)
        return run

    def now(self) -> float:
        return time.monotonic() + self._meta("clock_offset", 0.0)

    def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, now: float) -> list[Reason]:
        return self._admission.admit(candidates, limits, now)

    def own(self, owner: str, slots: Collection[int], now: float, until: float, delay_seconds: float) -> dict[int, int]:
        known = {row[0]: row[1:] for row in self._connection.execute("SELECT slot, owner, epoch, until FROM slots")}
        owned = {}
        taken = []
        for slot in slots:
            holder, epoch, held_until = known.get(slot, (None, 0, 0.0))
            if holder != owner:
                if holder is not None and held_until > now:
                    continue
                epoch += 1
                taken.append(slot)
            owned[slot] = epoch
        self._connection.executemany(
            "INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)",
            [(slot, owner, epoch, until) for slot, epoch in owned.items()],
        )
        if taken:
            self._take_back(taken, now, delay_seconds)
        self._set_meta("time", max(now, self._meta("time", 0.0)))
        # Here, because owners call every few seconds: what a call was given and is held no more is of no use.
        self._connection.execute(
            "DELETE FROM calls WHERE NOT EXISTS"
            " (SELECT 1 FROM held WHERE number BETWEEN first AND last AND segment IS NULL)"
        )
        return owned

    def _take_back(self, slots: Sequence[int], now: float, delay_seconds: float) -> None:
        """What former owners held: their URLs, and their sites, of which some may have spooled their URL already."""
        busy = self._sites.load_busy(slots)
        rows = self._connection.execute(
            "DELETE FROM held WHERE segment IS NULL AND slot IN (SELECT value FROM json_each(?))"
            " RETURNING number, site, url",
            (json_array(slots),),
        ).fetchall()
        sites = self._sites.load({key for _, key, _ in rows})
        for _, key, url in sorted(rows, reverse=True):  # the one that was taken first stands first again
            self._requeue(sites[key], returned_once_more(url), at_head=True)
        self._totals["leased"] -= len(rows)
        for site in [*busy, *(sites[key] for _, key, _ in rows)]:
            site.lease = 0
            site.not_before = max(site.not_before, now + max(delay_seconds, site.crawl_delay_seconds))
            site.last_request_at = max(site.last_request_at, now)
            site.is_changed = True

    def _requeue(self, site: Site, url: bytes, *, at_head: bool) -> None:
        """A site that was given up takes nothing back: what would wait there is finished with it."""
        if site.dropped is not None:
            self._totals["finished"] += 1
            self._totals[f"outcome {site.dropped}"] += 1
        elif at_head:
            self._sites.put_back(site, url)
        else:
            self._sites.append(site, [url])

    def disown(self, owner: str) -> None:
        self._connection.execute("UPDATE slots SET owner = NULL WHERE owner = ?", (owner,))

    def lease(
        self,
        call: str,
        slots: Mapping[int, int],
        limit: int,
        *,
        now: float,
        delay_seconds: float,
        max_pages: int,
        turn: int,
    ) -> Leases:
        """`turn` decides with which slot to begin, so that none is always last."""
        epochs = dict(self._connection.execute("SELECT slot, epoch FROM slots").fetchall())
        current = [slot for slot, epoch in slots.items() if epochs.get(slot) == epoch]
        if current:
            turn %= len(current)
            current = current[turn:] + current[:turn]
        totals = self._all_totals()
        budget = _NO_BUDGET
        if max_pages:
            budget = max(0, max_pages - totals["outcome page"] - totals["leased"] - totals["spooled_pages"])
        leases = self._leased(call, epochs)
        if not leases:
            held = []
            number = totals["leases"]
            for site, url in self._sites.take_due(current, now, min(limit, budget)):
                number += 1
                site.lease = number
                site.not_before_lease = site.not_before
                site.not_before = now + max(delay_seconds, site.crawl_delay_seconds)
                held.append((number, site.key, site.slot, url))
                leases.append(site.leased(url, number, epochs[site.slot]))
            if held:
                self._connection.executemany("INSERT INTO held VALUES (?, ?, ?, NULL, 0, ?)", held)
                self._connection.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (call, held[0][0], number))
            self._totals["leases"] += len(held)
            self._totals["leased"] += len(held)
            budget -= len(held)
        if not budget:
            return Leases(leases, None)
        self._sites.write()
        (next_due_at,) = self._connection.execute(_NEXT_DUE_AT, (json_array(current),)).fetchone()
        return Leases(leases, next_due_at)

    def _leased(self, call: str, epochs: Mapping[int, int]) -> list[Lease]:
        """What an earlier call with this id gave, as far as it is still held."""
        rows = self._connection.execute(
            "SELECT h.number, h.site, h.url FROM calls AS c CROSS JOIN held AS h ON h.number BETWEEN c.first AND c.last"
            " WHERE c.call = ? AND h.segment IS NULL",
            (call,),
        ).fetchall()
        sites = self._sites.load({key for _, key, _ in rows})
        return [sites[key].leased(url, number, epochs[sites[key].slot]) for number, key, url in rows]

    def release(self, releases: Sequence[Release]) -> None:
        keys = [signed(stable_hash(release.lease.site)) for release in releases]
        sites = self._sites.load(keys)
        for key, release in zip(keys, releases, strict=True):
            site = sites.get(key)
            if site is None or site.lease != release.lease.number:
                continue
            site.lease = 0
            stood_at = site.not_before if release.was_requested else site.not_before_lease
            site.not_before = max(stood_at, release.not_before)
            site.last_request_at = release.clock.last_request_at
            site.crawl_delay_seconds = release.clock.crawl_delay_seconds
            site.failures = release.clock.failures
            site.is_changed = True
            if release.dropped is not None:
                self._sites.drop(site, release.dropped)

    def spool(self, segment: str, moves: Sequence[Move]) -> set[int]:
        held = {
            row[0]: row[1:]
            for row in self._connection.execute(
                "SELECT h.number, h.site, h.segment, h.url FROM json_each(?) AS wanted"
                " CROSS JOIN held AS h ON h.number = wanted.value",
                (json_array(move.lease.number for move in moves),),
            )
        }
        refused = set()
        pages: list[int] = []
        others: list[int] = []
        back = []
        for move in moves:
            number = move.lease.number
            key, spooled_in, url = held.get(number, (0, None, None))
            if url is None:
                refused.add(number)
            elif spooled_in is not None:
                if spooled_in != segment:
                    refused.add(number)
            elif move.destination is Destination.PAGE or move.destination is Destination.OUTCOME:
                (pages if move.destination is Destination.PAGE else others).append(number)
                held[number] = (key, segment, url)
            else:
                back.append((move, key, url))
                del held[number]
        for is_page, numbers in ((True, pages), (False, others)):
            if numbers:
                self._connection.execute(
                    "UPDATE held SET segment = ?, is_page = ? WHERE number IN (SELECT value FROM json_each(?))",
                    (segment, is_page, json_array(numbers)),
                )
        self._totals["spooled"] += len(pages) + len(others)
        self._totals["spooled_pages"] += len(pages)
        self._totals["leased"] -= len(pages) + len(others) + len(back)
        if back:
            self._delete_held(move.lease.number for move, _, _ in back)
            sites = self._sites.load({key for _, key, _ in back})
            for move, key, url in back:
                self._totals[f"retry {move.reason}"] += 1
                entry = tried_again(url) if move.destination is Destination.TAIL else url
                self._requeue(sites[key], entry, at_head=move.destination is Destination.HEAD)
        return refused

    def _delete_held(self, numbers: Iterable[int]) -> None:
        self._connection.execute(
            "DELETE FROM held WHERE number IN (SELECT value FROM json_each(?))", (json_array(numbers),)
        )

    def finish(self, finished: Sequence[Finished]) -> None:
        spooled = {
            (segment, number): is_page
            for segment, number, is_page in self._connection.execute(
                "SELECT h.segment, h.number, h.is_page FROM json_each(?) AS wanted"
                " CROSS JOIN held AS h ON h.number = wanted.value",
                (json_array(done.number for done in finished),),
            )
        }
        gone = []
        pages = received_bytes = 0
        for done in finished:
            is_page = spooled.pop((done.segment, done.number), None)
            if is_page is not None:
                gone.append(done.number)
                pages += is_page
                received_bytes += done.received_bytes
                self._totals["outcome " + done.reason] += 1
        self._delete_held(gone)
        self._totals["received_bytes"] += received_bytes
        self._totals["spooled"] -= len(gone)
        self._totals["spooled_pages"] -= pages
        self._totals["finished"] += len(gone)

    def segments(self) -> dict[str, int]:
        return dict(
            self._connection.execute(
                "SELECT segment, count(*) FROM held WHERE segment IS NOT NULL GROUP BY segment"
            ).fetchall()
        )

    def spooled(self, segment: str) -> set[int]:
        return {
            number for (number,) in self._connection.execute("SELECT number FROM held WHERE segment = ?", (segment,))
        }

    def unspool(self, segment: str) -> None:
        rows = self._connection.execute(
            "DELETE FROM held WHERE segment = ? RETURNING number, site, is_page, url", (segment,)
        ).fetchall()
        sites = self._sites.load({row[1] for row in rows})
        for _, key, is_page, url in sorted(rows, reverse=True):  # the one that was taken first stands first again
            self._totals["spooled_pages"] -= is_page
            self._requeue(sites[key], returned_once_more(url), at_head=True)
        self._totals["spooled"] -= len(rows)

    def counts(self, now: float) -> Counts:
        self._sites.write()
        totals = self._all_totals()
        (ready,) = self._connection.execute(_READY, (json_array(range(self._slots)), now, MOST_READY)).fetchone()
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
            sites_ready=ready,
        )

    def looking(self) -> Looking:
        """For verbs that change nothing: what this transaction has changed so far is there to be read."""
        self._admission.write()
        self._sites.write()
        return self._looking

    def _all_totals(self) -> Counter[str]:
        """As they will stand when this transaction is committed."""
        totals = Counter(dict(self._connection.execute("SELECT name, value FROM counts").fetchall()))
        totals.update(self._totals)
        return totals

    def load_robots(self, origins: Iterable[str]) -> dict[str, RobotsCopy]:
        rows = self._connection.execute(
            "SELECT r.origin, r.copy FROM json_each(?) AS wanted CROSS JOIN robots AS r ON r.origin = wanted.value",
            (msgspec.json.encode(list(origins)).decode(),),
        )
        return {origin: decode_robots(copy) for origin, copy in rows}

    def save_robots(self, copies: Iterable[tuple[str, bytes]]) -> None:
        """Encoded by `encode_robots` already: compressing is no work for a transaction."""
        self._connection.executemany("INSERT OR REPLACE INTO robots VALUES (?, ?)", copies)

    def _meta(self, name: str, default: float) -> float:
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return default if row is None else float(row[0])

    def _set_meta(self, name: str, value: float) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def _with_prefix(prefix: str, totals: Counter[str]) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in totals.items() if number and name.startswith(prefix)}
