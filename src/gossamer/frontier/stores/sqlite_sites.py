"""Sites and their queues in SQLite, as one transaction sees them.

A queue is the site's blocks in the order of their ids: new ones get a higher id than all others, those put in front a
lower one. `head` and `tail` are the first and the last of them, and `head_offset` bytes of the first are taken already.
A block is a row with many URLs one behind the other; entries.py says what each is. So taking a URL writes the site's
row alone until a block is used up.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from gossamer.frontier.slots import slot_of
from gossamer.frontier.stores.entries import entry_end, lease_of, signed
from gossamer.records import Lease, Reason, SiteClock
from gossamer.url import stable_hash

#: Two such rows fill a page of 4 KiB. Smaller ones make more rows, larger ones are dearer to read for one URL.
BLOCK_BYTES = 1_900
#: A last block takes more URLs until it has these: some five. Else a site that gets its links one by one would have a
#: row for each. Larger ones stay as they are: new blocks share the pages at the end of the table, while one that grows
#: changes a page of its own, and often splits it.
SMALL_BLOCK_BYTES = 500
#: So many sites that come one after the other are sorted by slot. Of 64 slots each has a thousand of them, on 20 pages.
#: Ids are some 64 times as high as the number of sites, and not higher: short ids make short rows.
WINDOW = 1 << 16

_COLUMNS = (
    "s.id, s.hash, s.name, s.slot, s.is_seeded, s.dropped, s.not_before, s.not_before_lease, s.last_request_at,"
    " s.crawl_delay_seconds, s.failures, s.queued, s.head, s.head_offset, s.tail, s.tail_bytes, s.admitted,"
    " s.lease, s.due_at"
)
_LOAD = f"SELECT {_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN sites AS s ON s.hash = wanted.value"  # noqa: S608 (constants)
#: CROSS JOIN keeps the order of the loops: slot by slot as given, in each by the index, earliest first.
_LOAD_DUE = (
    f"SELECT {_COLUMNS}, b.urls FROM json_each(?) AS wanted"  # noqa: S608 (constants)
    " CROSS JOIN sites AS s INDEXED BY due ON s.slot = wanted.value AND s.due_at <= ?"
    " CROSS JOIN blocks AS b ON b.id = s.head LIMIT ?"
)
_LOAD_BUSY = (
    f"SELECT {_COLUMNS} FROM json_each(?) AS wanted"  # noqa: S608 (constants)
    " CROSS JOIN sites AS s INDEXED BY busy ON s.slot = wanted.value AND s.lease > 0"
)
_NUMBERED = "SELECT ifnull(max(value), 0) FROM counts WHERE name = 'sites_numbered'"
_FIRST_ID = "SELECT min(ifnull(min(id), 0), 0) FROM blocks"
_LAST_ID = "SELECT max(ifnull(max(id), 0), 0) FROM blocks"
_EXTEND_BLOCK = "UPDATE blocks SET urls = CAST(urls || ? AS BLOB) WHERE id = ?"
_DELETE_BLOCK = "DELETE FROM blocks WHERE id = ?"
_HEADS = "SELECT value, (SELECT min(id) FROM blocks WHERE site = value) FROM json_each(?)"
_INSERT = "INSERT INTO sites VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#: The columns of no index; what is indexed is written only when it changes, else each new link would move its site's
#: entry out of the index and back.
_UPDATE_SAME = (
    "UPDATE sites SET is_seeded = ?, dropped = ?, not_before = ?, not_before_lease = ?, last_request_at = ?,"
    " crawl_delay_seconds = ?, failures = ?, queued = ?, head = ?, head_offset = ?, tail = ?, tail_bytes = ?,"
    " admitted = ?"
    " WHERE id = ?"
)
_UPDATE = _UPDATE_SAME.replace(" WHERE", ", lease = ?, due_at = ? WHERE")


def json_array(numbers: Iterable[int]) -> str:
    """A list of integers as one parameter, for json_each."""
    return msgspec.json.encode(list(numbers)).decode()


class Site(msgspec.Struct, gc=False):
    """One row of `sites`, in the order of its columns; `lease` is the number of the lease that keeps it busy, or 0.

    Only `Sites` makes one, and writes it back at the end of its transaction.
    """

    id: int
    key: int
    """The hash of its name."""
    name: str
    slot: int
    is_seeded: int = 0
    dropped: str | None = None
    not_before: float = 0.0
    not_before_lease: float = 0.0
    last_request_at: float = 0.0
    crawl_delay_seconds: float = 0.0
    failures: int = 0
    queued: int = 0
    """0: there are no blocks, and what follows means nothing."""
    head: int = 0
    head_offset: int = 0
    tail: int = 0
    tail_bytes: int = 0
    admitted: int = 0
    """URLs, ever."""
    lease: int = 0
    due_at: float | None = None
    """As it was loaded: what the index has."""
    loaded_lease: int = -1
    """-1: there is no row yet."""
    is_changed: bool = False

    def leased(self, url: bytes, number: int, epoch: int) -> Lease:
        """One of its URLs, as it is handed out."""
        clock = SiteClock(self.last_request_at, self.crawl_delay_seconds, self.failures)
        return lease_of(url, number=number, slot=self.slot, epoch=epoch, site=self.name, clock=clock)


def _site_id(number: int, slot: int, slots: int) -> int:
    """A place beside the sites of the same slot that came at about the same time: they are leased together, too.

    So a batch of new sites, and later a batch of leases, changes few pages of `sites` and `seen`.
    """
    return (number // WINDOW * slots + slot) * WINDOW + number % WINDOW


def _site(row: Sequence[Any]) -> Site:
    site = Site(*row)
    site.loaded_lease = site.lease
    return site


def _blocks(urls: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """URLs one behind the other, as many as a block takes; and how many they are."""
    block: list[bytes] = []
    used = 0
    for url in urls:
        if block and used + len(url) > BLOCK_BYTES:
            yield b"".join(block), len(block)
            block = []
            used = 0
        block.append(url)
        used += len(url)
    yield b"".join(block), len(block)


class Sites:
    """The sites that the present transaction has touched. `write` must come before any query that reads `sites`.

    Counts what changes in `totals`. Used by the verbs on the store's thread; knows nothing of leases and segments.
    """

    def __init__(self, connection: sqlite3.Connection, slots: int, totals: Counter[str]) -> None:
        self._connection = connection
        self._slots = slots
        self._totals = totals
        self._loaded: dict[int, Site] = {}
        self._inserted_blocks: list[tuple[int, int, bytes]] = []
        self._extended_blocks: list[tuple[bytes, int]] = []
        self._numbered_before: int | None = None  # sites, until this transaction
        self._numbered = 0
        self._first_id: int | None = None
        self._last_id: int | None = None

    def forget(self) -> None:
        """Before each transaction: others may have written since."""
        self._loaded.clear()
        self._inserted_blocks.clear()
        self._extended_blocks.clear()
        self._numbered_before = self._first_id = self._last_id = None
        self._numbered = 0

    def load(self, keys: Iterable[int]) -> dict[int, Site]:
        """Those of the sites that have a row, and those that this transaction has made."""
        missing = [key for key in keys if key not in self._loaded]
        if missing:
            for row in self._connection.execute(_LOAD, (json_array(missing),)).fetchall():
                self._loaded[row[1]] = _site(row)
        return self._loaded

    def create(self, name: str) -> Site:
        """A site without a row; it gets one if it is changed."""
        if self._numbered_before is None:
            (self._numbered_before,) = self._connection.execute(_NUMBERED).fetchone()
        self._numbered += 1
        key = signed(stable_hash(name))
        slot = slot_of(name, self._slots)
        number = _site_id(self._numbered_before + self._numbered, slot, self._slots)
        site = self._loaded[key] = Site(number, key, name, slot)
        return site

    def take_due(self, slots: Sequence[int], now: float, limit: int) -> list[tuple[Site, bytes]]:
        """Up to `limit` sites that are due, and the URL at the head of each, which is taken out of its queue."""
        self.write()
        taken = []
        used_up = []
        for row in self._connection.execute(_LOAD_DUE, (json_array(slots), now, limit)).fetchall():
            block = row[-1]
            site = self._loaded[row[1]] = _site(row[:-1])
            begin = site.head_offset
            site.head_offset = entry_end(block, begin)
            taken.append((site, block[begin : site.head_offset]))
            if site.head_offset == len(block):
                used_up.append(site)
            site.queued -= 1
            site.is_changed = True
        self._remove_heads(used_up)
        return taken

    def _remove_heads(self, sites: Sequence[Site]) -> None:
        """The first block of each is used up: the one behind it is the head now."""
        self._connection.executemany(_DELETE_BLOCK, [(site.head,) for site in sites])
        left = {site.id: site for site in sites if site.queued}
        for number, head in self._connection.execute(_HEADS, (json_array(left),)).fetchall():
            left[number].head = head
            left[number].head_offset = 0

    def load_busy(self, slots: Iterable[int]) -> list[Site]:
        self.write()
        rows = self._connection.execute(_LOAD_BUSY, (json_array(slots),)).fetchall()
        for row in rows:
            self._loaded[row[1]] = _site(row)
        return [self._loaded[row[1]] for row in rows]

    def append(self, site: Site, urls: Sequence[bytes]) -> None:
        """To the tail of its queue."""
        joined = b"".join(urls)
        if site.queued and site.tail_bytes + len(joined) <= SMALL_BLOCK_BYTES:
            self._extended_blocks.append((joined, site.tail))
            site.tail_bytes += len(joined)
            site.queued += len(urls)
        elif len(joined) <= BLOCK_BYTES:
            self._add_block(site, joined, len(urls))
        else:
            for block, number in _blocks(urls):
                self._add_block(site, block, number)
        site.is_changed = True

    def _add_block(self, site: Site, block: bytes, urls: int) -> None:
        if self._last_id is None:
            (self._last_id,) = self._connection.execute(_LAST_ID).fetchone()
        site.tail = self._last_id = self._last_id + 1
        site.tail_bytes = len(block)
        self._inserted_blocks.append((site.tail, site.id, block))
        if not site.queued:
            site.head = site.tail
            site.head_offset = 0
        site.queued += urls

    def put_back(self, site: Site, url: bytes) -> None:
        """To the head of its queue."""
        if not site.queued:
            self.append(site, [url])
            return
        self._write_blocks()
        connection = self._connection
        (block,) = connection.execute("SELECT urls FROM blocks WHERE id = ?", (site.head,)).fetchone()
        rest = block[site.head_offset :]
        is_joined = len(url) + len(rest) <= BLOCK_BYTES
        if is_joined:
            rest = url + rest
        if is_joined or site.head_offset:
            connection.execute("UPDATE blocks SET urls = ? WHERE id = ?", (rest, site.head))
            site.head_offset = 0
        if site.head == site.tail:
            site.tail_bytes = len(rest)
        if not is_joined:
            if self._first_id is None:
                (self._first_id,) = connection.execute(_FIRST_ID).fetchone()
            site.head = self._first_id = self._first_id - 1
            self._inserted_blocks.append((site.head, site.id, url))
        site.queued += 1
        site.is_changed = True

    def drop(self, site: Site, reason: Reason) -> None:
        """Give it up: what is queued is finished with this reason."""
        self._write_blocks()
        self._connection.execute("DELETE FROM blocks WHERE site = ?", (site.id,))
        self._totals["finished"] += site.queued
        self._totals[f"outcome {reason}"] += site.queued
        site.dropped = reason
        site.queued = 0
        site.is_changed = True

    def _write_blocks(self) -> None:
        """New blocks first: some were extended right after they were made."""
        if self._inserted_blocks:
            self._connection.executemany("INSERT INTO blocks VALUES (?, ?, ?)", self._inserted_blocks)
            self._inserted_blocks.clear()
        if self._extended_blocks:
            self._connection.executemany(_EXTEND_BLOCK, self._extended_blocks)
            self._extended_blocks.clear()

    def write(self) -> None:
        """Everything that changed; afterwards nothing is loaded any more."""
        self._write_blocks()
        inserted, updated, updated_same = [], [], []
        waiting = busy = 0
        for site in self._loaded.values():
            if not site.is_changed:
                continue
            due_at = site.not_before if site.queued and not site.lease else None
            waiting += (due_at is not None) - (site.due_at is not None)
            busy += (site.lease > 0) - (site.loaded_lease > 0)
            values = (
                site.is_seeded,
                site.dropped,
                site.not_before,
                site.not_before_lease,
                site.last_request_at,
                site.crawl_delay_seconds,
                site.failures,
                site.queued,
                site.head,
                site.head_offset,
                site.tail,
                site.tail_bytes,
                site.admitted,
            )
            if site.loaded_lease < 0:
                inserted.append((site.id, site.key, site.name, site.slot, *values, site.lease, due_at))
            elif site.loaded_lease == site.lease and site.due_at == due_at:
                updated_same.append((*values, site.id))
            else:
                updated.append((*values, site.lease, due_at, site.id))
        self._totals["sites"] += len(inserted)
        if inserted:
            self._totals["sites_numbered"] = self._numbered
        self._totals["sites_waiting"] += waiting
        self._totals["sites_busy"] += busy
        for statement, rows in ((_INSERT, inserted), (_UPDATE, updated), (_UPDATE_SAME, updated_same)):
            if rows:
                self._connection.executemany(statement, rows)
        self._loaded.clear()
