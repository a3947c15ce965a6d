"""Which addresses may be connected to: those of the open web, and no part of anybody's own network.

Judged is the number that a connection would go to, the literal's or the resolved one, each time anew. What names can do
(answer differently when asked again, lead to the crawler's own machine) makes no difference then. This machine's own
addresses are refused too, also those of the open web: whatever listens there trusts it more than others. An address
that a translator outside maps to this machine (NAT) cannot be known here.
"""

import socket
import time
from collections.abc import Iterable
from errno import EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

#: The IPv4 special-purpose registry (RFC 6890 and later), multicast, and what was never given out. A list of our own,
#: because what the standard library calls global differs between its versions.
_NOT_OF_THE_WEB_V4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network; the unspecified address connects to loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by a carrier's customers
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's platform, for every machine that runs there
        "169.254.0.0/16",  # link-local; the metadata of cloud machines
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays, withdrawn
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
]
#: All that was ever given out as global unicast, and what of it is no place for a web server.
_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
_NOT_OF_THE_WEB_V6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: benchmarking, ORCHID, and the like
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
]
#: Translators send such an address to the IPv4 address in its last 32 bits (RFC 6052).
_NAT64 = ip_network("64:ff9b::/96")
#: Before the IPv4 address in the last 32 bits of an ISATAP address (RFC 5214), whatever its prefix.
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)

Address = IPv4Address | IPv6Address
#: A machine's own addresses are all the same place.
_LOOPBACK = IPv4Address("127.0.0.1")
#: How long an answer to "is this address ours?" holds: interfaces come and go.
_OWN_SECONDS = 300
#: Nothing is sent to this port (discard), but a socket cannot be connected without one.
_PROBED_PORT = 9
_SHORTAGES = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM})


def is_forbidden(address: Address) -> bool:
    """Whether it is anything else than global unicast, by itself or by an IPv4 address that it carries."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in _NOT_OF_THE_WEB_V4)
    if any(is_forbidden(inner) for inner in _isatap(address)):
        return True
    carried = _carried(address)
    if carried:
        return any(is_forbidden(inner) for inner in carried)
    return address not in _GLOBAL_UNICAST_V6 or any(address in network for network in _NOT_OF_THE_WEB_V6)


def is_own(address: Address) -> bool:
    """Whether it, or an IPv4 address that it carries, belongs to an interface of this machine."""
    carried = [] if isinstance(address, IPv4Address) else [*_carried(address), *_isatap(address)]
    return any(_has_interface(one) for one in (address, *carried))


class AddressPolicy:
    """Says of one endpoint at a time whether it may be connected to. The client asks it before every connection."""

    def __init__(
        self,
        *,
        allow_private: bool,
        forbidden_endpoints: Iterable[tuple[str, int]],
        blocked_ports: frozenset[int] = frozenset(),
    ) -> None:
        self._allow_private = allow_private
        self._blocked_ports = blocked_ports
        # The crawler's own store: out of reach even where private addresses are allowed.
        self._forbidden_endpoints = {(_place(ip_address(address)), port) for address, port in forbidden_endpoints}

    def refuses_port(self, port: int) -> bool:
        """A URL's port, whatever its host, and before `connect_to`."""
        return port in self._blocked_ports

    def refuses(self, address: str, port: int) -> bool:
        """`address` is numeric, without brackets. Raises OSError if this machine has nothing left to judge it with."""
        is_private, place = _judged(address)
        if (place, port) in self._forbidden_endpoints:
            return True
        return not self._allow_private and (is_private or _is_own(address, int(time.monotonic()) // _OWN_SECONDS))


def ports_of(text: str) -> frozenset[int]:
    """Of the setting `blocked_ports`: numbers, and ranges such as 6665-6669."""
    ports: set[int] = set()
    for word in text.split():
        first, _, last = word.partition("-")
        ports.update(range(int(first), int(last or first) + 1))
    return frozenset(ports)


@lru_cache(maxsize=16_384)
def _judged(address: str) -> tuple[bool, Address]:
    """Parsing and judging take twenty times as long as remembering; the sites of a crawl share few addresses."""
    parsed = ip_address(address)
    return is_forbidden(parsed), _place(parsed)


@lru_cache(maxsize=16_384)
def _is_own(address: str, _period: int) -> bool:
    return is_own(ip_address(address))


def _has_interface(address: Address) -> bool:
    """A connection to an address of this machine comes from that very address. Nothing is sent to find that out."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), _PROBED_PORT))
            return ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise
        if error.errno == EAGAIN:
            raise OSError(ENOBUFS, "no local port is free") from error
        return False  # there is no way to it, or no such family here: so it is nobody's, and not ours


def _place(address: Address) -> Address:
    """Where a connection to it ends up."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return _place(address.ipv4_mapped)
    return _LOOPBACK if address.is_loopback or address.is_unspecified else address


def _carried(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that something on the way may take it for."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address in _NAT64:
        return [_last_bits(address)]
    return list(address.teredo or ())


def _isatap(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 address at the end of its tunnel. Unlike the others that carry one, it needs a global prefix, too."""
    return [_last_bits(address)] if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP else []


def _last_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
