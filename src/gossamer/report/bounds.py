"""What keeps a crawl from going faster. Pure: `bound` judges one sample; the leader asks it every five seconds.

The rules stand in an order: what stops everything first, then what the fetchers are held back by, then what they wait
for by themselves. The first that holds is the answer, so each may take for granted that those before it do not.
"""

from collections.abc import Sequence

import msgspec

from gossamer.report.board import State
from gossamer.report.pace import failures_of
from gossamer.report.sample import Bound, ProcessUse, Sample
from gossamer.units import counted

#: A share of a processor from which on it is what limits. Never quite 1: an event loop that has no pause left still
#: shows some per cent of waiting, for the disk and for others that want the processor.
NEARLY_ALL = 0.9
#: Of the time of a loop spent waiting for the store or the disk, from which on that is worth a word. Calls of a healthy
#: SQLite store are under a tenth of it at full speed.
MUCH = 0.3
#: Of all workers; with a batch of leases on its way, the last tenth is rarely busy.
BUSY_WORKERS = 0.9
#: Of the waiting sites that may be due in the moment of the sample although nothing but the delay limits the crawl: the
#: feeder leases them in batches, a moment after they are due.
FEW_READY = 0.1
#: And no more than this: what a crawl of some thousand requests a second leases at once.
MOST_READY = 500
#: Of all visits: those that had to wait for a turn at the network of their server, from which on that is what limits.
#: A site that waits is sent back once for each visit, so half of them is every second visit.
MANY_HELD = 0.5
#: Fewer idle processors than this are no room for another process.
SPARE_PROCESSORS = 0.5


class BoundFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a `Sample` does not say and `bound` needs. Shares and means are of the sample's interval."""

    is_stopping: bool = False
    is_paused: bool = False
    """By a person."""
    is_store_away: bool = False
    is_disk_paused: bool = False
    """Nothing is leased because the disk is nearly full."""
    min_free_bytes: int = 0
    is_short: bool = False
    """Of disk, descriptors or memory, in any process or in the store's server."""
    are_seeds_loaded: bool = True
    is_held_back: bool = False
    """The spool is above its soft or its hard limit now: fetchers slow down or wait."""
    delay_seconds: float = 0.0
    interval_seconds: float = 0.0
    """Since the last sample."""
    max_pages: int = 0
    """0 is no limit."""
    fetchers: int = 1
    """As many as there should be; those that are alive stand in the sample."""
    parsers: int = 1
    fetcher_workers: int = 1
    """The most of each fetcher; how many there are now stands in the sample."""
    dns_seconds: float | None = None
    """The mean of a request's time for the name; None where nothing was measured."""
    total_seconds: float | None = None
    """The mean of a request's whole time."""
    fetchers_store_share: float = 0.0
    """0 to 1: how much of its time the mean fetcher waited for answers of the store."""
    parsers_store_share: float = 0.0
    parsers_disk_share: float = 0.0


def bound(sample: Sample, facts: BoundFacts) -> Bound:
    """The one thing to look at, and in words."""
    fetchers = [process for process in sample.processes if process.kind != "parser"]
    return (
        _stopped(sample, facts)
        or (_parsers(sample, facts) if facts.is_held_back else None)
        or _fetchers_cpu(sample, fetchers)
        or _budget(sample, facts)
        or _server_addresses(sample, facts)
        # Before the machine: if every site is asked as soon as it may be, a busy machine holds up nothing.
        or _politeness(sample, facts)
        or (_full_machine(sample) if sample.system.cpu >= NEARLY_ALL else None)
        or _workers(sample, facts)
        or _store(sample, facts.fetchers_store_share, "fetchers")
        or _one_at_a_time(sample, facts)
        or _work(sample, facts)
    )


def bound_now(sample: Sample | None, state: State) -> Bound:
    """What a person is shown: the state is of this moment, and what was measured may be some seconds older."""
    known = Bound("starting", "the first figures come in a moment") if sample is None else sample.bound
    if state == "stopping" and known.by != "stopping":
        return Bound("stopping", "stopping: what is in flight ends, what was fetched is put in order")
    if state == "paused" and known.by not in {"paused", "disk"}:
        return Bound("paused", "paused: what is in flight ends")
    if state == "running" and known.by == "paused":
        return Bound("starting", "resumed: sites are asked again as they are due")
    return known


def _stopped(sample: Sample, facts: BoundFacts) -> Bound | None:
    """What lets nothing be leased, whatever else there is."""
    if facts.is_stopping:
        return Bound("stopping", f"stopping: {counted(sample.backlog_pages, 'page')} still to be parsed")
    if facts.is_paused:
        return Bound(
            "paused",
            f"paused on the dashboard until it is resumed there; {counted(sample.counts.queued, 'URL')} queued",
        )
    if facts.is_store_away:
        return Bound("store", f"the store does not answer (outage {max(1, sample.store.outages):,}): waiting for it")
    if facts.is_disk_paused:
        free = size(sample.system.disk_free_bytes)
        return Bound("disk", f"the disk is nearly full: {free} free, --min-free is {size(facts.min_free_bytes)}")
    if facts.is_short:
        return Bound("shortage", "short of disk, descriptors or memory: waiting; the log files say who, and for what")
    return None


def _parsers(sample: Sample, facts: BoundFacts) -> Bound | None:
    """The fetchers are held back: why are the parsers slow?"""
    waiting = f"{counted(sample.backlog_pages, 'page')} {'waits' if sample.backlog_pages == 1 else 'wait'} for a parser"
    parsers = [process for process in sample.processes if process.kind == "parser"]
    if not parsers:
        return Bound("parse-cpu", f"{waiting}, and none of {facts.parsers:,} is running; they are started again")
    cpu = _mean_cpu(parsers)
    if cpu >= NEARLY_ALL:
        if not _has_spare_processors(sample):
            return _full_machine(sample)
        every = "the parser is" if len(parsers) == 1 else f"all {len(parsers):,} parsers are"
        return Bound("parse-cpu", f"{every} busy ({cpu:.0%} CPU), {waiting}; --num-parser-processes raises this")
    if sample.system.cpu >= NEARLY_ALL:
        return _full_machine(sample)
    if facts.parsers_store_share >= facts.parsers_disk_share:
        slow = _store(sample, facts.parsers_store_share, "parsers")
        if slow is not None:
            return slow
    if facts.parsers_disk_share >= MUCH:
        return Bound("disk", f"parsers wait for the disk {facts.parsers_disk_share:.0%} of the time; {waiting}")
    return Bound("parse-cpu", f"{waiting} ({cpu:.0%} CPU each); --num-parser-processes raises this")


def _fetchers_cpu(sample: Sample, fetchers: Sequence[ProcessUse]) -> Bound | None:
    """One busy fetcher is enough: each has its own sites, and no other takes them over."""
    busy = [process for process in fetchers if process.cpu >= NEARLY_ALL]
    if not busy:
        return None
    if not _has_spare_processors(sample):
        return _full_machine(sample)
    who = f"{len(busy):,} of {len(fetchers):,} fetchers {'is' if len(busy) == 1 else 'are'}"
    who = "the fetcher is" if len(fetchers) == 1 else who
    return Bound("fetch-cpu", f"{who} busy ({_mean_cpu(busy):.0%} CPU); --num-fetcher-processes raises this")


def _full_machine(sample: Sample) -> Bound:
    system = sample.system
    own = sum(process.cpu for process in sample.processes)
    if system.processors == 1:
        return Bound("machine-cpu", f"the only processor is in use ({system.cpu:.0%}), {own:.0%} by this crawl")
    return Bound(
        "machine-cpu",
        f"all {system.processors:,} processors are in use ({system.cpu:.0%}), {own:.1f} of them by this crawl",
    )


def _budget(sample: Sample, facts: BoundFacts) -> Bound | None:
    """Nothing is leased beyond `--max-pages`, however much is due."""
    counts = sample.counts
    left = facts.max_pages - counts.pages
    if not facts.max_pages or counts.leased + counts.spooled < left:
        return None
    if left <= 0:
        return Bound("work", f"all pages of --max-pages {facts.max_pages:,} are there")
    return Bound("work", f"the last {left:,} of --max-pages {facts.max_pages:,} are being fetched, parsed and written")


def _server_addresses(sample: Sample, facts: BoundFacts) -> Bound | None:
    """The sites wait, and not for their own delay: too many of them are served from the same network."""
    visits = sample.fetches_per_second * facts.interval_seconds
    if not sample.address_holds or sample.address_holds < visits * MANY_HELD or _are_workers_busy(sample, facts):
        return None
    return Bound(
        "server-address",
        f"many sites share a server address: {sample.address_holds:,} had no turn"
        f" in the last {_seconds(facts.interval_seconds)}; --address-gap lowers this",
    )


def _politeness(sample: Sample, facts: BoundFacts) -> Bound | None:
    counts = sample.counts
    cooling = counts.sites_waiting - counts.sites_ready
    active = counts.sites_waiting + counts.sites_busy
    # Most of the time that a site has between two requests is its delay.
    is_most = 0 < cooling >= active / 2
    if not is_most or not _are_few_ready(sample) or _are_workers_busy(sample, facts):
        return None
    if active == 1:
        who = "the only site is cooling"
    elif cooling == active:
        who = f"all {active:,} sites are cooling"
    else:
        who = f"{cooling:,} of {active:,} sites {'is' if cooling == 1 else 'are'} cooling"
    soon = sample.next_request_seconds
    # Of very many sites one is always about to be asked.
    when = "" if soon is None or soon < 1 else f"; next request in {_seconds(soon)}"
    return Bound("politeness", f"{who}{when}{_why_cooling(sample, facts.delay_seconds)}")


def _why_cooling(sample: Sample, delay_seconds: float) -> str:
    """A site that is not asked for longer than the delay has a Crawl-delay, or has failed or was busy."""
    soon, counts = sample.next_request_seconds, sample.counts
    failures = failures_of(counts.retries)
    if failures and not counts.pages and not counts.spooled:
        # Nothing but failures so far: whoever has mistyped a name should see it now, not when all attempts are over.
        kinds = ", ".join(f"{count:,} {reason}" for reason, count in failures.items())
        return f"; no page yet, {counted(sum(failures.values()), 'attempt')} failed so far: {kinds}"
    if delay_seconds > 0 and (soon is None or soon <= delay_seconds + 1):
        return "; --delay lowers this"
    return " (a Crawl-delay, or a site that failed or was busy)"


def _one_at_a_time(sample: Sample, facts: BoundFacts) -> Bound | None:
    """Hardly a site is left that could be asked: those that are not cooling are being asked."""
    counts = sample.counts
    active = counts.sites_waiting + counts.sites_busy
    if counts.queued <= 0 or not counts.sites_busy or not _are_few_ready(sample):
        return None
    each = "" if facts.total_seconds is None else f" ({_seconds(facts.total_seconds)} a request)"
    who = f"{counts.sites_busy:,} of {counted(active, 'site')} {'is' if counts.sites_busy == 1 else 'are'}"
    who = "the only site is" if active == 1 else who
    return Bound("servers", f"{who} being asked, one request at a time{each}")


def _workers(sample: Sample, facts: BoundFacts) -> Bound | None:
    """All are in use: what do their requests take their time with?"""
    if not _are_workers_busy(sample, facts):
        return None
    workers = facts.fetchers * facts.fetcher_workers
    if facts.dns_seconds is not None and facts.total_seconds and facts.dns_seconds > facts.total_seconds / 2:
        share = min(1.0, facts.dns_seconds / facts.total_seconds)
        return Bound(
            "dns",
            f"{sample.in_flight:,} of {counted(workers, 'worker')} {'is' if workers == 1 else 'are'} busy,"
            f" {share:.0%} of the time with names;"
            " --resolver names a faster server",
        )
    each = "" if facts.total_seconds is None else f" ({_seconds(facts.total_seconds)} a request)"
    return Bound(
        "servers",
        f"{sample.in_flight:,} of {counted(workers, 'worker')} {'waits' if workers == 1 else 'wait'} for servers{each};"
        " --fetcher-workers raises this",
    )


def _store(sample: Sample, share: float, who: str) -> Bound | None:
    if share < MUCH:
        return None
    use = sample.store
    call = "" if use.seconds_per_call is None else f" ({_seconds(use.seconds_per_call)} a call)"
    change = "; --store-pool raises this" if use.waiting else "; --store names another"
    return Bound("store", f"{who} wait for the store {min(1.0, share):.0%} of the time{call}{change}")


def _work(sample: Sample, facts: BoundFacts) -> Bound:
    counts = sample.counts
    if not facts.are_seeds_loaded:
        return Bound("work", f"the seeds are being read: {counted(counts.admitted, 'URL')} so far")
    if counts.queued <= 0 and counts.leased <= 0 and counts.spooled <= 0:
        return Bound("work", f"nothing is queued: {counted(counts.finished, 'URL')} finished")
    if counts.queued <= 0:
        return Bound(
            "work",
            f"nothing more is queued: {counts.leased:,} being fetched, {counts.spooled:,} being parsed or written",
        )
    sites = counted(counts.sites_waiting + counts.sites_busy, "site")
    return Bound("work", f"nothing holds it back: {counted(counts.queued, 'URL')} queued on {sites}")


def _are_workers_busy(sample: Sample, facts: BoundFacts) -> bool:
    """Of all that there may be: a fetcher begins with few and makes more when they are needed."""
    return sample.in_flight >= max(1.0, facts.fetchers * facts.fetcher_workers * BUSY_WORKERS)


def _are_few_ready(sample: Sample) -> bool:
    counts = sample.counts
    return counts.sites_ready <= min(counts.sites_waiting * FEW_READY, MOST_READY)


def _mean_cpu(processes: Sequence[ProcessUse]) -> float:
    return sum(process.cpu for process in processes) / len(processes)


def _has_spare_processors(sample: Sample) -> bool:
    return sample.system.processors * (1 - sample.system.cpu) >= SPARE_PROCESSORS


def _seconds(seconds: float) -> str:
    """Short, and with as many digits as mean something."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def size(number: int) -> str:
    """Bytes for a person, as the settings write them."""
    if number < 1024:
        return counted(max(0, number), "byte")
    amount, unit = number / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 1023.95:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"
