"""The leader: one run of a crawl, from taking the data directory to the summary.

It puts right what an earlier run left, starts the other processes, loads the seeds, is fetcher 0 itself, and watches:
counts, limits, the disk, the processes. When there is a reason to stop, fetchers leave first, then the parsers.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from gossamer.config import Settings
from gossamer.errors import StoreUnavailable
from gossamer.frontier.politeness import LONGEST_HOLD_SECONDS
from gossamer.frontier.store import Counts
from gossamer.invocation import command
from gossamer.report.board import Board
from gossamer.report.counters import slot
from gossamer.report.logs import LogFile
from gossamer.report.metrics import OWN_TROUBLES, OwnTrouble
from gossamer.report.progress import Terminal, View
from gossamer.report.resources import give_large_blocks_back, own_usage, raise_descriptor_limit
from gossamer.report.status import WAITS, Summary, summarise
from gossamer.run.condition import Condition
from gossamer.run.controls import LeaderControls
from gossamer.run.data_directory import DataDirectory, PausedBy
from gossamer.run.fetching import fetcher_work
from gossamer.run.observation import Observation
from gossamer.run.orders import HELD_SIGNALS, Command, Kind
from gossamer.run.places import OWN_NAME, made_orders, process_counts
from gossamer.run.process import diagnose
from gossamer.run.recovery import mend_after, mend_all
from gossamer.run.seeding import Seeding
from gossamer.run.showing import Showing, facts_of
from gossamer.run.stop import StopReason, is_waiting_for_commit, reason_to_stop
from gossamer.run.supervisor import Supervisor
from gossamer.run.wiring import Workshop

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

Begin = Callable[[Counts, Callable[[str], None]], Settings]


class Leader:
    """One run, over a data directory that was taken. `run` is called once, in the event loop whose signals it takes."""

    def __init__(self, data: DataDirectory, settings: Settings, terminal: Terminal, begin: Begin) -> None:
        """`begin` is called when the store is open, may say something, and answers with the settings of this run."""
        self._data = data
        self._settings = settings
        self._begin = begin
        self._terminal = terminal
        self._condition = Condition(data.root, settings.run.min_free_bytes, self._say)
        self._began_at = time.monotonic()
        self._interrupted = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], Kind | None] = {}
        self._are_told_to_pause = False
        self._is_recorded = True
        self._recorded_pause: PausedBy | None = None

    async def run(self) -> Summary:
        raise_descriptor_limit(self._settings.fetch.fetcher_workers)
        give_large_blocks_back()
        cpu_before = own_usage().cpu_seconds
        logs = LogFile(self._data.log, "leader", self._settings.run.log_level, self._settings.run.log_bytes)
        logs.open()
        try:
            async with contextlib.AsyncExitStack() as stack:
                # Nothing else is to be seen until the store has answered.
                line = "waiting for the store, which does not answer yet"
                saying = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._say, line)
                stack.callback(saying.cancel)
                workshop = await stack.enter_async_context(
                    Workshop(self._data, self._settings, OWN_NAME, is_leader=True)
                )
                saying.cancel()
                return await self._lead(workshop, logs, cpu_before)
        finally:
            self._listen_no_more()
            logs.close()
            self._data.give_up()

    async def _lead(self, workshop: Workshop, logs: LogFile, cpu_before: float) -> Summary:
        self._workshop, self._counters = workshop, workshop.counters
        store = self._store = workshop.store
        latest = LONGEST_HOLD_SECONDS + self._settings.politeness.delay_seconds
        run = self._run = await store.begin_run(latest_not_before_seconds=latest)
        await mend_all(self._data, workshop)
        before = await _counts(workshop)
        self._condition.counts = before
        self._settings = workshop.settings = self._begin(before, self._say)
        self._seeding = Seeding(workshop, self._terminal.say)
        supervisor = self._supervisor = Supervisor(
            self._data,
            lambda dead: mend_after(self._data, workshop, dead),
            changed=self._record,
            died=lambda: self._counters.add(slot(OWN_TROUBLES, OwnTrouble.PROCESS_DEATH)),
            say=self._say,
        )
        self._board = Board(facts_of(self._data, self._settings, run))
        controls = LeaderControls(
            self._data, self._condition, interrupt=self._interrupt, reread=lambda: self._tell_all(Command(do="reread"))
        )
        self._showing = Showing(self._data.root, self._settings.report, self._board, controls, self._terminal)
        try:
            fetchers, parsers = made_orders(self._data, self._settings, run, self._showing.endpoints)
            self._own = fetcher_work(workshop, fetchers[0])
            self._owner = fetchers[0].owner
            self._observation = Observation(
                data=self._data,
                settings=self._settings,
                store=store,
                spool=workshop.spool,
                name=OWN_NAME,
                own=self._own,
                crew=supervisor,
                condition=self._condition,
                board=self._board,
            )
            self._listen(logs)
            self._record()
            self._start(self._own.run(), "fetcher")
            self._start(self._observation.run(), None)
            for orders in (*fetchers[1:], *parsers):
                self._start(supervisor.keep(orders), orders.kind)
            self._start(self._seeding.run(), None)
            reason = await self._watch(workshop)
            log.info("stopping: %s", reason)
            self._condition.is_stopping = True
            reason = await self._stop(reason)
            after = self._condition.counts = await self._last_counts(workshop)
            # The last figures stand as long as somebody may ask for them.
            await self._observation.take()
            self._board.stop_reason = reason
        finally:
            await self._leave_nothing_behind()
            await asyncio.to_thread(self._showing.close)
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
            waits={name: self._observation.count(name) for name in WAITS},
        )

    # While it runs.

    async def _watch(self, workshop: Workshop) -> StopReason:
        """Until there is a reason to stop, or something of ours has failed."""
        counting = asyncio.create_task(self._count(workshop))
        try:
            while True:
                self._raise_failure()
                if self._interrupted.is_set():
                    return StopReason.INTERRUPTED
                # A store that is away answers when it is back; signals, processes and the disk are looked at meanwhile.
                await asyncio.wait({counting}, timeout=LOOK_SECONDS)
                if counting.done():
                    self._condition.counts, were_seeds_loaded = counting.result()
                    self._condition.are_seeds_loaded = were_seeds_loaded
                    reason = self._judge(self._condition.counts, seeds_are_loaded=were_seeds_loaded)
                    if reason is not None:
                        return reason
                    counting = asyncio.create_task(self._count(workshop))
                self._supervisor.look(is_store_away=self._store.is_away)
                self._look_around()
                if not self._is_recorded or self._condition.paused_by != self._recorded_pause:
                    self._record()
                self._show()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._interrupted.wait(), LOOK_SECONDS)
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    async def _count(self, workshop: Workshop) -> tuple[Counts, bool]:
        """And whether all seeds were admitted before it: otherwise equal counts do not mean the end."""
        are_seeds_loaded = self._seeding.is_complete
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
                f"stopped while the store does not answer; nothing is lost: {command('resume', str(self._data.root))}"
                " when it is back"
            ) from None

    def _look_around(self) -> None:
        """At the disk, the store and the processes; and what a person has said on the dashboard."""
        condition, outages = self._condition, self._condition.outages
        condition.look_at_disk()
        condition.look_at_shortages(self._store, is_short=bool(self._observation.count("is_short")))
        if condition.outages > outages:
            self._counters.add(slot(OWN_TROUBLES, OwnTrouble.STORE_OUTAGE))
        if condition.is_paused != self._are_told_to_pause:
            self._are_told_to_pause = condition.is_paused
            self._tell_fetchers(Command(do="pause" if condition.is_paused else "go-on"))

    def _show(self) -> None:
        observation, limits = self._observation, self._settings.run
        self._board.state = self._condition.state
        self._terminal.show(
            View(
                counts=self._condition.counts,
                elapsed_seconds=time.monotonic() - self._began_at,
                in_flight=observation.in_flight(),
                workers=process_counts(self._settings)[0] * self._settings.fetch.fetcher_workers,
                backlog_pages=observation.backlog().pages,
                sample=self._board.sample,
                max_pages=limits.max_pages,
                max_duration_seconds=limits.max_duration_seconds,
                state=self._condition.state,
                dashboard=self._showing.addresses.dashboard or "",
                data_directory=str(self._data.root),
            )
        )

    def _tell_fetchers(self, command: Command) -> None:
        self._own.obey(command)
        self._supervisor.tell("fetcher", command)

    def _tell_all(self, command: Command) -> None:
        self._tell_fetchers(command)
        self._supervisor.tell("parser", command)

    def _say(self, line: str) -> None:
        """What a person must not miss."""
        self._terminal.say(line, important=True)

    def _refused(self) -> dict[str, int]:
        total: Counter[str] = Counter(self._supervisor.refused)
        total.update(self._seeding.refused)
        return dict(total)

    # Tasks, signals, the end.

    def _start(self, work: Coroutine[Any, Any, None], kind: Kind | None) -> None:
        self._tasks[asyncio.create_task(work)] = kind

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _listen(self, logs: LogFile) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        loop.add_signal_handler(signal.SIGHUP, self._reopen_logs, logs)
        loop.add_signal_handler(signal.SIGUSR1, self._diagnose)
        # Whoever started us may have blocked them.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_SIGNALS)

    def _listen_no_more(self) -> None:
        """The loop's answers end with it; a signal that comes after that, while the end is told, must not end us."""
        loop = asyncio.get_running_loop()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_SIGNALS)
        for number in HELD_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _reopen_logs(self, logs: LogFile) -> None:
        logs.reopen()
        self._supervisor.send(signal.SIGHUP)

    def _diagnose(self) -> None:
        self._supervisor.send(signal.SIGUSR1)
        sample = msgspec.to_builtins(self._board.sample)
        diagnose(self._data, "leader", self._workshop, self._own, sample=sample, state=self._condition.state)

    def _interrupt(self) -> None:
        if self._interrupted.is_set():
            # The second one: nothing more is put in order here. The next run does that.
            self._supervisor.kill()
            os._exit(StopReason.INTERRUPTED.exit_code)
        self._interrupted.set()
        self._say("stopping; a second interrupt leaves at once")

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
            self._supervisor.look(is_store_away=self._store.is_away)
            self._show()
            # The store may have gone away just now, when nobody looks at it any more.
            if self._condition.is_short or self._store.is_away:
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
            paused_by = self._condition.paused_by
            self._data.record_processes(self._supervisor.pids, owners, run=self._run, paused_by=paused_by)
        except OSError as error:
            # A resume after a kill would wait for those that it does not know; so it is tried again.
            if self._is_recorded:
                log.error("the processes cannot be recorded: %s; trying again", error)  # noqa: TRY400 (a full disk)
            self._is_recorded = False
        else:
            self._is_recorded, self._recorded_pause = True, paused_by


async def _counts(workshop: Workshop) -> Counts:
    return await workshop.store.counts(now=await workshop.store.now())
