"""What is done to a crawl, and when: everything is drawn from a seed."""

import math
import random
from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Deed(StrEnum):
    """What can happen to a crawl."""

    FETCHER = "fetcher"
    """A fetcher process is killed (not the leader, which is one as well)."""
    PARSER = "parser"
    """A parser process is killed."""
    LEADER = "leader"
    """The leader is killed, and the crawl resumed at once, while its processes may still be there."""
    TREE = "tree"
    """All processes are killed at once, and the crawl is resumed."""
    STOP = "stop"
    """Some process is stopped for a while, and continued."""
    FETCHER_STOP = "fetcher-stop"
    """A fetcher process (not the leader) is stopped and never continued: the leader has to find out and replace it."""
    TERMINATE = "terminate"
    """Some process is told to end. If it is the leader, the crawl is resumed afterwards."""
    SERVER = "server"
    """The server of the store is killed, is away for a while, and comes back with its data."""
    SERVER_STOP = "server-stop"
    """It stands still for a while, all of its processes, and goes on."""


#: What can happen only to a store that has a server.
OF_SERVERS = frozenset({Deed.SERVER, Deed.SERVER_STOP})


#: How often each happens in a whole campaign against one store.
CAMPAIGN: Mapping[Deed, int] = {
    Deed.FETCHER: 50,
    Deed.PARSER: 50,
    Deed.LEADER: 20,
    Deed.TREE: 20,
    Deed.STOP: 20,
    Deed.FETCHER_STOP: 3,
    Deed.TERMINATE: 10,
    Deed.SERVER: 10,
    Deed.SERVER_STOP: 6,
}

#: Stops of a campaign that outlast the time for which a slot is owned, and how much longer they last.
LONG_STOPS = 3
BEYOND_SECONDS = 5.0

#: How long a server is away: long enough that everybody has met it, and has waited for longer and longer.
AWAY_SECONDS = 10.0
#: One in so many deaths of a server takes a fetcher or a parser with it.
WITH_DEATH = 3
#: How long a server stands still, in turn: a moment; longer than a request may take at most sites; longer than one
#: attempt at a call may take and than slots are owned, so that all calls are made again and all slots have lapsed.
STALLS_SECONDS = (5.0, 20.0, 60.0)
#: From this length on a stall meets a crawl of large bodies with a hostile crowd beside it.
LARGE_STALL_SECONDS = 20.0

#: A crawl of the campaign's web lives through so many before it has nothing left to fetch.
EVENTS_PER_CRAWL = 9


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One deed. `draw` chooses among several possible victims."""

    deed: Deed
    wait_seconds: float
    """After the one before it."""
    draw: float
    warned_seconds: float | None = None
    """Of a kill: its victim was told to end so long before, so that it dies while it puts things in order."""
    is_writing: bool = False
    """Of a kill or a stop: at a moment at which the victim has the store's write lock."""
    stopped_seconds: float = 0.0
    """Of a stop; of a server's death, how long it is away."""
    is_long: bool = False
    """Of a stop: longer than a slot is owned."""
    with_stopped: bool = False
    """Of the leader's death: one of the others is stopped, so it cannot leave by itself."""
    with_death: bool = False
    """Of a server's death: a fetcher or a parser is killed while it is away."""

    def __str__(self) -> str:
        words = [f"+{self.wait_seconds:.2f}s {self.deed}"]
        if self.warned_seconds is not None:
            words.append(f"warned {self.warned_seconds * 1000:.0f}ms")
        if self.stopped_seconds:
            words.append(f"{self.stopped_seconds:.1f}s")
        words += [
            word
            for word, is_so in (
                ("writing", self.is_writing),
                ("others-stopped", self.with_stopped),
                ("with-a-death", self.with_death),
            )
            if is_so
        ]
        return " ".join(words)


def counts_of(*, has_server: bool, share: int = 1) -> dict[Deed, int]:
    """Of a campaign against one store, or of one that is divided among so many. What is done to servers is not: it has
    to be done to each."""
    return {
        deed: count if deed in OF_SERVERS else math.ceil(count / share)
        for deed, count in CAMPAIGN.items()
        if has_server or deed not in OF_SERVERS
    }


def plan(
    seed: int, counts: Mapping[Deed, int], *, long_stop_seconds: float = 0.0, long_stops: int = LONG_STOPS
) -> list[list[Event]]:
    """The crawls of a campaign, each with its events. Long stops stand in different crawls, for they take a minute."""
    chance = random.Random(seed)  # noqa: S311 (to be replayed, not to be secret)
    events = [_drawn(chance, deed, number) for deed in Deed for number in range(counts.get(deed, 0))]
    chance.shuffle(events)
    crawls = [list(events[start :: _crawls(len(events))]) for start in range(_crawls(len(events)))]
    stops = [place for place, event in enumerate(events) if event.deed is Deed.STOP]
    if long_stop_seconds:
        for number, place in enumerate(stops[:long_stops]):
            crawl, index = place % len(crawls), place // len(crawls)
            crawls[crawl][index] = msgspec.structs.replace(
                crawls[crawl][index], stopped_seconds=long_stop_seconds, is_long=True, is_writing=number == 0
            )
    return crawls


def _crawls(events: int) -> int:
    return max(1, round(events / EVENTS_PER_CRAWL))


def _drawn(chance: random.Random, deed: Deed, number: int) -> Event:
    # Some at once, when the crawl is still busy with the one before; most when it runs.
    wait_seconds = chance.uniform(0.0, 0.5) if chance.random() < 0.25 else chance.uniform(1.0, 3.5)
    draw = chance.random()
    kills_one = deed in {Deed.FETCHER, Deed.PARSER, Deed.LEADER}
    # A third each: out of the blue, while it puts things in order, in the middle of a transaction.
    manner = number % 3 if kills_one or deed is Deed.STOP else 0
    return Event(
        deed=deed,
        wait_seconds=wait_seconds,
        draw=draw,
        warned_seconds=chance.uniform(0.0, 0.08) if manner == 1 and kills_one else None,
        is_writing=manner == 2,
        stopped_seconds=_stopped_seconds(chance, deed, number),
        # The resume then waits for fifteen seconds before it ends the one that is stopped; a few of those will do.
        with_stopped=deed is Deed.LEADER and number % 7 == 3,
        with_death=deed is Deed.SERVER and number % WITH_DEATH == 1,
    )


def _stopped_seconds(chance: random.Random, deed: Deed, number: int) -> float:
    match deed:
        case Deed.STOP:
            return chance.uniform(0.2, 4.0)
        case Deed.SERVER:
            return AWAY_SECONDS
        case Deed.SERVER_STOP:
            return STALLS_SECONDS[number % len(STALLS_SECONDS)]
        case _:
            return 0.0
