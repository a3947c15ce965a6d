"""Content encodings against bombs, chained and broken streams: public samples, and larger ones made here."""

import functools
import gzip
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import pytest
import zstandard

from gossamer.parse.decode import decode_body

CAP = 10 << 20
BOMBS = {"bomb-br.bin": "br", "bomb-deflate.bin": "deflate", "bomb-gzip.bin": "gzip", "bomb-zstd.bin": "zstd"}

#: What a bomb may cost at its peak above what the process held before; the decoded data itself is 10 MiB of it.
PEAK_BYTES = 32 << 20

#: The largest window that brotli has without its large-window extension, which the decoder refuses.
BROTLI_WINDOW_BITS = 24


@functools.cache
def zeros_gzip(megabytes: int) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join(compressor.compress(block) for _ in range(megabytes)) + compressor.flush()


@functools.cache
def zeros_brotli(megabytes: int) -> bytes:
    compressor = brotli.Compressor(quality=5, lgwin=BROTLI_WINDOW_BITS)
    block = bytes(1 << 20)
    return b"".join(compressor.process(block) for _ in range(megabytes)) + bytes(compressor.finish())


@functools.cache
def zeros_zstd(megabytes: int, window_bits: int = 23) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=window_bits)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    block = bytes(1 << 20)
    return b"".join(compressor.compress(block) for _ in range(megabytes)) + compressor.flush()


def peak_above_base(directory: Path, body: bytes, content_encoding: str) -> tuple[int, str]:
    """The rise of the high-water mark of a process of its own that decodes the body, and how it marked the result."""
    file = directory / "body"
    file.write_bytes(body)
    script = """
        import pathlib, re, sys
        from gossamer.parse.decode import decode_body
        body = pathlib.Path(sys.argv[1]).read_bytes()
        decode_body(b"", "", 1)
        def peak():
            status = pathlib.Path("/proc/self/status").read_text()
            return int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024
        base = peak()
        result = decode_body(body, sys.argv[2], int(sys.argv[3]))
        print(peak() - base, len(result.data), result.truncated)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(file), content_encoding, str(CAP)]
    rise, length, mark = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(length) <= CAP
    return int(rise), mark


def test_every_bomb_stops_at_the_cap_inside_one_chunk(shared_data: Path) -> None:
    for name, content_encoding in BOMBS.items():
        body = (shared_data / "compression" / name).read_bytes()
        result = decode_body(body, content_encoding, CAP)
        assert (name, len(result.data), result.truncated) == (name, CAP, "length")
        assert (result.encodings, result.fallback) == ((content_encoding,), None)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the high-water mark of memory from /proc")
def test_every_bomb_stays_within_its_memory(shared_data: Path, tmp_path: Path) -> None:
    bombs = [((shared_data / "compression" / name).read_bytes(), coding) for name, coding in BOMBS.items()]
    rises = {coding: peak_above_base(tmp_path, body, coding) for body, coding in bombs}
    assert {coding: mark for coding, (_, mark) in rises.items()} == dict.fromkeys(rises, "length")
    assert {coding: rise for coding, (rise, _) in rises.items() if rise > PEAK_BYTES} == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the high-water mark of memory from /proc")
def test_a_hundred_megabytes_in_any_dress_stay_within_the_same_memory(tmp_path: Path) -> None:
    bombs = {
        "gzip": zeros_gzip(100),
        "deflate": zlib.compress(bytes(100 << 20)),
        "br": zeros_brotli(100),
        "zstd": zeros_zstd(100),
        "gzip, gzip": gzip.compress(zeros_gzip(100)),
        "br, gzip": gzip.compress(zeros_brotli(100)),
        "zstd, br": brotli.compress(zeros_zstd(100)),
        "gzip, zstd": zstandard.compress(zeros_gzip(100)),
        "gzip ,x-gzip": gzip.compress(gzip.compress(bytes(12 << 20), 0)),
    }
    members = {"gzip": zeros_gzip(1) * 100, "zstd": zeros_zstd(1) * 100}
    rises = {("one", name): peak_above_base(tmp_path, body, name) for name, body in bombs.items()}
    rises |= {("members", name): peak_above_base(tmp_path, body, name) for name, body in members.items()}
    assert {name: mark for name, (_, mark) in rises.items()} == dict.fromkeys(rises, "length")
    assert {name: rise for name, (rise, _) in rises.items() if rise > PEAK_BYTES} == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the high-water mark of memory from /proc")
def test_saving_a_page_with_a_wrong_checksum_stays_within_the_same_memory(tmp_path: Path) -> None:
    body = zeros_gzip(9)[:-8] + b"checksum"
    rise, mark = peak_above_base(tmp_path, body, "gzip")
    assert mark == "checksum"
    assert rise < PEAK_BYTES


def test_a_window_beyond_the_content_coding_is_refused() -> None:
    result = decode_body(zeros_zstd(64, window_bits=27), "zstd", CAP)
    assert (result.data, result.truncated) == (b"", "corrupt")


def test_deflate_with_and_without_its_frame_and_streamed_zstd_give_the_same_page(shared_data: Path) -> None:
    samples = {
        "html-rawdeflate.bin": "deflate",
        "html-zlibdeflate.bin": "deflate",
        "html-zstd-streaming-no-content-size.bin": "zstd",
    }
    bodies = set()
    for name, content_encoding in samples.items():
        result = decode_body((shared_data / "compression" / name).read_bytes(), content_encoding, CAP)
        assert (result.encodings, result.truncated, result.fallback) == ((content_encoding,), None, None)
        # Each sample names its own encoding in the text, and is the same page after it.
        bodies.add(result.data.partition(b"</em>")[2])
    assert len(bodies) == 1
    assert bodies.pop().endswith(b"</html>\n")


def test_three_layers_are_left_as_they_are_and_say_so(shared_data: Path) -> None:
    body = (shared_data / "compression" / "html-gzip-deflate-gzip.bin").read_bytes()
    result = decode_body(body, "gzip, deflate, gzip", CAP)
    assert (result.data, result.encodings, result.fallback) == (body, (), "too-many-layers")


def test_the_same_three_layers_come_off_two_at_a_time(shared_data: Path) -> None:
    body = (shared_data / "compression" / "html-gzip-deflate-gzip.bin").read_bytes()
    outer = decode_body(body, "deflate, gzip", CAP)
    assert (outer.encodings, outer.truncated, outer.fallback) == (("gzip", "deflate"), None, None)
    inner = decode_body(outer.data, "gzip", CAP)
    assert (inner.truncated, inner.fallback) == (None, None)
    assert b"</html>" in inner.data.lower()


def test_truncated_streams_keep_their_prefix_and_are_marked(shared_data: Path) -> None:
    lengths = {}
    for name in ("truncated-crc-error-short.gz", "truncated-crc-error.gz", "unexpected-eof.gz"):
        result = decode_body((shared_data / "compression" / name).read_bytes(), "gzip", CAP)
        assert (result.encodings, result.truncated, result.fallback) == (("gzip",), "unexpected-end", None)
        lengths[name] = len(result.data)
    assert lengths == {
        "truncated-crc-error-short.gz": 3741,
        "truncated-crc-error.gz": 25542,
        "unexpected-eof.gz": 8576,
    }
