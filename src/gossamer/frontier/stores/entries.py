"""One URL as it waits in a queue: a fixed header and the URL itself, in bytes that mean the same in every store.

    length of what follows the header  fingerprint  depth  hops  attempt  returned  whether it is a seed  │
    4                                  8            4      2     2        2         1                     │

    │  URL    [ 255  bytes that `via` shares with the URL  the rest of `via` ]
    │  UTF-8    1    1                                     UTF-8

Nothing in a URL is special to it: where one ends is in its header, and no UTF-8 has a byte of 255. What comes from that
byte on is left out where nothing is known of where the URL was found. Most links lead to a page of the same site, so
most of `via` is there already.
"""

import struct
from collections.abc import Iterable

from gossamer.frontier.store import LONGEST_VIA
from gossamer.records import Candidate, Lease, SiteClock

_HEADER = struct.Struct("<IQIHHHB")
HEADER_BYTES = _HEADER.size
#: No canonical URL is longer: the highest `max_url_length`, and canonical URLs are ASCII.
LONGEST_URL_BYTES = 1 << 16
_MOST_RETURNED = 0xFFFF
_SIGN = 1 << 63
#: Stands before `via`.
_VIA = b"\xff"
_MOST_SHARED = 0xFF
_VIA_SHARING = [_VIA + bytes([shared]) for shared in range(_MOST_SHARED + 1)]


def signed(number: int) -> int:
    """64 bits as the integers of SQL, and of Redis's sets, have them."""
    return (number ^ _SIGN) - _SIGN


def entry_of(candidate: Candidate) -> bytes:
    url = candidate.url.encode()
    if candidate.via and len(candidate.via) <= LONGEST_VIA:
        via = candidate.via.encode()
        # As numbers: where two differ first is where their difference begins. No loop in Python is as fast.
        length = min(len(url), len(via), _MOST_SHARED)
        differing = int.from_bytes(url[:length]) ^ int.from_bytes(via[:length])
        shared = length - (differing.bit_length() + 7) // 8
        url += _VIA_SHARING[shared] + via[shared:]
    return _HEADER.pack(
        len(url), candidate.fingerprint, candidate.depth, candidate.hops, 0, 0, candidate.is_seed
    ) + url  # fmt: skip


def entries_of(candidates: Iterable[Candidate]) -> list[bytes]:
    """Of many at once, at half the price: of `via` only the origin is shared, which is found once for each page."""
    entries: list[bytes] = []
    pack = _HEADER.pack
    found_at: dict[str, tuple[str, bytes, bytes]] = {}
    for candidate in candidates:
        url, via = candidate.url, candidate.via
        encoded = url.encode()
        if via and len(via) <= LONGEST_VIA:
            found = found_at.get(via)
            if found is None:
                found = found_at[via] = _found_at(via)
            origin, near, far = found
            encoded += near if url.startswith(origin) else far
        entries.append(
            pack(len(encoded), candidate.fingerprint, candidate.depth, candidate.hops, 0, 0, candidate.is_seed)
            + encoded
        )
    return entries


def _found_at(via: str) -> tuple[str, bytes, bytes]:
    """Its origin; and how it stands behind a URL that begins so, and behind another."""
    # Up to the slash that ends it, the third one.
    origin = via[: via.find("/", len("https://")) + 1]
    shared = len(origin.encode())
    if shared > _MOST_SHARED:
        origin, shared = "", 0
    encoded = via.encode()
    return origin, _VIA_SHARING[shared] + encoded[shared:], _VIA_SHARING[0] + encoded


def entry_end(block: bytes, begin: int) -> int:
    """Where the entry ends that begins there, in a block of many."""
    return begin + HEADER_BYTES + int.from_bytes(block[begin : begin + 4], "little")


def tried_again(entry: bytes) -> bytes:
    """The same with one attempt more."""
    length, fingerprint, depth, hops, attempt, returned, is_seed = _HEADER.unpack_from(entry)
    return _HEADER.pack(length, fingerprint, depth, hops, attempt + 1, returned, is_seed) + entry[HEADER_BYTES:]


def returned_once_more(entry: bytes) -> bytes:
    """The same, come back because its holder died or its segment was lost."""
    length, fingerprint, depth, hops, attempt, returned, is_seed = _HEADER.unpack_from(entry)
    returned = min(returned + 1, _MOST_RETURNED)
    return _HEADER.pack(length, fingerprint, depth, hops, attempt, returned, is_seed) + entry[HEADER_BYTES:]


def lease_of(entry: bytes, *, number: int, slot: int, epoch: int, site: str, clock: SiteClock) -> Lease:
    """The URL, as it is handed out."""
    _, fingerprint, depth, hops, attempt, returned, is_seed = _HEADER.unpack_from(entry)
    url, mark, found = entry[HEADER_BYTES:].partition(_VIA)
    return Lease(
        number,
        slot,
        epoch,
        url.decode(),
        site,
        fingerprint,
        depth,
        hops,
        bool(is_seed),
        attempt,
        returned,
        clock,
        (url[: found[0]] + found[1:]).decode() if mark else "",
    )


def place_in(block: bytes, begin: int, fingerprint: int) -> tuple[int, bytes]:
    """How many entries of a block, from `begin` on, stand before the one with this fingerprint; and that, or b"" if it
    is not among them."""
    wanted = fingerprint.to_bytes(8, "little")
    number = 0
    while begin < len(block):
        end = begin + HEADER_BYTES + int.from_bytes(block[begin : begin + 4], "little")
        if block[begin + 4 : begin + 12] == wanted:
            return number, block[begin:end]
        begin = end
        number += 1
    return number, b""
