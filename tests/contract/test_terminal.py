"""The live view on a real pseudo-terminal, read by a small model of one: what stands there at any size."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

import msgspec
import pytest

from gossamer.frontier.store import Counts
from gossamer.report import screen
from gossamer.report.progress import Terminal, View
from gossamer.report.sample import Bound, Percentiles, ProcessUse, Sample, SystemUse
from gossamer.report.screen import columns_of

#: Longer than any answer of a terminal takes; not to get one is a failure.
PATIENCE_SECONDS = 60.0
ENVIRONMENT = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "NO_COLOR": "1"}
#: Written by a test after all else, to know when everything before it has come; no terminal shows it.
END = "\x1c"
ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")

VIEW = View(
    counts=Counts(
        admitted=90_000,
        finished=12_345,
        leased=12,
        spooled=689,
        pages=11_000,
        outcomes={"page": 11_000, "timeout": 800, "dns": 300, "status": 134},
        sites_waiting=3,
    ),
    elapsed_seconds=192.4,
    in_flight=12,
    workers=1_000,
    backlog_pages=123,
    sample=Sample(
        at=1.0,
        elapsed_seconds=190.0,
        pages_per_second=42.0,
        fetches_per_second=47.2,
        outcomes={"page": 200, "timeout": 7},
        latency={"total": Percentiles(0.41, 1.84, 9.0)},
        processes=[
            ProcessUse(
                kind="leader",
                name="leader",
                pid=1,
                cpu=0.6,
                cpu_seconds=1.0,
                memory_bytes=100 << 20,
                descriptors=3,
                pages_per_second=42.0,
            )
        ],
        system=SystemUse(processors=2, cpu=0.55),
        bound=Bound("politeness", "all 3 sites are cooling; next request in 41 s; --delay lowers this"),
    ),
    max_pages=100_000,
    dashboard="http://127.0.0.1:8470/",
    data_directory="mycrawl",
)


class Glass:
    """As much of a terminal as the view needs: rows, a cursor, what has scrolled away. Anything else is an error."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows = [""]
        """All that was ever there, the scrolled away included."""
        self.row = self.column = 0
        self.colours = 0
        self.wrapped = 0

    def take(self, text: str) -> None:
        at = 0
        while at < len(text):
            if (escape := ESCAPE.match(text, at)) is not None:
                self._steer(escape[1], escape[2])
                at = escape.end()
                continue
            character = text[at]
            at += 1
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self._down()
            else:
                assert character.isprintable(), repr(character)
                self._put(character)

    def _put(self, character: str) -> None:
        if self.column + columns_of(character) > self.columns:
            self.wrapped += 1
            self._down()
            self.column = 0
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def _steer(self, numbers: str, what: str) -> None:
        if what == "A":
            self.row = max(self.row - int(numbers), len(self.rows) - self.lines, 0)
        elif what == "K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif what == "J":
            self.rows[self.row] = self.rows[self.row][: self.column]
            del self.rows[self.row + 1 :]
        elif what == "m":
            self.colours += 1
        else:
            raise AssertionError(f"no terminal of ours knows {numbers}{what}")

    def resize(self, columns: int, lines: int) -> None:
        """Rows that are too long become several, as in most terminals."""
        self.columns, self.lines = columns, lines
        rows: list[str] = []
        for index, row in enumerate(self.rows):
            if index == self.row:
                self.row = len(rows)
            rows += [row[at : at + columns] for at in range(0, max(1, len(row)), columns)]
        self.rows = rows

    @property
    def text(self) -> list[str]:
        """Without the empty rows at the end."""
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n").split("\n")


class Seat:
    """Where somebody sits in front of a terminal, and a clock that stands until it is moved."""

    def __init__(self, master: int, slave: int, stream: TextIO, columns: int, lines: int) -> None:
        self.master, self.slave, self.stream = master, slave, stream
        self.glass = Glass(columns, lines)
        self.now = 100.0
        self.taken = ""
        self._set_size(columns, lines)

    def terminal(self, **environment: str) -> Terminal:
        return Terminal(self.stream, environment={**ENVIRONMENT, **environment}, clock=lambda: self.now)

    def resize(self, columns: int, lines: int) -> None:
        self._set_size(columns, lines)
        self.glass.resize(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def show(self, terminal: Terminal, view: View, expected: str) -> None:
        """A second later; until what is expected stands there."""
        self.now += 1.0
        terminal.show(view)
        self.until_drawn(expected)

    def until_drawn(self, expected: str) -> None:
        """All of it: each drawing ends with erasing what is below. The system may hand it over in pieces."""
        self.until(lambda: self.taken.endswith("\x1b[J") and any(expected in row for row in self.glass.text))

    def until(self, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_there():
            assert time.monotonic() < deadline, self.glass.text
            self.look(0.05)

    def take_all(self) -> None:
        """All that was written until now: the system hands it over in its own time, but in order."""
        os.write(self.slave, END.encode())
        self.until(lambda: self.taken.endswith(END))

    def look(self, seconds: float) -> None:
        """Take what came."""
        while select.select([self.master], [], [], seconds)[0]:
            text = os.read(self.master, 1 << 16).decode()
            self.taken += text
            self.glass.take(text.replace(END, ""))
            seconds = 0.0


@contextlib.contextmanager
def seated(columns: int, lines: int) -> Iterator[Seat]:
    master, slave = pty.openpty()
    try:
        with open(slave, "w", encoding="utf-8", closefd=False) as stream:
            yield Seat(master, slave, stream, columns, lines)
    finally:
        os.close(slave)
        with contextlib.suppress(OSError):
            os.close(master)


@pytest.fixture(autouse=True)
def _patience_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, too, the end of a terminal is waited for until all is written."""
    monkeypatch.setattr(screen, "CLOSE_SECONDS", PATIENCE_SECONDS)


def later(view: View, pages: int) -> View:
    return msgspec.structs.replace(view, counts=msgspec.structs.replace(view.counts, pages=pages))


SCREENS = {
    (80, 24): [
        "",
        "pages      11,000   42.0/s   0:03:12   689 fetched and not yet written",
        "goal       ━━────────────────────   35 min left   11% of --max-pages 100,000",
        "requests   12 of 1,000 workers busy   47.2/s   0 bytes/s",
        "queue      76,954 URLs on 3 sites   3 cooling   0 ready   0 busy",
        "parsing    123 pages to be parsed   0.0/s   0 new URLs/s",
        "failures   1,234   7 in the last minute   800 timeout   300 dns   134 status",
        "CPU        1 fetcher 60%   machine 55% of 2   100.0 MiB of memory",
        "dashboard  http://127.0.0.1:8470/   files in mycrawl",
        "waiting    all 3 sites are cooling; next request in 41 s; --delay lowers this",
    ],
    (40, 10): [
        "pages      11,000   42.0/s   0:03:12",
        "goal       ━────────   35 min left",
        "requests   12 of 1,000 workers busy",
        "queue      76,954 URLs on 3 sites",
        "failures   1,234   7 in the last minute",
        "dashboard  http://127.0.0.1:8470/",
        "waiting    all 3 sites are cooling;",
        "           next request in 41 s;",
        "           --delay lowers this",
    ],
    (120, 40): [
        "",
        "pages      11,000   42.0/s   0:03:12   689 fetched and not yet written",
        "goal       ━━━───────────────────────────   35 min left   11% of --max-pages 100,000",
        "requests   12 of 1,000 workers busy   47.2/s   0 bytes/s   half in 0.41 s, most in 1.8 s",
        "queue      76,954 URLs on 3 sites   3 cooling   0 ready   0 busy",
        "parsing    123 pages to be parsed   0.0/s   0 new URLs/s",
        "failures   1,234   7 in the last minute   800 timeout   300 dns   134 status",
        "CPU        1 fetcher 60%   machine 55% of 2   100.0 MiB of memory",
        "dashboard  http://127.0.0.1:8470/   files in mycrawl",
        "waiting    all 3 sites are cooling; next request in 41 s; --delay lowers this",
    ],
}


@pytest.mark.parametrize(("columns", "lines"), SCREENS)
def test_what_stands_on_a_screen(columns: int, lines: int) -> None:
    with seated(columns, lines) as seat:
        with seat.terminal() as terminal:
            seat.show(terminal, VIEW, "all 3 sites")
            assert seat.glass.text == SCREENS[columns, lines]
            assert len(seat.glass.text) < lines
            # Redrawn in its place.
            before = len(seat.glass.rows)
            for pages in (11_001, 11_002, 11_003):
                seat.show(terminal, later(VIEW, pages), f"{pages:,}")
            assert len(seat.glass.rows) == before
            assert seat.glass.colours == seat.glass.wrapped == 0
        seat.take_all()
        assert seat.glass.text == [""]
        assert (seat.glass.row, seat.glass.column) == (0, 0)


def test_it_is_drawn_once_a_second_however_often_it_is_shown() -> None:
    with seated(80, 24) as seat, seat.terminal() as terminal:
        seat.show(terminal, VIEW, "11,000")
        for _ in range(3):
            seat.now += 0.25
            terminal.show(later(VIEW, 12_000))
        seat.look(0.1)
        assert "12,000" not in seat.taken
        seat.show(terminal, later(VIEW, 13_000), "13,000")


def test_what_is_said_stays_above_the_view() -> None:
    with seated(40, 24) as seat:
        with seat.terminal() as terminal:
            terminal.say("before there was a view")
            seat.show(terminal, VIEW, "11,000")
            terminal.say("one that is so long that it takes more than one row")
            seat.until_drawn("han one row")
            seat.show(terminal, later(VIEW, 12_000), "12,000")
            said = ["before there was a view", "one that is so long that it takes more t", "han one row"]
            assert seat.glass.text[:3] == said
            assert seat.glass.text[3:5] == ["", "pages      12,000   42.0/s   0:03:12"]
            assert sum("pages  " in row for row in seat.glass.text) == 1
            terminal.say("the last")
        seat.take_all()
        assert seat.glass.text == [*said, "the last"]


def test_what_is_said_scrolls_and_is_not_lost() -> None:
    with seated(80, 12) as seat:
        with seat.terminal() as terminal:
            seat.show(terminal, VIEW, "11,000")
            for number in range(40):
                terminal.say(f"message {number}")
                seat.show(terminal, later(VIEW, 20_000 + number), f"20,0{number:02}")
        seat.take_all()
        assert seat.glass.text == [f"message {number}" for number in range(40)]


@pytest.mark.parametrize("sizes", [[(80, 24), (40, 24)], [(80, 24), (120, 40)], [(120, 40), (57, 24), (80, 24)]])
def test_a_new_size_is_followed_at_once_and_leaves_no_trace(sizes: list[tuple[int, int]]) -> None:
    with seated(*sizes[0]) as seat:
        with seat.terminal() as terminal:
            terminal.say("said before")
            seat.show(terminal, VIEW, "11,000")
            for number, (columns, lines) in enumerate(sizes[1:]):
                seat.resize(columns, lines)
                terminal.show(later(VIEW, 12_000 + number))
                seat.until_drawn(f"12,00{number}")
                assert seat.glass.text[0] == "said before"
                assert sum("pages  " in row for row in seat.glass.text) == 1
                assert max(map(columns_of, seat.glass.text)) < columns
                if (columns, lines) in SCREENS:
                    assert seat.glass.text[4:] == SCREENS[columns, lines][3:]
        seat.take_all()
        assert seat.glass.text == ["said before"]


def test_colours_change_no_width() -> None:
    with seated(80, 24) as seat, seat.terminal(NO_COLOR="") as terminal:
        seat.show(terminal, VIEW, "11,000")
        assert seat.glass.text == SCREENS[80, 24]
        assert seat.glass.colours > 0


def test_a_view_with_fewer_lines_leaves_nothing_of_the_longer_one() -> None:
    with seated(80, 24) as seat, seat.terminal() as terminal:
        seat.show(terminal, VIEW, "11,000")
        short = msgspec.structs.replace(VIEW, max_pages=0, sample=None, counts=Counts(pages=7))
        seat.show(terminal, short, "first figures")
        assert [row[:9].strip() for row in seat.glass.text] == [
            "",
            "pages",
            "requests",
            "queue",
            "parsing",
            "failures",
            "dashboard",
            "waiting",
        ]


def test_after_a_stop_the_view_is_drawn_below_what_the_shell_wrote() -> None:
    with seated(80, 40) as seat, seat.terminal() as terminal:
        seat.show(terminal, VIEW, "11,000")
        os.write(seat.slave, b"[1]+ Stopped\n$ fg\n")
        seat.until(lambda: "$ fg" in seat.glass.text)
        os.kill(os.getpid(), signal.SIGCONT)
        terminal.show(later(VIEW, 12_000))  # at once, not a second later
        seat.until_drawn("12,000")
        shell = seat.glass.text.index("[1]+ Stopped")
        assert seat.glass.text[shell : shell + 4] == [
            "[1]+ Stopped",
            "$ fg",
            "",
            "pages      12,000   42.0/s   0:03:12   689 fetched and not yet written",
        ]
        seat.show(terminal, later(VIEW, 13_000), "13,000")
        assert sum("pages  " in row for row in seat.glass.text) == 2


def test_in_the_background_nothing_is_drawn_on_the_shells_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    group = [os.getpgrp()]
    monkeypatch.setattr(os, "tcgetpgrp", lambda _descriptor: group[0])
    with seated(80, 40) as seat, seat.terminal() as terminal:
        seat.show(terminal, VIEW, "11,000")
        group[0] += 1
        os.write(seat.slave, b"$ ls\n")
        seat.now += 1.0
        terminal.show(later(VIEW, 12_000))
        terminal.say("a warning")
        seat.until(lambda: "a warning" in seat.glass.text)
        assert seat.glass.text == [*SCREENS[80, 24], "$ ls", "a warning"]
        group[0] -= 1
        seat.show(terminal, later(VIEW, 13_000), "13,000")
        assert seat.glass.text[10:12] == ["$ ls", "a warning"]


def test_an_error_leaves_a_clean_terminal() -> None:
    with seated(80, 24) as seat:
        with contextlib.suppress(RuntimeError), seat.terminal() as terminal:
            terminal.say("said")
            seat.show(terminal, VIEW, "11,000")
            raise RuntimeError
        seat.take_all()
        assert seat.glass.text == ["said"]
        assert seat.glass.column == 0


def test_a_terminal_that_takes_nothing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "CLOSE_SECONDS", 0.1)
    with seated(80, 24) as seat:
        terminal = seat.terminal()
        seat.show(terminal, VIEW, "11,000")
        termios.tcflow(seat.slave, termios.TCOOFF)  # Ctrl-S
        for number in range(2_000):
            terminal.say(f"message {number} {'x' * 100}")
            seat.now += 1.0
            terminal.show(VIEW)
        terminal.close()
        writers = [thread for thread in threading.enumerate() if thread.name == "screen"]
        assert writers
        termios.tcflow(seat.slave, termios.TCOON)
        seat.until(lambda: not any(thread.is_alive() for thread in writers))
        seat.take_all()
        # The view is gone, the newest messages are there, in their order.
        numbers = [int(row.split()[1]) for row in seat.glass.text if row.startswith("message")]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 1_999
        assert not any("pages  " in row for row in seat.glass.text)


def test_a_terminal_that_was_closed_ends_nothing() -> None:
    with seated(80, 24) as seat:
        terminal = seat.terminal()
        seat.show(terminal, VIEW, "11,000")
        os.close(seat.master)
        for _ in range(3):
            seat.now += 1.0
            terminal.show(VIEW)
            terminal.say("nobody reads this")
        terminal.close()
        terminal.say("nor this")
        assert not any(thread.name == "screen" for thread in threading.enumerate())
