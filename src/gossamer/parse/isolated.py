"""The program that reads pages in a process that may die: run as `python -m gossamer.parse.isolated TITLE` by
guarded.py, where TITLE is what the parser is called in `ps`.

Two processes. The first has the libraries loaded, touches no page, and forks the second, the reader, which takes pages
from standard input and answers on standard output. When a reader dies, the first says so in its place and forks the
next one, which takes some milliseconds. Both end when their input does.

    in:   length, settings;  then for each page: length, answer          (msgpack)
    out:  READY;  then for each page: READ, length, reading  |  REFUSED, length, text  |  DIED, 0
"""

import ctypes
import gc
import mmap
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from enum import IntEnum

import msgspec
import setproctitle

from gossamer.config import Settings
from gossamer.errors import GossamerError
from gossamer.parse.record import read_answer
from gossamer.records import Answer

#: A tree comes to 200 MB at worst (see taming.py); body, texts, interpreter and libraries fit beside it.
MEMORY_BYTES = 1 << 30
#: Of one page. The slowest page known takes 1.4 s (see taming.py).
CPU_SECONDS = 20

#: The bytes that follow.
REQUEST_HEAD = struct.Struct("<I")
#: What it is, and the bytes that follow.
REPLY_HEAD = struct.Struct("<BI")

_INPUT, _OUTPUT = 0, 1
#: What the reader is at, in a byte shared with the process that forks. Only a death in READING is a page's doing.
_IDLE, _TAKING, _READING, _ANSWERING = range(4)
_SAMPLE = Answer(
    "http://www.example.org/", 0.0, b"", b"", 200, ((b"Content-Type", b"text/html"),), b"<p>Text<p><a href=/>Link</a>"
)
#: Of linux/prctl.h.
_PR_SET_PDEATHSIG = 1


class Reply(IntEnum):
    """What was said about a page; READY is said once, before the first."""

    READY = 1
    READ = 2
    REFUSED = 3
    """An error that a person must mend, in its own words."""
    DIED = 4


def main() -> int:
    """The process that forks. Limits come first, and hold for every reader; so does its name in `ps` and `top`."""
    setproctitle.setproctitle(f"{sys.argv[1]} (reader)")
    setproctitle.setthreadtitle("gossamer:reader")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    parser = os.getppid()
    die_with_parent = _die_with_parent()
    die_with_parent()
    # A keyboard's interrupt is for the leader.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    at = mmap.mmap(-1, 1)
    content = _take(at)
    if content is None or os.getppid() != parser:
        return 0
    settings = msgspec.msgpack.decode(content, type=Settings)
    # What is loaded when it is first needed is needed by every reader.
    read_answer(_SAMPLE, settings)
    # So that readers share what is loaded, instead of copying it when their collector looks at it.
    gc.collect()
    gc.freeze()
    at[0] = _IDLE
    _say(Reply.READY)
    while True:
        own = os.getpid()
        child = os.fork()
        if child == 0:
            die_with_parent()
            os._exit(_read_pages(settings, at) if os.getppid() == own else 0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return 0
        died_at, at[0] = at[0], _IDLE
        if died_at in {_TAKING, _ANSWERING}:
            return 1  # a part of a page, or of an answer, is lost: what follows would be taken for another
        if died_at == _READING:
            _say(Reply.DIED)


def _read_pages(settings: Settings, at: mmap.mmap) -> int:
    """The reader: until there are no more. What it raises ends it: after a lack of memory nothing in it is certain."""
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Answer)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    while (content := _take(at)) is not None:
        at[0] = _READING
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS, hard))
        try:
            reading = encoder.encode(read_answer(decoder.decode(content), settings))
        except GossamerError as error:
            reply, said = Reply.REFUSED, str(error).encode()
        else:
            reply, said = Reply.READ, reading
        at[0] = _ANSWERING
        _say(reply, said)
        at[0] = _IDLE
    return 0


def _take(at: mmap.mmap) -> bytes | None:
    """What one page takes; None at the end of the input."""
    head = _exactly(REQUEST_HEAD.size)
    if head is None:
        return None
    at[0] = _TAKING
    return _exactly(REQUEST_HEAD.unpack(head)[0])


def _exactly(size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = os.read(_INPUT, min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _say(reply: Reply, content: bytes = b"") -> None:
    with memoryview(REPLY_HEAD.pack(reply, len(content)) + content) as said:
        written = 0
        while written < len(said):
            written += os.write(_OUTPUT, said[written:])


def _die_with_parent() -> Callable[[], None]:
    """What makes the calling process die with its parent. Elsewhere than on Linux it notices by the end of its input,
    when the page in work is read."""
    control = getattr(ctypes.CDLL(None), "prctl", None)
    return lambda: None if control is None else control(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
