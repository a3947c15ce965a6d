"""The parser: from segments in the spool to admitted links and committed pages.

    claim ──► read the pages of a batch ──► admit their links ──► write their records ──► segment done ──► commit
                       ▲                        │
                       └── the next batch ◄─────┘ while the store is at it

A batch is half of what may be read ahead, within one segment, and less where its pages are large. Its records go to the
sinks only when the store has answered: so a segment is done when its last batch is, whole, and the sinks stand at its
boundary at that moment.

Parsing holds up the event loop, which serves nothing but this and the leader's commands; those are heard between pages.
A disk that is full is waited for, wherever it is met; nothing that was read is lost by that.
"""

import asyncio
import contextlib
import errno
import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.store import Store
from gossamer.frontier.store_clock import SampledClock
from gossamer.parse.candidates import Candidates
from gossamer.parse.isolated import read_apart
from gossamer.parse.meter import UNMEASURED, ParseMeter
from gossamer.parse.note import PageNote
from gossamer.parse.record import Reading, read_answer
from gossamer.records import Answer, Candidate, Finished, Outcome, Reason, Result
from gossamer.sinks.commit import Committer
from gossamer.sinks.sink import Entry, Sink
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.recovery import return_claimed
from gossamer.spool.segment import DamagedSegment, parse_name, read_segment, segment_id

#: Until a commit its segments stay in the spool. A thousand usual pages come to a tenth of this; where the spool is
#: small, all parsers together keep half of it at most, so that it never waits for a commit that waits for more pages.
COMMIT_BYTES = 256 << 20
#: A batch that has come to so many characters is not filled further: forty pages of a megabyte each, with links that
#: are as long as links may be, would not fit into a parser. Usual ones come to a quarter.
BATCH_WEIGHT = 8 << 20
#: Of a link beside its URL, which is at most its page's base and what is written in the page.
LINK_WEIGHT = 300
#: How soon a segment that appears is noticed by an idle parser; looking costs it one listing of a directory.
IDLE_SECONDS = 0.05
#: Between attempts at a disk that is full: somebody has to make room, and may be at it already, or asleep.
FIRST_DISK_SECONDS = 1.0
LONGEST_DISK_SECONDS = 30.0

#: What passes when somebody makes room, or ends something. Any other error of the disk ends the parser.
_SHORTAGES = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

T = TypeVar("T")

_LOG = logging.getLogger("gossamer.parse")


class ParserStatistics(msgspec.Struct, kw_only=True):
    """Plain numbers since the parser started, for the leader."""

    pages: int = 0
    outcomes: int = 0
    """Pages included; both of whole segments."""
    links_found: int = 0
    links_nofollow: int = 0
    offered: int = 0
    """Candidates that the store was asked about."""
    admitted: int = 0
    """Those of them that were new."""
    refused: dict[str, int] = {}
    """Links and redirects that were not admitted, by reason; those that were seen before not among them."""
    commits: int = 0
    damaged_segments: int = 0
    parse_crashes: int = 0
    disk_waits: int = 0
    """How often the disk was full, or descriptors were short; one for each time that lasted."""
    is_short: int = 0
    """1 while it waits for that."""


class _Batch(msgspec.Struct, kw_only=True):
    """Some outcomes of one segment: first what is read of them, then the store's answers are awaited."""

    finished: list[Finished]
    """Of the whole segment so far; its batches share the list."""
    entries: list[Entry] = []
    """For the sinks, in the order of the segment."""
    redirects: list[Candidate] = []
    links: dict[int, Candidate] = {}
    weight: int = 0
    """Roughly, in characters; some of them take four bytes."""
    segment: Path | None = None
    """Set on the last batch of a segment."""

    def candidates(self) -> list[Candidate]:
        # A redirect first: it may be to the same place as a link, and says more of it.
        return [*self.redirects, *self.links.values()]


class _Offer(msgspec.Struct, frozen=True):
    """A batch that is read, while the store is asked about its candidates."""

    batch: _Batch
    candidates: list[Candidate]
    answers: asyncio.Task[list[Reason]]


class Parser:
    """Takes segments one after the other; finishes a URL only after its links are admitted and its record is committed.

    `run` is called once, by a parser process. The supervisor reads `note` when that dies, and names in `suspects` the
    pages (segment id and index) to be parsed apart. It never fetches, and never deletes a segment itself.
    """

    def __init__(
        self,
        *,
        name: str,
        settings: Settings,
        store: Store,
        spool: SpoolDirectory,
        committer: Committer,
        sinks: Sequence[Sink],
        rules: AdmissionRules,
        note: PageNote,
        meter: ParseMeter = UNMEASURED,
        suspects: Collection[tuple[str, int]] = frozenset(),
        parsers: int = 1,
    ) -> None:
        """`parsers` is how many share the spool."""
        self._name = name
        self._settings = settings
        self._store = store
        self._spool = spool
        self._committer = committer
        self._sinks = sinks
        self._clock = SampledClock(store)
        self._limits = rules.limits
        self._note = note
        self._meter = meter
        self._suspects = suspects
        self._candidates = Candidates(rules, settings.url, settings.parse.max_link_bytes)
        self._batch_outcomes = max(1, settings.parse.parser_workers // 2)
        self._pending: _Offer | None = None
        self._statistics = ParserStatistics()
        self._uncommitted_outcomes = 0
        self._uncommitted_bytes = 0
        self._commit_bytes = min(COMMIT_BYTES, settings.spool.spool_bytes // (2 * parsers))
        self._uncommitted_since: float | None = None
        self._disk_seconds = FIRST_DISK_SECONDS
        self._is_commit_wanted = False
        self._is_draining = False
        self._leaving = asyncio.Event()

    async def run(self) -> None:
        """Until drained. Raises StoreUnavailable when the store is gone; recovery then takes up what was claimed."""
        try:
            while not self._leaving.is_set():
                # Asked before the spool is: what was ready when the drain was told is found.
                is_last_look = self._is_draining
                segment = await self._with_room(partial(self._spool.claim, self._name))
                if segment is not None:
                    await self._parse(segment)
                    if self._is_commit_due():
                        await self._commit()
                    continue
                await self._settle()
                if is_last_look:
                    break
                if self._is_commit_wanted or self._is_commit_due():
                    self._is_commit_wanted = False
                    await self._commit()
                await asyncio.sleep(IDLE_SECONDS)
            await self._commit()
            self._committer.close()
            return_claimed(self._spool, self._name)
        finally:
            await self._forget_pending()

    def commit_soon(self) -> None:
        """Nothing is queued or leased any more: what is parsed need not wait for more."""
        self._is_commit_wanted = True

    def drain(self, *, empty_spool: bool) -> None:
        """End `run` with a commit: after the page in work, or when nothing is ready any more."""
        self._is_draining = True
        if not empty_spool:
            self._leaving.set()

    def statistics(self) -> ParserStatistics:
        return msgspec.structs.replace(
            self._statistics,
            links_nofollow=self._candidates.nofollow,
            refused={str(reason): count for reason, count in self._candidates.refused.items()},
        )

    async def _parse(self, path: Path) -> None:
        segment = segment_id(path)
        try:
            outcomes = await self._with_room(partial(read_segment, path))
        except DamagedSegment as error:
            _LOG.warning("segment %s is damaged, its URLs are fetched again: %s", segment, error)
            self._spool.quarantine(path)
            await self._store.unspool(segment)
            self._statistics.damaged_segments += 1
            self._meter.damaged()
            return
        finished: list[Finished] = []
        batch = _Batch(finished=finished)
        index = 0
        while batch.segment is None:
            batch = _Batch(finished=finished)
            end = min(index + self._batch_outcomes, len(outcomes))
            while index < end and batch.weight < BATCH_WEIGHT:
                if self._leaving.is_set():
                    await self._abandon()
                    return
                await self._read(batch, segment, index, outcomes[index])
                index += 1
            self._note.clear()
            await self._settle()
            if index == len(outcomes):
                batch.segment = path
            candidates = batch.candidates()
            self._pending = _Offer(batch, candidates, asyncio.create_task(self._admit(candidates)))

    async def _read(self, batch: _Batch, segment: str, index: int, outcome: Outcome) -> None:
        lease, entry = outcome.lease, Entry(outcome, outcome.reason)
        batch.entries.append(entry)
        if outcome.result is Result.RETRY:
            return  # the record of an attempt; its URL is back in its queue
        if outcome.is_page and outcome.answer is not None:
            began_at = time.perf_counter()
            reading = await self._read_page(segment, index, outcome.answer)
            if reading is None:
                entry.reason = Reason.PARSE_CRASH
                self._meter.crashed()
            else:
                page = entry.page = reading.record
                self._meter.read(outcome, page, time.perf_counter() - began_at)
                _LOG.debug("read: %s", lease.url)
                batch.weight += len(page.text or b"") + len(page.main_text or b"")
                batch.weight += len(reading.links) * (LINK_WEIGHT + len(reading.base.text))
                self._statistics.links_found += page.links
                self._candidates.add_links(batch.links, lease, reading.base, reading.links, nofollow=page.nofollow)
            # The leader's commands are heard here.
            await asyncio.sleep(0)
        elif outcome.reason is Reason.REDIRECT and outcome.answer is not None:
            batch.redirects += self._candidates.of_redirect(lease, outcome.answer.location)
        batch.finished.append(
            Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, entry.reason, outcome.body_bytes)
        )

    async def _read_page(self, segment: str, index: int, answer: Answer) -> Reading | None:
        """What the page says; None if reading it kills whoever does."""
        self._note.set(segment, index)
        if (segment, index) not in self._suspects:
            return read_answer(answer, self._settings)
        reading = await read_apart(answer, self._settings)
        if reading is None:
            _LOG.warning("page %d of segment %s cannot be parsed: %s", index, segment, answer.url)
            self._statistics.parse_crashes += 1
        return reading

    async def _admit(self, candidates: list[Candidate]) -> list[Reason]:
        if not candidates:
            return []
        return await self._store.admit(candidates, self._limits, now=await self._clock.earliest())

    async def _settle(self) -> None:
        """Bring the batch that the store was asked about to its end."""
        offer = self._pending
        if offer is None:
            return
        answers = await offer.answers
        self._pending = None
        self._candidates.answered(offer.candidates, answers)
        # Nothing else is written meanwhile: when the segment is done, the sinks stand at its boundary.
        batch, statistics = offer.batch, self._statistics
        for entry in batch.entries:
            for sink in self._sinks:
                sink.write(entry)
                await self._with_room(sink.flush)
        statistics.offered += len(answers)
        statistics.admitted += answers.count(Reason.NEW)
        if batch.segment is not None:
            await self._with_room(partial(self._committer.segment_done, batch.segment, batch.finished))
            statistics.pages += sum(finished.reason is Reason.PAGE for finished in batch.finished)
            statistics.outcomes += len(batch.finished)
            # Those that are no pages count too: their segments and their URLs wait for the commit just the same.
            self._uncommitted_outcomes += len(batch.finished)
            name = parse_name(batch.segment.name)
            self._uncommitted_bytes += 0 if name is None else name.size_bytes
            if self._uncommitted_since is None:
                self._uncommitted_since = time.monotonic()

    def _is_commit_due(self) -> bool:
        return self._uncommitted_since is not None and (
            self._uncommitted_outcomes >= self._settings.sinks.commit_pages
            or self._uncommitted_bytes >= self._commit_bytes
            or time.monotonic() - self._uncommitted_since >= self._settings.sinks.commit_interval_seconds
        )

    async def _commit(self) -> None:
        await self._settle()
        if self._uncommitted_since is not None:
            began_at = time.monotonic()
            while True:
                try:
                    await self._committer.commit()
                    break
                except OSError as error:
                    await self._wait_for_room(error)
            self._statistics.is_short = 0
            self._statistics.commits += 1
            self._meter.committed(time.monotonic() - began_at)
        self._uncommitted_outcomes, self._uncommitted_bytes, self._uncommitted_since = 0, 0, None

    async def _with_room(self, work: Callable[[], T]) -> T:
        """`work` must be one that may be called again after an OSError."""
        while True:
            try:
                done = work()
            except OSError as error:
                await self._wait_for_room(error)
            else:
                self._statistics.is_short = 0
                return done

    async def _wait_for_room(self, error: OSError) -> None:
        if error.errno not in _SHORTAGES:
            raise error
        if self._leaving.is_set():
            raise GossamerError(f"what was parsed cannot be written: {error}; resume when there is room") from error
        if not self._statistics.is_short:
            _LOG.error("cannot go on: %s; trying again until there is room", error)
            self._statistics.disk_waits += 1
            self._statistics.is_short = 1
            self._disk_seconds = FIRST_DISK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), self._disk_seconds)
        self._disk_seconds = min(2 * self._disk_seconds, LONGEST_DISK_SECONDS)

    async def _abandon(self) -> None:
        """What was written of the segment in work is taken back; `run` gives the segment itself back."""
        self._note.clear()
        await self._settle()
        self._committer.abandon()

    async def _forget_pending(self) -> None:
        """Without an answer its segment is not done; recovery gives it back."""
        if self._pending is not None:
            self._pending.answers.cancel()
            await asyncio.gather(self._pending.answers, return_exceptions=True)
