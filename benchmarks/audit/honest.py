"""The access log of a crawl that did all it had to and nothing else."""

from collections.abc import Iterator
from pathlib import Path

from gossamer.testing.web.access_log import Request, line
from gossamer.testing.web.graph import Web
from gossamer.url import Url, canonicalise

DELAY_SECONDS = 70
AGENT = "Gossamer/0.1.0 (+mailto:someone@example.org)"


def honest_log(web: Web) -> list[Request]:
    """All that there is to fetch, each site at its own pace, in the order in which a server writes it down."""
    now: dict[str, int] = {}
    asked: set[str] = set()
    requests = []
    for text in sorted(web.reachable(web.seeds())):
        url = canonicalise(text)
        assert isinstance(url, Url)
        at = now.get(url.site, len(now) * 1_000_000)
        for hop in robots_hops(web, url.origin) if url.origin not in asked else ():
            requests.append(request(web, hop, at))
            at += 2_000_000
        asked.add(url.origin)
        requests.append(request(web, text, at))
        now[url.site] = at + (DELAY_SECONDS + 1) * 10**9
    requests.sort(key=lambda one: one.ended_at_ns)
    return requests


def robots_hops(web: Web, origin: str) -> Iterator[str]:
    hop: str | None = f"{origin}/robots.txt"
    while hop is not None:
        yield hop
        hop = web.answer(hop).location


def request(web: Web, url: str, at: int) -> Request:
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return Request(at, at + 1_000_000, False, scheme, host, f"/{path}", web.answer(url).status, 60_000, 40_000, AGENT)


def write_logs(web: Web, files: list[Path]) -> None:
    requests = honest_log(web)
    for number, file in enumerate(files):
        file.write_text("".join(f"{line(one)}\n" for one in requests[number :: len(files)]), encoding="ascii")
