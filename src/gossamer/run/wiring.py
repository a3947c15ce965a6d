"""Which store, which sinks, which client: the only file that names them."""

import asyncio
import logging
from importlib.metadata import version
from types import TracebackType
from typing import Self

import msgspec

from gossamer.config import Settings
from gossamer.fetch.client import Client
from gossamer.fetch.fetcher import Fetcher
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.store import Store
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.parse.note import PageNote
from gossamer.parse.worker import Parser
from gossamer.report.lag import LoopLag
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import Command, Numbers, Orders
from gossamer.sinks.commit import Committer
from gossamer.sinks.jsonl import JsonLinesSink
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.writer import SegmentWriter

log = logging.getLogger("gossamer.run")


def _store(data: DataDirectory, settings: Settings) -> Store:
    return SqliteStore(data.frontier, settings.url.slots)


class FetcherWork:
    """A fetcher with its client, as a process or the leader runs it."""

    def __init__(self, client: Client, fetcher: Fetcher) -> None:
        self._client = client
        self._fetcher = fetcher
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
        return msgspec.convert(msgspec.to_builtins(self._fetcher.statistics()) | self._lag.numbers(), Numbers)


class ParserWork:
    """A parser with its note."""

    def __init__(self, parser: Parser, note: PageNote) -> None:
        self._parser = parser
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
        return msgspec.convert(msgspec.to_builtins(self._parser.statistics()), Numbers)


class Workshop:
    """One process's store, rules and spool, and what is built on them. The store is open within `async with`."""

    def __init__(self, data: DataDirectory, settings: Settings) -> None:
        self._data = data
        self._settings = settings
        self.store = _store(data, settings)
        self.rules = AdmissionRules(settings.scope, data.exclusions())
        self.spool = SpoolDirectory(data.spool)

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.store.close()

    def fetcher(self, orders: Orders) -> FetcherWork:
        client = Client(self._settings.fetch, user_agent=self._settings.identity.user_agent(version("gossamer")))
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
        return FetcherWork(client, fetcher)

    def parser(self, orders: Orders) -> ParserWork:
        sink = JsonLinesSink(self._data.root, orders.run, orders.name)
        note = PageNote(self._data.note(orders.name))
        parser = Parser(
            name=orders.name,
            settings=self._settings,
            store=self.store,
            spool=self.spool,
            committer=Committer(self._data.root, orders.name, self.store, [sink]),
            sinks=[sink],
            rules=self.rules,
            note=note,
            suspects={(suspect.segment, suspect.index) for suspect in orders.suspects},
        )
        return ParserWork(parser, note)
