"""What a started process does: reads its orders, is a fetcher or a parser, reports, and leaves when it is told.

Run as `python -m gossamer.run.process`; see `orders.py` for what goes in and out.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Protocol

import msgspec

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.store import Store
from gossamer.report.logs import LogFile
from gossamer.report.resources import (
    descriptor_kinds,
    give_large_blocks_back,
    limit_memory,
    own_usage,
    raise_descriptor_limit,
)
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import REPORT_SECONDS, Command, Numbers, Orders, Report
from gossamer.run.stores import store_numbers
from gossamer.run.wiring import Workshop

log = logging.getLogger("gossamer.run")

#: After the leader's death: long enough to put back what is in flight, shorter than a resume waits for us.
LEAVE_SECONDS = 8.0
#: Of a parser. A usual page takes it to 50 MB, the costliest that is known to 200 (see taming.py), and what is read
#: ahead of the sinks comes on top. A page that wants more kills its parser, and is then read apart as any poison page.
PARSER_MEMORY_BYTES = 448 << 20


class Work(Protocol):
    """What a fetcher and a parser have in common."""

    async def run(self) -> None: ...
    def obey(self, command: Command) -> None: ...
    def numbers(self) -> Numbers: ...


async def serve(orders: Orders) -> None:
    """Everything between the orders and the exit."""
    data = DataDirectory(Path(orders.data))
    logs = LogFile(data.log, orders.name, orders.settings.run.log_level)
    logs.open()
    try:
        async with Workshop(data, orders.settings) as workshop:
            work: Work = workshop.fetcher(orders) if orders.kind == "fetcher" else workshop.parser(orders)
            await _serve(work, workshop.store, logs)
    except StoreUnavailable as error:
        log.error("%s", error)  # noqa: TRY400 (the leader says it to the person)
        raise
    finally:
        logs.close()


async def _serve(work: Work, store: Store, logs: LogFile) -> None:
    loop = asyncio.get_running_loop()
    leave = Command(do="drain")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.obey, leave)
    answer_signals(loop, logs, store)
    commands = loop.create_task(_hear(work))
    reports = loop.create_task(_report_on(work))
    try:
        await work.run()
    finally:
        for task in (commands, reports):
            task.cancel()
        _say(Report(usage=own_usage(), numbers=work.numbers()))


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
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        _say(Report(usage=own_usage(), numbers=work.numbers()))


def _say(report: Report) -> None:
    # A leader that does not listen misses a report; it must not hold us up.
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(report) + b"\n")


def answer_signals(loop: asyncio.AbstractEventLoop, logs: LogFile, store: Store) -> None:
    """SIGHUP reopens the log, SIGUSR1 writes what the process uses into it; in the leader as in all others."""
    loop.add_signal_handler(signal.SIGHUP, logs.reopen)
    loop.add_signal_handler(signal.SIGUSR1, _log_usage, store)


def _log_usage(store: Store) -> None:
    usage = own_usage()
    log.warning(
        "uses %.1f CPU seconds, %d bytes of memory, %d descriptors: %s; store: %s",
        usage.cpu_seconds,
        usage.memory_bytes,
        usage.descriptors,
        descriptor_kinds(),
        store_numbers(store),
    )


def main() -> int:
    # Read without a buffer: what follows the first line belongs to the event loop.
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            return 1
        line += byte
    orders = msgspec.json.decode(bytes(line), type=Orders)
    try:
        if orders.kind == "fetcher":
            raise_descriptor_limit(orders.settings.fetch.fetcher_workers)
            give_large_blocks_back()
        else:
            limit_memory(PARSER_MEMORY_BYTES)
        asyncio.run(serve(orders))
    except StoreUnavailable as error:
        return error.exit_code
    except GossamerError as error:
        print(f"{orders.name}: {error}", file=sys.stderr)  # noqa: T201 (the leader's terminal is ours)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
