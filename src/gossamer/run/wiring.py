"""What each process is made of. stores.py beside it says which store, sinks.py which sinks."""

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from types import TracebackType
from typing import Self

import msgspec

from gossamer.config import Settings
from gossamer.fetch.client import Client
from gossamer.fetch.fetcher import Fetcher
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.store import Store
from gossamer.parse.note import PageNote
from gossamer.parse.worker import Parser
from gossamer.report.lag import LoopLag
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import Command, Numbers, Orders
from gossamer.run.stores import open_store, store_endpoints, store_numbers
from gossamer.sinks.commit import Committer
from gossamer.sinks.sink import Sink
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.writer import SegmentWriter
from gossamer.url import registrable_domain

log = logging.getLogger("gossamer.run")

MadeSinks = Callable[[DataDirectory, Settings, Orders], list[Sink]]


class FetcherWork:
    """A fetcher with its client, as a process or the leader runs it."""

    def __init__(self, client: Client, fetcher: Fetcher, store: Store) -> None:
        self._client = client
        self._fetcher = fetcher
        self._store = store
        self._lag = LoopLag()

    async def run(self) -> None:
        watching = asyncio.create_task(self._lag.watch())
        try:
            async with self._client:
                await self._fetcher.run()
        finally:
            watching.cancel()
            log.info("the event loop was late by at most: %s", self._lag.numbers())

    def obey(self, command: Command) -> None:
        if command.do == "drain":
            self._fetcher.drain()
        elif command.do == "pause":
            self._fetcher.pause()
        elif command.do == "go-on":
            self._fetcher.go_on()

    def numbers(self) -> Numbers:
        own = msgspec.to_builtins(self._fetcher.statistics())
        return msgspec.convert(own | self._lag.numbers() | store_numbers(self._store), Numbers)


class ParserWork:
    """A parser with its note."""

    def __init__(self, parser: Parser, note: PageNote, store: Store) -> None:
        self._parser = parser
        self._store = store
        self._note = note

    async def run(self) -> None:
        try:
            await self._parser.run()
        finally:
            self._note.close()

    def obey(self, command: Command) -> None:
        if command.do == "drain":
            self._parser.drain(empty_spool=command.empty_spool)
        elif command.do == "commit":
            self._parser.commit_soon()

    def numbers(self) -> Numbers:
        return msgspec.convert(msgspec.to_builtins(self._parser.statistics()) | store_numbers(self._store), Numbers)


class Workshop:
    """One process's store, rules and spool, and what is built on them. The store is open within `async with`."""

    def __init__(self, data: DataDirectory, settings: Settings, *, is_leader: bool = False) -> None:
        self._data = data
        self._settings = settings
        self._is_leader = is_leader
        self._which = data.which_frontier()
        self.store = open_store(data, settings, self._which, is_leader=is_leader)
        self.rules = AdmissionRules(settings.scope, data.exclusions())
        self.spool = SpoolDirectory(data.spool)

    async def __aenter__(self) -> Self:
        is_new = self._is_leader and not self._which.is_made
        if is_new:
            # Its name first: a kill in between must not leave a frontier that nobody knows.
            self._data.record_frontier(self._which)
        await self.store.open()
        # It reads its list when it is first asked: later there may be no descriptor left for that.
        registrable_domain("example.org")
        if is_new:
            self._data.record_frontier(msgspec.structs.replace(self._which, is_made=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.store.close()

    def fetcher(self, orders: Orders) -> FetcherWork:
        client = Client(
            self._settings.fetch,
            user_agent=self._settings.identity.user_agent(version("gossamer")),
            forbidden_endpoints=store_endpoints(self._settings.frontier.store),
        )
        fetcher = Fetcher(
            owner=orders.owner,
            slots=orders.slots,
            settings=self._settings,
            store=self.store,
            client=client,
            writer=SegmentWriter(self.spool, orders.run, orders.index),
            spool=self.spool,
            rules=self.rules,
        )
        return FetcherWork(client, fetcher, self.store)

    def parser(self, orders: Orders) -> ParserWork:
        made_sinks: MadeSinks = import_module("gossamer.run.sinks").made_sinks
        sinks = made_sinks(self._data, self._settings, orders)
        note = PageNote(self._data.note(orders.name))
        parser = Parser(
            name=orders.name,
            settings=self._settings,
            store=self.store,
            spool=self.spool,
            committer=Committer(self._data.root, orders.name, self.store, sinks),
            sinks=sinks,
            rules=self.rules,
            note=note,
            suspects={(suspect.segment, suspect.index) for suspect in orders.suspects},
        )
        return ParserWork(parser, note, self.store)
