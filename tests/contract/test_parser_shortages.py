"""A parser that lacks a descriptor, wherever it needs one: it waits, says so, and nothing is lost or written twice."""

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from gossamer.config import Settings, SinkSettings
from gossamer.parse import page_reader, room
from gossamer.parse.record import Reading, read_answer
from gossamer.parse.worker import Parser
from gossamer.records import Answer
from gossamer.sinks.log import LogSink
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.sink import Sink
from gossamer.sinks.warc import WarcSink
from tests.contract.test_parser import NAME, Crawl, crawl, model_store, page

#: What the interpreter says of itself before it takes a descriptor.
OPENINGS = frozenset({"open", "os.scandir", "os.listdir"})
#: Openings in a row that fail: more than one call makes before it gives up.
FAILING = 3


class Openings:
    """Counts them while a parser runs, and makes some of them fail. The interpreter keeps such a hook for ever, so
    there is one for all tests, which does nothing between them."""

    def __init__(self) -> None:
        self.count = 0
        self._is_on = False
        self._first = sys.maxsize
        self._is_hooked = False

    @contextmanager
    def failing_from(self, first: int) -> Iterator[None]:
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(self._heard)
        self.count, self._first, self._is_on = 0, first, True
        try:
            yield
        finally:
            self._is_on = False

    def _heard(self, event: str, _: tuple[object, ...]) -> None:
        if self._is_on and event in OPENINGS:
            self.count += 1
            if self._first < self.count <= self._first + FAILING:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


OPENINGS_OF_THIS_PROCESS = Openings()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "FIRST_DISK_SECONDS", 0.0)
    monkeypatch.setattr(room, "LONGEST_DISK_SECONDS", 0.0)


def all_sinks(data: Path, settings: Settings) -> Sequence[Sink]:
    return [
        WarcSink(data, run=1, parser=NAME, index=0, file_bytes=1 << 20, facts={}, urls=settings.url),
        PagesSink(data, parser=NAME, crawl="a test"),
        LogSink(data, parser=NAME, urls=settings.url),
    ]


def parsed(data: Path, failing_from: int) -> tuple[Parser, int]:
    """Two segments with a commit each; the parser, and how often it opened something."""
    parsers: list[Parser] = []
    data.mkdir()

    async def story(crawl: Crawl) -> None:
        urls = [f"http://s{number}.test/{part}" for part in "ab" for number in range(3)]
        await crawl.admit(*urls)
        for _ in "ab":
            await crawl.fetch(lambda lease: page(lease, b"<title>A page</title>"))
        settings = Settings(sinks=SinkSettings(commit_pages=3))
        async with crawl.parser(settings, sinks=all_sinks(data, settings)) as parser:
            parser.drain(empty_spool=True)
            with OPENINGS_OF_THIS_PROCESS.failing_from(failing_from):
                await parser.run()
        parsers.append(parser)
        assert sorted(row["url"] for row in crawl.pages()) == sorted(urls)
        assert await crawl.finished() == len(urls)

    crawl(data, model_store, story)
    assert not list(data.glob("*/*.open"))
    return parsers[0], OPENINGS_OF_THIS_PROCESS.count


def test_wherever_a_parser_lacks_a_descriptor_it_waits_and_nothing_is_lost(tmp_path: Path) -> None:
    parser, openings = parsed(tmp_path / "whole", sys.maxsize)
    assert parser.statistics().disk_waits == 0
    assert openings > 20
    for first in range(openings):
        parser, _ = parsed(tmp_path / str(first), first)
        told = parser.statistics()
        assert (told.disk_waits > 0, told.failed_segments, told.is_short) == (True, 0, 0), first


def test_a_page_whose_reader_lacks_a_descriptor_is_read_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [errno.EMFILE, errno.ENFILE, errno.EMFILE]

    def read(answer: Answer, settings: Settings) -> Reading:
        if failures:
            number = failures.pop()
            raise OSError(number, os.strerror(number))
        return read_answer(answer, settings)

    monkeypatch.setattr(page_reader, "read_answer", read)
    parser, _ = parsed(tmp_path / "crawl", sys.maxsize)
    assert (parser.statistics().disk_waits, parser.statistics().parse_crashes) == (1, 0)
