"""Content encodings: what comes off, what is kept of a broken body, and how it is marked."""

import gzip
import random
import time
import zlib

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gossamer.parse.decode import MAX_MEMBERS, Decoded, decode_body

CAP = 1 << 20

#: Words in no order: about as compressible as a page, so that streams have several blocks and a middle to damage.
PAGE = b"<!DOCTYPE html><title>Words</title>\n" + b" ".join(
    random.Random(7).choices([f"<b>word{n}</b>".encode() for n in range(2000)], k=8000)
)


def zstd_streamed(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


def zstd_in_blocks(data: bytes, block_bytes: int) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    blocks = [
        compressor.compress(data[at : at + block_bytes]) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(data), block_bytes)
    ]
    return b"".join(blocks) + compressor.flush()


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


COMPRESSED = {
    "gzip": gzip.compress(PAGE),
    "deflate": zlib.compress(PAGE),
    "br": brotli.compress(PAGE, quality=5),
    "zstd": zstd_in_blocks(PAGE, 8192),
}


@pytest.mark.parametrize(
    ("content_encoding", "body", "encodings"),
    [
        ("", PAGE, ()),
        ("identity", PAGE, ()),
        ("gzip", COMPRESSED["gzip"], ("gzip",)),
        (" GZip ", COMPRESSED["gzip"], ("gzip",)),
        ("x-gzip", COMPRESSED["gzip"], ("gzip",)),
        ("deflate", COMPRESSED["deflate"], ("deflate",)),
        ("deflate", raw_deflate(PAGE), ("deflate",)),
        ("BR", COMPRESSED["br"], ("br",)),
        ("zstd", zstandard.compress(PAGE), ("zstd",)),
        ("zstd", zstd_streamed(PAGE), ("zstd",)),
        ("zstd", COMPRESSED["zstd"], ("zstd",)),
        ("identity, gzip,,", COMPRESSED["gzip"], ("gzip",)),
        ("gzip,br", brotli.compress(COMPRESSED["gzip"], quality=1), ("br", "gzip")),
        ("br , gzip", gzip.compress(COMPRESSED["br"]), ("gzip", "br")),
        ("zstd, deflate", zlib.compress(COMPRESSED["zstd"]), ("deflate", "zstd")),
        ("gzip, gzip", gzip.compress(COMPRESSED["gzip"]), ("gzip", "gzip")),
    ],
)
def test_codings_come_off_in_the_reverse_of_the_headers_order(
    content_encoding: str, body: bytes, encodings: tuple[str, ...]
) -> None:
    assert decode_body(body, content_encoding, CAP) == Decoded(PAGE, encodings)


def test_all_members_of_a_gzip_body_are_one_page() -> None:
    half = len(PAGE) // 2
    body = gzip.compress(PAGE[:half]) + gzip.compress(b"") + gzip.compress(PAGE[half:])
    assert decode_body(body, "gzip", CAP) == Decoded(PAGE, ("gzip",))


def test_all_frames_of_a_zstd_body_are_one_page_whatever_they_say_of_their_size() -> None:
    half = len(PAGE) // 2
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    for first in (zstandard.compress(PAGE[:half]), zstd_streamed(PAGE[:half]), skipped + zstd_streamed(PAGE[:half])):
        for second in (zstandard.compress(PAGE[half:]), skipped + zstd_streamed(PAGE[half:]) + skipped):
            assert decode_body(first + second, "zstd", CAP) == Decoded(PAGE, ("zstd",))


@pytest.mark.parametrize("junk", [b"\x00" * 700, b"\n", b"</html>" * 100, b"\x1f"])
def test_what_lies_behind_the_last_member_is_nobodys(junk: bytes) -> None:
    for content_encoding in ("gzip", "deflate", "br", "zstd"):
        result = decode_body(COMPRESSED[content_encoding] + junk, content_encoding, CAP)
        assert result == Decoded(PAGE, (content_encoding,))


@pytest.mark.parametrize("content_encoding", COMPRESSED)
@pytest.mark.parametrize("cap_bytes", [1, 2, 1000, 65536, len(PAGE) - 1])
def test_no_layer_gives_a_byte_more_than_the_cap(content_encoding: str, cap_bytes: int) -> None:
    result = decode_body(COMPRESSED[content_encoding], content_encoding, cap_bytes)
    assert result == Decoded(PAGE[:cap_bytes], (content_encoding,), "length")


@pytest.mark.parametrize("content_encoding", COMPRESSED)
def test_a_page_of_exactly_the_cap_is_whole(content_encoding: str) -> None:
    body = COMPRESSED[content_encoding]
    assert decode_body(body, content_encoding, len(PAGE)) == Decoded(PAGE, (content_encoding,))
    assert decode_body(PAGE, "", len(PAGE)) == Decoded(PAGE)


def test_a_second_member_counts_against_the_cap_that_the_first_has_filled() -> None:
    for content_encoding in ("gzip", "zstd"):
        result = decode_body(COMPRESSED[content_encoding] * 2, content_encoding, len(PAGE))
        assert result == Decoded(PAGE, (content_encoding,), "length")


def test_the_cap_holds_for_a_plain_body_too() -> None:
    assert decode_body(PAGE, "", 100) == Decoded(PAGE[:100], (), "length")
    assert decode_body(PAGE, "gzip", 100) == Decoded(PAGE[:100], (), "length", "not-encoded")
    assert decode_body(COMPRESSED["gzip"], "gzip", 0) == Decoded(b"", (), "length")


def test_the_layer_between_is_capped_as_well() -> None:
    outer = gzip.compress(gzip.compress(bytes(1 << 20), 0))
    result = decode_body(outer, "gzip, gzip", 100_000)
    assert (result.truncated, result.encodings) == ("length", ("gzip", "gzip"))
    assert 0 < len(result.data) <= 100_000


@pytest.mark.parametrize("content_encoding", COMPRESSED)
def test_a_stream_that_stops_early_keeps_its_prefix(content_encoding: str) -> None:
    body = COMPRESSED[content_encoding]
    for share in (0.3, 0.6, 0.9):
        result = decode_body(body[: int(len(body) * share)], content_encoding, CAP)
        assert (result.truncated, result.encodings) == ("unexpected-end", (content_encoding,))
        assert PAGE.startswith(result.data)
        assert len(result.data) > len(PAGE) * (share - 0.2)


@pytest.mark.parametrize("content_encoding", COMPRESSED)
def test_a_damaged_stream_keeps_what_came_before_the_damage(content_encoding: str) -> None:
    body = COMPRESSED[content_encoding]
    at = len(body) * 2 // 3
    damaged = body[:at] + b"\xff\x00\xff\xff" * 16 + body[at + 64 :]
    result = decode_body(damaged, content_encoding, CAP)
    assert (result.truncated in {"corrupt", "checksum"}, result.encodings) == (True, (content_encoding,))
    # Damage may decode to something before it is noticed, but never within the part that was whole.
    assert result.data[: len(PAGE) // 2] == PAGE[: len(PAGE) // 2]


@pytest.mark.parametrize("content_encoding", ["gzip", "deflate", "zstd"])
def test_a_wrong_checksum_keeps_every_byte_and_is_marked(content_encoding: str) -> None:
    body = bytearray(COMPRESSED[content_encoding])
    body[-8 if content_encoding == "gzip" else -1] ^= 0x55
    assert decode_body(bytes(body), content_encoding, CAP) == Decoded(PAGE, (content_encoding,), "checksum")


def test_a_wrong_length_in_gzip_is_a_wrong_checksum() -> None:
    body = COMPRESSED["gzip"][:-4] + b"\x01\x02\x03\x04"
    assert decode_body(body, "gzip", CAP) == Decoded(PAGE, ("gzip",), "checksum")


@pytest.mark.parametrize("content_encoding", COMPRESSED)
@pytest.mark.parametrize(
    "plain", [PAGE, b"\xef\xbb\xbf<!DOCTYPE html>", b"<p>", b'{"error": 404}', b"x", b"\n\n  <html>\xd0\x96"]
)
def test_a_plain_body_under_a_lying_header_is_kept_as_it_is(content_encoding: str, plain: bytes) -> None:
    assert decode_body(plain, content_encoding, CAP) == Decoded(plain, (), None, "not-encoded")


@pytest.mark.parametrize("content_encoding", COMPRESSED)
def test_a_binary_body_under_a_lying_header_is_kept_as_it_is(content_encoding: str) -> None:
    image = b"\x89PNG\r\n\x1a\n" + random.Random(3).randbytes(5000)
    assert decode_body(image, content_encoding, CAP) == Decoded(image, (), None, "not-encoded")


def test_a_body_compressed_once_under_a_header_that_says_twice_is_decoded_once() -> None:
    assert decode_body(COMPRESSED["gzip"], "gzip, gzip", CAP) == Decoded(PAGE, ("gzip",), None, "not-encoded")
    assert decode_body(COMPRESSED["gzip"], "gzip, br", CAP) == Decoded(PAGE, ("gzip",), None, "not-encoded")


def test_an_unknown_coding_is_left_and_what_lies_over_it_comes_off() -> None:
    assert decode_body(PAGE, "compress", CAP) == Decoded(PAGE, (), None, "unknown-encoding")
    assert decode_body(COMPRESSED["gzip"], "utf-8, gzip", CAP) == Decoded(PAGE, ("gzip",), None, "unknown-encoding")
    raw = COMPRESSED["gzip"]
    assert decode_body(raw, "gzip, utf-8", CAP) == Decoded(raw, (), None, "unknown-encoding")


def test_a_thousand_layers_are_refused_without_a_look() -> None:
    header = ", ".join(["gzip"] * 1000)
    body = COMPRESSED["gzip"]
    assert decode_body(body, header, CAP) == Decoded(body, (), None, "too-many-layers")


def test_an_empty_body_is_an_empty_page_under_any_header() -> None:
    for content_encoding in ("", "gzip", "br", "zstd", "deflate", "gzip, br"):
        assert decode_body(b"", content_encoding, CAP) == Decoded(b"")


def test_a_body_of_empty_members_ends_at_the_member_limit() -> None:
    began = time.process_time()
    for content_encoding, member in (("gzip", gzip.compress(b"")), ("zstd", b"\x50\x2a\x4d\x18\x00\x00\x00\x00")):
        assert decode_body(member * MAX_MEMBERS, content_encoding, CAP).truncated is None
        assert decode_body(member * 200_000, content_encoding, CAP).truncated == "length"
    # This takes 30 ms; with a copy of the rest for each member it takes minutes.
    assert time.process_time() - began < 20


def test_a_zstd_frame_that_promises_a_terabyte_is_given_no_memory_for_it() -> None:
    header = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little")
    result = decode_body(header + b"\x01\x00\x00", "zstd", CAP)
    assert (result.data, result.encodings) == (b"", ("zstd",))
    assert result.truncated == "corrupt"


@given(st.binary(max_size=400), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate"]))
def test_no_bytes_raise(body: bytes, content_encoding: str) -> None:
    for magic in (b"", b"\x1f\x8b\x08\x00", b"\x78\x9c", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"):
        result = decode_body(magic + body, content_encoding, 1000)
        assert len(result.data) <= 1000


@given(
    st.sampled_from(sorted(COMPRESSED)),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), max_size=4),
    st.integers(0, 20_000),
    st.integers(1, 2 * len(PAGE)),
)
def test_no_damage_raises_or_passes_the_cap(
    content_encoding: str, changes: list[tuple[int, int]], cut: int, cap_bytes: int
) -> None:
    body = bytearray(COMPRESSED[content_encoding])
    for at, value in changes:
        body[at % len(body)] = value
    result = decode_body(bytes(body[: len(body) - cut % len(body)]), content_encoding, cap_bytes)
    assert len(result.data) <= cap_bytes
    if result.truncated is None and result.fallback is None and content_encoding in {"gzip", "zstd"}:
        assert result.data == PAGE
