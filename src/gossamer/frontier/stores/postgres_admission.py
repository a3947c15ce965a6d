"""Admission in PostgreSQL: what was never seen is marked as seen and queued, in one transaction.

Most of it is one call of the server, `admit_plain`, for nearly all links lead to sites that have room for them.
What that leaves, and what it cannot be asked, is thought about here, by `admit`.
"""

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, repeat

import msgspec

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.entries import HEADER_BYTES, entries_of
from gossamer.frontier.stores.postgres_pool import Connection
from gossamer.frontier.stores.postgres_sites import BLOCK_BYTES, SMALL_BLOCK_BYTES, Site, Sites, site_key
from gossamer.frontier.stores.postgres_statements import literal, statement
from gossamer.records import Candidate, Reason

#: The server cuts a block behind the URL that passes this. Most are shorter than what is left to `BLOCK_BYTES`.
_CUT_BYTES = BLOCK_BYTES - 150

#: A URL, or a path of one: its site, and its fingerprint as SQL has it.
Print = tuple[int, int]


class _Offer(msgspec.Struct):
    """The candidates of one site."""

    indices: list[int]
    """Their places in the batch, in its order."""
    first: dict[int, int] = {}
    """By fingerprint, the place of the first that has it."""
    paths: list[int] = []
    """Of those that are variants of one, likewise as SQL has them; as often as there are."""
    has_seed: bool = False


class Plain:
    """Those candidates of a call that the server can admit by itself: links, one of each, behind the queues.

    Made before the call, as `Batch` is. `others` are the places of the rest.
    """

    def __init__(self, candidates: Sequence[Candidate], slots: int) -> None:
        by_site: dict[str, list[int]] = {}
        for index, candidate in enumerate(candidates):
            indices = by_site.get(candidate.site)
            if indices is None:
                by_site[candidate.site] = [index]
            else:
                indices.append(index)
        apart = {candidate.site for candidate in candidates if candidate.is_seed or candidate.at_head}
        self.others = sorted(index for name in apart for index in by_site.pop(name))
        offers = sorted((site_key(name), name) for name in by_site)
        self.sites = [by_site[name] for _, name in offers]
        """The places of the candidates of each site."""
        self.order = [index for indices in self.sites for index in indices]
        plain = [candidates[index] for index in self.order]
        fingerprints = [candidate.fingerprint for candidate in plain]
        if len(set(fingerprints)) < len(fingerprints):
            self.others, self.sites, self.order = list(range(len(candidates))), [], []
            return
        paths = [candidate.path_fingerprint for candidate in plain]
        entries = entries_of(plain)
        lengths = list(map(len, entries))
        numbers = list(map(len, self.sites))
        self._sites = (
            _literal([key for key, _ in offers]),
            _literal([slot_of(name, slots) for _, name in offers]),
            [name.encode() for _, name in offers],
            _literal(numbers),
            _literal(_repeats(paths, numbers)),
        )
        self._numbers = numbers
        self._longest = _longest(lengths, numbers)
        self._urls = (
            _literal([place for place, number in enumerate(numbers, 1) for _ in repeat(None, number)]),
            _literal(_signed(fingerprints)),
            _literal(_signed(paths)),
            _literal([0, *accumulate(lengths[:-1])]),
            _literal(lengths),
            b"".join(entries),
        )

    def arguments(self, limits: AdmitLimits, now: float) -> tuple[object, ...]:
        """Positional parameters for admit.sql."""
        # How long each queue may be already for all of its candidates to have room.
        queued = [
            min(limits.site_queue, limits.site_queue_bytes // longest) - number
            for number, longest in zip(self._numbers, self._longest, strict=True)
        ]
        most = _literal([limits.site_urls, limits.path_variants])
        return (
            *self._sites,
            _literal(queued),
            most,
            limits.only_seeded_sites,
            *self._urls,
            _CUT_BYTES,
            SMALL_BLOCK_BYTES,
            now,
        )


def _repeats(paths: Sequence[int], numbers: Iterable[int]) -> list[int]:
    """Of each site, how many of its candidates may share a path: not fewer than do. `numbers` is how many each has."""
    repeats: list[int] = []
    begin = 0
    for number in numbers:
        those = [path for path in paths[begin : begin + number] if path]
        repeats.append(len(those) - len(set(those)) + 1 if those else 0)
        begin += number
    return repeats


def _longest(lengths: Sequence[int], numbers: Iterable[int]) -> list[int]:
    """Of each site, the bytes of the longest of its candidates' URLs, or more: `lengths` are those of their entries,
    some of which say where they were found. A site that is left because of that is judged by `admit`."""
    longest: list[int] = []
    begin = 0
    for number in numbers:
        longest.append(max(1, max(lengths[begin : begin + number]) - HEADER_BYTES))
        begin += number
    return longest


async def admit_plain(
    connection: Connection, plain: Plain, limits: AdmitLimits, now: float
) -> tuple[list[int], list[int]]:
    """One statement. The places of those that are new, and, in order, of those that `admit` has to be asked about."""
    turns, sites = await connection.fetchrow(statement("admit"), *plain.arguments(limits, now))
    order = plain.order
    left = [index for site in sites for index in plain.sites[site - 1]]
    return [order[turn - 1] for turn in turns or ()], sorted(plain.others + left)


class Batch:
    """All candidates of one call, and what is made of each; fingerprints as SQL has them, a path of 0 is none.

    Made before the transaction: others wait for what that has locked.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        self.fingerprints = _signed([candidate.fingerprint for candidate in candidates])
        self.paths = _signed([candidate.path_fingerprint for candidate in candidates])
        self.entries = entries_of(candidates)
        self.offers = self._by_site()
        self.keys = {name: site_key(name) for name in self.offers}

    def _by_site(self) -> dict[str, _Offer]:
        offers: dict[str, _Offer] = {}
        for index, candidate in enumerate(self.candidates):
            offer = offers.get(candidate.site)
            if offer is None:
                offers[candidate.site] = _Offer([index])
            else:
                offer.indices.append(index)
        seeds = {index for index, candidate in enumerate(self.candidates) if candidate.is_seed}
        fingerprints, paths = self.fingerprints, self.paths
        for offer in offers.values():
            offer.first = {fingerprints[index]: index for index in reversed(offer.indices)}
            offer.paths = [paths[index] for index in offer.indices if paths[index]]
            offer.has_seed = bool(seeds) and not seeds.isdisjoint(offer.indices)
        return offers


async def admit(connection: Connection, slots: int, batch: Batch, limits: AdmitLimits, now: float) -> list[Reason]:
    """In a transaction. While a site is locked, nobody else admits to it: what was found of it stays true."""
    sites = Sites(connection, slots)
    locked = await sites.lock(batch.keys.values())
    offered = [
        (locked.get(batch.keys[name]) or sites.create(batch.keys[name], name), offer)
        for name, offer in batch.offers.items()
    ]
    seen = await _find_seen(connection, [(site, offer) for site, offer in offered if site.admitted])
    variants = await _find_variants(connection, {(site.key, path) for site, offer in offered for path in offer.paths})
    answers = [Reason.SEEN] * len(batch.candidates)
    grown: Counter[Print] = Counter()
    for site, offer in offered:
        known = seen.get(site.key, set())
        if _has_room(site, offer, batch, limits, variants):
            new = {fingerprint: index for fingerprint, index in offer.first.items() if fingerprint not in known}
        else:
            new = _judge(site, offer, batch, limits, variants, known, answers)
        if new:
            if not site.queued and not site.lease:
                site.not_before = max(site.not_before, now)
            sites.mark(site, new)
            _queue(sites, site, sorted(new.values()), batch, answers, grown)
    sites.count_variants(variants, grown)
    await sites.write()
    return answers


def _has_room(site: Site, offer: _Offer, batch: Batch, limits: AdmitLimits, variants: Counter[Print]) -> bool:
    """Whether all of them would be admitted that are not seen, whichever these are."""
    number = len(offer.indices)
    if offer.has_seed and not site.is_seeded:
        if limits.only_seeded_sites:
            return False  # those before the first seed are refused
        site.is_seeded = site.is_changed = True
    return (
        site.dropped is None
        and (site.is_seeded or not limits.only_seeded_sites)
        and site.queued + number <= limits.site_queue
        and (site.queued + number) * max(len(batch.candidates[index].url.encode()) for index in offer.indices)
        <= limits.site_queue_bytes
        and site.admitted + number <= limits.site_urls
        and (
            not offer.paths
            or all(
                variants[site.key, path] + times <= limits.path_variants for path, times in Counter(offer.paths).items()
            )
        )
    )


def _judge(  # noqa: PLR0917 (each is another thing)
    site: Site,
    offer: _Offer,
    batch: Batch,
    limits: AdmitLimits,
    variants: Counter[Print],
    seen: Collection[int],
    answers: list[Reason],
) -> dict[int, int]:
    """Those that are admitted, where some may be refused: one by one, in order."""
    admitted: Counter[int] = Counter()
    new: dict[int, int] = {}
    for index in offer.indices:
        is_seed, path, fingerprint = batch.candidates[index].is_seed, batch.paths[index], batch.fingerprints[index]
        if is_seed and not site.is_seeded:
            site.is_seeded = site.is_changed = True
        if fingerprint in seen or fingerprint in new:
            continue
        if site.dropped is not None:
            answers[index] = Reason.SITE_DROPPED
        elif limits.only_seeded_sites and not site.is_seeded:
            answers[index] = Reason.SCOPE
        elif site.admitted + len(new) >= limits.site_urls and not is_seed:
            answers[index] = Reason.SITE_FULL
        elif path and not is_seed and variants[site.key, path] + admitted[path] >= limits.path_variants:
            answers[index] = Reason.PATH_VARIANTS
        elif (
            site.queued + len(new) >= limits.site_queue
            or (site.queued + len(new) + 1) * len(batch.candidates[index].url.encode()) > limits.site_queue_bytes
        ):
            answers[index] = Reason.QUEUE_FULL
        else:
            new[fingerprint] = index
            admitted[path] += 1
    return new


def _queue(  # noqa: PLR0917 (each is another thing)
    sites: Sites, site: Site, new: list[int], batch: Batch, answers: list[Reason], grown: Counter[Print]
) -> None:
    """`new` are the places in the batch of those that were never seen, in order."""
    head: list[bytes] = []
    tail: list[bytes] = []
    candidates, entries, paths = batch.candidates, batch.entries, batch.paths
    for index in new:
        answers[index] = Reason.NEW
        (head if candidates[index].at_head else tail).append(entries[index])
        if paths[index]:
            grown[site.key, paths[index]] += 1
    if tail:
        sites.append(site, tail)
    for url in head:
        sites.put_back(site, url)
    site.admitted += len(new)
    sites.totals["admitted"] += len(new)


async def _find_variants(connection: Connection, paths: Iterable[Print]) -> Counter[Print]:
    """How many were admitted of each path."""
    wanted = sorted(paths)
    if not wanted:
        return Counter()
    rows = await connection.fetch(statement("find_variants"), *_columns(wanted))
    return Counter({(site, path): number for site, path, number in rows})


async def _find_seen(connection: Connection, offered: Sequence[tuple[Site, _Offer]]) -> dict[int, set[int]]:
    """By site, the fingerprints that are seen."""
    wanted = sorted((site.key, sorted(offer.first)) for site, offer in offered)
    if not wanted:
        return {}
    seen: dict[int, set[int]] = {}
    for site, fingerprint in await connection.fetch(
        statement("find_seen"),
        literal(site for site, fingerprints in wanted for _ in fingerprints),
        literal(fingerprint for _, fingerprints in wanted for fingerprint in fingerprints),
    ):
        seen.setdefault(site, set()).add(fingerprint)
    return seen


def _signed(numbers: Sequence[int]) -> tuple[int, ...]:
    """64 bits as SQL has them; all at once, which costs a third of one by one."""
    return struct.unpack(f"<{len(numbers)}q", struct.pack(f"<{len(numbers)}Q", *numbers))


def _literal(numbers: Sequence[int]) -> str:
    """As `literal` makes it; of numbers alone, at half the price."""
    return "{" + str(list(numbers))[1:-1] + "}"


def _columns(prints: Iterable[Print]) -> tuple[str, str]:
    pairs = list(prints)
    return literal(site for site, _ in pairs), literal(fingerprint for _, fingerprint in pairs)
