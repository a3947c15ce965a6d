"""Sites and their queues in PostgreSQL, as one transaction sees them.

A queue is the site's blocks in the order of their places, from `head` to `tail` without a gap; `head_offset` bytes of
the first are taken already. A block is a row with many URLs one behind the other; entries.py says what each is. So
taking a URL changes the site's row alone until a block is used up.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

import msgspec

from gossamer.frontier.slots import slot_of
from gossamer.frontier.stores.entries import signed
from gossamer.frontier.stores.postgres_errors import MetAnother
from gossamer.frontier.stores.postgres_pool import Connection
from gossamer.frontier.stores.postgres_statements import literal, statement
from gossamer.records import Reason
from gossamer.url import stable_hash

#: Four such rows fill a page of 8 KiB, and none is long enough to be cut up and stored elsewhere.
BLOCK_BYTES = 1_900
#: A last block takes more URLs until it has these: some five. Else a site that gets its links one by one would have a
#: row for each.
SMALL_BLOCK_BYTES = 500


class Site(msgspec.Struct, gc=False):
    """One row of `sites`, in the order of lock_sites.sql; `lease` is the number of the lease that keeps it busy, or 0.

    Only `Sites` makes one, and writes it back at the end of its transaction.
    """

    key: int
    """The hash of its name."""
    slot: int
    is_seeded: bool = False
    dropped: str | None = None
    not_before: float = 0.0
    not_before_lease: float = 0.0
    last_request_at: float = 0.0
    crawl_delay_seconds: float = 0.0
    failures: int = 0
    queued: int = 0
    head: int = 1
    head_offset: int = 0
    tail: int = 0
    """One less than `head` if nothing is queued."""
    tail_bytes: int = 0
    admitted: int = 0
    """URLs, ever."""
    lease: int = 0
    due_at: float | None = None
    """As it was loaded: what the index has."""
    name: bytes = b""
    """Of a new one; else it stays as it is."""
    is_new: bool = False
    is_changed: bool = False
    front: list[bytes] = []
    """What this transaction has put in front of the queue, and behind it."""
    back: list[bytes] = []


def site_key(name: str) -> int:
    return signed(stable_hash(name))


class Sites:
    """The sites that one transaction has locked or made. `write` comes last.

    Counts what changes in `totals`. Used by the verbs; knows nothing of leases and segments.
    """

    def __init__(self, connection: Connection, slots: int) -> None:
        self.totals: Counter[str] = Counter()
        self._connection = connection
        self._slots = slots
        self._sites: dict[int, Site] = {}
        self._cut: list[tuple[int, int, int]] = []
        self._new: list[tuple[int, int, bytes]] = []
        self._grown: list[tuple[int, int, bytes]] = []
        self._emptied: list[int] = []
        self._seen: dict[int, list[int]] = {}
        self._paths: list[tuple[int, int, int]] = []
        self._new_paths = 0

    async def lock(self, keys: Collection[int]) -> dict[int, Site]:
        """All that the transaction needs, at once: a second such call could wait for one that waits for us."""
        for row in await self._connection.fetch(statement("lock_sites"), list(keys)):
            self._sites[row[0]] = Site(*row)
        return self._sites

    def create(self, key: int, name: str) -> Site:
        """A site without a row; it gets one if it is changed."""
        site = self._sites[key] = Site(key, slot_of(name, self._slots), name=name.encode(), is_new=True)
        return site

    def mark(self, site: Site, fingerprints: Iterable[int]) -> None:
        """As seen: URLs of it that are not."""
        self._seen.setdefault(site.key, []).extend(fingerprints)

    def count_variants(self, known: Mapping[tuple[int, int], int], grown: Mapping[tuple[int, int], int]) -> None:
        """Of paths, by their site: how many were admitted until now, where that is known, and how many are now more."""
        new = sorted(path for path in grown if path not in known)
        self._new_paths = len(new)
        self._paths = [(*path, grown[path]) for path in new]
        self._paths += [(*path, known[path] + grown[path]) for path in sorted(grown.keys() & known.keys())]

    def append(self, site: Site, urls: Sequence[bytes]) -> None:
        """To the tail of its queue."""
        site.back = [*site.back, *urls]
        site.queued += len(urls)
        site.is_changed = True

    def put_back(self, site: Site, url: bytes) -> None:
        """To the head of its queue."""
        site.front = [url, *site.front]
        site.queued += 1
        site.is_changed = True

    def requeue(self, site: Site, url: bytes, *, at_head: bool) -> None:
        """A site that was given up takes nothing back: what would wait there is finished with it."""
        if site.dropped is not None:
            self.totals["finished"] += 1
            self.totals[f"outcome {site.dropped}"] += 1
        elif at_head:
            self.put_back(site, url)
        else:
            self.append(site, [url])

    def drop(self, site: Site, reason: Reason) -> None:
        """Give it up: what is queued is finished with this reason."""
        self.totals["finished"] += site.queued
        self.totals[f"outcome {reason}"] += site.queued
        self._emptied.append(site.key)
        site.dropped = reason
        site.queued = 0
        site.front = site.back = []
        site.head = site.tail + 1
        site.head_offset = 0
        site.is_changed = True

    def _place(self, site: Site) -> None:
        """What was added to its queue gets its places."""
        if site.head > site.tail:
            site.back = site.front + site.back
        elif site.front:
            if site.head_offset:
                self._cut.append((site.key, site.head, site.head_offset))
                if site.head == site.tail:
                    site.tail_bytes -= site.head_offset
                site.head_offset = 0
            blocks = _blocks(site.front)
            site.head -= len(blocks)
            self._new += [(site.key, place, urls) for place, urls in enumerate(blocks, site.head)]
        if site.back:
            size_bytes = sum(map(len, site.back))
            if site.head <= site.tail and site.tail_bytes + size_bytes <= SMALL_BLOCK_BYTES:
                self._grown.append((site.key, site.tail, b"".join(site.back)))
                site.tail_bytes += size_bytes
            else:
                blocks = _blocks(site.back)
                self._new += [(site.key, place, urls) for place, urls in enumerate(blocks, site.tail + 1)]
                site.tail += len(blocks)
                site.tail_bytes = len(blocks[-1])

    async def write(self) -> None:
        """Everything that changed, and what was counted. Raises MetAnother if somebody else has made one of the new."""
        changed = sorted((site for site in self._sites.values() if site.is_changed), key=lambda site: site.key)
        made: list[tuple[object, ...]] = []
        updated: list[tuple[object, ...]] = []
        totals = self.totals
        for site in changed:
            self._place(site)
            due_at = inf if site.lease else site.not_before if site.queued else None
            totals["sites_busy"] += (due_at == inf) - (site.due_at == inf)
            totals["sites_waiting"] += (due_at is not None and due_at != inf) - (
                site.due_at is not None and site.due_at != inf
            )
            facts = (
                site.is_seeded, site.dropped, site.not_before, site.not_before_lease, site.last_request_at,
                site.crawl_delay_seconds, site.failures, site.queued, site.head, site.head_offset, site.tail,
                site.tail_bytes, site.admitted, site.lease, due_at,
            )  # fmt: skip
            if site.is_new:
                made.append((site.key, site.slot, *facts, site.name))
            else:
                updated.append((site.key, *facts))
        totals["sites"] += len(made)
        if self._cut:
            await self._connection.execute(statement("cut_blocks"), *_columns(self._cut, 3))
        if self._emptied:
            await self._connection.execute(statement("delete_queues"), self._emptied)
        counted = [(name, amount) for name, amount in totals.items() if amount]
        if not changed and not counted:
            return
        if made:
            await self._make(made)
        seen = [(site, sorted(self._seen[site])) for site in sorted(self._seen)]
        await self._connection.execute(
            statement("write_sites"),
            *_literals(self._new, 3),
            *_literals(self._grown, 3),
            *map(literal, _columns(updated, 16)),
            *_columns(counted, 2),
            literal(site for site, fingerprints in seen for _ in fingerprints),
            literal(fingerprint for _, fingerprints in seen for fingerprint in fingerprints),
            self._new_paths,
            *map(literal, _columns(self._paths, 3)),
        )

    async def _make(self, rows: Sequence[tuple[object, ...]]) -> None:
        # Asked, and not left to the statement below alone, which would wait for whoever holds such a site: and that one
        # may wait for us.
        if await self._connection.fetchval(statement("find_sites"), literal(key for key, *_ in rows)):
            raise MetAnother
        if await self._connection.fetchval(statement("make_sites"), *_literals(rows, 18)) < len(rows):
            raise MetAnother


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    """A list for each column, as `unnest` takes them."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _literals(rows: Sequence[tuple[object, ...]], width: int) -> list[object]:
    """Likewise; the last column is of bytes."""
    *columns, last = _columns(rows, width)
    return [*map(literal, columns), last]


def _blocks(urls: Sequence[bytes]) -> list[bytes]:
    """Of some `BLOCK_BYTES` each; at least one URL in each."""
    blocks: list[list[bytes]] = [[]]
    used = 0
    for url in urls:
        if used and used + len(url) > BLOCK_BYTES:
            blocks.append([])
            used = 0
        blocks[-1].append(url)
        used += len(url)
    return [b"".join(block) for block in blocks]
