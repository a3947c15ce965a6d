"""Sites that make URLs without end, with no limit on depth or pages: each gets its share, and the crawl ends."""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web import access_log
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import hostile_sites
from gossamer.testing.web.hostile.site import Pace, Place, computed, document, links, play
from gossamer.testing.web.server import SimulatedWeb
from gossamer.url import registrable_domain
from tests.crawl.conftest import PATIENCE_SECONDS

SITE_URLS = 70
PATH_VARIANTS = 12
PATH_SEGMENTS = 8
PATH_REPEATS = 2
CAPS = (
    f"--max-site-urls={SITE_URLS}",
    f"--max-path-variants={PATH_VARIANTS}",
    f"--max-path-segments={PATH_SEGMENTS}",
    f"--max-path-repeats={PATH_REPEATS}",
)
#: The catalogue's: an address that quotes itself, a calendar, session ids, relative links that nest, filters in every
#: order, pages that are always there, hosts without number.
OF_THE_CATALOGUE = ("h24.test", "h26.test", "h27.test", "h28.test", "h29.test", "h30.test", "farm.test")


def _word(target: str, number: int = 0) -> str:
    return hashlib.blake2b(f"{target} {number}".encode(), digest_size=6).hexdigest()


def _deeper(target: str) -> list[str]:
    """Ever new words, each below the last."""
    return [f"{target.rstrip('/')}/{_word(target)}/"]


def _wrong_base(target: str) -> list[str]:  # noqa: ARG001
    """A menu with relative links, where a page forgot its slash: it nests on every page."""
    return ["shop/new.html", "shop/sale.html/", "help/"]


def _counting(target: str) -> list[str]:
    number = int(target.rpartition("=")[2]) if "=" in target else 0
    return [f"/list?page={number + step}" for step in range(1, 9)]


def _session_in_path(target: str) -> list[str]:
    return [f"/{page}.html;sid={_word(target)}" for page in ("home", "cart", "about")]


def _session_as_directory(target: str) -> list[str]:
    return [f"/(S({_word(target)}))/{page}.html" for page in ("home", "cart")]


def _words(target: str) -> list[str]:
    return [f"/{_word(target, number)}.html" for number in range(20)]


def _days(target: str) -> list[str]:
    """A calendar with its dates in the path."""
    year, month, day = (int(part) for part in re.findall(r"\d+", f"{target} 2026 1 1")[:3])
    return [f"/{year + 1}/{month}/{day}/", f"/{year}/{month + 1}/{day}/", f"/{year}/{month}/{day + 1}/"]


OURS: dict[str, Callable[[str], list[str]]] = {
    "deeper.test": _deeper,
    "wrong-base.test": _wrong_base,
    "counting.test": _counting,
    "session-in-path.test": _session_in_path,
    "session-as-directory.test": _session_as_directory,
    "words.test": _words,
    "days.test": _days,
}
#: What only the share of a site bounds: these get all of it.
WITHOUT_ANOTHER_BOUND = {"farm.test", "h30.test", "session-as-directory.test", "words.test", "days.test"}
TRAPS = {*OF_THE_CATALOGUE, *OURS}
WEB = Web(sites=12, pages=12, links_per_page=15, median_bytes=3_000, https_share=0.0, crawl_delay_seconds=0.1)


def _trap(make: Callable[[str], list[str]]) -> Place:
    return Place(play=computed(lambda target: document("A trap", links(make(target)))))


async def crawl_traps(directory: Path, store: str) -> dict[str, Any]:
    """One crawl of all traps and of the good sites; its summary."""
    catalogue = hostile_sites()
    hostile = {domain: catalogue[domain] for domain in OF_THE_CATALOGUE}
    for domain, make in OURS.items():
        hostile[domain] = partial(play, {"*/*": _trap(make)}, Pace())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    async with SimulatedWeb(WEB, log_directory=directory, hostile=hostile, https=False) as simulated:
        (directory / "seeds.txt").write_text("\n".join([*WEB.seeds(), *(f"http://{domain}/" for domain in TRAPS)]))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gossamer", "crawl", "--json", "--email=test@example.org", "--delay=0"),
            *(f"--data-dir={directory / 'crawl'}", f"--seed-file={directory / 'seeds.txt'}"),
            *(f"--connect-to=127.0.0.1:{simulated.http_port}", "--backoff=0.2", "--num-parser-processes=2"),
            *(f"--store={store}", *CAPS),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), 2 * PATIENCE_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, errors.decode()
    summary: dict[str, Any] = json.loads(output)
    return summary


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECONDS)
def test_trap_sites_get_no_more_than_their_caps_while_good_sites_complete_and_the_crawl_ends(
    tmp_path: Path, store: str
) -> None:
    summary = asyncio.run(crawl_traps(tmp_path, store))
    assert summary["stop_reason"] == "exhausted"
    assert summary["queued"] == 0
    for reason in ("site-full", "path-variants", "path-depth", "path-repeats"):
        assert summary["refused"][reason] > 0
    requests = [
        request
        for request in access_log.read([tmp_path / "access-0.log"])
        if registrable_domain(request.host) not in TRAPS or request.path != "/robots.txt"
    ]
    in_traps = [request for request in requests if registrable_domain(request.host) in TRAPS]
    assert max(Counter((request.host, request.path) for request in in_traps).values()) == 1

    by_site = Counter(registrable_domain(request.host) for request in in_traps)
    assert len(by_site) == len(TRAPS) >= 10
    assert {site: count for site, count in by_site.items() if count > SITE_URLS} == {}
    assert {site for site, count in by_site.items() if count == SITE_URLS} >= WITHOUT_ANOTHER_BOUND
    by_path = Counter(
        (request.host, path) for request in in_traps if (path := re.split("[?;]", request.path)[0]) != request.path
    )
    assert max(by_path.values()) == PATH_VARIANTS
    # One path with parameters and one without, and the home page: nothing else is in this trap.
    assert by_site["counting.test"] == PATH_VARIANTS + 1
    segments = [request.path.partition("?")[0].strip("/").split("/") for request in in_traps]
    assert max(map(len, segments)) == PATH_SEGMENTS
    assert max(max(Counter(path).values()) for path in segments) == PATH_REPEATS
    # Its pages stand one below the other, so that one of each depth is all of it.
    assert by_site["deeper.test"] == PATH_SEGMENTS + 1

    good = [request for request in requests if registrable_domain(request.host) not in TRAPS]
    judged = audit(good, WEB, Rules(seeds=WEB.seeds(), delay_seconds=0.0, files=False))
    assert judged.is_clean, judged.verdict
    assert judged.counts.urls_expected_requested == judged.counts.urls_expected > 100
