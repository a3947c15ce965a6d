"""The leader's look at its crawl, every five seconds: from counters, reports, the store and the system to one `Sample`,
which goes to the board together with the metrics of the same moment."""

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from typing import Literal

import msgspec
import psutil

from gossamer.config import Settings
from gossamer.errors import StoreUnavailable
from gossamer.frontier.store import Store
from gossamer.report.activity import gathered
from gossamer.report.board import Board
from gossamer.report.bounds import BoundFacts, bound
from gossamer.report.counters import read_all, slot, total
from gossamer.report.exposition import exposition
from gossamer.report.gains import Gains
from gossamer.report.metrics import (
    CALL_SECONDS,
    COMMIT_SECONDS,
    FETCH_OUTCOMES,
    FETCH_SECONDS,
    FETCHES,
    PARSED_PAGES,
    PHASE_SECONDS,
    RECEIVED_BYTES,
)
from gossamer.report.resources import Usage
from gossamer.report.sample import PHASES, SAMPLE_SECONDS, Activity, Percentiles, ProcessUse, Sample, StoreUse
from gossamer.report.system import Machine
from gossamer.run.condition import Condition
from gossamer.run.data_directory import DataDirectory
from gossamer.run.fetching import FetcherWork
from gossamer.run.minutes import MinuteLine
from gossamer.run.orders import Report
from gossamer.run.places import process_counts
from gossamer.run.supervisor import Supervisor
from gossamer.run.told import told
from gossamer.spool.directory import Backlog, SpoolDirectory

log = logging.getLogger("gossamer.run")

#: For what the store is asked; a sample without it is better than none.
ASK_SECONDS = 2.0

_PAGES = slot(FETCH_OUTCOMES, "page")
_PARSED = slot(PARSED_PAGES)
_RECEIVED = slot(RECEIVED_BYTES)
_FETCHES = [slot(FETCHES, *labels) for labels in FETCHES.label_sets]
_OUTCOMES = {labels[0]: slot(FETCH_OUTCOMES, *labels) for labels in FETCH_OUTCOMES.label_sets}


class Observation:
    """Made by the leader when it has begun its run: it asks the leader's own fetcher, and the crew of the others."""

    def __init__(
        self,
        *,
        data: DataDirectory,
        settings: Settings,
        store: Store,
        spool: SpoolDirectory,
        name: str,
        own: FetcherWork,
        crew: Supervisor,
        condition: Condition,
        board: Board,
    ) -> None:
        """`name` is that of the leader's own fetcher."""
        self._data = data
        self._settings = settings
        self._store = store
        self._spool = spool
        self._name = name
        self._own = own
        self._crew = crew
        self._condition = condition
        self._board = board
        self._machine = Machine(data.root)
        self._began_at = self._last_at = time.monotonic()
        self._rows = read_all(data.metrics)
        self._minutes = MinuteLine(self._rows, self._began_at)
        self._cpu_seconds: dict[int, float] = {}
        self._places: dict[str, tuple[int, float, float]] = {}
        self._admitted: int | None = None
        self._address_holds = 0
        self._backlog = Backlog(0, 0)

    async def run(self) -> None:
        """For ever, all on one interval."""
        while True:
            await self.take()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def take(self) -> None:
        """One sample, now."""
        vitals: dict[str, float] = {}
        if not self._store.is_away:
            # It may go away in this moment.
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    vitals = await self._store.vitals()
                    if self._condition.is_stopping:
                        # The leader only waits now, and counts no more.
                        self._condition.counts = await self._store.counts(now=await self._store.now())
        try:
            self._put(vitals)
        except (OSError, psutil.Error) as error:
            # Short of descriptors, for one. The figures stand still, and the crawl does not.
            log.warning("no sample could be taken: %s", error)

    def _put(self, vitals: dict[str, float]) -> None:
        now = time.monotonic()
        rows = read_all(self._data.metrics)
        gains = Gains(self._rows, rows, now - self._last_at)
        sample, activity = self._look(gains, now - self._began_at, vitals)
        text = exposition(total(list(rows.values())), told(sample, self._board.facts.run, self._condition))
        self._last_at, self._rows = now, rows
        self._minutes.note(rows, sample, now)
        self._board.state = self._condition.state
        self._board.put(sample, activity, text)

    def count(self, name: str) -> int:
        """A number that processes report, added up; with `waits` and the like, those of ended ones included."""
        return self._crew.total(name) + _number(self._own.report(by_name=False), name)

    def in_flight(self) -> int:
        return sum(_number(report, "in_flight") for report in self._fetchers())

    def backlog(self) -> Backlog:
        # Reading a directory needs a descriptor; without one, it is as it was.
        with contextlib.suppress(OSError):
            self._backlog = self._spool.backlog()
        return self._backlog

    def _fetchers(self) -> list[Report]:
        return [self._own.report(by_name=False), *self._crew.reports("fetcher")]

    def _look(self, gains: Gains, elapsed_seconds: float, vitals: dict[str, float]) -> tuple[Sample, Activity]:
        own = self._own.report(by_name=True)
        children = [child for child in self._crew.children if child.report is not None]
        fetchers = [own, *self._crew.reports("fetcher")]
        counts, backlog = self._condition.counts, self.backlog()
        admitted = 0 if self._admitted is None else counts.admitted - self._admitted
        self._admitted = counts.admitted
        by_name = [own, *(child.by_name for child in children if child.by_name is not None)]
        holds = self.count("address_holds")
        held, self._address_holds = max(0, holds - self._address_holds), holds
        sample = Sample(
            at=time.time(),
            elapsed_seconds=elapsed_seconds,
            counts=counts,
            pages_per_second=gains.rate(_PAGES),
            fetches_per_second=sum(map(gains.rate, _FETCHES)),
            parsed_per_second=gains.rate(_PARSED),
            admitted_per_second=admitted / gains.seconds,
            bytes_per_second=gains.rate(_RECEIVED),
            in_flight=sum(_number(report, "in_flight") for report in fetchers),
            in_flight_bytes=sum(_number(report, "in_flight_bytes") for report in fetchers),
            in_flight_waiting=sum(_number(report, "in_flight_waiting") for report in fetchers),
            workers=sum(_number(report, "workers") for report in fetchers),
            backlog_pages=backlog.pages,
            backlog_bytes=backlog.bytes,
            next_request_seconds=_next_request(fetchers),
            quarantined_segments=self.count("damaged_segments") + self.count("failed_segments"),
            address_holds=held,
            outcomes={reason: round(gain) for reason, place in _OUTCOMES.items() if (gain := gains.gain(place))},
            latency={phase: _percentiles(gains, phase) for phase in PHASES},
            processes=self._processes(own.usage, gains),
            descriptors=_descriptors(by_name),
            restarts=self._crew.restarts,
            store=self._store_use([own, *(child.report for child in children if child.report)], gains, vitals),
            system=self._machine.use(),
        )
        sample = msgspec.structs.replace(sample, bound=bound(sample, self._facts(fetchers, gains)))
        sites = [site for report in by_name for site in report.sites or []]
        return sample, gathered(sites, [page for report in by_name for page in report.recent or []])

    def _processes(self, own: Usage, gains: Gains) -> list[ProcessUse]:
        def process(
            kind: Literal["leader", "fetcher", "parser"], name: str, pid: int, use: Usage, pages: float
        ) -> None:
            used = use.cpu_seconds - self._cpu_seconds.get(pid, use.cpu_seconds)
            cpu_seconds[pid] = use.cpu_seconds
            found.append(
                ProcessUse(
                    kind=kind,
                    name=name,
                    pid=pid,
                    cpu=max(0.0, used) / gains.seconds,
                    cpu_seconds=self._cpu_of_place(name, pid, use.cpu_seconds),
                    memory_bytes=use.memory_bytes,
                    descriptors=use.descriptors,
                    pages_per_second=pages,
                )
            )

        cpu_seconds: dict[int, float] = {}
        found: list[ProcessUse] = []
        process("leader", "leader", os.getpid(), own, gains.rate_of(self._name, _PAGES))
        for child in self._crew.children:
            kind, name = child.orders.kind, child.orders.name
            if child.report is not None:
                pages = gains.rate_of(name, _PAGES if kind == "fetcher" else _PARSED)
                process(kind, name, child.pid, child.report.usage, pages)
        self._cpu_seconds = cpu_seconds
        return found

    def _cpu_of_place(self, name: str, pid: int, seconds: float) -> float:
        """Of the process and of those that had its place before it: what is counted must not go back."""
        last_pid, last_seconds, before = self._places.get(name, (pid, 0.0, 0.0))
        if last_pid != pid:
            before += last_seconds
        self._places[name] = (pid, seconds, before)
        return before + seconds

    def _store_use(self, reports: list[Report], gains: Gains, vitals: dict[str, float]) -> StoreUse:
        calls = sum(gains.observed(CALL_SECONDS, *labels) for labels in CALL_SECONDS.label_sets)
        return StoreUse(
            connections=sum(_number(report, "store_connections") for report in reports),
            in_use=sum(_number(report, "store_in_use") for report in reports),
            waiting=sum(_number(report, "store_waiting") for report in reports),
            outages=self._condition.outages,
            calls_per_second=calls / gains.seconds,
            seconds_per_call=gains.seconds_in(CALL_SECONDS) / calls if calls else None,
            vitals=vitals,
        )

    def _facts(self, fetchers: list[Report], gains: Gains) -> BoundFacts:
        condition, settings = self._condition, self._settings
        _, parsers = process_counts(settings)
        committing = gains.seconds_in(COMMIT_SECONDS, "parser") - gains.seconds_in(CALL_SECONDS, "parser", "finish")
        return BoundFacts(
            is_stopping=condition.is_stopping,
            is_paused=condition.is_held,
            is_store_away=condition.is_away,
            is_disk_paused=condition.is_disk_full,
            min_free_bytes=settings.run.min_free_bytes,
            is_short=condition.is_short,
            are_seeds_loaded=condition.are_seeds_loaded,
            is_held_back=any(_number(report, "backpressure") for report in fetchers),
            delay_seconds=settings.politeness.delay_seconds,
            interval_seconds=gains.seconds,
            max_pages=settings.run.max_pages,
            fetchers=len(fetchers),
            parsers=parsers,
            fetcher_workers=settings.fetch.fetcher_workers,
            dns_seconds=gains.mean(PHASE_SECONDS, "dns"),
            total_seconds=gains.mean(FETCH_SECONDS),
            fetchers_store_share=gains.seconds_in(CALL_SECONDS, "fetcher") / gains.seconds / len(fetchers),
            parsers_store_share=gains.seconds_in(CALL_SECONDS, "parser") / gains.seconds / parsers,
            parsers_disk_share=max(0.0, committing) / gains.seconds / parsers,
        )


def _number(report: Report, name: str) -> int:
    number = report.numbers.get(name, 0)
    return number if isinstance(number, int) else 0


def _percentiles(gains: Gains, phase: str) -> Percentiles:
    return gains.percentiles(FETCH_SECONDS) if phase == "total" else gains.percentiles(PHASE_SECONDS, phase)


def _descriptors(reports: list[Report]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.descriptors or {})
    return dict(total)


def _next_request(fetchers: list[Report]) -> float | None:
    """When the first of all sites may be asked; each fetcher knows of its own."""
    due = [number for report in fetchers if (number := _number(report, "next_due_milliseconds")) >= 0]
    return min(due) / 1000 if due else None
