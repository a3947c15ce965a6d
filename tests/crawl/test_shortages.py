"""The machine runs short of disk or descriptors, or its clock is set. The crawl waits, says so, and goes on."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gossamer.report.resources import SPARE_DESCRIPTORS
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once, crawls_of
from tests.crawl.test_deaths import children, left_of, processes, until
from tests.crawl.test_stopping import until_pages_are_fetched, until_there

#: Of the small disk: what a crawl of the web here needs, several times over. It is memory.
DISK_BYTES = 96 << 20
#: How long it stays full after that was met: longer than the first two waits of whoever met it.
FULL_SECONDS = 4.0
#: So long without a request, and nothing is fetched any more: a busy machine answers late, but not so late.
STILL_SECONDS = 4.0
HOUR = 3600
#: Longer than a stop and a resume take: the second run begins when the sites that the first one asked still rest.
DELAY_SECONDS = 5.0


class Narrow(Crawls):
    """Crawls of the same web, run by a command that takes something from them."""

    def __init__(
        self, wide: Crawls, *, through: Sequence[str] = (), data: Path | None = None, python_path: Path | None = None
    ) -> None:
        super().__init__(wide.data.parent, wide.web, wide.store)
        self.running = wide.running  # so that they are ended with the others
        self.named = self.data
        """What the processes of the crawl call their data directory."""
        self.data = data or self.data
        self._through = through
        self._python_path = python_path

    def finish(self, process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
        """Its summary, and what it said on the way."""
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        said = self.said(process)
        assert process.returncode == 0, f"exit code {process.returncode}\n{output}\n{said}\n{self.logs()}"
        summary: dict[str, Any] = json.loads(output)
        return summary, said

    def said(self, process: subprocess.Popen[str]) -> str:
        """What it has said until now: the log files may be on a disk that has no room for it."""
        return self._errors_file(self.running.index(process)).read_text("utf-8")

    def _errors_file(self, number: int) -> Path:
        return self.named.parent / f"errors-{number}"

    def log_lines(self, process: str = "") -> list[str]:
        """Of all processes, or of one."""
        return [entry["message"] for entry in self.log_entries() if process in {"", entry["process"]}]

    def _gossamer(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        if self._python_path is not None:
            paths = [str(self._python_path), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        inside = [argument.replace(str(self.data), str(self.named)) for argument in arguments]
        with self._errors_file(len(self.running)).open("wb") as errors:
            process = subprocess.Popen(
                [*self._through, sys.executable, "-m", "gossamer", *inside, "--json"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=self.named.parent,
            )
        self.running.append(process)
        return process


class SmallDisk:
    """A file system of few bytes over one directory. Only who runs `through` sees it there; it ends with its object."""

    def __init__(self, directory: Path) -> None:
        mount = f"mount -t tmpfs -o size={DISK_BYTES} small '{directory}' && echo mounted && exec cat"
        self._process = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.is_there = self._process.stdout.readline() == "mounted\n"
        self.through = [
            "nsenter", f"--target={self._process.pid}", "--user", "--mount", "--preserve-credentials", "--"
        ]  # fmt: skip
        self.path = self.seen_from_here(directory)
        self._ballast = self.path / "ballast"

    def seen_from_here(self, path: Path) -> Path:
        return Path(f"/proc/{self._process.pid}/root{path}")

    def fill(self, *, leave_bytes: int = 0) -> None:
        """With one file; again and again, for others may make room meanwhile."""
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while (free := self._free() - leave_bytes) > 0:
                file.write(bytes(min(free, 1 << 20)))

    def keep_full(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.keep_full_until(lambda: time.monotonic() >= end, "the clock stands still")

    def keep_full_until(self, condition: Callable[[], bool], what: str) -> None:
        def is_met() -> bool:
            self.fill()
            return condition()

        until(is_met, what)

    def clear(self) -> None:
        self._ballast.unlink()

    def _free(self) -> int:
        room = os.statvfs(self.path)
        return room.f_bavail * room.f_frsize

    def close(self) -> None:
        self._process.communicate()  # the end of its input is the end of it


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(directory)
    try:
        if not disk.is_there:
            pytest.skip("no file system can be mounted here: unshare --user --mount is refused")
        yield disk
    finally:
        disk.close()


@pytest.fixture
def web(tmp_path: Path, store: str) -> Iterator[Crawls]:
    """Slow enough that there is time to take something away."""
    web = Web(
        sites=20,
        pages=20,
        links_per_page=30,
        median_bytes=8_000,
        https_share=0.3,
        latency_median_seconds=0.1,
        crawl_delay_seconds=0.2,
    )
    with crawls_of(web, tmp_path, store) as crawls:
        yield crawls


def judge_whole(crawls: Crawls, summary: dict[str, Any], earlier: Sequence[dict[str, Any]] = (), **rules: Any) -> None:
    assert summary["stop_reason"] == "exhausted"
    assert not {"connect", "timeout", "our-shortage", "returned"} & summary["failures"].keys()
    judged = crawls.judge(**rules)
    assert judged.is_clean, judged.verdict
    assert_each_once([*earlier, *crawls.pages()], crawls.expected_pages())


class Stillness:
    """True when asked after some time in which no request has come. The crawl must go on all that time."""

    def __init__(self, crawls: Crawls, running: subprocess.Popen[str]) -> None:
        self._crawls = crawls
        self._running = running
        self._requests = -1
        self._since = 0.0

    def __call__(self) -> bool:
        assert self._running.poll() is None, "the crawl ended before"
        requests = len(self._crawls.requests())
        if requests != self._requests:
            self._requests, self._since = requests, time.monotonic()
        return time.monotonic() - self._since >= STILL_SECONDS


def until_all_work(crawls: Crawls, running: subprocess.Popen[str], *, parsers: int) -> None:
    """Two fetchers, and so many parsers. One that is still loading its modules when something is taken away would end,
    and be started again. A parser that works has a folder."""
    until_there(crawls.data / "spool" / "claimed", {f"parser-{number}" for number in range(parsers)}, running)
    until_there(crawls.data / "spool" / "serials", {"000", "001"}, running)


#: So that it is known who is to be waited for.
TWO_FETCHERS = ("--num-fetcher-processes=2", "--num-parser-processes=1")
TWO_OF_EACH = ("--num-fetcher-processes=2", "--num-parser-processes=2")

# The disk.


@pytest.mark.parametrize("what", ["spool", "pages"])
def test_a_full_disk_under_spool_or_pages_is_waited_for(web: Crawls, what: str) -> None:
    web.crawl("--max-pages=10")
    earlier = web.pages() if what == "pages" else []
    before = len(web.requests())
    with small_disk(web.data / what) as disk:
        crawls = Narrow(web, through=disk.through, data=disk.seen_from_here(web.data))
        # Pages are written when they are committed: soon enough that there is more to do afterwards.
        running = crawls.start_again("--max-pages=0", "--min-free=0", *TWO_FETCHERS, "--commit-pages=20")
        until_pages_are_fetched(crawls, before + 60, running)
        until_all_work(crawls, running, parsers=1)
        disk.keep_full_until(
            lambda: any("No space left" in line for line in crawls.log_lines()), "nobody has met the full disk"
        )
        disk.keep_full_until(lambda: "short of disk" in crawls.said(running), "the leader does not hear of it")
        disk.keep_full(FULL_SECONDS)
        assert running.poll() is None
        disk.clear()
        summary, said = crawls.finish(running)
        assert summary["restarts"] == 0
        assert summary["waits"]["shortage_pauses" if what == "spool" else "disk_waits"] > 0
        assert "the shortage is over" in said
        judge_whole(crawls, summary, earlier)


@pytest.mark.embedded("it is about the disk of frontier.db; that a server has no room is for the stores' own tests")
def test_a_full_disk_under_the_store_is_waited_for(web: Crawls, tmp_path: Path) -> None:
    web.crawl("--max-pages=10")
    before = len(web.requests())
    small = tmp_path / "small"
    small.mkdir()
    with small_disk(small) as disk:
        (disk.path / "frontier.db").write_bytes((web.data / "frontier.db").read_bytes())
        (web.data / "frontier.db").unlink()
        (web.data / "frontier.db").symlink_to(small / "frontier.db")
        crawls = Narrow(web, through=disk.through)
        running = crawls.start_again("--max-pages=0", "--min-free=0", *TWO_FETCHERS)
        until_pages_are_fetched(crawls, before + 60, running)
        until_all_work(crawls, running, parsers=1)
        disk.keep_full_until(
            lambda: any("waiting for room" in line for line in crawls.log_lines()), "nobody has met the full disk"
        )
        disk.keep_full_until(lambda: "short of disk" in crawls.said(running), "the leader does not hear of it")
        disk.keep_full(FULL_SECONDS)
        assert running.poll() is None
        disk.clear()
        summary, _ = crawls.finish(running)
        assert summary["restarts"] == 0
        judge_whole(crawls, summary)


@pytest.mark.parametrize("min_free", ["0", "16MiB"])
def test_a_disk_that_is_full_of_everything_is_waited_for(web: Crawls, min_free: str) -> None:
    web.data.mkdir()
    with small_disk(web.data) as disk:
        crawls = Narrow(web, through=disk.through, data=disk.path)
        running = crawls.start(f"--min-free={min_free}", *TWO_OF_EACH)
        until_pages_are_fetched(crawls, 100, running)
        until_all_work(crawls, running, parsers=2)
        words = "nearly full" if min_free != "0" else "short of disk"
        disk.keep_full_until(lambda: words in crawls.said(running), "nobody has met the full disk")
        disk.keep_full_until(Stillness(crawls, running), "it is fetched on")
        disk.clear()
        summary, _ = crawls.finish(running)
        assert summary["restarts"] == 0
        judge_whole(crawls, summary)


@pytest.mark.long
def test_an_interrupt_on_a_full_disk_ends_the_run_and_a_resume_with_room_loses_nothing(web: Crawls) -> None:
    web.data.mkdir()
    with small_disk(web.data) as disk:
        crawls = Narrow(web, through=disk.through, data=disk.path)
        running = crawls.start("--min-free=0", *TWO_OF_EACH)
        until_pages_are_fetched(crawls, 100, running)
        until_all_work(crawls, running, parsers=2)
        disk.keep_full_until(lambda: "short of disk" in crawls.said(running), "nobody has met the full disk")
        running.terminate()
        disk.keep_full_until(lambda: running.poll() is not None, "it does not end")
        running.communicate(timeout=PATIENCE_SECONDS)
        errors = crawls.said(running)
        assert running.returncode in {1, 130}, errors
        assert "Traceback" not in errors
        disk.fill()
        refused = crawls.start_again()
        refused.communicate(timeout=PATIENCE_SECONDS)
        errors = crawls.said(refused)
        assert refused.returncode == 1, errors
        assert errors.count("\n") == 1
        assert "No space left" in errors
        disk.clear()
        summary, _ = crawls.finish(crawls.start_again())
        # Told by the server's log: what was in memory when it ended is asked for again.
        judge_whole(crawls, summary, repeats=100, restarts=1)


# Descriptors.


def test_a_crawl_within_the_fewest_descriptors_that_it_accepts_is_whole(web: Crawls) -> None:
    workers = 20
    limit = f"ulimit -n {workers + SPARE_DESCRIPTORS}"
    crawls = Narrow(web, through=["sh", "-c", f'{limit} && exec "$@"', "sh"])
    summary, _ = crawls.finish(crawls.start(f"--fetcher-workers={workers}", "--num-fetcher-processes=2"))
    assert summary["waits"]["shortage_pauses"] == 0
    judge_whole(crawls, summary)


def held_by(pid: int) -> set[int]:
    """Without those that it has for a moment only, to list a directory or to look at itself."""
    held = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = str(entry.readlink())
        if not target.startswith("/proc/") and not target.endswith("/spool/ready"):
            held.add(int(entry.name))
    return held


def test_a_parser_whose_descriptors_run_out_says_so_waits_and_goes_on(web: Crawls) -> None:
    """It alone, and before its first page; that it waits wherever it needs one is for the parser's own tests."""
    crawls = Narrow(web)
    send(web.web.pids, signal.SIGSTOP)
    try:
        running = crawls.start("--num-fetcher-processes=1", "--num-parser-processes=1", "--commit-pages=20")
        until_there(crawls.data / "spool" / "claimed", {"parser-0"}, running)
        (parser,) = children(crawls, "parser")
        os.kill(parser, signal.SIGSTOP)
        soft, hard = resource.prlimit(parser, resource.RLIMIT_NOFILE)
        held = held_by(parser)
        first_free = next(number for number in count() if number not in held)
        resource.prlimit(parser, resource.RLIMIT_NOFILE, (first_free, hard))
        os.kill(parser, signal.SIGCONT)
    finally:
        send(web.web.pids, signal.SIGCONT)
    until(lambda: any("Too many open files" in line for line in crawls.log_lines("parser-0")), "it has not met it")
    until(lambda: "short of disk, descriptors or memory" in crawls.said(running), "the leader does not say it")
    assert parser in left_of(processes(crawls)), crawls.said(running)
    resource.prlimit(parser, resource.RLIMIT_NOFILE, (soft, hard))
    summary, said = crawls.finish(running)
    assert "the shortage is over" in said
    assert (summary["restarts"], summary["waits"]["disk_waits"] > 0) == (0, True)
    judge_whole(crawls, summary)


def send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def test_when_descriptors_run_out_leasing_pauses_and_no_site_is_charged(web: Crawls) -> None:
    crawls = Narrow(web)
    running = crawls.start(*TWO_OF_EACH)
    until_pages_are_fetched(crawls, 60, running)
    until_all_work(crawls, running, parsers=2)
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in processes(crawls).started}
    for pid, (_, hard) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    for fetcher in ("leader", "fetcher-1"):
        until(
            lambda fetcher=fetcher: any("short of resources" in line for line in crawls.log_lines(fetcher)),
            f"{fetcher} has not met it",
        )
    for parser in ("parser-0", "parser-1"):
        until(
            lambda parser=parser: any("Too many open files" in line for line in crawls.log_lines(parser)),
            f"{parser} has not met it",
        )
    until(lambda: "short of disk, descriptors or memory" in crawls.said(running), "the leader does not say it")
    until(Stillness(crawls, running), "it is fetched on")
    assert set(left_of(processes(crawls))) == limits.keys(), crawls.said(running)  # nobody has died of it
    for pid, both in limits.items():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, both)
    summary, _ = crawls.finish(running)
    assert summary["restarts"] == 0
    assert summary["waits"]["shortage_pauses"] > 0
    judge_whole(crawls, summary)


#: Every encoding of the standard, whose decoders a library brings, and those that Python has.
DECODING = """
import resource, sys
import gossamer.run.parsing
from gossamer.parse.charset import decode_text
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for label in sys.argv[1:]:
    decode_text(b"A page", f"text/html; charset={label}")
"""
LABELS = (
    *("utf-8", "utf-16le", "utf-16be", "ibm866", "koi8-r", "koi8-u", "macintosh", "x-mac-cyrillic", "windows-874"),
    *("gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr", "replacement", "x-user-defined"),
    *(f"windows-{number}" for number in range(1250, 1259)),
    *(f"iso-8859-{number}" for number in (*range(2, 9), 10, 13, 14, 15, 16)),
)


def test_a_parser_without_a_descriptor_reads_a_page_in_any_encoding() -> None:
    done = subprocess.run([sys.executable, "-c", DECODING, *LABELS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The clock.

#: For every Python process that finds it: the wall clock is off by as many seconds as a file says.
SHIFTED = """
import time
_real = time.time
def _shifted():
    with open({file!r}) as file:
        return _real() + int(file.read() or 0)
time.time = _shifted
time.time_ns = lambda: int(_shifted() * 1e9)
"""


class WallClock:
    """A wall clock that can be set, for crawls that run with `python_path`."""

    def __init__(self, directory: Path) -> None:
        self.python_path = directory / "clock"
        self.python_path.mkdir()
        self._file = directory / "shift"
        self.step(0)
        (self.python_path / "sitecustomize.py").write_text(SHIFTED.format(file=str(self._file)))

    def step(self, seconds: int) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_text(str(seconds))
        temporary.replace(self._file)


@pytest.fixture
def few_sites(tmp_path: Path, store: str) -> Iterator[Crawls]:
    """Few pages on each, for a delay is waited for between them."""
    with crawls_of(Web(sites=20, pages=3, links_per_page=20, median_bytes=4_000), tmp_path, store) as crawls:
        yield crawls


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_while_a_crawl_runs_moves_no_gap(
    few_sites: Crawls, tmp_path: Path, seconds: int
) -> None:
    clock = WallClock(tmp_path)
    crawls = Narrow(few_sites, python_path=clock.python_path)
    # Of the three pages of a site the last comes four seconds after the first.
    running = crawls.start("--num-fetcher-processes=2", delay=2)
    until_pages_are_fetched(crawls, 30, running)
    clock.step(seconds)
    summary, _ = crawls.finish(running)
    judge_whole(crawls, summary, delay=2)
    # It was the clock that the crawl had.
    times = [page["fetch_time"] for page in crawls.pages()]
    assert (max(times) - min(times)).total_seconds() > HOUR / 2


@pytest.mark.long
@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_between_two_runs_moves_no_gap(
    few_sites: Crawls, tmp_path: Path, seconds: int
) -> None:
    clock = WallClock(tmp_path)
    crawls = Narrow(few_sites, python_path=clock.python_path)
    running = crawls.start("--num-fetcher-processes=2", delay=DELAY_SECONDS)
    until_pages_are_fetched(crawls, 40, running)
    crawls.interrupt(running)
    clock.step(seconds)
    summary, _ = crawls.finish(crawls.start_again())
    judge_whole(crawls, summary, delay=DELAY_SECONDS, repeats=30)
    times = [page["fetch_time"] for page in crawls.pages()]
    assert (max(times) - min(times)).total_seconds() > HOUR / 2
