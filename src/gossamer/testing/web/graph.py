"""Which sites, pages and links there are: all of it follows from `Web`, nothing is stored.

Reachability is known without looking at a page. Every page links to its own home page, the home page is the root of a
tree over the site's open pages, and it links to the home pages of the site's *neighbours*, the only sites that any page
of this one leads to. So a site that is entered at all is entered whole, and only the graph of sites has to be searched.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from statistics import NormalDist
from typing import Literal

import msgspec

from gossamer.testing.web.hrefs import Place, Written, as_pair, written
from gossamer.testing.web.policies import OUR_AGENT, Policy, PolicyMix, allows, robots_answer
from gossamer.testing.web.sites import (
    ERROR_STATUSES,
    FILE_TYPES,
    PAGES,
    REDIRECT_STATUSES,
    Kind,
    Site,
    draws,
    ends,
    least_open_pages,
    share,
    site_salt,
)

_HOST = re.compile(r"(?:(www|blog|shop)\.)?s(0|[1-9][0-9]{0,8})\.test")
_FILE_SUFFIXES = tuple(suffix for suffix, _ in FILE_TYPES)
_SUB_HOSTS = ("www", "blog", "shop")

#: Other sites that a page other than the home page leads to, with several links each.
_SITES_PER_PAGE = 4

_STANDARD_NORMAL = NormalDist()


class Link(msgspec.Struct, frozen=True, gc=False):
    """One link of a page."""

    href: str
    """As the attribute's value reads once its character references are resolved."""
    target: str | None
    """The canonical URL that it comes to, None if it is no candidate."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the server answers, but for the bytes."""

    kind: Kind
    status: int
    location: str | None = None
    """Where a redirect leads: a whole, canonical URL."""
    retry_after_seconds: int | None = None
    text: str = ""
    """Of a robots.txt."""
    site: int = -1
    number: int = -1
    """Of the resource, where it is one of the site's numbered ones."""

    @property
    def is_page(self) -> bool:
        return self.kind in PAGES and self.status == 200


class Web(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole web: pure, without state, the same in every process. As JSON it is the `web.json` beside an access log.

    URLs carry default ports: a crawler reaches the server by having its connections led there. A URL that is asked for
    under the other scheme than its site's is redirected to that one.
    """

    seed: int = 0
    sites: int = 100
    pages: int = 100
    """HTML pages of each site, the private, busy and orphaned ones included."""
    links_per_page: int = 100
    """On a page, on average; half as many to half as many again."""
    own_share: float = 0.6
    """Of the links that stay on the site."""
    neighbours: int = 16
    """Sites that a site links to."""
    https_share: float = 0.0
    """Of the sites that live on HTTPS."""
    multi_host_share: float = 0.2
    """Of the sites with more than one host."""
    sitemap_share: float = 0.3
    private_share: float = 0.05
    busy_share: float = 0.01
    redirect_share: float = 0.04
    missing_share: float = 0.02
    error_share: float = 0.01
    file_share: float = 0.04
    orphan_share: float = 0.01
    robots: PolicyMix = PolicyMix()
    crawl_delay_seconds: float = 2.0
    """Of the origins whose robots.txt names one."""
    busy_attempts: int = 1
    """How often a busy page refuses before it answers."""
    retry_after_seconds: int = 1
    latency_median_seconds: float = 0.0
    """Before the first byte; log-normal over the URLs, always the same for one."""
    latency_sigma: float = 0.5
    median_bytes: int = 60_000
    """Of a page; log-normal, see pages.py."""
    size_sigma: float = 1.18
    encodings: tuple[Literal["br", "gzip"], ...] = ("br", "gzip")
    """Content encodings of pages that the server has, the best first."""

    def __post_init__(self) -> None:
        wrong = [name for name in ("sites", "pages", "links_per_page", "median_bytes") if getattr(self, name) < 1]
        shares = (name for name in self.__struct_fields__ if name.endswith("_share"))
        wrong += [name for name in shares if not 0 <= getattr(self, name) <= 1]
        if wrong:
            given = ", ".join(f"{name} = {getattr(self, name)}" for name in wrong)
            raise ValueError(f"{given}; sizes are 1 or more, shares 0 to 1")

    def site_name(self, index: int) -> str:
        return f"s{index}.test"

    def site_index(self, host: str) -> int | None:
        """Of the site that a host belongs to; None if it is not of this web."""
        match = _HOST.fullmatch(host)
        index = int(match[2]) if match else self.sites
        return index if index < self.sites else None

    def is_known_site(self, site: str) -> bool:
        return self.site_index(site) is not None

    def site(self, index: int) -> Site:
        chance = draws(10, self.seed, index, "site")
        name = self.site_name(index)
        several = share(chance[0]) < self.multi_host_share
        sub_hosts = _SUB_HOSTS[: 1 + chance[1] % len(_SUB_HOSTS)] if several else ()
        return Site(
            index=index,
            name=name,
            scheme=self._scheme(index),
            hosts=(name, *(f"{sub}.{name}" for sub in sub_hosts)),
            ends=ends(self.pages, self._shares, chance[3:10]),
            salt=site_salt(self.seed, index),
            has_sitemap=share(chance[2]) < self.sitemap_share,
        )

    def neighbour_sites(self, index: int) -> list[int]:
        """The next one, which makes a ring of all sites, and others by chance; never the site itself."""
        if self.sites == 1:
            return []
        others = draws(max(1, min(self.neighbours, self.sites - 1)), self.seed, index, "neighbours")
        return [
            (index + 1 + (draw % (self.sites - 1) if place else 0)) % self.sites for place, draw in enumerate(others)
        ]

    def policy(self, host: str) -> Policy:
        """Of both origins of a host."""
        return self.robots.choose(share(draws(1, self.seed, host, "robots")[0]))

    def seeds(self, count: int | None = None) -> list[str]:
        """The home pages of the first sites, of all by default."""
        return [self.home(index) for index in range(self.sites if count is None else min(count, self.sites))]

    def home(self, index: int) -> str:
        return f"{self._scheme(index)}://{self.site_name(index)}/"

    def links_of(self, site: Site, number: int) -> list[str | Written]:
        """The links of a page in their order; plain ones as in `hrefs.written`, the others as pairs."""
        drawn = draws(self.links_per_page * 3 // 2 + 1, self.seed, site.index, number, "links")
        neighbours = self.neighbour_sites(site.index)
        # A page leads to few of them: naming a site costs more than linking to it.
        first = drawn[0] >> 16
        some = [neighbours[(first + step) % len(neighbours)] for step in range(min(_SITES_PER_PAGE, len(neighbours)))]
        place = Place(site, number)
        fixed = [place.own_link(target, 0) for target in _tree(site, number)]
        if number == 0:
            fixed += [place.link(self.home(index)[:-1], "/", 0) for index in neighbours]
        wanted = self.links_per_page // 2 + (drawn[0] & 0xFFFF) % (self.links_per_page + 1)
        return [
            *fixed,
            *written(
                place,
                drawn[1 : 1 + max(0, wanted - len(fixed))],
                own_share=self.own_share,
                others=[(site_salt(self.seed, index), self.home(index)[:-1]) for index in some],
                # Pages with children, on every site: their host is the site's own.
                inner_pages=max(1, (least_open_pages(self.pages, self._shares) - 1) // 2),
            ),
        ]

    def links(self, url: str) -> list[Link]:
        """Of the page at a URL; none if there is no page."""
        answer = self.answer(url, attempt=self.busy_attempts)
        if not answer.is_page:
            return []
        origin = url[: url.index("/", len("https://"))]
        return [
            Link(*(as_pair(link, origin) if isinstance(link, str) else link))
            for link in self.links_of(self.site(answer.site), answer.number)
        ]

    def answer(self, url: str, attempt: int = 0) -> Answer:
        """What the server says to a canonical URL; `attempt` counts the requests for it that came before."""
        scheme, _, rest = url.partition("://")
        host, slash, target = rest.partition("/")
        return self.answer_to(scheme, host, slash + target, attempt)

    def answer_to(self, scheme: str, host: str, target: str, attempt: int = 0) -> Answer:
        index = self.site_index(host)
        if index is None:
            return Answer(kind=Kind.NOWHERE, status=404)
        site = self.site(index)
        if target.startswith("/robots"):
            sitemap = f"{site.scheme}://{site.name}/sitemap.xml" if site.has_sitemap else None
            said = robots_answer(self.policy(host), target, self.crawl_delay_seconds, sitemap)
            if said is not None:
                location = f"{scheme}://{host}{said.location}" if said.location else None
                return Answer(kind=Kind.ROBOTS, status=said.status, location=location, text=said.text, site=index)
        if host not in site.hosts:
            return Answer(kind=Kind.NOWHERE, status=404)
        if scheme != site.scheme:
            return Answer(kind=Kind.REDIRECT, status=301, location=f"{site.scheme}://{host}{target}", site=index)
        if target == "/" and host != site.name:
            return Answer(kind=Kind.REDIRECT, status=301, location=self.home(index), site=index)
        if target == "/sitemap.xml" and host == site.name and site.has_sitemap:
            return Answer(kind=Kind.SITEMAP, status=200, site=index)
        found = site.find(host, target)
        if found is None:
            return Answer(kind=Kind.NOWHERE, status=404, site=index)
        return self._numbered(site, *found, attempt)

    def _numbered(self, site: Site, number: int, hops_left: int, attempt: int) -> Answer:
        kind = site.kind(number)
        look = site.look(number)
        status, location, retry_after = 200, None, None
        if kind is Kind.MISSING:
            status = 404
        elif kind is Kind.ERROR:
            status = ERROR_STATUSES[look & 3]
        elif kind is Kind.BUSY and attempt < self.busy_attempts:
            status, retry_after = (503 if look & 1 else 429), self.retry_after_seconds
        elif kind is Kind.REDIRECT:
            status = REDIRECT_STATUSES[(look + hops_left) & 7]
            location = self._redirect_target(site, number, hops_left)
        return Answer(
            kind=kind,
            status=status,
            location=location,
            retry_after_seconds=retry_after,
            site=site.index,
            number=number,
        )

    def _redirect_target(self, site: Site, number: int, hops_left: int) -> str:
        if hops_left > 1:
            return f"{site.scheme}://{site.host(number)}{site.hop_path(number, hops_left - 1)}"
        chance = draws(2, self.seed, site.index, number, "redirect")
        neighbours = self.neighbour_sites(site.index)
        if neighbours and chance[0] % 3 == 0:
            return self.home(neighbours[chance[1] % len(neighbours)])
        return site.url(chance[1] % site.open_pages)

    def is_allowed(self, url: str, agent: str = OUR_AGENT) -> bool:
        """What the robots.txt of the URL's origin says, by closed form."""
        host, slash, target = url.partition("://")[2].partition("/")
        return allows(self.policy(host), slash + target, agent)

    def crawl_delay(self, site: str | int) -> float | None:
        """The highest that any origin of the site asks for."""
        index = site if isinstance(site, int) else self.site_index(site)
        if index is None or all(self.policy(host) is not Policy.DELAY for host in self.site(index).hosts):
            return None
        return self.crawl_delay_seconds

    def latency_seconds(self, url: str) -> float:
        if not self.latency_median_seconds:
            return 0.0
        chance = share(draws(1, self.seed, url, "latency")[0])
        # inv_cdf is not defined at 0, which one draw in 2^32 gives.
        deviation = _STANDARD_NORMAL.inv_cdf(max(chance, 1e-9))
        return float(self.latency_median_seconds * 2.718281828459045 ** (self.latency_sigma * deviation))

    def reachable(
        self,
        seeds: Iterable[str],
        *,
        max_depth: int | None = None,
        same_sites_only: bool = False,
        files: bool = True,
        limit: int | None = None,
    ) -> set[str]:
        """Every URL that a crawler which obeys robots.txt must request, robots.txt itself left out.

        Seeds are canonical URLs at depth 0; a redirect's target has the depth of the redirect, and a seed's makes its
        site a seeded one. `files=False` leaves out what is not HTML, `limit` stops after so many. With `max_depth`
        every page up to there is looked at, at 0.1 ms each; without, a million URLs take some seconds.
        """
        found = (
            self._search(seeds, max_depth, same_sites_only)
            if max_depth is not None
            else self._closure(list(seeds), same_sites_only)
        )
        wanted = (url for url in found if files or not url.endswith(_FILE_SUFFIXES))
        return set(islice(wanted, limit))

    def _closure(self, seeds: list[str], same_sites_only: bool) -> Iterator[str]:
        entered: dict[int, None] = {}
        followed: set[str] = set()
        for seed in seeds:
            for url, answer in self._redirects(seed):
                followed.add(url)
                if answer.kind in PAGES:
                    if not self.is_allowed(self.home(answer.site)):
                        # On another host than the home page, which is closed: the rest must be searched from here.
                        yield from self._search(seeds, None, same_sites_only)
                        return
                    entered[answer.site] = None
        yield from followed
        waiting = deque(entered)
        while waiting:
            index = waiting.popleft()
            yield from (url for url in self._site_urls(self.site(index)) if url not in followed)
            for other in () if same_sites_only else self.neighbour_sites(index):
                if other not in entered and self.is_allowed(self.home(other)):
                    entered[other] = None
                    waiting.append(other)

    def _redirects(self, url: str) -> Iterator[tuple[str, Answer]]:
        """A seed and what it redirects to, as far as robots.txt allows."""
        location: str | None = url
        while location is not None and self.is_allowed(location):
            answer = self.answer(location)
            yield location, answer
            location = answer.location

    def _site_urls(self, site: Site) -> Iterator[str]:
        """All that is linked and allowed on a site that was entered."""
        policies = {host: self.policy(host) for host in site.hosts}
        for number in range(site.linked):
            host = site.host(number)
            path = site.path(number)
            if not allows(policies[host], path, OUR_AGENT):
                continue
            yield f"{site.scheme}://{host}{path}"
            if path.startswith("/go/"):
                for hops_left in range(1, site.hops(number)):
                    yield f"{site.scheme}://{host}{site.hop_path(number, hops_left)}"

    def _search(self, seeds: Iterable[str], max_depth: int | None, same_sites_only: bool) -> Iterator[str]:
        """Page by page, nearest first."""
        waiting = deque((url, 0) for url in seeds)
        scope = {self._index(url) for seed in seeds for url, _ in self._redirects(seed)} if same_sites_only else None
        seen: set[str] = set()
        while waiting:
            url, depth = waiting.popleft()
            index = self._index(url)
            if url in seen or index is None or (scope is not None and index not in scope) or not self.is_allowed(url):
                continue
            seen.add(url)
            yield url
            location = self.answer(url).location
            if location is not None:
                waiting.appendleft((location, depth))
            elif max_depth is None or depth < max_depth:
                waiting.extend((link.target, depth + 1) for link in self.links(url) if link.target is not None)

    def _index(self, url: str) -> int | None:
        return self.site_index(url.partition("://")[2].partition("/")[0])

    def _scheme(self, index: int) -> str:
        if not self.https_share:
            return "http"
        return "https" if share(draws(1, self.seed, index, "scheme")[0]) < self.https_share else "http"

    @property
    def _shares(self) -> tuple[float, ...]:
        """In the order of the kinds."""
        return (
            self.private_share,
            self.busy_share,
            self.redirect_share,
            self.missing_share,
            self.error_share,
            self.file_share,
            self.orphan_share,
        )


def _tree(site: Site, number: int) -> Iterator[int]:
    """What a page must link to, so that the whole site can be reached: the home page, its children, its leaves."""
    yield 0
    open_pages = site.open_pages
    if number < open_pages:
        yield from range(2 * number + 1, min(2 * number + 3, open_pages))
        yield from range(open_pages + number, site.linked, open_pages)
