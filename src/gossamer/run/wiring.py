"""What every process is made of. `stores.py` says which store; `fetching.py` and `parsing.py` add what is their own."""

import contextlib
import logging
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import msgspec

from gossamer.config import Settings
from gossamer.errors import UsageError
from gossamer.frontier.admission import AdmissionRules
from gossamer.report.counters import SUFFIX, Counters
from gossamer.report.descriptors import count_descriptors
from gossamer.run.data_directory import DataDirectory
from gossamer.run.metered_store import MeteredStore
from gossamer.run.meters import StoreCounting
from gossamer.run.stores import open_store, store_endpoints
from gossamer.spool.directory import SpoolDirectory
from gossamer.url import registrable_domain

log = logging.getLogger("gossamer.run")

#: Between two counts of the descriptors, which take half a millisecond: as often as a Prometheus asks.
COUNT_SECONDS = 15.0


class Workshop:
    """One process's store, rules, spool and counters. The store is open within `async with`.

    `name` is the place that the process fills: its counters are those of whoever filled it before.
    """

    def __init__(
        self, data: DataDirectory, settings: Settings, name: str, *, is_leader: bool = False, at_once: bool = False
    ) -> None:
        self.data = data
        self.settings = settings
        self._is_leader = is_leader
        self._which = data.which_frontier()
        self.store_url = settings.frontier.store
        # Asked for once: a name may take its time.
        self.store_endpoints = store_endpoints(self.store_url)
        self.counters = Counters(data.metrics / f"{name}{SUFFIX}")
        counting = StoreCounting(self.counters)
        opened = open_store(
            data, settings, self._which, is_leader=is_leader, at_once=at_once, note_connection=counting.connected
        )
        self.store = MeteredStore(opened, counting)
        self.rules = AdmissionRules(settings.scope, data.exclusions())
        self.spool = SpoolDirectory(data.spool)
        self._descriptors: dict[str, int] = {}
        self._counted_at = float("-inf")

    async def __aenter__(self) -> Self:
        is_new = self._is_leader and not self._which.is_made
        if is_new:
            # Its name first: a kill in between must not leave a frontier that nobody knows.
            self.data.record_frontier(self._which)
        await self.store.open()
        # It reads its list when it is first asked: later there may be no descriptor left for that.
        registrable_domain("example.org")
        if is_new:
            self.data.record_frontier(msgspec.structs.replace(self._which, is_made=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.store.close()
        self.counters.close()

    def descriptors(self, web: Mapping[int, str]) -> dict[str, int]:
        """Of this process, by kind, as they were at most some seconds ago; `web` has the scheme of each connection of
        the client."""
        now = time.monotonic()
        if now - self._counted_at >= COUNT_SECONDS:
            self._counted_at = now
            with contextlib.suppress(OSError):  # none is left to look with
                self._descriptors = count_descriptors(self.data.root, self.store_endpoints, web)
        return self._descriptors

    def reread_exclusions(self) -> None:
        try:
            self.rules.exclude(self.data.exclusions())
        except (OSError, UsageError) as error:
            log.error("the exclude file cannot be read: %s; the rules stay as they were", error)  # noqa: TRY400
