"""Names, resolved by a real name server on loopback that plays what DNS can play."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gossamer.fetch import names as names_module
from gossamer.fetch.names import Names, Resolution
from gossamer.records import Reason
from gossamer.testing.web.resolver import Resolver
from tests.contract.played_clock import advance_loop

PUBLIC_ADDRESS = "8.8.8.8"
#: Nobody waits so long: where a time-out is wanted, the loop's clock is put ahead.
TIMEOUT_SECONDS = 600.0

T = TypeVar("T")


def played(play: Callable[[Names, Resolver], Coroutine[Any, Any, T]], *, late_seconds: float = 0.6) -> T:
    async def run() -> T:
        async with Resolver(public_address=PUBLIC_ADDRESS, late_seconds=late_seconds) as resolver:
            names = Names(f"127.0.0.1:{resolver.port}", TIMEOUT_SECONDS)
            try:
                return await play(names, resolver)
            finally:
                await names.close()

    return asyncio.run(run())


def asked(resolver: Resolver, name: str) -> int:
    """How often, for its IPv4 addresses. The library sends a question again if the answer takes a quarter second."""
    return len(
        {query.identity for query in resolver.log if (query.name, query.kind, query.over_udp) == (name, 1, True)}
    )


def test_a_name_comes_to_its_addresses_and_ipv4_stands_first() -> None:
    async def play(names: Names, _: Resolver) -> list[Resolution]:
        return [await names.resolve(name) for name in ("a.test", "two-families.h17.test", "loopback-v6.h15.test")]

    assert [found.addresses for found in played(play)] == [("127.0.0.1",), (PUBLIC_ADDRESS, "::1"), ("::1",)]


def test_of_a_hundred_addresses_the_first_few_are_kept() -> None:
    async def play(names: Names, _: Resolver) -> Resolution:
        return await names.resolve("many.h19.test")

    found = played(play)
    assert found.addresses[:2] == ("127.0.0.1", "127.0.1.1")
    assert len(found.addresses) == 16


def test_a_chain_of_aliases_is_followed_and_a_loop_is_a_failure() -> None:
    async def play(names: Names, _: Resolver) -> list[Resolution]:
        return [await names.resolve(f"{name}.h19.test") for name in ("chain", "loop", "loop-2", "self")]

    chain, *loops = played(play)
    assert chain.addresses == ("127.0.0.1",)
    assert [(found.addresses, found.reason) for found in loops] == [((), Reason.DNS)] * 3


@pytest.mark.parametrize("name", ["servfail", "nxdomain", "empty", "garbled"])
def test_a_failure_is_data_and_is_remembered(name: str) -> None:
    async def play(names: Names, resolver: Resolver) -> tuple[Resolution, Resolution, int, int]:
        first = await names.resolve(f"{name}.h19.test")
        before = asked(resolver, f"{name}.h19.test")
        return first, await names.resolve(f"{name}.h19.test"), before, asked(resolver, f"{name}.h19.test")

    first, second, before, after = played(play)
    assert (first.addresses, first.reason, bool(first.detail)) == ((), Reason.DNS, True)
    assert (second, after) == (first, before)


@pytest.mark.parametrize("name", ["no such host", "x" * 64 + ".test", "other.example"])
def test_what_no_server_answers_for_is_a_failure(name: str) -> None:
    async def play(names: Names, _: Resolver) -> Resolution:
        return await names.resolve(name)

    assert played(play).reason is Reason.DNS


def test_a_name_that_stalls_fails_in_time_and_holds_up_nobody() -> None:
    async def play(names: Names, _: Resolver) -> tuple[set[Resolution], bool, Resolution]:
        stalling = asyncio.ensure_future(names.resolve("stall.h19.test"))
        others = await asyncio.gather(*(names.resolve(f"n{number}.test") for number in range(100)))
        was_done = stalling.done()
        advance_loop(TIMEOUT_SECONDS)
        return set(others), was_done, await stalling

    others, was_done, found = played(play)
    assert others == {Resolution(("127.0.0.1",))}
    assert not was_done
    assert found == Resolution(reason=Reason.DNS, detail="no answer within 600 s")


def test_a_garbled_reply_takes_no_other_name_with_it() -> None:
    async def play(names: Names, _: Resolver) -> list[Resolution]:
        others = (f"n{number}.test" for number in range(100))
        return await asyncio.gather(*(names.resolve(name) for name in ("garbled.h19.test", *others, "late.h19.test")))

    garbled, *others = played(play)
    assert garbled.reason is Reason.DNS
    assert set(others) == {Resolution(("127.0.0.1",))}


def test_a_late_answer_is_waited_for() -> None:
    async def play(names: Names, _: Resolver) -> Resolution:
        return await names.resolve("late.h19.test")

    assert played(play).addresses == ("127.0.0.1",)


def test_many_who_ask_at_once_share_one_question() -> None:
    async def play(names: Names, resolver: Resolver) -> tuple[set[Resolution], int]:
        found = await asyncio.gather(*(names.resolve("shared.test") for _ in range(50)))
        return set(found), asked(resolver, "shared.test")

    assert played(play) == ({Resolution(("127.0.0.1",))}, 1)


def test_whoever_leaves_takes_nothing_from_the_others() -> None:
    async def play(names: Names, _: Resolver) -> list[Resolution | BaseException]:
        waiting = [asyncio.ensure_future(names.resolve("late.h19.test")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[2].cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    first, second, third = played(play)
    assert isinstance(first, asyncio.CancelledError)
    assert isinstance(third, asyncio.CancelledError)
    assert second == Resolution(("127.0.0.1",))


def test_an_answer_without_time_to_live_still_holds_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a name cannot change between the answer that was judged and the next request."""

    async def play(names: Names, resolver: Resolver) -> tuple[list[tuple[str, ...]], int]:
        found = [(await names.resolve("rebind.h17.test")).addresses for _ in range(2)]
        before = asked(resolver, "rebind.h17.test")
        monkeypatch.setattr(names._loop, "time", lambda: time.monotonic() + names_module.LEAST_SECONDS + 1)
        return [*found, (await names.resolve("rebind.h17.test")).addresses], before

    # Asked again, it names the crawler's own machine: what it comes to is judged anew each time.
    assert played(play) == ([(PUBLIC_ADDRESS,), (PUBLIC_ADDRESS,), ("127.0.0.1",)], 1)


def test_what_is_known_is_bounded_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "MOST_KNOWN", 10)

    async def play(names: Names, resolver: Resolver) -> tuple[int, int, int]:
        for number in range(30):
            await names.resolve(f"n{number}.test")
        await names.resolve("n29.test")
        return len(names._known), asked(resolver, "n29.test"), asked(resolver, "n0.test")

    assert played(play) == (10, 1, 1)


def test_the_library_is_replaced_before_its_own_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "_QUESTIONS_PER_RESOLVER", 20)

    async def play(names: Names, _: Resolver) -> tuple[set[Resolution], int]:
        late = asyncio.ensure_future(names.resolve("late.h19.test"))
        found = {await names.resolve(f"n{number}.test") for number in range(100)}
        resolvers = len(names._pending)
        advance_loop(TIMEOUT_SECONDS / 2)
        return found | {await late}, resolvers

    # Beside the one in use, only those that somebody still waits for are kept.
    found, resolvers = played(play, late_seconds=TIMEOUT_SECONDS / 2)
    assert found == {Resolution(("127.0.0.1",))}
    assert resolvers == 2


def test_a_name_server_that_is_not_there_is_our_shortage_and_is_asked_again() -> None:
    async def run() -> tuple[Resolution, int]:
        # A port that no program is given by chance.
        names = Names("127.0.0.1:1", TIMEOUT_SECONDS)
        try:
            return await names.resolve("a.test"), len(names._known)
        finally:
            await names.close()

    found, known = asyncio.run(run())
    assert (found.reason, known) == (Reason.OUR_SHORTAGE, 0)


def test_closing_leaves_no_question_no_descriptor_and_no_thread() -> None:
    async def play(names: Names, resolver: Resolver) -> list[asyncio.Task[Resolution]]:
        waiting = [asyncio.ensure_future(names.resolve(f"{name}.h19.test")) for name in ("stall", "late")]
        while len({query.name for query in resolver.log}) < len(waiting):  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)
        await names.close()
        await asyncio.wait(waiting)
        return waiting

    played(play, late_seconds=TIMEOUT_SECONDS)  # the library starts a thread of its own that stays
    descriptors, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    waiting = played(play, late_seconds=TIMEOUT_SECONDS)
    assert [question.result().reason for question in waiting] == [Reason.OUR_SHORTAGE] * 2
    # The library closes its sockets in that thread, a moment later.
    deadline = time.monotonic() + 60
    while len(list(Path("/proc/self/fd").iterdir())) > descriptors and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
    assert threading.active_count() <= threads
