"""Pages read by another process, so that one that kills its reader does not kill the parser; see isolated.py for that.

That costs some tenths of a millisecond more per page. So parsers read this way only for a while after one of them has
died on a page, and always the pages that are known to be dangerous.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

import msgspec

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.parse.isolated import REPLY_HEAD, REQUEST_HEAD, Reply
from gossamer.parse.record import Reading
from gossamer.records import Answer

#: For a reader that sleeps, or a machine that is very busy.
WALL_SECONDS = 60.0
#: To load the libraries, which takes half a second.
START_SECONDS = 60.0


class GuardedReader:
    """A parser's own; it takes one page at a time. The process is started with the first page, and stays.

    Whatever goes wrong while a page is read, cancellation included, leaves nothing running that still has that page.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: Process | None = None

    async def read(self, answer: Answer) -> Reading | None:
        """What `read_answer` makes of the page; None if whoever read it died, or took too long.

        Raises OSError where there is no room for another process.
        """
        process = self._process or await self._start()
        try:
            async with asyncio.timeout(WALL_SECONDS):
                reply, content = await _ask(process, msgspec.msgpack.encode(answer))
            reading = msgspec.msgpack.decode(content, type=Reading) if reply is Reply.READ else None
        except (TimeoutError, ValueError, msgspec.MsgspecError):
            # Or it died in the middle of its answer.
            await self.close()
            return None
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
            await self.close()
            raise OSError(errno.EAGAIN, "the process that reads pages has ended, or cannot start another") from None
        except BaseException:
            await self.close()
            raise
        if reply is Reply.REFUSED:
            raise GossamerError(content.decode())
        return reading

    async def close(self) -> None:
        """End the process; another one is started when a page is to be read."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            # -P: the directory that we were started in is no place to import from.
            *(sys.executable, "-P", "-m", "gossamer.parse.isolated"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,  # so that both of its processes can be ended at once
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # it has no use for threads, and forks
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                reply, _ = await _ask(process, msgspec.msgpack.encode(self._settings))
        except (TimeoutError, ValueError, asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
            reply = Reply.DIED
        except BaseException:
            await _end(process)
            raise
        if reply is not Reply.READY:
            await _end(process)
            raise OSError(errno.EAGAIN, "the process that is to read pages cannot start")
        self._process = process
        return process


async def _ask(process: Process, content: bytes) -> tuple[Reply, bytes]:
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 (they are pipes)
    process.stdin.write(REQUEST_HEAD.pack(len(content)))
    process.stdin.write(content)
    head = await process.stdout.readexactly(REPLY_HEAD.size)
    reply, length = REPLY_HEAD.unpack(head)
    return Reply(reply), await process.stdout.readexactly(length)


async def _end(process: Process) -> None:
    """It, and the reader that it has forked."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
