"""The HTTP client: one GET on one connection, whatever the other side does. The story of a request:

    names.py ──► addresses.py ──► exchange.py (connection.py, tls.py, response.py) ──► Answer or Failure

It keeps no cookies, sends no credentials and no Referer, follows no redirect, and uses no connection twice.
"""

import asyncio
import re
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from gossamer.config import FetchSettings, ParseSettings, Settings
from gossamer.fetch.addresses import AddressPolicy, ports_of
from gossamer.fetch.byte_budget import ByteBudget, budget_for, current_visit
from gossamer.fetch.connection import BUFFER_BYTES
from gossamer.fetch.exchange import Exchange
from gossamer.fetch.meter import UNMEASURED, FetchMeter, FetchType
from gossamer.fetch.names import Names, Resolution
from gossamer.fetch.response import Response
from gossamer.fetch.tls import TlsStream, tls_context
from gossamer.fetch.translation import describe, reason_for
from gossamer.records import Answer, PhaseTimes, Reason
from gossamer.url import DEFAULT_PORTS, Url

#: Open exchanges are looked at so often: a time-out may come later by that. One timer for all costs less than one each.
_SWEEP_SECONDS = 0.25
#: Addresses of one name that are tried, one after the other: of a hundred that are dead, the fifth is no better.
_MOST_TRIED = 4
#: What DNS can carry and TLS can name.
_NAME = re.compile(r"(?=.{1,253}\Z)[^.]{1,63}(?:\.[^.]{1,63})*\Z")
_LOOPBACK = "127.0.0.1"


class Failure(msgspec.Struct, frozen=True):
    """There was no answer."""

    reason: Reason
    detail: str
    """For a person."""
    address: str
    """The last one that was tried, or that was refused; empty if none was known."""
    times: PhaseTimes
    was_sent: bool
    """The site was connected to, or it was tried: it counts as a request."""
    gave_up_waiting: bool = False
    """The fetcher had no room for the body: an OUR_SHORTAGE that passes as bodies are written, and needs no pause."""


class _Accepted(NamedTuple):
    """What follows from a set of media types: the headers of a request, and what its answer's label is compared to."""

    headers: str
    essences: frozenset[bytes] | None


class Client:
    """Fetches for one fetcher process. An async context manager; leaving it ends whatever is still open.

    `get` answers with data for everything that the network or a server does; only CancelledError passes through it, and
    then nothing of that request is left open either.
    """

    def __init__(
        self,
        settings: FetchSettings,
        *,
        user_agent: str,
        forbidden_endpoints: frozenset[tuple[str, int]] = frozenset(),
        meter: FetchMeter = UNMEASURED,
        budget: ByteBudget | None = None,
    ) -> None:
        """Without a budget of its own it has the settings' and room for the largest body by default."""
        self.budget = budget_for(Settings(fetch=settings, parse=ParseSettings())) if budget is None else budget
        self._settings = settings
        self._fixed_headers = f"User-Agent: {user_agent}\r\nAccept-Encoding: gzip, br, zstd\r\nConnection: close\r\n"
        self._policy = AddressPolicy(
            allow_private=settings.allow_private_addresses,
            forbidden_endpoints=forbidden_endpoints,
            blocked_ports=ports_of(settings.blocked_ports),
        )
        self._rewritten = rewritten(settings.connect_to)
        self._context = tls_context(verify=settings.verify_tls)
        self._accepted: dict[frozenset[str] | None, _Accepted] = {}
        self._exchanges: set[Exchange] = set()
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._names: Names | None = None
        self._meter = meter

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if self._settings.resolver or len(self._rewritten) < len(DEFAULT_PORTS):
            self._names = Names(self._settings.resolver, self._settings.dns_timeout_seconds)
        self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sweeping.cancel()
        while self._exchanges:
            for exchange in self._exchanges:
                exchange.abort()
            # Whoever waits for one hears of it in the loop's next turn.
            await asyncio.sleep(0)
        if self._names is not None:
            await self._names.close()

    async def get(
        self,
        url: Url,
        *,
        max_body_bytes: int,
        media_types: frozenset[str] | None = None,
        fetch_type: FetchType = "page",
        ends_at: float | None = None,
        may_connect: Callable[[str], bool] | None = None,
    ) -> Answer | Failure:
        """Of a body at most `max_body_bytes`; with media types, only a body that has one of them.

        That is said of pages. What has another status than 2xx is an answer whatever becomes of its body, which has
        narrower limits of its own (`OTHER_BODY_BYTES`, `OTHER_BODY_SECONDS`) and is not asked what it is; 429 and 503
        have none. `fetch_type` is for the meter alone.

        It ends at `ends_at` (monotonic) at the latest. `may_connect` is asked with the server's address, once that is
        known; if it says no, nothing is sent, and the Failure has the reason SERVER_ADDRESS.
        """
        heard = await self._get(url, max_body_bytes, media_types, fetch_type, latest=ends_at, may_connect=may_connect)
        if isinstance(heard, Answer):
            self._meter.answered(fetch_type, heard)
        elif heard.reason is not Reason.SERVER_ADDRESS:
            self._meter.failed(fetch_type, heard.reason, heard.times)
        return heard

    def connections(self) -> dict[int, str]:
        """Descriptors of the exchanges that are open now, and their schemes."""
        return {
            descriptor: exchange.scheme
            for exchange in self._exchanges
            if (descriptor := exchange.descriptor) is not None
        }

    async def _get(
        self,
        url: Url,
        max_body_bytes: int,
        media_types: frozenset[str] | None,
        fetch_type: FetchType,
        *,
        latest: float | None,
        may_connect: Callable[[str], bool] | None,
    ) -> Answer | Failure:
        fetched_at = time.time()
        # Not the loop's clock: that of uvloop counts milliseconds, and stands still while the loop works.
        began_at = time.monotonic()
        ends_at = began_at + self._settings.fetch_timeout_seconds
        if latest is not None and latest < ends_at:
            ends_at = latest
        found = await self.resolve(url)
        resolved_at = time.monotonic()
        dns_seconds = resolved_at - began_at
        if found.reason is not None:
            refused = "".join(found.addresses[:1])
            times = PhaseTimes(dns=dns_seconds, total=dns_seconds)
            return Failure(found.reason, found.detail, refused, times, was_sent=False)
        times = PhaseTimes(dns=dns_seconds, total=dns_seconds)
        address = found.addresses[0]
        if may_connect is not None and not found.is_placeholder and not may_connect(address):
            return Failure(Reason.SERVER_ADDRESS, f"{address}: not its turn", address, times, was_sent=False)
        failure = Failure(Reason.TIMEOUT, "no time was left to connect", "", times, was_sent=False)
        for number, address in enumerate(found.addresses[:_MOST_TRIED]):
            if time.monotonic() >= ends_at:
                break
            if number and may_connect is not None and not may_connect(address):
                break  # the failure of the address before it is the outcome
            exchange = self._begun(url, ends_at, max_body_bytes, media_types, fetch_type)
            await self._run(exchange, self._rewritten.get(url.scheme, (address, url.port)))
            response, connected_at = exchange.response, exchange.connected_at
            times = PhaseTimes(
                dns_seconds,
                None if connected_at is None else connected_at - resolved_at,
                exchange.tls_seconds,
                exchange.first_byte_seconds,
                time.monotonic() - began_at - exchange.waited_seconds,
            )
            if response.failure is None:
                return self._answer(url, fetched_at, exchange, address, times)
            reason, detail = response.failure
            is_ours = connected_at is None and reason is Reason.OUR_SHORTAGE
            was_sent = failure.was_sent or not is_ours
            failure = Failure(reason, detail, address, times, was_sent, exchange.gave_up_waiting)
            if is_ours or connected_at is not None:
                break
        return failure

    def _answer(self, url: Url, fetched_at: float, exchange: Exchange, address: str, times: PhaseTimes) -> Answer:
        response = exchange.response
        return Answer(
            url.text,
            fetched_at,
            exchange.request,
            response.status_line,
            response.status,
            tuple(response.headers),
            response.body,
            response.truncated,
            response.is_declined,
            address,
            exchange.tls_version,
            url.scheme == "https" and self._settings.verify_tls,
            times,
        )

    async def resolve(self, url: Url) -> Resolution:
        """The addresses of its host that may be connected to."""
        host = url.host
        if self._policy.refuses_port(url.port):
            return Resolution(reason=Reason.BLOCKED_ADDRESS, detail=f"port {url.port} is one of blocked_ports")
        if host.startswith("["):
            found = Resolution((host[1:-1],))
        elif host.rpartition(".")[2].isdecimal():
            found = Resolution((host,))
        elif host == "localhost" or host.endswith(".localhost"):
            found = Resolution((_LOOPBACK,))
        elif not _NAME.match(host):
            return Resolution(reason=Reason.DNS, detail="no name has labels so long")
        elif self._names is None or (url.scheme in self._rewritten and not self._settings.resolver):
            return Resolution((self._rewritten[url.scheme][0],), is_placeholder=True)
        else:
            found = await self._names.resolve(host)
        try:
            allowed = tuple(address for address in found.addresses if not self._policy.refuses(address, url.port))
        except OSError as error:
            return Resolution(found.addresses, reason_for(error), describe(error))
        if allowed or found.reason is not None:
            return Resolution(allowed, found.reason, found.detail)
        # Where private addresses are allowed, only the store's are refused.
        is_store = self._settings.allow_private_addresses
        what = "the address of the crawl's store" if is_store else "a private address or this machine's own"
        detail = f"{found.addresses[0]} is {what}"
        return Resolution(found.addresses, Reason.BLOCKED_ADDRESS, detail)

    def _begun(
        self,
        url: Url,
        ends_at: float,
        max_body_bytes: int,
        media_types: frozenset[str] | None,
        fetch_type: FetchType,
    ) -> Exchange:
        accepted = self._accepted.get(media_types) or self._accept(media_types)
        origin = url.origin
        head = f"GET {url.text[len(origin) :]} HTTP/1.1\r\nHost: {origin[len(url.scheme) + 3 :]}\r\n{accepted.headers}"
        return Exchange(
            head.encode("latin-1"),
            Response(max_body_bytes, accepted.essences),
            loop=self._loop,
            settings=self._settings,
            stream=TlsStream(self._context, url.host.strip("[]")) if url.scheme == "https" else None,
            ends_at=ends_at,
            sent=partial(self._meter.sent, fetch_type),
            budget=self.budget,
            fetch_type=fetch_type,
            holder=current_visit(),
        )

    async def _run(self, exchange: Exchange, endpoint: tuple[str, int]) -> None:
        """Until it is over; nothing of it is open after that, also if this is cancelled.

        The bytes of an answer stay counted in the budget; whoever has written or dropped it gives them back.
        """
        self._exchanges.add(exchange)
        is_answer = False
        try:
            exchange.connect(endpoint, self._buffer)
            await exchange.ended
            is_answer = exchange.response.failure is None
        finally:
            exchange.abort()
            self._exchanges.discard(exchange)
            self.budget.ended(exchange, is_kept=is_answer)

    def _accept(self, media_types: frozenset[str] | None) -> _Accepted:
        """A crawl has one or two sets of media types, so all of them are kept."""
        listed = "".join(f"{media_type}," for media_type in sorted(media_types or ()) if media_type != "*/*")
        accepted = _Accepted(
            f"Accept: {listed}*/*{';q=0.1' if listed else ''}\r\n{self._fixed_headers}\r\n",
            None if media_types is None else frozenset(media_type.lower().encode() for media_type in media_types),
        )
        self._accepted[media_types] = accepted
        return accepted

    def _sweep(self) -> None:
        now = time.monotonic()
        for exchange in self._exchanges:
            exchange.check(now)
        if self.budget.waiting:
            open_bytes = sum(exchange.body_bytes for exchange in self._exchanges)
            for reader in self.budget.crowded_out(now, open_bytes):
                reader.give_up_waiting()
        self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)


def rewritten(connect_to: str) -> dict[str, tuple[str, int]]:
    """By scheme: where all connections go; as the setting has it, which was checked when it was read."""
    found: dict[str, tuple[str, int]] = {}
    for part in connect_to.split(",") if connect_to else ():
        scheme, _, endpoint = part.rpartition("=")
        address, _, port = endpoint.rpartition(":")
        found |= dict.fromkeys([scheme] if scheme else DEFAULT_PORTS, (address.strip("[]"), int(port)))
    return found
