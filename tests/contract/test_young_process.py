"""A process of a crawl before it can answer anything."""

import errno
import os
import signal
from pathlib import Path

import pytest
import uvloop

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.run import process
from gossamer.run.orders import HELD_SIGNALS, Orders
from gossamer.run.supervisor import Child


def blocked(pid: int) -> int:
    """The signals that it holds back, as the system has them."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("SigBlk:")).split()[1], 16)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system tells no process's signals")
def test_signals_are_held_back_from_a_process_from_its_first_moment_and_not_from_whoever_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(
        kind="parser", index=0, name="parser-0", owner="nobody", run=1, data=str(tmp_path), settings=Settings()
    )

    # It waits for its orders, and gets none: until then it can answer nothing.
    monkeypatch.setattr(Child, "_say", lambda _child, _line: None)

    async def blocked_at_its_start() -> int:
        lock = os.open(tmp_path, os.O_RDONLY)
        child = await Child.start(orders, lock)
        try:
            return blocked(child.pid)
        finally:
            child.kill()
            await child.listen()
            os.close(lock)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert before.isdisjoint(HELD_SIGNALS)
    young = uvloop.run(blocked_at_its_start())
    assert all(young >> (number - 1) & 1 for number in HELD_SIGNALS)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), GossamerError("cannot go on")])
def test_a_process_that_ends_by_an_error_says_so_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(process, "Workshop", fails)
    orders = Orders(
        kind="parser", index=0, name="parser-0", owner="nobody", run=1, data=str(tmp_path), settings=Settings()
    )
    with pytest.raises(type(error)):
        uvloop.run(process.serve(orders))
    (line,) = (tmp_path / "log" / "parser-0.log").read_text("utf-8").splitlines()
    assert str(error) in line
