"""What a parser does with a segment that cannot be parsed: the crawl goes on, and none of its URLs is lost."""

import contextlib
import logging
from functools import partial
from pathlib import Path
from types import TracebackType

from gossamer.errors import CrashLoop, GossamerError
from gossamer.frontier.store import Store
from gossamer.parse.meter import ParseMeter, ParserStatistics
from gossamer.parse.note import PageNote, Stage
from gossamer.parse.room import Room
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.segment import segment_id
from gossamer.spool.suspects import Finding, Suspects

#: Segments that failed one after another, with no commit between them: then not they are broken, but we are.
FAILURES_IN_A_ROW = 5

_LOG = logging.getLogger("gossamer.parse")


class Leaving(Exception):  # noqa: N818 (no error: the parser was told to leave, and the page is left unread)
    """Raised while a page is read guarded."""


class Fault(Exception):  # noqa: N818 (what it is)
    """A mistake of ours, met with what came from the web. Its cause is the exception that was raised."""


class Faults:
    """`with Faults():` makes a Fault of what nobody expected: the parser's guard around single pages and segments.

    Not of shortages, nor of what a person must mend.
    """

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, GossamerError | OSError | Leaving | Fault):
            raise Fault(f"{type(error).__name__}: {error}") from error


class Failures:
    """One parser's. What it finds out is kept in `suspects`, for the parser that takes the segment next."""

    def __init__(
        self,
        *,
        store: Store,
        spool: SpoolDirectory,
        suspects: Suspects,
        note: PageNote,
        room: Room,
        statistics: ParserStatistics,
        meter: ParseMeter,
    ) -> None:
        self._store = store
        self._spool = spool
        self._suspects = suspects
        self._note = note
        self._room = room
        self._statistics = statistics
        self._meter = meter
        self._hopeless: dict[Path, str] = {}
        """Claimed segments that nothing helps, and why."""

    async def set_hopeless_aside(self) -> None:
        """Another segment was committed, or none is left: it was their fault, and not ours."""
        while self._hopeless:
            path, why = self._hopeless.popitem()
            await self.set_aside(path, why)

    async def failed(self, path: Path, index: int | None, fault: Fault) -> bool:
        """A segment, of which nothing is left in the sinks: on this page, if that is known. Whether to parse it again.

        First outcome by outcome, and then without the page that is found so. If neither helps, it is set aside, unless
        that happens to one segment after another.
        """
        segment = segment_id(path)
        self._note.clear()
        if not self._suspects.has(segment, Finding.FAILED):
            await self._keep(segment, Finding.FAILED)
        elif index is not None and not self._suspects.is_crash(segment, index):
            await self._keep(segment, Finding.CRASH, index)
        else:
            self._hopeless[path] = str(fault)
            if len(self._hopeless) >= FAILURES_IN_A_ROW:
                raise CrashLoop(
                    f"{len(self._hopeless)} segments could not be parsed one after another;"
                    f" the last was {segment}: {fault}"
                ) from fault
            return False
        return True

    async def give_back(self, path: Path) -> None:
        await self._room.until_done(partial(self._spool.publish, path))

    async def set_aside(self, path: Path, why: str, *, is_damaged: bool = False) -> None:
        """In this order: a death on the way leaves a segment that is not read any more, and no URL that is lost."""
        segment = segment_id(path)
        self._note.stage(segment, Stage.RETURN)
        _LOG.warning("segment %s goes to quarantine, its URLs are fetched again: %s", segment, why)
        await self._keep(segment, Finding.RETURNING)
        await self._store.unspool(segment)
        with contextlib.suppress(FileNotFoundError):
            await self._room.until_done(partial(self._spool.quarantine, path))
        self._note.clear()
        if is_damaged:
            self._statistics.damaged_segments += 1
            self._meter.damaged()
        else:
            self._statistics.failed_segments += 1
            self._meter.failed()

    async def _keep(self, segment: str, finding: Finding, index: int | None = None) -> None:
        is_durable = finding is Finding.RETURNING
        await self._room.until_done(partial(self._suspects.add, segment, finding, index, is_durable=is_durable))
