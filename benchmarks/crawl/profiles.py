"""Flame graphs of each kind of process of a crawl by Gossamer, as pictures and as folded stacks.

A profile slows down whom it looks at, so nothing is measured meanwhile. py-spy writes one form at a time: there is a
crawl for each.
"""

import contextlib
import subprocess
from pathlib import Path

from benchmarks.crawl.gossamer import Ask, crawl_command, running, store_of
from benchmarks.crawl.peers import PYTHON
from benchmarks.crawl.web import ServedWeb
from benchmarks.frontier.places import Place
from gossamer.errors import GossamerError

PY_SPY = PYTHON.with_name("py-spy")
#: The form, and how the file's name ends.
FORMS = (("flamegraph", "svg"), ("raw", "folded"))
#: More often than this slows the process down by more than some percent.
SAMPLES_PER_SECOND = 100
#: It ends by itself with the process that it looks at.
END_SECONDS = 60.0


def profile(target: Path, directory: Path, web: ServedWeb, place: Place, ask: Ask) -> list[Path]:
    """The files that were written into `target`."""
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for form, ending in FORMS:
        data = directory / f"crawl-{form}"
        words = ["crawl", "--data-dir", str(data), "--seed-file", str(web.seeds)]
        # Entered first, left last: when the crawl is over, each of them still has its file to write.
        with (
            contextlib.ExitStack() as looking,
            running(data, [*words, *crawl_command(web, ask, store_of(place))], place) as crawl,
        ):
            crawl.until_parsed(ask.warm_up)
            for kind, pids in crawl.pids_by_kind().items():
                for number, pid in enumerate(pids):
                    file = target / f"{place.kind}-{web.scheme}-{kind}-{number}.{ending}"
                    looking.callback(_finish, _look(pid, form, file), file)
                    written.append(file)
            crawl.until_ended()
    return written


def _look(pid: int, form: str, file: Path) -> "subprocess.Popen[bytes]":
    file.unlink(missing_ok=True)
    command = [PY_SPY, "record", "--native", "--rate", str(SAMPLES_PER_SECOND), "--format", form, "--output", file]
    return subprocess.Popen(
        [*map(str, command), "--pid", str(pid), "--duration", "unlimited"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _finish(process: "subprocess.Popen[bytes]", file: Path) -> None:
    try:
        _, words = process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, words = process.communicate()
    if not file.exists():
        raise GossamerError(f"py-spy wrote no {file}: {words.decode(errors='replace').strip()[-1_000:]}")
