"""A connection on loopback, on either event loop."""

import asyncio
import gc
import socket
from collections.abc import Callable

import pytest
import uvloop

from gossamer.config import FetchSettings
from gossamer.fetch.byte_budget import ByteBudget
from gossamer.fetch.connection import BUFFER_BYTES, Connection
from gossamer.fetch.exchange import Exchange
from gossamer.fetch.response import Response

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
#: More than the kernel takes at once on either side.
LONG = bytes(range(256)) * (64 << 10)


class Recorder:
    """Sends what it has when it is connected, and remembers what it is told."""

    def __init__(self, to_send: bytes) -> None:
        self.connection: Connection | None = None
        self.told = asyncio.get_running_loop().create_future()
        self.heard = b""
        self._to_send = to_send

    def connected(self) -> None:
        assert self.connection is not None
        self.connection.send(self._to_send[:-1])
        self.connection.send(self._to_send[-1:])

    def room(self) -> int:
        return BUFFER_BYTES

    def received(self, data: memoryview) -> None:
        self.heard += data

    def finished(self) -> None:
        self.told.set_result("finished")

    def lost(self, error: OSError) -> None:
        self.told.set_result(type(error).__name__)

    def broke(self, fault: BaseException) -> None:
        self.told.set_exception(fault)


async def connect(endpoint: tuple[str, int], to_send: bytes = b"?") -> Recorder:
    recorder = Recorder(to_send)
    recorder.connection = Connection(
        asyncio.get_running_loop(), endpoint, recorder, memoryview(bytearray(BUFFER_BYTES))
    )
    async with asyncio.timeout(60):
        await recorder.told
    assert recorder.connection.descriptor is None
    recorder.connection.close()
    return recorder


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_what_is_sent_arrives_whole_and_in_order_also_if_it_has_to_wait(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> None:
        arrived = b""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal arrived
            await asyncio.sleep(0.05)
            arrived = await reader.readexactly(len(LONG))
            writer.write(arrived[:5000])
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            recorder = await connect(server.sockets[0].getsockname(), LONG)
        assert arrived == LONG
        assert (recorder.told.result(), recorder.heard) == ("finished", LONG[:5000])

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_connection_that_is_refused_is_lost(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with socket.socket() as unheard, asyncio.Runner(loop_factory=loop_factory) as runner:
        unheard.bind(("127.0.0.1", 0))
        recorder = runner.run(connect(unheard.getsockname()))
    assert recorder.told.result() == "ConnectionRefusedError"


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_connection_that_is_closed_while_it_is_made_tells_nobody(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            recorder = Recorder(b"?")
            recorder.connection = Connection(
                asyncio.get_running_loop(), server.getsockname(), recorder, memoryview(bytearray(8))
            )
            recorder.connection.close()
            await asyncio.sleep(0.02)
            assert not recorder.told.done()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())


def test_an_answer_is_freed_with_its_exchange_and_not_by_the_garbage_collector() -> None:
    """Else its body would stay with it, and every collection would have some thousand of them to look at."""

    def responses() -> int:
        return sum(isinstance(found, Response) for found in gc.get_objects())

    async def run() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(3)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            writer.close()

        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            exchange = Exchange(
                b"GET",
                Response(9, None),
                loop=loop,
                settings=FetchSettings(),
                stream=None,
                ends_at=loop.time() + 100,
                sent=lambda: None,
                budget=ByteBudget(1 << 30, largest_body_bytes=1 << 20, readers=1),
            )
            exchange.connect(server.sockets[0].getsockname(), memoryview(bytearray(BUFFER_BYTES)))
            await exchange.ended
            assert exchange.response.body == b"ok"
            assert responses() == before + 1
            del exchange
            assert responses() == before

    gc.collect()
    gc.disable()
    try:
        before = responses()
        asyncio.run(run())
    finally:
        gc.enable()
