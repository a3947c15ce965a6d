"""Parsers stand still: the spool stops growing, the fetchers wait, and go on when there is room again."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from gossamer.spool.directory import Backlog, SpoolDirectory
from gossamer.spool.writer import SEGMENT_BYTES, SEGMENT_OUTCOMES
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once, crawls_of
from tests.crawl.test_deaths import children, until
from tests.crawl.test_stopping import until_pages_are_fetched

#: Sites answer in a twentieth of a second: so a fetcher makes some 200 requests a second.
WORKERS = 10
PARSERS = 2
#: Of one fetcher: what it has leased for its workers, as much in reserve, and what its open segment holds.
IN_FLIGHT = 2 * WORKERS + SEGMENT_OUTCOMES
#: What a segment holds of a page besides its body: the lease and the answer's head.
HEAD_BYTES = 2_000
#: How long the spool has to stay as it is, and no request to come, before both count as standing: several looks of the
#: feeder, which looks four times a second, and a segment's half-second; and as much for a machine that is busy.
STILL_SECONDS = 4.0


@pytest.fixture
def slow_web(tmp_path: Path, store: str) -> Iterator[Crawls]:
    """Sites enough that there is always one to ask, and pages of much the same size."""
    web = Web(
        sites=30,
        pages=30,
        links_per_page=40,
        median_bytes=20_000,
        size_sigma=0.3,
        latency_median_seconds=0.05,
        crawl_delay_seconds=0.1,
    )
    with crawls_of(web, tmp_path, store) as crawls:
        yield crawls


class StandingParsers:
    """All parsers stand still; in the end they go on, also if the test fails."""

    def __init__(self, crawls: Crawls) -> None:
        until(lambda: len(children(crawls, "parser")) == PARSERS, "a parser does not start")
        self.pids = children(crawls, "parser")

    def __enter__(self) -> Self:
        self._send(signal.SIGSTOP)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._send(signal.SIGCONT)

    def stop_elsewhere(self) -> None:
        """One that was stopped within a transaction keeps all others from the store for as long as it stands."""
        self._send(signal.SIGCONT)
        time.sleep(0.1)
        self._send(signal.SIGSTOP)

    def _send(self, number: int) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def until_still(crawls: Crawls, running: subprocess.Popen[str], parsers: StandingParsers, *, over: Backlog) -> Backlog:
    """The spool above one of two limits, when neither it nor the number of requests has changed for some time."""
    spool = SpoolDirectory(crawls.data / "spool")
    deadline = time.monotonic() + PATIENCE_SECONDS
    seen, since = (spool.backlog(), len(crawls.requests())), time.monotonic()
    while True:
        backlog = seen[0]
        assert running.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, f"the spool does not come to rest: {backlog}"
        # The limit in bytes is one of all that is in the spool.
        is_over = backlog.pages > over.pages or spool.used_bytes() >= over.bytes
        if time.monotonic() - since >= STILL_SECONDS:
            if is_over:
                return backlog
            parsers.stop_elsewhere()
            since = time.monotonic()
        time.sleep(0.05)
        if (now := (spool.backlog(), len(crawls.requests()))) != seen:
            seen, since = now, time.monotonic()


def judge_whole(crawls: Crawls, summary: dict[str, object]) -> None:
    assert summary["stop_reason"] == "exhausted"
    assert summary["restarts"] == 0  # who stands still does not hang
    judged = crawls.judge()
    assert judged.is_clean, judged.verdict
    assert_each_once(crawls.pages(), crawls.expected_pages())


@pytest.mark.parametrize("fetchers", [1, 2])
def test_the_spool_stops_at_the_hard_limit_in_pages_and_the_fetchers_go_on_when_it_is_read(
    slow_web: Crawls, fetchers: int
) -> None:
    hard = 150
    running = slow_web.start(
        "--soft-limit=50",
        f"--hard-limit={hard}",
        f"--fetcher-workers={WORKERS}",
        f"--num-fetcher-processes={fetchers}",
        f"--num-parser-processes={PARSERS}",
    )
    until_pages_are_fetched(slow_web, 150, running)
    with StandingParsers(slow_web) as parsers:
        backlog = until_still(slow_web, running, parsers, over=Backlog(hard, 1 << 60))
        print(f"overshoot: {backlog.pages - hard} pages over {hard}, {fetchers} fetchers")
        assert hard < backlog.pages <= hard + fetchers * IN_FLIGHT
    summary = slow_web.end(running)
    assert summary["waits"]["backpressure_soft"] >= fetchers
    assert summary["waits"]["backpressure_hard"] >= fetchers
    judge_whole(slow_web, summary)


def test_the_spool_stops_at_the_hard_limit_in_bytes_and_the_fetchers_go_on_when_it_is_read(slow_web: Crawls) -> None:
    hard = 4 << 20
    running = slow_web.start(
        "--spool-bytes=4MiB",
        f"--fetcher-workers={WORKERS}",
        "--num-fetcher-processes=1",
        f"--num-parser-processes={PARSERS}",
    )
    until_pages_are_fetched(slow_web, 150, running)
    with StandingParsers(slow_web) as parsers:
        backlog = until_still(slow_web, running, parsers, over=Backlog(1 << 60, hard))
        used_bytes = SpoolDirectory(slow_web.data / "spool").used_bytes()
        print(f"overshoot: {used_bytes - hard} bytes over {hard}, {backlog.bytes} of it ready")
    summary = slow_web.end(running)
    largest = max(page["received_bytes"] for page in slow_web.pages()) + HEAD_BYTES
    assert hard <= used_bytes <= hard + min(IN_FLIGHT * largest, SEGMENT_BYTES + largest)
    assert summary["waits"]["backpressure_hard"] >= 1
    judge_whole(slow_web, summary)
