"""How often and how many at once the servers of one network may be visited, however many sites they have.

A network is the /24 of an IPv4 address or the /64 of an IPv6 address: what one owner has at the least, and often one
machine. Each has a gap between the beginnings of two visits and a number of visits at once. No worker waits for either:
a network hands out times,

    next = max(now, next) + gap

and a site whose time is not now goes back to the store until then. It is let through when it comes back. All of this is
in memory: after a restart a network is asked for new times, and no site comes earlier than the store lets it.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import msgspec

#: Networks that are remembered, some 250 bytes each. The one used least recently is forgotten first; of its limit only
#: what is left of one gap is lost by that.
NETWORKS_KEPT = 50_000
#: Sites with a time of their own in the future, some 300 bytes each. One that is forgotten asks for a time again.
RESERVATIONS_KEPT = 50_000

#: A site that has not come back so long after its time will ask for another one, if it comes.
_LATE_SECONDS = 60.0
#: Between two sites that look for a free place, where no gap is set.
_LOOK_SECONDS = 0.1

#: Translators send such an address to the IPv4 address in its last 32 bits (RFC 6052).
_NAT64 = IPv6Network("64:ff9b::/96")


class _Network(msgspec.Struct):
    next_at: float = 0.0
    """When the next visit may begin that has no time yet."""
    began_at: float = float("-inf")
    """When the last visit began."""
    visits: int = 0
    """In progress."""


class _Reservation(msgspec.Struct, frozen=True):
    network: int
    at: float


class ServerAddresses:
    """The networks that one fetcher visits. `gap_seconds` and `concurrency` are those of the whole crawl, 0 is none; a
    fetcher has the share of them that it has of the slots.

    Times are the store's, by the `now` of every call.
    """

    def __init__(self, *, gap_seconds: float, concurrency: int, share: float) -> None:
        self.holds = 0
        """How often a site was sent back for want of a turn."""
        self._gap_seconds = gap_seconds / share
        self._look_seconds = self._gap_seconds or _LOOK_SECONDS
        self._concurrency = max(1, int(concurrency * share)) if concurrency else 0
        self._networks: OrderedDict[int, _Network] = OrderedDict()
        self._reservations: OrderedDict[str, _Reservation] = OrderedDict()

    @property
    def are_limited(self) -> bool:
        return bool(self._gap_seconds or self._concurrency)

    def visit(self, name: str, network: int, now: float) -> float:
        """Begin a visit: 0 if it may begin now, else when to come back, by the same name. Each 0 needs one `leave`."""
        known = self._network(network)
        reserved = self._reservations.pop(name, None)
        if reserved is not None and reserved.network != network:
            reserved = None  # its name leads elsewhere now
        is_full = 0 < self._concurrency <= known.visits
        if reserved is not None and reserved.at > now:
            at = reserved.at
        elif is_full:
            # A time from the same row for this one too: however many sites wait for a place, together they look for one
            # no more often than once per gap.
            at = max(now + self._look_seconds, known.next_at)
            known.next_at = at + self._look_seconds
        elif self._is_due(known, now, has_time=reserved is not None):
            known.next_at = max(known.next_at, now + self._gap_seconds)
            known.began_at = now
            known.visits += 1
            return 0.0
        else:
            at = known.next_at
            known.next_at = at + self._gap_seconds
        self.holds += 1
        self._reserve(name, _Reservation(network, at), now)
        return at

    def _is_due(self, network: _Network, now: float, *, has_time: bool) -> bool:
        if len(self._reservations) >= RESERVATIONS_KEPT and now >= network.began_at + self._gap_seconds:
            # More sites wait than times are remembered: whoever finds the network unused goes on.
            return True
        # Leases come a tick late, so half a gap counts as one. After a stall all times have come at once.
        return now >= network.began_at + self._gap_seconds / 2 and (has_time or network.next_at <= now)

    def _reserve(self, name: str, reservation: _Reservation, now: float) -> None:
        kept = self._reservations
        while len(kept) >= RESERVATIONS_KEPT and next(iter(kept.values())).at < now - _LATE_SECONDS:
            kept.popitem(last=False)
        # The older ones stay: they are due first, and if those were forgotten nobody would ever be let through.
        if len(kept) < RESERVATIONS_KEPT:
            kept[name] = reservation

    def leave(self, network: int) -> None:
        known = self._networks.get(network)
        if known is not None and known.visits:
            known.visits -= 1

    def _network(self, network: int) -> _Network:
        known = self._networks.get(network)
        if known is None:
            known = self._networks[network] = _Network()
            if len(self._networks) > NETWORKS_KEPT:
                self._forget_one()
        else:
            self._networks.move_to_end(network)
        return known

    def _forget_one(self) -> None:
        """The least recently used one without a visit; there are fewer visits than networks are kept."""
        for network, known in self._networks.items():
            if not known.visits:
                del self._networks[network]
                return


class Turn:
    """One visit's turn at its server's network. The client asks it before it connects (`may_connect`).

    `name` is whoever comes back for it: a site. `within` is a turn that is already there; at its network no other is
    needed. Whoever made it ends it.
    """

    __slots__ = ("_addresses", "_clock", "_name", "_network", "_within", "until")

    def __init__(
        self, addresses: ServerAddresses, clock: Callable[[], float], name: str, within: "Turn | None" = None
    ) -> None:
        self.until = 0.0
        """When to come back, after a refusal."""
        self._addresses = addresses
        self._clock = clock
        self._name = name
        self._within = within
        self._network: int | None = None

    def __call__(self, address: str) -> bool:
        """Whether the server at this numeric address may be visited now; asked before each connection of a visit."""
        addresses = self._addresses
        if not addresses.are_limited:
            return True
        network = network_of(address)
        if network is None or network == self._network:
            return True
        if self._within is not None and self._within._network == network:
            return True
        self.end()  # the visit goes on elsewhere
        self.until = addresses.visit(self._name, network, self._clock())
        if self.until:
            return False
        self._network = network
        return True

    def end(self) -> None:
        if self._network is not None:
            self._addresses.leave(self._network)
            self._network = None


@lru_cache(maxsize=16_384)
def network_of(address: str) -> int | None:
    """A number for the /24 or the /64 of a numeric address; None for this machine, which limits itself."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        elif parsed in _NAT64:
            parsed = IPv4Address(int(parsed) & 0xFFFFFFFF)
    if parsed.is_loopback or parsed.is_unspecified:
        return None
    # No /64 of the web is so small a number that it could be taken for a /24.
    return int(parsed) >> 8 if isinstance(parsed, IPv4Address) else int(parsed) >> 64
