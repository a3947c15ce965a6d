"""Bodies without end, bodies that inflate, bodies that break off: rows 1, 2, 4 to 7, 10, 11 and 44."""

import gzip
import zlib
from functools import cache

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs

from gossamer.testing.web.hostile.site import (
    CLOSE,
    HTML,
    Expected,
    Place,
    Site,
    body,
    document,
    dribble,
    endless,
    page,
    raw,
    response_head,
)

#: Twenty-five times the most that a crawler decodes by default.
BOMB_BYTES = 256 << 20
#: As many as in the advisories against decoders that undo whatever is named.
MANY_LAYERS = 1000
#: Fifty times as many members as an honest block-wise file of a page's size would have.
MANY_MEMBERS = 50_000
#: Memory that zstd can ask for in its second byte: 128 MiB, which decoders grant unless told otherwise, though the
#: content coding may have no more than 8 (RFC 9659); and the most that can be written, 3.75 TiB.
LARGE_WINDOW, LARGEST_WINDOW = 0x88, 0xFF
#: What comes of an answer before it breaks off.
PREFIX_BYTES = 1000

_MIB = 1 << 20
_ZSTD_BLOCK_BYTES = 128 * 1024
_OK = "HTTP/1.1 200 OK"
_CHUNKED = ("Transfer-Encoding", "chunked")
_PARAGRAPH = b"<p>And so on, and so on, and so on.</p>\n"


def sites() -> dict[int, Site]:
    return {1: _endless(), 2: _slow(), 4: _gzip(), 5: _other_bombs(), 6: _layers(), 7: _redirect_body()} | {
        10: _damaged(),
        11: _mislabelled(),
        44: _broken_off(),
    }


@cache
def raw_deflate_bomb() -> bytes:
    """Zeros. One flushed mebibyte stands for itself wherever it is repeated, so nothing large is ever compressed."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = stream.compress(bytes(_MIB)) + stream.flush(zlib.Z_FULL_FLUSH)
    return block * (BOMB_BYTES // _MIB) + b"\x03\x00"


@cache
def gzip_bomb() -> bytes:
    checksum, block = 0, bytes(_MIB)
    for _ in range(BOMB_BYTES // _MIB):
        checksum = zlib.crc32(block, checksum)
    trailer = checksum.to_bytes(4, "little") + (BOMB_BYTES & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + raw_deflate_bomb() + trailer


def deflate_bomb() -> bytes:
    # Adler-32 of n zeros: the first sum stays 1, the second counts to n.
    return b"\x78\xda" + raw_deflate_bomb() + ((BOMB_BYTES % 65521) << 16 | 1).to_bytes(4, "big")


def brotli_bomb() -> bytes:
    stream = brotli.Compressor(quality=5, lgwin=22)
    first, again = (stream.process(bytes(_MIB)) + stream.flush() for _ in range(2))
    return bytes(first + again * (BOMB_BYTES // _MIB - 1) + b"\x03")


def zstd_bomb(window_descriptor: int = 0x58) -> bytes:
    """Written by hand (RFC 8878): four bytes say "128 KiB of this byte". The window is 2 MiB unless told otherwise."""
    again, last = ((_ZSTD_BLOCK_BYTES << 3 | 1 << 1 | end).to_bytes(3, "little") + b"\0" for end in (0, 1))
    blocks = BOMB_BYTES // _ZSTD_BLOCK_BYTES
    return b"\x28\xb5\x2f\xfd\x00" + bytes((window_descriptor,)) + again * (blocks - 1) + last


def compressible_page() -> bytes:
    paragraphs = "".join(f"<p>Paragraph {number} of many, none like the others.</p>" for number in range(400))
    return document("Compressed", paragraphs).encode()


def _endless() -> Site:
    block = _PARAGRAPH * 1600
    chunk = b"%x\r\n%b\r\n" % (len(block), block)
    return {
        "h01.test/no-length": Place(
            play=endless(response_head(_OK, HTML, CLOSE), _PARAGRAPH), expected=(Expected.LENGTH,)
        ),
        "h01.test/chunked": Place(play=endless(response_head(_OK, HTML, _CHUNKED), chunk), expected=(Expected.LENGTH,)),
    }


def _slow() -> Site:
    head = response_head(_OK, HTML, ("Content-Length", "1000000"))
    return {
        "h02.test/body": Place(play=dribble(head, b"slowly "), expected=(Expected.TIMEOUT,)),
        "h02.test/head": Place(
            play=dribble(b"", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000), expected=(Expected.TIMEOUT,)
        ),
        # Each piece comes in time for a timer that is set anew by every read.
        "h02.test/chunks": Place(
            play=dribble(response_head(_OK, HTML, _CHUNKED), b"1\r\nx\r\n"), expected=(Expected.TIMEOUT,)
        ),
    }


def _gzip() -> Site:
    empty_members = gzip.compress(b"", mtime=0) * MANY_MEMBERS
    return {
        "h04.test/zeros": _encoded("gzip", gzip_bomb(), Expected.LENGTH),
        "h04.test/x-gzip": _encoded("x-gzip", gzip_bomb(), Expected.LENGTH),
        "h04.test/members": _encoded("gzip", empty_members, Expected.LENGTH),
        "h04.test/twice": _encoded("gzip, gzip", gzip.compress(gzip_bomb(), mtime=0), Expected.LENGTH),
    }


def _other_bombs() -> Site:
    return {
        "h05.test/br": _encoded("br", brotli_bomb(), Expected.LENGTH),
        "h05.test/zstd": _encoded("zstd", zstd_bomb(), Expected.LENGTH),
        "h05.test/deflate": _encoded("deflate", deflate_bomb(), Expected.LENGTH),
        "h05.test/raw-deflate": _encoded("deflate", raw_deflate_bomb(), Expected.LENGTH),
        "h05.test/zstd-window": _encoded("zstd", zstd_bomb(LARGE_WINDOW), Expected.CORRUPT),
        "h05.test/zstd-largest-window": _encoded("zstd", zstd_bomb(LARGEST_WINDOW), Expected.CORRUPT),
    }


def _layers() -> Site:
    return {
        "h06.test/three": _encoded("gzip, gzip, gzip", _nested_gzip(3), Expected.RAW),
        "h06.test/thousand": _encoded(", ".join(["gzip"] * MANY_LAYERS), _nested_gzip(MANY_LAYERS), Expected.RAW),
        "h06.test/two": _encoded("gzip, gzip", _nested_gzip(2), Expected.DONE),
    }


def _nested_gzip(layers: int) -> bytes:
    data = compressible_page()
    for _ in range(layers):
        data = gzip.compress(data, 1, mtime=0)
    return data


def _redirect_body() -> Site:
    def redirect(coding: str, bomb: bytes) -> Place:
        headers = (("Location", f"/landed?{coding}"), ("Content-Encoding", coding), ("Content-Length", str(len(bomb))))
        return Place(
            play=raw(response_head("HTTP/1.1 302 Found", HTML, *headers, CLOSE), bomb), expected=(Expected.REDIRECT,)
        )

    return {
        "h07.test/gzip": redirect("gzip", gzip_bomb()),
        "h07.test/br": redirect("br", brotli_bomb()),
        "h07.test/landed": Place(play=page(document("Landed", "safely"))),
    }


def _damaged() -> Site:
    whole = gzip.compress(compressible_page(), mtime=0)
    half = len(whole) // 2
    wrong_sum = whole[:-8] + bytes(byte ^ 0xFF for byte in whole[-8:-4]) + whole[-4:]
    # A full flush in the middle makes the prefix decodable up to there; block type 3, which does not exist, follows.
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    damaged = stream.compress(compressible_page()) + stream.flush(zlib.Z_FULL_FLUSH) + b"\x07" * 64
    return {
        "h10.test/cut": _encoded("gzip", whole[:half], Expected.UNEXPECTED_END),
        "h10.test/cut-trailer": _encoded("gzip", whole[:-4], Expected.UNEXPECTED_END),
        "h10.test/checksum": _encoded("gzip", wrong_sum, Expected.CHECKSUM),
        "h10.test/damaged": _encoded("gzip", damaged, Expected.CORRUPT),
        "h10.test/cut-br": _encoded("br", _half(brotli.compress(compressible_page())), Expected.UNEXPECTED_END),
    }


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _mislabelled() -> Site:
    plain = compressible_page()
    return {
        "h11.test/plain-as-gzip": _encoded("gzip", plain, Expected.RAW),
        "h11.test/plain-as-br": _encoded("br", plain, Expected.RAW),
        "h11.test/plain-as-zstd": _encoded("zstd", plain, Expected.RAW),
        "h11.test/unknown": _encoded("utf-8", plain, Expected.RAW),
        "h11.test/named-twice": _encoded("gzip, gzip", gzip.compress(plain, mtime=0), Expected.DONE, Expected.RAW),
    }


def _broken_off() -> Site:
    long = response_head(_OK, HTML, ("Content-Length", "1000000"))
    prefix = (_PARAGRAPH * 100)[:PREFIX_BYTES]
    half_chunk = response_head(_OK, HTML, _CHUNKED) + b"10000\r\n" + prefix
    no_last_chunk = response_head(_OK, HTML, _CHUNKED) + b"%x\r\n%b\r\n" % (len(prefix), prefix)
    return {
        "h44.test/reset": Place(play=raw(long + prefix, reset=True), expected=(Expected.CUT,)),
        "h44.test/end": Place(play=raw(long + prefix), expected=(Expected.CUT,)),
        "h44.test/half-chunk": Place(play=raw(half_chunk), expected=(Expected.CUT,)),
        "h44.test/no-last-chunk": Place(play=raw(no_last_chunk), expected=(Expected.CUT,)),
        "h44.test/reset-at-once": Place(play=raw(reset=True), expected=(Expected.DISCONNECT,)),
        "h44.test/end-at-once": Place(play=raw(), expected=(Expected.DISCONNECT,)),
        "h44.test/end-in-head": Place(play=raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), expected=(Expected.DISCONNECT,)),
    }


def _encoded(coding: str, data: bytes, *expected: Expected) -> Place:
    return Place(play=body(data, HTML[1], ("Content-Encoding", coding)), expected=expected)
