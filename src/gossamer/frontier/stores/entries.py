"""One URL as it waits in a queue: a fixed header and the URL itself, in bytes that mean the same in every store.

    length of the URL  fingerprint  depth  hops  attempt  returned  whether it is a seed  │  URL
    4                  8            4      2     2        2         1                     │  UTF-8

Nothing in a URL is special to it: where one ends is in its header.
"""

import struct

from gossamer.records import Candidate, Lease, SiteClock

_HEADER = struct.Struct("<IQIHHHB")
HEADER_BYTES = _HEADER.size
_MOST_RETURNED = 0xFFFF
_SIGN = 1 << 63


def signed(number: int) -> int:
    """64 bits as the integers of SQL, and of Redis's sets, have them."""
    return (number ^ _SIGN) - _SIGN


def entry_of(candidate: Candidate) -> bytes:
    url = candidate.url.encode()
    return _HEADER.pack(
        len(url), candidate.fingerprint, candidate.depth, candidate.hops, 0, 0, candidate.is_seed
    ) + url  # fmt: skip


def entry_end(block: bytes, begin: int) -> int:
    """Where the entry ends that begins there, in a block of many."""
    return begin + HEADER_BYTES + int.from_bytes(block[begin : begin + 4], "little")


def tried_again(entry: bytes) -> bytes:
    """The same with one attempt more."""
    length, fingerprint, depth, hops, attempt, returned, is_seed = _HEADER.unpack_from(entry)
    return _HEADER.pack(length, fingerprint, depth, hops, attempt + 1, returned, is_seed) + entry[HEADER_BYTES:]


def returned_once_more(entry: bytes) -> bytes:
    """The same, come back because its holder died."""
    length, fingerprint, depth, hops, attempt, returned, is_seed = _HEADER.unpack_from(entry)
    returned = min(returned + 1, _MOST_RETURNED)
    return _HEADER.pack(length, fingerprint, depth, hops, attempt, returned, is_seed) + entry[HEADER_BYTES:]


def lease_of(entry: bytes, *, number: int, slot: int, epoch: int, site: str, clock: SiteClock) -> Lease:
    """The URL, as it is handed out."""
    _, fingerprint, depth, hops, attempt, returned, is_seed = _HEADER.unpack_from(entry)
    return Lease(
        number,
        slot,
        epoch,
        entry[HEADER_BYTES:].decode(),
        site,
        fingerprint,
        depth,
        hops,
        bool(is_seed),
        attempt,
        returned,
        clock,
    )
