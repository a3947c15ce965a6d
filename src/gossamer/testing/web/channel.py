"""One connection of a client: reads request heads, has them answered one after the other, writes each down.

The TLS kind drives OpenSSL by hand, so that a handshake can be left unanswered.
"""

import asyncio
import contextlib
import re
import ssl
import time
from http import HTTPStatus
from typing import Protocol

import msgspec

from gossamer.testing.web.access_log import Request
from gossamer.testing.web.certificates import Contexts
from gossamer.testing.web.client_hello import server_name
from gossamer.testing.web.stream import Stream

#: More than any client of ours sends; whatever is longer is not a request.
MAX_HEAD_BYTES = 64 << 10

#: An answer that is longer goes out in two steps, the last of them small: when it is taken by the kernel, the rest has
#: been too. Shorter ones fit the socket's buffer whole (see `SimulatedWeb`) and take one system call.
_WHOLE_BYTES = 128 << 10
_LAST_BYTES = 1 << 10

_REQUEST_LINE = re.compile(r"([A-Z]{1,20}) (/[^\x00-\x20]*|\*|https?://[^\x00-\x20]+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])\b")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Head(msgspec.Struct, frozen=True, gc=False):
    """A request as it was read."""

    started_at_ns: int
    method: str
    target: str
    host: str
    """Lower case, without the port."""
    host_header: str
    headers: dict[str, str]
    keep_alive: bool


class Server(Protocol):
    """Who answers: `SimulatedWeb`, seen from a connection."""

    contexts: Contexts | None
    keep_alive: bool

    def answer(self, channel: "Channel", head: Head) -> None: ...

    def opened(self, channel: "Channel") -> None: ...

    def closed(self, channel: "Channel") -> None: ...

    def log(self, request: Request) -> None: ...


class Channel:
    """One connection, the `Reader` of its stream. At most one request is being answered; what is sent ahead waits.

    Every request that was read gets exactly one line of the log: when the last bytes of its answer were handed over, or
    when the client left before that.
    """

    scheme = "http"

    def __init__(self, web: Server) -> None:
        self.web = web
        self.client_port = 0
        self.task: asyncio.Task[None] | None = None
        """What plays a hostile site on this connection."""
        self.timer: asyncio.TimerHandle | None = None
        """What the answer waits for, where there is latency."""
        self._received = b""
        self._head: Head | None = None
        self._status = 0
        self._body_bytes = 0
        self._last = b""
        self._written_at_ns = 0
        """Of a hostile answer: when its last bytes so far were begun to be sent."""
        self._closed_by_us = False
        self._aborted_by_us = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def is_closing(self) -> bool:
        return self._stream.is_closing

    # What the stream calls.

    def opened(self, stream: Stream, client_port: int) -> None:
        self._stream = stream
        self.client_port = client_port
        self.web.opened(self)

    def received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if self._head is None:
            self._next()
        elif len(self._received) > MAX_HEAD_BYTES:
            self._stream.abort()

    def drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._last and self.task is None:
            self._send_last()

    def lost(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            # It writes its own line of the log as it ends.
            self.task.cancel()
        elif self._head is not None:
            self.finish(aborted=True)
        self.web.closed(self)

    # What an answer is made with.

    def write(self, data: bytes) -> None:
        """Raw bytes, of a hostile answer."""
        if not self._status and not self._body_bytes:
            found = _STATUS_LINE.match(data)
            self._status = int(found[1]) if found else 0
            data_bytes = len(data.partition(b"\r\n\r\n")[2]) if found else len(data)
        else:
            data_bytes = len(data)
        self._body_bytes += data_bytes
        self._written_at_ns = time.monotonic_ns()
        self._send(data)

    async def drain(self) -> None:
        if self._stream.is_waiting:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        else:
            # A behaviour that never waits for its client must not hold up the others.
            await asyncio.sleep(0)

    def close(self) -> None:
        self._closed_by_us = True
        self._stream.close()

    def abort(self) -> None:
        self._aborted_by_us = True
        self._stream.abort()

    def respond(self, status: int, headers: str, body: bytes, length: int | None = None) -> None:
        """A whole, well-formed answer; `headers` are lines with their ends. HEAD is given a length and no body."""
        head = self._head
        assert head is not None  # noqa: S101 (only a request is answered)
        self._status = status
        self._body_bytes = len(body)
        stay = "" if head.keep_alive else "Connection: close\r\n"
        size = "" if status == 304 else f"Content-Length: {len(body) if length is None else length}\r\n"
        start = f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}\r\n{headers}{size}{stay}\r\n".encode("latin-1")
        if len(body) <= _WHOLE_BYTES:
            self._last = start + body if body else start
        else:
            self._send(start + body[:-_LAST_BYTES])
            self._last = body[-_LAST_BYTES:]
        if self.task is None and not self._stream.is_waiting:
            self._send_last()

    def _send_last(self) -> None:
        head, last = self._head, self._last
        if head is None:
            return
        self._last = b""
        self.finish(aborted=False)
        self._send(last)
        if not head.keep_alive:
            self.close()
        elif self._received:
            # Not from here: a client that sends a thousand requests ahead would make this a thousand calls deep.
            asyncio.get_running_loop().call_soon(self._next)

    def finish(self, *, aborted: bool) -> None:
        """Writes the request down. Called before the last bytes are sent, so that no client can be ahead of the log.

        What plays a hostile site says so later, when it has its turn again; its answer ended when it was written.
        """
        head, self._head = self._head, None
        if head is None:
            return
        written_at_ns, self._written_at_ns = self._written_at_ns, 0
        self.web.log(
            Request(
                head.started_at_ns,
                written_at_ns if written_at_ns and not aborted else time.monotonic_ns(),
                aborted,
                self.scheme,
                head.host_header,
                head.target,
                self._status,
                self._body_bytes if not aborted else max(0, self._body_bytes - len(self._last)),
                self.client_port,
                head.headers.get("user-agent", ""),
            )
        )
        self._status = self._body_bytes = 0

    def played(self, *, ended: bool) -> None:
        """The hostile behaviour has ended or was cancelled. What it left to be sent is sent; the connection may go on.

        An answer that it closed itself was not cut off, whatever was left of it; one that it reset was.
        """
        self.task = None
        aborted = self._aborted_by_us or not (ended or self._closed_by_us)
        if self._last and not aborted:
            if not self._stream.is_waiting:
                self._send_last()
            return
        # Raw bytes may have been anything: nobody knows where the next answer would begin.
        self.finish(aborted=aborted)
        self.close()

    def _send(self, data: bytes) -> None:
        self._stream.write(data)

    # Reading requests.

    def _next(self) -> None:
        if self._head is not None or self._stream.is_closing:
            return
        text, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            if len(self._received) > MAX_HEAD_BYTES:
                self._refuse(431)
            return
        self._received = rest
        head = read_head(text, keep_alive=self.web.keep_alive)
        if head is None:
            self._refuse(400)
            return
        self._head = head
        self.web.answer(self, head)

    def _refuse(self, status: int) -> None:
        """What came is no request, so there is nothing to be written down."""
        reason = _REASONS[status]
        self._send(f"HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        self.close()


class TlsChannel(Channel):
    """A connection over TLS."""

    scheme = "https"

    def __init__(self, web: Server) -> None:
        super().__init__(web)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._hello = b""
        self._tls: ssl.SSLObject | None = None
        self._is_open = False
        self._is_stalled = False

    def received(self, data: bytes) -> None:
        if self._is_stalled:
            return
        tls = self._tls or self._chosen(data)
        if tls is None:
            return
        if self._tls is not None:
            self._incoming.write(data)
        self._tls = tls
        try:
            if not self._is_open:
                tls.do_handshake()
                self._is_open = True
            while plain := tls.read(MAX_HEAD_BYTES):
                super().received(plain)
            # They said goodbye. An answer that is still under way is one that they did not wait for.
            self._stream.close()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            # Their end of the conversation, a certificate they do not like, or nonsense: our last word goes out.
            self._flush()
            self._stream.close()

    def _chosen(self, data: bytes) -> ssl.SSLObject | None:
        """The conversation, once it is known with whom the client wants to talk."""
        self._hello += data
        name = server_name(self._hello)
        contexts = self.web.contexts
        if name is None or contexts is None:
            return None
        context = contexts.of(name)
        if context is None:
            self._is_stalled = True
            return None
        self._incoming.write(self._hello)
        return context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def _send(self, data: bytes) -> None:
        if self._tls is None or not self._is_open or self._stream.is_closing:
            return
        self._tls.write(data)
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._stream.write(self._outgoing.read())

    def close(self) -> None:
        if self._tls is not None and self._is_open and not self._stream.is_closing:
            # Says goodbye, and asks for theirs, which nobody waits for.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        super().close()


def read_head(text: bytes, *, keep_alive: bool = True) -> Head | None:
    """A request head without its empty line; None if it is none, or not one that can be answered in HTTP/1.1."""
    started_at_ns = time.monotonic_ns()
    first, *lines = text.decode("latin-1").split("\r\n")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            return None
        name = name.lower()
        value = value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    method, target, minor = request[1], request[2], request[3]
    host_header = headers.get("host", "")
    if target.startswith("http"):
        host_header, slash, path = target.partition("://")[2].partition("/")
        target = slash + path if slash else "/"
    if not host_header:
        return None
    connection = headers.get("connection", "").lower()
    # A body is never read, so what follows it could not be told from it.
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return Head(
        started_at_ns=started_at_ns,
        method=method,
        target=target,
        host=host_header.lower().rpartition(":")[0] if ":" in host_header else host_header.lower(),
        host_header=host_header,
        headers=headers,
        keep_alive=keep_alive
        and not has_body
        and ("keep-alive" in connection if minor == "0" else "close" not in connection),
    )
