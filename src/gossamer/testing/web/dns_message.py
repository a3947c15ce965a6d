"""DNS messages as far as a name server for tests needs them (RFC 1035, RFC 6891): one question in, records out."""

import struct
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address

import msgspec

_HEADER = struct.Struct("!HHHHHH")
_FIXED_RECORD = struct.Struct("!HHIH")

_IS_ANSWER = 0x8000
_OPCODE = 0x7800
_AUTHORITATIVE = 0x0400
_TRUNCATED = 0x0200
_RECURSION_DESIRED = 0x0100
_RECURSION_AVAILABLE = 0x0080

_INTERNET = 1
_OPT = 41
#: RFC 1035 section 2.3.4, and what a client without EDNS can take over UDP.
_LONGEST_LABEL, _LONGEST_NAME, _PLAIN_UDP_BYTES = 63, 255, 512
#: What we say that we take ourselves. Loopback carries far more; the DNS community settled on this for the open net.
_OUR_UDP_BYTES = 1232


class Kind(IntEnum):
    """Record types that the resolver knows by name; a query may ask for any other number."""

    A = 1
    CNAME = 5
    SOA = 6
    AAAA = 28


class Code(IntEnum):
    """Response codes."""

    NO_ERROR = 0
    SERVFAIL = 2
    NXDOMAIN = 3
    REFUSED = 5


class Query(msgspec.Struct, frozen=True):
    """One well-formed question. Made by `parse_query` alone; `question` is kept to the letter for the answer, because
    clients compare the upper and lower case that they sent."""

    identity: int
    name: str
    """Lower case, without the dot at its end."""
    kind: int
    question: bytes
    recursion_desired: bool
    udp_bytes: int | None
    """What the client takes over UDP by its EDNS record; None if it sent none."""


class Record(msgspec.Struct, frozen=True):
    """One resource record of class Internet."""

    name: str
    kind: Kind
    ttl_seconds: int
    data: bytes


def parse_query(message: bytes) -> Query | None:
    """None for whatever is no query with one question of class Internet: it is best not answered at all."""
    if len(message) < _HEADER.size:
        return None
    identity, flags, questions, answers, authorities, additionals = _HEADER.unpack_from(message)
    if flags & (_IS_ANSWER | _OPCODE) or (questions, answers, authorities) != (1, 0, 0) or additionals > 1:
        return None
    named = _read_name(message, _HEADER.size)
    if named is None or len(message) < named[1] + 4:
        return None
    name, at = named
    kind, record_class = struct.unpack_from("!HH", message, at)
    at += 4
    if record_class != _INTERNET:
        return None
    udp_bytes = None
    if additionals:
        # An EDNS record stands at the root, whose name is one zero octet; its class is the size.
        if len(message) < at + 1 + _FIXED_RECORD.size or message[at] != 0:
            return None
        extra, size, _, _ = _FIXED_RECORD.unpack_from(message, at + 1)
        if extra != _OPT:
            return None
        udp_bytes = max(size, _PLAIN_UDP_BYTES)
    question = message[_HEADER.size : named[1] + 4]
    return Query(identity, name, kind, question, bool(flags & _RECURSION_DESIRED), udp_bytes)


def answer(
    query: Query,
    code: Code,
    records: tuple[Record, ...] = (),
    authority: tuple[Record, ...] = (),
    *,
    over_udp: bool = True,
) -> bytes:
    """The message. What does not fit into the client's UDP size goes out without its records and marked as cut."""
    flags = _IS_ANSWER | _AUTHORITATIVE | _RECURSION_AVAILABLE | code
    if query.recursion_desired:
        flags |= _RECURSION_DESIRED
    edns = b"" if query.udp_bytes is None else b"\0" + _FIXED_RECORD.pack(_OPT, _OUR_UDP_BYTES, 0, 0)
    body = b"".join(map(_write_record, records + authority))
    counts = (1, len(records), len(authority), 1 if edns else 0)
    if over_udp and _HEADER.size + len(query.question + body + edns) > (query.udp_bytes or _PLAIN_UDP_BYTES):
        flags |= _TRUNCATED
        body, counts = b"", (1, 0, 0, counts[3])
    return _HEADER.pack(query.identity, flags, *counts) + query.question + body + edns


def address_record(name: str, address: str, ttl_seconds: int) -> Record:
    kind, data = (Kind.AAAA, IPv6Address(address).packed) if ":" in address else (Kind.A, IPv4Address(address).packed)
    return Record(name, kind, ttl_seconds, data)


def alias_record(name: str, target: str, ttl_seconds: int) -> Record:
    return Record(name, Kind.CNAME, ttl_seconds, write_name(target))


def authority_record(zone: str, ttl_seconds: int) -> Record:
    """The SOA that stands beside an empty answer: its time to live is how long the emptiness may be remembered."""
    numbers = struct.pack("!IIIII", 1, 3600, 600, 86400, ttl_seconds)
    return Record(zone, Kind.SOA, ttl_seconds, write_name(f"ns.{zone}") + write_name(f"nobody.{zone}") + numbers)


def write_name(name: str) -> bytes:
    labels = name.encode("latin-1").split(b".") if name else []
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def _write_record(record: Record) -> bytes:
    fixed = _FIXED_RECORD.pack(record.kind, _INTERNET, record.ttl_seconds, len(record.data))
    return write_name(record.name) + fixed + record.data


def _read_name(message: bytes, at: int) -> tuple[str, int] | None:
    """A name without compression, which has nothing to point back to in a question; and where it ends."""
    start, labels = at, list[bytes]()
    while at < len(message) and at - start < _LONGEST_NAME:
        length = message[at]
        at += 1
        if length == 0:
            return b".".join(labels).decode("latin-1").lower(), at
        label = message[at : at + length]
        # A dot inside a label would make two names of ours equal that are not.
        if length > _LONGEST_LABEL or len(label) < length or b"." in label:
            return None
        labels.append(label)
        at += length
    return None
