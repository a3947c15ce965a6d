"""A name server for what only DNS can play. It is authoritative for `test.` and answers on loopback over UDP and TCP.

Every name under `.test` is 127.0.0.1 and has no IPv6 address, so that one server on one address is a whole web. (A
client that refuses loopback, and is led to the server in another way, can be told another address.) The exceptions
stand in `special_names`: they belong to rows 15, 17 and 19 of the hostile table. Names outside `.test` are refused:
nothing is ever asked of another server.
"""

import asyncio
import contextlib
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self, cast

import msgspec

from gossamer.testing.web.dns_message import (
    Code,
    Kind,
    Query,
    Record,
    address_record,
    alias_record,
    answer,
    authority_record,
    parse_query,
)

LOOPBACK = "127.0.0.1"
#: Stands for an address of the open net in the rebinding names. It is reserved for documentation, so that a client
#: that does connect disturbs nobody; an address policy under test has to be told that it is public.
PUBLIC_ADDRESS = "203.0.113.10"
#: By what a name stands for: addresses that no name of the web may lead a crawler to.
PRIVATE_ADDRESSES = {
    "ten": "10.0.0.1",
    "one-seven-two": "172.16.0.1",
    "one-nine-two": "192.168.0.1",
    "metadata": "169.254.169.254",
    "carrier": "100.64.0.1",
    "this-network": "0.0.0.0",  # noqa: S104 (an answer, nothing is bound to it)
    "other-loopback": "127.8.8.8",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback-v6": "::1",
    "unspecified-v6": "::",
    "unique-local": "fd00::1",
    "link-local-v6": "fe80::1",
    "mapped": "::ffff:127.0.0.1",
    "translated": "64:ff9b::7f00:1",
    "six-to-four": "2002:7f00:1::1",
}

#: Long enough to be cached during a crawl, short enough that a cache has something to forget in a test.
TTL_SECONDS = 60
#: More than a client follows by itself; a resolver of the open net gives up at about this many too.
CHAIN_LENGTH = 16
MANY_ADDRESSES = 100
#: The log and the late answers are bounded, whatever a client sends.
LOG_LENGTH = 100_000
_MOST_PENDING = 10_000
#: Binding TCP to the port that UDP was given fails when another program has it; the next port is as good.
_BIND_ATTEMPTS = 20
_TCP_IDLE_SECONDS = 10.0


class Asked(NamedTuple):
    """One query, as it came. For tests: who asks how often for what."""

    at_ns: int
    """Of the monotonic clock, as in the access log."""
    name: str
    kind: int
    over_udp: bool
    identity: int
    """Of the message: a question that is sent again, because its answer was late, has the same one."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a name answers; `garbled` cuts the message in the middle, `delay_seconds` of None is no answer at all."""

    code: Code = Code.NO_ERROR
    records: tuple[Record, ...] = ()
    delay_seconds: float | None = 0.0
    garbled: bool = False


#: From the name, and how often it was asked before (each kind by itself), to what it answers.
Answerer = Callable[[str, int], Reply]


def special_names(
    public_address: str = PUBLIC_ADDRESS, late_seconds: float = 5.0, web_address: str = LOOPBACK
) -> dict[str, Answerer]:
    """Every name that is not simply the web's address."""
    names: dict[str, Answerer] = {
        "stall.h19.test": _always(Reply(delay_seconds=None)),
        "late.h19.test": lambda name, _: Reply(records=_addresses(name, web_address), delay_seconds=late_seconds),
        "servfail.h19.test": _always(Reply(code=Code.SERVFAIL)),
        "nxdomain.h19.test": _always(Reply(code=Code.NXDOMAIN)),
        "empty.h19.test": _always(Reply()),
        "zero-ttl.h19.test": lambda name, _: Reply(records=_addresses(name, web_address, ttl_seconds=0)),
        "many.h19.test": lambda name, _: Reply(
            records=_addresses(name, web_address, *(f"127.0.1.{number}" for number in range(1, MANY_ADDRESSES)))
        ),
        "garbled.h19.test": lambda name, _: Reply(records=_addresses(name, web_address), garbled=True),
        "loop.h19.test": _always(Reply(records=_aliases("loop.h19.test", "loop-2.h19.test", "loop.h19.test"))),
        "loop-2.h19.test": _always(Reply(records=_aliases("loop-2.h19.test", "loop.h19.test", "loop-2.h19.test"))),
        "self.h19.test": _always(Reply(records=_aliases("self.h19.test", "self.h19.test"))),
        "chain.h19.test": _always(_chain("chain.h19.test", web_address)),
        "rebind.h17.test": _rebinding(public_address, LOOPBACK),
        "rebind-metadata.h17.test": _rebinding(public_address, "169.254.169.254"),
        "mixed.h17.test": lambda name, _: Reply(records=_addresses(name, public_address, LOOPBACK, ttl_seconds=0)),
        "two-families.h17.test": lambda name, _: Reply(records=_addresses(name, public_address, "::1", ttl_seconds=0)),
        # Nothing listens there: the only refused connection that a server on one address cannot play itself. Who is
        # led to the server whatever the address gets a reset there.
        "refused.h37.test": _fixed("127.0.0.2" if web_address == LOOPBACK else web_address),
    }
    names |= {f"{word}.h15.test": _fixed(address) for word, address in PRIVATE_ADDRESSES.items()}
    return names


class Resolver:
    """`async with Resolver() as resolver:` listens on 127.0.0.1, UDP and TCP, on `resolver.port`.

    Answers depend on the name, the type and how often that pair was asked, on nothing else. What is no well-formed
    query gets no answer. `log` holds the last queries, oldest first.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        public_address: str = PUBLIC_ADDRESS,
        late_seconds: float = 5.0,
        web_address: str = LOOPBACK,
    ) -> None:
        self.port = port
        self._web_address = web_address
        self.log: deque[Asked] = deque(maxlen=LOG_LENGTH)
        self._names = special_names(public_address, late_seconds, web_address)
        # Only special names are counted, so this does not grow with what is asked.
        self._asked = Counter[tuple[str, int]]()
        self._pending = set[asyncio.TimerHandle]()
        self._streams = set[asyncio.Task[None]]()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for attempts_left in reversed(range(_BIND_ATTEMPTS)):
            self._datagrams, _ = await loop.create_datagram_endpoint(
                partial(_Datagrams, self), local_addr=(LOOPBACK, self.port)
            )
            port: int = self._datagrams.get_extra_info("sockname")[1]
            try:
                self._server = await asyncio.start_server(self._stream, LOOPBACK, port)
            except OSError:
                self._datagrams.close()
                if self.port or not attempts_left:
                    raise
            else:
                self.port = port
                break
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._datagrams.close()
        self._server.close()
        for handle in self._pending:
            handle.cancel()
        for task in self._streams:
            task.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        await self._server.wait_closed()

    def receive(self, message: bytes, send: Callable[[bytes], None], *, over_udp: bool) -> None:
        """Called with every message; `send` is called once, later or never."""
        query = parse_query(message)
        if query is None:
            return
        self.log.append(Asked(time.monotonic_ns(), query.name, query.kind, over_udp, query.identity))
        reply = self._reply(query)
        if reply.delay_seconds is None:
            return
        response = _message(query, reply, over_udp=over_udp)
        if not reply.delay_seconds:
            send(response)
        elif len(self._pending) < _MOST_PENDING:
            self._send_later(reply.delay_seconds, partial(send, response))

    def _reply(self, query: Query) -> Reply:
        name = query.name
        if name != "test" and not name.endswith(".test"):
            return Reply(code=Code.REFUSED)
        special = self._names.get(name)
        if special is None:
            return Reply(records=_addresses(name, self._web_address))
        key = (name, query.kind)
        self._asked[key] += 1
        return special(name, self._asked[key] - 1)

    def _send_later(self, seconds: float, send: Callable[[], None]) -> None:
        def now() -> None:
            self._pending.discard(handle)
            send()

        handle = asyncio.get_running_loop().call_later(seconds, now)
        self._pending.add(handle)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Messages with their length before them, one after the other (RFC 7766), until the client is silent."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (a coroutine that runs has its task; for the type checker)
        self._streams.add(task)

        def send(response: bytes) -> None:
            if not writer.is_closing():
                writer.write(struct.pack("!H", len(response)) + response)

        try:
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                async with asyncio.timeout(None) as idle:
                    while True:
                        idle.reschedule(asyncio.get_running_loop().time() + _TCP_IDLE_SECONDS)
                        (length,) = struct.unpack("!H", await reader.readexactly(2))
                        self.receive(await reader.readexactly(length), send, over_udp=False)
                        await writer.drain()
        finally:
            writer.close()
            self._streams.discard(task)


class _Datagrams(asyncio.DatagramProtocol):
    """Hands every datagram to the resolver; a client that is gone (ICMP errors) is nothing to us."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._resolver.receive(data, partial(self._send, addr), over_udp=True)

    def _send(self, address: tuple[str, int], message: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(message, address)


def _message(query: Query, reply: Reply, *, over_udp: bool) -> bytes:
    # A name has one set of records for all types here; a query gets its own type and the aliases that lead to it.
    wanted = tuple(record for record in reply.records if record.kind in {query.kind, Kind.CNAME})
    authority = (
        () if wanted or reply.code in {Code.SERVFAIL, Code.REFUSED} else (authority_record("test", TTL_SECONDS),)
    )
    message = answer(query, reply.code, wanted, authority, over_udp=over_udp)
    return message[: len(message) // 2] if reply.garbled else message


def _addresses(name: str, *addresses: str, ttl_seconds: int = TTL_SECONDS) -> tuple[Record, ...]:
    return tuple(address_record(name, address, ttl_seconds) for address in addresses)


def _aliases(*names: str) -> tuple[Record, ...]:
    return tuple(alias_record(name, target, TTL_SECONDS) for name, target in pairwise(names))


def _chain(first: str, address: str) -> Reply:
    names = [first, *(f"chain-{number}.h19.test" for number in range(1, CHAIN_LENGTH + 1))]
    return Reply(records=_aliases(*names) + _addresses(names[-1], address))


def _always(reply: Reply) -> Answerer:
    return lambda _name, _count: reply


def _fixed(address: str) -> Answerer:
    return lambda name, _count: Reply(records=_addresses(name, address))


def _rebinding(first: str, later: str) -> Answerer:
    """Public when it is asked for the first time, for whoever checks it; private when it is asked again, to connect."""
    return lambda name, count: Reply(records=_addresses(name, later if count else first, ttl_seconds=0))
