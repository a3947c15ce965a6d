"""`gossamer doctor`: what is wrong with a crawl, what bounds it, and what its processes hold."""

import argparse
import asyncio
import textwrap
from collections.abc import Sequence

import msgspec

from gossamer.cli.arguments import Parser, printable
from gossamer.cli.looking import add_crawl, crawl_of, settings_of
from gossamer.errors import StoreUnavailable
from gossamer.frontier.stores.examination import Verdict
from gossamer.look.doctor import Checkup, examine_crawl
from gossamer.look.problems import Problem, problems_of
from gossamer.look.wording import duration
from gossamer.report.bounds import size
from gossamer.report.diagnosis import Diagnosis
from gossamer.report.objects import LargeObject, Objects
from gossamer.report.sample import DESCRIPTOR_KINDS

SUMMARY = "Examine a crawl: what is wrong, what bounds it, what its processes hold, disk, memory, clock, store."
NOTES = """Asks every process of a running crawl for a diagnosis, through its leader (SIGUSR1), and waits up to 15 s for
the answers; each keeps the process from its work for a second or two. They stay in DIR/diagnosis, so that the next one
can tell what was there before. Of a crawl that does not run, all is shown that can be seen without processes.

exit codes: 0 nothing is wrong, 1 a problem was found, 2 bad usage, 3 the store is not available (the rest is shown)"""

#: Of the whole output, also where the terminal is wider: columns that stand together are read together.
WIDTH = 80
#: Without --objects.
FEW_OBJECTS = 3
#: A space at which no line is broken: a number stands beside what it counts.
_TIE = "\N{NO-BREAK SPACE}"


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--objects", action="store_true", help="all of the largest objects, and counts by type")


def run(arguments: argparse.Namespace) -> int:
    data = crawl_of(arguments)
    checkup = asyncio.run(examine_crawl(data, settings_of(data)))
    problems = problems_of(checkup)
    if arguments.json:
        shown = {"problems": problems, **{name: getattr(checkup, name) for name in checkup.__struct_fields__}}
        print(msgspec.json.encode(shown).decode())
    else:
        _print(checkup, problems, with_objects=arguments.objects)
    if checkup.store.error is not None:
        return StoreUnavailable.exit_code
    return int(any(problem.weight == "wrong" for problem in problems))


def _print(checkup: Checkup, problems: Sequence[Problem], *, with_objects: bool) -> None:
    print(f"the crawl in {printable(checkup.data_directory)} {_state(checkup)}")
    wrong = [problem.text for problem in problems if problem.weight == "wrong"]
    _section("problems" if wrong else "no problem was found")
    for text in wrong:
        _wrapped(text, first="  ! ", rest="    ")
    notes = [problem.text for problem in problems if problem.weight == "note"]
    if notes:
        _section("to be known")
    for text in notes:
        _wrapped(text, first="  - ", rest="    ")
    if checkup.bound is not None:
        _section(f"bound by {checkup.bound.by}")
        _wrapped(checkup.bound.because, first="  ", rest="  ")
    _print_processes(checkup)
    _print_descriptors(checkup.diagnoses)
    for diagnosis in checkup.diagnoses:
        _print_diagnosis(diagnosis, with_objects=with_objects)
    _print_surroundings(checkup)
    _print_store(checkup)


def _state(checkup: Checkup) -> str:
    run = "" if checkup.run is None else f" (run {checkup.run})"
    if checkup.is_running:
        return f"is running, led by process {checkup.leader}{run}"
    if checkup.leader is None:
        return "was not begun"
    return f"has lost its leader{run}" if checkup.stragglers else f"is not running{run}"


def _print_processes(checkup: Checkup) -> None:
    if not checkup.processes:
        return
    _section("processes")
    rows = [("", "pid", "cpu", "memory", "descriptors", "state", "answered")]
    for seen in checkup.processes:
        held = "?" if seen.descriptors is None else f"{seen.descriptors:,}"
        limit = f" of {seen.descriptor_limit:,}" if seen.descriptor_limit else ""
        rows.append(
            (
                seen.name or "?",
                str(seen.pid),
                f"{seen.cpu:.0%}",
                size(seen.memory_bytes),
                f"{held}{limit}",
                seen.state,
                "yes" if seen.has_answered else "no",
            )
        )
    _table(rows)


def _print_descriptors(diagnoses: Sequence[Diagnosis]) -> None:
    if diagnoses:
        _section("descriptors")
    for diagnosis in diagnoses:
        counts = diagnosis.descriptors.kinds
        in_order = [kind for kind in DESCRIPTOR_KINDS if kind in counts]
        _row(diagnosis.process, ", ".join(f"{counts[kind]:,}{_TIE}{kind}" for kind in in_order))


def _print_diagnosis(diagnosis: Diagnosis, *, with_objects: bool) -> None:
    memory, objects = diagnosis.memory, diagnosis.objects
    _section(diagnosis.process)
    parts = (("resident", "resident_bytes"), ("peak", "resident_peak_bytes"), ("swapped", "swapped_bytes"))
    _row("memory", ", ".join(f"{word} {size(memory[name])}" for word, name in parts if memory.get(name)))
    if "malloc_used_bytes" in memory:
        used, free = memory["malloc_used_bytes"], memory["malloc_free_bytes"]
        tables = f"; tables {size(memory['arrow_bytes'])}" if memory.get("arrow_bytes") else ""
        _row("allocated", f"by libraries {size(used)}, freed and kept {size(free)}{tables}")
    if diagnosis.descriptors.others:
        _row("other descriptors", _counts(diagnosis.descriptors.others))
    states = {
        f"{kind} {state}": count
        for kind, by_state in diagnosis.descriptors.states.items()
        for state, count in by_state.items()
        if state not in {"ESTABLISHED", "LISTEN"}
    }
    if states:
        _row("not established", _counts(states))
    if diagnosis.descriptors.temporary:
        _row("temporary files", ", ".join(diagnosis.descriptors.temporary))
    _row("tasks", _counts(diagnosis.tasks) or "none")
    _row("threads", _counts(diagnosis.threads))
    capped = f"; {objects.looked_at:,} of them were looked into" if objects.is_capped else ""
    _row("objects", f"{objects.tracked:,}{capped}")
    _row("largest", "" if objects.largest else "not known")
    for large in objects.largest if with_objects else objects.largest[:FEW_OBJECTS]:
        _print_object(large, diagnosis)
    if with_objects:
        _print_types(objects)


def _print_object(large: LargeObject, diagnosis: Diagnosis) -> None:
    length = "" if large.length is None else f" of {large.length:,}"
    age = "new"
    if large.was_there:
        grown = f", {'+' if large.grown_bytes > 0 else ''}{large.grown_bytes:,} bytes" if large.grown_bytes else ""
        age = f"there for {duration(diagnosis.at - large.since)}{grown}"
    elif diagnosis.last_at is None:
        age = ""
    _wrapped(
        f"{size(large.bytes)}  {large.type}{length}{f' ({age})' if age else ''}, held by"
        f" {large.held_by or 'what has no name'}",
        first="    ",
        rest="        ",
    )
    if large.excerpt:
        print(f"        {printable(large.excerpt)[: WIDTH - 10]}")


def _print_types(objects: Objects) -> None:
    _row("by type", "")
    rows = [("", "count", "since last", "bytes")]
    for one in objects.types:
        change = "" if one.change is None else f"{one.change:+,}"
        rows.append((one.type[-40:], f"{one.count:,}", change, size(one.bytes)))
    _table(rows, indent=4)


def _print_surroundings(checkup: Checkup) -> None:
    disk, machine = checkup.disk, checkup.machine
    _section("machine")
    _row(
        "disk",
        f"{size(disk.free_bytes)} of {size(disk.total_bytes)} free; pauses below {size(checkup.least_free_bytes)}",
    )
    _row("file system", f"{disk.kind or 'unknown'}, mounted at {disk.mounted_at or '?'}")
    if disk.files_free is not None and disk.files_total:
        _row("files", f"room for {disk.files_free:,} of {disk.files_total:,}")
    swapped = f"; {size(machine.swap_used_bytes)} swapped out" if machine.swap_used_bytes else ""
    _row("memory", f"{size(machine.memory_available_bytes)} of {size(machine.memory_total_bytes)} available{swapped}")
    if machine.memory_limit_bytes is not None and machine.memory_of_limit_bytes is not None:
        _row("memory limit", f"{size(machine.memory_of_limit_bytes)} of {size(machine.memory_limit_bytes)} used")
    load = "" if machine.load is None else f", load {machine.load:.1f}"
    _row("processors", f"{machine.processors}{load}")
    kept = {True: "synchronised, says the system", False: "not synchronised, says the system", None: "not known"}
    _row("clock", kept[machine.is_clock_kept])


def _print_store(checkup: Checkup) -> None:
    store = checkup.store
    _section("store")
    _row("url", store.url)
    if store.error is not None:
        _row("error", store.error)
    if store.ahead_seconds is not None:
        word = "ahead of" if store.ahead_seconds > 0 else "behind"
        _row("time", f"{abs(store.ahead_seconds):.2f} s {word} this machine's clock")
    for finding in store.findings:
        word = "" if finding.verdict is Verdict.GOOD else f" ({finding.verdict})"
        _row(finding.name, f"{finding.value}{word}")


def _section(title: str) -> None:
    print(f"\n{printable(title)}")


def _row(name: str, value: str) -> None:
    # A setting's name may be longer than the column.
    _wrapped(value, first=f"  {name:<17} ", rest=" " * 20)


def _wrapped(text: str, *, first: str = "", rest: str = "") -> None:
    lines = textwrap.wrap(
        printable(text), WIDTH, initial_indent=printable(first), subsequent_indent=rest, break_on_hyphens=False
    )
    print("\n".join(lines).replace(_TIE, " ") or printable(first).rstrip())


def _table(rows: Sequence[Sequence[str]], indent: int = 2) -> None:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            f"{row[0]:<{widths[0]}}",
            *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        print(" " * indent + printable("  ".join(cells)).rstrip())


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,}{_TIE}{word}" for word, count in sorted(counts.items(), key=lambda item: -item[1]))
