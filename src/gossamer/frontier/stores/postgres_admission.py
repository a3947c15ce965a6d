"""Admission in PostgreSQL: what was never seen is marked as seen and queued, in one transaction."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.entries import entry_of, signed
from gossamer.frontier.stores.postgres_pool import Connection
from gossamer.frontier.stores.postgres_sites import Site, Sites, site_key
from gossamer.frontier.stores.postgres_statements import statement
from gossamer.records import Candidate, Reason

#: A URL, or a path of one: its site, and its fingerprint as SQL has it.
Print = tuple[int, int]


class _Offer(msgspec.Struct):
    """The candidates of one site."""

    indices: list[int]
    """Their places in the batch, in its order."""
    first: dict[int, int]
    """By fingerprint, the place of the first that has it."""
    paths: list[int]
    """Of those that are variants of one, likewise as SQL has them; as often as there are."""
    has_seed: bool = False


async def admit(
    connection: Connection, slots: int, candidates: Sequence[Candidate], limits: AdmitLimits
) -> list[Reason]:
    """In a transaction. While a site is locked, nobody else admits to it: what was found of it stays true."""
    offers = _by_site(candidates)
    keys = {name: site_key(name) for name in offers}
    sites = Sites(connection, slots)
    locked = await sites.lock(keys.values())
    offered = [(locked.get(keys[name]) or sites.create(keys[name], name), offer) for name, offer in offers.items()]
    variants = await _find_variants(connection, {(site.key, path) for site, offer in offered for path in offer.paths})
    answers = [Reason.SEEN] * len(candidates)
    wanted: dict[int, Iterable[int]] = {}
    difficult: list[tuple[Site, _Offer]] = []
    for site, offer in offered:
        if _has_room(site, offer, limits, variants):
            wanted[site.key] = offer.first
        else:
            difficult.append((site, offer))
    if difficult:
        seen = await _find_seen(connection, difficult)
        for site, offer in difficult:
            wanted[site.key] = _judge(site, offer, candidates, limits, variants, seen, answers)
    new = await _add_seen(connection, wanted)
    grown: Counter[Print] = Counter()
    for site, offer in offered:
        added = new.get(site.key)
        if added is not None:
            _queue(sites, site, [offer.first[fingerprint] for fingerprint in added], candidates, answers, grown)
    if grown:
        variants.update(grown)
        ordered = sorted(grown)
        await connection.execute(statement("write_variants"), *_columns(ordered), [variants[path] for path in ordered])
    await sites.write()
    return answers


def _by_site(candidates: Sequence[Candidate]) -> dict[str, _Offer]:
    offers: dict[str, _Offer] = {}
    for index, candidate in enumerate(candidates):
        offer = offers.get(candidate.site)
        if offer is None:
            offer = offers[candidate.site] = _Offer([], {}, [])
        offer.indices.append(index)
        offer.first.setdefault(signed(candidate.fingerprint), index)
        if candidate.path_fingerprint:
            offer.paths.append(signed(candidate.path_fingerprint))
        if candidate.is_seed:
            offer.has_seed = True
    return offers


def _has_room(site: Site, offer: _Offer, limits: AdmitLimits, variants: Counter[Print]) -> bool:
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
        and site.admitted + number <= limits.site_urls
        and all(
            variants[site.key, path] + times <= limits.path_variants for path, times in Counter(offer.paths).items()
        )
    )


def _judge(  # noqa: PLR0917 (each is another thing)
    site: Site,
    offer: _Offer,
    candidates: Sequence[Candidate],
    limits: AdmitLimits,
    variants: Counter[Print],
    seen: set[Print],
    answers: list[Reason],
) -> list[int]:
    """The fingerprints of those that are admitted, where some may be refused: one by one, in order."""
    admitted: Counter[int] = Counter()
    new: dict[int, int] = {}
    for index in offer.indices:
        candidate = candidates[index]
        path = candidate.path_fingerprint
        if candidate.is_seed and not site.is_seeded:
            site.is_seeded = site.is_changed = True
        fingerprint = signed(candidate.fingerprint)
        if (site.key, fingerprint) in seen or fingerprint in new:
            continue
        if site.dropped is not None:
            answers[index] = Reason.SITE_DROPPED
        elif limits.only_seeded_sites and not site.is_seeded:
            answers[index] = Reason.SCOPE
        elif site.admitted + len(new) >= limits.site_urls and not candidate.is_seed:
            answers[index] = Reason.SITE_FULL
        elif (
            path and not candidate.is_seed and variants[site.key, signed(path)] + admitted[path] >= limits.path_variants
        ):
            answers[index] = Reason.PATH_VARIANTS
        elif site.queued + len(new) >= limits.site_queue:
            answers[index] = Reason.QUEUE_FULL
        else:
            new[fingerprint] = index
            admitted[path] += 1
    # Of two equal ones the first may have been refused.
    offer.first = new
    return list(new)


def _queue(  # noqa: PLR0917 (each is another thing)
    sites: Sites,
    site: Site,
    new: list[int],
    candidates: Sequence[Candidate],
    answers: list[Reason],
    grown: Counter[Print],
) -> None:
    """`new` are the places in the batch of those that were never seen."""
    head: list[bytes] = []
    tail: list[bytes] = []
    for index in sorted(new):
        answers[index] = Reason.NEW
        candidate = candidates[index]
        (head if candidate.at_head else tail).append(entry_of(candidate))
        if candidate.path_fingerprint:
            grown[site.key, signed(candidate.path_fingerprint)] += 1
    if tail:
        sites.append(site, tail)
    for url in head:
        sites.put_back(site, url)
    site.admitted += len(new)
    sites.totals["admitted"] += len(new)


async def _find_variants(connection: Connection, paths: Iterable[Print]) -> Counter[Print]:
    """How many were admitted of each path."""
    wanted = list(paths)
    if not wanted:
        return Counter()
    rows = await connection.fetch(statement("find_variants"), *_columns(wanted))
    return Counter({(site, path): number for site, path, number in rows})


async def _find_seen(connection: Connection, offered: Sequence[tuple[Site, _Offer]]) -> set[Print]:
    wanted = [(site.key, fingerprint) for site, offer in offered for fingerprint in offer.first]
    return {
        (site, fingerprint) for site, fingerprint in await connection.fetch(statement("find_seen"), *_columns(wanted))
    }


async def _add_seen(connection: Connection, wanted: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """By site, the fingerprints that were not seen until now."""
    sites: list[int] = []
    fingerprints: list[int] = []
    for site in sorted(wanted):
        ordered = sorted(wanted[site])
        sites += [site] * len(ordered)
        fingerprints += ordered
    if not sites:
        return {}
    new: dict[int, list[int]] = {}
    for site, fingerprint in await connection.fetch(statement("add_seen"), sites, fingerprints):
        known = new.get(site)
        if known is None:
            new[site] = [fingerprint]
        else:
            known.append(fingerprint)
    return new


def _columns(prints: Iterable[Print]) -> tuple[list[int], list[int]]:
    pairs = list(prints)
    return [site for site, _ in pairs], [fingerprint for _, fingerprint in pairs]
