"""The requests of an access log, put in order: what was visited, site by site."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from gossamer.testing.web.access_log import Request
from gossamer.url import Url, canonicalise

#: Paths that are canonical as they stand; nearly all are, and the match takes a fifth of the time of `canonicalise`.
#: A segment that begins with a dot is left to it.
_CANONICAL_PATH = re.compile(r"(?:/(?:[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)?)+(?:\?[A-Za-z0-9_.~=&/-]*)?")

#: Beside all of 5xx: the server says that the same request may have another answer later.
_ASK_AGAIN = frozenset({408, 425, 429})


class Visit(msgspec.Struct, frozen=True, order=True, gc=False):
    """One request: ordered by its start, and known by the canonical URL that it asked for."""

    started_at_ns: int
    ended_at_ns: int
    url: str
    origin: str
    status: int
    aborted: bool

    @property
    def is_final(self) -> bool:
        """Complete, and asking again would be asking twice."""
        return not self.aborted and 200 <= self.status < 500 and self.status not in _ASK_AGAIN


class Visits(msgspec.Struct, kw_only=True):
    """All requests of a log. Made by `collected`, in one pass because a log can be long, for `audit` to read."""

    by_site: dict[str, list[Visit]]
    """Each site's in the order of their starts."""
    origins: dict[str, set[str]]
    """Of each site."""
    by_url: dict[str, Visit]
    """Every URL that was asked for, with one of its visits."""
    again: dict[str, list[Visit]]
    """All visits, in order, of each URL that was asked for more than once."""
    aborted: list[Visit]
    misnamed: list[tuple[Visit, str]]
    """Those under another user agent than the one expected, and under which."""
    count: int
    began_at_ns: int
    ended_at_ns: int

    def of(self, url: str) -> list[Visit]:
        """In order."""
        return self.again.get(url) or ([self.by_url[url]] if url in self.by_url else [])


class _Host(NamedTuple):
    base: Url | None
    """None where the Host header makes no URL."""
    origin: str
    site: str
    visits: list[Visit]
    """Of the whole site."""


def collected(requests: Iterable[Request], user_agent: re.Pattern[str]) -> Visits:
    """Holds one record per request (some 300 bytes with its URL), in whatever order they come."""
    by_site: dict[str, list[Visit]] = {}
    by_url: dict[str, Visit] = {}
    again: dict[str, list[Visit]] = {}
    aborted: list[Visit] = []
    misnamed: list[tuple[Visit, str]] = []
    hosts: dict[tuple[str, str], _Host] = {}
    is_expected: dict[str, bool] = {}
    ended_at_ns = 0
    for start, end, was_aborted, scheme, name, path, status, _, _, agent in requests:
        host = hosts.get((scheme, name))
        if host is None:
            host = hosts[scheme, name] = _host(scheme, name, by_site)
        url = host.origin + path if _CANONICAL_PATH.fullmatch(path) else _url(host, path)
        visit = Visit(start, end, url, host.origin, status, was_aborted)
        host.visits.append(visit)
        other = by_url.setdefault(url, visit)
        if other is not visit:
            again.setdefault(url, [other]).append(visit)
        if was_aborted:
            aborted.append(visit)
        ended_at_ns = max(ended_at_ns, end)
        well_named = is_expected.get(agent)
        if well_named is None:
            well_named = is_expected[agent] = user_agent.match(agent) is not None
        if not well_named:
            misnamed.append((visit, agent))
    for visits in (*by_site.values(), *again.values()):
        visits.sort()
    origins: dict[str, set[str]] = {site: set() for site in by_site}
    for host in hosts.values():
        origins[host.site].add(host.origin)
    return Visits(
        by_site=by_site,
        origins=origins,
        by_url=by_url,
        again=again,
        aborted=aborted,
        misnamed=misnamed,
        count=sum(map(len, by_site.values())),
        began_at_ns=min((visits[0].started_at_ns for visits in by_site.values()), default=0),
        ended_at_ns=ended_at_ns,
    )


def _host(scheme: str, name: str, by_site: dict[str, list[Visit]]) -> _Host:
    found = canonicalise(f"{scheme}://{name}/")
    base, origin, site = (
        (found, found.origin, found.site)
        if isinstance(found, Url)
        else (None, f"{scheme}://{_encodable(name)}", _encodable(name))
    )
    return _Host(base, origin, site, by_site.setdefault(site, []))


def _url(host: _Host, path: str) -> str:
    # The base makes sense of a target in absolute form (as to a proxy) and of "*".
    reference = f"{host.origin}{path}" if path.startswith("/") else path
    found = canonicalise(reference, host.base)
    return found.text if isinstance(found, Url) else _encodable(reference)


def _encodable(text: str) -> str:
    """What no URL can be made of is shown as it came, except octets that are no text at all."""
    return text.encode(errors="replace").decode()
