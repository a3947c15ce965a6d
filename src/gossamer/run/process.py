"""What a started process does: reads its orders, is a fetcher or a parser, reports, and leaves when it is told.

Run as `python -m gossamer.run.process`; see `orders.py` for what goes in and out.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol

import msgspec
import uvloop

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.report.dashboard.addresses import read_addresses
from gossamer.report.logs import LogFile
from gossamer.report.resources import (
    give_large_blocks_back,
    keep_freed_blocks,
    limit_memory,
    raise_descriptor_limit,
)
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import HELD_SIGNALS, REPORT_SECONDS, Command, Orders, Report
from gossamer.run.titles import set_title
from gossamer.run.wiring import Workshop

log = logging.getLogger("gossamer.run")

#: After the leader's death: long enough to put back what is in flight, shorter than a resume waits for us.
LEAVE_SECONDS = 8.0
#: Of a parser. A usual page takes it to 50 MB, the costliest that is known to 200 (see taming.py), and what is read
#: ahead of the sinks comes on top. A page that wants more kills its parser, and is then read apart as any poison page.
PARSER_MEMORY_BYTES = 448 << 20
#: Reports with one that has sites and pages in it: those are looked at every five seconds.
BY_NAME_EVERY = 8


class Work(Protocol):
    """What a fetcher and a parser have in common."""

    async def run(self) -> None: ...
    def obey(self, command: Command) -> None: ...
    def report(self, *, by_name: bool) -> Report: ...
    def connections(self) -> dict[int, str]: ...


async def serve(orders: Orders) -> None:
    """Everything between the orders and the exit."""
    data = DataDirectory(Path(orders.data))
    logs = LogFile(data.log, orders.name, orders.settings.run.log_level, orders.settings.run.log_bytes)
    logs.open()
    try:
        async with Workshop(data, orders.settings, orders.name, at_once=orders.kind == "parser") as workshop:
            # Not above: neither has room for what the other imports.
            work: Work
            if orders.kind == "fetcher":
                work = import_module("gossamer.run.fetching").fetcher_work(workshop, orders)
            else:
                work = import_module("gossamer.run.parsing").parser_work(workshop, orders)
            await _serve(work, logs, partial(diagnose, data, orders.name, workshop, work))
    except GossamerError as error:
        log.error("%s", error)  # noqa: TRY400 (the leader says it to the person)
        raise
    except OSError:
        # A disk or a machine that fails; whoever looks for the reason of this end looks here first.
        log.exception("the %s cannot go on", orders.kind)
        raise
    finally:
        logs.close()


async def _serve(work: Work, logs: LogFile, diagnose: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    leave = Command(do="drain")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.obey, leave)
    loop.add_signal_handler(signal.SIGHUP, logs.reopen)
    loop.add_signal_handler(signal.SIGUSR1, diagnose)
    # Those that came while there was nobody to answer are answered now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_SIGNALS)
    commands = loop.create_task(_hear(work))
    reports = loop.create_task(_report_on(work))
    try:
        await work.run()
    finally:
        # The loop's answers end with it; a signal that comes then must not end us otherwise.
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_SIGNALS)
        for task in (commands, reports):
            task.cancel()
        _say(work.report(by_name=True))


async def _hear(work: Work) -> None:
    """Obeys until the leader is gone, then leaves as soon as it can, and after some seconds in any case."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        work.obey(msgspec.json.decode(line, type=Command))
    log.warning("the leader is gone")
    loop.call_later(LEAVE_SECONDS, os._exit, 1)
    work.obey(Command(do="drain"))


async def _report_on(work: Work) -> None:
    os.set_blocking(sys.stdout.fileno(), False)
    turn = 0
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        turn += 1
        _say(work.report(by_name=turn % BY_NAME_EVERY == 0))


def _say(report: Report) -> None:
    # A leader that does not listen misses a report; it must not hold us up.
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(report) + b"\n")


def diagnose(data: DataDirectory, name: str, workshop: Workshop, work: Work, **more: object) -> None:
    """Into the data directory. What it takes is loaded only now, and is in no process that nobody asks."""
    # What was frozen at the start is not looked at otherwise, and holds what has come since.
    gc.unfreeze()
    path = data.diagnosis / f"{name}.json"
    secrets = {workshop.store_url} | ({said.token} if (said := read_addresses(data.root)) else set())
    import_module("gossamer.report.diagnosis").write(
        path,
        process=name,
        data=data.root,
        store_endpoints=workshop.store_endpoints,
        web=work.connections(),
        secrets=secrets,
        extra={"numbers": work.report(by_name=False).numbers, **more},
    )
    log.warning("diagnosed: %s", path)


def main() -> int:
    # Read without a buffer: what follows the first line belongs to the event loop.
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            return 1
        line += byte
    orders = msgspec.json.decode(bytes(line), type=Orders)
    set_title(orders.name, Path(orders.data))
    try:
        if orders.kind == "fetcher":
            raise_descriptor_limit(orders.settings.fetch.fetcher_workers)
            give_large_blocks_back()
        else:
            limit_memory(PARSER_MEMORY_BYTES)
            keep_freed_blocks()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(orders))
    except StoreUnavailable as error:
        return error.exit_code
    except GossamerError as error:
        print(f"{orders.name}: {error}", file=sys.stderr)  # noqa: T201 (the leader's terminal is ours)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
