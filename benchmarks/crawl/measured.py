"""What is measured of one crawl, and the best of several."""

from collections.abc import Iterable

import msgspec

#: The kinds of process, in the order of the table. A peer is one process, which is all of them at once.
FETCHER, PARSER, STORE, WHOLE = "leader and fetchers", "parsers", "store", "whole"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl, from the end of its warm-up to its end."""

    system: str
    scheme: str
    pages: int
    """Pages with status 200 that were read, links and all."""
    cpu: dict[str, float]
    """CPU milliseconds per page, user and system, by kind of process."""
    pages_per_second: float
    peak_bytes: int
    """Most memory of all its processes at one moment, of the whole crawl."""
    written_bytes: float
    """Per page, to the disk."""
    kept_bytes: float
    """Per page, what lies in its directory at the end."""
    received_bytes: float
    """Per page: bodies, as they came."""
    known: tuple[int, int] | None = None
    """URLs that the frontier knew at the beginning and at the end, where that was asked for."""

    @property
    def total(self) -> float:
        return sum(self.cpu.values())


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """CPU milliseconds per page of what nobody can do without."""

    scheme: str
    pages: int
    fetch: float
    gunzip: float
    parse: float
    received_bytes: float
    client: str

    @property
    def total(self) -> float:
        return self.fetch + self.gunzip + self.parse


def least(measured: Iterable[Measured]) -> Measured:
    """The round that cost least, as a whole: figures of several rounds are never mixed."""
    return min(measured, key=lambda one: one.total)


def least_floor(floors: Iterable[Floor]) -> Floor:
    """Each part by itself: a floor is what was reached at least once."""
    every = list(floors)
    return msgspec.structs.replace(
        every[0],
        fetch=min(floor.fetch for floor in every),
        gunzip=min(floor.gunzip for floor in every),
        parse=min(floor.parse for floor in every),
    )
