"""Pages read by another process, so that one that kills its reader does not kill the parser; see isolated.py for that.

That costs some tenths of a millisecond more per page. So parsers read this way only for a while after one of them has
died on a page, and always the pages that are known to be dangerous.
"""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from typing import Self

import msgspec
import setproctitle

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.parse.isolated import REPLY_HEAD, REQUEST_HEAD, Reply
from gossamer.parse.record import Reading
from gossamer.records import Answer

#: For a reader that sleeps, or a machine that is very busy.
WALL_SECONDS = 60.0
#: To load the libraries, which takes half a second.
START_SECONDS = 60.0
#: Between looks whether it has ended that was killed.
ENDING_SECONDS = 0.002


class GuardedReader:
    """A parser's own; it takes one page at a time. The process is started with the first page, and stays.

    Whatever goes wrong while a page is read, cancellation included, leaves nothing running that still has that page.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: _Process | None = None

    async def read(self, answer: Answer) -> Reading | None:
        """What `read_answer` makes of the page; None if whoever read it died, or took too long.

        Raises OSError where there is no room for another process.
        """
        process = self._process or await self._start()
        try:
            async with asyncio.timeout(WALL_SECONDS):
                reply, content = await process.ask(msgspec.msgpack.encode(answer))
            reading = msgspec.msgpack.decode(content, type=Reading) if reply is Reply.READ else None
        except (TimeoutError, ValueError, msgspec.MsgspecError):
            # Or it died in the middle of its answer.
            await self.close()
            return None
        except (asyncio.IncompleteReadError, OSError):
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
            await process.end()

    async def _start(self) -> "_Process":
        process = await _Process.start()
        try:
            async with asyncio.timeout(START_SECONDS):
                reply, _ = await process.ask(msgspec.msgpack.encode(self._settings))
        except (TimeoutError, ValueError, asyncio.IncompleteReadError, OSError):
            reply = Reply.DIED
        except BaseException:
            await process.end()
            raise
        if reply is not Reply.READY:
            await process.end()
            raise OSError(errno.EAGAIN, "the process that is to read pages cannot start")
        self._process = process
        return process


class _Process:
    """The process that forks. Not started by the loop, which does not survive a lack of descriptors."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: asyncio.WriteTransport,
        stdout: asyncio.ReadTransport,
        replies: asyncio.StreamReader,
    ) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._replies = replies

    @classmethod
    async def start(cls) -> Self:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 (as long as the loop's own would; what it is called is all that is passed)
            # -P: the directory that we were started in is no place to import from.
            [sys.executable, "-P", "-m", "gossamer.parse.isolated", setproctitle.getproctitle()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # so that both of its processes can be ended at once
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # it has no use for threads, and forks
        )
        loop = asyncio.get_running_loop()
        replies = asyncio.StreamReader()
        try:
            stdout, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(replies), process.stdout)
            stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return cls(process, stdin, stdout, replies)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, content: bytes) -> tuple[Reply, bytes]:
        self._stdin.write(REQUEST_HEAD.pack(len(content)))
        self._stdin.write(content)
        reply, length = REPLY_HEAD.unpack(await self._replies.readexactly(REPLY_HEAD.size))
        return Reply(reply), await self._replies.readexactly(length)

    async def end(self) -> None:
        """It, and the reader that it has forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._stdin.abort()
        self._stdout.close()
        while self._process.poll() is None:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(ENDING_SECONDS)
