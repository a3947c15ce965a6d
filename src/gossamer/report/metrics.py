"""Every metric, once: its name, its labels with all of their values, and what it means.

`KEPT` are counted by the processes themselves, in files (`counters.py`); `TOLD` are made by the leader at every sample.
Label sets are fixed, so the number of series does not depend on what is crawled: some 390, and four per process.
"""

from enum import StrEnum
from itertools import product
from typing import Literal, get_args

import msgspec

from gossamer.records import Reason
from gossamer.report.sample import DESCRIPTOR_KINDS, PHASES, BoundBy

FETCH_TYPES = ("page", "robots")

#: What a request can fail with; the words are those of `records.Reason`, with statuses by their class.
FETCH_ERRORS = (
    Reason.DNS,
    Reason.CONNECT,
    Reason.TLS,
    Reason.TIMEOUT,
    Reason.RESET,
    Reason.PROTOCOL,
    Reason.TOO_LARGE,
    Reason.BLOCKED_ADDRESS,
    Reason.OUR_SHORTAGE,
    Reason.BUSY,
    "status-4xx",
    "status-5xx",
)

#: What can become of a leased URL in a fetcher; by the rules of admission it is only ever refused.
REFUSED = "refused"
OUTCOMES = (
    Reason.PAGE,
    Reason.REDIRECT,
    Reason.DNS,
    Reason.CONNECT,
    Reason.TLS,
    Reason.TIMEOUT,
    Reason.RESET,
    Reason.PROTOCOL,
    Reason.TOO_LARGE,
    Reason.STATUS,
    Reason.BUSY,
    Reason.MEDIA_TYPE,
    Reason.BLOCKED_ADDRESS,
    Reason.ROBOTS,
    Reason.ROBOTS_UNREACHABLE,
    Reason.CRAWL_DELAY,
    Reason.SITE_FAILING,
    Reason.RETURNED,
    Reason.OUR_SHORTAGE,
    Reason.INTERNAL_ERROR,
    Reason.ORIGIN_HELD,
    Reason.SERVER_ADDRESS,
    Reason.STOPPED,
    REFUSED,
)


class OwnTrouble(StrEnum):
    """What goes wrong with us, not with the web."""

    AT_URL = "at-url"
    """An exception in the crawler while one URL was fetched."""
    PROCESS_DEATH = "process-death"
    SHORTAGE = "shortage"
    """Of descriptors, ports, memory or room; one for each time that it lasted."""
    STORE_OUTAGE = "store-outage"
    SLOW_CALL = "slow-call"
    """A call to the store that took more than two seconds."""


#: Verbs of the store that are made again and again, and one word for all others.
OTHER_VERB = "other"
VERBS = ("admit", "own", "lease", "release", "spool", "finish", "counts", "robots", OTHER_VERB)

#: From what a server in the same building takes to what a request may take at most.
_PHASE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: Those of the system that this one replaces, one below for servers nearby, and one above for what runs out of time.
_FETCH_BUCKETS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: To 10 s, which each of connect and TLS may take.
_CONNECTION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0)
#: From a connection that is free at once to a pool that is much too small.
_STORE_CONNECTION_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 2.0)
_SIZE_BUCKETS = tuple(float(1 << power) for power in (8, 10, 12, 14, 15, 16, 17, 18, 19, 20, 22, 23))
_PARSE_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)
_COMMIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 2.0)


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One family of series."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: dict[str, tuple[str, ...]] = {}
    """With all values of each; none of a label whose values are the processes of the crawl."""
    buckets: tuple[float, ...] = ()

    @property
    def label_sets(self) -> list[tuple[str, ...]]:
        """Every combination, in the order of the labels."""
        return list(product(*self.labels.values()))


FETCHES = Metric(
    name="crawler_fetches_total",
    kind="counter",
    meaning="Requests sent.",
    labels={"fetch_type": FETCH_TYPES},
)
FETCH_FAILURES = Metric(
    name="crawler_fetch_errors_total",
    kind="counter",
    meaning="Requests that brought no page, no redirect and no usable robots.txt, by what went wrong.",
    labels={"error_type": FETCH_ERRORS, "fetch_type": FETCH_TYPES},
)
FETCH_OUTCOMES = Metric(
    name="crawler_outcomes_total",
    kind="counter",
    meaning="What became of leased URLs in the fetchers, those that went back to be tried again included.",
    labels={"outcome": OUTCOMES},
)
RECEIVED_BYTES = Metric(
    name="crawler_received_bytes_total", kind="counter", meaning="Bytes of bodies received, as they came."
)
OWN_TROUBLES = Metric(
    name="crawler_errors_total",
    kind="counter",
    meaning="What went wrong with the crawler itself.",
    labels={"error_type": tuple(OwnTrouble)},
)
BACKPRESSURE = Metric(
    name="backpressure_events_total",
    kind="counter",
    meaning="How often a fetcher began to slow down (soft) or to wait (hard) for the parsers.",
    labels={"backpressure_type": ("soft", "hard")},
)
PARSED_PAGES = Metric(
    name="crawler_pages_parsed_total",
    kind="counter",
    meaning="Pages that parsers have read; one whose parser died before its commit is read again, and counted again.",
)
PARSE_ERRORS = Metric(
    name="crawler_parse_errors_total",
    kind="counter",
    meaning="Pages that killed their reader, segments that could not be parsed, bodies that could not be decoded.",
    labels={"error_type": ("crash", "damaged-segment", "failed-segment", "corrupt-body")},
)
FETCH_SECONDS = Metric(
    name="crawler_fetch_duration_seconds",
    kind="histogram",
    meaning="How long requests took, from the look-up of the name to the last byte; failed ones included.",
    labels={"fetch_type": FETCH_TYPES},
    buckets=_FETCH_BUCKETS,
)
PHASE_SECONDS = Metric(
    name="crawler_fetch_phase_seconds",
    kind="histogram",
    meaning="How long the phases of requests took.",
    labels={"phase": tuple(phase for phase in PHASES if phase != "total")},
    buckets=_PHASE_BUCKETS,
)
CONNECTION_SECONDS = Metric(
    name="crawler_connection_seconds",
    kind="histogram",
    meaning="How long it took to get a connection to a web server: DNS, connect and TLS together.",
    buckets=_CONNECTION_BUCKETS,
)
CONTENT_BYTES = Metric(
    name="crawler_content_size_bytes", kind="histogram", meaning="Bodies of pages, as they came.", buckets=_SIZE_BUCKETS
)
PARSE_SECONDS = Metric(
    name="crawler_parse_duration_seconds",
    kind="histogram",
    meaning="How long reading a page took: decoding, links, facts, text.",
    buckets=_PARSE_BUCKETS,
)
COMMIT_SECONDS = Metric(
    name="crawler_commit_seconds",
    kind="histogram",
    meaning="How long parsers took to commit: to sync what was written, and to have its URLs finished by the store.",
    buckets=_COMMIT_BUCKETS,
)
STORE_CONNECTION_SECONDS = Metric(
    name="crawler_store_connection_seconds",
    kind="histogram",
    meaning="How long calls waited for a connection to the store's server; with the embedded store there are none.",
    buckets=_STORE_CONNECTION_BUCKETS,
)
CALL_SECONDS = Metric(
    name="crawler_store_call_seconds",
    kind="histogram",
    meaning="How long calls to the store took, waiting included.",
    labels={"verb": VERBS},
    buckets=_CALL_BUCKETS,
)

KEPT = (
    FETCHES,
    FETCH_FAILURES,
    FETCH_OUTCOMES,
    RECEIVED_BYTES,
    OWN_TROUBLES,
    BACKPRESSURE,
    PARSED_PAGES,
    PARSE_ERRORS,
    FETCH_SECONDS,
    PHASE_SECONDS,
    CONNECTION_SECONDS,
    CONTENT_BYTES,
    PARSE_SECONDS,
    COMMIT_SECONDS,
    STORE_CONNECTION_SECONDS,
    CALL_SECONDS,
)

#: The leader is a fetcher too: its `process_type` is `fetcher`, its `process_id` is `leader`.
_PROCESS: dict[str, tuple[str, ...]] = {"process_type": (), "process_id": ()}


def _gauge(name: str, meaning: str, labels: dict[str, tuple[str, ...]] | None = None) -> Metric:
    return Metric(name=name, kind="gauge", meaning=meaning, labels=labels or {})


def _counter(name: str, meaning: str, labels: dict[str, tuple[str, ...]] | None = None) -> Metric:
    return Metric(name=name, kind="counter", meaning=meaning, labels=labels or {})


TOLD = (
    # By the store: exact, and over all runs of the crawl.
    _counter("crawler_pages_crawled_total", "Pages that are committed."),
    _counter("crawler_urls_added_total", "URLs admitted to the frontier."),
    _counter("crawler_parse_processed_total", "URLs that are finished: parsed, if there was a page, and committed."),
    _gauge("crawler_frontier_size", "URLs that wait in the queues of their sites."),
    _gauge("crawler_sites", "Sites, by what they do.", {"state": ("ready", "cooling", "busy", "idle")}),
    _gauge("crawler_parse_queue_size", "Outcomes that wait for a parser."),
    _gauge("crawler_parse_queue_bytes", "Their size on the disk."),
    # Rates of the last interval.
    _gauge("crawler_pages_per_second", "Pages fetched, all fetchers together."),
    _gauge("crawler_fetcher_pages_per_second", "Pages fetched, of each fetcher.", {"fetcher_id": ()}),
    _gauge("crawler_parser_pages_per_second", "Pages parsed, all parsers together."),
    _gauge("crawler_received_bytes_per_second", "Bytes of bodies received."),
    # The processes.
    _gauge("crawler_active_workers", "Requests in flight."),
    _gauge("crawler_in_flight_bytes", "Bytes of bodies in the memory of fetchers: received, and not yet in the spool."),
    _gauge(
        "crawler_in_flight_waiting",
        "Connections that are not read because a fetcher is at `max_in_flight_bytes`.",
    ),
    _gauge("crawler_workers", "Workers that there are, busy or not."),
    _gauge("crawler_active_parser_workers", "Parser processes that are alive."),
    _counter("crawler_process_restarts_total", "Processes of this run that died and were started again."),
    _gauge("crawler_process_memory_usage_bytes", "Resident memory.", _PROCESS),
    _gauge("crawler_process_open_fds", "Open descriptors.", _PROCESS),
    _gauge("crawler_open_fds", "Open descriptors of all processes, by what they are.", {"kind": DESCRIPTOR_KINDS}),
    _gauge("crawler_process_max_fds", "Descriptors that a process may have."),
    _counter(
        "crawler_process_cpu_seconds_total",
        "CPU time in this run; with that of dead ones in the same place.",
        _PROCESS,
    ),
    # The crawl.
    _gauge("crawler_run", "The number of this run."),
    _gauge("crawler_uptime_seconds", "Since this run began."),
    _gauge("crawler_paused", "1 while a person, or a disk that is nearly full, has paused the crawl."),
    _gauge("crawler_bound", "1 for what limits the crawl now, 0 for all else.", {"by": get_args(BoundBy)}),
    _gauge("crawler_store_connections_created", "Connections to the store's server that are open."),
    _gauge("crawler_store_connections_in_use", "Those of them that a call has."),
    _gauge("crawler_store_connections_waiting", "Calls that wait for a connection."),
    _gauge("crawler_store_up", "0 while the store does not answer."),
    # The machine of the leader.
    _gauge("system_cpu_usage_ratio", "Of all processors, over the last interval."),
    _counter("system_cpu_seconds_total", "CPU time by mode.", {"mode": ("user", "system", "idle", "iowait")}),
    _gauge("system_memory_total_bytes", "Memory of the machine."),
    _gauge("system_memory_available_bytes", "Memory that programs can still get."),
    _gauge("system_disk_total_bytes", "Of the disk that the data directory is on."),
    _gauge("system_disk_free_bytes", "What is free of it."),
    _counter("system_disk_read_bytes_total", "Read by all disks of the machine."),
    _counter("system_disk_written_bytes_total", "Written by all disks of the machine."),
    _counter("system_network_received_bytes_total", "Received by all interfaces of the machine."),
    _counter("system_network_sent_bytes_total", "Sent by all interfaces of the machine."),
    # With Redis.
    _gauge("redis_up", "1 if it has answered at the last sample."),
    _gauge("redis_ops_per_second", "Commands a second, as the server counts them."),
    _counter("redis_commands_processed_total", "Commands since the server was started."),
    _gauge("redis_memory_used_bytes", "What its data takes."),
    _gauge("redis_memory_max_bytes", "What it may take; 0 is no limit."),
    _gauge("redis_connected_clients", "Connections, of others as well."),
    _gauge("redis_hit_ratio", "Of the keys that were asked for, those that were there."),
    _gauge("redis_latency_seconds", "How long it took to answer one PING."),
)

BY_NAME = {metric.name: metric for metric in (*KEPT, *TOLD)}
