"""Pages read where they can kill nothing else: with the real processes."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import setproctitle
import uvloop

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.parse import guarded
from gossamer.parse.guarded import GuardedReader
from gossamer.parse.record import read_answer
from gossamer.records import Answer
from gossamer.report.resources import own_usage, started
from gossamer.spool.suspects import Suspects
from tests.contract.test_parser import POISON, Crawl, crawl, model_store, noted_page, page, sqlite_store, until

PATIENCE_SECONDS = 60.0


def answer(body: bytes, url: str = "http://a.test/") -> Answer:
    return Answer(url, 1.5e9, b"", b"HTTP/1.1 200 OK", 200, ((b"Content-Type", b"text/html"),), body)


FINE = answer(b"<title>Fine</title><p>Text <a href=/x>x</a>")
DEADLY = answer(POISON)


def play(story: Coroutine[Any, Any, None]) -> None:
    """As in a parser process."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story)


def forking(reader: GuardedReader) -> int:
    assert reader._process is not None
    return reader._process.pid


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def state(pid: int) -> str:
    """As the system names it: S is asleep."""
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]


def names(pid: int) -> tuple[str, str]:
    """As `ps` and `top` show them."""
    shown = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
    return shown, Path(f"/proc/{pid}/comm").read_text("ascii").strip()


def until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(started(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.01)


def test_a_page_is_read_as_the_parser_itself_reads_it() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        assert await reader.read(FINE) == read_answer(FINE, Settings())
        await reader.close()

    play(story())


def test_reader_and_the_process_that_forks_it_are_named_after_their_parser() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        await reader.read(FINE)
        parent = forking(reader)
        for pid in (parent, *children(parent)):
            assert names(pid) == ("gossamer: parser-1 mycrawl (reader)", "gossamer:reader")
        await reader.close()

    before = setproctitle.getproctitle()
    setproctitle.setproctitle("gossamer: parser-1 mycrawl")
    try:
        play(story())
    finally:
        setproctitle.setproctitle(before)


def test_after_a_deadly_page_the_next_one_is_read_by_a_new_reader_of_the_same_process() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        assert await reader.read(FINE) is not None
        pid, (first,) = forking(reader), children(forking(reader))
        for _ in range(3):
            assert await reader.read(DEADLY) is None
            assert await reader.read(FINE) == read_answer(FINE, Settings())
        assert forking(reader) == pid
        (last,) = children(pid)
        assert last != first
        await reader.close()
        until_gone([pid, last])

    play(story())


def test_a_reader_that_is_killed_between_two_pages_costs_none_of_them_and_mixes_none_up() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        assert await reader.read(FINE) is not None
        pid, (first,) = forking(reader), children(forking(reader))
        async with asyncio.timeout(PATIENCE_SECONDS):
            # It waits for the next page.
            while state(first) != "S":  # noqa: ASYNC110 (nothing tells)
                await asyncio.sleep(0.01)
            os.kill(first, signal.SIGKILL)
            while children(pid) in ([], [first]):  # noqa: ASYNC110 (nothing tells)
                await asyncio.sleep(0.01)
        for name in "abc":
            found = answer(f"<title>{name}</title>".encode(), f"http://{name}.test/")
            assert await reader.read(found) == read_answer(found, Settings())
        assert forking(reader) == pid
        await reader.close()

    play(story())


def test_an_error_that_a_person_must_mend_is_raised_here_as_well() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        with pytest.raises(GossamerError, match="resume with the settings"):
            await reader.read(answer(b"<p>x", url="no URL"))
        assert await reader.read(FINE) is not None
        await reader.close()

    play(story())


def test_a_page_that_takes_too_long_is_given_up_and_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        await reader.read(FINE)
        pids = [forking(reader), *children(forking(reader))]
        os.kill(pids[1], signal.SIGSTOP)
        monkeypatch.setattr(guarded, "WALL_SECONDS", 0.1)
        assert await reader.read(FINE) is None
        until_gone(pids)
        monkeypatch.undo()
        assert await reader.read(FINE) is not None
        await reader.close()

    play(story())


def test_a_reader_uses_no_more_cpu_on_one_page_than_it_may() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        await reader.read(FINE)
        (pid,) = children(forking(reader))
        soft, _ = resource.prlimit(pid, resource.RLIMIT_CPU)
        assert 20 < soft < 30
        assert resource.prlimit(pid, resource.RLIMIT_AS)[0] == 1 << 30
        assert resource.prlimit(pid, resource.RLIMIT_CORE)[0] == 0
        await reader.close()

    play(story())


def test_cancelled_in_a_page_it_leaves_nothing_running() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        await reader.read(FINE)
        pids = [forking(reader), *children(forking(reader))]
        os.kill(pids[1], signal.SIGSTOP)
        reading = asyncio.create_task(reader.read(FINE))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        until_gone(pids)

    play(story())


def test_without_descriptors_it_says_so_and_blames_no_page() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (own_usage().descriptors, hard))
        try:
            with pytest.raises(OSError) as raised:  # noqa: PT011 (its number is what matters)
                await reader.read(FINE)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert raised.value.errno in {errno.EMFILE, errno.EAGAIN}
        assert await reader.read(FINE) is not None
        await reader.close()

    play(story())


def test_when_the_process_that_forks_is_killed_no_page_is_blamed() -> None:
    async def story() -> None:
        reader = GuardedReader(Settings())
        await reader.read(FINE)
        pids = [forking(reader), *children(forking(reader))]
        os.kill(pids[0], signal.SIGKILL)
        until_gone(pids)
        with pytest.raises(OSError, match="has ended") as raised:
            await reader.read(FINE)
        assert raised.value.errno == errno.EAGAIN
        assert await reader.read(FINE) is not None
        await reader.close()

    play(story())


PARENT = """
import asyncio, sys
from gossamer.config import Settings
from gossamer.parse.guarded import GuardedReader
from tests.contract.test_guarded_reader import FINE, children, forking

async def main() -> None:
    reader = GuardedReader(Settings())
    await reader.read(FINE)
    print(forking(reader), *children(forking(reader)), flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def test_it_leaves_when_its_parser_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    until_gone(pids)


# In a parser.


def test_a_guarded_parser_survives_deadly_pages_and_keeps_what_it_found(tmp_path: Path) -> None:
    bodies = {f"http://s{number}.test/": POISON if number % 2 else b"<p>fine" for number in range(6)}

    async def story(crawl: Crawl) -> None:
        await crawl.admit(*bodies)
        segment = await crawl.fetch(lambda lease: page(lease, bodies[lease.url]))
        async with crawl.parser() as parser:
            parser.guard(600)
            running = asyncio.create_task(parser.run())
            await until(lambda: parser.statistics().pages > 0)
            # Before the commit, as if it were killed: what it found is not lost with it.
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        kept = Suspects(crawl.spool.root)
        kept.refresh()
        assert [kept.is_crash(segment, index) for index in range(6)] == [False, True] * 3
        for path in crawl.spool.claimed.glob("*/*.seg"):
            crawl.spool.publish(path)
        # Another one, after a restart and on no guard, does not read them: they would kill this test.
        await crawl.parse()
        assert await crawl.outcomes() == {"page": 3, "parse-crash": 3}
        assert [row["url"] for row in crawl.pages()] == ["http://s0.test/", "http://s2.test/", "http://s4.test/"]

    crawl(tmp_path, sqlite_store, story)


def test_a_parser_that_must_leave_does_not_wait_for_the_page_in_its_reader(tmp_path: Path) -> None:
    async def story(crawl: Crawl) -> None:
        await crawl.admit(*(f"http://s{number}.test/" for number in range(3)))
        segment = await crawl.fetch(page)
        async with crawl.parser() as parser:
            parser.guard(600)
            reader = parser._page_reader._guarded
            await reader.read(FINE)
            pids = [forking(reader), *children(forking(reader))]
            os.kill(pids[1], signal.SIGSTOP)
            running = asyncio.create_task(parser.run())
            await until(lambda: noted_page(crawl) == (segment, 0))
            parser.drain(empty_spool=False)
            await running
        until_gone(pids)
        assert (await crawl.finished(), crawl.pages()) == (0, [])
        assert [path.name.partition(".")[0] for path in crawl.spool.ready.iterdir()] == [segment]

    crawl(tmp_path, model_store, story)
