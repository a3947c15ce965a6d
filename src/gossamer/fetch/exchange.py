"""One request and its answer, on a fresh connection of their own."""

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import cast

from gossamer.config import FetchSettings
from gossamer.fetch.response import Response
from gossamer.fetch.tls import TlsStream
from gossamer.fetch.translation import FOREIGN_ERRORS, describe, reason_for
from gossamer.records import Reason

#: A body may be slow to begin; after that its pace is looked at again and again.
GRACE_SECONDS = 10.0
WINDOW_SECONDS = 5.0
#: For the body of an answer that is no success: it is kept for the archive, and no worker should wait for it as long as
#: for a page.
OTHER_BODY_SECONDS = 10.0


class Exchange(asyncio.Protocol):
    """Sends the request, feeds the response, and ends: `ended` is done when the response is over.

    The client makes it, looks at it now and then (`check`), and aborts it in the end. It sets no timer, and after its
    connection is lost it holds nothing of the loop's.
    """

    def __init__(
        self,
        request: bytes,
        response: Response,
        *,
        settings: FetchSettings,
        stream: TlsStream | None,
        ends_at: float,
        closed: Callable[["Exchange"], None],
        sent: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.tls_seconds: float | None = None
        self.first_byte_seconds: float | None = None
        self.request = request
        self.response = response
        self._settings = settings
        self._stream = stream
        self._ends_at = ends_at
        self._closed = closed
        self._sent = sent
        self._transport: asyncio.Transport | None = None
        self._phase = "connection"
        self._phase_began_at = 0.0
        self._phase_ends_at = ends_at
        self._window_ends_at = 0.0
        self._window_least_bytes = 0

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
        connection = None if self._transport is None else self._transport.get_extra_info("socket")
        number = -1 if connection is None else int(connection.fileno())
        return number if number >= 0 else None

    def abort(self) -> None:
        """At once; what is still unread is left to the kernel."""
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """Ends it where time is up or the body too slow."""
        if self.response.is_over:
            return
        if now >= self._phase_ends_at:
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

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._stream is None:
            self._send()
        else:
            self._enter("TLS handshake", self._settings.tls_timeout_seconds)
            self._go_on(b"")

    def data_received(self, data: bytes) -> None:
        if self.response.is_over:
            return
        if self._stream is None:
            self._feed(data)
        else:
            self._go_on(data)

    def eof_received(self) -> None:
        if self._stream is not None and not self._stream.is_established:
            self.response.fail(Reason.TLS, "the connection ended in the handshake")
        self.response.end()
        self._end_if_over()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed(self)
        if exc is not None and not isinstance(exc, FOREIGN_ERRORS):
            # A fault of ours in a callback: it belongs to whoever waits for this answer.
            if not self.ended.done():
                self.ended.set_exception(exc)
            return
        if exc is not None:
            self.response.cut("disconnect", reason_for(exc), describe(exc))
        self.response.end()
        self._end_if_over()

    def _go_on(self, data: bytes) -> None:
        stream = self._stream
        assert stream is not None and self._transport is not None  # noqa: S101, PT018 (for the type checker)
        try:
            stream.take(data)
            if not stream.is_established:
                self._transport.write(stream.handshake())
                if not stream.is_established:
                    return
                self.tls_seconds = self._loop.time() - self._phase_began_at
                self._send()
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

    def _send(self) -> None:
        assert self._transport is not None  # noqa: S101 (for the type checker)
        self._enter("head of an answer", self._settings.header_timeout_seconds)
        self._transport.write(self.request if self._stream is None else self._stream.write(self.request))
        self._sent()

    def _feed(self, data: bytes) -> None:
        response = self.response
        response.feed(data)
        if self.first_byte_seconds is None and response.is_head_complete:
            began_at = self._phase_began_at
            self._enter("end of the body", math.inf if response.is_success else OTHER_BODY_SECONDS)
            self.first_byte_seconds = self._phase_began_at - began_at
            self._window_ends_at = self._phase_began_at + GRACE_SECONDS
        self._end_if_over()

    def _enter(self, phase: str, seconds: float) -> None:
        self._phase = phase
        self._phase_began_at = self._loop.time()
        self._phase_ends_at = min(self._phase_began_at + seconds, self._ends_at)

    def _end_if_over(self) -> None:
        if self.response.is_over and not self.ended.done():
            self.ended.set_result(None)
