"""One page parsed in a child process with limits of its own: for pages on which parsers have died.

`read_apart` is called in the parser process; the child is this module as a program. Both speak msgpack: the answer and
the settings go in, what was read comes out. A child that dies, is too slow or wants too much memory says nothing, and
that is the answer.
"""

import asyncio
import contextlib
import resource
import sys

import msgspec

from gossamer.config import Settings
from gossamer.parse.record import Reading, read_answer
from gossamer.records import Answer

#: A tree comes to 200 MB at worst (see taming.py); body, texts, interpreter and libraries fit beside it.
MEMORY_BYTES = 1 << 30
#: The slowest page known takes 1.4 s (see taming.py).
CPU_SECONDS = 20
#: For a child that sleeps, or a machine that is very busy.
WALL_SECONDS = 60.0


class _Task(msgspec.Struct, frozen=True, array_like=True):
    answer: Answer
    settings: Settings


async def read_apart(answer: Answer, settings: Settings) -> Reading | None:
    """What `read_answer` makes of the page; None if the child that was to read it did not survive."""
    child = await asyncio.create_subprocess_exec(
        # -P: the directory that we were started in is no place to import from.
        *(sys.executable, "-P", "-m", "gossamer.parse.isolated"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(WALL_SECONDS):
            said, _ = await child.communicate(msgspec.msgpack.encode(_Task(answer, settings)))
    except TimeoutError:
        return None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    return msgspec.msgpack.decode(said, type=Reading) if child.returncode == 0 else None


def main() -> None:
    """Limits first: the page must not have a chance before."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Task)
    sys.stdout.buffer.write(msgspec.msgpack.encode(read_answer(task.answer, task.settings)))


if __name__ == "__main__":
    main()
