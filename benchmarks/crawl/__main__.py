"""`./bench`, or `python -m benchmarks.crawl`: runs what was asked for, round by round, and prints it side by side."""

import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.crawl import floor, gossamer, known, peers, profiles
from benchmarks.crawl.gossamer import Ask
from benchmarks.crawl.machine import described
from benchmarks.crawl.measured import Floor, Measured, least, least_floor
from benchmarks.crawl.options import FLOOR, GOSSAMER, HTTPS, Options, parse, scheme_of
from benchmarks.crawl.ratios import complaints, load, ratios, recorded, save
from benchmarks.crawl.table import known_table, table
from benchmarks.crawl.web import ServedWeb
from benchmarks.frontier.places import Place, place
from gossamer.errors import GossamerError

#: What the other size of a frontier is compared with.
FEW_KNOWN = 10_000


class Bench:
    """The webs that are served, and all that was measured."""

    def __init__(self, options: Options, directory: Path, stack: contextlib.ExitStack) -> None:
        self._options = options
        self._directory = directory
        self._stack = stack
        self._webs: dict[tuple[str, int | None], ServedWeb] = {}
        self.ask = Ask(options.warm_up or 0, options.pages or 0, options.fetchers, options.parsers)
        self.measured: dict[str, list[Measured]] = {}
        self.floors: dict[str, list[Floor]] = {}
        self.stores: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def web(self, scheme: str, pages: int | None = None) -> ServedWeb:
        """Served from the first time that it is asked for."""
        found = self._webs.get((scheme, pages))
        if found is None:
            directory = Path(tempfile.mkdtemp(prefix="web-", dir=self._directory))
            made = ServedWeb(directory, scheme) if pages is None else ServedWeb(directory, scheme, pages)
            found = self._webs[scheme, pages] = self._stack.enter_context(made)
        return found

    @contextlib.contextmanager
    def room(self) -> Iterator[Path]:
        """An empty directory, gone afterwards."""
        directory = Path(tempfile.mkdtemp(prefix="crawl-", dir=self._directory))
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextlib.contextmanager
    def place(self, name: str) -> Iterator[tuple[Path, Place]]:
        """An empty store for a system of Gossamer, and a directory beside it."""
        with self.room() as directory, place(name.removesuffix(HTTPS), directory) as here:
            self.stores[here.kind] = here.version
            yield directory, here

    def run_round(self) -> None:
        """Each system once; the floor of a scheme before its systems."""
        names = self._options.only
        if peers.PYTHON.exists():
            for scheme in dict.fromkeys(map(scheme_of, names)):
                with self.guarded(FLOOR + HTTPS * (scheme == "https")), self.room() as directory:
                    found = floor.measure(directory, self.web(scheme))
                    self.floors.setdefault(scheme, []).append(found)
                    say(f"floor, {scheme}: {found.total:.2f} ms per page")
        for name in names:
            if name.removesuffix(HTTPS) != FLOOR and name not in self.failed:
                with self.guarded(name):
                    began_at = time.monotonic()
                    one = self._measure(name)
                    self.measured.setdefault(name, []).append(one)
                    took = time.monotonic() - began_at
                    say(f"{name}: {one.total:.2f} ms per page, {one.pages_per_second:.0f} pages/s ({took:.0f} s)")

    def _measure(self, name: str) -> Measured:
        web, system = self.web(scheme_of(name)), name.removesuffix(HTTPS)
        if system in GOSSAMER:
            with self.place(name) as (directory, here):
                return gossamer.measure(directory, web, here, self.ask)
        if not peers.PYTHON.exists():
            raise GossamerError("the peers' environment is not there; ./bench makes it")
        pages = min(self.ask.pages, self._options.scrapy_pages) if system == "scrapy" else self.ask.pages
        with self.room() as directory:
            return peers.measure(system, directory, web, warm_up=self.ask.warm_up, pages=pages)

    @contextlib.contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        """One that cannot be measured does not keep the others from it."""
        try:
            yield
        except GossamerError as error:
            self.failed[name] = str(error)
            say(f"{name} could not be measured: {error}")

    def best(self) -> tuple[dict[str, Measured], dict[str, Floor]]:
        return (
            {name: least(rounds) for name, rounds in self.measured.items()},
            {scheme: least_floor(rounds) for scheme, rounds in self.floors.items()},
        )


def say(line: str) -> None:
    """Not on standard output, which has the table."""
    sys.stderr.write(f"bench: {line}\n")
    sys.stderr.flush()


def run_table(bench: Bench, options: Options) -> int:
    try:
        for number in range(1, options.rounds + 1):
            say(f"round {number} of {options.rounds}")
            bench.run_round()
    finally:
        # What was measured is not lost when somebody does not want to wait any longer.
        best, floors = bench.best()
        print("\n".join([*table(best.values(), floors), "", *described(list(bench.stores.values()))]))
        now = ratios({name: one for name, one in best.items() if name.removesuffix(HTTPS) in GOSSAMER}, floors)
        if options.json is not None:
            figures = {
                "machine": described(list(bench.stores.values())),
                "asked": bench.ask._asdict(),
                "measured": msgspec.to_builtins(bench.measured),
                "floors": msgspec.to_builtins(bench.floors),
                "ratios": now,
                "failed": bench.failed,
            }
            options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return (judge(now, options) or int(bool(bench.failed))) if best or floors else 1


def judge(now: dict[str, float], options: Options) -> int:
    """What the ratios come to: 1 if one is too far above what is kept."""
    kept, code = load(), 0
    if options.check:
        wrong = complaints(now, kept)
        code = int(bool(wrong))
        for line in wrong or ["check: ok"]:
            say(line)
    if options.record:
        result, lines = recorded(now, kept, accept_worse=options.accept_worse)
        save(result)
        for line in lines:
            say(line)
    return code


def run_known(bench: Bench, options: Options) -> int:
    """Both sizes in turn, round by round."""
    assert options.known is not None
    for name in options.only:
        found: dict[int, list[Measured]] = {}
        for _ in range(options.rounds):
            for count in (FEW_KNOWN, options.known):
                with bench.place(name) as (directory, here):
                    web = bench.web(scheme_of(name), known.WEB_PAGES)
                    one = known.measure(directory, web, here, bench.ask, count)
                    found.setdefault(count, []).append(one)
                    say(f"{name} with {count:,} known: {one.total:.2f} ms per page")
        print("\n".join(known_table([least(rounds) for rounds in found.values()])))
    return 0


def run_profiles(bench: Bench, options: Options) -> int:
    assert options.profile is not None
    if not profiles.PY_SPY.exists():
        raise GossamerError("py-spy is in the peers' environment, which is not there; ./bench makes it")
    for name in options.only:
        with bench.place(name) as (directory, here):
            for file in profiles.profile(options.profile, directory, bench.web(scheme_of(name)), here, bench.ask):
                print(file)
    return 0


def main() -> int:
    options = parse(sys.argv[1:])
    if not Path("/proc/self/smaps_rollup").exists():
        raise GossamerError("the processes are measured by what Linux tells of them in /proc, and there is none here")
    # The private servers put themselves there too.
    tempfile.tempdir = options.directory
    if not peers.PYTHON.exists():
        say(f"there is no {peers.PYTHON}: no floor, no ratios and no peers; ./bench makes it")
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-bench-")))
        bench = Bench(options, directory, stack)
        if options.known is not None:
            return run_known(bench, options)
        if options.profile is not None:
            return run_profiles(bench, options)
        return run_table(bench, options)


if __name__ == "__main__":
    # As an interrupt: whoever ends us must not leave a crawl behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except GossamerError as error:
        say(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
