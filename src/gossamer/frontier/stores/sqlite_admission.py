"""Admission in SQL: what was never seen is marked as seen and queued, in one transaction."""

import sqlite3
from collections import Counter
from collections.abc import Sequence

from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.sqlite_sites import Site, Sites, json_array, queued_url, signed
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
            if (
                site.dropped is None
                and (site.is_seeded or not limits.only_seeded_sites)
                and site.queued + len(indices) <= limits.site_queue
            ):
                new = self._add_unseen(site, candidates, indices)
            else:
                new = self._judge(site, candidates, indices, limits, answers)
            head: list[bytes] = []
            tail: list[bytes] = []
            for index in new:
                answers[index] = Reason.NEW
                candidate = candidates[index]
                (head if candidate.at_head else tail).append(queued_url(candidate))
            if tail:
                self._sites.append(site, tail)
            for url in head:
                self._sites.put_back(site, url)
            self._totals["admitted"] += len(new)
        return answers

    def _add_unseen(self, site: Site, candidates: Sequence[Candidate], indices: Sequence[int]) -> list[int]:
        """All candidates of an open site with room: which of them are new. They are marked as seen."""
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
        return sorted(first[fingerprint] for fingerprint in added)

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
        new: dict[int, int] = {}
        for index in indices:
            candidate = candidates[index]
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
            elif site.queued + len(new) >= limits.site_queue:
                answers[index] = Reason.QUEUE_FULL
            else:
                new[fingerprint] = index
        self._connection.executemany("INSERT INTO seen VALUES (?, ?)", [(site.id, number) for number in new])
        return list(new.values())
