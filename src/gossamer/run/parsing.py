"""What a parser has beyond what every process has.

Imported by parsers alone: the libraries behind it take more memory than a fetcher.
"""

import msgspec

from gossamer.frontier.refused_links import SUFFIX, RefusedLinks
from gossamer.parse.note import PageNote
from gossamer.parse.worker import Parser
from gossamer.report.resources import collect_garbage_seldom, own_usage
from gossamer.run.meters import ParseCounting
from gossamer.run.orders import Command, Numbers, Orders, Report
from gossamer.run.places import process_counts
from gossamer.run.sinks import made_sinks
from gossamer.run.stores import store_numbers
from gossamer.run.wiring import Workshop
from gossamer.sinks.commit import Committer


class ParserWork:
    """A parser with its note."""

    def __init__(self, parser: Parser, note: PageNote, workshop: Workshop, counting: ParseCounting) -> None:
        self._parser = parser
        self._workshop = workshop
        self._counting = counting
        self._note = note

    async def run(self) -> None:
        collect_garbage_seldom()
        try:
            await self._parser.run()
        finally:
            self._note.close()

    def obey(self, command: Command) -> None:
        if command.do == "drain":
            self._parser.drain(empty_spool=command.empty_spool)
        elif command.do == "commit":
            self._parser.commit_soon()
        elif command.do == "reread":
            self._workshop.reread_exclusions()
        elif command.do == "guard":
            self._parser.guard(command.seconds)
        elif command.do == "careful":
            self._parser.be_careful(command.seconds)

    def connections(self) -> dict[int, str]:
        return {}

    def report(self, *, by_name: bool) -> Report:
        own = msgspec.to_builtins(self._parser.statistics())
        numbers = msgspec.convert(own | store_numbers(self._workshop.store), Numbers)
        if not by_name:
            return Report(usage=own_usage(), numbers=numbers)
        return Report(
            usage=own_usage(),
            numbers=numbers,
            recent=self._counting.recent.told(),
            descriptors=self._workshop.descriptors(self.connections()),
        )


def parser_work(workshop: Workshop, orders: Orders) -> ParserWork:
    sinks = made_sinks(workshop.data, workshop.settings, orders)
    note = PageNote(workshop.data.note(orders.name))
    counting = ParseCounting(workshop.counters)
    parser = Parser(
        name=orders.name,
        settings=workshop.settings,
        store=workshop.store,
        spool=workshop.spool,
        parsers=process_counts(workshop.settings)[1],
        committer=Committer(workshop.data.root, orders.name, workshop.store, sinks),
        sinks=sinks,
        rules=workshop.rules,
        note=note,
        # Open until the process ends: its last report comes after the parser's own end.
        refused=RefusedLinks(workshop.data.refused / f"{orders.name}{SUFFIX}"),
        meter=counting,
    )
    parser.guard(orders.guard_seconds)
    parser.be_careful(orders.careful_seconds)
    return ParserWork(parser, note, workshop, counting)
