"""What a URL is: its canonical form, its site, its fingerprint.

Parsing and resolving are the WHATWG URL standard's, by libraries. On top of it stands *one* canonical form, which is
a URL's identity everywhere in Gossamer:

- scheme and host in lower case, international names in punycode, numeric IPv4 and IPv6 spellings as the address they
  are, one trailing dot of the host removed;
- default port, user name, password and fragment removed;
- dot segments resolved, an empty path is ``/``;
- percent-escapes of unreserved characters decoded and the hex digits of all others in upper case (RFC 3986 §6.2.2);
- the case of the path, trailing slashes, the order of the query and an empty query are kept: servers tell them apart;
- session-id and tracking parameters are kept, unless a setting asks for their removal.

Canonicalising a canonical URL changes nothing. Nothing here raises on any text: what cannot be a candidate comes back
as a `Refusal` with its reason.
"""

import re
from enum import StrEnum
from functools import lru_cache

import ada_url
import msgspec
import url as rust_url
import xxhash
from publicsuffixlist import PublicSuffixList

from gossamer.config import SiteKey, UrlSettings

#: The default port of each scheme that Gossamer fetches.
DEFAULT_PORTS = {"http": 80, "https": 443}

DEFAULT_SETTINGS = UrlSettings()

#: White space, dot segments and a fragment can make a reference longer than what it canonicalises to. Sixteen times the
#: limit is more than any page was seen to need, and keeps a megabyte of `data:` away from the parsers.
_REFERENCE_LENGTH_FACTOR = 16

#: URLs of which canonicalising changes nothing, if it changes nothing of their origin and they have no dot segment; by
#: far not all. The standard leaves these letters as they are everywhere, and these escapes are as RFC 3986 has them.
_CANONICAL = re.compile(
    r"(https?://[a-z0-9.:-]{1,260}+/)(?!/)"
    r"[A-Za-z0-9_~!$&()*+,;=:@/.?-]*+(?:%(?:2[0-9ABCF]|3[A-F]|[89A-F][0-9A-F])[A-Za-z0-9_~!$&()*+,;=:@/.?-]*+)*+"
)

#: No name that DNS knows is as long, with its port. Longer ones are not remembered: pages could fill the memory so.
_LONGEST_REMEMBERED = 300

#: Not right behind a bare "%" or "%4": decoding there would make a new escape of the text around it ("%%341" -> "%41").
_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

#: What stands before the last "@" of a reference, behind slashes or with a colon in it; not where that "@" is of the
#: path behind a plain host and port. The address of a person is no secret.
_CREDENTIALS = re.compile(
    r"(\s*+(?:(?:[a-z][a-z0-9+.-]*+:)?[/\\]++|(?!mailto:)(?=[^/\\?#@]*:)))(?![^\s:@/\\?#]*(?::\d*)?[/\\?#]).*@",
    re.IGNORECASE | re.DOTALL,
)
#: A parameter and its value. The address of a store may have its password there: `postgresql://host/db?password=…`.
_PARAMETER = re.compile(r"([?&;][^=?&;#]*+=)[^&#]*+")

#: Query parameters that say how a reader came, never what is shown.
_TRACKING = re.compile(
    r"(?:utm_\w+|(?:g|d|y|fb|tt|tw)clid|[gw]braid|gclsrc|gad_source|msclkid|li_fat_id|igsh(?:id)?|mc_[ce]id|mkt_tok"
    r"|_gl|_ga|_hs(?:enc|mi)|hsctatracking|vero_id|oly_(?:anon|enc)_id|wickedid|_openstat|s_cid|ef_id|epik|srsltid)"
    r"(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
#: Query parameters that carry a session. `sid` counts only with the 32 hex digits of a session: it is also "story id".
_SESSION = re.compile(
    r"(?:jsessionid|phpsessid|aspsessionid\w*|asp\.net_sessionid|cfid|cftoken|cfsessionid|sessionid|sid=[0-9a-f]{32}$"
    r"|zenid|oscsid)(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
#: Sessions in the path: Java's `;jsessionid=…` and ASP.NET's `/(S(…))/`.
_SESSION_IN_PATH = re.compile(
    r";(?:jsessionid|phpsessid|sessionid|sid)=[^/?;]*|/\((?:[a-z]\([0-9a-z]+\))+\)(?=/)", re.IGNORECASE
)


class RefusalReason(StrEnum):
    """Why a reference is no candidate. The words are those of outcomes, metrics and `gossamer url`."""

    NOT_A_URL = "not-a-url"
    SCHEME = "scheme"
    TOO_LONG = "too-long"


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A reference that is no candidate; `detail` says what was found, for a person to read."""

    reason: RefusalReason
    detail: str


class Url(msgspec.Struct, frozen=True, gc=False):
    """One canonical URL. Two references name the same URL if and only if `text` is equal.

    Only `canonicalise` makes one, so every part agrees with `text`.
    """

    text: str
    scheme: str
    host: str
    """Without the port; IPv6 addresses in brackets."""
    port: int
    site: str
    fingerprint: int
    """64 bits; the same in every process and on every machine."""

    @property
    def origin(self) -> str:
        """What a robots.txt belongs to: scheme, host and port, with the default port left out."""
        return self.text[: self.text.index("/", len(self.scheme) + 3)]


def canonicalise(reference: str, base: Url | None = None, settings: UrlSettings = DEFAULT_SETTINGS) -> Url | Refusal:
    """The URL that `reference` names on the page at `base`, or why Gossamer would not fetch it."""
    if len(reference) > settings.max_url_length * _REFERENCE_LENGTH_FACTOR:
        return Refusal(RefusalReason.TOO_LONG, f"{len(reference)} characters")
    text = resolve(reference, None if base is None else base.text)
    if text is None:
        return Refusal(RefusalReason.NOT_A_URL, "the URL standard makes no URL of it")
    scheme, _, rest = text.partition(":")
    if scheme not in DEFAULT_PORTS:
        return Refusal(RefusalReason.SCHEME, f"{scheme:.32}: is not fetched, only http: and https: are")
    # The standard writes every http(s) URL as scheme://authority/path?query#fragment, the path never missing.
    authority, _, path = rest[2:].partition("#")[0].partition("/")
    # Without what stands before the "@": a password must not stay in a cache.
    prefix = f"{scheme}://{authority.rpartition('@')[2]}/"
    place = (_place if len(prefix) <= _LONGEST_REMEMBERED else _place.__wrapped__)(prefix, settings.site_key)
    if place is None:
        return Refusal(RefusalReason.NOT_A_URL, "the host has an empty label")
    if "%" in path:
        path = _ESCAPE.sub(_normal_escape, path)
    if settings.strip_session_ids or settings.strip_tracking:
        stripped = _without_parameters(path, settings)
        if stripped != path:
            # "/.;jsessionid=1/" leaves a dot segment behind: what is left has to be read anew.
            return canonicalise(f"{place.prefix}{stripped}", None, settings)
    text = f"{place.prefix}{path}"
    if len(text) > settings.max_url_length:
        return Refusal(RefusalReason.TOO_LONG, f"{len(text)} characters")
    return Url(text, scheme, place.host, place.port, place.site, stable_hash(text))


def canonical_site(text: str, settings: UrlSettings) -> str | None:
    """The site of a URL that is found to be canonical at a glance; None says only that `canonicalise` must be asked.

    Most links are canonical as they are written, or behind the origin of their page, and cost less than half so.
    """
    found = _CANONICAL.fullmatch(text)
    if found is None or "/." in text or settings.strip_session_ids or settings.strip_tracking:
        return None
    prefix = found[1]
    place = _place(prefix, settings.site_key)
    if place is None or place.prefix != prefix or len(text) > settings.max_url_length:
        return None
    return place.site


def resolve(reference: str, base: str | None = None) -> str | None:
    """The URL standard's answer, serialised, for any scheme; None where it says failure."""
    try:
        return str(rust_url.URL.parse(reference) if base is None else _parsed_base(base).join(reference))
    except UnicodeEncodeError:
        return resolve(_scalar_values(reference), None if base is None else _scalar_values(base))
    except rust_url.URLError:
        # The fast parser is too strict on a few (ill-formed punycode, "///host"), and only ever too strict. The second
        # is right on all of them and five times as dear, so it is asked only here.
        try:
            return ada_url.normalize_url(reference) if base is None else ada_url.join_url(base, reference)
        except ValueError:
            return None


def redacted(reference: str) -> str:
    """A reference that is shown though nothing was made of it, without the password that it may hold."""
    found = _CREDENTIALS.match(reference)
    shown = reference if found is None else f"{found[1]}***@{reference[found.end() :]}"
    return _PARAMETER.sub(_without_password, shown) if "=" in shown else shown


def _without_password(parameter: re.Match[str]) -> str:
    name = parameter[1].lower()
    return f"{parameter[1]}***" if "pass" in name or "pwd" in name else parameter[0]


def stable_hash(text: str) -> int:
    """64 bits that depend on the text alone. Fingerprints and slots are made of it; changing it orphans every crawl."""
    return xxhash.xxh3_64_intdigest(text.encode())


class _Place(msgspec.Struct, frozen=True, gc=False):
    """All that follows from a URL's origin: the same few thousand stand in most links, so this is cached."""

    prefix: str
    host: str
    port: int
    site: str


@lru_cache(maxsize=65_536)
def _place(prefix: str, site_key: SiteKey) -> _Place | None:
    """What scheme, host and port come to, in any spelling, up to their slash; None for no URL, and for a host with an
    empty label."""
    text = resolve(prefix)
    if text is None:
        return None
    scheme, _, authority = text[:-1].partition("://")
    host, bracket, port = authority.partition("]")
    if bracket:
        host, port = f"{host}]", port.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    # With or without its trailing dot a name is the same to the resolver. Nothing numeric can be left by the removal:
    # the standard has already made an address of "127.1.".
    host = host.removesuffix(".")
    if not all(host.split(".")):
        return None
    explicit_port = f":{port}" if port else ""
    return _Place(
        prefix=f"{scheme}://{host}{explicit_port}/",
        host=host,
        port=int(port) if port else DEFAULT_PORTS[scheme],
        site=host if site_key == "host" else registrable_domain(host) or host,
    )


def registrable_domain(host: str) -> str | None:
    """A canonical host's public suffix and one label more; None for addresses and for public suffixes themselves."""
    if host.endswith("]") or host.rpartition(".")[2].isdecimal():
        return None
    return _public_suffixes().privatesuffix(host)


def is_public_suffix(host: str) -> bool:
    """Whether a canonical host is on the list, so that anybody may have a domain below it. A name that is on no list,
    such as `intranet`, is a host. Reads the list each time, which takes 35 ms."""
    return PublicSuffixList(accept_unknown=False).is_public(host)


@lru_cache(maxsize=1)
def _public_suffixes() -> PublicSuffixList:
    """The list as bundled with the library, private suffixes (`github.io`) included: read on first use, in 35 ms."""
    return PublicSuffixList()


def _normal_escape(match: re.Match[str]) -> str:
    escape = match[0]
    character = chr(int(escape[1:], 16))
    return character if character in _UNRESERVED else escape.upper()


def _without_parameters(path: str, settings: UrlSettings) -> str:
    """`path` is all behind the authority's slash, with the query."""
    path, mark, query = path.partition("?")
    if settings.strip_session_ids:
        path = _SESSION_IN_PATH.sub("", f"/{path}")[1:]
    if not query:
        return path + mark
    unwanted = [_TRACKING] * settings.strip_tracking + [_SESSION] * settings.strip_session_ids
    kept = [part for part in query.split("&") if not any(pattern.fullmatch(part) for pattern in unwanted)]
    return f"{path}?{'&'.join(kept)}" if kept else path


@lru_cache(maxsize=256)
def _parsed_base(text: str) -> rust_url.URL:
    return rust_url.URL.parse(text)


def _scalar_values(text: str) -> str:
    """Lone surrogates become U+FFFD, as the standard's "USVString" conversion has it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
