"""Which processes a crawl has: how many of each kind, their names, and what each is told at its start."""

import os
import socket
import time

from gossamer.config import Settings
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import Kind, Orders


def place_name(kind: Kind, index: int) -> str:
    return f"{kind}-{index}"


#: Of the fetcher that the leader is itself.
OWN_NAME = place_name("fetcher", 0)


def made_orders(
    data: DataDirectory, settings: Settings, run: int, forbidden: list[tuple[str, int]]
) -> tuple[list[Orders], list[Orders]]:
    """For fetchers and parsers; the slots are divided among the fetchers. The first orders are the leader's own."""
    fetchers, parsers = process_counts(settings)
    # Unique among all processes that may ever share this store.
    owner = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"

    def orders(kind: Kind, index: int) -> Orders:
        return Orders(
            kind=kind,
            index=index,
            name=place_name(kind, index),
            owner=f"{owner}-{index}",
            slots=list(range(index, settings.url.slots, fetchers)) if kind == "fetcher" else [],
            run=run,
            data=str(data.root),
            settings=settings,
            forbidden=forbidden,
        )

    return [orders("fetcher", index) for index in range(fetchers)], [
        orders("parser", index) for index in range(parsers)
    ]


def process_counts(settings: Settings) -> tuple[int, int]:
    """Fetchers and parsers. Parsing a page costs two to three times as much as fetching it."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    fetchers = settings.fetch.num_fetcher_processes or max(1, processors // 3)
    parsers = settings.parse.num_parser_processes or max(1, processors - processors // 3 - 1)
    return min(fetchers, settings.url.slots), parsers
