"""The floor: what fetching, gunzip and parsing take by themselves, over pages of all sites of the web."""

import json
import os
import subprocess
from pathlib import Path

from benchmarks.crawl.measured import Floor
from benchmarks.crawl.peers import PYTHON, ROOT
from benchmarks.crawl.web import ServedWeb
from gossamer.errors import GossamerError
from gossamer.report.resources import KEPT_BLOCK_BYTES

#: With so many the mean size of their bodies is within some percent of that of all pages.
PAGES = 2_000
#: Steps through the pages of a site from one site to the next, so that not only home pages are fetched.
_STEP = 7
#: As parsers have it: what is freed after a page is kept for the next.
_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(KEPT_BLOCK_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(2 * KEPT_BLOCK_BYTES),
}


def measure(directory: Path, web: ServedWeb) -> Floor:
    urls = []
    for index in range(PAGES):
        site = web.web.site(index % web.web.sites)
        urls.append(site.url(index * _STEP % site.open_pages))
    file = directory / "urls"
    file.write_text("\n".join(urls))
    port = web.https_port if web.scheme == "https" else web.http_port
    done = subprocess.run(
        [str(PYTHON), "-m", "benchmarks.crawl.floor_parts", str(port), str(file)],
        cwd=ROOT,
        env=os.environ | _MEMORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise GossamerError(f"the floor could not be measured: {done.stderr[-2_000:]}")
    return Floor(scheme=web.scheme, pages=len(urls), **json.loads(done.stdout))
