"""CPU time and memory of an audit: `python -m benchmarks.audit [--sites N] [--pages P] [--processes N]`.

The log is that of an honest crawl of the simulated web, in the files of several server processes. It is audited twice:
by the rules that it was made by, and by a longer delay, which makes nearly every request an offence.
"""

import argparse
import multiprocessing
import platform
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.audit.honest import DELAY_SECONDS, write_logs
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web.access_log import read
from gossamer.testing.web.graph import Web

AIM_SECONDS_PER_MILLION = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=1_110)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    web = Web(sites=given.sites, pages=given.pages)
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / f"access-{number}.log" for number in range(given.processes)]
        # In a process of its own: what it takes to make a log must not count as the auditor's memory.
        maker = multiprocessing.get_context("spawn").Process(target=write_logs, args=(web, files))
        maker.start()
        maker.join()
        count = sum(1 for _ in read(files))
        print(f"CPython {platform.python_version()}, {count:,} records in {given.processes} files\n")
        print(f"{'CPU seconds (user + system)':<40}{'in all':>10}{'per 10^6':>10}{'aim':>6}")
        for name, work in (
            ("reading alone", lambda: sum(1 for _ in read(files))),
            ("the reachable set alone", lambda: len(web.reachable(web.seeds()))),
            ("audit: an honest log", lambda: judged(web, files, DELAY_SECONDS)),
            ("audit: nearly every request too soon", lambda: judged(web, files, 2 * DELAY_SECONDS)),
        ):
            began = time.process_time()
            answer = work()
            spent = time.process_time() - began
            aim = f"{AIM_SECONDS_PER_MILLION:g}" if name.startswith("audit") else "—"
            print(f"{name:<40}{spent:>10.2f}{spent * 1e6 / count:>10.2f}{aim:>6}  {answer}")
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    print(f"\nlargest resident set {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6:,.0f} MB")


def judged(web: Web, files: list[Path], delay_seconds: float) -> str:
    return audit(read(files), web, Rules(seeds=web.seeds(), delay_seconds=delay_seconds)).verdict


if __name__ == "__main__":
    main()
