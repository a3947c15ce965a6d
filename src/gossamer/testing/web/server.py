"""The server: HTTP and HTTPS on two loopback ports, for every host name there is.

    async with SimulatedWeb(Web(sites=10), log_directory=directory) as simulated:
        simulated.http_port, simulated.https_port, simulated.ca_certificate

Names under hostile sites are played by their behaviour; everything else is answered from the graph. For a server in
processes of its own see processes.py.
"""

import asyncio
import contextlib
import errno
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from gossamer.errors import UsageError
from gossamer.testing.web.access_log import Request, line
from gossamer.testing.web.certificates import Authority, Contexts, TlsBehaviour
from gossamer.testing.web.channel import Channel, Head, TlsChannel
from gossamer.testing.web.graph import Answer, Web
from gossamer.testing.web.pages import FILES, Pages, sitemap
from gossamer.testing.web.sites import FILE_TYPES, Kind
from gossamer.testing.web.stream import Listener

ADDRESS = "127.0.0.1"

#: What Linux grants by default (and doubles, for its own bookkeeping): nine answers in ten are taken in one call.
_SEND_BUFFER_BYTES = 208 << 10

#: A crawler opens connections in bursts.
_BACKLOG = 1_024

_FLUSH_SECONDS = 0.25

#: Busy pages that were asked for and may be asked again. Past it the oldest is forgotten, and refuses anew.
_ATTEMPTS_KEPT = 65_536


class Connection:
    """What a hostile behaviour gets once a request head was read: the request, and the bare connection.

    The behaviour is cancelled when the client leaves. When it returns, what it gave to `respond` is sent and the
    connection stays; after raw writes it is closed.
    """

    def __init__(self, channel: Channel, head: Head) -> None:
        self.scheme = channel.scheme
        self.host = head.host
        self.method = head.method
        self.target = head.target
        self.headers = head.headers
        self.client_port = channel.client_port
        self._channel = channel

    @property
    def is_closing(self) -> bool:
        return self._channel.is_closing

    def write(self, data: bytes) -> None:
        """Raw bytes to the socket."""
        self._channel.write(data)

    async def drain(self) -> None:
        """Waits until all that was written has been taken by the kernel."""
        await self._channel.drain()

    def close(self) -> None:
        """FIN, after what was written."""
        self._channel.close()

    def abort(self) -> None:
        """RST; what the kernel has not sent yet is lost."""
        self._channel.abort()

    def respond(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """A well-formed answer with its Content-Length (and without its body, to HEAD)."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self._channel.respond(status, lines, b"" if self.method == "HEAD" else body, len(body))


Behaviour = Callable[[Connection], Awaitable[None]]


class SimulatedWeb:
    """One server process of a simulated web, as an async context manager.

    It listens on loopback alone, keeps nothing of what it served but counts, and on leaving ends every connection and
    writes the rest of its log.
    """

    def __init__(
        self,
        web: Web,
        *,
        log_directory: Path,
        hostile: Mapping[str, Behaviour] | None = None,
        tls_hostile: Mapping[str, TlsBehaviour] | None = None,
        https: bool = True,
        keep_alive: bool = True,
        http_port: int = 0,
        https_port: int = 0,
        process: int | None = None,
    ) -> None:
        self.web = web
        self.log_file = log_directory / f"access-{process or 0}.log"
        self.http_port = http_port
        self.https_port = https_port
        self.ca_certificate = log_directory / "ca.pem"
        self.keep_alive = keep_alive
        self.contexts: Contexts | None = None
        self.answered: Counter[int] = Counter()
        """Requests by status, those that were cut off included."""
        self.body_bytes = 0
        self._hostile = hostile or {}
        self._tls_hostile = tls_hostile or {}
        self._https = https
        self._process = process
        self._directory = log_directory
        self._pages = Pages(web)
        self._listeners: list[Listener] = []
        self._channels: set[Channel] = set()
        self._lines: list[Request] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._date = (0, "")

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._process is None:
            prepare(self._directory, self.web, https=self._https)
        self.log_file.touch()
        if self._https:
            self.contexts = Contexts(Authority(self._directory), self._tls_hostile)
        async with contextlib.AsyncExitStack() as unless_ready:
            unless_ready.push_async_callback(self._close)
            self.http_port = self._listen(Channel, self.http_port)
            if self._https:
                self.https_port = self._listen(TlsChannel, self.https_port)
            unless_ready.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close()

    def _listen(self, kind: type[Channel], port: int) -> int:
        listening = bound_socket(port, shared=self._process is not None)
        self._listeners.append(Listener(listening, _BACKLOG, lambda: kind(self)))
        return int(listening.getsockname()[1])

    async def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        tasks = [channel.task for channel in self._channels if channel.task is not None]
        for channel in list(self._channels):
            channel.abort()
        # The connections hear of it in the loop's next turn, and cancel what is played on them.
        await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        self.flush()

    # What the connections call.

    def opened(self, channel: Channel) -> None:
        self._channels.add(channel)

    def closed(self, channel: Channel) -> None:
        self._channels.discard(channel)

    def log(self, request: Request) -> None:
        self.answered[request.status] += 1
        self.body_bytes += request.body_bytes
        self._lines.append(request)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Writes what is not yet in the log."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        lines, self._lines = self._lines, []
        if lines:
            with self.log_file.open("a", encoding="ascii", newline="\n") as file:
                file.write("".join([f"{line(request)}\n" for request in lines]))

    def answer(self, channel: Channel, head: Head) -> None:
        behaviour = self._behaviour(head.host) if self._hostile else None
        if behaviour is not None:
            channel.task = asyncio.get_running_loop().create_task(self._play(behaviour, channel, head))
            return
        latency = self.web.latency_seconds(f"{channel.scheme}://{head.host}{head.target}")
        if latency:
            channel.timer = asyncio.get_running_loop().call_later(latency, self._respond, channel, head)
        else:
            self._respond(channel, head)

    def _behaviour(self, host: str) -> Behaviour | None:
        return self._hostile.get(host) or self._hostile.get(".".join(host.rsplit(".", 2)[-2:]))

    async def _play(self, behaviour: Behaviour, channel: Channel, head: Head) -> None:
        ended = False
        try:
            await behaviour(Connection(channel, head))
            ended = True
        except ConnectionError:
            pass  # the client has left, which is not the behaviour's fault
        finally:
            channel.played(ended=ended)

    def _respond(self, channel: Channel, head: Head) -> None:
        if head.method not in {"GET", "HEAD"}:
            channel.respond(405, f"{self._common()}Allow: GET, HEAD\r\n", b"")
            return
        url = f"{channel.scheme}://{head.host}{head.target}"
        answer = self.web.answer_to(channel.scheme, head.host, head.target, self._attempts.get(url, 0))
        headers, body = self._content(answer, head)
        if answer.retry_after_seconds is not None:
            headers += self._retry_after(url, answer.retry_after_seconds)
        # A page has no body only for a client that has it already.
        status = 304 if answer.is_page and not body else answer.status
        channel.respond(status, self._common() + headers, b"" if head.method == "HEAD" else body, len(body))

    def _content(self, answer: Answer, head: Head) -> tuple[str, bytes]:
        """The headers that describe the body, and the body; an empty one if the client has it already."""
        if answer.is_page:
            return self._pages.page(self.web.site(answer.site), answer.number, head.headers)
        if answer.kind is Kind.ROBOTS and answer.location is None:
            return "Content-Type: text/plain; charset=utf-8\r\n", answer.text.encode()
        if answer.kind is Kind.SITEMAP:
            return "Content-Type: application/xml\r\n", sitemap(self.web.site(answer.site))
        if answer.kind is Kind.FILE:
            suffix, media_type = FILE_TYPES[self.web.site(answer.site).look(answer.number) & 3]
            return f"Content-Type: {media_type}\r\n", FILES[suffix]
        location = "" if answer.location is None else f"Location: {answer.location}\r\n"
        body = f"<!doctype html><title>{answer.status}</title><p>{answer.kind}</p>\n".encode()
        return f"Content-Type: text/html; charset=utf-8\r\n{location}", body

    def _retry_after(self, url: str, seconds: int) -> str:
        self._attempts[url] = self._attempts.get(url, 0) + 1
        if len(self._attempts) > _ATTEMPTS_KEPT:
            self._attempts.popitem(last=False)
        # Half of them say it as a date, which is rounded up: it names whole seconds.
        value = formatdate(int(time.time()) + 1 + seconds, usegmt=True) if len(url) % 2 else str(seconds)
        return f"Retry-After: {value}\r\n"

    def _common(self) -> str:
        now = int(time.time())
        if self._date[0] != now:
            self._date = (now, f"Date: {formatdate(now, usegmt=True)}\r\nServer: simweb\r\n")
        return self._date[1]


def prepare(directory: Path, web: Web, *, https: bool) -> None:
    """Writes what all processes of a web share: what it is, for the auditor, and its certificate authority."""
    directory.mkdir(parents=True, exist_ok=True)
    # What an earlier run left there would be judged with this one.
    for log in directory.glob("access-*.log"):
        log.unlink()
    (directory / "web.json").write_bytes(msgspec.json.encode(web))
    if https and not (directory / "ca.pem").exists():
        Authority.create(directory)


def bound_socket(port: int, *, shared: bool) -> socket.socket:
    """A loopback socket on a port (0: a free one); `shared` ones of several processes may have the same port."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Accepted connections inherit both.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        found.bind((ADDRESS, port))
    except OSError as error:
        found.close()
        if error.errno in {errno.EADDRINUSE, errno.EACCES}:
            raise UsageError(
                f"port {port} on {ADDRESS}: {error.strerror}; choose another, or 0 for a free one"
            ) from None
        raise
    return found
