"""The server's end of a TCP connection: what asyncio's transports do, at half their price.

An accepted connection costs asyncio a task and three turns of its loop, which is as much as a page. Here most requests
are read, answered and closed in the turn in which they are accepted.
"""

import asyncio
import errno
import socket
import struct
from collections.abc import Callable
from typing import Protocol

#: SO_LINGER, on, for no time: the connection is reset.
_RESET = struct.pack("ii", 1, 0)

_READ_BYTES = 64 << 10

#: Accepted in one turn of the loop, before others are heard.
_ACCEPTED_AT_ONCE = 64

#: Our own shortage of descriptors or memory: accepting is tried again after this.
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_SHORTAGE_SECONDS = 0.1


class Reader(Protocol):
    """Who is told what happens on a connection."""

    def opened(self, stream: "Stream", client_port: int) -> None: ...

    def received(self, data: bytes) -> None: ...

    def drained(self) -> None:
        """All that was written has been handed to the kernel, after some of it had to wait."""

    def lost(self) -> None:
        """The connection is no more, whoever ended it. Called once, and last."""


class Stream:
    """One connection. Its reader hears of it from `opened` to `lost`, and only in turns of the event loop.

    What is written waits here as long as the client does not read it. A client that has said its last word has left:
    half-closed connections are not served.
    """

    __slots__ = ("_is_watched", "_loop", "_reader", "_socket", "_waiting", "is_closing", "is_lost")

    def __init__(self, connected: socket.socket, client_port: int, reader: Reader) -> None:
        self.is_closing = False
        self.is_lost = False
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._reader = reader
        self._waiting = b""
        self._is_watched = False
        connected.setblocking(False)
        reader.opened(self, client_port)
        # A client's first words are mostly here already; then the loop need not be asked to watch a short connection.
        self._read()
        if not self.is_lost and not self.is_closing:
            self._loop.add_reader(connected, self._read)
            self._is_watched = True

    @property
    def is_waiting(self) -> bool:
        """Whether some of what was written has not been handed to the kernel yet."""
        return bool(self._waiting)

    def write(self, data: bytes) -> None:
        if self.is_closing:
            return
        if self._waiting:
            self._waiting += data
            return
        sent = self._send(data)
        if sent < len(data) and not self.is_closing:
            self._waiting = data[sent:]
            self._loop.add_writer(self._socket, self._write)

    def close(self) -> None:
        """FIN, once all that was written is gone."""
        if self.is_closing:
            return
        self.is_closing = True
        self._stop_reading()
        if not self._waiting:
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        """RST, whatever waits."""
        if self.is_lost:
            return
        self.is_closing = True
        # Without this the kernel still sends what it has, and then an orderly end.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._loop.call_soon(self._lose)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._reader.received(data)
        else:
            self._lose()

    def _write(self) -> None:
        sent = self._send(self._waiting)
        if not sent:
            return
        self._waiting = self._waiting[sent:]
        if self._waiting:
            return
        self._loop.remove_writer(self._socket)
        if self.is_closing:
            self._lose()
        else:
            self._reader.drained()

    def _send(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            # Not at once: whoever writes does not expect to have lost its connection before it has returned.
            self.is_closing = True
            self._loop.call_soon(self._lose)
            return 0

    def _lose(self) -> None:
        if self.is_lost:
            return
        self.is_closing = self.is_lost = True
        self._stop_reading()
        if self._waiting:
            self._waiting = b""
            self._loop.remove_writer(self._socket)
        self._socket.close()
        self._reader.lost()

    def _stop_reading(self) -> None:
        # Asking the loop to forget what it does not know costs it as much as a system call.
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._socket)


class Listener:
    """Accepts connections on a listening socket, which it owns, until it is closed."""

    def __init__(self, listening: socket.socket, backlog: int, reader: Callable[[], Reader]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._reader = reader
        self._is_open = True
        listening.setblocking(False)
        listening.listen(backlog)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        self._is_open = False
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connected, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _SHORTAGES:
                    self._loop.remove_reader(self._socket)
                    self._loop.call_later(_SHORTAGE_SECONDS, self._again)
                return
            Stream(connected, address[1], self._reader())

    def _again(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._accept)
