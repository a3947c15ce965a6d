"""What a resume changes, applied when the store is open: a resume that fails before that changes nothing."""

from msgspec.structs import replace

from gossamer.config import Settings
from gossamer.frontier.store import Counts
from gossamer.run.data_directory import DataDirectory


class Resuming:
    """The settings of one resume. `begin` is called once, by the leader."""

    def __init__(self, data: DataDirectory, settings: Settings, *, more_pages: int | None) -> None:
        self._data = data
        self._settings = settings
        self._more_pages = more_pages

    def begin(self, counts: Counts) -> Settings:
        """The settings of this run, written to crawl.toml for the next one.

        `--more-pages` becomes a `max_pages` over all runs: a run that is interrupted and resumed has the same goal.
        """
        settings = self._settings
        if self._more_pages is not None:
            limit = counts.pages + self._more_pages
            settings = replace(settings, run=replace(settings.run, max_pages=limit))
        self._data.write_settings(settings)
        return settings
