"""Which rule keeps a URL out, as the rules are now, in words that name the setting. Pure; `explain.py` asks.

The reasons are those of `AdmissionRules` and of the store's `admit`, in their order; here they are only put into words.
"""

from collections.abc import Sequence

import msgspec

from gossamer.config import ScopeSettings
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.store import Sighting, SiteState
from gossamer.patterns import compile_pattern
from gossamer.records import Reason
from gossamer.units import counted
from gossamer.url import Url

#: Why a site is given up.
SITE_WORDS = {
    Reason.SITE_FAILING: "it failed too often in a row (max_failures)",
    Reason.CRAWL_DELAY: "its robots.txt asks for a longer Crawl-delay than max_crawl_delay",
    Reason.BLOCKED_SITE: "the exclude file lists it",
}


class Refused(msgspec.Struct, frozen=True):
    """A rule that is against a URL."""

    reason: Reason
    words: str
    """What the rule is, and what of the URL it is about."""


class RulesNow:
    """The rules of a crawl, with the settings and the exclude file that it has at this moment."""

    def __init__(self, scope: ScopeSettings, exclusions: Exclusions) -> None:
        self._scope = scope
        self._exclusions = exclusions
        self._rules = AdmissionRules(scope, exclusions)

    def against(self, url: Url, *, depth: int, hops: int, is_seed: bool) -> Refused | None:
        """What is said of a candidate, and again of a lease."""
        reason = self._rules.judge(url.text, url.site, depth, hops, is_seed)
        return None if reason is None else Refused(reason, self._words(reason, url, depth, hops))

    def against_unseen(self, url: Url, sighting: Sighting, depth: int | None = None) -> Refused | None:
        """What would be said of a link to a URL that is not known yet: the rules first, then the store's.

        `depth` is where it was found, if it was. Only seeds are at depth 0, and where they redirect to.
        """
        if depth is not None:
            is_seed = depth == 0
            found = self.against(url, depth=depth, hops=0, is_seed=is_seed)
            return found or self._full(url, sighting, is_seed=is_seed)
        if self._scope.max_depth == 0:
            # A link is at least one away from its seed.
            refused = self.against(url, depth=0, hops=0, is_seed=False)
            words = "max_depth is 0: only seeds are crawled, and where they redirect to"
            return refused or Refused(Reason.DEPTH, words)
        return self.against(url, depth=1, hops=0, is_seed=False) or self._full(url, sighting)

    def would_admit_seed(self, url: Url, sighting: Sighting) -> bool:
        site = sighting.site
        is_open = site is None or (site.dropped is None and self._overfull(url, site) is None)
        return is_open and self._rules.judge(url.text, url.site, 0, 0, True) is None

    def deepest(self) -> int | None:
        return self._scope.max_depth if self._scope.max_depth >= 0 else None

    def _full(self, url: Url, sighting: Sighting, *, is_seed: bool = False) -> Refused | None:
        """The store's own answers, in the order of `Store.admit`."""
        site, scope = sighting.site, self._scope
        if site is not None and site.dropped is not None:
            return Refused(Reason.SITE_DROPPED, f"its site was given up: {site_words(site.dropped)}")
        if not is_seed and scope.scope == "seeds" and (site is None or not site.is_seeded):
            return Refused(Reason.SCOPE, f"scope is seeds, and no seed is of its site, {url.site}")
        if site is None:
            return None
        counted = None if is_seed else self._counted(site, sighting.path_variants)
        return counted or self._overfull(url, site)

    def _counted(self, site: SiteState, path_variants: int) -> Refused | None:
        scope = self._scope
        if site.admitted >= scope.max_site_urls:
            words = f"its site has had {counted(site.admitted, 'URL')}, and max_site_urls is {scope.max_site_urls:,}"
            return Refused(Reason.SITE_FULL, words)
        if path_variants >= scope.max_path_variants:
            return Refused(
                Reason.PATH_VARIANTS,
                f"its path has had {counted(path_variants, 'URL')} that differ only in what follows it, and"
                f" max_path_variants is {scope.max_path_variants:,}",
            )
        return None

    def _overfull(self, url: Url, site: SiteState) -> Refused | None:
        scope = self._scope
        waiting = f"its site's queue has {counted(site.queued, 'URL')}"
        if site.queued >= scope.max_site_queue:
            return Refused(Reason.QUEUE_FULL, f"{waiting}, and max_site_queue is {scope.max_site_queue:,}")
        if (site.queued + 1) * len(url.text) > scope.max_site_queue_bytes:
            words = (
                f"{waiting}, and no room for one of {len(url.text):,} characters:"
                f" max_site_queue_bytes is {scope.max_site_queue_bytes:,}"
            )
            return Refused(Reason.QUEUE_FULL, words)
        return None

    def _words(self, reason: Reason, url: Url, depth: int, hops: int) -> str:
        scope = self._scope
        path = url.text.partition("?")[0]
        segments = path.removesuffix("/").split("/")[3:] or [""]
        repeated = max(segments, key=segments.count)
        words = {
            Reason.BLOCKED_SITE: f"the exclude file lists its site, {url.site}",
            Reason.DEPTH: f"it is {counted(depth, 'link')} away from a seed, and max_depth is {scope.max_depth}",
            Reason.HOPS: f"{counted(hops, 'redirect')} in a row led to it, and max_hops is {scope.max_hops}",
            Reason.EXTENSION: f"skip_extensions has {path.rpartition('.')[2].lower()!r}",
            Reason.PATH_DEPTH: f"its path has {counted(len(segments), 'segment')}, and max_path_segments is"
            f" {scope.max_path_segments}",
            Reason.PATH_REPEATS: f"{repeated!r} stands {segments.count(repeated)} times in its path, and"
            f" max_path_repeats is {scope.max_path_repeats}",
            Reason.NOT_INCLUDED: f"include is {_listed(scope.include)}, which is not found in it",
            Reason.EXCLUDED: self._exclusion(url),
        }
        return words[reason]

    def _exclusion(self, url: Url) -> str:
        if self._exclusions.covers(url.host):
            return f"the exclude file covers its host, {url.host}"
        for prefix in self._exclusions.prefixes.get(url.origin, ()):
            if url.text.startswith(prefix):
                return f"the exclude file has {prefix}"
        found = [pattern for pattern in self._scope.exclude if compile_pattern(pattern)(url.text)]
        return f"exclude is {_listed(found)}, which is found in it"


def _listed(patterns: Sequence[str]) -> str:
    """As they were given: backslashes are not doubled."""
    return " or ".join(f"'{pattern}'" for pattern in patterns)


def site_words(dropped: Reason) -> str:
    return SITE_WORDS.get(dropped, str(dropped))
