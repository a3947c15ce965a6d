"""What is measured of a crawl at one moment. The leader makes a `Sample` every five seconds (`run/observation.py`), and
whoever shows something shows this: the metrics, the dashboard, the terminal, the diagnosis.
"""

from typing import Literal

import msgspec

from gossamer.frontier.store import Counts

#: Between two samples.
SAMPLE_SECONDS = 5.0

#: Of a request, in their order; the names are those of `records.PhaseTimes`.
PHASES = ("dns", "connect", "tls", "first_byte", "total")

#: What a descriptor can be; `connecting` is not yet known to whom.
DESCRIPTOR_KINDS = (
    "store",
    "http",
    "https",
    "connecting",
    "dns",
    "serving",
    "spool",
    "sinks",
    "log",
    "pipes",
    "other",
)

BoundBy = Literal[
    "starting",
    "paused",
    "stopping",
    "politeness",
    "server-address",
    "fetch-cpu",
    "parse-cpu",
    "machine-cpu",
    "store",
    "dns",
    "disk",
    "shortage",
    "servers",
    "work",
]
"""What keeps a crawl from going faster. `server-address`: many sites are served from one network, which has a gap of
its own. `servers`: those that are asked take their time, and all workers wait for them.
`work`: there is nothing more to do, or all that there is to do is being done."""


class Bound(msgspec.Struct, frozen=True):
    """What limits the crawl now."""

    by: BoundBy
    because: str
    """For a person: one line, the reason and, where there is one, the setting that would change it. Nothing in it is
    from the web."""


class Percentiles(msgspec.Struct, frozen=True):
    """Of the last interval, estimated from buckets; None where nothing was measured."""

    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the crawl that is alive."""

    kind: Literal["leader", "fetcher", "parser"]
    name: str
    """Such as `parser-0`; the leader is a fetcher too, and called `leader`."""
    pid: int
    cpu: float
    """Of one processor, over the last interval: 1 is all of it."""
    cpu_seconds: float
    """In this run, of those that had its place before it and died as well."""
    memory_bytes: int
    descriptors: int
    pages_per_second: float


class SystemUse(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that the leader runs on. Totals are since it was started."""

    processors: int = 1
    cpu: float = 0.0
    """Of all processors, over the last interval: 1 is all of them."""
    cpu_seconds: dict[str, float] = {}
    """By mode: user, system, idle, iowait where the system tells."""
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    disk_total_bytes: int = 0
    """Of the disk that the data directory is on."""
    disk_free_bytes: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    network_received_bytes: int = 0
    network_sent_bytes: int = 0


class StoreUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes do with the store, all together."""

    connections: int = 0
    in_use: int = 0
    waiting: int = 0
    outages: int = 0
    calls_per_second: float = 0.0
    seconds_per_call: float | None = None
    """On average, over the last interval."""
    vitals: dict[str, float] = {}
    """What a Redis server says of itself, by the names of its metrics."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a crawl. Rates are of the interval since the last sample."""

    at: float
    """Wall clock."""
    elapsed_seconds: float
    """Of this run."""
    counts: Counts = Counts()
    """What the store counts: over all runs, and exact."""
    pages_per_second: float = 0.0
    """Fetched."""
    fetches_per_second: float = 0.0
    """Requests, those for robots.txt included."""
    parsed_per_second: float = 0.0
    admitted_per_second: float = 0.0
    bytes_per_second: float = 0.0
    """Received, bodies alone."""
    in_flight: int = 0
    in_flight_bytes: int = 0
    """Bytes of bodies in the memory of fetchers."""
    in_flight_waiting: int = 0
    """Connections that wait for room for their bodies."""
    workers: int = 0
    backlog_pages: int = 0
    """Fetched, and waiting for a parser."""
    backlog_bytes: int = 0
    next_request_seconds: float | None = None
    """When the next site may be asked; None if nothing waits for that."""
    quarantined_segments: int = 0
    """Of this run: segments that could not be read and went to quarantine."""
    address_holds: int = 0
    """Of the last interval: sites that were sent back because the network of their server had no turn for them."""
    outcomes: dict[str, int] = {}
    """Of the last interval, by reason (`records.Reason`); retries included."""
    latency: dict[str, Percentiles] = {}
    """By phase (`PHASES`), seconds."""
    processes: list[ProcessUse] = []
    descriptors: dict[str, int] = {}
    """Of all processes together, by kind (`DESCRIPTOR_KINDS`)."""
    restarts: int = 0
    store: StoreUse = StoreUse()
    system: SystemUse = SystemUse()
    bound: Bound = Bound("starting", "the first figures come in a moment")


class SiteActivity(msgspec.Struct, kw_only=True):
    """What was done with one site in this run, as far as is remembered: of very many, the quiet ones are forgotten."""

    site: str
    requests: int = 0
    pages: int = 0
    failures: int = 0
    received_bytes: int = 0


class RecentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was read a moment ago. Everything in it is from the web."""

    url: str
    title: str
    site: str
    status: int
    received_bytes: int
    seconds: float
    """That fetching it took."""
    fetched_at: float


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What is going on, by name: for the dashboard alone, because names are without number."""

    busiest: list[SiteActivity] = []
    failing: list[SiteActivity] = []
    recent: list[RecentPage] = []
    """The newest first."""
