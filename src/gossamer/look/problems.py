"""What of a checkup is wrong, or worth knowing, in plain sentences with what to do. `gossamer doctor` shows it."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from gossamer.frontier.stores.examination import Verdict
from gossamer.invocation import command
from gossamer.look.doctor import Checkup
from gossamer.look.processes import PATIENCE_SECONDS, ProcessSeen
from gossamer.look.wording import duration
from gossamer.report.bounds import size
from gossamer.report.diagnosis import Diagnosis
from gossamer.report.lag import LATE_SECONDS
from gossamer.units import counted

#: From here on there is no time to wait and see: fetchers open hundreds of connections in a second.
MOST_DESCRIPTORS = 0.8
#: Connections that the other side has closed and we have not: some at any moment, so many never.
MOST_CLOSE_WAIT = 100
#: Of the memory that a process may have; a costly page takes as much again.
MOST_OF_LIMIT = 0.85
#: Of the machine's memory, or its group's: with less, the system begins to throw out what is needed again.
LEAST_MEMORY = 0.05
LEAST_FILES = 0.02
#: With so little more than the limit, the disk will be full soon.
DISK_MARGIN = 2.0
#: Beyond what a slow answer explains.
CLOCK_SECONDS = 5.0
#: One object that has grown by so much since the last report is worth a look.
GROWN_BYTES = 10_000_000
#: Of one processor: who computes all the time.
BUSY = 0.8

_STOPPED = frozenset({"stopped", "tracing-stop"})
_SHORT = frozenset({"shortage", "disk"})


class Problem(msgspec.Struct, frozen=True):
    """One sentence. What is `wrong` is to be mended; a `note` is to be known."""

    weight: Literal["wrong", "note"]
    text: str


def problems_of(checkup: Checkup) -> list[Problem]:
    """What is wrong first."""
    found = [
        *_of_run(checkup),
        *_of_store(checkup),
        *_of_disk(checkup),
        *_of_machine(checkup),
        *(problem for seen in checkup.processes for problem in _of_process(checkup, seen)),
        *(problem for diagnosis in checkup.diagnoses for problem in _of_diagnosis(diagnosis)),
    ]
    return sorted(found, key=lambda problem: problem.weight == "note")


def _wrong(text: str) -> Problem:
    return Problem("wrong", text)


def _note(text: str) -> Problem:
    return Problem("note", text)


def _of_run(checkup: Checkup) -> Iterator[Problem]:
    if checkup.stragglers:
        yield _wrong(
            f"the leader of the crawl is gone; of its other processes {checkup.stragglers} are still there, and leave"
            f" within some seconds: then go on with {command('resume', checkup.data_directory)}"
        )
    no_pages = checkup.store.no_pages
    if no_pages is not None and checkup.leader is not None and not checkup.is_running and not checkup.stragglers:
        outcomes = ", ".join(f"{count:,} {reason}" for reason, count in no_pages.items())
        yield _wrong(f"the crawl ended without a page: {outcomes or 'no URL was admitted'}")
    if checkup.refusal:
        yield _wrong(f"the processes were not asked for a diagnosis: {checkup.refusal}")
    if checkup.quarantined:
        yield _note(
            f"{counted(checkup.quarantined, 'segment')} of the spool could not be parsed, and their URLs were fetched"
            " again: the log files of the parsers say why; what is in spool/quarantine can be removed"
        )
    if checkup.bound is not None and checkup.bound.by in _SHORT:
        yield _wrong(f"the crawl is held up: {checkup.bound.because}")


def _of_process(checkup: Checkup, seen: ProcessSeen) -> Iterator[Problem]:
    if seen.state in _STOPPED:
        yield _wrong(f"{seen.shown} was stopped by a signal: kill -CONT {seen.pid} lets it go on")
    elif checkup.is_running and not checkup.refusal and not seen.has_answered:
        doing = "computes all the time" if seen.cpu >= BUSY else f"is {seen.state}"
        yield _wrong(
            f"{seen.shown} (process {seen.pid}) did not answer within {PATIENCE_SECONDS:g} s; it {doing}. A process"
            f" that hangs is replaced after a minute; else see log/{seen.name or '*'}.log"
        )
    limit = seen.descriptor_limit
    if seen.descriptors is not None and limit and seen.descriptors >= MOST_DESCRIPTORS * limit:
        yield _wrong(
            f"{seen.shown} holds {seen.descriptors:,} of {limit:,} descriptors: raise `ulimit -n` and resume, or give"
            " fewer --fetcher-workers"
        )


def _of_diagnosis(diagnosis: Diagnosis) -> Iterator[Problem]:
    name = diagnosis.process
    closing = sum(states.get("CLOSE_WAIT", 0) for states in diagnosis.descriptors.states.values())
    if closing >= MOST_CLOSE_WAIT:
        yield _note(
            f"{name} holds {closing:,} connections that the other side has closed: if there are more the next time,"
            " the crawler is at fault; please report it"
        )
    limit = diagnosis.limits.get("data", (None, None))[0]
    used = diagnosis.memory.get("data_bytes", 0)
    if limit and used >= MOST_OF_LIMIT * limit:
        yield _note(
            f"{name} uses {size(used)} of the {size(limit)} that it may: a page that wants more ends it, and is then"
            " read apart"
        )
    if uncollectable := diagnosis.collector.get("uncollectable"):
        yield _note(f"{name} has {counted(uncollectable, 'object')} that cannot be collected")
    numbers: Any = diagnosis.extra.get("numbers")
    late: Any = numbers.get("loop_lag_own_ms_max", 0) if isinstance(numbers, dict) else 0
    at_urls: Any = numbers.get("errors", 0) if isinstance(numbers, dict) else 0
    if isinstance(at_urls, int) and at_urls > 0:
        yield _wrong(
            f"{name} had {counted(at_urls, 'internal error')} while it fetched: no site is charged for that, but URLs"
            f" that it happens to again and again are dropped; log/{name}.log has the tracebacks; please report them"
        )
    if isinstance(late, int) and late >= LATE_SECONDS * 1000:
        yield _note(f"{name} was {late / 1000:.1f} s late once, by work of its own: time-outs may come later by that")
    for one in diagnosis.objects.largest:
        if one.grown_bytes >= GROWN_BYTES and diagnosis.last_at is not None:
            yield _note(
                f"{name} has a {one.type} of {size(one.bytes)}, {size(one.grown_bytes)} more than"
                f" {duration(diagnosis.at - diagnosis.last_at)} ago, held by {one.held_by or 'what has no name'}"
            )
    for part, error in diagnosis.errors.items():
        yield _note(f"{name} could not look at its {part}: {error}")


def _of_disk(checkup: Checkup) -> Iterator[Problem]:
    disk, least = checkup.disk, checkup.least_free_bytes
    if disk.free_bytes < least:
        yield _wrong(
            f"{size(disk.free_bytes)} are free on the disk, and with less than {size(least)} the crawl pauses:"
            " make room, or give a smaller --min-free-bytes"
        )
    elif disk.free_bytes < DISK_MARGIN * least:
        yield _note(f"{size(disk.free_bytes)} are free on the disk; with less than {size(least)} the crawl pauses")
    if disk.files_free is not None and disk.files_total and disk.files_free < LEAST_FILES * disk.files_total:
        yield _wrong(f"the file system has room for {counted(disk.files_free, 'more file')}: remove some others")
    if disk.is_on_network and checkup.store.url == "sqlite":
        yield _wrong(
            f"the data directory is on a network file system ({disk.kind}), where the embedded store can be damaged:"
            " keep it on a local disk, or use --store with a server"
        )
    elif disk.is_on_network:
        yield _note(f"the data directory is on a network file system ({disk.kind}): each commit waits for the network")
    if disk.is_in_memory:
        yield _note(f"the data directory is in memory ({disk.kind}): it is lost when the machine restarts")
    if disk.is_in_container:
        yield _note(
            f"the data directory is in a container's own layer ({disk.kind}) and lost with it: put it on a volume"
        )


def _of_machine(checkup: Checkup) -> Iterator[Problem]:
    machine = checkup.machine
    if machine.memory_available_bytes < LEAST_MEMORY * machine.memory_total_bytes:
        yield _wrong(
            f"{size(machine.memory_available_bytes)} of {size(machine.memory_total_bytes)} of memory are left:"
            " end something else, or give fewer --num-fetcher-processes and --num-parser-processes"
        )
    limit, used = machine.memory_limit_bytes, machine.memory_of_limit_bytes
    if limit and used is not None and used > (1 - LEAST_MEMORY) * limit:
        yield _wrong(
            f"{size(used)} of {size(limit)} of memory are used in the crawl's control group: the system is about to"
            " end one of its processes; raise the limit"
        )
    if machine.is_clock_kept is False:
        yield _note("nobody keeps this machine's clock right: run a time service, such as chrony")


def _of_store(checkup: Checkup) -> Iterator[Problem]:
    store = checkup.store
    if store.error is not None:
        yield _wrong(f"the store is not available: {store.error}")
    for finding in store.findings:
        if finding.verdict is Verdict.REFUSED:
            yield _wrong(f"the store's {finding.name} is {finding.value}: {finding.advice}")
        elif finding.verdict is Verdict.ADVICE:
            yield _note(f"the store's {finding.name} is {finding.value}: {finding.advice}")
    if store.ahead_seconds is not None and abs(store.ahead_seconds) >= CLOCK_SECONDS:
        word = "ahead of" if store.ahead_seconds > 0 else "behind"
        yield _note(
            f"the store's time is {duration(abs(store.ahead_seconds))} {word} this machine's clock: one of the clocks"
            " is wrong, or was set while the crawl was going; the crawl goes by the store's"
        )
