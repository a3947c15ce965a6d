"""What a person does to a running crawl on the dashboard. Called in the threads of its server, done by the leader."""

import asyncio
import logging
from collections.abc import Callable

from gossamer.errors import UsageError
from gossamer.frontier.admission import parse_exclusions
from gossamer.run.condition import Condition
from gossamer.run.data_directory import DataDirectory
from gossamer.url import is_public_suffix

log = logging.getLogger("gossamer.run")


class LeaderControls:
    """The `Controls` of the board. The leader looks at its condition four times a second, and acts on it."""

    def __init__(
        self, data: DataDirectory, condition: Condition, *, interrupt: Callable[[], None], reread: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._data = data
        self._condition = condition
        self._interrupt = interrupt
        self._reread = reread

    def pause(self) -> None:
        self._soon(self._hold)

    def resume(self) -> None:
        self._soon(self._let_go)

    def stop(self) -> None:
        self._soon(self._stop)

    def block(self, site: str) -> None:
        entry = site.strip()
        parsed = parse_exclusions(entry, "block")
        if "\n" in entry or not parsed.domains or parsed.prefixes:
            raise UsageError(f"{entry!r:.200} is not a site; give a domain such as example.org")
        if any(map(is_public_suffix, parsed.domains)):
            # A slip of the pen here would end the crawl of half the web. Who means it can write it into a file.
            raise UsageError(
                f"{entry!r:.200} is a public suffix: blocking it would block every site below it; give a site such as"
                f" example.{entry:.200}, or use --exclude-file at a resume"
            )
        # Not as it was typed: a carriage return in it would make two lines of it when the file is read.
        (domain,) = parsed.domains
        self._soon(lambda: self._block(domain))

    def _soon(self, act: Callable[[], None]) -> None:
        # After the end of the crawl there is nothing left to be done.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act)

    def _hold(self) -> None:
        log.info("paused on the dashboard")
        self._condition.is_held = True

    def _let_go(self) -> None:
        log.info("resumed on the dashboard")
        self._condition.is_held = False

    def _stop(self) -> None:
        if not self._condition.is_stopping:
            log.info("stopped on the dashboard")
            self._interrupt()

    def _block(self, entry: str) -> None:
        try:
            text = self._data.exclusions_text()
            if entry not in text.split("\n"):
                self._data.write_exclusions(f"{text.rstrip()}\n{entry}\n".lstrip())
        except (OSError, UsageError) as error:
            log.error("%s cannot be blocked: %s", entry, error)  # noqa: TRY400 (a full disk)
            return
        log.info("%s is blocked from now on: it stands in the exclude file", entry)
        self._reread()
