"""One TCP connection to a numeric address: made, written to, read from and closed by hand.

The loop only says when its socket is ready. A transport of the loop's would cost half as much again, has to be awaited
before it can be given up, and closes its socket some time after it was told to.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from errno import EINPROGRESS
from typing import Protocol

#: What the loop calls reads at most so much, into one buffer for all connections: most answers come in one piece.
BUFFER_BYTES = 256 << 10


class Listener(Protocol):
    """Who is told of what happens on a connection: an exchange. Whatever it raises is its own, see `broke`."""

    def connected(self) -> None: ...

    def room(self) -> int:
        """How many bytes may be read now; 0 stops the reading until `resume`."""

    def received(self, data: memoryview) -> None:
        """`data` is gone when this returns."""

    def finished(self) -> None:
        """The other side has said all, and the connection is closed."""

    def lost(self, error: OSError) -> None:
        """It could not be made, or it broke; it is closed."""

    def broke(self, fault: BaseException) -> None:
        """A fault of ours; the connection is closed."""


class Connection:
    """Begins to connect when it is made, which raises OSError where that cannot even begin.

    After `close` its descriptor is free and nobody is told anything.
    """

    __slots__ = ("_buffer", "_descriptor", "_is_connected", "_is_writing", "_listener", "_loop", "_socket", "_unsent")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, endpoint: tuple[str, int], listener: Listener, buffer: memoryview
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._buffer = buffer
        self._unsent = b""
        self._descriptor = -1
        self._is_connected = False
        self._is_writing = False
        self._socket = socket.socket(socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            _raise_unless(self._socket.connect_ex(endpoint), 0, EINPROGRESS)
            self._descriptor = self._socket.fileno()
            loop.add_writer(self._descriptor, self._take, self._connect)
        except BaseException:
            self._socket.close()
            raise
        self._is_writing = True

    @property
    def descriptor(self) -> int | None:
        """While it is open."""
        return None if self._descriptor < 0 else self._descriptor

    def send(self, data: bytes) -> None:
        """Now, or as soon as there is room. Only what the listener calls while it is told something may send."""
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._descriptor, self._take, self._write)
            self._is_writing = True

    def close(self) -> None:
        """At once; what is still unread is left to the kernel. May be called again."""
        if self._descriptor < 0:
            return
        # Before the number may be another's.
        if self._is_writing:
            self._loop.remove_writer(self._descriptor)
        if self._is_connected:
            self._loop.remove_reader(self._descriptor)
        self._descriptor = -1
        self._socket.close()

    def resume(self) -> None:
        """Read again, after there was no room for it: now, and whenever something comes."""
        if self._descriptor < 0:
            return
        self._loop.add_reader(self._descriptor, self._take, self._read)
        # The listener has been told of a fault. Whoever calls this has just made room, and has no part in it.
        with contextlib.suppress(Exception):
            self._take(self._read)

    # What the loop calls, each by way of `_take`.

    def _take(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BlockingIOError:
            pass  # the loop was wrong: it says so again
        except OSError as error:
            self.close()
            self._listener.lost(error)
        except BaseException as fault:
            self.close()
            self._listener.broke(fault)
            raise

    def _connect(self) -> None:
        _raise_unless(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
        self._is_connected = True
        # In this order the loop changes what it waits for, and does not begin anew.
        self._loop.add_reader(self._descriptor, self._take, self._read)
        self._stop_writing()
        self._listener.connected()

    def _read(self) -> None:
        room = self._listener.room()
        if not room:
            # What the other side sends waits in the kernel; when its buffer is full, TCP holds the sender back.
            self._loop.remove_reader(self._descriptor)
            return
        received = self._socket.recv_into(self._buffer, room)
        if received:
            self._listener.received(self._buffer[:received])
        else:
            self.close()
            self._listener.finished()

    def _write(self) -> None:
        self._unsent = self._unsent[self._socket.send(self._unsent) :]
        if not self._unsent:
            self._stop_writing()

    def _stop_writing(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._is_writing = False


def _raise_unless(error: int, *harmless: int) -> None:
    if error not in harmless:
        raise OSError(error, os.strerror(error))
