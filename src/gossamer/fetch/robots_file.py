"""A robots.txt as it was received, read: its content encoding undone, its lines parsed, its rules compiled.

A short file is read at once. A long one, and whatever a few bytes may unpack to, is read in a thread, one at a time:
that takes up to half a second, and the event loop has other sites to attend to.
"""

import asyncio
import gzip
import io
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import msgspec
import zstandard

from gossamer.fetch.robots import kept_part, parse
from gossamer.fetch.robots_rules import Rules
from gossamer.records import Answer

#: The product token of our User-Agent.
AGENT = "Gossamer"

#: What is parsed are 500 KiB, but lines of junk do not count among them. This holds twice the longest such line that
#: the hostile catalogue puts before the rules; received or decoded, the rest of a longer file is left.
BODY_LIMIT_BYTES = 2 << 20
#: What is read at once: three milliseconds at the worst, and most files in the open web are smaller.
SHORT_BYTES = 4 << 10

#: Of RFC 9659, for zstd as a content coding.
_ZSTD_WINDOW_BYTES = 8 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = frozenset({b"gzip", b"x-gzip"})
_IDENTITY = frozenset({b"", b"identity"})
#: While a long file is read, the loop gets the interpreter back this soon. With Python's five milliseconds, each of its
#: system calls would cost as much.
_SWITCH_SECONDS = 0.0005

T = TypeVar("T")


class RobotsFile(msgspec.Struct, frozen=True):
    """What a whole answer says."""

    rules: Rules | None
    """None if it could not be decoded."""
    body: bytes = b""
    """The part that was parsed, decoded, at most 500 KiB."""
    detail: str = ""
    """For a person: what was wrong."""


class RobotsReader:
    """Reads the files of one fetcher process. Nothing that it is given makes it raise."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="robots")

    async def read(self, answer: Answer) -> RobotsFile:
        if len(answer.body) <= SHORT_BYTES:
            read = read_file(answer, SHORT_BYTES)
            if read is not None:
                return read
        return await self._apart(lambda: read_file(answer, BODY_LIMIT_BYTES)) or RobotsFile(None)

    async def compile(self, body: bytes) -> Rules:
        """Of a copy that was kept."""
        return compiled(body) if len(body) <= SHORT_BYTES else await self._apart(lambda: compiled(body))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _apart(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _yielding, work)


def compiled(body: bytes) -> Rules:
    return parse(body).for_agent(AGENT)


def read_file(answer: Answer, limit_bytes: int) -> RobotsFile | None:
    """None if it is longer than a limit below `BODY_LIMIT_BYTES`; at that one, the first part of it is read."""
    if answer.truncated not in {"", "length"}:
        return RobotsFile(None, detail=f"cut off: {answer.truncated}")
    coding = (answer.header(b"content-encoding") or b"").strip().lower()
    try:
        body = _decoded(answer.body, coding, limit_bytes)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError, brotli.error) as error:
        return RobotsFile(None, detail=f"damaged {coding.decode(errors='replace')}: {error}")
    if body is None:
        return RobotsFile(None, detail=f"in an unknown coding: {coding!r:.60}")
    if len(body) >= limit_bytes:
        if limit_bytes < BODY_LIMIT_BYTES:
            return None
        # Half a line would be another rule.
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    body = kept_part(body)
    return RobotsFile(compiled(body), body)


def _yielding(work: Callable[[], T]) -> T:
    usual_seconds = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        return work()
    finally:
        sys.setswitchinterval(usual_seconds)


def _decoded(body: bytes, coding: bytes, limit_bytes: int) -> bytes | None:
    """The first `limit_bytes`; None if the coding is none that we asked for."""
    if coding in _IDENTITY or (coding in _GZIP and not body.startswith(_GZIP_MAGIC)):
        return body
    source = io.BytesIO(body)
    if coding in _GZIP:
        with gzip.GzipFile(fileobj=source) as unzipped:
            return unzipped.read(limit_bytes)
    if coding == b"zstd":
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        with decompressor.stream_reader(source, read_across_frames=True) as reader:
            return bytes(reader.read(limit_bytes))
    if coding == b"br":
        stream = brotli.Decompressor()
        # It may give twice as much as it is told to, which is still bounded.
        decoded: bytes = stream.process(body, output_buffer_limit=limit_bytes)
        if len(decoded) < limit_bytes and not stream.is_finished():
            raise EOFError("it ends early")
        return decoded[:limit_bytes]
    return None
