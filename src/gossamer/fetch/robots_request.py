"""One origin's robots.txt, asked for: redirects followed, the content encoding undone, the answer's meaning named.

Whatever is not a whole and readable answer keeps us out (RFC 9309 section 2.3.1).
"""

import gzip
import io
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import msgspec
import zstandard

from gossamer.config import UrlSettings
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.robots import Access, access_for
from gossamer.fetch.robots_redirects import RobotsRedirects
from gossamer.records import Answer, Reason
from gossamer.url import Refusal, Url, canonicalise

#: What is parsed are 500 KiB, but lines of junk do not count among them. This holds twice the longest such line that
#: the hostile catalogue puts before the rules; received or decoded, the rest of a longer file is left.
BODY_LIMIT_BYTES = 2 << 20

#: Of RFC 9659, for zstd as a content coding.
_ZSTD_WINDOW_BYTES = 8 << 20
_GZIP_MAGIC = b"\x1f\x8b"

#: What happens before there is anybody to answer.
_UNREACHED = frozenset({Reason.DNS, Reason.CONNECT, Reason.TLS, Reason.BLOCKED_ADDRESS, Reason.SERVER_ADDRESS})


class Heard(msgspec.Struct, frozen=True):
    """What the answer means; never FOLLOW."""

    access: Access
    body: bytes = b""
    """Decoded; of PARSE only."""
    retry_after: bytes | None = None
    detail: str = ""
    """For a person: what was wrong."""


class RobotsLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of one visit have to keep to."""

    ends_at: float | None = None
    """Monotonic: all of them together."""
    may_connect: Callable[[str], bool] | None = None
    """Asked with the server's address before the first request."""
    redirects: RobotsRedirects | None = None
    """Asked before a request to another site."""
    settings: UrlSettings = UrlSettings()
    """By which a redirect's site is known."""


async def request_robots(client: Client, url: Url, answers: list[Answer], limits: RobotsLimits) -> Heard | Failure:
    """Ask the origin of a URL. A Failure: the origin cannot even be asked, so none of its pages could be had either.

    All that was answered on the way, whatever it means, is added to `answers` as it comes, for the archive.
    """
    place: Url | Refusal | None = canonicalise("/robots.txt", url, limits.settings)
    been: list[str] = []
    while isinstance(place, Url):
        if been and place.site != url.site and limits.redirects is not None:
            refusal = limits.redirects.refusal(place)
            if refusal:
                return Heard(Access.DISALLOW_ALL, detail=refusal)
            turn = limits.redirects.turn()
            try:
                answer = await _get(client, place, limits.ends_at, turn)
            finally:
                turn.end()
        else:
            answer = await _get(client, place, limits.ends_at, None if been else limits.may_connect)
        if isinstance(answer, Failure):
            if answer.reason is Reason.OUR_SHORTAGE or (not been and _was_unreached(answer, place)):
                return answer
            return Heard(Access.DISALLOW_ALL, detail=f"{answer.reason}: {answer.detail}")
        answers.append(answer)
        been.append(place.text)
        place = canonicalise(answer.location, place, limits.settings) if answer.location else None
        loop = isinstance(place, Url) and place.text in been
        access = access_for(answer.status, redirects_followed=len(been) - 1, loop=loop)
        if access is Access.PARSE:
            return _read(answer)
        if access is not Access.FOLLOW:
            return Heard(access, retry_after=answer.header(b"retry-after"), detail=f"status {answer.status}")
    return Heard(Access.DISALLOW_ALL, detail="redirected to nowhere")


async def _get(
    client: Client, place: Url, ends_at: float | None, may_connect: Callable[[str], bool] | None
) -> Answer | Failure:
    return await client.get(
        place, max_body_bytes=BODY_LIMIT_BYTES, fetch_type="robots", ends_at=ends_at, may_connect=may_connect
    )


def _was_unreached(failure: Failure, place: Url) -> bool:
    if failure.reason is Reason.TIMEOUT:
        last_step = failure.times.tls if place.scheme == "https" else failure.times.connect
        return last_step is None
    return failure.reason in _UNREACHED


def _read(answer: Answer) -> Heard:
    if answer.truncated not in {"", "length"}:
        return Heard(Access.DISALLOW_ALL, detail=f"cut off: {answer.truncated}")
    coding = (answer.header(b"content-encoding") or b"").strip().lower()
    try:
        body = _decoded(answer.body, coding)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError, brotli.error) as error:
        return Heard(Access.DISALLOW_ALL, detail=f"damaged {coding.decode()}: {error}")
    if body is None:
        return Heard(Access.DISALLOW_ALL, detail=f"in an unknown coding: {coding!r:.60}")
    if len(body) >= BODY_LIMIT_BYTES:
        # Half a line would be another rule.
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    return Heard(Access.PARSE, body=body)


def _decoded(body: bytes, coding: bytes) -> bytes | None:
    """The first `BODY_LIMIT_BYTES`; None if the coding is none that we asked for."""
    if coding in {b"", b"identity"} or (coding in {b"gzip", b"x-gzip"} and not body.startswith(_GZIP_MAGIC)):
        return body
    source = io.BytesIO(body)
    if coding in {b"gzip", b"x-gzip"}:
        with gzip.GzipFile(fileobj=source) as unzipped:
            return unzipped.read(BODY_LIMIT_BYTES)
    if coding == b"zstd":
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        with decompressor.stream_reader(source, read_across_frames=True) as reader:
            return bytes(reader.read(BODY_LIMIT_BYTES))
    if coding == b"br":
        stream = brotli.Decompressor()
        # It may give twice as much as it is told to, which is still bounded.
        decoded: bytes = stream.process(body, output_buffer_limit=BODY_LIMIT_BYTES)
        if len(decoded) < BODY_LIMIT_BYTES and not stream.is_finished():
            raise EOFError("it ends early")
        return decoded[:BODY_LIMIT_BYTES]
    return None
