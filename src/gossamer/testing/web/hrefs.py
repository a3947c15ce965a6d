"""How a page of the simulated web writes its links: every form that the web knows, and where each of them leads.

Most are plain paths. The others are what a crawler must see through: `../`, whole URLs, `//host`, fragments, upper-case
hosts, default ports, escapes in odd case or of characters that need none, and what leads nowhere at all.
"""

import html
from collections.abc import Callable, Iterator, Sequence

from gossamer.testing.web.sites import SPREAD, STARTS, SUFFIXES, Site, page_path

#: As written, and the canonical URL that it comes to (None if that is no candidate).
Written = tuple[str, str | None]

#: What a page offers besides links: not to be fetched, or no URL at all.
NO_CANDIDATES = (
    *("mailto:someone@example.test", "javascript:void(0)", "data:text/plain,hello", "tel:+15550100"),
    *("http://exa mple.test/", "http://[::1/", "https://s0.test:99999/", "ftp://s0.test/file.zip"),
)

#: The low seven bits of a draw choose the form; from this value on it is an odd one, below it a path.
_FIRST_ODD = 100

_PORTS = {"http": 80, "https": 443}


def _up(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return place.up + path[1:]


def _dot_up(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return f"./{place.up}{path[1:]}"


def _dot_segments(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return f"/of/../here/.{path}".replace("/here/./", "/here/../")


def _fragment(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return f"{path}#part-2"


def _absolute(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return prefix + path


def _scheme_relative(place: "Place", prefix: str, path: str) -> str:
    scheme, _, rest = prefix.partition(":")
    return rest + path if scheme == place.scheme else prefix + path


def _upper_case(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return prefix.upper() + path


def _default_port(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return f"{prefix}:{_PORTS[prefix.partition(':')[0]]}{path}"


def _lower_case_escapes(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return prefix + path.replace("%C3%A9", "%c3%a9").replace("%E6%97%A5%E6%9C%AC", "%e6%97%a5%E6%9c%Ac")


def _needless_escapes(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    return prefix + path.replace("-", "%2d", 1).replace("~", "%7E", 1)


def _raw_characters(place: "Place", prefix: str, path: str) -> str:  # noqa: ARG001
    raw = path.replace("%C3%A9", "é").replace("%E6%97%A5%E6%9C%AC", "日本").replace("%20", " ")
    return f" {prefix}{raw}\n"


_Form = Callable[["Place", str, str], str]
#: 26 of 128. The first of them work only where the link leads to the page's own host.
_OWN_HOST: tuple[_Form, ...] = (
    *(_up, _up, _up, _up, _up, _up, _up, _dot_up, _dot_up, _fragment, _fragment, _dot_segments),
    *(_absolute, _absolute, _absolute, _absolute),
)
_ANY_HOST: tuple[_Form, ...] = (
    *(_absolute, _absolute, _scheme_relative, _scheme_relative, _upper_case, _default_port),
    *(_lower_case_escapes, _needless_escapes, _raw_characters, _absolute),
)
_ODD = (*_OWN_HOST, *_ANY_HOST)


class Place:
    """The page that links are written on. Made for one page, used by `Web.links` and the server alike."""

    __slots__ = ("host", "prefix", "scheme", "site", "up", "url")

    def __init__(self, site: Site, number: int) -> None:
        self.site = site
        self.scheme = site.scheme
        self.host = site.host(number)
        self.prefix = f"{site.scheme}://{self.host}"
        path = site.path(number)
        self.url = self.prefix + path
        self.up = "../" * (path.partition("?")[0].count("/") - 1)

    def own_link(self, number: int, form: int) -> Written:
        """A link to a resource of the same site; `form` has seven bits."""
        site = self.site
        path = page_path(site.salt, number) if number < site.ends[0] else site.path(number)
        if len(site.hosts) > 1:
            host = site.host(number)
            if host != self.host:
                return self.link(f"{self.scheme}://{host}", path, form)
        target = self.prefix + path
        if form < _FIRST_ODD:
            return path, target
        if form >= _FIRST_ODD + len(_ODD):
            return self._pointless(number)
        return _ODD[form - _FIRST_ODD](self, self.prefix, path), target

    def link(self, prefix: str, path: str, form: int) -> Written:
        """A link to another host."""
        target = prefix + path
        if form < _FIRST_ODD + len(_OWN_HOST) or form >= _FIRST_ODD + len(_ODD):
            return target, target
        return _ODD[form - _FIRST_ODD](self, prefix, path), target

    def _pointless(self, number: int) -> Written:
        choice = number % (len(NO_CANDIDATES) + 2)
        return (NO_CANDIDATES[choice], None) if choice < len(NO_CANDIDATES) else ("#top", self.url)


def written(
    place: Place, drawn: Sequence[int], *, own_share: float, others: Sequence[tuple[int, str]], inner_pages: int
) -> Iterator[str | Written]:
    """A link for each number drawn: to the page's own site, or to an inner page of one of the others (salt and origin).

    A plain one is a string, as its attribute is written in the page; `as_pair` makes a pair of it. Four links in five
    are, and this loop is most of what a page costs its server.
    """
    site = place.site
    salt, linked = site.salt, site.linked
    # A page with children is on the site's own host, whatever other hosts there are.
    plain_below = site.open_pages if len(site.hosts) == 1 else site.open_pages // 2 if place.host == site.name else 0
    own_below = round((own_share if others else 1.0) * 32)
    # From the low bits of a draw on: seven choose the form, five whether it stays here, twenty where it leads.
    for draw in drawn:
        form = draw & 127
        target = draw >> 12
        if draw >> 7 & 31 < own_below:
            target %= linked
            if form < _FIRST_ODD and 0 < target < plain_below:
                look = (target ^ salt) * SPREAD >> 16
                yield f"{_STARTS[look & 1023]}{target}{_SUFFIXES[look >> 10 & 7]}"
            else:
                yield place.own_link(target, form)
        else:
            other_salt, prefix = others[target % len(others)]
            target = (target >> 2) % inner_pages
            if form < _FIRST_ODD and target:
                look = (target ^ other_salt) * SPREAD >> 16
                yield f"{prefix}{_STARTS[look & 1023]}{target}{_SUFFIXES[look >> 10 & 7]}"
            else:
                yield place.link(prefix, page_path(other_salt, target), form)


def as_pair(plain: str, origin: str) -> Written:
    """What a plain link reads as and leads to, on a page of `origin`."""
    href = html.unescape(plain)
    return href, origin + href if href.startswith("/") else href


def as_attribute(href: str) -> str:
    """How a page writes a link's value."""
    if "&" in href:
        href = href.replace("&", "&amp;")
    return href.replace("/catalogue/", "&#x2F;catalogue&#47;") if "/catalogue/" in href else href


#: The parts of most paths, as they are written in a page.
_STARTS = tuple(as_attribute(start) for start in STARTS)
_SUFFIXES = tuple(as_attribute(suffix) for suffix in SUFFIXES)
