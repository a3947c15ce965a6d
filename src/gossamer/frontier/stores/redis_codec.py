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
from gossamer.frontier.stores.entries import entries_of
from gossamer.records import Candidate, Destination, Finished, Move, Reason, Release, SiteClock

encode = msgspec.msgpack.Encoder().encode

_HEADER = struct.Struct("<7d")
_SITE = struct.Struct("<dddddIIIIIIB")

#: What stands in a queue for a block: this, then its number and how many entries it has.
REFERENCE = b"\xff\xff\xff\xff"
_REFERENCE = struct.Struct("<dI")

#: The letters of the answers of admit.lua.
_ANSWERS = {
    ord("S"): Reason.SEEN,
    ord("D"): Reason.SITE_DROPPED,
    ord("O"): Reason.SCOPE,
    ord("F"): Reason.SITE_FULL,
    ord("V"): Reason.PATH_VARIANTS,
    ord("Q"): Reason.QUEUE_FULL,
}
_DESTINATIONS = {Destination.PAGE: "P", Destination.OUTCOME: "O", Destination.TAIL: "T", Destination.HEAD: "H"}

#: Candidates of one site as admit.lua reads them: site, fingerprints, lengths of the entries, whether one may come
#: twice, places of seeds, places of those for the head, places of variants of a path, fingerprints of these paths.
Group = tuple[str, list[str], list[int], bool, list[int] | bool, list[int] | bool, list[int] | bool, list[str] | bool]


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
    pieces: list[_Piece] = []
    for site, places in by_site.items():
        slot = slot_of(site, slots)
        pieces += [_Piece(slot, site, places[begin : begin + most]) for begin in range(0, len(places), most)]
    pieces.sort(key=lambda piece: piece.slot)
    batch = _Batch(candidates)
    step: list[_Piece] = []
    size = 0
    for piece in pieces:
        if step and size + len(piece.places) > most:
            yield batch.step(step)
            step = []
            size = 0
        step.append(piece)
        size += len(piece.places)
    yield batch.step(step)


class _Piece(NamedTuple):
    """Candidates of one site, by their places in the batch."""

    slot: int
    site: str
    places: list[int]


class _Batch:
    """What is sent of each candidate. Made for all of them in the order in which they came: that is how they stand in
    memory, and what is read from all over it costs twice as much."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._entries = entries_of(candidates)
        self._fingerprints = _decimals([candidate.fingerprint for candidate in candidates])
        self._has_twice = len(set(self._fingerprints)) < len(self._fingerprints)
        variants = [place for place, candidate in enumerate(candidates) if candidate.path_fingerprint]
        paths = _decimals([candidates[place].path_fingerprint for place in variants])
        self._paths = dict(zip(variants, paths, strict=True))
        self._seeds = {place for place, candidate in enumerate(candidates) if candidate.is_seed}
        self._heads = {place for place, candidate in enumerate(candidates) if candidate.at_head}

    def step(self, pieces: Iterable[_Piece]) -> Step:
        by_slot: dict[int, list[Group]] = {}
        entries: list[bytes] = []
        all_places: list[int] = []
        for slot, site, places in pieces:
            own = [self._entries[place] for place in places]
            paths = self._paths
            variants = [number for number, place in enumerate(places, 1) if place in paths]
            by_slot.setdefault(slot, []).append(
                (
                    site,
                    [self._fingerprints[place] for place in places],
                    list(map(len, own)),
                    self._has_twice,
                    _which(places, self._seeds),
                    _which(places, self._heads),
                    variants or False,
                    [paths[places[number - 1]] for number in variants] or False,
                )
            )
            entries += own
            all_places += places
        return Step(list(by_slot), list(by_slot.values()), b"".join(entries), all_places)


def _which(places: Sequence[int], wanted: set[int]) -> list[int] | bool:
    """The numbers, from 1, of those that are wanted; False if there are none."""
    return bool(wanted) and ([number for number, place in enumerate(places, 1) if place in wanted] or False)


def _decimals(fingerprints: Sequence[int]) -> list[str]:
    """As signed numbers; all at once, which costs a third of one by one."""
    number = len(fingerprints)
    return list(map(str, struct.unpack(f"<{number}q", struct.pack(f"<{number}Q", *fingerprints))))


def answers(step: Step, refused: Sequence[int], into: list[Reason]) -> None:
    """`refused` are a place in the step and a letter, and so on."""
    for place, letter in zip(refused[::2], refused[1::2], strict=True):
        into[step.places[place - 1]] = _ANSWERS[letter]


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
    not_before, _, last_request_at, crawl_delay, lease, failures, queued, admitted, *_, is_seeded = _SITE.unpack_from(
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
    blocks: float


def header_of(raw: bytes) -> Header:
    return Header._make(_HEADER.unpack(raw))
