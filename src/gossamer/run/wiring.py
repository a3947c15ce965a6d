"""What each process is made of. stores.py beside it says which store, parsing.py what a parser has beyond that."""

import asyncio
import gc
import logging
from importlib.metadata import version
from types import TracebackType
from typing import Self

import msgspec

from gossamer.config import Settings
from gossamer.errors import UsageError
from gossamer.fetch.client import Client
from gossamer.fetch.fetcher import Fetcher
from gossamer.frontier.admission import AdmissionRules
from gossamer.report.counters import SUFFIX, Counters
from gossamer.report.lag import LoopLag
from gossamer.report.resources import collect_garbage_seldom, own_usage
from gossamer.run.data_directory import DataDirectory
from gossamer.run.metered_store import MeteredStore
from gossamer.run.meters import FetchCounting, StoreCounting
from gossamer.run.orders import Command, Numbers, Orders, Report
from gossamer.run.stores import open_store, store_endpoints, store_numbers
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.writer import SegmentWriter
from gossamer.url import registrable_domain

log = logging.getLogger("gossamer.run")


class FetcherWork:
    """A fetcher with its client, as a process or the leader runs it."""

    def __init__(self, client: Client, fetcher: Fetcher, workshop: "Workshop", counting: FetchCounting) -> None:
        self._client = client
        self._fetcher = fetcher
        self._workshop = workshop
        self._counting = counting
        self._lag = LoopLag()

    async def run(self) -> None:
        watching = asyncio.create_task(self._lag.watch())
        collect_garbage_seldom()
        try:
            async with self._client:
                await self._fetcher.run()
        finally:
            watching.cancel()
            # A process may go on after its crawl, as a demo does, and is to leave nothing behind when it ends.
            gc.unfreeze()
            log.info("the event loop was late by at most: %s", self._lag.numbers())

    def obey(self, command: Command) -> None:
        if command.do == "drain":
            self._fetcher.drain()
        elif command.do == "pause":
            self._fetcher.pause()
        elif command.do == "go-on":
            self._fetcher.go_on()
        elif command.do == "reread":
            self._workshop.reread_exclusions()

    def connections(self) -> dict[int, str]:
        return self._client.connections()

    def report(self, *, by_name: bool) -> Report:
        own = msgspec.to_builtins(self._fetcher.statistics())
        numbers = msgspec.convert(own | self._lag.numbers() | store_numbers(self._workshop.store), Numbers)
        return Report(usage=own_usage(), numbers=numbers, sites=self._counting.sites.told() if by_name else None)


class Workshop:
    """One process's store, rules, spool and counters, and what is built on them. The store is open within `async with`.

    `name` is the place that the process fills: its counters are those of whoever filled it before.
    """

    def __init__(
        self, data: DataDirectory, settings: Settings, name: str, *, is_leader: bool = False, at_once: bool = False
    ) -> None:
        self.data = data
        self.settings = settings
        self._is_leader = is_leader
        self._which = data.which_frontier()
        self.store_url = settings.frontier.store
        # Asked for once: a name may take its time.
        self.store_endpoints = store_endpoints(self.store_url)
        self.counters = Counters(data.metrics / f"{name}{SUFFIX}")
        self.store = MeteredStore(
            open_store(data, settings, self._which, is_leader=is_leader, at_once=at_once),
            StoreCounting(self.counters),
        )
        self.rules = AdmissionRules(settings.scope, data.exclusions())
        self.spool = SpoolDirectory(data.spool)

    async def __aenter__(self) -> Self:
        is_new = self._is_leader and not self._which.is_made
        if is_new:
            # Its name first: a kill in between must not leave a frontier that nobody knows.
            self.data.record_frontier(self._which)
        await self.store.open()
        # It reads its list when it is first asked: later there may be no descriptor left for that.
        registrable_domain("example.org")
        if is_new:
            self.data.record_frontier(msgspec.structs.replace(self._which, is_made=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.store.close()
        self.counters.close()

    def reread_exclusions(self) -> None:
        try:
            self.rules.exclude(self.data.exclusions())
        except (OSError, UsageError) as error:
            log.error("the exclude file cannot be read: %s; the rules stay as they were", error)  # noqa: TRY400

    def fetcher(self, orders: Orders) -> FetcherWork:
        counting = FetchCounting(self.counters)
        client = Client(
            self.settings.fetch,
            user_agent=self.settings.identity.user_agent(version("gossamer")),
            forbidden_endpoints=self.store_endpoints | frozenset(orders.forbidden),
            meter=counting,
        )
        fetcher = Fetcher(
            owner=orders.owner,
            slots=orders.slots,
            settings=self.settings,
            store=self.store,
            client=client,
            writer=SegmentWriter(self.spool, orders.run, orders.index),
            spool=self.spool,
            rules=self.rules,
            meter=counting,
        )
        return FetcherWork(client, fetcher, self, counting)
