"""Calls to a server: waited for while it is away, repeated where that helps, given up where it does not."""

import asyncio
import re

import pytest

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.stores.server import Calls, Trouble


class Refused(Exception):  # noqa: N818 (what a server says)
    """An error of some client library, and what it means."""

    def __init__(self, meaning: Trouble | GossamerError) -> None:
        super().__init__("the library's words.")
        self.meaning = meaning


def judge(error: Exception) -> Trouble | GossamerError:
    assert isinstance(error, Refused)
    return error.meaning


def calls() -> Calls:
    return Calls("redis://***@host/0", (Refused,), judge)


class Server:
    """Answers after so many troubles."""

    def __init__(self, *troubles: Trouble | GossamerError) -> None:
        self.troubles = list(troubles)
        self.asked = 0

    async def once(self) -> str:
        self.asked += 1
        if self.troubles:
            raise Refused(self.troubles.pop(0))
        return "answer"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each wait would have been."""
    waits: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return waits


def test_a_server_that_is_away_is_waited_for_with_growing_pauses(no_waiting: list[float]) -> None:
    away = Server(*[Trouble.AWAY] * 20)
    assert asyncio.run(calls().make("admit", away.once)) == "answer"
    assert away.asked == 21
    assert no_waiting[0] <= 0.1
    assert 1.0 <= max(no_waiting) <= 2.0


def test_an_outage_is_logged_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    made = calls()

    async def crowd() -> None:
        servers = [Server(*[Trouble.AWAY] * 3) for _ in range(10)]
        await asyncio.gather(*(made.make("admit", one.once) for one in servers))

    asyncio.run(crowd())
    words = [record.getMessage() for record in caplog.records]
    assert words[0] == "redis://***@host/0 does not answer, waiting: the library's words"
    assert [word for word in words if "does not answer" in word] == words[:1]
    assert re.fullmatch(r"redis://\*\*\*@host/0 is back after \d+\.\d s", words[-1])
    assert (made.is_away, made.is_full, made.outages, made.repeated) == (False, False, 1, 30)


def test_what_is_waited_for_can_be_seen() -> None:
    made = calls()
    seen = []

    async def once() -> str:
        seen.append((made.is_away, made.is_full))
        if len(seen) < 4:
            raise Refused([Trouble.AWAY, Trouble.STARTING, Trouble.FULL][len(seen) - 1])
        return "answer"

    asyncio.run(made.make("admit", once))
    assert seen == [(False, False), (True, False), (True, False), (False, True)]


def test_two_transactions_that_met_are_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    made = calls()
    assert asyncio.run(made.make("admit", Server(*[Trouble.AGAIN] * 3).once)) == "answer"
    assert (made.outages, made.repeated) == (0, 3)
    assert not caplog.records


def test_what_does_not_pass_is_raised_at_once() -> None:
    refusing = Server(StoreUnavailable("wrong password"))
    with pytest.raises(StoreUnavailable, match="wrong password"):
        asyncio.run(calls().make("open", refusing.once))
    assert refusing.asked == 1


def test_a_start_gives_up_a_server_that_never_answered_but_not_one_that_is_starting() -> None:
    with pytest.raises(StoreUnavailable, match=r"redis://\*\*\*@host/0 does not answer: the library's words; start it"):
        asyncio.run(calls().make("open", Server(*[Trouble.AWAY] * 3).once, patience_seconds=0.0))
    starting = Server(*[Trouble.STARTING] * 50)
    assert asyncio.run(calls().make("open", starting.once, patience_seconds=0.0)) == "answer"


def test_a_cancelled_call_is_not_made_again() -> None:
    async def cancelled() -> int:
        away = Server(*[Trouble.AWAY] * 1000)
        task = asyncio.create_task(calls().make("admit", away.once))
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asked = away.asked
        for _ in range(10):
            await asyncio.sleep(0)
        return away.asked - asked

    assert asyncio.run(cancelled()) == 0


class Gate:
    """One attempt that ends when it is told to, as one that overlaps those of other calls does; later ones answer."""

    def __init__(self, trouble: Trouble | None) -> None:
        self.began = asyncio.Event()
        self.ends = asyncio.Event()
        self.asked = 0
        self._trouble = trouble

    async def once(self) -> str:
        self.asked += 1
        self.began.set()
        await self.ends.wait()
        if self._trouble is not None and self.asked == 1:
            raise Refused(self._trouble)
        return "answer"


def test_an_attempt_that_began_during_an_outage_and_fails_after_it_is_no_second_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = calls()

    async def overlapping() -> None:
        late = Gate(Trouble.STARTING)
        away = Server(Trouble.AWAY)
        first = asyncio.create_task(made.make("admit", away.once))
        second = asyncio.create_task(made.make("lease", late.once))
        await late.began.wait()
        assert await first == "answer"  # the server is back
        late.ends.set()
        assert await second == "answer"
        assert late.asked == 2

    asyncio.run(overlapping())
    assert (made.is_away, made.is_full, made.outages, made.repeated) == (False, False, 1, 2)
    words = [record.getMessage() for record in caplog.records]
    assert [re.sub(r" after .*|, waiting.*", "", word) for word in words] == [
        "redis://***@host/0 does not answer",
        "redis://***@host/0 is back",
    ]


def test_an_answer_that_was_on_its_way_when_the_server_went_away_does_not_say_that_it_is_back() -> None:
    made = calls()

    async def overlapping() -> list[bool]:
        early = Gate(None)
        answered = asyncio.create_task(made.make("admit", early.once))
        await early.began.wait()
        away = Server(*[Trouble.AWAY] * 50)
        waiting = asyncio.create_task(made.make("lease", away.once))
        while not made.is_away:  # noqa: ASYNC110 (it is no event, but what the metrics show)
            await asyncio.sleep(0)
        early.ends.set()
        assert await answered == "answer"
        seen = [made.is_away]
        assert await waiting == "answer"
        return [*seen, made.is_away]

    assert asyncio.run(overlapping()) == [True, False]
    assert made.outages == 1


def test_an_attempt_that_begins_after_an_outage_and_fails_is_a_second_outage() -> None:
    made = calls()

    async def one_after_the_other() -> None:
        for _ in range(2):
            await made.make("admit", Server(Trouble.AWAY).once)

    asyncio.run(one_after_the_other())
    assert made.outages == 2
