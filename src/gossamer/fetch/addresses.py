"""Which addresses may be connected to: those of the open web, and no part of anybody's own network.

Judged is the number that a connection would go to, the literal's or the resolved one, each time anew. What names can do
(answer differently when asked again, lead to the crawler's own machine) makes no difference then.
"""

from collections.abc import Iterable
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

Address = IPv4Address | IPv6Address
#: A machine's own addresses are all the same place.
_LOOPBACK = IPv4Address("127.0.0.1")


def is_forbidden(address: Address) -> bool:
    """Whether it is anything else than global unicast, by itself or by an IPv4 address that it carries."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in _NOT_OF_THE_WEB_V4)
    carried = _carried(address)
    if carried:
        return any(is_forbidden(inner) for inner in carried)
    return address not in _GLOBAL_UNICAST_V6 or any(address in network for network in _NOT_OF_THE_WEB_V6)


class AddressPolicy:
    """Says of one endpoint at a time whether it may be connected to. The client asks it before every connection."""

    def __init__(self, *, allow_private: bool, forbidden_endpoints: Iterable[tuple[str, int]]) -> None:
        self._allow_private = allow_private
        # The crawler's own store: out of reach even where private addresses are allowed.
        self._forbidden_endpoints = {(_place(ip_address(address)), port) for address, port in forbidden_endpoints}

    def refuses(self, address: str, port: int) -> bool:
        """`address` is numeric, without brackets."""
        is_private, place = _judged(address)
        return (is_private and not self._allow_private) or (place, port) in self._forbidden_endpoints


@lru_cache(maxsize=16_384)
def _judged(address: str) -> tuple[bool, Address]:
    """Parsing and judging take twenty times as long as remembering; the sites of a crawl share few addresses."""
    parsed = ip_address(address)
    return is_forbidden(parsed), _place(parsed)


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
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return list(address.teredo or ())
