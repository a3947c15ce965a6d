"""What a person at the terminal sees of a crawl: some lines that are redrawn, or a plain line now and then.

The leader hands a `View` to `Terminal.show` four times a second; `view_lines` and `status_line` put it into words, and
`report/screen.py` writes them. Nothing from the web is in any of it.
"""

import os
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TextIO

import msgspec

from gossamer.frontier.store import Counts
from gossamer.report.board import State
from gossamer.report.bounds import bound_now, size
from gossamer.report.pace import Pace, Paces, failures_of
from gossamer.report.sample import Sample
from gossamer.report.screen import EMPTY, Line, Screen, columns_of, cut, printable
from gossamer.units import counted

#: Between two drawings: often enough to see that it lives, seldom enough to be read.
DRAW_SECONDS = 1.0
#: Between two plain lines: where a person looks, though at a terminal that cannot be drawn on; and where a file does.
TERMINAL_SECONDS = 10.0
FILE_SECONDS = 60.0

#: Of the column of labels.
_LABEL_COLUMNS = 11
_BETWEEN = "   "
#: A bar of more is no better to read.
_BAR_COLUMNS = 30
#: What is worth a line where not all have room, the first at any height; "" is the rest of what is waited for.
_RANKS = ("pages", "waiting", "queue", "failures", "", "goal", "requests", "dashboard", "parsing", "CPU")
_FAILURES_SHOWN = 4

_TROUBLE = {"shortage": "red", "disk": "red", "store": "yellow", "paused": "yellow", "stopping": "yellow"}
_COLOURS = {"dim": "2", "bold": "1", "accent": "36", "yellow": "33", "red": "31"}


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at this moment; the leader makes it."""

    counts: Counts
    elapsed_seconds: float
    """Of this run."""
    in_flight: int = 0
    workers: int = 0
    """The most that there may be, of all fetchers."""
    backlog_pages: int = 0
    """Waiting for a parser."""
    sample: Sample | None = None
    """The latest; None in the first seconds."""
    max_pages: int = 0
    """0 is no limit, as in the next."""
    max_duration_seconds: float = 0.0
    state: State = "running"
    dashboard: str = ""
    """Its address, if it runs."""
    data_directory: str = ""


class Terminal:
    """Where the leader shows its views and says what a person should know. Whoever calls it never waits for it.

    With `quiet` it says only what is important, and shows nothing.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_terminal = stream.isatty()
        self._screen = Screen(stream)
        self._is_quiet = quiet
        self._clock = clock
        self._is_live = self.is_terminal and not quiet and environment.get("TERM", "") not in {"", "dumb"}
        self._has_colours = self._is_live and not environment.get("NO_COLOR")
        self._bar = "━─" if _is_unicode(stream, environment) else "#-"
        self._interval_seconds = TERMINAL_SECONDS if self.is_terminal else FILE_SECONDS
        self._shown_at = clock()
        self._shown: object = None
        self._paces = Paces()
        self._handler_before: Any = None

    def __enter__(self) -> Self:
        if self._is_live and threading.current_thread() is threading.main_thread():
            self._handler_before = signal.signal(signal.SIGCONT, self._go_on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The drawing goes; the terminal is as it was."""
        if self._handler_before is not None:
            signal.signal(signal.SIGCONT, self._handler_before)
            self._handler_before = None
        self._screen.close()

    def say(self, line: str, *, important: bool = False) -> None:
        """Once, and it stays."""
        if important or not self._is_quiet:
            self._screen.say(line)

    def show(self, view: View) -> None:
        """As often as the caller likes; it is drawn when it is time."""
        if self._is_quiet:
            return
        self._paces.note(view.elapsed_seconds, view.counts.pages, view.sample)
        now = self._clock()
        if not self._is_live:
            if now - self._shown_at >= self._interval_seconds:
                self._shown_at = now
                self.say(status_line(view, self._paces.now()))
            return
        room = self._screen.size()
        # What a person has done is answered at once.
        shown = (room, view.state)
        if shown != self._shown or now - self._shown_at >= DRAW_SECONDS:
            self._shown, self._shown_at = shown, now
            lines = view_lines(view, self._paces.now(), room, bar=self._bar)
            drawn = [drawn_line(parts, room.columns - 1, has_colours=self._has_colours) for parts in lines]
            # An empty line between what was said and what is drawn, where there is room for it.
            self._screen.draw([*([EMPTY] if len(drawn) + 2 < room.lines else []), *drawn])

    def _go_on(self, _number: int, _frame: object) -> None:
        """After a stop (Ctrl-Z): the shell has written below what was drawn."""
        self._screen.begin_anew()
        self._shown = None


# The words. A line is its parts, each with a colour ("" for none).

_Parts = Sequence[tuple[str, str]]


def view_lines(view: View, pace: Pace, room: os.terminal_size, *, bar: str = "━─") -> list[_Parts]:
    """As many as have room, the most important in any case; none is longer than the room."""
    columns = room.columns - 1 - _LABEL_COLUMNS
    bound = bound_now(view.sample, view.state)
    trouble = _TROUBLE.get(bound.by, "")
    lines: list[tuple[str, _Parts]] = [
        ("pages", _pages(view, pace, columns)),
        ("goal", _goal(view, pace, columns, bar)),
        ("requests", _fitting(_requests(view), columns)),
        ("queue", _fitting(_queue(view.counts), columns)),
        ("parsing", _fitting(_parsing(view), columns)),
        ("failures", _failures(view, pace, columns)),
        ("CPU", _fitting(_processors(view.sample), columns)),
        ("dashboard", _fitting(_addresses(view), columns)),
        # The last, because it may take more rows than one: then nothing else moves.
        *(
            ("" if index else "waiting", [(trouble, row)])
            for index, row in enumerate(textwrap.wrap(bound.because, max(10, columns), max_lines=3))
        ),
    ]
    lines = [(name, parts) for name, parts in lines if parts]
    # One row is for the cursor.
    while len(lines) > max(1, room.lines - 1):
        lines.remove(max(reversed(lines), key=lambda line: _RANKS.index(line[0])))
    return [[("dim", f"{_label(name, view):<{_LABEL_COLUMNS}}"), *parts] for name, parts in lines]


def status_line(view: View, pace: Pace) -> str:
    """All of it in one plain line."""
    counts = view.counts
    rate = "" if pace.pages_per_second_lately is None else f" ({pace.pages_per_second_lately:,.1f}/s)"
    parts = [
        clock(view.elapsed_seconds),
        f"{counted(counts.pages, 'page')}{rate}",
        *([f"{counts.spooled:,} not yet written"] if counts.spooled else []),
        f"{view.in_flight:,} in flight",
        f"{counts.queued:,} queued on {counted(counts.sites_waiting + counts.sites_busy, 'site')}",
        f"{view.backlog_pages:,} waiting to be parsed",
    ]
    if failures := failures_of(counts.outcomes):
        parts.append(f"{counted(sum(failures.values()), 'failure')} ({', '.join(_largest(failures))})")
    return "  ".join([*parts, bound_now(view.sample, view.state).because])


def clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _label(name: str, view: View) -> str:
    return "files in" if name == "dashboard" and not view.dashboard else name


def _pages(view: View, pace: Pace, columns: int) -> _Parts:
    counts = view.counts
    rest = []
    if pace.pages_per_second is not None:
        rest.append(f"{pace.pages_per_second:,.1f}/s")
    rest.append(clock(view.elapsed_seconds))
    if counts.spooled:
        rest.append(f"{counts.spooled:,} fetched and not yet written")
    number = f"{counts.pages:,}{_BETWEEN}"
    return [("bold", number), ("", _joined(rest, columns - len(number)))]


def _goal(view: View, pace: Pace, columns: int, bar: str) -> _Parts:
    """The limit that is reached first, as far as one can tell. How long the rest takes is known of a running crawl; and
    of the time, which does not stop while a crawl is paused."""
    limits: list[tuple[float, float, str]] = []
    if view.max_duration_seconds:
        left = max(0.0, view.max_duration_seconds - view.elapsed_seconds)
        share = min(1.0, view.elapsed_seconds / view.max_duration_seconds)
        limits.append((left, share, f"of --max-duration {view.max_duration_seconds:g}"))
    if view.max_pages:
        # Some of what waits to be written are failures: not all of it will count.
        fetched = min(view.counts.pages + view.counts.spooled, view.max_pages)
        rate = pace.pages_per_second_lately or 0.0
        left = (view.max_pages - fetched) / rate if rate > 0 and view.state == "running" else float("inf")
        limits.append((left, fetched / view.max_pages, f"of --max-pages {view.max_pages:,}"))
    if not limits:
        return []
    left, share, name = min(limits)
    words = [f"{int(share * 100)}% {name}"]
    if left < float("inf") and view.state == "running":
        words.insert(0, f"{_roughly(left)} left")
    elif left < float("inf") and view.state == "paused":
        words.insert(0, f"stops in {_roughly(left)}")
    length = max(5, min(_BAR_COLUMNS, columns // 3))
    full = int(length * share)
    said = _joined(words, columns - length - len(_BETWEEN))
    return [("accent", bar[0] * full), ("dim", bar[1] * (length - full)), ("", f"{_BETWEEN}{said}")]


def _requests(view: View) -> list[str]:
    parts = [f"{view.in_flight:,} in flight"]
    if view.workers:
        parts = [f"{view.in_flight:,} of {counted(view.workers, 'worker')} busy"]
    if view.sample is not None:
        parts.append(f"{view.sample.fetches_per_second:,.1f}/s")
        parts.append(f"{size(int(view.sample.bytes_per_second))}/s")
        total = view.sample.latency.get("total")
        if total is not None and total.p50 is not None and total.p90 is not None:
            parts.append(f"half in {total.p50:.2g} s, most in {total.p90:.2g} s")
    return parts


def _queue(counts: Counts) -> list[str]:
    sites = counts.sites_waiting + counts.sites_busy
    ready = f"{counts.sites_ready:,}{'+' if counts.sites_ready >= 10_000 else ''}"
    cooling = max(0, counts.sites_waiting - counts.sites_ready)
    return [
        f"{counted(max(0, counts.queued), 'URL')} on {counted(sites, 'site')}",
        f"{cooling:,} cooling",
        f"{ready} ready",
        f"{counts.sites_busy:,} busy",
    ]


def _parsing(view: View) -> list[str]:
    parts = [f"{counted(view.backlog_pages, 'page')} to be parsed"]
    if view.sample is not None:
        parts.append(f"{view.sample.parsed_per_second:,.1f}/s")
        parts.append(f"{view.sample.admitted_per_second:,.0f} new URLs/s")
    return parts


def _failures(view: View, pace: Pace, columns: int) -> _Parts:
    failures, lately = failures_of(view.counts.outcomes), pace.failures_lately or {}
    failed, failed_lately = sum(failures.values()), sum(lately.values())
    if not failed and not failed_lately:
        return [("", "none")]
    parts = []
    if failed >= failed_lately:
        parts.append(f"{failed:,}")
    else:
        # They are counted when they are written; the newest are not yet.
        failures = lately
    if pace.failures_lately is not None:
        parts.append(f"{failed_lately:,} in the last minute")
    # More than half of what comes back is no page: somebody should look.
    is_much = failed_lately > max(10.0, (pace.pages_per_second_lately or 0.0) * 60)
    return [("yellow" if is_much else "", _joined([*parts, *_largest(failures)], columns))]


def _processors(sample: Sample | None) -> list[str]:
    if sample is None or not sample.processes:
        return []
    parts = []
    for name, kinds in (("fetcher", {"leader", "fetcher"}), ("parser", {"parser"})):
        cpu = [process.cpu for process in sample.processes if process.kind in kinds]
        if cpu:
            each = "" if len(cpu) == 1 else " each"
            parts.append(f"{len(cpu):,} {name}{'' if len(cpu) == 1 else 's'} {sum(cpu) / len(cpu):.0%}{each}")
    processors = sample.system.processors
    parts.append(f"machine {sample.system.cpu:.0%} of {processors:,}")
    parts.append(f"{size(sum(process.memory_bytes for process in sample.processes))} of memory")
    return parts


def _addresses(view: View) -> list[str]:
    files = printable(view.data_directory)
    if not view.dashboard:
        return [files] if files else []
    return [printable(view.dashboard), f"files in {files}"] if files else [printable(view.dashboard)]


def _largest(failures: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {reason}" for reason, count in list(failures.items())[:_FAILURES_SHOWN]]


def _roughly(seconds: float) -> str:
    """A time that is an estimate: one figure of it is enough, two are calm."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


# Lines that fit.


def _fitting(parts: Sequence[str], columns: int) -> _Parts:
    return [("", _joined(parts, columns))] if parts else []


def _joined(parts: Sequence[str], columns: int) -> str:
    """As many of the parts as have room, whole; the first is cut if even that has none."""
    text = cut(parts[0], columns)
    for part in parts[1:]:
        longer = f"{text}{_BETWEEN}{part}"
        if columns_of(longer) > columns:
            break
        text = longer
    return text


def drawn_line(parts: _Parts, columns: int, *, has_colours: bool) -> Line:
    """As it is written to the terminal."""
    text, used = "", 0
    for colour, part in parts:
        shown = cut(part, columns - used)
        used += columns_of(shown)
        text += f"\x1b[{_COLOURS[colour]}m{shown}\x1b[m" if colour and shown and has_colours else shown
    return Line(text.rstrip(), used)


def _is_unicode(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether both ends speak UTF-8; Python does so even where the terminal was not said to."""
    said = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or ""
    return "utf" in said.lower() and "utf" in (getattr(stream, "encoding", None) or "").lower()
