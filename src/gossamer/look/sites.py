"""What became of each site: from the tables, and what its store says of the moment."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from gossamer.config import Settings
from gossamer.frontier.store import SiteState
from gossamer.look.status import reading
from gossamer.look.tables import Row, Rows, Tables
from gossamer.run.data_directory import DataDirectory

Order = Literal["pages", "bytes", "failures", "requests"]

#: A request is what took time: what robots.txt or a rule forbids is an outcome without one.
_FROM_FETCHES = """
SELECT site,
       count(*) FILTER (kind = 'url' AND outcome = 'done' AND failure_kind IS NULL AND status < 300) AS pages,
       count(*) FILTER (total_seconds > 0) AS requests,
       count(*) FILTER (kind = 'url' AND outcome = 'dropped') AS failures,
       coalesce(sum(bytes), 0) AS bytes,
       avg(total_seconds) FILTER (total_seconds > 0) AS mean_s,
       max(time) FILTER (total_seconds > 0) AS last_request
FROM fetches
GROUP BY site
"""
#: Where no log was written: a crawl of which only pages are known.
_FROM_PAGES = """
SELECT site, count(*) AS pages, NULL AS requests, NULL AS failures, coalesce(sum(received_bytes), 0) AS bytes,
       NULL AS mean_s, max(fetch_time) AS last_request
FROM pages
GROUP BY site
"""
COLUMNS = (
    "site",
    "pages",
    "requests",
    "failures",
    "bytes",
    "mean_s",
    "last_request",
    "queued",
    "next_in_s",
    "failing",
    "dropped",
)


class Standing(msgspec.Struct, frozen=True):
    """What the store says of some sites, and when."""

    now: float
    sites: dict[str, SiteState]


def top_sites(tables: Tables, order: Order, top: int) -> list[Row]:
    """The first columns of `COLUMNS`, of the sites that come first."""
    ((has_log,),) = tables.query("SELECT EXISTS (FROM fetches)").rows
    source = _FROM_FETCHES if has_log else _FROM_PAGES
    query = f"SELECT * FROM ({source}) ORDER BY {order} DESC NULLS LAST, site LIMIT ?"  # noqa: S608 (texts of ours)
    return list(tables.query(query, [top]).rows)


def ask_store(data: DataDirectory, settings: Settings, sites: Sequence[str]) -> Standing:
    return asyncio.run(_ask(data, settings, sites))


async def _ask(data: DataDirectory, settings: Settings, sites: Sequence[str]) -> Standing:
    async with reading(data, settings) as store:
        now = await store.now()
        return Standing(now, await store.site_states(sites))


def joined(rows: Sequence[Row], standing: Standing | None) -> Rows:
    """With what the store says; empty where it says nothing."""
    return Rows(list(COLUMNS), iter([(*row, *_state(row[0], standing)) for row in rows]))


def _state(site: str, standing: Standing | None) -> Row:
    state = None if standing is None else standing.sites.get(site)
    if standing is None or state is None:
        return (None, None, None, None)
    wait = max(0.0, round(state.not_before - standing.now, 1)) if state.queued or state.is_busy else None
    return (state.queued, wait, state.clock.failures, None if state.dropped is None else str(state.dropped))
