"""`python -m gossamer.testing.nemesis`: the whole campaign, or a part of it; exit code 1 if anything did not hold."""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from gossamer.fetch.slots_held import TIME_TO_LIVE_SECONDS
from gossamer.testing.nemesis.campaign import Totals, campaign, missed
from gossamer.testing.nemesis.events import BEYOND_SECONDS, LONG_STOPS, Deed, counts_of, plan
from gossamer.testing.nemesis.stores import KINDS, attacked_store
from gossamer.testing.server_binaries import ServerUnavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gossamer.testing.nemesis", description=__doc__)
    parser.add_argument(
        "--store",
        choices=KINDS,
        help="all that a campaign has against this one; by default against"
        " each in turn, and what is not done to servers is divided among them",
    )
    parser.add_argument("--seed", type=int, help="of the schedule and the webs; drawn and printed by default")
    parser.add_argument("--only", choices=[*Deed], help="events of one kind, as many as in a campaign")
    parser.add_argument("--rounds", type=int, help="no more crawls than these on each store, the first of the plan")
    parser.add_argument("--crawl", type=int, help="this one crawl of the plan, as its line names it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the totals of each store, for programs")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where broken crawls are kept to be looked into")
    given = parser.parse_args()
    # So that what was started is ended with us.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    seed = random.SystemRandom().randrange(1 << 31) if given.seed is None else given.seed
    kinds = KINDS if given.store is None else (given.store,)
    results = [_against(kind, seed, given, share=len(kinds)) for kind in kinds]
    if given.json is not None:
        given.json.write_bytes(msgspec.json.encode([totals for totals, _ in results]))
    return 0 if all(is_whole for _, is_whole in results) else 1


def _against(kind: str, seed: int, given: argparse.Namespace, *, share: int) -> tuple[Totals, bool]:
    """The campaign against one store; whether all of it happened, and nothing was wrong."""
    counts = counts_of(has_server=kind != "sqlite", share=share)
    crawls = plan(
        seed,
        {deed: count for deed, count in counts.items() if given.only in {None, deed}},
        long_stop_seconds=TIME_TO_LIVE_SECONDS + BEYOND_SECONDS,
        long_stops=-(-LONG_STOPS // share),
    )
    keep_in = given.keep or Path(tempfile.gettempdir()) / f"gossamer-nemesis-{seed}"
    numbers = list(range(len(crawls)))[: given.rounds] if given.crawl is None else [given.crawl]
    _tell(
        f"{kind}: seed {seed}, {len(crawls)} crawls planned, of which {len(numbers)} are run;"
        f" what breaks is kept in {keep_in / kind}"
    )
    planned = [crawls[number] for number in numbers]
    is_whole = len(planned) == len(crawls)
    try:
        with attacked_store(kind) as store:
            totals = campaign(planned, store, seed, _tell, first=numbers[0], may_add=is_whole, keep_in=keep_in / kind)
    except ServerUnavailable as error:
        _tell(f"{kind}: not attacked: {error}")
        return Totals(store=kind, seed=seed), False
    for name, value in totals.rows():
        _tell(f"{name:<22}{value}")
    not_done = missed(totals, planned)
    if not_done:
        _tell(f"planned, and not come to: {', '.join(f'{count} {deed}' for deed, count in not_done.items())}")
    return totals, not totals.broken and not (not_done and is_whole)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
