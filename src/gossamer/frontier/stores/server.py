"""Calls to a store on a server: they wait while it is away.

A verb may be repeated after its reply was lost, so every trouble that passes is answered in the same way: wait, and
make the same call again. A server that is gone for an hour costs an hour, and nobody ends because of it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

import msgspec

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.stores.slowness import verb_in_work

#: Between attempts at a server that is away. The first is soon, because most restarts are short; the longest is what
#: a crawl waits in vain at most when the server is back.
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 2.0
#: Between attempts where somebody has to make room.
_LONGEST_FULL_SECONDS = 30.0
#: Whatever the patience is: to connect and be answered may take so long.
_LEAST_ATTEMPT_SECONDS = 5.0
#: Before a transaction that met another one is tried again: they take milliseconds.
_AGAIN_SECONDS = 0.02

T = TypeVar("T")

_LOG = logging.getLogger("gossamer.frontier")


def unnoted(seconds: float) -> None:
    """Nobody measures."""


class Connecting(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of a crawl brings when it opens its store on a server."""

    url: str
    """With the password, if there is one; only `gossamer.url.redacted` of it may be shown."""
    crawl: str
    """Letters and digits: the frontiers of many crawls may share a server, and each is known by this."""
    slots: int
    may_create: bool = False
    """Whether the frontier is made if it is not there. Once it was made, its absence is a loss, and said to be one."""
    created_by: str = ""
    """Host and data directory, for the person who finds it on the server."""
    patience_seconds: float | None = None
    """How long `open` waits for a server that does not answer; None is as long as it takes."""
    is_unsafe: bool = False
    """Whether settings of the server are accepted that would otherwise be refused."""
    is_durable: bool = False
    """Whether nothing may be acknowledged that a power loss of the server can undo."""
    pool: int = 8
    """Most connections of this process."""
    is_reader: bool = False
    """Whether it only looks: it changes nothing, creates nothing, and every call of it ends with its patience."""
    note_connection: Callable[[float], None] = unnoted
    """Hears how long each call waited until it had a connection."""


class Trouble(Enum):
    """What passes by itself, or when somebody sees to the server."""

    AWAY = "does not answer"
    STARTING = "is starting"
    FULL = "has no room"
    AGAIN = "met another transaction"


#: Says of an exception whether it passes; what does not is raised as the error that it returns.
Judge = Callable[[Exception], Trouble | GossamerError]


class Calls:
    """All calls of one process to one server. `is_away` and `is_full` say what they wait for."""

    def __init__(
        self,
        server: str,
        errors: tuple[type[Exception], ...],
        judge: Judge,
        *,
        patience_seconds: float | None = None,
    ) -> None:
        """`patience_seconds` is that of every call which brings none of its own."""
        self._patience_seconds = patience_seconds
        self._server = server
        self._errors = errors
        self._judge = judge
        self._troubled_since: float | None = None
        self._back_at = float("-inf")
        self.is_away = False
        self.is_full = False
        self.outages = 0
        self.repeated = 0
        """Calls that were made again."""

    async def make(
        self,
        verb: str,
        once: Callable[[], Awaitable[T]],
        *,
        patience_seconds: float | None = None,
        attempt_seconds: float | None = None,
    ) -> T:
        """The answer of `once`, which is called until it has one.

        With `patience_seconds`, a server that was not reached in that time is given up with StoreUnavailable; one that
        is starting is waited for in any case. One attempt may take what is left of the patience, or `attempt_seconds`:
        for work that takes long on a server that answers.
        """
        if patience_seconds is None:
            patience_seconds = self._patience_seconds
        verb_in_work.set(verb)
        began_at = time.monotonic()
        wait_seconds = _FIRST_WAIT_SECONDS
        while True:
            attempted_at = time.monotonic()
            try:
                # What takes the connection and says nothing is no server of ours, and is given up no later than others.
                async with asyncio.timeout(attempt_seconds or _attempt_seconds(began_at, patience_seconds)):
                    answer = await once()
            except self._errors as error:
                judged = self._judge(error)
                if isinstance(judged, GossamerError):
                    raise judged from error
                waited = time.monotonic() - began_at
                if judged is Trouble.AWAY and patience_seconds is not None and waited > patience_seconds:
                    raise StoreUnavailable(
                        f"{self._server} does not answer: {_said(error)}; start it, or correct the address"
                    ) from error
                self.repeated += 1
                if judged is Trouble.AGAIN:
                    await asyncio.sleep(random.uniform(0.0, _AGAIN_SECONDS))  # noqa: S311 (no secret)
                    continue
                self._note(judged, error, attempted_at)
                # Not all at the same moment: a server that has just come back has enough to do.
                await asyncio.sleep(wait_seconds * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)
                longest = _LONGEST_FULL_SECONDS if judged is Trouble.FULL else _LONGEST_WAIT_SECONDS
                wait_seconds = min(2 * wait_seconds, longest)
            else:
                self._note_answer(attempted_at)
                return answer

    # Attempts of many calls overlap, and an outage counts once. So an attempt tells of the present only if it began
    # after the last change: a connection that breaks as the server dies, or is refused while it starts, may be heard of
    # after another call was answered, and an answer that was on its way after another call has failed.

    def _note(self, trouble: Trouble, error: Exception, attempted_at: float) -> None:
        if self._troubled_since is None:
            if attempted_at < self._back_at:
                return  # the next attempt of the same call tells
            self._troubled_since = time.monotonic()
            self.outages += 1
            _LOG.warning("%s %s, waiting: %s", self._server, trouble.value, _said(error))
        self.is_full = trouble is Trouble.FULL
        self.is_away = not self.is_full

    def _note_answer(self, attempted_at: float) -> None:
        if self._troubled_since is not None and attempted_at >= self._troubled_since:
            self._back_at = time.monotonic()
            _LOG.warning("%s is back after %.1f s", self._server, self._back_at - self._troubled_since)
            self._troubled_since = None
            self.is_away = self.is_full = False


def _attempt_seconds(began_at: float, patience_seconds: float | None) -> float | None:
    if patience_seconds is None:
        return None
    return max(_LEAST_ATTEMPT_SECONDS, began_at + patience_seconds - time.monotonic())


def _said(error: Exception) -> str:
    """In the middle of a sentence. Some have no text."""
    return str(error).rstrip(".") or type(error).__name__
