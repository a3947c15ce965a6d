"""What is known of one URL or of some sites, in SQL that changes nothing. Part of `Verbs`."""

import sqlite3
import time
from collections.abc import Collection
from typing import Any

from gossamer.frontier.store import SiteState
from gossamer.frontier.stores.boot import since_boot
from gossamer.frontier.stores.entries import signed
from gossamer.frontier.stores.searching import BLOCKS_AT_ONCE, FirstLook, Look, Piece, site_state
from gossamer.frontier.stores.sqlite_seen import Seen
from gossamer.frontier.stores.sqlite_sites import json_array
from gossamer.records import Candidate
from gossamer.url import stable_hash

_SITES = (
    "SELECT s.name, s.slot, s.is_seeded, s.dropped, s.not_before, s.last_request_at, s.crawl_delay_seconds, s.failures,"
    " s.queued, s.admitted, s.lease, o.owner, ifnull(o.epoch, 0), ifnull(o.until, 0.0), s.id, s.head, s.head_offset"
    " FROM json_each(?) AS wanted CROSS JOIN sites AS s ON s.hash = wanted.value"
    " LEFT JOIN slots AS o ON o.slot = s.slot"
)


class Looking:
    """Used on the store's thread, or a reader's, inside a transaction that somebody else began."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._seen = Seen(connection)

    def site_states(self, names: Collection[str]) -> dict[str, SiteState]:
        return {name: site_state(name, columns) for name, *columns in self._sites(names) if name in names}

    def _sites(self, names: Collection[str]) -> list[tuple[Any, ...]]:
        keys = json_array(signed(stable_hash(name)) for name in names)
        return self._connection.execute(_SITES, (keys,)).fetchall()

    def look(self, candidate: Candidate) -> FirstLook:
        row = next((row for row in self._sites([candidate.site]) if row[0] == candidate.site), None)
        if row is None:
            return FirstLook(Look(site=None), 0, 0, Piece([]))
        site_id, head, head_offset = row[14:]
        look = self._look(candidate, site_state(candidate.site, row[1:]), site_id)
        piece = self.piece(site_id, head - 1) if look.may_be_queued else Piece([])
        return FirstLook(look, site_id, head_offset, piece)

    def _look(self, candidate: Candidate, site: SiteState, site_id: int) -> Look:
        execute = self._connection.execute
        fingerprint = candidate.fingerprint.to_bytes(8, "little")
        is_seen, variants = self._seen.find(site_id, candidate.fingerprint, candidate.path_fingerprint)
        # All of them are read, for want of an index that every lease would have to keep up: they are few.
        held = execute(
            "SELECT number, segment, url FROM held WHERE site = ? AND substr(url, 5, 8) = ?",
            (signed(stable_hash(site.name)), fingerprint),
        ).fetchone()
        number, segment, entry = held or (0, None, b"")
        return Look(
            site=site,
            is_seen=is_seen,
            variants=variants if candidate.path_fingerprint else 0,
            number=number,
            segment=segment,
            entry=entry,
        )

    def piece(self, site_id: int, after: int) -> Piece:
        """What comes behind a block of a site's queue. Blocks keep their ids as long as they have URLs."""
        return Piece(
            self._connection.execute(
                "SELECT id, urls FROM blocks WHERE site = ? AND id > ? ORDER BY id LIMIT ?",
                (site_id, after, BLOCKS_AT_ONCE),
            ).fetchall()
        )

    def now(self) -> float:
        """The store's time for who is no process of the crawl, which may have ended before the machine was restarted,
        or run on another one: then the wall clock tells, as it would when a run begins."""
        meta = dict(self._connection.execute("SELECT name, value FROM meta").fetchall())
        boot, _ = since_boot()
        if boot and boot == meta.get("boot"):
            return float(time.monotonic() + meta["clock_offset"])
        return max(time.time(), float(meta.get("time", 0.0)))
