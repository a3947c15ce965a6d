"""What the embedded store takes per URL: `python -m benchmarks.frontier [--known N …] [--sites N] [--directory D]`.

The frontier grows through `admit` itself to each of the sizes, from one URL of each site. Candidates are drawn as pages
have them: of 100 links 60 lead to the page's own site and ten each to four others, all drawn evenly. CPU time is
that of the whole process, the store's thread and its checkpoints included; what is written goes to the log, and from
there to the file. Of several rounds the one with the least time is shown.
"""

import argparse
import asyncio
import platform
import random
import sqlite3
import tempfile
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.records import Candidate, Destination, Finished, Move, Reason, Release, SiteClock
from gossamer.url import stable_hash

SLOTS = 64
ROUNDS = 3
#: URLs of one measurement and round.
URLS = 19_200
CYCLE = 64
DELAY_SECONDS = 70.0
LIMITS = AdmitLimits()
#: CPU microseconds per URL, as far as there is an aim.
AIMS = {"admit": 8, "cycle": 40}


class Spent(NamedTuple):
    """On one URL."""

    cpu_microseconds: float
    written_kib: float

    def __str__(self) -> str:
        return f"{self.cpu_microseconds:.1f} ({self.written_kib:.1f})"


class Links:
    """Draws candidates. Each site's URLs are numbered, so that any that was ever drawn can be named again."""

    def __init__(self, sites: int) -> None:
        self._random = random.Random(4)
        self._known = array("I", bytes(4 * sites))

    def pages(self, count: int, *, are_new: bool) -> list[Candidate]:
        """The links of so many pages, 100 of each."""
        links = []
        for _ in range(count):
            for number in (60, 10, 10, 10, 10):
                site = self._random.randrange(len(self._known))
                links += [self._link(site, are_new=are_new) for _ in range(number)]
        return links

    def seeds(self) -> list[Candidate]:
        return [self._link(site, are_new=True) for site in range(len(self._known))]

    def scattered(self, count: int) -> list[Candidate]:
        """New links, each to a site of its own: the worst that a page can do."""
        return [self._link(self._random.randrange(len(self._known)), are_new=True) for _ in range(count)]

    def _link(self, site: int, *, are_new: bool) -> Candidate:
        if are_new:
            number = self._known[site]
            self._known[site] += 1
        else:
            number = self._random.randrange(self._known[site])
        name = f"site-{site}.example"
        url = f"https://www.{name}/section-{number % 7}/{number}-a-title-of-some-length.html"
        return Candidate(url, name, stable_hash(url), depth=3)


class Bench:
    """One frontier, and the measurements on it. Its time is made up: a second passes with each lease."""

    def __init__(self, path: Path, sites: int) -> None:
        self._path = path
        self._store = SqliteStore(path, SLOTS)
        self._links = Links(sites)
        self._known = 0
        self._now = 1e9
        self._calls = 0
        self._epochs: dict[int, int] = {}
        self.seeded = Spent(0.0, 0.0)

    async def __aenter__(self) -> Self:
        await self._store.open()
        self._epochs = await self._store.own(
            "benchmark", range(SLOTS), now=self._now, until=2 * self._now, delay_seconds=DELAY_SECONDS
        )
        seeds = self._links.seeds()
        self.seeded = await self._per_url(lambda: self._admit(seeds, 2_000), len(seeds))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def grow(self, known: int) -> Spent:
        return await self._per_url(lambda: self._grow(known), max(1, known - self._known))

    async def _grow(self, known: int) -> float:
        """CPU seconds; making the candidates does not count."""
        spent = 0.0
        while self._known < known:
            spent += await self._admit(self._links.pages(20, are_new=True), 2_000)
        return spent

    @staticmethod
    async def _per_url(work: Callable[[], Awaitable[float]], urls: int) -> Spent:
        before = written_bytes()
        spent = await work()
        return Spent(spent * 1e6 / urls, (written_bytes() - before) / 1024 / urls)

    async def _admit(self, candidates: Sequence[Candidate], batch: int) -> float:
        batches = [candidates[begin : begin + batch] for begin in range(0, len(candidates), batch)]
        began = time.process_time()
        answers = [await self._store.admit(links, LIMITS) for links in batches]
        spent = time.process_time() - began
        self._known += sum(answer.count(Reason.NEW) for answer in answers)
        return spent

    async def measures(self) -> dict[str, Spent]:
        works: dict[str, Callable[[], Awaitable[float]]] = {
            "admit, new, batches of 100": lambda: self._admit_pages(100, are_new=True),
            "admit, new, batches of 2,000": lambda: self._admit_pages(2_000, are_new=True),
            "admit, seen, batches of 100": lambda: self._admit_pages(100, are_new=False),
            "admit, seen, batches of 2,000": lambda: self._admit_pages(2_000, are_new=False),
            "worst: new, 2,000, every URL on another site": self._admit_scattered,
            "cycle: lease, release, spool, finish 64": self._cycle,
        }
        rounds = [{name: await self._per_url(work, URLS) for name, work in works.items()} for _ in range(ROUNDS)]
        return {name: min(figures[name] for figures in rounds) for name in works}

    async def _admit_pages(self, batch: int, *, are_new: bool) -> float:
        return await self._admit(self._links.pages(URLS // 100, are_new=are_new), batch)

    async def _admit_scattered(self) -> float:
        return await self._admit(self._links.scattered(URLS), 2_000)

    async def _cycle(self) -> float:
        """The caller's own work, making the records, does not count."""
        spent = 0.0
        for _ in range(URLS // CYCLE):
            self._calls += 1
            self._now += 1.0
            segment = f"00001-000-{self._calls:08d}"
            began = time.process_time()
            given = await self._store.lease(
                f"call-{self._calls}", self._epochs, CYCLE, now=self._now, delay_seconds=DELAY_SECONDS, max_pages=0
            )
            spent += time.process_time() - began
            assert len(given.leases) == CYCLE, "too few sites are due"
            clock = SiteClock(self._now)
            releases = [Release(lease, True, self._now + DELAY_SECONDS, clock) for lease in given.leases]
            moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in given.leases]
            finished = [
                Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 20_000)
                for lease in given.leases
            ]
            began = time.process_time()
            await self._store.release(releases)
            await self._store.spool(segment, moves)
            await self._store.finish(finished)
            spent += time.process_time() - began
        return spent

    async def bytes_per_url(self) -> dict[str, str]:
        """Of the pages of each table; needs SQLite's dbstat, which not every build has."""
        counts = await self._store.counts(now=self._now)
        connection = sqlite3.connect(self._path)
        sizes = dict(
            connection.execute(
                "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) WHERE aggregate = 1"
                " GROUP BY tbl_name"
            ).fetchall()
        )
        connection.close()
        return {
            "bytes per seen URL": f"{sizes['seen'] / counts.admitted:.1f}",
            "bytes per queued URL": f"{sizes['blocks'] / counts.queued:.1f}",
            "bytes per site": f"{sizes['sites'] / counts.sites:.1f}",
        }


def written_bytes() -> int:
    """By this process so far; 0 where the system does not tell."""
    source = Path("/proc/self/io")
    return int(source.read_text().partition("wchar: ")[2].split()[0]) if source.exists() else 0


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--sites", type=int, default=100_000)
    parser.add_argument("--directory", help="where the frontier is made; of a real disk")
    given = parser.parse_args()
    columns: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        async with Bench(Path(directory) / "frontier.db", given.sites) as bench:
            for known in sorted(given.known):
                growth = await bench.grow(known)
                figures = await bench.measures()
                rows = {"admit, while growing to this size": growth} | figures
                columns.append({name: str(spent) for name, spent in rows.items()} | await bench.bytes_per_url())
    print(f"CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {given.sites:,} sites\n")
    print(f"seeds, each of a new site, batches of 2,000: {bench.seeded}\n")
    header = "CPU µs (KiB written) per URL, known URLs:"
    print(f"{header:<48}{''.join(f'{known:>14,}' for known in sorted(given.known))}{'aim':>6}")
    for name in columns[0]:
        aim = AIMS.get(name.replace(":", ",").partition(",")[0], "—")
        print(f"{name:<48}{''.join(f'{column[name]:>14}' for column in columns)}{aim:>6}")


if __name__ == "__main__":
    asyncio.run(main())
