"""The leader's log line of rates: once a minute, of the whole minute, as JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.frontier.store import Counts
from gossamer.report.counters import SIZE, slot
from gossamer.report.logs import LogFile
from gossamer.report.metrics import FETCH_FAILURES, FETCH_OUTCOMES, FETCHES, RECEIVED_BYTES
from gossamer.report.sample import Bound, ProcessUse, Sample
from gossamer.run.minutes import MinuteLine

FETCHER = ProcessUse(
    kind="fetcher",
    name="fetcher-1",
    pid=2,
    cpu=0.5,
    cpu_seconds=1.0,
    memory_bytes=50_000_000,
    descriptors=30,
    pages_per_second=2.0,
)
SAMPLE = Sample(
    at=0.0,
    elapsed_seconds=60.0,
    counts=Counts(pages=90, admitted=97, finished=90, sites_ready=2, sites_waiting=5),
    in_flight=4,
    backlog_pages=6,
    backlog_bytes=600,
    processes=[FETCHER, FETCHER],
    bound=Bound("politeness", "sites are cooling"),
)


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    log = LogFile(tmp_path, "leader", "info")
    log.open()
    yield tmp_path / "leader.log"
    log.close()


def fields_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["fields"] for line in path.read_text("utf-8").splitlines()]


def counted(**places: float) -> dict[str, list[float]]:
    row = [0.0] * SIZE
    for name, count in places.items():
        row[int(name.removeprefix("place_"))] = count
    return {"fetcher-0": row}


def test_the_leader_logs_its_rates_once_a_minute(log_path: Path) -> None:
    line = MinuteLine(counted(), at=1000.0)
    for seconds in range(5, 181, 5):
        line.note(counted(), SAMPLE, at=1000.0 + seconds)
    assert [fields["seconds"] for fields in fields_in(log_path)] == [60.0, 60.0, 60.0]


def test_a_line_of_rates_covers_the_whole_minute(log_path: Path) -> None:
    line = MinuteLine(counted(), at=0.0)
    line.note(counted(), SAMPLE, at=30.0)
    rows = counted(
        **{
            f"place_{slot(FETCH_OUTCOMES, 'page')}": 90,
            f"place_{slot(FETCHES, 'page')}": 120,
            f"place_{slot(FETCHES, 'robots')}": 30,
            f"place_{slot(RECEIVED_BYTES)}": 6_000_000,
            f"place_{slot(FETCH_FAILURES, 'dns', 'page')}": 3,
            f"place_{slot(FETCH_FAILURES, 'timeout', 'robots')}": 1,
        }
    )
    line.note(rows, SAMPLE, at=60.0)
    assert fields_in(log_path) == [
        {
            "seconds": 60.0,
            "pages_per_second": 1.5,
            "requests_per_second": 2.5,
            "megabytes_per_second": 0.1,
            "parsed_per_second": 0.0,
            "failed_requests": 4,
            "pages": 90,
            "queued": 7,
            "ready_sites": 2,
            "cooling_sites": 3,
            "in_flight": 4,
            "spool_pages": 6,
            "spool_bytes": 600,
            "memory_bytes": 100_000_000,
            "descriptors": 60,
            "bound": "politeness",
        }
    ]


def test_every_field_of_the_line_of_rates_is_documented(log_path: Path) -> None:
    MinuteLine(counted(), at=0.0).note(counted(), SAMPLE, at=60.0)
    text = (Path(__file__).parents[2] / "docs/observing.md").read_text("utf-8")
    assert [name for name in fields_in(log_path)[0] if f"`{name}`" not in text] == []
