"""The words of the terminal's view and of the plain line, at any size; what a quiet or a dumb terminal gets."""

import io
import os
import re
import signal
import threading

import msgspec
import pytest

from gossamer.frontier.store import Counts
from gossamer.report import screen
from gossamer.report.pace import Pace, Paces
from gossamer.report.progress import FILE_SECONDS, TERMINAL_SECONDS, Terminal, View, drawn_line, status_line, view_lines
from gossamer.report.sample import Bound, Percentiles, ProcessUse, Sample, SystemUse
from gossamer.report.screen import columns_of, cut, printable

COUNTS = Counts(
    admitted=1_240_000,
    finished=12_345,
    leased=412,
    spooled=689,
    pages=11_000,
    outcomes={"page": 11_000, "redirect": 100, "timeout": 800, "dns": 300, "status": 134, "robots": 33, "tls": 5},
    sites_waiting=2_312,
    sites_ready=12,
    sites_busy=33,
)
SAMPLE = Sample(
    at=1.0,
    elapsed_seconds=190.0,
    pages_per_second=42.0,
    fetches_per_second=47.2,
    parsed_per_second=40.0,
    admitted_per_second=812.0,
    bytes_per_second=3 << 20,
    outcomes={"page": 200, "timeout": 7, "dns": 3},
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
            pages_per_second=1.0,
        ),
        ProcessUse(
            kind="parser",
            name="parser-0",
            pid=2,
            cpu=0.9,
            cpu_seconds=1.0,
            memory_bytes=120 << 20,
            descriptors=3,
            pages_per_second=1.0,
        ),
    ],
    system=SystemUse(processors=8, cpu=0.55),
    bound=Bound("politeness", "all 2,345 sites are cooling; next request in 41 s; --delay lowers this"),
)
VIEW = View(
    counts=COUNTS,
    elapsed_seconds=192.4,
    in_flight=412,
    workers=1_000,
    backlog_pages=123,
    sample=SAMPLE,
    max_pages=100_000,
    dashboard="http://127.0.0.1:8470/",
    data_directory="mycrawl",
)
PACE = Pace(42.0, 50.0, {"timeout": 14, "dns": 6})
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def text_of(view: View, pace: Pace = PACE, columns: int = 80, lines: int = 24) -> list[str]:
    drawn = view_lines(view, pace, os.terminal_size((columns, lines)))
    return ["".join(part for _, part in parts).rstrip() for parts in drawn]


def labels(lines: list[str]) -> list[str]:
    return [line[:11].strip() for line in lines]


def test_the_view_says_how_a_crawl_is() -> None:
    assert text_of(VIEW, columns=100) == [
        "pages      11,000   42.0/s   0:03:12   689 fetched and not yet written",
        "goal       ━━━──────────────────────────   29 min left   11% of --max-pages 100,000",
        "requests   412 of 1,000 workers busy   47.2/s   3.0 MiB/s   half in 0.41 s, most in 1.8 s",
        "queue      1,226,554 URLs on 2,345 sites   2,300 cooling   12 ready   33 busy",
        "parsing    123 pages to be parsed   40.0/s   812 new URLs/s",
        "failures   1,272   20 in the last minute   800 timeout   300 dns   134 status   33 robots",
        "CPU        1 fetcher 60%   1 parser 90%   machine 55% of 8   220.0 MiB of memory",
        "dashboard  http://127.0.0.1:8470/   files in mycrawl",
        "waiting    all 2,345 sites are cooling; next request in 41 s; --delay lowers this",
    ]


def test_the_view_of_the_first_moment_has_nothing_made_up() -> None:
    first = View(counts=Counts(), elapsed_seconds=0.3)
    assert text_of(first, Pace()) == [
        "pages      0   0:00:00",
        "requests   0 in flight",
        "queue      0 URLs on 0 sites   0 cooling   0 ready   0 busy",
        "parsing    0 pages to be parsed",
        "failures   none",
        "waiting    the first figures come in a moment",
    ]


@pytest.mark.parametrize("columns", [1, 5, 12, 20, 40, 57, 80, 120, 200])
@pytest.mark.parametrize("lines", [1, 2, 5, 10, 24])
def test_no_line_is_longer_than_the_terminal_and_none_too_many(columns: int, lines: int) -> None:
    wide = msgspec.structs.replace(VIEW, data_directory="クロール" * 9, max_duration_seconds=60.0)
    found = view_lines(wide, PACE, os.terminal_size((columns, lines)))
    shown = [drawn_line(parts, columns - 1, has_colours=True) for parts in found]
    assert 1 <= len(shown) <= max(1, lines - 1)
    for line in shown:
        assert line.columns < columns
        assert columns_of(COLOURS.sub("", line.text)) <= line.columns


def test_a_low_terminal_has_the_most_important_lines() -> None:
    assert labels(text_of(VIEW, lines=3)) == ["pages", "waiting"]
    assert labels(text_of(VIEW, lines=5)) == ["pages", "queue", "failures", "waiting"]
    assert labels(text_of(VIEW, lines=1)) == ["pages"]
    assert labels(text_of(VIEW, columns=40, lines=5)) == ["pages", "queue", "failures", "waiting"]


def test_what_it_waits_for_is_not_cut_in_a_narrow_terminal() -> None:
    waiting = text_of(VIEW, columns=40)[-3:]
    assert labels(waiting) == ["waiting", "", ""]
    assert " ".join(line[11:] for line in waiting) == SAMPLE.bound.because


@pytest.mark.parametrize(
    ("settings", "pace", "words"),
    [
        ({"max_pages": 0}, PACE, None),
        ({}, PACE, "29 min left   11% of --max-pages 100,000"),
        ({}, Pace(), "11% of --max-pages 100,000"),
        ({"max_duration_seconds": 600.0}, PACE, "7 min left   32% of --max-duration 600"),
        ({"max_duration_seconds": 600.0}, Pace(0.0, 0.0, {}), "7 min left   32% of --max-duration 600"),
        ({"max_duration_seconds": 36_000.0}, PACE, "29 min left   11% of --max-pages 100,000"),
        ({"max_pages": 0, "max_duration_seconds": 100.0}, PACE, "0 s left   100% of --max-duration 100"),
        ({"max_pages": 11_100}, PACE, "0 s left   100% of --max-pages 11,100"),
        ({"max_pages": 500_000_000}, PACE, "115.7 days left   0% of --max-pages 500,000,000"),
    ],
)
def test_the_goal_is_the_limit_that_comes_first(settings: dict[str, object], pace: Pace, words: str | None) -> None:
    lines = text_of(msgspec.structs.replace(VIEW, **settings), pace, columns=100)
    goals = [line for line in lines if line.startswith("goal")]
    assert [re.sub(r"[━─]+ *", "", goal[11:]) for goal in goals] == ([] if words is None else [words])


def test_a_state_is_shown_before_a_sample_knows_it() -> None:
    assert text_of(msgspec.structs.replace(VIEW, state="paused"))[-1] == "waiting    paused: what is in flight ends"
    assert "waiting    stopping: " in text_of(msgspec.structs.replace(VIEW, state="stopping"))[-1]


def test_a_line_of_the_pause_does_not_outlive_it() -> None:
    paused = msgspec.structs.replace(SAMPLE, bound=Bound("paused", "paused on the dashboard"))
    lines = text_of(msgspec.structs.replace(VIEW, sample=paused))
    assert lines[-1] == "waiting    resumed: sites are asked again as they are due"


@pytest.mark.parametrize(
    ("state", "settings", "words"),
    [
        ("paused", {}, "11% of --max-pages 100,000"),
        ("paused", {"max_duration_seconds": 1200.0}, "stops in 17 min   16% of --max-duration 1200"),
        ("stopping", {}, "11% of --max-pages 100,000"),
        ("stopping", {"max_duration_seconds": 1200.0}, "16% of --max-duration 1200"),
    ],
)
def test_a_crawl_that_is_paused_or_stops_has_no_time_left(state: str, settings: dict[str, object], words: str) -> None:
    lines = text_of(msgspec.structs.replace(VIEW, state=state, **settings), columns=100)
    (goal,) = [line for line in lines if line.startswith("goal")]
    assert re.sub(r"[━─]+ *", "", goal[11:]) == words


def test_trouble_is_coloured() -> None:
    room = os.terminal_size((80, 24))
    full = msgspec.structs.replace(SAMPLE, bound=Bound("disk", "the disk is nearly full"))
    assert view_lines(msgspec.structs.replace(VIEW, sample=full), PACE, room)[-1][1] == (
        "red",
        "the disk is nearly full",
    )
    assert view_lines(VIEW, PACE, room)[5][1][0] == ""
    assert view_lines(VIEW, Pace(1.0, 1.0, {"dns": 200}), room)[5][1][0] == "yellow"


def test_failures_that_are_not_written_yet_are_shown_too() -> None:
    young = msgspec.structs.replace(VIEW, counts=Counts(outcomes={"page": 3, "dns": 2}))
    assert "failures   20 in the last minute   14 timeout   6 dns" in text_of(young)


def test_the_plain_line_has_all_of_it() -> None:
    assert status_line(VIEW, PACE) == (
        "0:03:12  11,000 pages (50.0/s)  689 not yet written  412 in flight  1,226,554 queued on 2,345 sites"
        "  123 waiting to be parsed  1,272 failures (800 timeout, 300 dns, 134 status, 33 robots)"
        "  all 2,345 sites are cooling; next request in 41 s; --delay lowers this"
    )


def test_one_of_a_kind_is_not_many() -> None:
    counts = Counts(admitted=3, finished=1, pages=1, sites_waiting=1, outcomes={"page": 1, "dns": 1})
    line = status_line(msgspec.structs.replace(VIEW, counts=counts), PACE)
    assert "  1 page (" in line
    assert "queued on 1 site  " in line
    assert "1 failure (" in line


@pytest.fixture(autouse=True)
def patient_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was said is there when a terminal is closed, however slow the machine is."""
    monkeypatch.setattr(screen, "CLOSE_SECONDS", 60.0)


class Fake(io.StringIO):
    """A terminal in memory."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()
        self.writes = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        self.writes += 1
        if "\x1b[K" in text:
            self.drawn.set()
        return written


def shown_after(stream: io.StringIO, environment: dict[str, str], seconds: float, *, quiet: bool = False) -> str:
    """What stands there when the views of so many seconds were shown, and all is over."""
    now = [100.0]
    with Terminal(stream, quiet=quiet, environment=environment, clock=lambda: now[0]) as terminal:
        terminal.say("hello")
        for _ in range(int(seconds * 4) + 1):
            terminal.show(VIEW)
            now[0] += 0.25
        terminal.say("the disk is nearly full", important=True)
    return stream.getvalue()


def test_without_a_terminal_there_is_a_plain_line_a_minute() -> None:
    text = shown_after(io.StringIO(), {"TERM": "xterm"}, 2 * FILE_SECONDS)
    line = status_line(VIEW, Pace(42.0, 42.0, {"timeout": 7, "dns": 3}))
    assert text == f"hello\n{line}\n{line}\nthe disk is nearly full\n"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}])
def test_a_terminal_that_cannot_be_drawn_on_gets_plain_lines(environment: dict[str, str]) -> None:
    text = shown_after(Fake(), environment, 3 * TERMINAL_SECONDS)
    assert "\x1b" not in text
    assert text.count("\n") == 5


@pytest.mark.parametrize("stream", [io.StringIO(), Fake()])
def test_quiet_says_what_is_important_and_nothing_else(stream: io.StringIO) -> None:
    assert shown_after(stream, {"TERM": "xterm"}, 3 * FILE_SECONDS, quiet=True) == "the disk is nearly full\n"


def test_no_colour_where_none_is_wanted() -> None:
    coloured = drawn_in({"TERM": "xterm", "LANG": "C.UTF-8"})
    plain = drawn_in({"TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1"})
    assert "\x1b[2m" in coloured
    assert COLOURS.findall(plain) == []
    assert "━" in plain
    ascii_alone = drawn_in({"TERM": "xterm", "LANG": "C", "NO_COLOR": ""})
    assert ascii_alone.isascii()
    assert "\x1b[2m" in ascii_alone


def test_a_drawing_is_one_write() -> None:
    stream = Fake()
    with Terminal(stream, environment={"TERM": "xterm"}) as terminal:
        terminal.show(VIEW)
        assert stream.drawn.wait(60)
        assert stream.writes == 1


def drawn_in(environment: dict[str, str]) -> str:
    stream = Fake()
    with Terminal(stream, environment=environment) as terminal:
        terminal.show(VIEW)
        assert stream.drawn.wait(60)
    return stream.getvalue()


def test_a_message_is_one_line_whatever_is_in_it() -> None:
    stream = io.StringIO()
    with Terminal(stream, environment={}) as terminal:
        terminal.say("into /tmp/a\x1b[2J\r\nb\u202ec é")
    assert stream.getvalue() == "into /tmp/a\\x1b[2J\\r\\nb\\u202ec é\n"


def test_what_is_said_after_the_end_is_said() -> None:
    stream = io.StringIO()
    with Terminal(stream, environment={}) as terminal:
        terminal.say("one")
    terminal.say("two")
    terminal.show(VIEW)
    terminal.close()
    assert stream.getvalue() == "one\ntwo\n"


def test_a_stream_that_breaks_does_not_end_a_crawl() -> None:
    with Terminal(Broken(), environment={"TERM": "xterm"}) as terminal:
        terminal.say("one")
        terminal.show(VIEW)
    terminal.say("two")
    assert Broken.tried >= 1


class Broken(Fake):
    """Its terminal was closed."""

    tried = 0

    def write(self, _text: str) -> int:
        Broken.tried += 1
        raise OSError(5, "Input/output error")


def test_the_handler_of_continued_stops_is_given_back() -> None:
    before = signal.getsignal(signal.SIGCONT)
    with Terminal(Fake(), environment={"TERM": "xterm"}):
        assert signal.getsignal(signal.SIGCONT) != before
    assert signal.getsignal(signal.SIGCONT) == before


def test_the_pace_is_of_samples_where_there_are_some() -> None:
    paces = Paces()
    assert paces.now() == Pace()
    paces.note(0.0, 1_000, None)
    paces.note(10.0, 1_000, None)
    assert paces.now() == Pace()  # nothing was written yet, which says nothing of the rate
    paces.note(20.0, 1_100, None)
    paces.note(20.0, 1_100, Sample(at=0.5, elapsed_seconds=0.01))  # of no time
    assert paces.now() == Pace(5.0, 5.0, None)
    for number in range(20):
        for _ in range(3):
            rate = float(number)
            paces.note(
                25.0, 2_000, Sample(at=number, elapsed_seconds=1, pages_per_second=rate, outcomes={"dns": 1, "page": 5})
            )
    # Of the last three, and of the last twelve.
    assert paces.now() == Pace(18.0, 13.5, {"dns": 12})


def test_columns_are_those_of_a_terminal() -> None:
    assert columns_of("abc") == 3
    assert columns_of("クロ") == 4
    assert columns_of("e\u0301") == 1
    assert cut("クロール", 5) == "クロ"
    assert cut("abc", -1) == ""
    assert cut("é", 0) == ""
    assert printable("a\x9b\ud800") == "a\\x9b\\ud800"
