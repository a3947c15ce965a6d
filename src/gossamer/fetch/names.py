"""Host names to addresses: asked of a name server, remembered as long as it says (within bounds), failures too."""

import asyncio
import contextlib
from functools import partial

import aiodns
import msgspec
import pycares

from gossamer.fetch.translation import describe, reason_for
from gossamer.records import Reason

#: How long an answer holds, whatever its time to live. Below the least, every fetch would be a query (and a name could
#: change between robots.txt and page); above the most, a site that has moved would stay lost.
LEAST_SECONDS = 60.0
MOST_SECONDS = 3600.0
#: A name that does not exist seldom does soon after; a name server that failed may be well again in a moment.
MISSING_SECONDS = 600.0
FAILED_SECONDS = 30.0
#: Some 400 bytes each.
MOST_KNOWN = 100_000
#: More addresses of one name than a client ever tries.
_MOST_ADDRESSES = 16
#: The library keeps every answer for itself as well, 3 KB each and for up to an hour, and this cannot be turned off:
#: after so many questions it is replaced by a new one.
_QUESTIONS_PER_RESOLVER = 2_000
#: It sends a question again after two seconds, or five times what the server usually takes, and then after twice that.
#: So many tries outlast our own time-out at its default.
_RETRY_SECONDS = 2.0
_TRIES = 6
#: One reply that is no DNS message costs everything that was asked over the same socket a try, so that a name which
#: always gets such replies takes all others of its moment with it. They are asked again, each with a resolver (a thread
#: and four descriptors) of its own; so many at a time.
_MOST_ALONE = 8
#: Of ares.h; the Python packages do not name it. Sorting would open a socket for every address.
_ARES_AI_NOSORT = 1 << 7

_MISSING = {aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA, aiodns.error.ARES_ENONAME}


class Resolution(msgspec.Struct, frozen=True):
    """What a name came to: its addresses, IPv4 first; or none, and why: DNS, or a shortage of ours."""

    addresses: tuple[str, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    is_placeholder: bool = False
    """The address of `--connect-to`: nobody was asked for the name's own."""


class _Known(msgspec.Struct, frozen=True):
    resolution: Resolution
    until: float


class Names:
    """Resolves names for one client; made inside a running loop.

    Everybody who asks for one name at a time shares one question, and whoever leaves takes nothing from the others.
    Never raises for what a name server does or leaves undone, and never looks beyond the name as given: no search
    domains, no aliases of the user's. This machine's hosts file counts.
    """

    def __init__(self, resolver: str, timeout_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = resolver
        self._timeout_seconds = timeout_seconds
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, asyncio.Future[Resolution]] = {}
        self._timers: dict[asyncio.Future[Resolution], asyncio.TimerHandle] = {}
        self._pending: dict[aiodns.DNSResolver, set[asyncio.Future[pycares.AddrInfoResult]]] = {}
        self._resolver = self._new_resolver()
        self._pending[self._resolver] = set()
        self._questions = 0
        self._alone: set[asyncio.Task[None]] = set()
        self._room_alone = asyncio.Semaphore(_MOST_ALONE)

    async def resolve(self, host: str) -> Resolution:
        known = self._known.get(host)
        if known is not None and known.until > self._loop.time():
            return known.resolution
        question = self._asked.get(host)
        if question is None:
            if self._questions >= _QUESTIONS_PER_RESOLVER:
                await self._replace_resolver()
            question = self._asked.get(host) or self._ask(host)
        return await asyncio.shield(question)

    async def close(self) -> None:
        """Whoever still waits is told that it was ours to end. Nothing is left running."""
        for host, question in list(self._asked.items()):
            self._settle(host, question, Resolution(reason=Reason.OUR_SHORTAGE, detail="the resolver was closed"))
        await asyncio.gather(*self._alone, return_exceptions=True)
        pending = [future for futures in self._pending.values() for future in futures]
        for resolver in self._pending:
            await resolver.close()
        if pending:
            await asyncio.wait(pending)

    def _new_resolver(self) -> aiodns.DNSResolver:
        return aiodns.DNSResolver(
            nameservers=[self._server] if self._server else None,
            loop=self._loop,
            timeout=_RETRY_SECONDS,
            tries=_TRIES,
            # Options that are text (`lookups` and the like) stay unset: pycares frees them before they are read.
            flags=pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS,
        )

    async def _replace_resolver(self) -> None:
        self._questions = 0
        self._resolver = self._new_resolver()
        self._pending[self._resolver] = set()
        idle = [resolver for resolver, futures in self._pending.items() if not futures]
        for resolver in idle:
            if resolver is not self._resolver:
                del self._pending[resolver]
                await resolver.close()

    def _ask(self, host: str) -> asyncio.Future[Resolution]:
        question: asyncio.Future[Resolution] = self._loop.create_future()
        self._asked[host] = question
        self._questions += 1
        late = Resolution(reason=Reason.DNS, detail=f"no answer within {self._timeout_seconds:g} s")
        self._timers[question] = self._loop.call_later(
            self._timeout_seconds, self._settle, host, question, late, FAILED_SECONDS
        )
        found = self._resolver.getaddrinfo(host, flags=_ARES_AI_NOSORT)
        self._pending[self._resolver].add(found)
        found.add_done_callback(partial(self._answered, host, question, self._resolver))
        return question

    def _answered(
        self,
        host: str,
        question: asyncio.Future[Resolution],
        resolver: aiodns.DNSResolver,
        found: asyncio.Future[pycares.AddrInfoResult],
    ) -> None:
        self._pending[resolver].discard(found)
        error = found.exception()
        is_garbled = isinstance(error, aiodns.error.DNSError) and error.args[0] == aiodns.error.ARES_EBADRESP
        if is_garbled and not question.done():
            task = asyncio.create_task(self._ask_alone(host, question))
            self._alone.add(task)
            task.add_done_callback(self._alone.discard)
            question.add_done_callback(lambda _: task.cancel())
        else:
            self._settle(host, question, *_read(found))

    async def _ask_alone(self, host: str, question: asyncio.Future[Resolution]) -> None:
        async with self._room_alone:
            resolver = self._new_resolver()
            found = resolver.getaddrinfo(host, flags=_ARES_AI_NOSORT)
            try:
                with contextlib.suppress(aiodns.error.DNSError):
                    await found
            finally:
                await resolver.close()
        self._settle(host, question, *_read(found))

    def _settle(
        self, host: str, question: asyncio.Future[Resolution], resolution: Resolution, seconds: float = 0.0
    ) -> None:
        if question.done():
            return  # it was given up in the same moment
        self._timers.pop(question).cancel()
        del self._asked[host]
        question.set_result(resolution)
        self._known.pop(host, None)
        if seconds:
            self._known[host] = _Known(resolution, self._loop.time() + seconds)
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]


def _read(found: asyncio.Future[pycares.AddrInfoResult]) -> tuple[Resolution, float]:
    """What an answer says, and for how many seconds it holds."""
    error = found.exception()
    if isinstance(error, aiodns.error.DNSError):
        reason = reason_for(error)
        seconds = MISSING_SECONDS if error.args[0] in _MISSING else FAILED_SECONDS
        return Resolution(reason=reason, detail=describe(error)), 0.0 if reason is Reason.OUR_SHORTAGE else seconds
    result = found.result()
    addresses = dict.fromkeys(node.addr[0].decode() for node in result.nodes)
    if not addresses:
        return Resolution(reason=Reason.DNS, detail="the name has no address"), MISSING_SECONDS
    times = [*(node.ttl for node in result.nodes), *(alias.ttl for alias in result.cnames)]
    ordered = sorted(addresses, key=lambda address: ":" in address)[:_MOST_ADDRESSES]
    return Resolution(tuple(ordered)), min(max(float(min(times)), LEAST_SECONDS), MOST_SECONDS)
