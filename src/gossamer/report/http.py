"""A small HTTP server in threads of its own. The leader has two: of the metrics (`metrics_server.py`), and of the
dashboard (`dashboard/server.py`).

A `Service` says what is answered; here is the rest: one request per connection, bounds on everything that a client
sends and on the time it takes for that, and no word of ours but the answer. Crawling goes on in the same process: a
client can neither hold many threads nor much memory, whatever it does.
"""

import contextlib
import errno
import gzip
import json
import logging
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, NamedTuple, Protocol

import msgspec

from gossamer.report.connections import MOST_CONNECTIONS, Connections

log = logging.getLogger("gossamer.report")

#: A port that is taken: one of so many that follow it is used instead.
FURTHER_PORTS = 20
#: For a request to arrive, and for an answer to be taken: on loopback both take milliseconds.
PATIENCE_SECONDS = 10.0
#: What a client sends beyond the part of its request that was read: so much is taken, for the client to see the answer
#: before the connection is reset.
LINGER_SECONDS = 2.0
LINGER_BYTES = 4 << 20
#: How often slow clients are looked for, and the end of the server.
LOOK_SECONDS = 0.2
#: While there are no descriptors for another connection: else accepting would be tried without a pause.
SHORT_SECONDS = 0.2
#: At the end of the server, for answers that are on their way.
ANSWER_SECONDS = 1.0
#: The threads of an ended server have nothing to wait for but an answer in the making.
CLOSE_SECONDS = 5.0

#: The longest is a search for a URL, every letter of it escaped. Browsers send 1 KB of headers.
TARGET_BYTES = 8 << 10
HEAD_BYTES = 32 << 10
#: The largest is the name of a site.
BODY_BYTES = 4 << 10
#: Smaller ones are not worth the time.
GZIP_BYTES = 1 << 10

_TAKEN = {errno.EADDRINUSE, errno.EACCES}
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_ACCEPTS_GZIP = re.compile(r"(^|,)\s*gzip\s*(;\s*q=(1|0\.0*[1-9])[0-9.]*\s*)?(,|$)", re.IGNORECASE)

#: A page that is shown here may load nothing from elsewhere, and no page from elsewhere may show, load or read this.
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Request(NamedTuple):
    """What was asked. Nothing in it can be trusted but `port`, which is the server's."""

    method: str
    path: str
    query: str
    headers: Message
    port: int
    body: bytes = b""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered; the server adds the length and the headers that all answers have."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


class Route(NamedTuple):
    """What one path answers, and to which method: GET (and so HEAD) or POST."""

    method: str
    answer: Callable[[Request], Answer]


class Service(Protocol):
    """What a server serves. Called in many threads at once."""

    headers: Mapping[str, str]
    """Of every answer, errors too. One that an answer has itself goes before."""

    def routes(self) -> Mapping[str, Route]: ...

    def refusal(self, request: Request) -> Answer | None:
        """Asked of every request, whatever its path and method, before its body is read."""


def problem(status: HTTPStatus, words: str, headers: Mapping[str, str] | None = None) -> Answer:
    """What went wrong, in words for a person."""
    return Answer(status=status, body=json.dumps({"error": words}).encode(), headers=headers or {})


class HttpServer:
    """Serves from the moment it is made until `close`. Raises OSError if there is no port for it."""

    def __init__(
        self, address: str, port: int, service: Service, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """`port` 0 takes any that is free."""
        self._listener = _listen(address, port, service, patience_seconds)
        self.port: int = self._listener.server_address[1]
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.port}/"
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(LOOK_SECONDS,), name=f"http-{self.port}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """The port is free and all connections are closed when it returns; a second call does nothing."""
        self._listener.shutdown()
        self._thread.join()
        self._listener.end()


class _Listener(ThreadingHTTPServer):
    """The listening socket, and the connections that it has accepted."""

    # A socket that still lingers from an earlier run does not keep the port; one that listens does.
    allow_reuse_address = True
    # Two servers on one port would each get some of the requests.
    allow_reuse_port = False
    # Those that wait to be accepted. The standard library's five make a client that comes with more wait a second.
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, family: socket.AddressFamily, place: Any, service: Service, patience_seconds: float) -> None:
        self.address_family = family
        self.service = service
        self.patience_seconds = patience_seconds
        self.connections = Connections()
        super().__init__(place, _Conversation)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the resolver for our own name, and may wait long for that.
        socketserver.TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _SHORTAGES:
                time.sleep(SHORT_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="http-request", daemon=True
        )
        if self.connections.add(request, thread, self.patience_seconds):
            thread.start()
            return
        request.setblocking(False)
        with contextlib.suppress(OSError):
            request.send(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self.connections.remove(request)
        with contextlib.suppress(OSError):
            super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called by the loop of the standard library whenever it has waited."""
        self.connections.close_late()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (as the base calls it)
        log.error("a request was not answered: the fault is ours", exc_info=True)  # noqa: LOG014 (called by the base while it handles one)

    def end(self) -> None:
        """After the loop has ended."""
        self.server_close()
        self.connections.close_all(ANSWER_SECONDS, CLOSE_SECONDS)


class _HeadTooLarge(HTTPException):
    """Of a kind that the standard library's parser answers with 431."""


class _Head:
    """The head of a request as a file, of which only so much can be read."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = HEAD_BYTES

    def readline(self, size: int) -> bytes:
        line = self._file.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise _HeadTooLarge
        return line


class _Conversation(BaseHTTPRequestHandler):
    """One connection, from the request to the answer, in a thread of its own."""

    server: _Listener

    def handle(self) -> None:
        try:
            request = self._read_head()
            answer = self._refusal(request) if request is not None else None
            if request is not None and answer is None:
                answer = self._answer(request)
        except Exception:
            self._send(problem(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of ours; the log file of the leader has it"))
            raise
        if answer is not None:
            self._send(answer)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the standard library's parser says of a malformed request; its words repeat what the client sent."""
        self._is_unread = True
        self._send(problem(HTTPStatus(code), HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as the base calls it)
        log.debug(format, *args)

    # The request.

    def _read_head(self) -> Request | None:
        """None: there was none, or it was answered already."""
        self._is_unread = self._accepts_gzip = False
        self.command = self.path = ""
        sent = self.rfile
        try:
            self.raw_requestline = sent.readline(TARGET_BYTES + 1)
            if len(self.raw_requestline) > TARGET_BYTES:
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
                return None
            self.rfile = _Head(sent)  # type: ignore[assignment] # the parser reads lines alone
            if not self.raw_requestline or not self.parse_request():
                return None
        except OSError as error:
            log.debug("a client left or was too slow: %s", error)
            return None
        finally:
            self.rfile = sent
        # Whatever is not read of it, as a body of a GET, must not cost the client its answer.
        self._is_unread = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        self._accepts_gzip = bool(_ACCEPTS_GZIP.search(",".join(self.headers.get_all("Accept-Encoding", []))))
        path, _, query = self.path.partition("?")
        return Request(self.command, path, query, self.headers, self.server.server_address[1])

    def _read_body(self) -> bytes | Answer | None:
        """None: the client left."""
        if "Transfer-Encoding" in self.headers:
            return problem(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length instead of a Transfer-Encoding")
        given = set(self.headers.get_all("Content-Length", ["0"]))
        text = given.pop()
        if given or not (text.isascii() and text.isdigit()):
            return problem(HTTPStatus.BAD_REQUEST, "the Content-Length is no number")
        if len(text) > 9 or int(text) > BODY_BYTES:
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {BODY_BYTES} bytes at most")
        try:
            body = self.rfile.read(int(text))
        except OSError as error:
            log.debug("a client left or was too slow: %s", error)
            return None
        self._is_unread = False
        return body if len(body) == int(text) else None

    def _refusal(self, request: Request) -> Answer | None:
        refusal = self.server.service.refusal(request)
        if refusal is not None:
            return refusal
        route = self.server.service.routes().get(request.path)
        if route is None:
            return problem(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        allowed = ["GET", "HEAD"] if route.method == "GET" else [route.method]
        if request.method not in allowed:
            return problem(
                HTTPStatus.METHOD_NOT_ALLOWED, f"only {' and '.join(allowed)} here", {"Allow": ", ".join(allowed)}
            )
        return None

    # The answer.

    def _answer(self, request: Request) -> Answer | None:
        if request.method == "POST":
            body = self._read_body()
            if not isinstance(body, bytes):
                return body
            request = request._replace(body=body)
        self.server.connections.work(self.request)
        return self.server.service.routes()[request.path].answer(request)

    def _send(self, answer: Answer) -> None:
        fields = {**self.server.service.headers, **answer.headers, "Connection": "close"}
        body = answer.body
        if len(body) >= GZIP_BYTES:
            fields["Vary"] = "Accept-Encoding"
            if self._accepts_gzip:
                # The fastest: it makes a fifth of the metrics in a millisecond.
                body = gzip.compress(body, compresslevel=1, mtime=0)
                fields["Content-Encoding"] = "gzip"
        if answer.status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
            # Even of nothing: a Prometheus refuses an answer without one.
            fields["Content-Type"] = answer.content_type
            fields["Content-Length"] = str(len(body))
        fields["Date"] = self.date_time_string()
        head = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
        self.server.connections.wait(self.request, self.server.patience_seconds)
        # Without the query: what was searched for may hold a password.
        log.debug("%s %s %d", self.command, self.path.partition("?")[0], answer.status.value)
        try:
            self.wfile.write(head.encode("latin-1") + (b"" if self.command == "HEAD" else body))
            if self._is_unread:
                self._linger()
        except OSError as error:
            log.debug("a client did not take its answer: %s", error)

    def _linger(self) -> None:
        """Until the client has the answer: closing while something is unread would take it away from the client."""
        self.server.connections.wait(self.request, LINGER_SECONDS)
        self.request.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES
        while left > 0 and (read := self.request.recv(1 << 16)):
            left -= len(read)


def _listen(address: str, port: int, service: Service, patience_seconds: float) -> _Listener:
    """On this port, or on one of the next that is free."""
    last = min(port + FURTHER_PORTS, 65_535) if port else 0
    for candidate in range(port, last + 1):
        found = socket.getaddrinfo(address, candidate, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        try:
            return _Listener(family, place, service, patience_seconds)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
    raise OSError(errno.EADDRINUSE, f"the ports {port} to {last} of {address} are all taken")
