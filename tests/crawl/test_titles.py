"""What `ps` and `top` show of a crawl that runs."""

import time
from pathlib import Path

import pytest

from gossamer.run.data_directory import DataDirectory
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import crawls_of, stopped

PATIENCE_SECONDS = 100.0
WEB = Web(sites=5, pages=5, links_per_page=3, median_bytes=600)


def titles(pids: list[int]) -> dict[str, str]:
    """What `top` shows of them, by what `ps` shows."""
    found = {}
    for pid in pids:
        shown = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
        found[shown] = Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    return found


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="titles are read from /proc")
def test_every_process_of_a_crawl_has_its_name_and_is_still_known_as_recorded(tmp_path: Path) -> None:
    expected = {
        "gossamer: leader my?[31mcrawl": "gossamer:leader",
        "gossamer: fetcher-1 my?[31mcrawl": "gossamer:fetch1",
        "gossamer: parser-0 my?[31mcrawl": "gossamer:parse0",
        "gossamer: parser-1 my?[31mcrawl": "gossamer:parse1",
    }
    with crawls_of(WEB, tmp_path, "sqlite") as crawls:
        crawls.data = tmp_path / "my\x1b[31mcrawl"
        data = DataDirectory(crawls.data)
        # Nobody answers: the crawl cannot end before it is looked at.
        with stopped(crawls.web.pids):
            process = crawls.start("--num-fetcher-processes=2", "--num-parser-processes=2")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while (seen := titles(pids := data.running())) != expected:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, seen
                time.sleep(0.05)
            last = data.processes()
            assert last is not None
            assert (sorted(pids), last.leader) == (sorted(last.started), process.pid)
        crawls.interrupt(process)
