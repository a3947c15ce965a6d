"""A crawl by Gossamer: everything on, one fetcher (the leader) and one parser unless told otherwise.

What is measured begins when the pages of the warm-up have gone through, for the fetchers when they have fetched them
and for parsers and store when the parsers have read them, and ends with the last process: by then the spool is empty
and everything is committed. Clocks and counters are read at the same moment, so it does not matter how soon the end of
the warm-up is noticed; and each kind of process is divided by the pages that went through it since.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.crawl.measured import FETCHER, PARSER, STORE, Measured
from benchmarks.crawl.processes import Usage, cpu_seconds, directory_bytes, family, memory_bytes, tree, written_bytes
from benchmarks.crawl.web import ServedWeb
from benchmarks.frontier.places import Place
from gossamer.errors import GossamerError
from gossamer.records import Reason
from gossamer.report import counters
from gossamer.report.metrics import FETCH_OUTCOMES, PARSED_PAGES, RECEIVED_BYTES
from gossamer.testing.servers import free_port

LOOK_SECONDS = 0.05
#: Adding up the pages of a process's memory takes the kernel some milliseconds.
MEMORY_SECONDS = 1.0
#: Pages that wait for the parsers, at most. Of so many, the store's time may have the leases and not the rest, or the
#: other way round: small beside what is measured, and large enough for parsers never to wait.
SPOOL_LIMITS = ("--soft-limit", "500", "--hard-limit", "1000")
#: A crawl that was told to stop has this long before it is killed.
STOP_SECONDS = 30.0

_FETCHED = counters.slot(FETCH_OUTCOMES, Reason.PAGE)
_PARSED = counters.slot(PARSED_PAGES)
_RECEIVED = counters.slot(RECEIVED_BYTES)
#: Without the leader's own, which a child has until it has become another program.
_PLACE = re.compile(r"/metrics/(fetcher(?=-[1-9])|parser)-\d+\.counters")


class Ask(NamedTuple):
    """How large a crawl is, and of how many processes."""

    warm_up: int
    pages: int
    fetchers: int = 1
    parsers: int = 1


class Reading(NamedTuple):
    """All that was spent and done up to one moment."""

    at: float
    fetcher_seconds: float
    parser_seconds: float
    store: Usage
    written_bytes: int
    fetched: int
    parsed: int
    received_bytes: int


class Crawl:
    """One run of `gossamer crawl` (or `resume`) from its start to its end."""

    def __init__(self, data: Path, command: list[str], server: int | None) -> None:
        self._data = data
        self._server = server
        self._said = data.with_name(f"{data.name}.said")
        self._fetchers: dict[int, float] = {}
        """CPU seconds of those beside the leader, as last seen."""
        self._kinds: dict[int, str] = {}
        self.peak_bytes = 0
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def pids(self) -> list[int]:
        return family(self.process.pid)

    def pids_by_kind(self) -> dict[str, list[int]]:
        """Of those that run, the leader among the fetchers."""
        found: dict[str, list[int]] = {"fetcher": [self.process.pid], "parser": []}
        for pid in self.pids[1:]:
            found.setdefault(self._kind(pid), []).append(pid)
        return found

    def until_fetched(self, pages: int) -> Reading:
        """What was spent when so many were. Less, if the crawl has ended before."""
        while (now := self.reading()).fetched < pages and not self._has_ended():
            self._look()
        return now

    def until_parsed(self, pages: int) -> Reading:
        """Likewise."""
        while (now := self.reading()).parsed < pages and not self._has_ended():
            self._look()
        return now

    def until_ended(self) -> Reading:
        """Of the whole crawl, once every process has ended."""
        while not self._has_ended():
            self._look()
        # Ended, but nobody has waited for it: its own clock can still be read, and its account has all its children.
        leader = self.process.pid
        at, own, written = time.monotonic(), cpu_seconds(leader), written_bytes(leader)
        store = Usage(0.0, 0) if self._server is None else tree(self._server)
        _, status, used = os.wait4(leader, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            words = self._said.read_text(errors="replace")[-2_000:]
            raise GossamerError(f"the crawl ended with {self.process.returncode}: {words}")
        fetchers = own + sum(self._fetchers.values())
        parsers = used.ru_utime + used.ru_stime - fetchers
        return Reading(at, fetchers, parsers, store, written, *self._counts())

    def reading(self) -> Reading:
        """At this moment."""
        leader = self.process.pid
        everything = tree(leader)
        fetchers = cpu_seconds(leader) + self._others()
        store = Usage(0.0, 0) if self._server is None else tree(self._server)
        parsers = everything.cpu_seconds - fetchers
        return Reading(time.monotonic(), fetchers, parsers, store, everything.written_bytes, *self._counts())

    def end(self) -> None:
        """If it still runs."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                # Whatever it has started leaves by itself when it is gone.
                self.process.kill()
                self.process.wait()

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _look(self) -> None:
        until = time.monotonic() + LOOK_SECONDS
        self._others()
        if time.monotonic() >= self._memory_at:
            self._memory_at = time.monotonic() + MEMORY_SECONDS
            pids = self.pids + ([] if self._server is None else family(self._server))
            self.peak_bytes = max(self.peak_bytes, memory_bytes(pids))
        time.sleep(max(0.0, until - time.monotonic()))

    _memory_at = 0.0

    def _others(self) -> float:
        """CPU seconds of the fetchers beside the leader; those that have ended as they were last seen."""
        for pid in self.pids[1:]:
            if self._kind(pid) == "fetcher":
                self._fetchers[pid] = max(self._fetchers.get(pid, 0.0), cpu_seconds(pid))
        return sum(self._fetchers.values())

    def _kind(self, pid: int) -> str:
        """By the file that it counts in."""
        if pid not in self._kinds:
            with contextlib.suppress(OSError):
                found = _PLACE.search(Path(f"/proc/{pid}/maps").read_text())
                if found is None:
                    return "other"
                self._kinds[pid] = found[1]
        return self._kinds.get(pid, "other")

    def _counts(self) -> tuple[int, int, int]:
        """Pages fetched, pages parsed, bytes received."""
        total = counters.total(list(counters.read_all(self._data / "metrics").values()))
        return int(total[_FETCHED]), int(total[_PARSED]), int(total[_RECEIVED])


def crawl_command(web: ServedWeb, ask: Ask, store: str) -> list[str]:
    """The flags of a crawl, for `crawl` and for `resume`."""
    return [
        *("--email", "benchmark@example.org", "--delay", "0", "--quiet", "--json", "--store", store),
        *("--connect-to", f"http=127.0.0.1:{web.http_port},https=127.0.0.1:{web.https_port}"),
        *("--allow-private-addresses", "--max-pages", str(ask.warm_up + ask.pages)),
        *("--num-fetcher-processes", str(ask.fetchers), "--num-parser-processes", str(ask.parsers)),
        *SPOOL_LIMITS,
        *("--ui-port", str(free_port()), "--metrics-port", str(free_port())),
    ]


@contextlib.contextmanager
def running(data: Path, words: list[str], place: Place) -> Iterator[Crawl]:
    """A crawl that is over, and whose files are gone, when the block is left."""
    crawl = Crawl(data, [sys.executable, "-P", "-m", "gossamer", *words], place.server)
    try:
        yield crawl
    finally:
        crawl.end()
        shutil.rmtree(data, ignore_errors=True)


def store_of(place: Place) -> str:
    return "sqlite" if place.kind == "sqlite" else place.address


def measure(directory: Path, web: ServedWeb, place: Place, ask: Ask) -> Measured:
    """A new crawl from the seeds."""
    data = directory / "crawl"
    words = ["crawl", "--data-dir", str(data), "--seed-file", str(web.seeds), *crawl_command(web, ask, store_of(place))]
    with running(data, words, place) as crawl:
        fetching = crawl.until_fetched(ask.warm_up)
        parsing = crawl.until_parsed(ask.warm_up)
        ended = crawl.until_ended()
        kept = directory_bytes(data)
        peak = crawl.peak_bytes
    if place.server is not None:
        kept += directory_bytes(place.directory)
    return measured(place.kind, web.scheme, fetching, parsing, ended, peak_bytes=peak, kept_bytes=kept)


def measured(
    system: str,
    scheme: str,
    fetching: Reading,
    parsing: Reading,
    ended: Reading,
    *,
    peak_bytes: int,
    kept_bytes: int,
) -> Measured:
    """Per page, from the moments at which fetchers and parsers were warm; what is kept is of the whole crawl."""
    fetched, parsed = ended.fetched - fetching.fetched, ended.parsed - parsing.parsed
    if fetched <= 0 or parsed <= 0:
        raise GossamerError("the crawl ended within its warm-up; ask for more pages")
    store = ended.store.since(parsing.store)
    cpu = {
        FETCHER: (ended.fetcher_seconds - fetching.fetcher_seconds) * 1e3 / fetched,
        PARSER: (ended.parser_seconds - parsing.parser_seconds) * 1e3 / parsed,
    }
    if store.cpu_seconds:
        cpu[STORE] = store.cpu_seconds * 1e3 / parsed
    return Measured(
        system=system,
        scheme=scheme,
        pages=parsed,
        cpu=cpu,
        pages_per_second=parsed / (ended.at - parsing.at),
        peak_bytes=peak_bytes,
        written_bytes=(ended.written_bytes - parsing.written_bytes + store.written_bytes) / parsed,
        kept_bytes=kept_bytes / ended.parsed,
        received_bytes=(ended.received_bytes - fetching.received_bytes) / fetched,
    )
