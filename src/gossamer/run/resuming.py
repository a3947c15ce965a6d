"""What a resume changes, applied when the store is open: a resume that fails before that changes no setting."""

from collections.abc import Callable

from msgspec.structs import replace

from gossamer.config import Settings
from gossamer.frontier.refused_links import RefusedLinksReader
from gossamer.frontier.store import Counts
from gossamer.run.data_directory import DataDirectory
from gossamer.run.loosened import ADVICE, Rules, loosened
from gossamer.seed.load import is_loaded


class Resuming:
    """The settings of one resume. `begin` is called once, by the leader; `before` are the rules of the run before."""

    def __init__(self, data: DataDirectory, before: Rules, settings: Settings, *, more_pages: int | None) -> None:
        self._data = data
        self._before = before
        self._settings = settings
        self._more_pages = more_pages
        self.has_nothing_to_do = False
        """Whether every URL was finished when the run began."""

    def begin(self, counts: Counts, say: Callable[[str], None]) -> Settings:
        """The settings of this run, written to crawl.toml for the next one.

        `--more-pages` becomes a `max_pages` over all runs: a run that is interrupted and resumed has the same goal.
        """
        self.has_nothing_to_do = counts.admitted == counts.finished and is_loaded(self._data.seeds)
        settings = self._settings
        if self._more_pages is not None:
            limit = counts.pages + self._more_pages
            settings = replace(settings, run=replace(settings.run, max_pages=limit))
        self._data.write_settings(settings)
        found = RefusedLinksReader(self._data.refused)
        lines = list(
            loosened(
                self._before,
                Rules(settings, self._data.exclusions()),
                refused=found.totals if found.is_there else None,
                dropped=counts.outcomes,
            )
        )
        for line in [*lines, *([ADVICE] if lines else [])]:
            say(line)
        return settings
