"""`python -m gossamer.testing.nemesis`: the whole campaign, or a part of it; exit code 1 if anything did not hold."""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from gossamer.fetch.slots_held import TIME_TO_LIVE_SECONDS
from gossamer.testing.nemesis.campaign import campaign, missed
from gossamer.testing.nemesis.events import BEYOND_SECONDS, CAMPAIGN, Deed, plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gossamer.testing.nemesis", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the schedule and the webs; drawn and printed by default")
    parser.add_argument("--only", choices=[*Deed], help="events of one kind, as many as in a campaign")
    parser.add_argument("--rounds", type=int, help="no more crawls than these, the first of the plan")
    parser.add_argument("--crawl", type=int, help="this one crawl of the plan, as its line names it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the totals, for programs")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where broken crawls are kept to be looked into")
    given = parser.parse_args()
    # So that what was started is ended with us.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    seed = random.SystemRandom().randrange(1 << 31) if given.seed is None else given.seed
    counts = {deed: count for deed, count in CAMPAIGN.items() if given.only in {None, deed}}
    crawls = plan(seed, counts, long_stop_seconds=TIME_TO_LIVE_SECONDS + BEYOND_SECONDS)
    keep_in = given.keep or Path(tempfile.gettempdir()) / f"gossamer-nemesis-{seed}"
    numbers = list(range(len(crawls)))[: given.rounds] if given.crawl is None else [given.crawl]
    _tell(
        f"seed {seed}, {len(crawls)} crawls planned, of which {len(numbers)} are run; what breaks is kept in {keep_in}"
    )
    planned = [crawls[number] for number in numbers]
    totals = campaign(planned, seed, _tell, first=numbers[0], may_add=len(planned) == len(crawls), keep_in=keep_in)
    for name, value in totals.rows():
        _tell(f"{name:<22}{value}")
    not_done = missed(totals, planned)
    if not_done:
        _tell(f"planned, and not come to: {', '.join(f'{count} {deed}' for deed, count in not_done.items())}")
    if given.json is not None:
        given.json.write_bytes(msgspec.json.encode(totals))
    return 1 if totals.broken or (not_done and len(planned) == len(crawls)) else 0


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
