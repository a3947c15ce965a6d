"""Random bytes through everything that reads what the web sends: nothing raises, nothing takes long, caps hold.

Many thousand strings go through URLs, robots.txt, content encodings, charsets and HTML in turn. They are made of
pieces that mean something to one of the parsers, because bytes without any meaning get no further than its first line.
"""

import os
import random
import time
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.config import UrlSettings
from gossamer.fetch import robots
from gossamer.parse.charset import decode_text
from gossamer.parse.decode import decode_body
from gossamer.parse.html import extract
from gossamer.url import Url, canonicalise

#: A hundred thousand take five minutes of a processor: `./check campaign` runs them.
EXAMPLES, FRAGMENTS = (100_000, 40) if "GOSSAMER_TEST_EXAMPLES" in os.environ else (3_000, 20)
#: The dearest strings take a second, on a busy machine too; what is quadratic in anything takes minutes.
LONGEST_CPU_SECONDS = 10.0
CAP_BYTES = 1 << 16

PIECES = [
    # URLs
    *(b"http://", b"https:", b"//", b"\\", b"..", b"%2e", b"%", b"%%34", b"@", b":", b"#", b"?", b"[::1]", b"0x7f.1"),
    *(b"xn--", b";jsessionid=", b"/(S(a))/", b"utm_a=", b"&", "ß。".encode(), b"a.b", b"\t", b"127.1."),
    # robots.txt
    *(b"User-agent:", b"Disallow:", b"Allow: /", b"Crawl-delay: 1e999", b"Sitemap:", b"*", b"$", b"\r", b"\n", b"\0"),
    *(b"gossamer", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"Dissallow /", b"/*a*a*a*$"),
    # HTML and charsets
    *(b"<a href=", b"<base href='", b"<meta charset=", b"<meta name=robots content=", b"<title>", b"<p><font>"),
    *(b"<div>", b"</div>", b"<table>", b"<tr>", b"<select>", b"<svg>", b"<math>", b"<template>", b"<script>", b"<!--"),
    *(b"<![CDATA[", b"<plaintext>", b"&amp", b"&#x110000;", b"&#", b"'", b'"', b">", b"<", b"=", b" ", b"utf-16"),
    *(b"iso-2022-jp", b"\x1b$B", b"<meta http-equiv=refresh content='0;url=", b"<frameset>", b"<b><i>", b"</b>"),
    # content encodings
    *(b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\x78\x9c", b"\x28\xb5\x2f\xfd", zlib.compress(b"a" * 9), b"\x00\xff"),
    *(brotli.compress(b"b" * 99), zstandard.compress(b"c" * 99)),
]
ENCODINGS = ("gzip", "deflate", "br", "zstd", "gzip, br", "deflate, zstd", "x-unknown")
CONTENT_TYPES = (None, "text/html; charset=utf-8", "text/html; charset=shift_jis", "text/html; charset=\ud800")
BASE = canonicalise("http://example.com/a/b")

byte_strings = st.one_of(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=24).map(b"".join),
    st.binary(max_size=200),
)


def through_urls(data: bytes) -> None:
    assert isinstance(BASE, Url)
    for reference in (data.decode("utf-8", "surrogateescape"), data.decode("latin-1")):
        for base in (None, BASE):
            for rules in (UrlSettings(), UrlSettings(strip_session_ids=True, strip_tracking=True)):
                url = canonicalise(reference, base, rules)
                if isinstance(url, Url):
                    assert url.text.isascii()
                    assert len(url.text) <= rules.max_url_length
                    assert canonicalise(url.text, None, rules) == url


def through_robots(data: bytes) -> None:
    parsed = robots.parse(data)
    rules = parsed.for_agent("Gossamer")
    assert rules.verdict("/robots.txt").allowed
    for url in (data.decode("utf-8", "surrogateescape"), "http://example.com/a?b=c"):
        said = rules.verdict(url)
        assert said.allowed or said.line is not None


def through_decoding(data: bytes) -> None:
    for encoding in ENCODINGS:
        assert len(decode_body(data, encoding, CAP_BYTES).data) <= CAP_BYTES
    for content_type in CONTENT_TYPES:
        decode_text(data, content_type).text.encode()


def through_html(data: bytes) -> None:
    assert isinstance(BASE, Url)
    page = extract(decode_text(data, None).text, BASE, max_links=50)
    assert len(page.links) <= 50


STAGES: dict[str, Callable[[bytes], None]] = {
    "urls": through_urls,
    "robots": through_robots,
    "decoding": through_decoding,
    "html": through_html,
}


def through_all(data: bytes) -> None:
    for name, stage in STAGES.items():
        began = time.process_time()
        stage(data)
        spent = time.process_time() - began
        assert spent < LONGEST_CPU_SECONDS, f"{name} took {spent:.1f} s of CPU"


@pytest.mark.timeout(600)
@pytest.mark.long
@settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(byte_strings)
def test_many_thousand_random_strings_do_no_harm(data: bytes) -> None:
    through_all(data)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(FRAGMENTS))
def test_a_megabyte_of_one_repeated_fragment_does_no_harm(seed: int) -> None:
    """What is quadratic in anything shows here: the same few pieces over and over, up to what is parsed of a page."""
    dice = random.Random(seed)
    fragment = b"".join(dice.choices(PIECES, k=dice.randint(1, 4)))
    through_all(fragment * ((1 << 20) // len(fragment)))
