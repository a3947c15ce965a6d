"""Admission in SQL: what was never seen is marked as seen and queued, in one transaction."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.entries import entry_of, signed
from gossamer.frontier.stores.sqlite_sites import Site, Sites, json_array
from gossamer.records import Candidate, Reason
from gossamer.url import stable_hash

#: From so many candidates of a site on, one statement for all is cheaper than one for each: it begins with the cost of
#: four of them.
MANY = 8

_ADD_ONE = "INSERT INTO seen VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADD_MANY = "INSERT INTO seen SELECT ?, value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING RETURNING fingerprint"
_SEEN = (
    "SELECT s.fingerprint FROM json_each(?) AS wanted"
    " CROSS JOIN seen AS s ON s.site = ? AND s.fingerprint = wanted.value"
)
_REMOVE_SEEN = "DELETE FROM seen WHERE site = ? AND fingerprint IN (SELECT value FROM json_each(?))"
_VARIANTS = (
    "SELECT v.path, v.number FROM json_each(?) AS wanted"
    " CROSS JOIN variants AS v ON v.site = ? AND v.path = wanted.value"
)


class Admission:
    """Marks a site's candidates as seen before it queues those of them that were not. Part of `Verbs`."""

    def __init__(self, connection: sqlite3.Connection, sites: Sites, totals: Counter[str]) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._sites = sites
        self._totals = totals

    def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits) -> list[Reason]:
        by_site: dict[str, list[int]] = {}
        for index, candidate in enumerate(candidates):
            by_site.setdefault(candidate.site, []).append(index)
        keys = {name: signed(stable_hash(name)) for name in by_site}
        sites = self._sites.load(keys.values())
        answers = [Reason.SEEN] * len(candidates)
        for name, indices in by_site.items():
            site = sites.get(keys[name]) or self._sites.create(name)
            new = None
            if (
                site.dropped is None
                and (site.is_seeded or not limits.only_seeded_sites)
                and site.queued + len(indices) <= limits.site_queue
                and site.admitted + len(indices) <= limits.site_urls
            ):
                new = self._add_unseen(site, candidates, indices, limits)
            if new is None:
                new = self._judge(site, candidates, indices, limits, answers)
            site.admitted += len(new)
            head: list[bytes] = []
            tail: list[bytes] = []
            for index in new:
                answers[index] = Reason.NEW
                candidate = candidates[index]
                (head if candidate.at_head else tail).append(entry_of(candidate))
            if tail:
                self._sites.append(site, tail)
            for url in head:
                self._sites.put_back(site, url)
            self._totals["admitted"] += len(new)
        return answers

    def _add_unseen(
        self, site: Site, candidates: Sequence[Candidate], indices: Sequence[int], limits: AdmitLimits
    ) -> list[int] | None:
        """All candidates of an open site with room: which of them are new. They are marked as seen.

        None, and nothing is marked, if a path would have too many variants with them.
        """
        if not site.is_seeded and any(candidates[index].is_seed for index in indices):
            site.is_seeded = True
            site.is_changed = True
        # Backwards, so that of two equal ones the first counts.
        first = {signed(candidates[index].fingerprint): index for index in reversed(indices)}
        if len(first) < MANY:
            add = self._cursor.execute
            added = [fingerprint for fingerprint in first if add(_ADD_ONE, (site.id, fingerprint)).rowcount]
        else:
            rows = self._connection.execute(_ADD_MANY, (site.id, json_array(first)))
            added = [fingerprint for (fingerprint,) in rows]
        new = sorted(first[fingerprint] for fingerprint in added)
        paths = [path for index in new if (path := candidates[index].path_fingerprint)]
        if paths:
            variants = self._load_variants(site, paths)
            variants.update(paths)
            if max(variants.values()) > limits.path_variants:
                self._connection.execute(_REMOVE_SEEN, (site.id, json_array(added)))
                return None
            self._write_variants(site, variants)
        return new

    def _load_variants(self, site: Site, paths: Iterable[int]) -> Counter[int]:
        """How many were admitted, by the fingerprint of their path."""
        wanted = {signed(path): path for path in paths}
        rows = self._connection.execute(_VARIANTS, (json_array(wanted), site.id))
        return Counter({wanted[path]: number for path, number in rows})

    def _write_variants(self, site: Site, variants: Counter[int]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO variants VALUES (?, ?, ?)",
            [(site.id, signed(path), number) for path, number in variants.items()],
        )

    def _judge(
        self,
        site: Site,
        candidates: Sequence[Candidate],
        indices: Sequence[int],
        limits: AdmitLimits,
        answers: list[Reason],
    ) -> list[int]:
        """The same where some may be refused, one by one, in order."""
        wanted = json_array(signed(candidates[index].fingerprint) for index in indices)
        seen = {fingerprint for (fingerprint,) in self._connection.execute(_SEEN, (wanted, site.id))}
        variants = self._load_variants(site, filter(None, (candidates[index].path_fingerprint for index in indices)))
        grown: set[int] = set()
        new: dict[int, int] = {}
        for index in indices:
            candidate = candidates[index]
            path = candidate.path_fingerprint
            if candidate.is_seed and not site.is_seeded:
                site.is_seeded = True
                site.is_changed = True
            fingerprint = signed(candidate.fingerprint)
            if fingerprint in seen or fingerprint in new:
                continue
            if site.dropped is not None:
                answers[index] = Reason.SITE_DROPPED
            elif limits.only_seeded_sites and not site.is_seeded:
                answers[index] = Reason.SCOPE
            elif site.admitted + len(new) >= limits.site_urls and not candidate.is_seed:
                answers[index] = Reason.SITE_FULL
            elif path and variants[path] >= limits.path_variants and not candidate.is_seed:
                answers[index] = Reason.PATH_VARIANTS
            elif site.queued + len(new) >= limits.site_queue:
                answers[index] = Reason.QUEUE_FULL
            else:
                new[fingerprint] = index
                if path:
                    variants[path] += 1
                    grown.add(path)
        self._write_variants(site, Counter({path: variants[path] for path in grown}))
        self._connection.executemany("INSERT INTO seen VALUES (?, ?)", [(site.id, number) for number in new])
        return list(new.values())
