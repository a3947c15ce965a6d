"""The parts of the floor, measured in the environment of the peers: what no crawler can do without.

Fetching is libcurl with many requests at once and a connection for each; bodies are dropped. Gunzip is isal, parsing is
Lexbor, over the bodies of the same pages. Each is CPU time of this process alone.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pycurl
from isal import isal_zlib
from selectolax.lexbor import LexborHTMLParser

AT_ONCE = 32
GZIP_BITS = 31
#: What libcurl takes from a connection in one go, its most.
BUFFER_BYTES = 512 << 10


class Fetching:
    """Fetches pages over a port of the simulated web."""

    def __init__(self, port: int) -> None:
        self._there = [f"::127.0.0.1:{port}"]

    def fetch(self, urls: list[str], take: Callable[[str, bytes], object]) -> None:
        """`take` gets each piece of a body, with its URL."""
        multi = pycurl.CurlMulti()
        idle = [self._request() for _ in range(AT_ONCE)]
        waiting, running = list(reversed(urls)), 0
        while waiting or running:
            while idle and waiting:
                request, url = idle.pop(), waiting.pop()
                request.setopt(pycurl.URL, url)
                request.setopt(pycurl.WRITEFUNCTION, lambda piece, url=url: take(url, piece))
                multi.add_handle(request)
                running += 1
            multi.select(1.0)
            multi.perform()
            _, done, failed = multi.info_read()
            if failed:
                raise OSError(f"a page could not be fetched: {failed[0][2]}")
            for request in done:
                multi.remove_handle(request)
            idle += done
            running -= len(done)

    def _request(self) -> pycurl.Curl:
        request = pycurl.Curl()
        for option, value in (
            (pycurl.CONNECT_TO, self._there),
            (pycurl.HTTPHEADER, ["Accept-Encoding: gzip"]),
            (pycurl.BUFFERSIZE, BUFFER_BYTES),
            (pycurl.FORBID_REUSE, 1),
            (pycurl.SSL_SESSIONID_CACHE, 0),
            (pycurl.SSL_VERIFYPEER, 0),
            (pycurl.SSL_VERIFYHOST, 0),
            (pycurl.NOSIGNAL, 1),
        ):
            request.setopt(option, value)
        return request


def main() -> None:
    port, file = int(sys.argv[1]), sys.argv[2]
    urls = Path(file).read_text().split()
    fetching = Fetching(port)
    bodies: dict[str, list[bytes]] = {url: [] for url in urls}
    fetching.fetch(urls, lambda url, piece: bodies[url].append(piece))
    before = time.process_time()
    fetching.fetch(urls, lambda _url, _piece: None)
    fetch = time.process_time() - before
    gunzip = parse = 0.0
    received = 0
    for pieces in bodies.values():
        body = b"".join(pieces)
        received += len(body)
        before = time.process_time()
        html = isal_zlib.decompress(body, GZIP_BITS)
        between = time.process_time()
        LexborHTMLParser(html)
        parse += time.process_time() - between
        gunzip += between - before
    said = {
        "fetch": fetch * 1e3 / len(urls),
        "gunzip": gunzip * 1e3 / len(urls),
        "parse": parse * 1e3 / len(urls),
        "received_bytes": received / len(urls),
        "client": pycurl.version,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
