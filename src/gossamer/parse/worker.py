"""The parser: from segments in the spool to admitted links and committed pages.

    claim ──► read the pages of a batch ──► admit their links ──► write their records ──► segment done ──► commit
                       ▲                        │
                       └── the next batch ◄─────┘ while the store is at it

A batch is half of what may be read ahead, within one segment, and less where its pages are large. Its records go to the
sinks only when the store has answered: so a segment is done when its last batch is, whole, and the sinks stand at its
boundary at that moment.

Parsing holds up the event loop, which serves nothing but this and the leader's commands; those are heard between pages.
A disk that is full is waited for, wherever it is met; nothing that was read is lost by that.

Whatever a segment does to its reader, the crawl goes on. A page that kills its reader is finished as `parse-crash`. A
segment that cannot be read is set aside: its URLs go back to their queues, and only then its file goes to quarantine.
One that raises an exception is parsed again: outcome by outcome, then without the page that raised it. If nothing helps
it is set aside, and so is one on which two parsers died.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.refused_links import RefusedLinks
from gossamer.frontier.store import Store
from gossamer.frontier.store_clock import SampledClock
from gossamer.parse.batch import LINK_WEIGHT, Batch, Offer
from gossamer.parse.candidates import Candidates
from gossamer.parse.failures import Failures, Fault, Faults, Leaving
from gossamer.parse.meter import UNMEASURED, ParseMeter, ParserStatistics
from gossamer.parse.note import PageNote, Stage
from gossamer.parse.page_reader import PageReader
from gossamer.parse.room import Room
from gossamer.records import Candidate, Finished, Outcome, Reason, Result
from gossamer.sinks.commit import Committer
from gossamer.sinks.sink import Sink
from gossamer.spool.directory import SpoolDirectory
from gossamer.spool.recovery import return_claimed
from gossamer.spool.segment import DamagedSegment, SegmentReader, parse_name, segment_id
from gossamer.spool.suspects import SEGMENT_DEATHS, Finding, Suspects

#: Until a commit its segments stay in the spool. A thousand usual pages come to a tenth of this; where the spool is
#: small, all parsers together keep half of it at most, so that it never waits for a commit that waits for more pages.
COMMIT_BYTES = 256 << 20
#: How soon a segment that appears is noticed by an idle parser; looking costs it one listing of a directory.
IDLE_SECONDS = 0.05
#: After a failure, so long each segment is committed by itself: the next failure is that of one segment.
CAREFUL_SECONDS = 120.0

_LOG = logging.getLogger("gossamer.parse")


class Parser:
    """Takes segments one after the other; finishes a URL only after its links are admitted and its record is committed.

    `run` is called once, by a parser process. The supervisor reads `note` when that dies. It never fetches, and never
    deletes a segment itself.
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
        refused: RefusedLinks,
        meter: ParseMeter = UNMEASURED,
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
        self._candidates = Candidates(rules, settings.url, settings.parse.max_link_bytes, refused)
        self._batch_outcomes = max(1, settings.parse.parser_workers // 2)
        self._pending: Offer | None = None
        self._statistics = ParserStatistics()
        self._uncommitted_outcomes = 0
        self._uncommitted_bytes = 0
        self._commit_bytes = min(COMMIT_BYTES, settings.spool.spool_bytes // (2 * parsers))
        self._uncommitted_since: float | None = None
        self._careful_until = 0.0
        self._is_commit_wanted = False
        self._is_draining = False
        self._again: list[Path] = []
        """Claimed segments that failed and are to be parsed once more."""
        self._leaving = asyncio.Event()
        self._room = Room(self._statistics, self._leaving)
        self._suspects = Suspects(spool.root)
        self._page_reader = PageReader(settings, self._suspects, self._room, self._leaving)
        self._failures = Failures(
            store=store,
            spool=spool,
            suspects=self._suspects,
            note=note,
            room=self._room,
            statistics=self._statistics,
            meter=meter,
        )

    async def run(self) -> None:
        """Until drained. Raises StoreUnavailable when the store is gone; recovery then takes up what was claimed."""
        try:
            while not self._leaving.is_set():
                # Asked before the spool is: what was ready when the drain was told is found.
                is_last_look = self._is_draining
                segment = self._again.pop() if self._again else None
                segment = segment or await self._room.until_done(partial(self._spool.claim, self._name))
                if segment is not None:
                    await self._parse(segment)
                    if self._is_careful:
                        await self._settle()
                    if self._is_commit_due():
                        await self._commit()
                    continue
                # What fails now is ready again, and is looked at once more.
                if await self._settle() is not None:
                    continue
                await self._failures.set_hopeless_aside()
                if is_last_look:
                    if await self._commit():
                        break
                    continue
                if self._is_commit_wanted or self._is_commit_due():
                    self._is_commit_wanted = False
                    await self._commit()
                await asyncio.sleep(IDLE_SECONDS)
            await self._commit()
            await self._room.until_awaited(self._store.sync)
            await self._room.until_done(self._committer.close)
            await self._room.until_done(partial(return_claimed, self._spool, self._name))
        except (GossamerError, OSError):
            # It leaves in good order, and no segment is to blame.
            self._note.clear()
            raise
        finally:
            await self._forget_pending()
            await self._page_reader.close()
            self._suspects.close()

    def commit_soon(self) -> None:
        """Nothing is queued or leased any more: what is parsed need not wait for more."""
        self._is_commit_wanted = True

    def drain(self, *, empty_spool: bool) -> None:
        """End `run` with a commit: after the page in work, or when nothing is ready any more."""
        self._is_draining = True
        if not empty_spool:
            self._leaving.set()

    def guard(self, seconds: float) -> None:
        """A parser has died on a page: for so long, pages are read where they can kill nothing else."""
        self._page_reader.guard(seconds)

    def be_careful(self, seconds: float) -> None:
        """A parser has died, on no page: for so long, each segment is committed by itself."""
        self._careful_until = max(self._careful_until, time.monotonic() + seconds)

    def statistics(self) -> ParserStatistics:
        return msgspec.structs.replace(
            self._statistics,
            links_nofollow=self._candidates.nofollow,
            refused={str(reason): count for reason, count in self._candidates.refused.items()},
        )

    # One segment.

    async def _parse(self, path: Path) -> None:
        segment = segment_id(path)
        self._note.stage(segment, Stage.SEGMENT)
        await self._room.until_done(self._suspects.refresh)
        spooled: set[int] | None = None
        if segment in self._suspects:
            deaths = self._suspects.deaths(segment)
            if deaths >= SEGMENT_DEATHS or self._suspects.has(segment, Finding.RETURNING):
                why = f"{deaths} parsers died on it" if deaths >= SEGMENT_DEATHS else "that was begun and not ended"
                await self._failures.set_aside(path, why)
                return
            if deaths:
                spooled = await self._store.spooled(segment)
        index: int | None = None
        try:
            with Faults(), await self._room.until_done(partial(SegmentReader, path)) as reader:
                batch = Batch(segment=path, finished=[])
                most = 1 if self._suspects.has(segment, Finding.FAILED) else self._batch_outcomes
                following = 0
                while (outcome := await self._room.until_done(reader.next)) is not None:
                    if self._leaving.is_set():
                        await self._abandon()
                        return
                    if batch.is_full(most):
                        if not await self._offer(batch):
                            return
                        batch = Batch(segment=path, finished=batch.finished)
                    index, following = following, following + 1
                    if spooled is None or outcome.lease.number in spooled or outcome.result is Result.RETRY:
                        await self._read(batch, segment, index, outcome)
                    index = None
                    self._note.stage(segment, Stage.SEGMENT)
        except DamagedSegment as error:
            await self._abandon()
            if path in self._again:
                self._again.remove(path)
            await self._failures.set_aside(path, str(error), is_damaged=True)
            return
        except Leaving:
            await self._abandon()
            return
        except Fault as fault:
            # What the store was asked about earlier is not to blame, unless it failed too.
            if await self._settle() != path:
                await self._fail(path, index, fault)
            return
        batch.is_last = True
        await self._offer(batch)

    async def _offer(self, batch: Batch) -> bool:
        """Ask the store about the links of a batch; whether the batch before it, if of the same segment, went well."""
        if await self._settle() == batch.segment:
            return False
        self._note.stage(segment_id(batch.segment), Stage.SEGMENT)
        candidates = batch.candidates()
        self._pending = Offer(batch, candidates, asyncio.create_task(self._admit(candidates)))
        return True

    async def _read(self, batch: Batch, segment: str, index: int, outcome: Outcome) -> None:
        lease, entry = outcome.lease, batch.add(index, outcome)
        if outcome.result is Result.RETRY:
            return  # the record of an attempt; its URL is back in its queue
        if outcome.is_page and outcome.answer is not None:
            began_at = time.perf_counter()
            self._note.page(segment, index)
            reading = await self._page_reader.read(segment, index, outcome.answer)
            if reading is None:
                entry.reason = Reason.PARSE_CRASH
                self._statistics.parse_crashes += 1
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

    async def _admit(self, candidates: list[Candidate]) -> list[Reason]:
        if not candidates:
            return []
        return await self._store.admit(candidates, self._limits, now=await self._clock.earliest())

    async def _settle(self) -> Path | None:
        """Bring the batch that the store was asked about to its end; its segment, if that failed."""
        offer = self._pending
        if offer is None:
            return None
        batch = offer.batch
        # Where a batch has one outcome, that is to blame.
        index = batch.indexes[0] if len(batch.indexes) == 1 else None
        self._note.stage(segment_id(batch.segment), Stage.SEGMENT)
        try:
            with Faults():
                answers = await offer.answers
                self._pending = None
                self._candidates.answered(offer.candidates, answers)
                self._note.stage(segment_id(batch.segment), Stage.SINKS)
                # Nothing else is written meanwhile: when the segment is done, the sinks stand at its boundary.
                for place, entry in zip(batch.indexes, batch.entries, strict=True):
                    for sink in self._sinks:
                        index = place
                        sink.write(entry)
                        index = None
                        await self._room.until_done(sink.flush)
                if batch.is_last:
                    await self._room.until_done(partial(self._committer.segment_done, batch.segment, batch.finished))
        except Fault as fault:
            self._pending = None
            await self._fail(batch.segment, index, fault)
            return batch.segment
        self._count(batch, answers)
        self._note.clear()
        return None

    def _count(self, batch: Batch, answers: list[Reason]) -> None:
        statistics = self._statistics
        statistics.offered += len(answers)
        statistics.admitted += answers.count(Reason.NEW)
        if batch.is_last:
            statistics.pages += sum(finished.reason is Reason.PAGE for finished in batch.finished)
            statistics.outcomes += len(batch.finished)
            # Those that are no pages count too: their segments and their URLs wait for the commit just the same.
            self._uncommitted_outcomes += len(batch.finished)
            name = parse_name(batch.segment.name)
            self._uncommitted_bytes += 0 if name is None else name.size_bytes
            if self._uncommitted_since is None:
                self._uncommitted_since = time.monotonic()

    # The commit.

    @property
    def _is_careful(self) -> bool:
        return time.monotonic() < self._careful_until

    def _is_commit_due(self) -> bool:
        return self._uncommitted_since is not None and (
            self._uncommitted_outcomes >= self._settings.sinks.commit_pages
            or self._uncommitted_bytes >= self._commit_bytes
            or time.monotonic() - self._uncommitted_since >= self._settings.sinks.commit_interval_seconds
            or self._is_careful
        )

    async def _commit(self) -> bool:
        """Whether all went well; otherwise some segments are ready again."""
        if await self._settle() is not None:
            return False
        if self._uncommitted_since is not None:
            began_at = time.monotonic()
            segments = self._committer.segments
            if len(segments) == 1:
                self._note.stage(segment_id(segments[0]), Stage.COMMIT)
            try:
                await self._room.until_awaited(self._commit_once)
            except Fault as fault:
                if self._committer.is_decided:
                    raise
                await self._fail(segments[0] if len(segments) == 1 else None, None, fault)
                return False
            self._note.clear()
            self._statistics.is_short = 0
            self._statistics.commits += 1
            await self._failures.set_hopeless_aside()
            self._meter.committed(time.monotonic() - began_at)
        self._uncommitted_outcomes, self._uncommitted_bytes, self._uncommitted_since = 0, 0, None
        return True

    async def _commit_once(self) -> None:
        with Faults():
            await self._committer.commit()

    # What goes wrong.

    async def _abandon(self) -> None:
        """What was written of the segment in work is taken back; `run` gives the segment itself back."""
        await self._settle()
        self._note.clear()
        self._committer.abandon()

    async def _fail(self, path: Path | None, index: int | None, fault: Fault) -> None:
        """Something of ours failed while this segment was parsed or committed, on this page if it is known."""
        _LOG.error("segment %s, page %s: %s", path and segment_id(path), index, fault, exc_info=fault.__cause__)
        self.be_careful(CAREFUL_SECONDS)
        self._committer.abandon()
        if index is None:
            # It may be the doing of what earlier segments have left in the sinks.
            for done in self._committer.abandon_all():
                if done != path:
                    await self._failures.give_back(done)
            self._uncommitted_outcomes, self._uncommitted_bytes, self._uncommitted_since = 0, 0, None
        if path is not None and await self._failures.failed(path, index, fault):
            # By us and at once, before others fail for the first time: each comes to its end by itself.
            self._again.append(path)

    async def _forget_pending(self) -> None:
        """Without an answer its segment is not done; recovery gives it back."""
        if self._pending is not None:
            self._pending.answers.cancel()
            await asyncio.gather(self._pending.answers, return_exceptions=True)
