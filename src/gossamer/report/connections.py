"""The open connections of a small HTTP server (`report/http.py`), and which of them has to go when there are too many.

A client that is waited for, because its request has not arrived or it does not take its answer, holds a thread. When
there is no room for another connection, the one that was waited for longest is closed. An honest client sends its
request within milliseconds, so it is never that one, however many slow clients there are.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable

#: At once. A browser opens six, a Prometheus one.
MOST_CONNECTIONS = 32
#: Threads, with those of closed connections that have not ended yet: a busy machine may be late with that.
MOST_THREADS = 2 * MOST_CONNECTIONS


class _Connection:
    """One client. `until` is None while it is not waited for: its answer is being made."""

    def __init__(self, thread: threading.Thread, now: float, seconds: float) -> None:
        self.thread = thread
        self.waited_since = now
        self.until: float | None = now + seconds
        self.has_asked = False
        self.is_closing = False


class Connections:
    """Called by the thread that accepts and by the thread of each connection."""

    def __init__(self) -> None:
        self._all: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()

    def add(self, client: socket.socket, thread: threading.Thread, seconds: float) -> bool:
        """Whether there is room for it; another connection may be closed to make room."""
        now = time.monotonic()
        with self._lock:
            if len(self._all) >= MOST_THREADS:
                return False
            open_now = [(one, its) for one, its in self._all.items() if not its.is_closing]
            if len(open_now) >= MOST_CONNECTIONS:
                waited_for = [(its.waited_since, one) for one, its in open_now if its.until is not None]
                if not waited_for:
                    return False
                self._close(min(waited_for, key=lambda each: each[0])[1])
            self._all[client] = _Connection(thread, now, seconds)
        return True

    def remove(self, client: socket.socket) -> None:
        with self._lock:
            self._all.pop(client, None)

    def wait(self, client: socket.socket, seconds: float) -> None:
        """From now on the client is waited for, for so long."""
        with self._lock:
            if (known := self._all.get(client)) is not None:
                known.waited_since = time.monotonic()
                known.until = known.waited_since + seconds

    def work(self, client: socket.socket) -> None:
        """Its answer is being made: however long that takes, it is not the client's fault."""
        with self._lock:
            if (known := self._all.get(client)) is not None:
                known.has_asked = True
                known.until = None

    def close_late(self) -> None:
        """Those that were waited for long enough. A time-out of the socket would begin anew with every byte."""
        now = time.monotonic()
        with self._lock:
            for client, known in self._all.items():
                if known.until is not None and known.until < now:
                    self._close(client)

    def close_all(self, answer_seconds: float, seconds: float) -> None:
        """Answers that are on their way have `answer_seconds` to arrive. Each thread is waited for, for `seconds`."""
        with self._lock:
            asked = [known.thread for known in self._all.values() if known.has_asked]
            for client, known in self._all.items():
                if not known.has_asked:
                    self._close(client)
        until = time.monotonic() + answer_seconds
        _join(asked, lambda: until - time.monotonic())
        with self._lock:
            threads = [known.thread for known in self._all.values()]
            for client in self._all:
                self._close(client)
        _join(threads, lambda: seconds)

    def _close(self, client: socket.socket) -> None:
        """Its thread wakes up, and ends."""
        self._all[client].is_closing = True
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _join(threads: Iterable[threading.Thread], seconds: Callable[[], float]) -> None:
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, seconds()))
