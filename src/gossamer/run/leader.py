"""The leader: one run of a crawl, from taking the data directory to the summary.

It puts right what an earlier run left, starts the other processes, loads the seeds, is fetcher 0 itself, and watches:
counts, limits, the disk, the processes. When there is a reason to stop, fetchers leave first, then the parsers.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any

from gossamer.config import Settings
from gossamer.errors import StoreUnavailable
from gossamer.frontier.politeness import LONGEST_HOLD_SECONDS
from gossamer.frontier.store import Counts, Store
from gossamer.report.logs import LogFile
from gossamer.report.resources import give_large_blocks_back, own_usage, raise_descriptor_limit
from gossamer.report.status import WAITS, StatusLine, Summary, summarise
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import Command, Kind, Numbers, Orders
from gossamer.run.process import answer_signals
from gossamer.run.recovery import mend_after, mend_all
from gossamer.run.stop import StopReason, is_waiting_for_commit, reason_to_stop
from gossamer.run.supervisor import Supervisor
from gossamer.run.wiring import Workshop
from gossamer.seed.load import Loaded, SeedLoader

log = logging.getLogger("gossamer.run")

#: After so long a start without an answer of the store, a person is told what is waited for.
SILENT_SECONDS = 2.0
#: How often counts, limits and processes are looked at.
LOOK_SECONDS = 0.25
#: Fetches in flight get five seconds, spooling them some more; who is still there after this hangs.
FETCHERS_LEAVE_SECONDS = 30.0
#: Of an interrupted run: the current page takes a second at worst, a commit as long as the disk.
PARSERS_LEAVE_SECONDS = 60.0
#: Of an interrupted run that is short of something, or without its store: what is in flight ends, and who waits for
#: room, or for an answer, waits in vain.
SHORT_LEAVE_SECONDS = 8.0
#: What those that were killed have left is put right in this time, or by the next run.
MEND_SECONDS = 5.0
#: A paused crawl goes on when there is so much more room than the limit: not at every file that is deleted.
DISK_MARGIN = 1.1
#: Loading so many takes some seconds, in which a person wants to see that something happens.
SEEDS_WORTH_A_LINE = 100_000


class Leader:
    """One run, over a data directory that was taken. `run` is called once, in the event loop whose signals it takes."""

    def __init__(self, data: DataDirectory, settings: Settings, status: StatusLine) -> None:
        self._data = data
        self._settings = settings
        self._status = status
        self._began_at = time.monotonic()
        self._interrupted = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], Kind | None] = {}
        self._loaded: Loaded | None = None
        self._is_paused = False
        self._is_short = False
        self._is_away = False
        self._is_recorded = True

    async def run(self) -> Summary:
        raise_descriptor_limit(self._settings.fetch.fetcher_workers)
        give_large_blocks_back()
        cpu_before = own_usage().cpu_seconds
        logs = LogFile(self._data.log, "leader", self._settings.run.log_level)
        logs.open()
        try:
            async with contextlib.AsyncExitStack() as stack:
                # Nothing else is to be seen until the store has answered.
                line = "waiting for the store, which does not answer yet"
                saying = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._status.say, line)
                stack.callback(saying.cancel)
                workshop = await stack.enter_async_context(Workshop(self._data, self._settings, is_leader=True))
                saying.cancel()
                return await self._lead(workshop, logs, cpu_before)
        finally:
            logs.close()
            self._data.give_up()

    async def _lead(self, workshop: Workshop, logs: LogFile, cpu_before: float) -> Summary:
        store = self._store = workshop.store
        latest = LONGEST_HOLD_SECONDS + self._settings.politeness.delay_seconds
        run = self._run = await store.begin_run(latest_not_before_seconds=latest)
        await mend_all(self._data, workshop)
        before = await _counts(workshop)
        supervisor = Supervisor(self._data, lambda dead: mend_after(self._data, workshop, dead), self._record)
        self._supervisor = supervisor
        self._listen(logs, store)
        fetchers, parsers = _orders(self._data, self._settings, run)
        self._own = workshop.fetcher(fetchers[0])
        self._owner = fetchers[0].owner
        self._record()
        try:
            self._start(self._own.run(), "fetcher")
            for orders in (*fetchers[1:], *parsers):
                self._start(supervisor.keep(orders), orders.kind)
            self._start(self._load_seeds(workshop), None)
            reason = await self._watch(workshop)
            log.info("stopping: %s", reason)
            reason = await self._stop(reason)
            after = await self._last_counts(workshop)
        finally:
            await self._leave_nothing_behind()
        log.info("stopped: %s", reason)
        return summarise(
            after,
            stop_reason=reason,
            data_directory=str(self._data.root),
            run=run,
            pages_before=before.pages,
            refused=self._refused(),
            duration_seconds=time.monotonic() - self._began_at,
            cpu_seconds={"leader": own_usage().cpu_seconds - cpu_before, **supervisor.cpu_seconds()},
            restarts=supervisor.restarts,
            waits={name: self._own_count(name) + supervisor.total(name) for name in WAITS},
        )

    # While it runs.

    async def _watch(self, workshop: Workshop) -> StopReason:
        """Until there is a reason to stop, or something of ours has failed."""
        counting = asyncio.create_task(self._count(workshop))
        counts = Counts()
        try:
            while True:
                self._raise_failure()
                if self._interrupted.is_set():
                    return StopReason.INTERRUPTED
                # A store that is away answers when it is back; signals, processes and the disk are looked at meanwhile.
                await asyncio.wait({counting}, timeout=LOOK_SECONDS)
                if counting.done():
                    counts, were_seeds_loaded = counting.result()
                    reason = self._judge(counts, seeds_are_loaded=were_seeds_loaded)
                    if reason is not None:
                        return reason
                    counting = asyncio.create_task(self._count(workshop))
                self._supervisor.end_hanging()
                self._look_at_disk()
                self._look_at_shortages(workshop)
                if not self._is_recorded:
                    self._record()
                self._status.show(counts, self._in_flight(), self._waits_for(workshop, counts))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._interrupted.wait(), LOOK_SECONDS)
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    async def _count(self, workshop: Workshop) -> tuple[Counts, bool]:
        """And whether all seeds were admitted before it: otherwise equal counts do not mean the end."""
        are_seeds_loaded = self._loaded is not None and self._loaded.is_complete
        return await _counts(workshop), are_seeds_loaded

    def _judge(self, counts: Counts, *, seeds_are_loaded: bool) -> StopReason | None:
        """What the counts say: whether to stop, whether to commit, whether those that died stood in the way."""
        self._supervisor.note_progress(counts.finished)
        reason = reason_to_stop(
            counts,
            self._settings.run,
            elapsed_seconds=time.monotonic() - self._began_at,
            seeds_are_loaded=seeds_are_loaded,
        )
        if reason is None and is_waiting_for_commit(counts, self._settings.run, seeds_are_loaded=seeds_are_loaded):
            self._supervisor.tell("parser", Command(do="commit"))
        return reason

    async def _last_counts(self, workshop: Workshop) -> Counts:
        """For the summary. A store that is away now was away when others wanted to put things in order, too."""
        try:
            async with asyncio.timeout(MEND_SECONDS if workshop.store.is_away else None):
                return await _counts(workshop)
        except TimeoutError:
            raise StoreUnavailable(
                f"stopped while the store does not answer; nothing is lost: gossamer resume {self._data.root}"
                " when it is back"
            ) from None

    async def _load_seeds(self, workshop: Workshop) -> None:
        loader = SeedLoader(self._data.seeds, workshop.store, workshop.rules, self._settings.url)

        def progress(loaded: Loaded) -> None:
            self._loaded = loaded
            if loaded.lines >= SEEDS_WORTH_A_LINE and loaded.lines % SEEDS_WORTH_A_LINE == 0:
                self._status.say(f"{loaded.lines:,} seeds read, {loaded.admitted:,} admitted")

        loaded = await loader.load(progress)
        log.info("seeds: %d lines, %d admitted, refused: %s", loaded.lines, loaded.admitted, loaded.refused)

    def _look_at_disk(self) -> None:
        limit = self._settings.run.min_free_bytes
        free = shutil.disk_usage(self._data.root).free
        if not self._is_paused and free < limit:
            self._is_paused = True
            self._warn(f"the disk is nearly full ({free} bytes free): nothing is leased until there is room")
            self._tell_fetchers(Command(do="pause"))
        elif self._is_paused and free > limit * DISK_MARGIN:
            self._is_paused = False
            self._warn(f"there is room on the disk again ({free} bytes free): going on")
            self._tell_fetchers(Command(do="go-on"))

    def _look_at_shortages(self, workshop: Workshop) -> None:
        """Of any process, as it reports it; the log files may be on the very disk that is full."""
        is_away = workshop.store.is_away
        if is_away != self._is_away:
            self._is_away = is_away
            self._warn("the store does not answer: waiting for it" if is_away else "the store is back: going on")
        is_short = bool(workshop.store.is_full or self._own_count("is_short") or self._supervisor.total("is_short"))
        if is_short and not self._is_short:
            self._warn("short of disk, descriptors or memory: waiting for it; the log files say who, and for what")
        elif self._is_short and not is_short:
            self._warn("the shortage is over: going on")
        self._is_short = is_short

    def _warn(self, line: str) -> None:
        """To the log and to the person: what concerns the disk may not reach the one."""
        log.warning("%s", line)
        self._status.say(line)

    def _tell_fetchers(self, command: Command) -> None:
        self._own.obey(command)
        self._supervisor.tell("fetcher", command)

    def _waits_for(self, workshop: Workshop, counts: Counts) -> str:
        if workshop.store.is_away:
            return "waits: the store does not answer"
        if self._is_paused:
            return f"paused: less than {self._settings.run.min_free_bytes:,} bytes free on the disk"
        if self._is_short:
            return "waits: short of disk, descriptors or memory"
        if counts.sites_waiting and not counts.sites_ready and not counts.sites_busy:
            return f"all {counts.sites_waiting:,} sites are cooling"
        return ""

    def _in_flight(self) -> int:
        numbers: Iterable[Numbers] = (
            self._own.numbers(),
            *(report.numbers for report in self._supervisor.reports("fetcher")),
        )
        return sum(count for one in numbers if isinstance(count := one.get("in_flight", 0), int))

    def _own_count(self, name: str) -> int:
        count = self._own.numbers().get(name, 0)
        return count if isinstance(count, int) else 0

    def _refused(self) -> dict[str, int]:
        total: Counter[str] = Counter(self._supervisor.refused)
        if self._loaded is not None:
            total.update(self._loaded.refused)
        return dict(total)

    # Tasks, signals, the end.

    def _start(self, work: Coroutine[Any, Any, None], kind: Kind | None) -> None:
        self._tasks[asyncio.create_task(work)] = kind

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _listen(self, logs: LogFile, store: Store) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        answer_signals(loop, logs, store)

    def _interrupt(self) -> None:
        if self._interrupted.is_set():
            # The second one: nothing more is put in order here. The next run does that.
            self._supervisor.kill()
            os._exit(StopReason.INTERRUPTED.exit_code)
        self._interrupted.set()
        self._status.say("stopping; a second interrupt leaves at once")

    async def _stop(self, reason: StopReason) -> StopReason:
        """Everybody leaves, in order. An interrupt on the way leaves the rest of the spool for the resume."""
        self._tell_to_leave("fetcher", Command(do="drain"), restart=False)
        if reason.empties_spool:
            await self._until_gone("fetcher", FETCHERS_LEAVE_SECONDS)
            self._tell_to_leave("parser", Command(do="drain", empty_spool=True), restart=True)
            gone = asyncio.create_task(self._until_gone("parser", None))
            interrupted = asyncio.create_task(self._interrupted.wait())
            await asyncio.wait({gone, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            interrupted.cancel()
            if gone.done():
                await gone
                return reason
            gone.cancel()
            reason = StopReason.INTERRUPTED
        self._tell_to_leave("parser", Command(do="drain"), restart=False)
        short_until = time.monotonic() + SHORT_LEAVE_SECONDS
        await self._until_gone("fetcher", FETCHERS_LEAVE_SECONDS, short_until)
        await self._until_gone("parser", PARSERS_LEAVE_SECONDS, short_until)
        return reason

    def _tell_to_leave(self, kind: Kind, command: Command, *, restart: bool) -> None:
        if kind == "fetcher":
            self._own.obey(command)
        self._supervisor.end(kind, command, restart=restart)

    async def _until_gone(self, kind: Kind, patience_seconds: float | None, short_until: float = float("inf")) -> None:
        """All of a kind. Those that do not leave in time are killed: nothing is lost by that, only done again."""
        waiting = {task for task, of in self._tasks.items() if of == kind}
        until = float("inf") if patience_seconds is None else time.monotonic() + patience_seconds
        while waiting and time.monotonic() < until:
            _, waiting = await asyncio.wait(waiting, timeout=LOOK_SECONDS)
            # The store may have gone away just now, when nobody looks at it any more.
            if self._is_short or self._store.is_away:
                until = min(until, short_until)
        if waiting:
            log.warning("%d of the %ss do not leave and are ended", len(waiting), kind)
            self._supervisor.kill([kind])
            _, waiting = await asyncio.wait(waiting, timeout=LOOK_SECONDS if self._store.is_away else MEND_SECONDS)
            for task in waiting:
                task.cancel()
        self._raise_failure()

    async def _leave_nothing_behind(self) -> None:
        """Also when something of ours failed: no process, no task is left."""
        self._supervisor.end("fetcher", Command(do="drain"), restart=False)
        self._supervisor.end("parser", Command(do="drain"), restart=False)
        await self._supervisor.kill_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _record(self) -> None:
        try:
            owners = [self._owner, *self._supervisor.owners]
            self._data.record_processes(self._supervisor.pids, owners, run=self._run)
        except OSError as error:
            # A resume after a kill would wait for those that it does not know; so it is tried again.
            if self._is_recorded:
                log.error("the processes cannot be recorded: %s; trying again", error)  # noqa: TRY400 (a full disk)
            self._is_recorded = False
        else:
            self._is_recorded = True


async def _counts(workshop: Workshop) -> Counts:
    return await workshop.store.counts(now=await workshop.store.now())


def _orders(data: DataDirectory, settings: Settings, run: int) -> tuple[list[Orders], list[Orders]]:
    """For fetchers and parsers; the slots are divided among the fetchers. The first orders are the leader's own."""
    fetchers, parsers = process_counts(settings)
    # Unique among all processes that may ever share this store.
    owner = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"

    def orders(kind: Kind, index: int) -> Orders:
        return Orders(
            kind=kind,
            index=index,
            name=f"{kind}-{index}",
            owner=f"{owner}-{index}",
            slots=list(range(index, settings.url.slots, fetchers)) if kind == "fetcher" else [],
            run=run,
            data=str(data.root),
            settings=settings,
        )

    return [orders("fetcher", index) for index in range(fetchers)], [
        orders("parser", index) for index in range(parsers)
    ]


def process_counts(settings: Settings) -> tuple[int, int]:
    """Fetchers and parsers. Parsing a page costs two to three times as much as fetching it."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    fetchers = settings.fetch.num_fetcher_processes or max(1, processors // 3)
    parsers = settings.parse.num_parser_processes or max(1, processors - processors // 3 - 1)
    return min(fetchers, settings.url.slots), parsers
