"""Which URLs of a site were ever admitted, in two places: a row with the latest of them, and a tree with the others.

    recent   one row per site   fingerprints one behind the other; behind them, of those that are variants of a path,
                                the paths' fingerprints, as often as each
    seen     one row per URL    by site and fingerprint
    variants one row per path   how many of them

A page's links lead to a few places of a site's part of the tree each, so marking them there would change nearly a page
of the file for every link. They are added to the site's row in `recent`, which is a page or two, and move into the tree
when that is full: then many go to each page. A site that never has so many has nothing in the tree.
"""

import sqlite3
import struct
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from gossamer.frontier.stores.entries import signed
from gossamer.frontier.stores.sqlite_sites import Site, json_array

#: Of one site's row: two pages of 4 KiB when it is full. Sites of 400 URLs cost a fifth less with 640 than with 256 or
#: 400, because they do without the tree; for sites of 4,000 it is all the same from 256 to 900.
MOST_RECENT = 640

_NUMBER_BYTES = 8

_LOAD = (
    "SELECT r.site, r.fingerprints, r.paths FROM json_each(?) AS wanted CROSS JOIN recent AS r ON r.site = wanted.value"
)
_WRITE = "INSERT OR REPLACE INTO recent VALUES (?, ?, ?)"
_DELETE = "DELETE FROM recent WHERE site = ?"
_SEEN = (
    "SELECT s.fingerprint FROM json_each(?) AS wanted"
    " CROSS JOIN seen AS s ON s.site = ? AND s.fingerprint = wanted.value"
)
_VARIANTS = (
    "SELECT v.path, v.number FROM json_each(?) AS wanted"
    " CROSS JOIN variants AS v ON v.site = ? AND v.path = wanted.value"
)
_MOVE_SEEN = "INSERT INTO seen VALUES (?, ?)"
_MOVE_VARIANTS = "INSERT INTO variants VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number"


class Recent(msgspec.Struct):
    """One row of `recent`, and what the present transaction adds to it."""

    fingerprints: bytes = b""
    paths: bytes = b""
    added: list[int] = []
    added_paths: list[int] = []

    def __len__(self) -> int:
        return len(self.fingerprints) // _NUMBER_BYTES + len(self.added)


class Seen:
    """What the present transaction has read and added. `write` must come before any query that reads these tables.

    Part of `Admission`; a site's `admitted` is the number of its URLs in both places.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loaded: dict[int, Recent] = {}

    def forget(self) -> None:
        """Before each transaction: others may have written since."""
        self._loaded.clear()

    def load(self, sites: Iterable[Site]) -> None:
        """Before anything is asked of these sites."""
        loaded = self._loaded
        missing = [site.id for site in sites if site.id not in loaded]
        if missing:
            loaded.update((number, Recent()) for number in missing)
            for number, fingerprints, paths in self._connection.execute(_LOAD, (json_array(missing),)):
                loaded[number] = Recent(fingerprints, paths)

    def unseen(self, site: Site, fingerprints: Iterable[int]) -> set[int]:
        """Those of the fingerprints that the site does not have."""
        recent = self._loaded[site.id]
        unseen = set(fingerprints)
        unseen.difference_update(_numbers(recent.fingerprints), recent.added)
        if unseen and site.admitted > len(recent):
            wanted = {signed(fingerprint): fingerprint for fingerprint in unseen}
            rows = self._connection.execute(_SEEN, (json_array(wanted), site.id))
            unseen.difference_update([wanted[fingerprint] for (fingerprint,) in rows])
        return unseen

    def variants(self, site: Site, paths: Iterable[int]) -> Counter[int]:
        """How many were admitted, by the fingerprint of their path."""
        recent = self._loaded[site.id]
        wanted = {signed(path): path for path in paths}
        counted: Counter[int] = Counter()
        if wanted and site.admitted > len(recent):
            rows = self._connection.execute(_VARIANTS, (json_array(wanted), site.id))
            counted.update({wanted[path]: number for path, number in rows})
        recently = Counter((*_numbers(recent.paths), *recent.added_paths))
        counted.update({path: recently[path] for path in wanted.values()})
        return counted

    def add(self, site: Site, fingerprints: Sequence[int], paths: Sequence[int]) -> None:
        """What is new, and counted by the site from now on; `paths` are those of its variants."""
        site.admitted += len(fingerprints)
        recent = self._loaded[site.id]
        recent.added += fingerprints
        recent.added_paths += paths

    def find(self, site: int, fingerprint: int, path: int) -> tuple[bool, int]:
        """Whether the site has it, and how many variants of the path, as it is written."""
        execute = self._connection.execute
        row = execute("SELECT fingerprints, paths FROM recent WHERE site = ?", (site,)).fetchone()
        fingerprints, paths = map(_numbers, row or (b"", b""))
        seen = execute("SELECT 1 FROM seen WHERE site = ? AND fingerprint = ?", (site, signed(fingerprint))).fetchone()
        variants = execute("SELECT number FROM variants WHERE site = ? AND path = ?", (site, signed(path))).fetchone()
        return fingerprint in fingerprints or seen is not None, paths.count(path) + (variants[0] if variants else 0)

    def write(self) -> None:
        """Everything that was added; afterwards nothing is loaded any more."""
        rows: list[tuple[int, bytes, bytes]] = []
        full: list[tuple[int, bytes, bytes]] = []
        for number, recent in self._loaded.items():
            if recent.added:
                row = (number, recent.fingerprints + _packed(recent.added), recent.paths + _packed(recent.added_paths))
                (rows if len(recent) <= MOST_RECENT else full).append(row)
        if rows:
            self._connection.executemany(_WRITE, rows)
        for row in full:
            self._move(*row)
        self._loaded.clear()

    def _move(self, site: int, fingerprints: bytes, paths: bytes) -> None:
        """Into the tree, in its order: then each of its pages is found once."""
        execute_many = self._connection.executemany
        self._connection.execute(_DELETE, (site,))
        execute_many(_MOVE_SEEN, sorted((site, signed(number)) for number in _numbers(fingerprints)))
        counted = Counter(map(signed, _numbers(paths)))
        execute_many(_MOVE_VARIANTS, [(site, path, counted[path]) for path in sorted(counted)])


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def _numbers(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // _NUMBER_BYTES}Q", packed)
