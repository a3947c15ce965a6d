"""Admission: what was never seen is marked as seen and queued, in one transaction."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence

from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.entries import LONGEST_URL_BYTES, entries_of, signed
from gossamer.frontier.stores.sqlite_seen import Seen
from gossamer.frontier.stores.sqlite_sites import Site, Sites
from gossamer.records import Candidate, Reason
from gossamer.url import stable_hash


class Admission:
    """Marks a site's candidates as seen and queues those of them that were not. Part of `Verbs`."""

    def __init__(self, connection: sqlite3.Connection, sites: Sites, totals: Counter[str]) -> None:
        self._sites = sites
        self._seen = Seen(connection)
        self._totals = totals

    def forget(self) -> None:
        """Before each transaction: others may have written since."""
        self._seen.forget()

    def write(self) -> None:
        """Before anybody else reads what was seen, and at the end of the transaction."""
        self._seen.write()

    def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, now: float) -> list[Reason]:
        by_site: dict[str, list[int]] = {}
        for index, candidate in enumerate(candidates):
            by_site.setdefault(candidate.site, []).append(index)
        keys = {name: signed(stable_hash(name)) for name in by_site}
        loaded = self._sites.load(keys.values())
        sites = [loaded.get(key) or self._sites.create(name) for name, key in keys.items()]
        self._seen.load(sites)
        answers = [Reason.SEEN] * len(candidates)
        of_sites = [
            (site, self._new(site, candidates, indices, limits, answers))
            for site, indices in zip(sites, by_site.values(), strict=True)
        ]
        # Of all sites at once: the links of a page lead to several.
        new = [candidates[index] for _, indices in of_sites for index in indices]
        entries = entries_of(new)
        begin = 0
        for site, indices in of_sites:
            if indices:
                end = begin + len(indices)
                if not site.queued and not site.lease:
                    site.not_before = max(site.not_before, now)
                self._queue(site, new[begin:end], entries[begin:end])
                begin = end
                for index in indices:
                    answers[index] = Reason.NEW
        self._totals["admitted"] += len(new)
        return answers

    def _new(
        self,
        site: Site,
        candidates: Sequence[Candidate],
        indices: Sequence[int],
        limits: AdmitLimits,
        answers: list[Reason],
    ) -> list[int]:
        """Which of a site's candidates are to be queued; what is refused is said in `answers`."""
        fingerprints = [candidates[index].fingerprint for index in indices]
        unseen = self._seen.unseen(site, fingerprints)
        number = len(unseen)
        if (
            site.dropped is not None
            or (limits.only_seeded_sites and not site.is_seeded)
            or site.queued + number > limits.site_queue
            or not _fit(limits.site_queue_bytes, site.queued + number, candidates, indices)
            # No path can have more variants than the site has URLs.
            or site.admitted + number > min(limits.site_urls, limits.path_variants)
        ):
            offered = {index: candidates[index] for index in indices}
            return self._judge(site, offered, unseen, limits, answers)
        if not site.is_seeded and any(candidates[index].is_seed for index in indices):
            site.is_seeded = True
            site.is_changed = True
        if number == len(indices):
            return list(indices)
        new = []
        for index, fingerprint in zip(indices, fingerprints, strict=True):
            if fingerprint in unseen:
                unseen.remove(fingerprint)  # of two equal ones the first counts
                new.append(index)
        return new

    def _judge(
        self,
        site: Site,
        offered: Mapping[int, Candidate],
        unseen: set[int],
        limits: AdmitLimits,
        answers: list[Reason],
    ) -> list[int]:
        """The same where some may be refused, one by one, in order."""
        variants = self._seen.variants(site, {path for one in offered.values() if (path := one.path_fingerprint)})
        new: list[int] = []
        for index, candidate in offered.items():
            path = candidate.path_fingerprint
            if candidate.is_seed and not site.is_seeded:
                site.is_seeded = True
                site.is_changed = True
            if candidate.fingerprint not in unseen:
                continue
            if site.dropped is not None:
                answers[index] = Reason.SITE_DROPPED
            elif limits.only_seeded_sites and not site.is_seeded:
                answers[index] = Reason.SCOPE
            elif site.admitted + len(new) >= limits.site_urls and not candidate.is_seed:
                answers[index] = Reason.SITE_FULL
            elif path and variants[path] >= limits.path_variants and not candidate.is_seed:
                answers[index] = Reason.PATH_VARIANTS
            elif (
                site.queued + len(new) >= limits.site_queue
                or (site.queued + len(new) + 1) * len(candidate.url.encode()) > limits.site_queue_bytes
            ):
                answers[index] = Reason.QUEUE_FULL
            else:
                unseen.remove(candidate.fingerprint)
                new.append(index)
                variants[path] += 1
        return new

    def _queue(self, site: Site, new: Sequence[Candidate], entries: Sequence[bytes]) -> None:
        self._seen.add(
            site,
            [candidate.fingerprint for candidate in new],
            [path for candidate in new if (path := candidate.path_fingerprint)],
        )
        tail = [entry for candidate, entry in zip(new, entries, strict=True) if not candidate.at_head]
        if tail:
            self._sites.append(site, tail)
        if len(tail) < len(new):
            for candidate, entry in zip(new, entries, strict=True):
                if candidate.at_head:
                    self._sites.put_back(site, entry)


def _fit(most_bytes: int, queued: int, candidates: Sequence[Candidate], indices: Sequence[int]) -> bool:
    """Whether `site_queue_bytes` lets all of these candidates into a queue that has `queued` URLs with them."""
    if queued * LONGEST_URL_BYTES <= most_bytes:
        return True  # nearly all queues are short
    return queued * max(len(candidates[index].url.encode()) for index in indices) <= most_bytes
