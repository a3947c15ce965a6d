"""What each store takes per URL: `python -m benchmarks.frontier [--stores S …] [--known N …] [--sites N] …`.

The frontier grows through `admit` itself to each of the sizes, from one URL of each site. Candidates are drawn as pages
have them: of 100 links 60 lead to the page's own site and ten each to four others, all drawn evenly. CPU time of the
client is that of the whole process while it waits for a call, a store's thread included. CPU time of the server is that
of all its processes from the beginning of a measurement to its end, whatever they did. Of several rounds the one with
the least time is shown; while growing there is but one, with all that a server does beside its calls.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.frontier.bench import Bench
from benchmarks.frontier.crowd import PROCESSES, together
from benchmarks.frontier.places import KINDS, Place, place
from benchmarks.frontier.sizes import sizes
from benchmarks.frontier.spent import yardstick
from benchmarks.frontier.statements import watched
from benchmarks.frontier.tables import Column, show

#: Each of four processes leases 64 sites a second, and none of them is due again for 70 seconds.
LEAST_SITES = 50_000


async def measure(here: Place, sites: int, known: list[int], columns: list[Column]) -> None:
    """An empty place, size by size."""
    async with Bench(here, sites) as bench:
        spent = {"seeds, each of a new site, batches of 2,000": bench.seeded}
        for number, size in enumerate(known):
            began_at = time.perf_counter()
            spent |= await bench.grow(size)
            spent |= await bench.measures()
            spent |= await bench.long_cycle()
            await bench.other_calls()
            in_server: dict[str, list[float]] = {}
            took = bench.take_calls()
            async with watched(here, in_server):
                await bench.once_each()
            bench.take_calls()
            room = await sizes(here, await bench.counts())
            crowd = together(here, sites, await bench.disown(), 1 + number * PROCESSES)
            await bench.own(crowd.now)
            columns.append(
                Column(
                    size,
                    spent | crowd.spent,
                    crowd.urls_per_second,
                    took | crowd.took,
                    in_server,
                    room,
                    time.perf_counter() - began_at,
                    yardstick(),
                    os.getloadavg()[0],
                )
            )
            spent = {}
            sys.stderr.write(f"{here.kind} at {size:,}: {columns[-1].seconds:.0f} s\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--known", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--sites", type=int, default=100_000)
    parser.add_argument(
        "--directory",
        help="where the frontiers are made; of a real disk, and open to other users for PostgreSQL as root",
    )
    given = parser.parse_args()
    if given.sites < LEAST_SITES:
        parser.error(f"--sites: at least {LEAST_SITES:,}, or too few of them would be due at a time")
    # The private servers put themselves there too.
    tempfile.tempdir = given.directory
    print(f"CPython {platform.python_version()}, {given.sites:,} sites")
    figures: dict[str, list[Column]] = {}
    try:
        for kind in given.stores:
            with tempfile.TemporaryDirectory() as directory, place(kind, Path(directory)) as here:
                print(here.version)
                columns = figures[kind] = []
                asyncio.run(measure(here, given.sites, sorted(given.known), columns))
    finally:
        # What was measured is not lost when something breaks, or somebody does not want to wait any longer.
        print("\n".join(show({kind: columns for kind, columns in figures.items() if columns})))


if __name__ == "__main__":
    main()
