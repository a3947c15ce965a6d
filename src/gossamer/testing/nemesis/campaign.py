"""A campaign: crawls, one after the other, until every kind of event has happened as often as it was asked for."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gossamer.run.data_directory import DataDirectory
from gossamer.testing.nemesis.attack import Attack
from gossamer.testing.nemesis.checker import Findings, Forgiven, check
from gossamer.testing.nemesis.events import EVENTS_PER_CRAWL, LARGE_STALL_SECONDS, Deed, Event
from gossamer.testing.nemesis.stores import AttackedStore
from gossamer.testing.nemesis.story import Story
from gossamer.testing.web import access_log
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import row_urls
from gossamer.testing.web.processes import WebProcesses


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What is crawled, and how fast."""

    delay_seconds: float
    web: Web
    is_crowded: bool = False
    """Hostile sites are crawled beside it, from the same servers: the good web must be as whole as without them."""
    flags: tuple[str, ...] = ()


#: In turn: many short gaps, which nothing may cut shorter; and gaps longer than a restart takes, after long requests,
#: so that one which the dead had begun and the next one to its site is judged by the gap between them. Either keeps two
#: cores half busy, and lasts half a minute: long enough for its events.
GROUNDS = (
    Ground(
        delay_seconds=0.3,
        web=Web(
            sites=60,
            pages=50,
            links_per_page=30,
            median_bytes=4_000,
            https_share=0.2,
            crawl_delay_seconds=0.5,
            latency_median_seconds=0.08,
        ),
    ),
    Ground(
        delay_seconds=2.0,
        web=Web(
            sites=200,
            pages=12,
            links_per_page=30,
            median_bytes=4_000,
            https_share=0.2,
            crawl_delay_seconds=2.5,
            latency_median_seconds=0.5,
        ),
    ),
)
#: Rows of the hostile catalogue: bursts, slow large bodies and tarpits. None of them asks for more time than a crawl
#: lasts.
CROWD_ROWS = (51, 52, 54)
#: Large bodies from all sites at once, with the crowd beside them. In a stall of the store up to 100 MB are in flight.
LARGE_GROUND = Ground(
    delay_seconds=1.0,
    web=Web(
        sites=120,
        pages=8,
        links_per_page=20,
        median_bytes=600_000,
        size_sigma=0.3,
        crawl_delay_seconds=1.5,
        latency_median_seconds=0.3,
    ),
    is_crowded=True,
    # So that the tarpits are given up within the time that the crawl lasts anyway.
    flags=("--header-timeout=10", "--fetch-timeout=20"),
)
#: Every so many crawls, and those whose store stands still for long.
LARGE_EVERY = 4

#: A fetcher of 50 workers has at most 100 leases and a segment of outcomes: the bound on what is asked for twice.
FLAGS = ("--num-fetcher-processes=3", "--num-parser-processes=2", "--fetcher-workers=50")

#: Crawls beyond the plan, for events whose crawl was over before their time came.
_MOST_FURTHER_CRAWLS = 10
#: How late a busy server sees that a client has left; as in `audit.rules.Rules`.
_SERVER_LATENESS_SECONDS = 0.25


class Trial(msgspec.Struct, frozen=True):
    """One crawl: what was done to it, and what the checker says."""

    number: int
    story: Story
    findings: Findings

    @property
    def is_clean(self) -> bool:
        return self.findings.is_clean and not self.story.failures

    @property
    def line(self) -> str:
        story, found = self.story, self.findings
        times = Counter(str(event.deed) for event in story.done)
        done = ", ".join(f"{count} {deed}" for deed, count in sorted(times.items()))
        gap = "none" if found.shortest_gap_seconds is None else f"{found.shortest_gap_seconds:.3f} s"
        return (
            f"crawl {self.number}: {story.seconds:.0f} s, {done}; {story.resumes} resumes,"
            f" {found.requests} requests, {found.pages} pages, {found.cut_off} cut off,"
            f" {found.repeats} repeated of {story.repeats_allowed} leased, shortest gap {gap}"
            f": {'clean' if self.is_clean else 'BROKEN'}"
        )

    def complaints(self) -> Iterator[str]:
        found = self.findings
        for what, number in (
            ("URLs lost", found.urls_lost),
            ("pages missing", found.pages_missing),
            ("pages doubled", found.pages_doubled),
            ("pages unexpected", found.pages_unexpected),
            ("short gaps", found.gaps_short),
            ("overlaps", found.overlaps),
        ):
            if number:
                yield f"{what}: {number}"
        yield from found.others
        yield from found.examples if not found.is_clean else ()
        yield from self.story.failures


class Totals(msgspec.Struct, kw_only=True):
    """Of a whole campaign against one store, for people (`rows`) and as JSON for programs."""

    store: str
    seed: int
    crawls: int = 0
    broken: list[int] = []
    events: Counter[str] = msgspec.field(default_factory=Counter)
    long_stops: int = 0
    caught_writing: int = 0
    deaths: Counter[str] = msgspec.field(default_factory=Counter)
    resumes: int = 0
    gave_up: int = 0
    replaced: int = 0
    largest_segment_bytes: int = 0
    requests: int = 0
    cut_off: int = 0
    repeats: int = 0
    repeats_allowed: int = 0
    pages: int = 0
    urls_lost: int = 0
    pages_missing: int = 0
    pages_doubled: int = 0
    pages_unexpected: int = 0
    gaps_short: int = 0
    overlaps: int = 0
    other_findings: int = 0
    shortest_gap_seconds: float | None = None
    seconds: float = 0.0

    def add(self, trial: Trial) -> None:
        story, found = trial.story, trial.findings
        self.crawls += 1
        if not trial.is_clean:
            self.broken = [*self.broken, trial.number]
        self.events.update(str(event.deed) for event in story.done)
        self.long_stops += sum(event.is_long for event in story.done)
        self.deaths.update(story.deaths)
        self.largest_segment_bytes = max(self.largest_segment_bytes, story.largest_segment_bytes)
        for name in ("caught_writing", "resumes", "gave_up", "replaced", "repeats_allowed", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(story, name))
        for name in ("requests", "cut_off", "repeats", "pages", "urls_lost", "pages_missing", "pages_doubled"):
            setattr(self, name, getattr(self, name) + getattr(found, name))
        for name in ("pages_unexpected", "gaps_short", "overlaps"):
            setattr(self, name, getattr(self, name) + getattr(found, name))
        self.other_findings += len(found.others) + len(story.failures)
        gaps = [gap for gap in (self.shortest_gap_seconds, found.shortest_gap_seconds) if gap is not None]
        self.shortest_gap_seconds = min(gaps, default=None)

    def rows(self) -> Iterator[tuple[str, str]]:
        for name, value in msgspec.to_builtins(self).items():
            shown = value
            if isinstance(value, dict):
                shown = ", ".join(f"{count} {key}" for key, count in sorted(value.items()))
            elif isinstance(value, float):
                shown = f"{value:.3f}"
            yield name.replace("_", " "), str(shown)


def attack(
    number: int,
    events: Sequence[Event],
    store: AttackedStore,
    *,
    web: Web,
    delay_seconds: float,
    flags: Sequence[str] = FLAGS,
    beside: Sequence[str] = (),
    keep_in: Path | None = None,
) -> Trial:
    """One crawl. If something is wrong with it, what it left is kept in a directory of `keep_in`, if that is given."""
    with tempfile.TemporaryDirectory(prefix="nemesis-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        with WebProcesses(web, log_directory=directory / "web", hostile=bool(beside)) as serving:
            story = Attack(
                directory, serving, store, events, delay_seconds=delay_seconds, flags=flags, beside=beside
            ).run()
        forgiven = Forgiven(
            repeats=story.repeats_allowed,
            fetcher_deaths=story.fetcher_deaths,
            abort_lateness_seconds=_SERVER_LATENESS_SECONDS if story.replaced else 0.0,
        )
        requests = list(access_log.read(serving.log_files))
        data = DataDirectory(directory / "crawl")
        counts = store.counts(data)
        findings = check(
            data.root,
            requests,
            web,
            counts,
            delay_seconds=delay_seconds,
            forgiven=forgiven,
            beside={urlsplit(url).netloc for url in beside},
            largest_segment_bytes=story.largest_segment_bytes,
        )
        trial = Trial(number, story, findings)
        store.clear(data)
        if keep_in is not None and not trial.is_clean:
            keep_in.mkdir(parents=True, exist_ok=True)
            directory.rename(keep_in / f"crawl-{number}-{directory.name}")
    return trial


def crowd() -> list[str]:
    """Seeds of the hostile sites that are crawled beside a good web."""
    return [url for row in CROWD_ROWS for url in row_urls(row)]


def ground_of(number: int, events: Sequence[Event]) -> Ground:
    """What a crawl of the plan is to crawl: drawn from its number and from what is done to it."""
    stalls = any(event.deed is Deed.SERVER_STOP and event.stopped_seconds >= LARGE_STALL_SECONDS for event in events)
    if stalls or number % LARGE_EVERY == LARGE_EVERY - 1:
        return LARGE_GROUND
    return GROUNDS[number % len(GROUNDS)]


def campaign(
    crawls: Sequence[Sequence[Event]],
    store: AttackedStore,
    seed: int,
    tell: Callable[[str], None],
    *,
    first: int = 0,
    may_add: bool = True,
    keep_in: Path | None = None,
) -> Totals:
    """All these crawls of a plan, then further ones for what was left over; each has a web of its own.

    `first` is the number of the first of them: it is part of what its web is drawn from.
    """
    totals = Totals(store=store.kind, seed=seed)
    waiting = [list(events) for events in crawls]
    most = first + len(waiting) + (_MOST_FURTHER_CRAWLS if may_add else 0)
    left: list[Event] = []
    number = first
    while waiting and number < most:
        events = waiting.pop(0)
        tell(f"crawl {number} on {store.kind}: {'; '.join(map(str, events))}")
        ground = ground_of(number, events)
        trial = attack(
            number,
            events,
            store,
            web=msgspec.structs.replace(ground.web, seed=seed + number),
            delay_seconds=ground.delay_seconds,
            flags=(*FLAGS, *ground.flags),
            beside=crowd() if ground.is_crowded else (),
            keep_in=keep_in,
        )
        totals.add(trial)
        tell(trial.line)
        for complaint in trial.complaints():
            tell(f"  {complaint}")
        left += trial.story.left
        if not waiting and left:
            waiting, left = [left[:EVENTS_PER_CRAWL]], left[EVENTS_PER_CRAWL:]
        number += 1
    return totals


def missed(totals: Totals, crawls: Sequence[Sequence[Event]]) -> Counter[str]:
    """What was planned and did not happen."""
    planned = Counter(str(event.deed) for events in crawls for event in events)
    return Counter({str(deed): planned[deed] - totals.events[deed] for deed in Deed if planned[deed]}) + Counter()
