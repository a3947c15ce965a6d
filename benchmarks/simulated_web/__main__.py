"""What the simulated web costs its server: `python -m benchmarks.simulated_web [--pages N] [--rounds N]`.

CPU time of the server process (user and system) per page, least of several interleaved rounds; the client's own time
does not count. Then the memory of a server of 100,000 sites with 1,000 pages each, after pages of many of them.
"""

import argparse
import asyncio
import platform
import ssl
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from gossamer.testing.web.graph import Web
from gossamer.testing.web.policies import Policy, everywhere
from gossamer.testing.web.processes import WebProcesses

CONNECTIONS = 16
#: The aim over plain HTTP, with or without keep-alive.
AIM_MILLISECONDS = 0.3


class Mode(msgspec.Struct, frozen=True):
    name: str
    https: bool = False
    keep_alive: bool = True
    encoding: str = ""


MODES = (
    Mode("http, keep-alive"),
    Mode("http, keep-alive, gzip", encoding="gzip"),
    Mode("http, keep-alive, br", encoding="br"),
    Mode("http, close", keep_alive=False),
    Mode("http, close, gzip", keep_alive=False, encoding="gzip"),
    Mode("https, keep-alive", https=True),
    Mode("https, close, gzip", https=True, keep_alive=False, encoding="gzip"),
)


def web(sites: int, pages: int, *, https: bool) -> Web:
    return Web(sites=sites, pages=pages, robots=everywhere(Policy.OPEN), https_share=float(https), multi_host_share=0.0)


def requests(served: Web, mode: Mode) -> Iterator[tuple[str, bytes]]:
    """One page of each site in turn, as a broad crawl asks for them."""
    headers = "User-Agent: Gossamer/0 (+benchmark)\r\nAccept: text/html\r\n"
    headers += f"Accept-Encoding: {mode.encoding}\r\n" if mode.encoding else ""
    headers += "" if mode.keep_alive else "Connection: close\r\n"
    for number in range(served.pages):
        for index in range(served.sites):
            site = served.site(index)
            if number < site.open_pages:
                text = f"GET {site.path(number)} HTTP/1.1\r\nHost: {site.name}\r\n{headers}\r\n"
                yield site.name, text.encode()


async def fetch_all(port: int, work: Iterator[tuple[str, bytes]], mode: Mode, trust: ssl.SSLContext | None) -> int:
    """Bytes of body received."""
    received = 0

    async def client() -> None:
        nonlocal received
        reader: asyncio.StreamReader | None = None
        writer: asyncio.StreamWriter | None = None
        for host, request in work:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, limit=1 << 20, ssl=trust, server_hostname=host if trust else None
                )
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            received += length
            if not mode.keep_alive:
                writer.close()
                reader = writer = None
        if writer is not None:
            writer.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return received


def cpu_seconds(pid: int) -> float:
    """Linux's clock of another process, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)


def measure(mode: Mode, pages: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of CPU and KB of body per page."""
    least, size = float("inf"), 0.0
    served = web(100, pages // 80 + 20, https=mode.https)
    with (
        tempfile.TemporaryDirectory() as directory,
        WebProcesses(served, log_directory=Path(directory), https=mode.https) as running,
    ):
        trust = ssl.create_default_context(cafile=running.ca_certificate) if mode.https else None
        port = running.https_port if mode.https else running.http_port
        # Makes the fillers and the certificates, which a server does once.
        asyncio.run(fetch_all(port, islice(requests(served, mode), 1_000), mode, trust))
        for _ in range(rounds):
            began = cpu_seconds(running.pids[0])
            received = asyncio.run(fetch_all(port, islice(requests(served, mode), pages), mode, trust))
            least = min(least, (cpu_seconds(running.pids[0]) - began) * 1_000 / pages)
            size = received / pages / 1_000
    return least, size


def memory(pages: int) -> int:
    """KiB at the peak of a server of 10^5 sites, after a page each of many of them."""
    served = web(100_000, 1_000, https=False)
    mode = MODES[0]
    with tempfile.TemporaryDirectory() as directory:
        running = WebProcesses(served, log_directory=Path(directory), https=False)
        with running:
            asyncio.run(fetch_all(running.http_port, islice(requests(served, mode), pages), mode, None))
        return running.totals[0].peak_kib


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}")
    for mode in MODES:
        milliseconds, size = measure(mode, arguments.pages, arguments.rounds)
        aim = "" if mode.https else f"   aim {AIM_MILLISECONDS}"
        print(f"{mode.name:<28}{milliseconds:7.3f} CPU ms per page {size:8.1f} KB{aim}")
    print(f"{'10^5 sites x 1,000 pages':<28}{memory(arguments.pages) / 1024:7.1f} MiB at the peak")


if __name__ == "__main__":
    main()
