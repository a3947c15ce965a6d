"""What is known of one URL, from the store, the files and the settings. Reads only, and holds nothing open."""

import asyncio
import time
from typing import Any

from gossamer.config import Settings
from gossamer.frontier.refused_links import RefusedLinksReader
from gossamer.frontier.store import Counts, Sighting, SiteState
from gossamer.frontier.traps import path_fingerprint
from gossamer.look.attempts import Attempt, attempts_at, last_attempt_at_site, pages_at, place_of
from gossamer.look.explain import Evidence
from gossamer.look.refused_before import Remembered
from gossamer.look.status import reading
from gossamer.look.tables import Tables
from gossamer.records import Candidate, RobotsCopy
from gossamer.run.data_directory import DataDirectory
from gossamer.seed.load import is_loaded
from gossamer.url import Url, canonicalise

#: Two clocks, and what may lie between the end of a request and its release. Failing sites are left alone for longer.
SAME_SECONDS = 5.0


def gather(data: DataDirectory, settings: Settings, typed: str, url: Url) -> Evidence:
    """The store first: what it calls finished is in the files by then, and what it calls queued may be finished."""
    last, there = data.processes(), data.running()
    now, sighting, robots, counts = asyncio.run(_ask_store(data, settings, url))
    with Tables(data.root) as tables:
        attempts = attempts_at(tables, url.text)
        pages = [] if attempts else pages_at(tables, url.text)
        site_attempt = _last_request(tables, sighting.site, now)
    refused = RefusedLinksReader(data.refused)
    target = next((attempt.redirect for attempt in reversed(attempts) if attempt.redirect), None)
    target_url = None if target is None else canonicalise(target, url, settings.url)
    return Evidence(
        typed=typed,
        url=url,
        settings=settings,
        exclusions=data.exclusions(),
        now=now,
        sighting=sighting,
        robots=robots,
        attempts=attempts,
        page=_as_attempt(pages[0]) if pages else None,
        site_attempt=site_attempt,
        pages=counts.pages,
        remembered=Remembered(
            links=refused.find(url.fingerprint),
            target=refused.find(target_url.fingerprint) if isinstance(target_url, Url) else [],
            is_recorded=refused.is_there,
            may_have_forgotten=refused.may_have_forgotten,
        ),
        is_running=last is not None and last.leader in there,
        paused_by=data.paused_by(),
        is_loading=not is_loaded(data.seeds),
    )


async def _ask_store(
    data: DataDirectory, settings: Settings, url: Url
) -> tuple[float, Sighting, RobotsCopy | None, Counts]:
    candidate = Candidate(url.text, url.site, url.fingerprint, path_fingerprint=path_fingerprint(url.text))
    async with reading(data, settings) as store:
        now = await store.now()
        sighting = await store.find(candidate)
        robots = await store.load_robots([url.origin])
        return now, sighting, robots.get(url.origin), await store.counts(now=now)


def _last_request(tables: Tables, site: SiteState | None, now: float) -> Attempt | None:
    """Of a site that fails, if the files have it already; an earlier one may have failed for another reason."""
    if site is None or not site.clock.failures:
        return None
    found = last_attempt_at_site(tables, site.name)
    if found is None:
        return None
    ended_ago = time.time() - found.at.timestamp() - (found.total_seconds or 0.0)
    return found if abs(ended_ago - (now - site.clock.last_request_at)) < SAME_SECONDS else None


def _as_attempt(page: dict[str, Any]) -> Attempt:
    """What `pages` says of the only attempt that it knows of."""
    return Attempt(
        at=page["fetch_time"],
        url=page["url"],
        outcome="done",
        status=page["fetch_status"],
        bytes=page["received_bytes"],
        address=page["address"],
        via=page["via"],
        depth=page["depth"],
        hops=page["hops"],
        place=place_of(page["warc_filename"], page["warc_record_offset"], page["warc_record_length"]),
    )
