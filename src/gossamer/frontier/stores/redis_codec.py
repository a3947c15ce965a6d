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
_DESTINATIONS = {
    Destination.PAGE: "P",
    Destination.OUTCOME: "O",
    Destination.TAIL: "T",
    Destination.LATER: "L",
    Destination.HEAD: "H",
}

#: Candidates of a batch that are prepared together: what was read of them is then still near the processor.
_TOGETHER = 250
_SIGN = 1 << 63
_BEYOND = 1 << 64


class Step(NamedTuple):
    """One call of admit.lua, which says what it is given of each slot."""

    slots: list[int]
    groups: list[list[object]]
    entries: bytes
    places: list[int]
    """Where each of its candidates stands in the batch."""


class _Group:
    """Candidates of one site, in their order."""

    __slots__ = ("entries", "fingerprints", "heads", "paths", "places", "seeds", "site", "slot", "variants")

    def __init__(self, slot: int, site: str) -> None:
        self.slot = slot
        self.site = site
        self.places: list[int] = []
        """In the batch."""
        self.fingerprints: list[str] = []
        self.entries: list[bytes] = []
        # The numbers of some, from 1.
        self.variants: list[int] = []
        self.paths: list[str] = []
        """Of these variants."""
        self.seeds: list[int] = []
        self.heads: list[int] = []

    def words(self, entries: bytes) -> tuple[object, ...]:
        """As admit.lua reads it."""
        has_twice = len(set(self.fingerprints)) < len(self.fingerprints)
        is_unusual = has_twice or self.seeds or self.heads
        return (
            self.site,
            len(entries),
            self.fingerprints,
            self.variants or False,
            self.paths or False,
            (has_twice, self.seeds or False, self.heads or False) if is_unusual else False,
        )


def steps(candidates: Sequence[Candidate], slots: int, most: int) -> Iterable[Step]:
    """A batch, sorted by slot and site, in steps of so many URLs. The order within a site stays."""
    step: list[_Group] = []
    size = 0
    for group in sorted(_groups(candidates, slots, most), key=lambda group: group.slot):
        if step and size + len(group.places) > most:
            yield _step(step)
            step = []
            size = 0
        step.append(group)
        size += len(group.places)
    yield _step(step)


def _groups(candidates: Sequence[Candidate], slots: int, most: int) -> list[_Group]:
    """Of at most so many candidates. They are read once and in the order in which they came: that is how they stand in
    memory, and waiting for it is most of what this costs."""
    groups: list[_Group] = []
    latest: dict[str, _Group] = {}
    for begin in range(0, len(candidates), _TOGETHER):
        together = candidates[begin : begin + _TOGETHER]
        for place, (candidate, entry) in enumerate(zip(together, entries_of(together), strict=True), begin):
            site = candidate.site
            group = latest.get(site)
            if group is None or len(group.places) == most:
                group = latest[site] = _Group(slot_of(site, slots), site)
                groups.append(group)
            group.places.append(place)
            group.entries.append(entry)
            fingerprint, path = candidate.fingerprint, candidate.path_fingerprint
            group.fingerprints.append(str(fingerprint if fingerprint < _SIGN else fingerprint - _BEYOND))
            if path:
                group.variants.append(len(group.places))
                group.paths.append(str(path if path < _SIGN else path - _BEYOND))
            if candidate.is_seed:
                group.seeds.append(len(group.places))
            if candidate.at_head:
                group.heads.append(len(group.places))
    return groups


def _step(groups: Iterable[_Group]) -> Step:
    by_slot: dict[int, list[object]] = {}
    all_entries: list[bytes] = []
    places: list[int] = []
    for group in groups:
        entries = b"".join(group.entries)
        by_slot.setdefault(group.slot, []).extend(group.words(entries))
        all_entries.append(entries)
        places += group.places
    return Step(list(by_slot), list(by_slot.values()), b"".join(all_entries), places)


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
