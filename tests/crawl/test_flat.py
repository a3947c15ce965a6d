"""Memory and descriptors do not grow with the length of a crawl."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from gossamer.report.resources import SPARE_DESCRIPTORS
from gossamer.run.data_directory import Processes
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import STORES_VARIABLE, Crawls, crawls_of

#: In `./check`, and where stores are named (`./check campaign`).
PAGES = 12_000 if STORES_VARIABLE not in os.environ else 20_000
WORKERS = 100
#: Many times the minute that it takes on two processors of its own.
PATIENCE_SECONDS = 900.0
WEB = Web(sites=1_000, pages=40, links_per_page=20, median_bytes=3_000, crawl_delay_seconds=0.1, https_share=0.1)


def memory_bytes(pid: int) -> int:
    """Resident, all of it; a process that has just ended has none."""
    status = Path(f"/proc/{pid}/status").read_text()
    if "VmRSS:" not in status:
        raise ProcessLookupError(pid)
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def sample(crawls: Crawls) -> dict[int, tuple[int, int]]:
    """Memory and descriptors of each process."""
    running = msgspec.json.decode((crawls.data / "processes.json").read_bytes(), type=Processes)
    return {pid: (memory_bytes(pid), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())) for pid in running.started}


@pytest.mark.long
@pytest.mark.timeout(2 * PATIENCE_SECONDS)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to look into the processes")
def test_memory_and_descriptors_stay_flat_over_many_thousand_pages(tmp_path: Path, store: str) -> None:
    with crawls_of(WEB, tmp_path, store) as crawls:
        running = crawls.start(
            f"--max-pages={PAGES}",
            f"--fetcher-workers={WORKERS}",
            "--num-fetcher-processes=1",
            "--num-parser-processes=1",
            # So that parts are merged in both halves.
            "--commit-pages=500",
        )
        least: dict[str, dict[int, int]] = {"second": {}, "last": {}}
        most_descriptors = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        while running.poll() is None:
            assert time.monotonic() < deadline, "the crawl does not get on"
            time.sleep(0.5)
            requests = sum(file.read_bytes().count(b"\n") for file in crawls.web.log_files)
            try:
                seen = sample(crawls)
            except (OSError, msgspec.DecodeError):
                continue  # it ends at this moment
            quarter = {1: "second", 3: "last"}.get(min(3, 4 * requests // PAGES))
            for pid, (resident_bytes, descriptors) in seen.items():
                most_descriptors = max(most_descriptors, descriptors)
                if quarter is not None:
                    # The least: what is only taken for a moment, to merge parts, is given back.
                    least[quarter][pid] = min(resident_bytes, least[quarter].get(pid, resident_bytes))
        summary = crawls.end(running)
    assert summary["pages"] == PAGES
    assert least["second"].keys() == least["last"].keys()
    assert len(least["last"]) == 2
    growth = {pid: least["last"][pid] - least["second"][pid] for pid in least["last"]}
    assert max(growth.values()) <= 10 << 20, growth
    assert most_descriptors <= WORKERS + SPARE_DESCRIPTORS
