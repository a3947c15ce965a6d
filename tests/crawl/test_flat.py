"""Memory and descriptors do not grow with the length of a crawl."""

import time
from pathlib import Path

import msgspec
import pytest

from gossamer.run.data_directory import Processes
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import Crawls, crawls_of

PAGES = 20_000
WORKERS = 100
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
@pytest.mark.timeout(400)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to look into the processes")
def test_memory_and_descriptors_stay_flat_over_twenty_thousand_pages(tmp_path: Path, store: str) -> None:
    with crawls_of(WEB, tmp_path, store) as crawls:
        running = crawls.start(
            f"--max-pages={PAGES}",
            f"--fetcher-workers={WORKERS}",
            "--num-fetcher-processes=1",
            "--num-parser-processes=1",
        )
        at_half: dict[int, tuple[int, int]] = {}
        latest: dict[int, tuple[int, int]] = {}
        most_descriptors = 0
        deadline = time.monotonic() + 300
        while running.poll() is None:
            assert time.monotonic() < deadline, "the crawl does not get on"
            time.sleep(0.5)
            requests = sum(file.read_bytes().count(b"\n") for file in crawls.web.log_files)
            try:
                latest = sample(crawls) or latest
            except (OSError, msgspec.DecodeError):
                continue  # it ends at this moment
            most_descriptors = max(most_descriptors, *(descriptors for _, descriptors in latest.values()))
            if requests > PAGES / 2 and not at_half:
                at_half = latest
        summary = crawls.end(running)
    assert summary["pages"] == PAGES
    assert at_half.keys() == latest.keys()
    assert len(at_half) == 2
    growth = {pid: latest[pid][0] - at_half[pid][0] for pid in latest}
    assert max(growth.values()) <= 10 << 20, growth
    assert most_descriptors <= WORKERS + 64
