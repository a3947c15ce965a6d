"""Writing to a terminal, or to whatever stands in its place: messages that stay, and below them lines that are redrawn.

`report/progress.py` says what is shown; this file only writes it. All writing is done in a thread of its own: a
terminal that takes nothing (Ctrl-S, a connection that sleeps) must not hold up the crawl. Of what it could not take,
the messages wait and the drawings are forgotten.

The cursor is never hidden and stands below the lines between two drawings, so that there is nothing to restore when the
process is stopped, killed or left in a hurry.
"""

import contextlib
import os
import select
import threading
import unicodedata
from collections import deque
from collections.abc import Sequence
from typing import TextIO

import msgspec

#: More than a crawl says in a day; a terminal that sleeps longer misses the oldest.
KEPT_MESSAGES = 1_000
#: At the end a terminal that takes nothing is waited for so long.
CLOSE_SECONDS = 1.0
#: Of a terminal that does not know its size.
USUAL_SIZE = os.terminal_size((80, 24))

_ERASE_LINE = "\x1b[K"
_ERASE_BELOW = "\x1b[J"


class Line(msgspec.Struct, frozen=True):
    """One line to be drawn: its text, with colours or without, and how many columns it takes."""

    text: str
    columns: int


EMPTY = Line("", 0)


class Screen:
    """A stream, and the lines that were drawn on it last. Whoever calls it never waits for the stream.

    A stream that breaks (its terminal was closed) is written to no more; a crawl goes on without it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._changed = threading.Condition()
        self._messages: deque[str] = deque(maxlen=KEPT_MESSAGES)
        self._wanted: Sequence[Line] | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None
        # Of the thread alone:
        self._lines: Sequence[Line] = ()
        self._drawn: Sequence[Line] = ()
        self._drawn_columns = 0
        self._is_broken = False
        # Set by a signal's handler too, which may hold no lock.
        self._is_elsewhere = False

    def size(self) -> os.terminal_size:
        """At this moment."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                found = os.get_terminal_size(self._descriptor)
                if found.columns > 0 and found.lines > 0:
                    return found
        return USUAL_SIZE

    def say(self, message: str) -> None:
        """One line, whatever stands in it; above what is drawn."""
        with self._changed:
            if not self._is_closed:
                self._messages.append(printable(message))
                self._wake()
                return
        self._write(f"{printable(message)}\n")

    def draw(self, lines: Sequence[Line]) -> None:
        """Instead of what was drawn before."""
        with self._changed:
            if not self._is_closed:
                self._wanted = lines
                self._wake()

    def begin_anew(self) -> None:
        """Somebody else has written below what was drawn (a shell, while the crawl was stopped): leave it there."""
        self._is_elsewhere = True

    def close(self) -> None:
        """What was drawn goes, what was said stays."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="screen", daemon=True)
            self._thread.start()
        self._changed.notify()

    # In the thread.

    def _write_all(self) -> None:
        is_closed = False
        while not is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._messages or self._wanted is not None or self._is_closed)
                messages = list(self._messages)
                self._messages.clear()
                if self._wanted is not None:
                    self._lines, self._wanted = self._wanted, None
                is_closed = self._is_closed
            text = self._drawing(messages, () if is_closed else self._lines)
            if text and not self._is_broken:
                self._write(text)

    def _drawing(self, messages: Sequence[str], lines: Sequence[Line]) -> str:
        """All of it as one text, so that no terminal shows half of it."""
        if self._is_elsewhere or not self._is_in_foreground():
            self._is_elsewhere = False
            self._drawn = ()
        if not self._is_in_foreground():
            lines = ()
        columns = self.size().columns
        parts = [_go_back(self._drawn, columns)]
        if self._drawn and (messages or columns != self._drawn_columns):
            # A message may take more rows than one, over lines that are not all written again; and a terminal that has
            # broken a line remembers of its row that it goes on in the next, until the row is erased.
            parts.append(_ERASE_BELOW)
        parts += [f"{message}\n" for message in messages]
        parts += [f"{line.text}{_ERASE_LINE}\n" for line in lines]
        if lines or self._drawn:
            # What is left of longer drawings, and what was typed meanwhile.
            parts.append(_ERASE_BELOW)
        self._drawn, self._drawn_columns = lines, columns
        return "".join(parts)

    def _is_in_foreground(self) -> bool:
        """Whether the terminal is this crawl's, and not that of a shell which has put it into the background."""
        if self._descriptor is None:
            return True
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            # No terminal, or not the one that jobs are controlled from.
            return True

    def _write(self, text: str) -> None:
        """Past the stream's own buffer: whoever hangs in there holds its lock, and with it the end of the process."""
        try:
            if self._descriptor is None:
                self._stream.write(text)
                self._stream.flush()
                return
            rest = memoryview(text.encode(self._stream.encoding or "utf-8", "backslashreplace"))
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    select.select([], [self._descriptor], [])
        except (OSError, ValueError):
            # ValueError: the stream was closed.
            self._is_broken = True


def _descriptor(stream: TextIO) -> int | None:
    """None for what has none, such as a stream in memory."""
    try:
        return stream.fileno()
    except OSError:
        return None


def _go_back(drawn: Sequence[Line], columns: int) -> str:
    """To the first row of what was drawn. In a terminal that has become narrower a line takes more rows by now."""
    rows = sum(max(1, -(-line.columns // columns)) for line in drawn)
    return f"\r\x1b[{rows}A" if rows else ""


def printable(text: str) -> str:
    """`text` with whatever could steer a terminal written out: one line, whatever is in it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def columns_of(text: str) -> int:
    """How many columns a terminal uses for it."""
    return len(text) if text.isascii() else sum(map(_columns_of_one, text))


def cut(text: str, columns: int) -> str:
    """As much of its beginning as fits."""
    if text.isascii():
        return text[: max(0, columns)]
    used = 0
    for index, character in enumerate(text):
        used += _columns_of_one(character)
        if used > columns:
            return text[:index]
    return text


def _columns_of_one(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
