"""The key by which archives sort and look up URLs: the host's labels in reverse, then the path, in lower case.

`https://www.example.co.uk/A/?b=2&a=1` is `uk,co,example)/a?a=1&b=2`. The key forgets much of what tells URLs apart, so
that a reader finds a capture however its address is written; the whole URL stands beside it. It must be, letter for
letter, what those compute who look URLs up (pywb, the Internet Archive, Common Crawl); their habits that look like
oversights are kept too.
"""

import re
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

#: What stays as it is when everything was unescaped and is escaped again: all that is visible, except "%" and "#".
_SAFE = b"!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_WWW = re.compile(r"www[0-9]*\.")
_SLASHES = re.compile("//+")

#: Sessions of ASP.NET, in a path that is in lower case.
_PATH_SESSIONS = (
    re.compile(r"(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)"),
    re.compile(r"(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)"),
)
#: Sessions in a query that is in lower case. Each is taken away once, the last one, together with the "&" behind it.
_QUERY_SESSIONS = tuple(
    re.compile(rf"(.*){session}(?:&(.*))?")
    for session in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        "cfid=[^&]+&cftoken=[^&]+",
    )
)


# The index and the table of pages ask for the same one, right after each other.
@lru_cache(maxsize=64)
def surt_key(url: str) -> str:
    """Of a canonical URL (`gossamer.url`). Plain ASCII without white space."""
    authority, _, rest = url.partition("://")[2].partition("/")
    path, _, query = rest.partition("?")
    path = f"/{path}"
    if "%" in path:
        path = _escaped(_without_dots(_unescaped(path)))
    elif "//" in path:
        path = _SLASHES.sub("/", path)
    path = path.lower()
    if ".aspx" in path:
        for session in _PATH_SESSIONS:
            if found := session.fullmatch(path):
                path = found[1] + found[2]
    if len(path) > 1:
        path = path.removesuffix("/")
    key = _host_key(authority) + path
    query = _query_key(query) if query else ""
    return f"{key}?{query}" if query else key


@lru_cache(maxsize=16_384)
def _host_key(authority: str) -> str:
    """A crawl stays with a host for many URLs, so this is cached."""
    host, bracket, port = authority.partition("]")
    if bracket:
        # Without its brackets, though a port behind it then reads like a part of it.
        host, port = host[1:], port[1:]
    else:
        host, _, port = authority.partition(":")
    if found := _WWW.match(host):
        host = host[found.end() :]
    labels = ",".join(reversed(host.split(".")))
    return f"{labels}:{port})" if port else f"{labels})"


def _query_key(query: str) -> str:
    if "%" in query:
        query = _escaped(_unescaped(query))
    query = query.lower()
    if "id" in query:
        for session in _QUERY_SESSIONS:
            if found := session.fullmatch(query):
                query = found[1] + (found[2] or "")
    if "&" not in query:
        return query
    # By name and then by value: "a" stands before "a=", and "a=2" before "a-b=1", which it would not as text.
    return "&".join("=".join(pair) for pair in sorted(part.split("=", 1) for part in query.split("&")))


def _unescaped(text: str) -> bytes:
    """Again and again, until nothing is escaped any more. Each time takes two characters away, so it ends."""
    content = unquote_to_bytes(text)
    while b"%" in content and (further := unquote_to_bytes(content)) != content:
        content = further
    return content


def _escaped(content: bytes) -> str:
    return quote_from_bytes(content, safe=_SAFE)


def _without_dots(path: bytes) -> bytes:
    """Unescaping may have brought new slashes and dot segments. A ".." that leads above the top stays."""
    kept: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b"..":
            if kept:
                kept.pop()
            else:
                kept.append(segment)
        elif segment != b".":
            kept.append(segment)
    return b"/" + b"/".join([segment for segment in kept[:-1] if segment] + kept[-1:])
