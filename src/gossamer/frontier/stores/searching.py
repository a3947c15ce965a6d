"""What the stores share when a URL is looked for: its queue, piece by piece, and the answer."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from gossamer.frontier.store import Sighting, SiteState, UrlState
from gossamer.frontier.stores.entries import lease_of, place_in
from gossamer.records import Candidate, Reason, SiteClock

#: Blocks of a queue that are read in one transaction: a megabyte, some 8,000 URLs, a few milliseconds. So many of one
#: site are never leased in the seconds that reading a whole queue takes.
BLOCKS_AT_ONCE = 500


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows of a URL at one moment, its queue apart."""

    site: SiteState | None
    is_seen: bool = False
    variants: int = 0
    number: int = 0
    """Of the lease that holds it, also when it is spooled; 0 if none does."""
    segment: str | None = None
    entry: bytes = b""
    """As it is held."""

    @property
    def may_be_queued(self) -> bool:
        return self.is_seen and not self.number and self.site is not None and self.site.queued > 0


def site_state(name: str, columns: Sequence[Any]) -> SiteState:
    """Of the columns that both stores in SQL read of a site and its slot, but for its name; what follows is theirs."""
    (slot, is_seeded, dropped, not_before, last_request_at, crawl_delay_seconds, failures, queued, admitted,
     lease, owner, epoch, until, *_) = columns  # fmt: skip
    return SiteState(
        name=name,
        slot=slot,
        is_seeded=bool(is_seeded),
        dropped=None if dropped is None else Reason(dropped),
        not_before=not_before,
        clock=SiteClock(last_request_at, crawl_delay_seconds, failures),
        queued=queued,
        admitted=admitted,
        is_busy=lease > 0,
        owner=owner or "",
        epoch=epoch,
        owned_until=0.0 if owner is None else until,
    )


class Piece(msgspec.Struct, frozen=True):
    """Blocks of a queue one behind the other, each with its place in the order."""

    blocks: Sequence[tuple[int, bytes]]

    @property
    def is_last(self) -> bool:
        return len(self.blocks) < BLOCKS_AT_ONCE


class FirstLook(msgspec.Struct, frozen=True):
    """All of one moment: what is known of a URL, and the beginning of its queue."""

    look: Look
    site: int
    """Under which the blocks of its site are found."""
    head_offset: int
    """Bytes of the first block that are taken already."""
    piece: Piece


class Search:
    """For one URL. `go_through` the pieces of its queue in their order, until it is found or there are no more."""

    def __init__(self, candidate: Candidate, look: Look) -> None:
        self._candidate = candidate
        self._look = look
        self._passed = 0
        self._entry = look.entry

    @property
    def may_be_queued(self) -> bool:
        return self._look.may_be_queued

    def go_through(self, entries: bytes, begin: int = 0) -> bool:
        """Whether it is here."""
        number, self._entry = place_in(entries, begin, self._candidate.fingerprint)
        self._passed += number
        return bool(self._entry)

    def sighting(self) -> Sighting:
        look = self._look
        if look.number:
            state = UrlState.LEASED if look.segment is None else UrlState.SPOOLED
        elif self._entry:
            state = UrlState.QUEUED
        else:
            state = UrlState.FINISHED if look.is_seen else UrlState.UNSEEN
        site = look.site
        return Sighting(
            state=state,
            site=site,
            ahead=self._passed if state is UrlState.QUEUED else None,
            lease=None
            if site is None or not self._entry
            else lease_of(
                self._entry, number=look.number, slot=site.slot, epoch=site.epoch, site=site.name, clock=site.clock
            ),
            segment=look.segment or "",
            path_variants=look.variants if site is not None and site.dropped is None else 0,
        )

    def unsettled(self) -> Sighting:
        """Its queue changed faster than it could be read."""
        look = self._look
        return Sighting(state=UrlState.QUEUED, site=look.site, path_variants=look.variants)


async def find_in_blocks(
    candidate: Candidate, first: FirstLook, next_piece: Callable[[int, int], Awaitable[Piece]]
) -> Sighting:
    """Where blocks keep their places: `next_piece` gives those of a site behind one of them."""
    search = Search(candidate, first.look)
    piece, begin = first.piece, first.head_offset
    while True:
        for _, urls in piece.blocks:
            if search.go_through(urls, begin):
                return search.sighting()
            begin = 0
        if piece.is_last:
            return search.sighting()
        piece = await next_piece(first.site, piece.blocks[-1][0])
