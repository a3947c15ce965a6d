"""What travels between the store and its Lua scripts, and what Redis keeps of a site and of a slot.

Arguments go as one msgpack blob, grouped by slot. Lua's msgpack reads no binary strings, so entries of queues go beside
it, one behind the other; answers come as Redis's own arrays. The layouts here are those of `redis_scripts/common.lua`.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import SiteState
from gossamer.frontier.stores.entries import entry_of, signed
from gossamer.records import Candidate, Destination, Finished, Move, Reason, Release, SiteClock

encode = msgspec.msgpack.Encoder().encode

_HEADER = struct.Struct("<8d")
_SITE = struct.Struct("<dddddIIIIIB")

#: What stands in a queue for a block: this, then its number and how many entries it has.
REFERENCE = b"\xff\xff\xff\xff"
_REFERENCE = struct.Struct("<dI")

#: The letters of the answers of admit.lua.
_ANSWERS = {
    ord("N"): Reason.NEW,
    ord("S"): Reason.SEEN,
    ord("D"): Reason.SITE_DROPPED,
    ord("O"): Reason.SCOPE,
    ord("F"): Reason.SITE_FULL,
    ord("V"): Reason.PATH_VARIANTS,
    ord("Q"): Reason.QUEUE_FULL,
}
_DESTINATIONS = {Destination.PAGE: "P", Destination.OUTCOME: "O", Destination.TAIL: "T", Destination.HEAD: "H"}

#: Candidates of one site as admit.lua reads them: site, fingerprints, places of seeds, places of those for the head,
#: fingerprints of paths.
Group = tuple[str, list[str], list[int] | bool, list[int] | bool, list[str] | bool]


class Step(NamedTuple):
    """One call of admit.lua."""

    slots: list[int]
    groups: list[list[Group]]
    entries: bytes
    places: list[int]
    """Where each of its candidates stands in the batch."""


def steps(candidates: Sequence[Candidate], slots: int, most: int) -> Iterable[Step]:
    """A batch, sorted by slot and site, in steps of so many URLs. The order within a site stays."""
    by_site: dict[str, list[int]] = {}
    for place, candidate in enumerate(candidates):
        places = by_site.get(candidate.site)
        if places is None:
            by_site[candidate.site] = [place]
        else:
            places.append(place)
    pieces: list[tuple[int, list[int]]] = []
    for site, places in by_site.items():
        slot = slot_of(site, slots)
        pieces += [(slot, places[begin : begin + most]) for begin in range(0, len(places), most)]
    if len(candidates) <= most:
        yield _step(candidates, pieces)
        return
    pieces.sort(key=lambda piece: piece[0])
    step: list[tuple[int, list[int]]] = []
    size = 0
    for piece in pieces:
        if size + len(piece[1]) > most:
            yield _step(candidates, step)
            step = []
            size = 0
        step.append(piece)
        size += len(piece[1])
    yield _step(candidates, step)


def _step(candidates: Sequence[Candidate], pieces: Iterable[tuple[int, list[int]]]) -> Step:
    by_slot: dict[int, list[list[int]]] = {}
    for slot, places in pieces:
        by_slot.setdefault(slot, []).append(places)
    entries: list[bytes] = []
    all_places: list[int] = []
    groups: list[list[Group]] = []
    for of_slot in by_slot.values():
        groups.append([_group(candidates, places, entries) for places in of_slot])
        for places in of_slot:
            all_places += places
    return Step(list(by_slot), groups, b"".join(entries), all_places)


def _group(candidates: Sequence[Candidate], places: Sequence[int], entries: list[bytes]) -> Group:
    fingerprints: list[str] = []
    seeds: list[int] = []
    heads: list[int] = []
    has_paths = False
    for number, place in enumerate(places, 1):
        candidate = candidates[place]
        fingerprints.append(str(signed(candidate.fingerprint)))
        entries.append(entry_of(candidate))
        if candidate.is_seed:
            seeds.append(number)
        if candidate.at_head:
            heads.append(number)
        if candidate.path_fingerprint:
            has_paths = True
    paths = has_paths and [_path(candidates[place].path_fingerprint) for place in places]
    return candidates[places[0]].site, fingerprints, seeds or False, heads or False, paths


def _path(fingerprint: int) -> str:
    return str(signed(fingerprint)) if fingerprint else ""


def answers(step: Step, letters: bytes, into: list[Reason]) -> None:
    for place, letter in zip(step.places, letters, strict=True):
        if letter != 83:  # they are SEEN unless it says otherwise
            into[place] = _ANSWERS[letter]


def releases_by_slot(releases: Iterable[Release]) -> dict[int, list[object]]:
    by_slot: dict[int, list[object]] = {}
    for release in releases:
        lease, clock = release.lease, release.clock
        by_slot.setdefault(lease.slot, []).append(
            (
                lease.site,
                lease.number,
                release.was_requested,
                float(release.not_before),
                float(clock.last_request_at),
                float(clock.crawl_delay_seconds),
                clock.failures,
                release.dropped or "",
            )
        )
    return by_slot


def moves_by_slot(moves: Iterable[Move]) -> dict[int, list[object]]:
    by_slot: dict[int, list[object]] = {}
    for move in moves:
        lease = move.lease
        by_slot.setdefault(lease.slot, []).extend((lease.number, _DESTINATIONS[move.destination], move.reason))
    return by_slot


def finished_by_slot(finished: Iterable[Finished]) -> dict[int, list[object]]:
    by_slot: dict[int, dict[str, list[object]]] = {}
    for done in finished:
        of_slot = by_slot.setdefault(done.slot, {})
        of_slot.setdefault(done.segment, []).extend((done.number, done.reason, done.received_bytes))
    return {
        slot: [item for segment, urls in segments.items() for item in (segment, urls)]
        for slot, segments in by_slot.items()
    }


def clock_of(record: bytes) -> SiteClock:
    """Of a site's record."""
    fields = _SITE.unpack_from(record)
    return SiteClock(fields[2], fields[3], fields[5])


class Owner(NamedTuple):
    """Of a slot, as the scripts answer it."""

    epoch: int
    name: bytes
    until: bytes


def state_of(name: str, slot: int, record: bytes, owner: Owner) -> SiteState:
    not_before, _, last_request_at, crawl_delay, lease, failures, queued, admitted, _, _, is_seeded = _SITE.unpack_from(
        record
    )
    dropped = record[_SITE.size :].decode()
    return SiteState(
        name=name,
        slot=slot,
        is_seeded=bool(is_seeded),
        dropped=Reason(dropped) if dropped else None,
        not_before=not_before,
        clock=SiteClock(last_request_at, crawl_delay, failures),
        queued=queued,
        admitted=admitted,
        is_busy=lease > 0,
        owner=owner.name.decode(),
        epoch=owner.epoch,
        owned_until=float(owner.until) if owner.name else 0.0,
    )


def offset_of(record: bytes) -> int:
    """How many bytes of the first item of a site's queue are taken already."""
    offset: int = _SITE.unpack_from(record)[8]
    return offset


def block_of(item: bytes) -> int | None:
    """If this item of a queue is a reference: the number of its block."""
    return int(_REFERENCE.unpack_from(item, len(REFERENCE))[0]) if item.startswith(REFERENCE) else None


class Header(NamedTuple):
    """The numbers of a slot."""

    epoch: float
    serial: float
    admitted: float
    spooled: float
    spooled_pages: float
    received_bytes: float
    buckets: float
    blocks: float


def header_of(raw: bytes) -> Header:
    return Header._make(_HEADER.unpack(raw))
