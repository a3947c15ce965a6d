"""What the leader and its processes say to each other: JSON lines through a process's standard input and output.

The first line to a process is its `Orders`, every further one a `Command`; it answers with a `Report` twice a second
and a last one when it leaves. The end of its standard input means that the leader is gone, and that it must go too.
"""

import signal
from typing import Literal

import msgspec

from gossamer.config import Settings
from gossamer.report.resources import Usage
from gossamer.report.sample import RecentPage, SiteActivity

Kind = Literal["fetcher", "parser"]
Numbers = dict[str, int | dict[str, int]]
"""A process's statistics by name; some are counts by reason."""

#: How often a process reports.
REPORT_SECONDS = 0.5
#: What a person sends to a process: of one that has just been started and does not answer yet, they would be the end.
HELD_SIGNALS = frozenset({signal.SIGHUP, signal.SIGUSR1})


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All that a process needs to know."""

    kind: Kind
    index: int
    name: str
    """Of its log file and, for a parser, of its files."""
    owner: str
    """Of a fetcher's slots: never used before, so that what an earlier process of this name held goes back."""
    slots: list[int] = []
    run: int
    data: str
    settings: Settings
    guard_seconds: float = 0.0
    """Of a parser: for so long pages are read where they can kill nothing else."""
    careful_seconds: float = 0.0
    """Of a parser: for so long each segment is committed by itself."""
    forbidden: list[tuple[str, int]] = []
    """Endpoints of the leader's own servers: no page may send a fetcher there."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told while it runs."""

    do: Literal["drain", "commit", "pause", "go-on", "reread", "guard", "careful"]
    """`reread`: the exclude file has changed. `guard`, `careful`: a parser has died, on a page or not on one."""
    empty_spool: bool = False
    """Of `drain`, to a parser: what is fetched is parsed first."""
    seconds: float = 0.0
    """Of `guard` and `careful`: for how long."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a process says of itself; `numbers` are its statistics since it started."""

    usage: Usage
    numbers: Numbers = {}
    sites: list[SiteActivity] | None = None
    """Of a fetcher, now and then; None is nothing new. So are the pages of a parser."""
    recent: list[RecentPage] | None = None
    descriptors: dict[str, int] | None = None
    """By kind; as often as those."""
