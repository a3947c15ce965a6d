"""A minimal crawler: one process, uvloop, aiohttp, isal and selectolax, what it knows in sets in memory.

It obeys robots.txt and follows all links. Bodies go to one file, as they came. It has no delay per site (nor has
anybody in this benchmark), asks one site for many pages at once, retries nothing and loses all when it ends.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult
from isal import isal_zlib
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

from benchmarks.crawl.peer_report import PageCount, Task

WORKERS = 100
#: The product token of all systems here: some sites of the web have a rule for it.
USER_AGENT = "Gossamer/0 (+mailto:benchmark@example.org)"
#: Of the files that the web links to.
SKIPPED = (".pdf", ".jpg", ".zip", ".png")
GZIP_BITS = 31
ROBOTS_REDIRECTS = 5


class Loopback(AbstractResolver):
    """Leads every name to the ports of the simulated web."""

    def __init__(self, ports: dict[int, int]) -> None:
        self._ports = ports

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = ResolveResult(
            hostname=host, host="127.0.0.1", port=self._ports[port], family=family, proto=0, flags=socket.AI_NUMERICHOST
        )
        return [found]

    async def close(self) -> None:
        pass


class Crawler:
    """All of it."""

    def __init__(self, session: aiohttp.ClientSession, bodies: BinaryIO, count: PageCount, seeds: list[str]) -> None:
        self._session = session
        self._bodies = bodies
        self._count = count
        self._seen = set(seeds)
        self._queue = deque(seeds)
        self._robots: dict[str, asyncio.Task[Protego | None]] = {}
        self._enough = asyncio.Event()

    async def run(self) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        await self._enough.wait()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            if not self._queue:
                await asyncio.sleep(0.01)
                continue
            url = self._queue.popleft()
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                if await self._is_allowed(url):
                    await self._fetch(url)

    async def _is_allowed(self, url: str) -> bool:
        origin = urljoin(url, "/")
        if origin not in self._robots:
            self._robots[origin] = asyncio.create_task(self._read_robots(f"{origin}robots.txt"))
        rules = await asyncio.shield(self._robots[origin])
        return rules is not None and rules.can_fetch(url, USER_AGENT)

    async def _read_robots(self, url: str) -> Protego | None:
        """None: nothing may be fetched there."""
        try:
            async with self._session.get(url, max_redirects=ROBOTS_REDIRECTS) as response:
                if response.status >= 500:
                    return None
                return Protego.parse(await response.text() if response.status == 200 else "")
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def _fetch(self, url: str) -> None:
        async with self._session.get(url, allow_redirects=False) as response:
            if 300 <= response.status < 400:
                self._admit(urljoin(url, response.headers.get("Location", "")))
                return
            if response.status != 200 or response.content_type != "text/html":
                return
            body = await response.read()
        self._bodies.write(body)
        is_gzip = response.headers.get("Content-Encoding") == "gzip"
        for link in links(url, isal_zlib.decompress(body, GZIP_BITS) if is_gzip else body):
            self._admit(link)
        if self._count.page(len(body)):
            self._enough.set()

    def _admit(self, url: str) -> None:
        if url not in self._seen:
            self._seen.add(url)
            self._queue.append(url)


def links(base: str, html: bytes) -> Iterator[str]:
    for node in LexborHTMLParser(html).css("a[href]"):
        # A page may hold what is no URL at all.
        with contextlib.suppress(ValueError):
            url = urldefrag(urljoin(base, node.attributes["href"] or "")).url
            parts = urlsplit(url)
            if parts.scheme in {"http", "https"} and not parts.path.endswith(SKIPPED):
                yield url


async def crawl(task: Task, bodies: BinaryIO, seeds: list[str]) -> None:
    connector = aiohttp.TCPConnector(
        limit=WORKERS, ssl=False, resolver=Loopback({80: task.http_port, 443: task.https_port}), use_dns_cache=False
    )
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"}
    count = PageCount(task)
    async with aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=False) as session:
        await Crawler(session, bodies, count, seeds).run()
    count.say()


def main() -> None:
    task = Task.told()
    with Path(task.directory, "bodies").open("wb") as bodies:
        uvloop.run(crawl(task, bodies, Path(task.seeds).read_text().split()))


if __name__ == "__main__":
    main()
