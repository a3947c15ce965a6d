"""The name server of the simulated web, asked over real sockets with messages written by hand."""

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple

import pytest

from gossamer.testing.web.resolver import MANY_ADDRESSES, PRIVATE_ADDRESSES, PUBLIC_ADDRESS, Resolver

A, NS, CNAME, SOA, AAAA, OPT = 1, 2, 5, 6, 28, 41
NO_ERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
#: For an answer that comes at once, on a machine that is busy.
PATIENCE_SECONDS = 60.0


class Record(NamedTuple):
    name: str
    kind: int
    ttl: int
    value: str


class Response(NamedTuple):
    identity: int
    code: int
    is_truncated: bool
    question: bytes
    answers: list[Record]
    authorities: list[Record]
    has_edns: bool

    @property
    def addresses(self) -> list[str]:
        return [record.value for record in self.answers if record.kind in {A, AAAA}]


def message(name: str, kind: int = A, *, identity: int = 7, flags: int = 0x0100, edns: int | None = None) -> bytes:
    labels = b"".join(bytes((len(label),)) + label.encode() for label in name.split(".") if label)
    extra = b"" if edns is None else b"\0" + struct.pack("!HHIH", OPT, edns, 0, 0)
    header = struct.pack("!HHHHHH", identity, flags, 1, 0, 0, bool(extra))
    return header + labels + b"\0" + struct.pack("!HH", kind, 1) + extra


def read_name(data: bytes, at: int) -> tuple[str, int]:
    labels = []
    while data[at]:
        assert data[at] < 64
        labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(labels), at + 1


def read(data: bytes) -> Response:
    identity, flags, questions, answers, authorities, additionals = struct.unpack_from("!HHHHHH", data)
    assert flags & 0x8000, "not an answer"
    assert questions == 1
    _, at = read_name(data, 12)
    question, at = data[12 : at + 4], at + 4
    records = []
    for _ in range(answers + authorities + additionals):
        name, at = read_name(data, at)
        kind, _, ttl, length = struct.unpack_from("!HHIH", data, at)
        start, at = at + 10, at + 10 + length
        assert at <= len(data)
        value = ""
        if kind in {A, AAAA}:
            value = str(ip_address(data[start:at]))
        elif kind == CNAME:
            value = read_name(data, start)[0]
        records.append(Record(name, kind, ttl, value))
    assert at == len(data)
    extra = records[answers + authorities :]
    assert all(record.kind == OPT for record in extra)
    return Response(
        identity,
        flags & 15,
        bool(flags & 0x0200),
        question,
        records[:answers],
        records[answers : answers + authorities],
        bool(extra),
    )


def send(port: int, data: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.sendto(data, ("127.0.0.1", port))
        return client.recv(65535)


def ask(port: int, name: str, kind: int = A, *, edns: int | None = None) -> Response:
    return read(send(port, message(name, kind, edns=edns)))


def ask_over_tcp(port: int, name: str, kind: int = A) -> Response:
    address = ("127.0.0.1", port)
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client, client.makefile("rwb") as stream:
        data = message(name, kind)
        # In two pieces, as it may come over a stream.
        stream.write(struct.pack("!H", len(data)) + data[:5])
        stream.flush()
        stream.write(data[5:])
        stream.flush()
        (length,) = struct.unpack("!H", stream.read(2))
        return read(stream.read(length))


def run(client: Callable[[Resolver], None], *, late_seconds: float = 5.0, public_address: str = PUBLIC_ADDRESS) -> None:
    """The client is blocking code, so it has a thread of its own; whatever it asserts fails the test."""

    async def serve() -> None:
        async with Resolver(late_seconds=late_seconds, public_address=public_address) as resolver:
            await asyncio.to_thread(client, resolver)

    asyncio.run(serve())


def test_every_name_under_test_is_loopback_and_has_no_ipv6_address() -> None:
    def client(resolver: Resolver) -> None:
        for name in ("s17.test", "www.s17.test", "a.b.c.d.test", "under_score.test", "-.test", "test"):
            found = ask(resolver.port, name)
            assert (found.code, found.addresses, found.answers[0].name) == (NO_ERROR, ["127.0.0.1"], name)
            assert found.answers[0].ttl > 0
            empty = ask(resolver.port, name, AAAA)
            assert (empty.code, empty.answers) == (NO_ERROR, [])
            assert [record.kind for record in empty.authorities] == [SOA]
        assert ask(resolver.port, "s17.test", NS).answers == []

    run(client)


def test_a_farm_has_every_name_on_one_address() -> None:
    def client(resolver: Resolver) -> None:
        names = [f"{number}-{number * 7919 % 1000}.farm.test" for number in range(300)]
        assert {address for name in names for address in ask(resolver.port, name).addresses} == {"127.0.0.1"}

    run(client)


def test_names_of_other_zones_are_refused() -> None:
    def client(resolver: Resolver) -> None:
        for name in ("example.org", "nottest", "test.example", ""):
            assert ask(resolver.port, name).code == REFUSED

    run(client)


def test_the_question_comes_back_to_the_letter() -> None:
    def client(resolver: Resolver) -> None:
        sent = message("MiXeD.S1.TeSt", identity=0xBEEF)
        found = read(send(resolver.port, sent))
        assert found.identity == 0xBEEF
        assert found.question == sent[12:]
        assert found.addresses == ["127.0.0.1"]

    run(client)


def test_a_name_that_stalls_is_never_answered_and_holds_up_nobody() -> None:
    def client(resolver: Resolver) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waiting:
            waiting.sendto(message("stall.h19.test"), ("127.0.0.1", resolver.port))
            assert ask(resolver.port, "s1.test").addresses == ["127.0.0.1"]
            waiting.settimeout(0.3)
            with pytest.raises(TimeoutError):
                waiting.recv(512)
        assert [asked.name for asked in resolver.log] == ["stall.h19.test", "s1.test"]

    run(client)


def test_a_late_answer_comes_late() -> None:
    def client(resolver: Resolver) -> None:
        assert ask(resolver.port, "late.h19.test").addresses == ["127.0.0.1"]
        assert time.monotonic_ns() - resolver.log[0].at_ns >= 0.3e9

    run(client, late_seconds=0.3)


def test_leaving_while_answers_are_due_leaves_nothing_behind() -> None:
    async def leave() -> None:
        async with Resolver(late_seconds=60) as resolver:
            reader, writer = await asyncio.open_connection("127.0.0.1", resolver.port)
            data = message("late.h19.test")
            writer.write(struct.pack("!H", len(data)) + data)
            while not resolver.log:  # noqa: ASYNC110 (nothing tells)
                await asyncio.sleep(0.01)
            assert [asked.name for asked in resolver.log] == ["late.h19.test"]
        assert await reader.read() == b""
        writer.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert resolver._datagrams.get_extra_info("socket").fileno() == -1

    asyncio.run(leave())


def test_failures_have_their_codes() -> None:
    def client(resolver: Resolver) -> None:
        failed = ask(resolver.port, "servfail.h19.test")
        assert (failed.code, failed.answers, failed.authorities) == (SERVFAIL, [], [])
        missing = ask(resolver.port, "nxdomain.h19.test")
        assert (missing.code, missing.answers) == (NXDOMAIN, [])
        # How long it may be remembered that there is nothing.
        assert [record.kind for record in missing.authorities] == [SOA]
        empty = ask(resolver.port, "empty.h19.test")
        assert (empty.code, empty.answers) == (NO_ERROR, [])

    run(client)


def test_a_garbled_answer_is_cut_inside_a_record() -> None:
    def client(resolver: Resolver) -> None:
        with pytest.raises((AssertionError, struct.error, IndexError, ValueError)):
            read(send(resolver.port, message("garbled.h19.test")))

    run(client)


def test_a_zero_time_to_live_is_zero() -> None:
    def client(resolver: Resolver) -> None:
        (record,) = ask(resolver.port, "zero-ttl.h19.test").answers
        assert (record.ttl, record.value) == (0, "127.0.0.1")

    run(client)


def test_a_hundred_addresses_are_cut_over_plain_udp_and_whole_over_edns_and_tcp() -> None:
    def client(resolver: Resolver) -> None:
        cut = ask(resolver.port, "many.h19.test")
        assert (cut.is_truncated, cut.answers, cut.has_edns) == (True, [], False)
        assert ask(resolver.port, "many.h19.test", edns=1232).is_truncated
        for whole in (
            ask(resolver.port, "many.h19.test", edns=65535),
            ask_over_tcp(resolver.port, "many.h19.test"),
        ):
            assert not whole.is_truncated
            assert len(set(whole.addresses)) == MANY_ADDRESSES == 100
        assert ask(resolver.port, "many.h19.test", edns=4096).has_edns
        assert [asked.over_udp for asked in resolver.log] == [True, True, True, False, True]

    run(client)


def test_alias_loops_have_no_end_and_no_address() -> None:
    def client(resolver: Resolver) -> None:
        for name, names in (
            ("loop.h19.test", {"loop.h19.test", "loop-2.h19.test"}),
            ("loop-2.h19.test", {"loop.h19.test", "loop-2.h19.test"}),
            ("self.h19.test", {"self.h19.test"}),
        ):
            found = ask(resolver.port, name)
            assert {record.kind for record in found.answers} == {CNAME}
            assert {record.name for record in found.answers} == {record.value for record in found.answers} == names

    run(client)


def test_an_alias_chain_ends_at_an_address() -> None:
    def client(resolver: Resolver) -> None:
        found = ask(resolver.port, "chain.h19.test", edns=4096)
        aliases = {record.name: record.value for record in found.answers if record.kind == CNAME}
        name, hops = "chain.h19.test", 0
        while name in aliases:
            name, hops = aliases[name], hops + 1
        assert hops == len(aliases) == 16
        assert [(record.name, record.value) for record in found.answers if record.kind == A] == [(name, "127.0.0.1")]

    run(client)


def test_a_name_rebinds_from_public_to_private() -> None:
    def client(resolver: Resolver) -> None:
        for name, private in (("rebind.h17.test", "127.0.0.1"), ("rebind-metadata.h17.test", "169.254.169.254")):
            # Whoever asks for both families has not yet asked twice.
            assert ask(resolver.port, name, AAAA).addresses == []
            found = [ask(resolver.port, name) for _ in range(3)]
            assert [response.addresses for response in found] == [["192.88.99.7"], [private], [private]]
            assert {record.ttl for response in found for record in response.answers} == {0}

    run(client, public_address="192.88.99.7")


def test_public_and_private_come_together() -> None:
    def client(resolver: Resolver) -> None:
        assert ask(resolver.port, "mixed.h17.test").addresses == [PUBLIC_ADDRESS, "127.0.0.1"]
        assert ask(resolver.port, "two-families.h17.test").addresses == [PUBLIC_ADDRESS]
        assert ask(resolver.port, "two-families.h17.test", AAAA).addresses == ["::1"]

    run(client)


def test_names_lead_to_private_addresses() -> None:
    def client(resolver: Resolver) -> None:
        wrong = []
        for word, address in PRIVATE_ADDRESSES.items():
            kinds = (AAAA, A) if ":" in address else (A, AAAA)
            found = [ask(resolver.port, f"{word}.h15.test", kind).addresses for kind in kinds]
            if [[str(ip_address(text)) for text in texts] for texts in found] != [[str(ip_address(address))], []]:
                wrong.append((word, found))
        assert wrong == []
        assert len(PRIVATE_ADDRESSES) > 10

    run(client)


def test_malformed_queries_are_ignored() -> None:
    good = message("s1.test", edns=1232)
    malformed = [
        b"",
        b"\0",
        *(good[:length] for length in range(1, len(message("s1.test")))),
        message("s1.test", flags=0x8100),  # an answer: two servers would talk for ever
        message("s1.test", flags=0x2800),  # an update
        good[:4] + b"\0\2" + good[6:],  # two questions announced
        good[:6] + b"\0\1" + good[8:],  # an answer announced
        good[:12] + b"\xc0\x0c" + good[14:],  # a name that points at itself
        good[:12] + b"\x3fshort\0\0\1\0\1",
        good[:12] + (b"?" + b"a" * 63) * 5 + b"\0\0\1\0\1",  # a name that is too long
        good[:12] + b"\4a.bc\4test\0\0\1\0\1",  # a dot inside a label
        message("s1.test")[:-2] + b"\0\3",  # class Chaos
        bytes(range(256)) * 200,
        b"\xff" * 512,
    ]

    def client(resolver: Resolver) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as broken:
            for data in malformed:
                broken.sendto(data, ("127.0.0.1", resolver.port))
            # The socket's queue keeps the order: when this is answered, all before it have been looked at.
            broken.sendto(message("s2.test", identity=99), ("127.0.0.1", resolver.port))
            broken.settimeout(PATIENCE_SECONDS)
            assert read(broken.recv(512)).identity == 99
        assert [asked.name for asked in resolver.log] == ["s2.test"]
        with socket.create_connection(("127.0.0.1", resolver.port), timeout=PATIENCE_SECONDS) as stream:
            stream.sendall(b"\0\5junk!\xff\xff")
        assert ask(resolver.port, "s3.test").code == NO_ERROR

    run(client)


def test_the_log_tells_who_asked_for_what_in_order() -> None:
    def client(resolver: Resolver) -> None:
        ask(resolver.port, "B.test")
        ask(resolver.port, "a.test", AAAA)
        assert [(asked.name, asked.kind) for asked in resolver.log] == [("b.test", A), ("a.test", AAAA)]
        assert resolver.log[0].at_ns <= resolver.log[1].at_ns

    run(client)


def test_a_port_that_is_taken_is_an_error() -> None:
    async def twice() -> None:
        async with Resolver() as first:
            with pytest.raises(OSError, match="in use"):
                async with Resolver(first.port):
                    pass
            assert (await asyncio.to_thread(ask, first.port, "s1.test")).code == NO_ERROR

    asyncio.run(twice())
