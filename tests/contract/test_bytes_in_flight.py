"""The budget of bytes in flight with real sockets: bodies wait, the limit holds, and no site is blamed for waiting."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gossamer.config import FetchSettings
from gossamer.fetch.byte_budget import ByteBudget
from gossamer.fetch.client import Client, Failure
from gossamer.records import Answer, Reason
from gossamer.url import Url, canonicalise

LONGEST_SECONDS = 90.0
BODY_BYTES = 300_000
MIB = 1 << 20

Handler = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class NotedBudget(ByteBudget):
    """Remembers the most that was in use."""

    most_bytes = 0
    _used_bytes = 0

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @used_bytes.setter
    def used_bytes(self, used_bytes: int) -> None:
        self._used_bytes = used_bytes
        self.most_bytes = max(self.most_bytes, used_bytes)


def made_budget(limit_bytes: int = 8 * MIB, readers: int = 200) -> NotedBudget:
    return NotedBudget(limit_bytes, largest_body_bytes=BODY_BYTES, readers=readers, robots_bytes=MIB)


def url(host: str) -> Url:
    found = canonicalise(f"http://{host}.test/")
    assert isinstance(found, Url)
    return found


@asynccontextmanager
async def client_of(handler: Handler, budget: ByteBudget, **settings: float) -> AsyncIterator[Client]:
    """A client whose connections all go to one server, which hands each with its host to the handler."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            host = head.partition(b"Host: ")[2].partition(b".test")[0].decode()
            await handler(host, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=500)
    port = server.sockets[0].getsockname()[1]
    fetch = FetchSettings(connect_to=f"127.0.0.1:{port}", allow_private_addresses=True, **settings)  # type: ignore[arg-type]
    async with server, Client(fetch, user_agent="Gossamer", budget=budget) as client:
        async with asyncio.timeout(LONGEST_SECONDS):
            yield client


def head(size_bytes: int) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {size_bytes}\r\n\r\n".encode()


async def send_whole(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """In pieces, so that all bodies are on their way together."""
    writer.write(head(BODY_BYTES))
    for first in range(0, BODY_BYTES, 30_000):
        writer.write(bytes(min(30_000, BODY_BYTES - first)))
        await writer.drain()
        await asyncio.sleep(0.001)


def test_bodies_that_come_together_never_exceed_the_budget_and_all_arrive() -> None:
    budget = made_budget()

    async def fetch(client: Client, number: int) -> int:
        answer = await client.get(url(f"s{number}"), max_body_bytes=BODY_BYTES)
        assert isinstance(answer, Answer)
        assert not answer.truncated
        # It is written some time later.
        await asyncio.sleep(0.01)
        budget.give_back(len(answer.body))
        return len(answer.body)

    async def run() -> list[int]:
        async with client_of(send_whole, budget) as client:
            return await asyncio.gather(*(fetch(client, number) for number in range(200)))

    assert asyncio.run(run()) == [BODY_BYTES] * 200
    assert budget.waits > 0
    assert 4 * MIB < budget.most_bytes <= budget.limit_bytes
    assert (budget.used_bytes, budget.waiting) == (0, 0)


class Hall:
    """A server that sends all but the last bytes of a body, and those when its gate is open; small pages at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def send(self, host: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if host.startswith("small"):
            writer.write(head(1_000) + bytes(1_000))
            return
        writer.write(head(BODY_BYTES) + bytes(BODY_BYTES - 1_000))
        await writer.drain()
        await self.gate.wait()
        writer.write(bytes(1_000))
        await writer.drain()


async def until_waiting(budget: ByteBudget, least: int) -> None:
    while budget.waiting < least:  # noqa: ASYNC110 (what is waited for is the kernel)
        await asyncio.sleep(0.005)


def test_small_pages_pass_while_large_bodies_hold_the_budget() -> None:
    budget = made_budget()

    async def run() -> None:
        hall = Hall()
        async with client_of(hall.send, budget) as client:

            async def fetch(number: int) -> None:
                answer = await client.get(url(f"s{number}"), max_body_bytes=BODY_BYTES)
                assert isinstance(answer, Answer)
                budget.give_back(len(answer.body))

            fetching = [asyncio.create_task(fetch(number)) for number in range(60)]
            await until_waiting(budget, 20)
            for number in range(100):
                answer = await client.get(url(f"small{number}"), max_body_bytes=BODY_BYTES)
                assert isinstance(answer, Answer)
                budget.give_back(len(answer.body))
            assert budget.waiting >= 20
            hall.gate.set()
            await asyncio.gather(*fetching)

    asyncio.run(run())
    assert budget.most_bytes <= budget.limit_bytes
    assert (budget.used_bytes, budget.waiting) == (0, 0)


def test_who_waits_too_long_goes_back_as_our_shortage_that_pauses_nothing() -> None:
    budget = made_budget()
    budget.used_bytes = budget.limit_bytes

    async def run() -> Answer | Failure:
        async with client_of(send_whole, budget, fetch_timeout_seconds=0.5) as client:
            return await client.get(url("a"), max_body_bytes=BODY_BYTES)

    failure = asyncio.run(run())
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.was_sent, failure.gave_up_waiting) == (Reason.OUR_SHORTAGE, True, True)
    assert (budget.used_bytes, budget.waiting) == (budget.limit_bytes, 0)


@pytest.mark.parametrize("how", ["cancelled", "left", "cut"])
def test_what_does_not_come_to_its_end_gives_back_what_it_held(how: str) -> None:
    budget = made_budget()

    async def run() -> None:
        hall = Hall()
        async with client_of(hall.send, budget, fetch_timeout_seconds=0.5 if how == "cut" else 60.0) as client:
            fetching = [
                asyncio.create_task(client.get(url(f"s{number}"), max_body_bytes=BODY_BYTES)) for number in range(60)
            ]
            await until_waiting(budget, 20)
            if how == "cancelled":
                for task in fetching:
                    task.cancel()
            elif how == "left":
                await client.__aexit__(None, None, None)
            found = await asyncio.gather(*fetching, return_exceptions=True)
            hall.gate.set()
        held_bytes = sum(len(one.body) for one in found if isinstance(one, Answer))
        assert budget.used_bytes == held_bytes
        assert budget.waiting == 0

    asyncio.run(run())
    assert budget.most_bytes <= budget.limit_bytes


def test_a_body_that_is_declined_at_its_end_is_given_back() -> None:
    """Without a label it is judged by how it begins: here when the connection ends."""
    budget = made_budget()

    async def send(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(400))

    async def run() -> None:
        async with client_of(send, budget) as client:
            found = await client.get(url("s"), max_body_bytes=BODY_BYTES, media_types=frozenset({"text/html"}))
            assert isinstance(found, Answer)
            assert (found.is_declined, found.body) == (True, b"")

    asyncio.run(run())
    assert budget.most_bytes == 400
    assert budget.used_bytes == 0
