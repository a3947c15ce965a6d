"""The metrics that the leader tells itself, from one sample; `report/metrics.py` says what they mean."""

from collections.abc import Callable

from gossamer.report.exposition import Told
from gossamer.report.metrics import BY_NAME
from gossamer.report.resources import descriptor_limit
from gossamer.report.sample import DESCRIPTOR_KINDS, ProcessUse, Sample
from gossamer.run.condition import Condition

_BOUNDS = BY_NAME["crawler_bound"].labels["by"]


def told(sample: Sample, run: int, condition: Condition) -> Told:
    counts, store, system = sample.counts, sample.store, sample.system
    parsers = [process for process in sample.processes if process.kind == "parser"]
    fetchers = [process for process in sample.processes if process.kind != "parser"]
    ready = min(counts.sites_ready, counts.sites_waiting)
    sites = {
        "ready": ready,
        "cooling": counts.sites_waiting - ready,
        "busy": counts.sites_busy,
        "idle": counts.sites - counts.sites_waiting - counts.sites_busy,
    }
    plain: dict[str, float] = {
        "crawler_pages_crawled_total": counts.pages,
        "crawler_urls_added_total": counts.admitted,
        "crawler_parse_processed_total": counts.finished,
        "crawler_frontier_size": counts.queued,
        "crawler_parse_queue_size": sample.backlog_pages,
        "crawler_parse_queue_bytes": sample.backlog_bytes,
        "crawler_pages_per_second": sample.pages_per_second,
        "crawler_parser_pages_per_second": sample.parsed_per_second,
        "crawler_received_bytes_per_second": sample.bytes_per_second,
        "crawler_active_workers": sample.in_flight,
        "crawler_in_flight_bytes": sample.in_flight_bytes,
        "crawler_in_flight_waiting": sample.in_flight_waiting,
        "crawler_workers": sample.workers,
        "crawler_active_parser_workers": len(parsers),
        "crawler_process_restarts_total": sample.restarts,
        "crawler_process_max_fds": descriptor_limit(),
        "crawler_run": run,
        "crawler_uptime_seconds": sample.elapsed_seconds,
        "crawler_paused": condition.is_paused,
        "crawler_store_connections_created": store.connections,
        "crawler_store_connections_in_use": store.in_use,
        "crawler_store_connections_waiting": store.waiting,
        "crawler_store_up": not condition.is_away,
        "system_cpu_usage_ratio": system.cpu,
        "system_memory_total_bytes": system.memory_total_bytes,
        "system_memory_available_bytes": system.memory_available_bytes,
        "system_disk_total_bytes": system.disk_total_bytes,
        "system_disk_free_bytes": system.disk_free_bytes,
        "system_disk_read_bytes_total": system.disk_read_bytes,
        "system_disk_written_bytes_total": system.disk_written_bytes,
        "system_network_received_bytes_total": system.network_received_bytes,
        "system_network_sent_bytes_total": system.network_sent_bytes,
        **store.vitals,
    }

    def each(number: Callable[[ProcessUse], float]) -> list[tuple[tuple[str, ...], float]]:
        # The leader is a fetcher too; its name tells it from the others.
        return [
            (("parser" if process.kind == "parser" else "fetcher", process.name), number(process))
            for process in sample.processes
        ]

    return {
        **{name: [((), float(number))] for name, number in plain.items()},
        "crawler_sites": [((state,), float(count)) for state, count in sites.items()],
        "crawler_open_fds": [((kind,), float(sample.descriptors.get(kind, 0))) for kind in DESCRIPTOR_KINDS],
        "crawler_bound": [((by,), float(by == sample.bound.by)) for by in _BOUNDS],
        "crawler_fetcher_pages_per_second": [((process.name,), process.pages_per_second) for process in fetchers],
        "crawler_process_memory_usage_bytes": each(lambda process: process.memory_bytes),
        "crawler_process_open_fds": each(lambda process: process.descriptors),
        "crawler_process_cpu_seconds_total": each(lambda process: process.cpu_seconds),
        "system_cpu_seconds_total": [((mode,), seconds) for mode, seconds in system.cpu_seconds.items()],
    }
