"""Seeds on their way into the store, as the leader sees it: how far loading is, and what was refused."""

import logging
from collections.abc import Callable

from gossamer.frontier.refused_links import SEED_CELLS, SUFFIX, RefusedLinks
from gossamer.run.wiring import Workshop
from gossamer.seed.load import Loaded, SeedLoader

log = logging.getLogger("gossamer.run")

#: Loading so many takes some seconds, in which a person wants to see that something happens.
SEEDS_WORTH_A_LINE = 100_000


class Seeding:
    """Loads the seeds of one run. The leader starts `run` as a task and looks at the rest meanwhile."""

    def __init__(self, workshop: Workshop, say: Callable[[str], None]) -> None:
        data = workshop.data
        self._trace = RefusedLinks(data.refused / f"seeds{SUFFIX}", SEED_CELLS)
        self._loader = SeedLoader(data.seeds, workshop.store, workshop.rules, workshop.settings.url, self._trace)
        self._say = say
        self._loaded: Loaded | None = None

    @property
    def is_complete(self) -> bool:
        return self._loaded is not None and self._loaded.is_complete

    @property
    def refused(self) -> dict[str, int]:
        return {} if self._loaded is None else {str(reason): count for reason, count in self._loaded.refused.items()}

    async def run(self) -> None:
        try:
            loaded = await self._loader.load(self._note)
        finally:
            self._trace.close()
        log.info("seeds loaded", extra={"fields": loaded})

    def _note(self, loaded: Loaded) -> None:
        self._loaded = loaded
        if loaded.lines and loaded.lines % SEEDS_WORTH_A_LINE == 0 and not loaded.is_complete:
            self._say(f"{loaded.lines:,} seeds read, {loaded.admitted:,} admitted")
