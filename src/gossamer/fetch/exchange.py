"""One request and its answer, on a fresh connection of their own."""

import asyncio
import errno
import math
import ssl
import time
from collections.abc import Callable

from gossamer.config import FetchSettings
from gossamer.fetch.byte_budget import ByteBudget
from gossamer.fetch.connection import BUFFER_BYTES, Connection
from gossamer.fetch.meter import FetchType
from gossamer.fetch.response import Response
from gossamer.fetch.tls import TlsStream
from gossamer.fetch.translation import describe, reason_for
from gossamer.records import Reason

#: A body may be slow to begin; after that its pace is looked at again and again.
GRACE_SECONDS = 10.0
WINDOW_SECONDS = 5.0
#: For the body of an answer that is no success: it is kept for the archive, and no worker should wait for it as long as
#: for a page.
OTHER_BODY_SECONDS = 10.0


class Exchange:
    """Connects, sends the request, feeds the response, and ends: `ended` is done when the response is over, and nothing
    is open from then on.

    The client makes it, looks at it now and then (`check`), and aborts it in the end. It sets no timer.
    """

    __slots__ = (
        "_budget",
        "_connection",
        "_ends_at",
        "_is_ipv6",
        "_loop",
        "_phase",
        "_phase_began_at",
        "_phase_ends_at",
        "_sent",
        "_settings",
        "_stream",
        "_window_ends_at",
        "_window_least_bytes",
        "body_bytes",
        "connected_at",
        "ended",
        "fetch_type",
        "first_byte_seconds",
        "gave_up_waiting",
        "holder",
        "is_waiting",
        "request",
        "response",
        "tls_seconds",
        "wait_number",
        "waited_seconds",
        "waiting_since",
    )

    def __init__(
        self,
        request: bytes,
        response: Response,
        *,
        loop: asyncio.AbstractEventLoop,
        settings: FetchSettings,
        stream: TlsStream | None,
        ends_at: float,
        sent: Callable[[], None],
        budget: ByteBudget,
        fetch_type: FetchType = "page",
        holder: object = None,
    ) -> None:
        """`holder` is the visit that it belongs to; by default it is one by itself."""
        self.ended: asyncio.Future[None] = loop.create_future()
        self.connected_at: float | None = None
        """Monotonic; None if it never was."""
        self.tls_seconds: float | None = None
        self.first_byte_seconds: float | None = None
        self.request = request
        self.response = response
        self.body_bytes = 0
        """Counted in the budget."""
        self.fetch_type = fetch_type
        self.holder = object() if holder is None else holder
        self.is_waiting = False
        self.wait_number = 0
        self.waited_seconds = 0.0
        """For room in the budget; time that is not the site's."""
        self.gave_up_waiting = False
        self.waiting_since = 0.0
        self._budget = budget
        self._loop = loop
        self._settings = settings
        self._stream = stream
        self._ends_at = ends_at
        self._sent = sent
        self._connection: Connection | None = None
        self._is_ipv6 = False
        self._window_ends_at = 0.0
        self._window_least_bytes = 0
        self._enter("connection", settings.connect_timeout_seconds)

    @property
    def tls_version(self) -> str:
        """Empty without TLS."""
        return "" if self._stream is None else self._stream.version

    @property
    def scheme(self) -> str:
        return "http" if self._stream is None else "https"

    @property
    def descriptor(self) -> int | None:
        """Of its connection, while that is open."""
        return None if self._connection is None else self._connection.descriptor

    @property
    def most_bytes(self) -> int:
        return self.response.most_body_bytes

    def connect(self, endpoint: tuple[str, int], buffer: memoryview) -> None:
        """Begin. What is received goes through `buffer`, which all exchanges share."""
        self._is_ipv6 = ":" in endpoint[0]
        try:
            self._connection = Connection(self._loop, endpoint, self, buffer)
        except OSError as error:
            self.lost(error)

    def abort(self) -> None:
        """At once; what is still unread is left to the kernel."""
        self.response.end()
        self._end_if_over()

    def check(self, now: float) -> None:
        """Ends it where time is up or the body too slow."""
        if self.response.is_over:
            return
        if self.is_waiting:
            # No time of the site's passes. But nobody waits for ever, and the server has a limit of its own.
            if now - self.waiting_since + self.waited_seconds >= self._settings.fetch_timeout_seconds:
                self.give_up_waiting()
        elif now >= self._phase_ends_at:
            self._give_up(now)
        elif self._window_ends_at and now >= self._window_ends_at:
            if self.response.body_bytes < self._window_least_bytes:
                self._give_up(now)
            else:
                self._window_ends_at = now + WINDOW_SECONDS
                self._window_least_bytes = self.response.body_bytes + int(
                    self._settings.min_rate_bytes * WINDOW_SECONDS
                )

    def _give_up(self, now: float) -> None:
        seconds = now - self._phase_began_at
        detail = f"no {self._phase} within {seconds:.1f} s"
        # A long body that came well is worth keeping; a dribble that was let go on until now is not.
        if self._window_ends_at and self.response.body_bytes >= seconds * self._settings.min_rate_bytes:
            self.response.cut("time", Reason.TIMEOUT, detail)
        else:
            self.response.fail(Reason.TIMEOUT, detail)
        self._end_if_over()

    # What its connection calls.

    def connected(self) -> None:
        if self._stream is None:
            self._enter("head of an answer", self._settings.header_timeout_seconds)
            self.connected_at = self._phase_began_at
            self._send(self.request)
            self._sent()
        else:
            self._enter("TLS handshake", self._settings.tls_timeout_seconds)
            self.connected_at = self._phase_began_at
            self._take_in(self._stream, b"")

    def room(self) -> int:
        budget = self._budget
        if budget.used_bytes < budget.free_below_bytes:
            return BUFFER_BYTES
        room = budget.room(self)
        if not room:
            self.waiting_since = time.monotonic()
        return room

    def received(self, data: memoryview) -> None:
        if self._stream is None:
            self._feed(data)
        else:
            self._take_in(self._stream, data)

    def finished(self) -> None:
        if self._stream is not None and not self._stream.is_established:
            self.response.fail(Reason.TLS, "the connection ended in the handshake")
        self.response.end()
        self._end_if_over()

    def lost(self, error: OSError) -> None:
        reason = reason_for(error)
        # Ports run out for IPv4 as well; an IPv6 address that cannot be reached from here says nothing about us.
        if self.connected_at is None and self._is_ipv6 and error.errno == errno.EADDRNOTAVAIL:
            reason = Reason.CONNECT
        self.response.cut("disconnect", reason, describe(error))
        self._end_if_over()

    def broke(self, fault: BaseException) -> None:
        # It belongs to whoever waits for this answer.
        if not self.ended.done():
            self.ended.set_exception(fault)

    # What the budget calls.

    def go_on(self) -> None:
        seconds = time.monotonic() - self.waiting_since
        self.waited_seconds += seconds
        self._ends_at += seconds
        self._phase_began_at += seconds
        self._phase_ends_at += seconds
        if self._window_ends_at:
            self._window_ends_at += seconds
        if self._connection is not None:
            self._connection.resume()

    def give_up_waiting(self) -> None:
        self.gave_up_waiting = True
        self.response.fail(Reason.OUR_SHORTAGE, "no room for its body within max_in_flight_bytes")
        self._end_if_over()

    def _take_in(self, stream: TlsStream, data: bytes | memoryview) -> None:
        try:
            stream.take(data)
            if not stream.is_established:
                stream.handshake()
                if stream.is_established:
                    self.tls_seconds = time.monotonic() - self._phase_began_at
                    self._enter("head of an answer", self._settings.header_timeout_seconds)
                    # Goes out together with the end of the handshake.
                    stream.write(self.request)
                self._send(stream.outgoing())
                if not stream.is_established:
                    return
                self._sent()
            while not self.response.is_over:
                plain = stream.read()
                if plain is None:
                    return
                if not plain:
                    self.response.end()
                    break
                self._feed(plain)
        except ssl.SSLError as error:
            self.response.cut("disconnect", reason_for(error), describe(error))
        self._end_if_over()

    def _send(self, data: bytes) -> None:
        if self._connection is not None and data:
            self._connection.send(data)

    def _feed(self, data: bytes | memoryview) -> None:
        response = self.response
        response.feed(data)
        self._count_body()
        if self.first_byte_seconds is None and response.is_head_complete:
            began_at = self._phase_began_at
            self._enter("end of the body", math.inf if response.is_success else OTHER_BODY_SECONDS)
            self.first_byte_seconds = self._phase_began_at - began_at
            self._window_ends_at = self._phase_began_at + GRACE_SECONDS
        self._end_if_over()

    def _count_body(self) -> None:
        body_bytes = self.response.body_bytes
        self._budget.used_bytes += body_bytes - self.body_bytes
        self.body_bytes = body_bytes

    def _enter(self, phase: str, seconds: float) -> None:
        self._phase = phase
        self._phase_began_at = time.monotonic()
        self._phase_ends_at = min(self._phase_began_at + seconds, self._ends_at)

    def _end_if_over(self) -> None:
        if self.response.is_over:
            # A body that is declined at its very end is not kept.
            self._count_body()
            if self._connection is not None:
                self._connection.close()
                self._connection = None  # it knows us, as the parser knows its response
            if not self.ended.done():
                self.response.let_go()
                self.ended.set_result(None)
