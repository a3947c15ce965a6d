"""What is wrong with a crawl, as far as can be found out: `gossamer doctor` shows it.

From outside: processes.py has its processes, surroundings.py what it stands on. From within: what each process finds
in itself when it is asked (`report/diagnosis.py`). problems.py makes sentences of it.
"""

import asyncio
import time
from typing import Any

import msgspec

from gossamer.config import Settings
from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores.examination import Finding
from gossamer.look.processes import Answers, ProcessSeen, ask, look_at_processes
from gossamer.look.status import PATIENCE_SECONDS, reading
from gossamer.look.surroundings import Disk, Machine, look_at_disk, look_at_machine
from gossamer.report.diagnosis import Diagnosis
from gossamer.report.sample import Bound
from gossamer.run.data_directory import DataDirectory
from gossamer.run.stores import examine
from gossamer.seed.load import is_loaded
from gossamer.spool.directory import segments_in
from gossamer.url import redacted


class StoreSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The store that the crawl's frontier is in."""

    url: str
    """Without its password."""
    error: str | None = None
    """Why it was not reached."""
    findings: list[Finding] = []
    no_pages: dict[str, int] | None = None
    """Of a crawl that has nothing left to fetch, and no page: what became of its URLs, by reason."""
    ahead_seconds: float | None = None
    """Of the store's time against this machine's clock."""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found; `--json` prints it, with the problems before it."""

    data_directory: str
    at: float
    """Wall clock."""
    is_running: bool
    leader: int | None
    """Of the last run; None if there was none."""
    stragglers: int
    """Processes that are still there although their leader is not."""
    run: int | None
    quarantined: int = 0
    """Segments of the spool that could not be parsed; what was in them was fetched again."""
    bound: Bound | None
    """What keeps it from going faster, by its leader's latest measurement."""
    processes: list[ProcessSeen]
    refusal: str
    """Why its processes were not asked."""
    diagnoses: list[Diagnosis]
    disk: Disk
    least_free_bytes: int
    """With less, the crawl pauses."""
    machine: Machine
    store: StoreSeen


async def examine_crawl(data: DataDirectory, settings: Settings) -> Checkup:
    last, there = data.processes(), data.running()
    leader = None if last is None else last.leader
    is_running = leader is not None and leader in there
    processes = await look_at_processes(data, there) if there else []
    answers = await ask(data, leader) if is_running and leader is not None else Answers()
    by_pid = {diagnosis.pid: diagnosis for diagnosis in answers.diagnoses}
    store = await _look_at_store(data, settings)
    still_there = set(data.running())
    return Checkup(
        data_directory=str(data.root),
        at=time.time(),
        is_running=is_running,
        leader=leader,
        stragglers=0 if is_running else len(there),
        run=last.run or None if last is not None else None,
        quarantined=len(segments_in(quarantine)) if (quarantine := data.spool / "quarantine").is_dir() else 0,
        bound=_bound(None if leader is None else by_pid.get(leader)),
        processes=[_named(seen, by_pid) for seen in processes if seen.pid in still_there],
        refusal=answers.refusal,
        diagnoses=[_without_addresses(diagnosis) for diagnosis in answers.diagnoses],
        disk=look_at_disk(data.root),
        least_free_bytes=settings.run.min_free_bytes,
        machine=look_at_machine(leader if is_running else None),
        store=store,
    )


def _named(seen: ProcessSeen, by_pid: dict[int, Diagnosis]) -> ProcessSeen:
    answer = by_pid.get(seen.pid)
    if answer is None:
        return seen
    return msgspec.structs.replace(seen, name=answer.process, has_answered=True)


def _without_addresses(diagnosis: Diagnosis) -> Diagnosis:
    """By which the next one knows its objects again: nobody else needs them."""
    objects = msgspec.structs.replace(diagnosis.objects, known=[], counts={})
    return msgspec.structs.replace(diagnosis, objects=objects)


def _bound(leader: Diagnosis | None) -> Bound | None:
    sample: Any = None if leader is None else leader.extra.get("sample")
    try:
        return msgspec.convert(sample["bound"], Bound)
    except (msgspec.ValidationError, TypeError, LookupError):
        # It has measured nothing yet.
        return None


async def _look_at_store(data: DataDirectory, settings: Settings) -> StoreSeen:
    url = redacted(settings.frontier.store)
    findings: list[Finding] = []
    try:
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            findings = await examine(settings.frontier.store)
            async with reading(data, settings) as store:
                asked_at = time.time()
                told = await store.now()
                # The answer was made about halfway.
                ahead_seconds = told - (asked_at + time.time()) / 2
                counts = await store.counts(now=told)
                has_failed = not counts.pages and counts.admitted == counts.finished and is_loaded(data.seeds)
                no_pages = dict(sorted(counts.outcomes.items())) if has_failed else None
                return StoreSeen(url=url, findings=findings, ahead_seconds=ahead_seconds, no_pages=no_pages)
    except StoreUnavailable as error:
        return StoreSeen(url=url, findings=findings, error=str(error))
    except TimeoutError:
        return StoreSeen(url=url, findings=findings, error=f"{url} does not answer within {2 * PATIENCE_SECONDS:g} s")
