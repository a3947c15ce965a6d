"""From the body as it came over the wire to the bytes of the page: content encodings, undone within a bound.

A body is undone layer by layer, the last coding first. Each layer has two ways. The quick one hands the whole body to
the fastest library, which settles nearly all. What it cannot settle (several members, a bad checksum, damage) goes the
careful way, from the start and in small pieces. The libraries throw away what they had decoded in the call that fails:
so when a piece fails the way is gone once more, byte by byte from there, and the prefix is saved to its last byte.

Nothing here raises on any bytes: what is wrong with a body is said in the answer.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Literal, Protocol

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import msgspec
import zstandard
from isal import isal_zlib

#: Why the data is not the whole page: one of our limits, a stream that stops early, a sum that differs, damage.
Truncation = Literal["length", "unexpected-end", "checksum", "corrupt"]

#: Why a coding that the header names was not undone.
Fallback = Literal["not-encoded", "unknown-encoding", "too-many-layers"]

#: One compression by the application and one by a proxy is all that honest servers do.
MAX_LAYERS: Final = 2

#: Block-wise gzip (64 KiB a block) needs 160 members for 10 MiB; a body of empty members would have half a million.
MAX_MEMBERS: Final = 1024

#: RFC 9659 bounds the window of the zstd content coding to this; a larger one is a demand for our memory.
ZSTD_WINDOW_BYTES: Final = 8 << 20

#: brotli keeps a copy of the input that it has not read, and overshoots an output limit by up to its last block,
#: which is about as large as all blocks before it: it is fed and emptied in steps.
_BROTLI_STEP_BYTES: Final = 256 << 10

#: Few enough calls for a large body, and what is fed again byte by byte when one of them fails.
_PIECE_BYTES: Final = 512

#: Four bytes of zstd can stand for 128 KiB and its streaming object knows no limit: such a piece gives 2 MiB at most.
_ZSTD_PIECE_BYTES: Final = 64

#: A block holds 128 KiB, or what the server flushed at a time: pages have a handful.
_QUICK_BLOCKS: Final = 256

#: Room for the first attempt at a zstd body of unknown size: 10 MiB afresh for each page cost 166 us, not 88.
_USUAL_PAGE_BYTES: Final = 1 << 20

_GZIP_WBITS: Final = 31
_ZLIB_WBITS: Final = 15
_RAW_WBITS: Final = -15

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame, or one to be skipped

#: Text. Compressed bytes are spread evenly, and that the first ten are all printable is a chance of one in 10^4.
_PLAIN: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\t\n\r -~]{10}|[\t\n\r -~]+\Z")

#: What any bytes, text or not, may decode to before an error shows. As much of a true page is worth nothing either.
_RUBBISH_BYTES: Final = 64

_ISAL_ERROR: Final[type[Exception]] = isal_zlib.IsalError  # type: ignore[assignment]  # its stub names an instance
_STREAM_ERRORS: Final = (zlib.error, zstandard.ZstdError, brotli.error)


class Decoded(msgspec.Struct, frozen=True):
    """The page's bytes, never more than the cap. `encodings` names the codings that were undone, first undone first.

    Made by `decode_body` for the parser, which records both marks with the page.
    """

    data: bytes
    encodings: tuple[str, ...] = ()
    truncated: Truncation | None = None
    fallback: Fallback | None = None


def decode_body(body: bytes, content_encoding: str, cap_bytes: int) -> Decoded:
    """Undo what the Content-Encoding header names. The first (outermost) thing to go wrong gives `truncated` its word.

    A coding that the bytes contradict is passed over and the next is tried: a header that names gzip twice for a body
    compressed once is common. At an unknown coding the work stops and what was undone so far is kept.
    """
    codings = [name for part in content_encoding.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
    if len(codings) > MAX_LAYERS:
        return _capped(body, cap_bytes, (), None, "too-many-layers")
    data, applied = body, list[str]()
    truncated: Truncation | None = None
    fallback: Fallback | None = None
    for coding in reversed(codings):
        known = _CODINGS.get(coding)
        if known is None:
            fallback = fallback or "unknown-encoding"
            break
        if not data or cap_bytes <= 0:
            break
        name, undo = known
        layer = undo(data, cap_bytes)
        if layer is None:
            fallback = fallback or "not-encoded"
            continue
        data = layer[0]
        truncated = truncated or layer[1]
        applied.append(name)
    return _capped(data, cap_bytes, tuple(applied), truncated, fallback)


def _capped(
    data: bytes, cap_bytes: int, encodings: tuple[str, ...], truncated: Truncation | None, fallback: Fallback | None
) -> Decoded:
    if len(data) > cap_bytes:
        return Decoded(data[: max(cap_bytes, 0)], encodings, truncated or "length", fallback)
    return Decoded(data, encodings, truncated, fallback)


_Layer = tuple[bytes, Truncation | None]


def _gzip(body: bytes, cap_bytes: int) -> _Layer | None:
    return _inflate(body, _GZIP_WBITS, cap_bytes) if body.startswith(_GZIP_MAGIC) else None


def _deflate(body: bytes, cap_bytes: int) -> _Layer | None:
    # The name means zlib, but many servers send the bare stream, as one old browser wanted it.
    if len(body) > 1 and body[0] & 0x0F == zlib.DEFLATED and (body[0] << 8 | body[1]) % 31 == 0:
        layer = _inflate(body, _ZLIB_WBITS, cap_bytes)
        if layer[0] or layer[1] is None:
            return layer
    return _unless_plain(body, _inflate(body, _RAW_WBITS, cap_bytes))


def _brotli(body: bytes, cap_bytes: int) -> _Layer | None:
    decoder, output, view = _BrotliStream(), _Output(cap_bytes), memoryview(body)
    try:
        for at in range(0, len(body), _BROTLI_STEP_BYTES):
            decoder.feed(view[at : at + _BROTLI_STEP_BYTES], output)
            if output.overflowed or decoder.eof:
                break
    except brotli.error:
        return _unless_plain(body, _carefully(_BrotliStream, body, cap_bytes))
    if output.overflowed:
        return output.data(), "length"
    return _unless_plain(body, (output.data(), None if decoder.eof else "unexpected-end"))


def _zstd(body: bytes, cap_bytes: int) -> _Layer | None:
    if not _ZSTD_MAGIC.match(body):
        return None
    for room_bytes in (min(_USUAL_PAGE_BYTES, cap_bytes), cap_bytes):
        try:
            # The one-shot call allocates what the header promises, and takes a promise of nothing (0) at its word.
            promised = zstandard.frame_content_size(body)
            if (promised == -1 or 0 < promised <= cap_bytes) and _is_one_zstd_frame(body):
                decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
                return decompressor.decompress(body, max_output_size=room_bytes), None
        except zstandard.ZstdError:
            continue
    return _carefully(_ZstdFrame, body, cap_bytes)


def _is_one_zstd_frame(body: bytes) -> bool:
    """Whether the frame's blocks add up to the body: the one-shot call would be silent about a second frame."""
    at = zstandard.frame_header_size(body)
    for _ in range(_QUICK_BLOCKS):
        block = int.from_bytes(body[at : at + 3], "little")
        is_last, is_run, size = block & 1, block >> 1 & 3 == 1, block >> 3
        at += 3 + (1 if is_run else size)
        if is_last:
            return at + 4 * zstandard.get_frame_parameters(body).has_checksum == len(body)
    return False


#: What servers name, our word for it, and what undoes it: None when the bytes are not in that coding at all.
_CODINGS: Final[dict[str, tuple[str, Callable[[bytes, int], _Layer | None]]]] = {
    "gzip": ("gzip", _gzip),
    "x-gzip": ("gzip", _gzip),
    "deflate": ("deflate", _deflate),
    "br": ("br", _brotli),
    "zstd": ("zstd", _zstd),
}


def _unless_plain(body: bytes, layer: _Layer) -> _Layer | None:
    """For codings without a magic number, where other bytes may decode to a little rubbish before they fail."""
    data, truncated = layer
    if truncated == "corrupt" and len(data) < _RUBBISH_BYTES:
        return None
    return None if truncated in {"corrupt", "unexpected-end"} and (not data or _PLAIN.match(body)) else layer


def _inflate(body: bytes, wbits: int, cap_bytes: int) -> _Layer:
    decoder = isal_zlib.decompressobj(wbits)
    try:
        data = decoder.decompress(body, cap_bytes)
        if not decoder.eof and len(data) == cap_bytes and decoder.decompress(decoder.unconsumed_tail, 1):
            return data, "length"
    except _ISAL_ERROR:
        pass
    else:
        if not decoder.eof:
            return data, "unexpected-end"
        if wbits != _GZIP_WBITS or not decoder.unused_data.startswith(_GZIP_MAGIC):
            return data, None
    if wbits == _GZIP_WBITS:
        return _carefully(_GzipMember, body, cap_bytes)
    return _carefully(_ZlibStream if wbits == _ZLIB_WBITS else _RawStream, body, cap_bytes)


class _Output:
    """What a layer has given so far: `room` bytes may still come, and one more sets `overflowed` for good."""

    def __init__(self, cap_bytes: int) -> None:
        # getvalue() hands its buffer over where a list of chunks would be copied: one cap of memory less at the peak.
        self._buffer = io.BytesIO()
        self.room = cap_bytes
        self.overflowed = False

    def write(self, chunk: bytes) -> None:
        if len(chunk) > self.room:
            self.overflowed = True
            chunk = chunk[: self.room]
        self.room -= self._buffer.write(chunk)

    def data(self) -> bytes:
        return self._buffer.getvalue()


class _Stream(Protocol):
    """One compressed stream, fed in order until `eof`; what lies behind its end is then in `unused_data`."""

    piece_bytes: int  # how much one call may be fed
    repeats: bool  # whether another such stream may follow and continues the data

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def feed(self, piece: bytes | memoryview, output: _Output) -> None: ...


class _RawStream:
    """A stream without any frame, and through its subclasses one with zlib's or gzip's."""

    wbits = _RAW_WBITS
    piece_bytes = _PIECE_BYTES
    repeats = False

    def __init__(self) -> None:
        # Not isal: it reads ahead into a buffer of its own, and an error takes that with it.
        self._decoder = zlib.decompressobj(self.wbits)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def feed(self, piece: bytes | memoryview, output: _Output) -> None:
        output.write(self._decoder.decompress(piece, output.room + 1))


class _ZlibStream(_RawStream):
    wbits = _ZLIB_WBITS


class _GzipMember(_RawStream):
    wbits = _GZIP_WBITS
    repeats = True


class _ZstdFrame:
    """A frame; its output is bounded by the size of the pieces alone."""

    piece_bytes = _ZSTD_PIECE_BYTES
    repeats = True

    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES).decompressobj()

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def feed(self, piece: bytes | memoryview, output: _Output) -> None:
        output.write(self._decoder.decompress(piece))


class _BrotliStream:
    """A stream that holds back what the output had no room for, so that a bomb costs it nothing to have read."""

    piece_bytes = _PIECE_BYTES
    repeats = False
    unused_data = b""

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decoder.is_finished())

    def feed(self, piece: bytes | memoryview, output: _Output) -> None:
        chunk = self._decoder.process(piece, output_buffer_limit=_BROTLI_STEP_BYTES)
        # A cut stream holds output back as well: only an empty answer to an empty question says that this was all.
        while chunk and not output.overflowed:
            output.write(chunk)
            chunk = b"" if self.eof else self._decoder.process(b"", output_buffer_limit=_BROTLI_STEP_BYTES)


def _carefully(start: Callable[[], _Stream], body: bytes, cap_bytes: int) -> _Layer:
    bytewise_from = len(body)
    while isinstance(outcome := _attempt(start, body, cap_bytes, bytewise_from), int):
        bytewise_from = outcome
    return outcome


def _attempt(start: Callable[[], _Stream], body: bytes, cap_bytes: int, bytewise_from: int) -> _Layer | int:
    """The layer, or where the piece begins that failed and is to be fed byte by byte."""
    output, stream, members = _Output(cap_bytes), start(), 1
    room_before_member = output.room
    for at, part in _pieces(body, stream.piece_bytes, bytewise_from):
        piece: bytes | memoryview = part
        while piece:
            if members > MAX_MEMBERS:
                return output.data(), "length"
            try:
                stream.feed(piece, output)
            except _STREAM_ERRORS as error:
                if at < bytewise_from:
                    return at
                # Padding and rubbish behind the last member belong to nobody.
                if members > 1 and output.room == room_before_member:
                    return output.data(), None
                return output.data(), _reason(error)
            if output.overflowed:
                return output.data(), "length"
            if not stream.eof:
                break
            if not stream.repeats:
                return output.data(), None
            piece = stream.unused_data
            stream, members, room_before_member = start(), members + 1, output.room
    complete = members > 1 and output.room == room_before_member
    return output.data(), None if complete else "unexpected-end"


def _pieces(body: bytes, piece_bytes: int, bytewise_from: int) -> Iterator[tuple[int, memoryview]]:
    view = memoryview(body)
    for at in range(0, bytewise_from, piece_bytes):
        yield at, view[at : min(at + piece_bytes, bytewise_from)]
    for at in range(bytewise_from, len(body)):
        yield at, view[at : at + 1]


def _reason(error: Exception) -> Truncation:
    # The libraries have one exception class each: only the words tell a wrong sum from a broken stream.
    words = str(error)
    return (
        "checksum" if "checksum" in words or "incorrect data check" in words or "length check" in words else "corrupt"
    )
