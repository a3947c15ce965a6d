"""Three witnesses of one crawl compared: the log of the web's server, the store, and the files of the sinks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import msgspec

from gossamer.frontier.store import Counts
from gossamer.records import Reason
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import Audit, Offence
from gossamer.testing.audit.rules import Rules
from gossamer.testing.holdings import holdings
from gossamer.testing.web.access_log import Request
from gossamer.testing.web.graph import Web

#: Outcomes that a web without faults of its own does not explain: they are what a death made of a URL.
_OF_DEATHS = frozenset({Reason.RETURNED, Reason.PARSE_CRASH})
#: More of the same say nothing more.
_SHOWN_FAULTS = 10
#: A segment closes at 8 MiB; the outcome that closes it may have a body of 10 MiB, and robots.txt files beside it.
MOST_SEGMENT_BYTES = 20 << 20


class Forgiven(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl that was broken may do that another may not."""

    repeats: int = 0
    fetcher_deaths: int = 0
    abort_lateness_seconds: float = 0.0
    """How late the web's server may have seen a death. None where the attack waited for it, which it cannot where the
    leader ended a fetcher by itself."""


class Findings(msgspec.Struct, kw_only=True):
    """What the witnesses say; nothing is wrong if and only if `is_clean`."""

    requests: int
    cut_off: int
    repeats: int
    shortest_gap_seconds: float | None
    pages: int
    urls_lost: int
    """Reachable and never answered, admitted and not finished, or finished only because processes died."""
    pages_missing: int
    """Expected in the files, or counted by the store, and not there."""
    pages_doubled: int
    pages_unexpected: int
    gaps_short: int
    overlaps: int
    others: list[str] = []
    """Everything else that is wrong, in words."""
    examples: list[str] = []

    @property
    def is_clean(self) -> bool:
        wrong = (self.urls_lost, self.pages_missing, self.pages_doubled, self.pages_unexpected)
        return not any((*wrong, self.gaps_short, self.overlaps, self.others))


def check(
    data: Path,
    requests: Iterable[Request],
    web: Web,
    counts: Counts,
    *,
    delay_seconds: float,
    forgiven: Forgiven,
    beside: AbstractSet[str] = frozenset(),
    largest_segment_bytes: int = 0,
) -> Findings:
    """For a crawl of all of a web, from all of its home pages, that has come to its end; nothing may run any more.

    `beside` are the hosts of hostile sites that were crawled with it. What becomes of each of their URLs is not judged,
    only that the good web is as whole as without them.
    """
    judged = audit(
        [request for request in requests if request.host not in beside],
        web,
        Rules(
            seeds=web.seeds(),
            delay_seconds=delay_seconds,
            files=False,
            repeats=forgiven.repeats,
            restarts=forgiven.fetcher_deaths,
            abort_lateness_seconds=forgiven.abort_lateness_seconds,
        ),
    )
    others: list[str] = []
    all_times = _pages(data, others)
    times = Counter({url: count for url, count in all_times.items() if urlsplit(url).netloc not in beside})
    expected = _expected_pages(web)
    missing = expected - times.keys()
    unexpected = times.keys() - expected
    doubled = [url for url, count in times.items() if count > 1]
    unfinished = counts.admitted - counts.finished
    if counts.leased or counts.spooled:
        others.append(f"the store has {counts.leased} leased and {counts.spooled} spooled")
    if counts.pages != all_times.total():
        others.append(f"the store counts {counts.pages} pages, the files hold {all_times.total()}")
    if largest_segment_bytes > MOST_SEGMENT_BYTES:
        others.append(f"a segment of {largest_segment_bytes:,} bytes")
    others += _leftovers(data)
    charges = {finding.offence: finding for finding in judged.findings}
    own = {Offence.NEVER_FETCHED, Offence.CUT_OFF, Offence.TOO_SOON, Offence.OVERLAP}
    others += [f"{found.offence}: {found.count}" for offence, found in charges.items() if offence not in own]
    # One that is slow is in flight at every death of its fetcher, and may be given up for that.
    of_crowd = {Reason.RETURNED: len(beside)}
    by_death = {
        reason: count
        for reason in _OF_DEATHS
        if (count := counts.outcomes.get(reason, 0) - of_crowd.get(reason, 0)) > 0
    }
    return Findings(
        requests=judged.counts.requests,
        cut_off=judged.counts.cut_off,
        repeats=judged.counts.repeats,
        shortest_gap_seconds=judged.counts.shortest_gap_seconds,
        pages=times.total(),
        urls_lost=_count(judged, Offence.NEVER_FETCHED)
        + _count(judged, Offence.CUT_OFF)
        + abs(unfinished)
        + sum(by_death.values()),
        pages_missing=max(len(missing), counts.pages - len(all_times)),
        pages_doubled=len(doubled),
        pages_unexpected=len(unexpected),
        gaps_short=_count(judged, Offence.TOO_SOON),
        overlaps=_count(judged, Offence.OVERLAP),
        others=others,
        examples=[
            *_examples("missing", missing),
            *_examples("doubled", doubled),
            *_examples("unexpected", unexpected),
            *(f"{reason}: {count}" for reason, count in by_death.items()),
            *(f"admitted {counts.admitted}, finished {counts.finished}" for _ in range(unfinished != 0)),
            *(f"{found.offence}: {found.examples[0]}" for found in judged.findings),
        ],
    )


def _count(judged: Audit, offence: Offence) -> int:
    return sum(finding.count for finding in judged.findings if finding.offence is offence)


def _examples(what: str, urls: Sequence[str] | AbstractSet[str]) -> list[str]:
    return [f"{what}: {url}" for url in sorted(urls)[:3]]


def _expected_pages(web: Web) -> set[str]:
    reachable = web.reachable(web.seeds(), files=False)
    return {url for url in reachable if web.answer(url, attempt=web.busy_attempts).is_page}


def _pages(data: Path, others: list[str]) -> Counter[str]:
    """How often the table has each page; what is wrong with the files goes to the others."""
    try:
        held = holdings(data)
    except duckdb.Error as error:
        others.append(f"the tables cannot be read: {error}")
        return Counter()
    others += held.faults[:_SHOWN_FAULTS]
    for name, found in {"archives": held.archived, "index": held.indexed, "log": held.logged}.items():
        if found != held.tabled:
            others.append(
                f"the {name} and the table of pages differ in {len((found - held.tabled) + (held.tabled - found))}"
            )
    times: Counter[str] = Counter()
    for (url, _), count in held.tabled.items():
        times[url] += count
    return times


def _leftovers(data: Path) -> list[str]:
    """Segments, commit records and quarantined files that nobody will take up again."""
    places = ("spool/open/*", "spool/ready/*", "spool/claimed/*/*", "spool/quarantine/*", "commit/*")
    return [f"{file.relative_to(data)} is left" for place in places for file in sorted(data.glob(place))]
