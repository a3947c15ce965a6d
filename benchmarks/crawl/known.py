"""What a page costs when the frontier knows many URLs before the crawl begins.

The URLs are pages of the web itself, as many of each site: they are admitted through the store's own `admit`, wait in
the queues, and are what is crawled then. The web has so many pages that few links lead to one of them.
"""

import asyncio
from pathlib import Path

import msgspec

from benchmarks.crawl.gossamer import Ask, crawl_command, measured, running, store_of
from benchmarks.crawl.measured import Measured
from benchmarks.crawl.processes import directory_bytes
from benchmarks.crawl.web import ServedWeb
from benchmarks.frontier.places import Place
from gossamer.config import FrontierSettings, IdentitySettings, Settings
from gossamer.frontier.store import AdmitLimits
from gossamer.records import Candidate, Reason
from gossamer.run.data_directory import DataDirectory
from gossamer.run.wiring import Workshop
from gossamer.seed.copy import copy_seeds, read_seed
from gossamer.url import Url

#: Of each site: of 100 links to it, 2.5 or fewer lead to one of the first 500, which are a million in all.
WEB_PAGES = 40_000
BATCH = 2_000


def measure(directory: Path, web: ServedWeb, place: Place, ask: Ask, known: int) -> Measured:
    data = DataDirectory(directory / "crawl")
    settings = Settings(
        identity=IdentitySettings(email="benchmark@example.org"), frontier=FrontierSettings(store=store_of(place))
    )
    data.create()
    copy_seeds([], str(web.seeds), data.seeds, settings.url)
    data.write_settings(settings)
    before = asyncio.run(_fill(data, settings, web, known))
    words = ["resume", str(data.root), *crawl_command(web, ask, store_of(place))]
    with running(data.root, words, place) as crawl:
        fetching = crawl.until_fetched(ask.warm_up)
        parsing = crawl.until_parsed(ask.warm_up)
        ended = crawl.until_ended()
        after = asyncio.run(_admitted(data, settings))
        kept = directory_bytes(data.root)
        found = measured(place.kind, web.scheme, fetching, parsing, ended, peak_bytes=crawl.peak_bytes, kept_bytes=kept)
    return msgspec.structs.replace(found, known=(before, after))


async def _fill(data: DataDirectory, settings: Settings, web: ServedWeb, known: int) -> int:
    """How many it knows then."""
    sites, count = web.web.sites, 0
    async with Workshop(data, settings, "filling", is_leader=True) as workshop:
        batch: list[Candidate] = []
        for number in range(-(-known // sites)):
            for index in range(min(sites, known - number * sites)):
                site = web.web.site(index)
                url = read_seed(site.url(number % site.open_pages), settings.url)
                assert isinstance(url, Url), "a page of the web is a URL"
                batch.append(Candidate(url.text, url.site, url.fingerprint, depth=1, via=web.web.home(index)))
            while len(batch) >= BATCH or (batch and (number + 1) * sites >= known):
                now = await workshop.store.now()
                answers = await workshop.store.admit(batch[:BATCH], AdmitLimits(), now=now)
                count += answers.count(Reason.NEW)
                del batch[:BATCH]
    return count


async def _admitted(data: DataDirectory, settings: Settings) -> int:
    async with Workshop(data, settings, "looking") as workshop:
        return (await workshop.store.counts(now=await workshop.store.now())).admitted
