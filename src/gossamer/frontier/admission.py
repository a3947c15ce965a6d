"""The rules of admission: a reason why a URL is not crawled, or none. Pure; what only the store can know is not here.

Parsers and the seed loader ask them of every candidate, fetchers ask them again of every lease: an exclusion that was
added at a resume so reaches what is queued already.

An exclude file has one entry a line; what follows a `#` is a comment:

    example.org                      this domain or host, and every host below it; a public suffix (com, co.uk) too
    https://example.com/private/     every URL that begins so
"""

from functools import lru_cache

import msgspec

from gossamer.config import ScopeSettings
from gossamer.errors import UsageError
from gossamer.frontier.store import AdmitLimits
from gossamer.frontier.traps import PathLimits
from gossamer.patterns import compile_patterns
from gossamer.records import Lease, Reason
from gossamer.url import Refusal, canonicalise, redacted

#: Origins whose standing with the exclude file is remembered. As many as `url.py` remembers, for the same reason: the
#: same few thousand stand in most links.
_REMEMBERED_ORIGINS = 65_536
_NO_LIMIT = 1 << 62


class Exclusions(msgspec.Struct, frozen=True):
    """An exclude file, parsed. Both kinds of entry are canonical, so they are compared with URLs letter by letter."""

    domains: frozenset[str] = frozenset()
    prefixes: dict[str, tuple[str, ...]] = {}
    """URL prefixes by their origin."""

    def __bool__(self) -> bool:
        return bool(self.domains or self.prefixes)

    def covers(self, host: str) -> bool:
        """Whether this host or a domain above it is listed."""
        while host not in self.domains:
            host = host.partition(".")[2]
            if not host:
                return False
        return True


def parse_exclusions(text: str, source: str) -> Exclusions:
    """`source` is the file's name, for the message about a line that is no entry."""
    domains: set[str] = set()
    prefixes: dict[str, list[str]] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        is_prefix = "/" in entry
        url = canonicalise(entry if is_prefix else f"https://{entry}/")
        # The URL standard lets "*" stand in a host: "*.example.org" would be taken, and would never exclude a thing.
        is_bare = not isinstance(url, Refusal) and url.text == f"https://{url.host}/" and "@" not in entry
        if isinstance(url, Refusal) or "*" in url.host or not (is_prefix or is_bare):
            raise UsageError(
                f"{source}, line {number}: {redacted(entry)!r:.200} is no exclusion; write a domain such as example.org"
                " (which covers the hosts below it) or the beginning of a URL such as https://example.org/private/"
            )
        if is_prefix:
            prefixes.setdefault(url.origin, []).append(url.text)
        else:
            domains.add(url.host)
    return Exclusions(frozenset(domains), {origin: tuple(texts) for origin, texts in prefixes.items()})


class AdmissionRules:
    """The rules of one crawl, compiled once. The same URL gets the same answer in every process.

    Called for every link of every page, so it takes plain values and makes nothing. Whether a URL is new, its site was
    seeded or has had its share only the store can say: `limits` tells it how to judge that.
    """

    def __init__(self, scope: ScopeSettings, exclusions: Exclusions) -> None:
        self.limits = AdmitLimits(
            only_seeded_sites=scope.scope == "seeds",
            site_queue=scope.max_site_queue,
            site_queue_bytes=scope.max_site_queue_bytes,
            site_urls=scope.max_site_urls,
            path_variants=scope.max_path_variants,
        )
        self._path_limits = PathLimits(scope.max_path_segments, scope.max_path_repeats)
        self._max_depth = scope.max_depth if scope.max_depth >= 0 else _NO_LIMIT
        self._max_hops = scope.max_hops
        words = (word.lower().lstrip(".") for word in scope.skip_extensions.split())
        # Without slashes, so that one can be looked up before it is known to stand in the last segment.
        self._skipped = frozenset(word for word in words if "/" not in word)
        self._is_included = compile_patterns(scope.include)
        self._is_excluded = compile_patterns(scope.exclude)
        self.exclude(exclusions)

    def exclude(self, exclusions: Exclusions) -> None:
        """From now on these, and no others."""
        self._exclusions = exclusions
        self._standing = lru_cache(_REMEMBERED_ORIGINS)(self._standing_of) if exclusions else None

    def judge(self, url: str, site: str, depth: int, hops: int, is_seed: bool) -> Reason | None:
        """Why this canonical URL is not crawled, or None.

        Seeds need not be included, may have any extension, and are no traps: a person has chosen them.
        """
        if self._standing is not None:
            # No host begins with a slash, so the first one from here on ends the origin, after "http://" too.
            reason, prefixes = self._standing(url[: url.index("/", 8)], site)
            if reason is not None:
                return reason
            if url.startswith(prefixes):
                return Reason.EXCLUDED
        if depth > self._max_depth:
            return Reason.DEPTH
        if hops > self._max_hops:
            return Reason.HOPS
        if not is_seed:
            path = url.partition("?")[0] if "?" in url else url
            if path[path.rfind(".") + 1 :].lower() in self._skipped:
                return Reason.EXTENSION
            if path.count("/") > self._path_limits.harmless_slashes:
                trap = self._path_limits.judge(path)
                if trap is not None:
                    return trap
            if self._is_included is not None and not self._is_included(url):
                return Reason.NOT_INCLUDED
        if self._is_excluded is not None and self._is_excluded(url):
            return Reason.EXCLUDED
        return None

    def judge_lease(self, lease: Lease) -> Reason | None:
        """The same rules, as they are now, for a URL that was admitted under those of its time."""
        return self.judge(lease.url, lease.site, lease.depth, lease.hops, lease.is_seed)

    def excludes(self, url: str, site: str) -> bool:
        """Whether nothing may be requested there, as a page or otherwise: its site is blocked, or the URL excluded."""
        if self._standing is not None:
            reason, prefixes = self._standing(url[: url.index("/", 8)], site)
            if reason is not None or url.startswith(prefixes):
                return True
        return self._is_excluded is not None and self._is_excluded(url)

    def _standing_of(self, origin: str, site: str) -> tuple[Reason | None, tuple[str, ...]]:
        """What the exclude file says of all URLs of an origin, and the prefixes that are left to compare."""
        host = origin.partition("//")[2]
        if not host.endswith("]"):
            host = host.rpartition(":")[0] or host
        if self._exclusions.covers(site):
            return Reason.BLOCKED_SITE, ()
        if self._exclusions.covers(host):
            return Reason.EXCLUDED, ()
        return None, self._exclusions.prefixes.get(origin, ())
