"""Which sites a process has been busy with, and which pages it read last: what counters cannot say, kept small."""

from collections import deque
from collections.abc import Callable, Iterable

from gossamer.report.sample import Activity, RecentPage, SiteActivity

#: Sites that a process remembers. When there are twice as many, those that were asked least are forgotten: a site that
#: is asked for its thousandth of all requests stays.
SITES_KEPT = 1_000
#: What a process tells of, and what is shown.
SITES_TOLD = 20
RECENT_SHOWN = 20
#: Of each parser; with URLs of 2,000 characters they still fit into the pipe to the leader, which takes 64 KB.
RECENT_KEPT = 10
TITLE_CHARACTERS = 200


class Sites:
    """The busiest and the most failing sites of one fetcher, roughly: what was forgotten begins at nothing again."""

    def __init__(self) -> None:
        self._sites: dict[str, SiteActivity] = {}

    def note(self, site: str, *, is_page: bool, is_failure: bool, received_bytes: int) -> None:
        known = self._sites.get(site)
        if known is None:
            if len(self._sites) >= 2 * SITES_KEPT:
                self._forget()
            known = self._sites[site] = SiteActivity(site=site)
        known.requests += 1
        known.pages += is_page
        known.failures += is_failure
        known.received_bytes += received_bytes

    def told(self) -> list[SiteActivity]:
        """The busiest, and the most failing ones that are not among them."""
        return _most(self._sites.values())

    def _forget(self) -> None:
        kept = _top(self._sites.values(), SITES_KEPT // 2, _busy) + _top(
            self._sites.values(), SITES_KEPT // 2, _failing
        )
        self._sites = {one.site: one for one in kept}


class RecentPages:
    """The pages that one parser has read last."""

    def __init__(self) -> None:
        self._pages: deque[RecentPage] = deque(maxlen=RECENT_KEPT)

    def note(self, page: RecentPage) -> None:
        self._pages.append(page)

    def told(self) -> list[RecentPage]:
        return list(self._pages)


def gathered(sites: Iterable[SiteActivity], recent: Iterable[RecentPage]) -> Activity:
    """Of what all processes have told; a site belongs to one of them at a time, and may have moved."""
    known: dict[str, SiteActivity] = {}
    for one in sites:
        both = known.setdefault(one.site, SiteActivity(site=one.site))
        both.requests += one.requests
        both.pages += one.pages
        both.failures += one.failures
        both.received_bytes += one.received_bytes
    return Activity(
        busiest=_top(known.values(), SITES_TOLD, _busy),
        failing=[one for one in _top(known.values(), SITES_TOLD, _failing) if one.failures],
        recent=sorted(recent, key=lambda page: page.fetched_at, reverse=True)[:RECENT_SHOWN],
    )


def _most(sites: Iterable[SiteActivity]) -> list[SiteActivity]:
    known = list(sites)
    most = _top(known, SITES_TOLD, _busy) + [one for one in _top(known, SITES_TOLD, _failing) if one.failures]
    return list({one.site: one for one in most}.values())


def _top(
    sites: Iterable[SiteActivity], count: int, key: Callable[[SiteActivity], tuple[int, int]]
) -> list[SiteActivity]:
    return sorted(sites, key=key, reverse=True)[:count]


def _busy(one: SiteActivity) -> tuple[int, int]:
    return one.requests, one.received_bytes


def _failing(one: SiteActivity) -> tuple[int, int]:
    return one.failures, one.requests
