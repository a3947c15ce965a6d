"""What a fetcher has beyond what every process has.

Imported by the leader and by fetchers alone: a parser never talks to the web, and starts sooner without it.
"""

import asyncio
import gc
import logging
from importlib.metadata import version

import msgspec

from gossamer.fetch.byte_budget import budget_for
from gossamer.fetch.client import Client
from gossamer.fetch.fetcher import Fetcher
from gossamer.report.lag import LoopLag
from gossamer.report.resources import collect_garbage_seldom, own_usage
from gossamer.run.meters import FetchCounting
from gossamer.run.orders import Command, Numbers, Orders, Report
from gossamer.run.stores import store_numbers
from gossamer.run.wiring import Workshop
from gossamer.spool.writer import SegmentWriter

log = logging.getLogger("gossamer.run")


class FetcherWork:
    """A fetcher with its client, as a process or the leader runs it."""

    def __init__(self, client: Client, fetcher: Fetcher, workshop: Workshop, counting: FetchCounting) -> None:
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
            log.info("how late the event loop was at most", extra={"fields": self._lag.numbers()})

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
        if not by_name:
            return Report(usage=own_usage(), numbers=numbers)
        return Report(
            usage=own_usage(),
            numbers=numbers,
            sites=self._counting.sites.told(),
            descriptors=self._workshop.descriptors(self.connections()),
        )


def fetcher_work(workshop: Workshop, orders: Orders) -> FetcherWork:
    counting = FetchCounting(workshop.counters)
    client = Client(
        workshop.settings.fetch,
        user_agent=workshop.settings.identity.user_agent(version("gossamer")),
        forbidden_endpoints=workshop.store_endpoints | frozenset(orders.forbidden),
        meter=counting,
        budget=budget_for(workshop.settings),
    )
    fetcher = Fetcher(
        owner=orders.owner,
        slots=orders.slots,
        settings=workshop.settings,
        store=workshop.store,
        client=client,
        writer=SegmentWriter(workshop.spool, orders.run, orders.index, is_durable=workshop.settings.frontier.durable),
        spool=workshop.spool,
        rules=workshop.rules,
        meter=counting,
    )
    return FetcherWork(client, fetcher, workshop, counting)
