"""Keeps the processes of a crawl alive: starts them, hears them, restarts those that die, and knows when to give up.

Before a place is filled again, what its last process held is put right: a fetcher's slots are free and its open
segments settled, a parser's commit is redone or undone and its segments are back in the spool.
"""

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import msgspec

from gossamer.errors import CrashLoop
from gossamer.parse.note import read_note
from gossamer.report.resources import HAS_CPU_TIMES, cpu_seconds, waits_for_disk
from gossamer.run.data_directory import DataDirectory
from gossamer.run.deaths import Deaths
from gossamer.run.orders import HELD_SIGNALS, Command, Kind, Orders, Report
from gossamer.run.watch import Seen, Watch
from gossamer.spool.directory import SpoolDirectory, segments_in
from gossamer.spool.suspects import Suspects

log = logging.getLogger("gossamer.run")

#: Before the second start of a process, and doubled for each further one; back to this once something was finished.
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
#: Who was killed is gone in milliseconds, unless the system itself is stuck.
KILLED_SECONDS = 5.0
#: Between looks whether one that is about to end has ended.
ENDING_SECONDS = 0.01
#: With sites and pages of the longest names it comes to 50 KB.
LONGEST_REPORT_BYTES = 1 << 20

T = TypeVar("T")

MendAfter = Callable[[Orders], Awaitable[None]]


class Child:
    """One process, in its one life. `report` is the last it said.

    Not started by the loop: that would undo what is held back.
    """

    def __init__(
        self,
        orders: Orders,
        process: subprocess.Popen[bytes],
        lines: asyncio.StreamReader,
        stdout: asyncio.ReadTransport,
        stdin: asyncio.WriteTransport,
    ) -> None:
        self.orders = orders
        self.report: Report | None = None
        self.by_name: Report | None = None
        """The last one that had names in it."""
        self.reports = 0
        """How many it has sent."""
        self.watch = Watch(orders.kind)
        self._process = process
        self._lines = lines
        self._stdout = stdout
        self._stdin = stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def start(cls, orders: Orders, lock: int) -> "Child":
        # It inherits what is held back, until it can answer.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_SIGNALS)
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 (it takes as long as the loop's own would)
                [sys.executable, "-P", "-m", "gossamer.run.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=(lock,),
                start_new_session=True,  # an interrupt from the keyboard is the leader's; the others hear of it there
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            loop = asyncio.get_running_loop()
            lines = asyncio.StreamReader(limit=LONGEST_REPORT_BYTES)
            stdout, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)
            stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        except BaseException:
            process.kill()
            process.wait()
            raise
        child = cls(orders, process, lines, stdout, stdin)
        child._say(msgspec.json.encode(orders))
        return child

    def tell(self, command: Command) -> None:
        self._say(msgspec.json.encode(command))

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code. A process that has closed its output ends at once, and so does one that was killed."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(ENDING_SECONDS)
        return code

    async def listen(self) -> int:
        """Until it ends; its exit code."""
        while line := await self._lines.readline():
            with contextlib.suppress(msgspec.DecodeError):
                report = self.report = msgspec.json.decode(line, type=Report)
                self.reports += 1
                if report.sites is not None or report.recent is not None:
                    self.by_name = report
        self._stdout.close()
        code = await self.ended()
        self._stdin.close()
        return code

    def _say(self, line: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(line + b"\n")


class Supervisor:
    """All started processes of one run. The leader calls `keep` for every place, as a task each."""

    def __init__(
        self,
        data: DataDirectory,
        mend_after: MendAfter,
        *,
        changed: Callable[[], None],
        died: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """`changed` hears when others are there than before, `died` when one ends that was not told to, `say` what a
        person must not miss."""
        self._data = data
        self._mend_after = mend_after
        self._changed = changed
        self._died = died
        self._say = say
        self._spool = SpoolDirectory(data.spool)
        self._suspects = Suspects(data.spool)
        self._deaths = Deaths(self._suspects, time.monotonic())
        self._children: dict[tuple[Kind, int], Child] = {}
        self.restarts = 0
        self.refused: Counter[str] = Counter()
        """What parsers that have ended did not admit, by reason."""
        self._past_numbers: Counter[str] = Counter()
        self._lives = 0
        self._starting = asyncio.Lock()
        self._past_cpu_seconds: dict[str, float] = {}
        self._finished = 0
        self._set_aside = 0
        self._looked_at = time.monotonic()
        self._last_words: dict[Kind, Command] = {}
        self._standing: dict[Kind, Command] = {}
        """What holds until it is taken back: one that is started again hears it first."""
        self._restarts: dict[Kind, bool] = {"fetcher": True, "parser": True}

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children.values()]

    @property
    def owners(self) -> list[str]:
        return [child.orders.owner for child in self._children.values() if child.orders.kind == "fetcher"]

    @property
    def children(self) -> list[Child]:
        return list(self._children.values())

    def send(self, number: signal.Signals) -> None:
        """A signal, to all."""
        for child in self._children.values():
            child.send(number)

    def reports(self, kind: Kind) -> list[Report]:
        return [child.report for (k, _), child in self._children.items() if k == kind and child.report is not None]

    def total(self, name: str) -> int:
        """Of a number that all processes count, those that have ended included."""
        reports = [child.report for child in self._children.values() if child.report is not None]
        counts = (report.numbers.get(name, 0) for report in reports)
        return self._past_numbers[name] + sum(count for count in counts if isinstance(count, int))

    def cpu_seconds(self) -> dict[str, float]:
        """By kind of process, those that have ended included."""
        seconds = dict(self._past_cpu_seconds)
        for (kind, _), child in self._children.items():
            if child.report is not None:
                seconds[kind] = seconds.get(kind, 0.0) + child.report.usage.cpu_seconds
        return seconds

    async def keep(self, orders: Orders) -> None:
        """Fill a place until it is told to empty: its process is restarted whenever it dies."""
        place = (orders.kind, orders.index)
        while True:
            self._lives += 1
            now = time.monotonic()
            life = msgspec.structs.replace(
                orders,
                owner=f"{orders.owner}-{self._lives}",
                guard_seconds=self._deaths.guard_seconds(now),
                careful_seconds=self._deaths.careful_seconds(now),
            )
            child = self._children[place] = await self._until_done(
                "cannot be started", life, partial(self._start, life)
            )
            self._changed()
            if orders.kind in self._standing:
                child.tell(self._standing[orders.kind])
            if orders.kind in self._last_words:
                child.tell(self._last_words[orders.kind])
            code = await child.listen()
            del self._children[place]
            if child.report is not None:
                used = self._past_cpu_seconds.get(orders.kind, 0.0) + child.report.usage.cpu_seconds
                self._past_cpu_seconds[orders.kind] = used
                numbers = child.report.numbers
                refused = numbers.get("refused")
                self.refused.update(refused if isinstance(refused, dict) else {})
                self._past_numbers.update({name: count for name, count in numbers.items() if isinstance(count, int)})
                self._past_numbers["is_short"] = 0  # no state outlives its process
            if code == 0 and orders.kind in self._last_words:
                return
            await self._after_death(life, code)
            if not self._restarts[orders.kind]:
                return
            self.restarts += 1

    async def _start(self, orders: Orders) -> Child:
        # One after the other: each holds signals back while it is started, and lets in what was let in before.
        async with self._starting:
            return await Child.start(orders, self._data.lock)

    async def _until_done(self, what: str, orders: Orders, work: Callable[[], Awaitable[T]]) -> T:
        """`work` may be called again. A place without its process waits, while the others go on."""
        wait_seconds = FIRST_WAIT_SECONDS
        while True:
            try:
                return await work()
            except OSError as error:
                # Short of room, descriptors, memory or processes.
                log.error("%s %s: %s; trying again", orders.name, what, error)  # noqa: TRY400 (nothing is wrong here)
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, LONGEST_WAIT_SECONDS)

    async def _after_death(self, orders: Orders, code: int) -> None:
        is_to_restart = self._restarts[orders.kind]
        self._died()
        log.warning("%s ended by itself with code %d%s", orders.name, code, " and is started again" * is_to_restart)
        # Who is not restarted was ended by us, and nothing else is to blame.
        is_explained = is_to_restart and self._judge(orders)
        await self._until_done("left what cannot be mended", orders, partial(self._mend_after, orders))
        if code == CrashLoop.exit_code:
            raise CrashLoop(f"{orders.name} gave up; see {self._data.log / orders.name}.log")
        if is_explained or not is_to_restart:
            return
        if self._deaths.is_crash_loop:
            raise CrashLoop(
                f"{self._deaths.unexplained} processes died one after another and nothing was finished between them;"
                f" the last was {orders.name}, with exit code {code}; see the log files in {self._data.log}"
            )
        await asyncio.sleep(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (self._deaths.unexplained - 1)))

    def _judge(self, dead: Orders) -> bool:
        """Whether its death is explained; the other parsers hear what follows from it."""
        if dead.kind == "fetcher":
            self._deaths.note_fetcher()
            return False
        note = self._data.note(dead.name)
        is_explained = self._deaths.note_parser(
            dead.name,
            read_note(note),
            time.monotonic(),
            was_guarded=dead.guard_seconds > 0,
            parsers=sum(kind == "parser" for kind, _ in self._children) + 1,
        )
        # The next one may die before it has made its own, and that is not this segment's doing.
        note.unlink(missing_ok=True)
        self._tell_parsers_to_beware()
        return is_explained

    def _tell_parsers_to_beware(self) -> None:
        now = time.monotonic()
        if guard_seconds := self._deaths.guard_seconds(now):
            self.tell("parser", Command(do="guard", seconds=guard_seconds))
        if careful_seconds := self._deaths.careful_seconds(now):
            self.tell("parser", Command(do="careful", seconds=careful_seconds))

    def note_progress(self, finished: int) -> None:
        """Something was finished since the last time: whatever died before that was no loop."""
        if finished > self._finished:
            self._finished = finished
            self._deaths.note_progress()

    def tell(self, kind: Kind, command: Command) -> None:
        if command.do in {"pause", "go-on"}:
            self._standing[kind] = command
        for (one, _), child in self._children.items():
            if one == kind:
                child.tell(command)

    def end(self, kind: Kind, command: Command, *, restart: bool) -> None:
        """Tell all of a kind to leave. With `restart`, one that dies on the way is started again and told the same."""
        self._last_words[kind] = command
        self._restarts[kind] = restart
        self.tell(kind, command)

    def kill(self, kinds: Iterable[Kind] = ("fetcher", "parser")) -> None:
        for (kind, _), child in self._children.items():
            if kind in kinds:
                child.kill()

    async def kill_all(self) -> None:
        """And wait until they are gone: the event loop must not be closed before it has heard of it."""
        ended = [child.ended() for child in self._children.values()]
        self.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_SECONDS):
                await asyncio.gather(*ended)
        self._suspects.close()

    def look(self, *, is_store_away: bool) -> None:
        """Several times a second: end those that hang or are silent, and hear of what went wrong in parsers."""
        now = time.monotonic()
        elapsed_seconds, self._looked_at = now - self._looked_at, now
        for child in self.children:
            if is_store_away and not child.reports:
                continue  # it waits for the store before it does anything else
            if why := child.watch.look(self._seen(child), elapsed_seconds):
                self._warn(f"{child.orders.name} {why} and is killed")
                # What is known of its page or segment is known as after any other death.
                child.kill()
        if self._deaths.note_crashes(self.total("parse_crashes"), now):
            self._tell_parsers_to_beware()
        set_aside = self.total("damaged_segments") + self.total("failed_segments")
        if set_aside > self._set_aside:
            self._set_aside = set_aside
            self._warn(
                f"segments that could not be parsed: {set_aside}, now in {self._spool.root / 'quarantine'};"
                " their URLs are fetched again, and the log files of the parsers say why"
            )
        if self._suspects.is_long():
            self._forget_suspects()

    def _seen(self, child: Child) -> Seen:
        if child.orders.kind != "parser":
            return Seen(reports=child.reports, waits_for_disk=waits_for_disk(child.pid))
        used = cpu_seconds(child.pid)
        if used is None and not HAS_CPU_TIMES:
            # A minute's wall clock stands in for half of CPU.
            used = time.monotonic() / 2
        return Seen(
            reports=child.reports,
            noted=read_note(self._data.note(child.orders.name)),
            cpu_seconds=used,
            waits_for_disk=waits_for_disk(child.pid),
        )

    def _forget_suspects(self) -> None:
        """Of segments that are gone. Those that change hands are in one of the places when it is looked at: a segment
        goes back to where it was looked for last."""
        try:
            names = segments_in(self._spool.open) + segments_in(self._spool.ready)
            for folder in self._spool.claimed_folders():
                names += segments_in(folder)
            names += segments_in(self._spool.ready)
            self._suspects.remove_all_but({name.id for name in names})
        except OSError as error:
            log.warning("what is known of segments that are gone cannot be removed: %s", error)

    def _warn(self, line: str) -> None:
        log.warning("%s", line)
        self._say(line)
