"""The simulated web that all systems crawl: 2,000 sites of 500 pages, a connection for each answer, gzip for each page.

It has no busy pages: they refuse a first request and answer a second, and not all systems ask twice.
"""

from pathlib import Path
from typing import Self

from gossamer.testing.web.graph import Web
from gossamer.testing.web.processes import WebProcesses

SITES = 2_000
PAGES = 500
#: Two serve more than one crawler can fetch.
PROCESSES = 2


class ServedWeb:
    """A web while it is served: where it is, and where its seeds are."""

    def __init__(self, directory: Path, scheme: str, pages: int = PAGES) -> None:
        self.scheme = scheme
        self.web = Web(
            sites=SITES, pages=pages, https_share=float(scheme == "https"), busy_share=0.0, encodings=("gzip",)
        )
        self.seeds = directory / f"seeds-{scheme}"
        self._processes = WebProcesses(
            self.web, log_directory=directory / f"web-{scheme}", processes=PROCESSES, keep_alive=False
        )

    def __enter__(self) -> Self:
        self.seeds.write_text("".join(f"{url}\n" for url in self.web.seeds()), encoding="ascii")
        self._processes.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.__exit__(None, None, None)

    @property
    def http_port(self) -> int:
        return self._processes.http_port

    @property
    def https_port(self) -> int:
        return self._processes.https_port
