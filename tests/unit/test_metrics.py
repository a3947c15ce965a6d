"""What is counted is not lost, not counted twice, and reaches Prometheus under its name, whatever is crawled."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from gossamer.frontier.store import Counts
from gossamer.records import Answer, PhaseTimes, Reason
from gossamer.report.counters import SIZE, SUFFIX, Counters, histogram_slot, read, read_all, slot, total
from gossamer.report.exposition import exposition
from gossamer.report.gains import Gains
from gossamer.report.metrics import (
    BY_NAME,
    CONNECTION_SECONDS,
    CONTENT_BYTES,
    FETCH_SECONDS,
    FETCHES,
    KEPT,
    PHASE_SECONDS,
    RECEIVED_BYTES,
    TOLD,
)
from gossamer.report.sample import DESCRIPTOR_KINDS, ProcessUse, Sample, StoreUse, SystemUse
from gossamer.run.condition import Condition
from gossamer.run.meters import FetchCounting
from gossamer.run.told import told

PAGES = slot(FETCHES, "page")

#: What the users of the system that this one replaces have on their screens.
PROMISED = {
    "crawler_pages_crawled_total": set(),
    "crawler_urls_added_total": set(),
    "crawler_fetches_total": {"fetch_type"},
    "crawler_fetch_errors_total": {"error_type", "fetch_type"},
    "crawler_errors_total": {"error_type"},
    "backpressure_events_total": {"backpressure_type"},
    "crawler_parse_processed_total": set(),
    "crawler_parse_errors_total": {"error_type"},
    "crawler_pages_per_second": set(),
    "crawler_fetcher_pages_per_second": {"fetcher_id"},
    "crawler_parser_pages_per_second": set(),
    "crawler_frontier_size": set(),
    "crawler_active_workers": set(),
    "crawler_active_parser_workers": set(),
    "crawler_parse_queue_size": set(),
    "crawler_process_memory_usage_bytes": {"process_type", "process_id"},
    "crawler_process_open_fds": {"process_type", "process_id"},
    "crawler_fetch_duration_seconds": {"fetch_type"},
}

COUNTING = f"""
import os, signal, sys
from pathlib import Path
from gossamer.report.counters import Counters, histogram_slot
from gossamer.report.metrics import CONTENT_BYTES
counters = Counters(Path(sys.argv[1]))
for _ in range(1000):
    counters.add({PAGES})
    counters.observe(histogram_slot(CONTENT_BYTES), 5000.0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def file_of(directory: Path, name: str = "fetcher-0") -> Path:
    return directory / "metrics" / f"{name}{SUFFIX}"


def process(number: int) -> ProcessUse:
    return ProcessUse(
        kind="fetcher" if number % 2 else "parser",
        name=f"process-{number}",
        pid=number,
        cpu=0.5,
        cpu_seconds=1.0,
        memory_bytes=1 << 26,
        descriptors=30,
        pages_per_second=2.0,
    )


def families_in(text: str) -> dict[str, Family]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def text_of(sample: Sample, directory: Path) -> str:
    condition = Condition(directory, 0, lambda _: None)
    return exposition(total([]), told(sample, 1, condition)).decode()


def test_a_killed_process_loses_nothing_and_the_next_one_goes_on_where_it_stood(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    for life in (1, 2, 3):
        died = subprocess.run([sys.executable, "-c", COUNTING, str(path)], check=False)
        assert died.returncode == -signal.SIGKILL
        values = read(path)
        assert values is not None
        assert values[PAGES] == 1000 * life
        place = histogram_slot(CONTENT_BYTES)
        assert sum(values[place.first : place.sum]) == 1000 * life
        assert values[place.sum] == 5_000_000 * life


def test_the_counters_of_all_processes_are_added_up_those_that_have_ended_included(tmp_path: Path) -> None:
    for name, count in (("fetcher-0", 3), ("fetcher-1", 4)):
        counters = Counters(file_of(tmp_path, name))
        counters.add(PAGES, count)
        counters.close()
    rows = read_all(tmp_path / "metrics")
    assert {name: row[PAGES] for name, row in rows.items()} == {"fetcher-0": 3, "fetcher-1": 4}
    assert total(list(rows.values()))[PAGES] == 7
    assert total([]) == [0.0] * SIZE


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(32 + 8 * SIZE), b"x" * 100_000])
def test_a_file_of_another_layout_is_not_read_and_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = file_of(tmp_path)
    path.parent.mkdir()
    path.write_bytes(content)
    assert read(path) is None
    assert read_all(path.parent) == {}
    counters = Counters(path)
    counters.add(PAGES)
    values = read(path)
    assert values is not None
    assert sum(values) == values[PAGES] == 1
    counters.close()


def test_the_whole_file_is_on_the_disk_before_it_is_mapped(tmp_path: Path) -> None:
    """A hole in it would kill the process that writes there when the disk is full."""
    counters = Counters(file_of(tmp_path))
    assert file_of(tmp_path).stat().st_blocks * 512 >= 8 * SIZE
    counters.close()


def test_a_process_that_has_no_room_for_its_file_counts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    counters = Counters(file_of(tmp_path))
    counters.add(PAGES)
    counters.observe(histogram_slot(CONTENT_BYTES), 1.0)
    counters.close()
    assert "is lost if it is killed" in caplog.text


def test_the_names_and_labels_that_were_promised_are_there() -> None:
    assert {name: set(BY_NAME[name].labels) for name in PROMISED} == PROMISED
    assert len(BY_NAME) == len(KEPT) + len(TOLD)


def test_there_are_at_most_520_series_however_many_sites_are_known(tmp_path: Path) -> None:
    counts = Counts(
        finished=10**8,
        admitted=10**9,
        sites=10**6,
        sites_waiting=10**5,
        outcomes={f"reason-{number}": 1 for number in range(10**4)},
    )
    vitals = {metric.name: 1.0 for metric in TOLD if metric.name.startswith("redis_")}
    system = SystemUse(cpu_seconds=dict.fromkeys(("user", "system", "idle", "iowait"), 1.0))
    sample = Sample(
        at=1.0,
        elapsed_seconds=1.0,
        counts=counts,
        outcomes=counts.outcomes,
        processes=[process(number) for number in range(32)],
        descriptors=dict.fromkeys(DESCRIPTOR_KINDS, 1),
        store=StoreUse(vitals=vitals),
        system=system,
    )
    text = text_of(sample, tmp_path)
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 520
    assert {family.name for family in text_string_to_metric_families(text)} == {
        metric.name.removesuffix("_total") for metric in (*KEPT, *TOLD)
    }


def test_the_leader_is_among_the_fetchers_and_can_be_told_from_them(tmp_path: Path) -> None:
    leader = msgspec.structs.replace(process(1), kind="leader", name="leader")
    sample = Sample(at=1.0, elapsed_seconds=1.0, processes=[leader, process(2), process(3)])
    for metric in BY_NAME.values():
        if "process_type" in metric.labels:
            family = families_in(text_of(sample, tmp_path))[metric.name.removesuffix("_total")]
            assert {(one.labels["process_type"], one.labels["process_id"]) for one in family.samples} == {
                ("fetcher", "leader"),
                ("parser", "process-2"),
                ("fetcher", "process-3"),
            }


def test_descriptors_are_shown_by_kind_also_those_of_which_there_are_none(tmp_path: Path) -> None:
    sample = Sample(at=1.0, elapsed_seconds=1.0, descriptors={"https": 7, "pipes": 3})
    found = families_in(text_of(sample, tmp_path))["crawler_open_fds"]
    shown = {one.labels["kind"]: one.value for one in found.samples}
    assert shown == dict.fromkeys(DESCRIPTOR_KINDS, 0.0) | {"https": 7, "pipes": 3}


def test_durations_tell_pages_from_robots_txt_and_connections_are_timed(tmp_path: Path) -> None:
    counters = Counters(file_of(tmp_path))
    counting = FetchCounting(counters)
    reached = PhaseTimes(dns=0.25, connect=0.5, tls=1.0, first_byte=0.1, total=2.0)
    counting.answered("page", Answer("http://a.test/", 0.0, b"", b"", 200, (), b"", times=reached))
    counting.answered("robots", Answer("http://a.test/robots.txt", 0.0, b"", b"", 404, (), b"", times=reached))
    # Never connected: it took its time, and got no connection.
    counting.failed("page", Reason.TIMEOUT, PhaseTimes(dns=0.25, total=10.0))
    counters.close()
    gains = Gains({}, read_all(tmp_path / "metrics"), 5.0)
    assert (gains.observed(FETCH_SECONDS, "page"), gains.mean(FETCH_SECONDS, "page")) == (2, 6.0)
    assert (gains.observed(FETCH_SECONDS, "robots"), gains.mean(FETCH_SECONDS, "robots")) == (1, 2.0)
    assert (gains.observed(FETCH_SECONDS), gains.seconds_in(FETCH_SECONDS)) == (3, 14.0)
    p50 = gains.percentiles(FETCH_SECONDS).p50
    assert p50 is not None
    assert 1.0 < p50 < 2.5
    assert (gains.observed(CONNECTION_SECONDS), gains.mean(CONNECTION_SECONDS)) == (2, 1.75)


def test_what_prometheus_reads_is_what_was_counted(tmp_path: Path) -> None:
    counters = Counters(file_of(tmp_path))
    counters.add(PAGES, 7)
    counters.add(slot(RECEIVED_BYTES), 2.0**52 + 1)
    for seconds in (0.002, 0.002, 0.3, 1000.0):
        counters.observe(histogram_slot(PHASE_SECONDS, "dns"), seconds)
    counters.close()
    values = read(file_of(tmp_path))
    assert values is not None
    families = families_in(exposition(values, {}).decode())
    fetches = {sample.labels["fetch_type"]: sample.value for sample in families["crawler_fetches"].samples}
    assert fetches == {"page": 7, "robots": 0}
    assert families["crawler_received_bytes"].samples[0].value == 2.0**52 + 1
    dns = [sample for sample in families["crawler_fetch_phase_seconds"].samples if sample.labels["phase"] == "dns"]
    buckets = {float(sample.labels["le"]): sample.value for sample in dns if sample.name.endswith("_bucket")}
    assert (buckets[0.001], buckets[0.005], buckets[0.25], buckets[0.5], buckets[60.0]) == (0, 2, 2, 3, 3)
    assert buckets[float("inf")] == 4
    assert {sample.name: sample.value for sample in dns if "bucket" not in sample.name} == {
        "crawler_fetch_phase_seconds_count": 4,
        "crawler_fetch_phase_seconds_sum": pytest.approx(1000.304),
    }


def test_rates_and_percentiles_are_of_the_interval_alone(tmp_path: Path) -> None:
    counters = Counters(file_of(tmp_path))
    dns = histogram_slot(PHASE_SECONDS, "dns")
    counters.add(PAGES, 1000)
    for _ in range(1000):
        counters.observe(dns, 30.0)
    before = read_all(tmp_path / "metrics")
    counters.add(PAGES, 50)
    for number in range(100):
        counters.observe(dns, 0.02 if number < 95 else 2.0)
    counters.close()
    gains = Gains(before, read_all(tmp_path / "metrics"), 5.0)
    assert gains.rate(PAGES) == gains.rate_of("fetcher-0", PAGES) == 10
    assert gains.rate_of("fetcher-9", PAGES) == 0
    found = gains.percentiles(PHASE_SECONDS, "dns")
    assert found.p50 is not None
    assert 0.01 < found.p50 < 0.025
    assert found.p99 is not None
    assert 1.0 < found.p99 < 2.5
    assert gains.mean(PHASE_SECONDS, "dns") == pytest.approx(0.119)
    assert gains.percentiles(PHASE_SECONDS, "tls").p50 is None
    assert gains.mean(PHASE_SECONDS, "tls") is None


def test_no_percentile_lies_outside_of_the_buckets(tmp_path: Path) -> None:
    counters = Counters(file_of(tmp_path))
    counters.observe(histogram_slot(PHASE_SECONDS, "tls"), 1e9)
    counters.close()
    found = Gains({}, read_all(tmp_path / "metrics"), 5.0).percentiles(PHASE_SECONDS, "tls")
    assert (found.p50, found.p99) == (60.0, 60.0)


def test_a_counter_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    script = COUNTING.replace("range(1000)", "range(10**9)")
    with subprocess.Popen([sys.executable, "-c", script, str(path)]) as counting:
        try:
            last = -1.0
            seen: set[float] = set()
            while len(seen) < 20:
                values = read(path)
                if values is not None:
                    assert values[PAGES] >= last
                    last = values[PAGES]
                    seen.add(last)
        finally:
            os.kill(counting.pid, signal.SIGKILL)
