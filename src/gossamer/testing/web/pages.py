"""The bytes of a page, in any content encoding, at the price of its links alone.

A page is filler that many share, and then its own part: heading and links. The filler is compressed once, up to a byte
boundary. In gzip the own part follows as deflate blocks of its own, in brotli as an uncompressed meta-block, so the
whole is one ordinary stream. The filler has to come first: what is already coded may not refer to what varies.
"""

import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from xml.sax.saxutils import escape

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import msgspec
from isal import isal_zlib

from gossamer.testing.web.filler import filler
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hrefs import as_attribute
from gossamer.testing.web.sites import Site, draws

#: Size classes are the middles of as many equal parts of the distribution: with 64 the mean is 5 % below the true one.
_SIZE_CLASSES = 64
#: Fewer where few pages need them: each class is held in memory in three encodings.
_RARE_SIZE_CLASSES = 8
#: A crawler may parse the first MiB only, and the links stand at the end.
_MOST_BYTES = 1_000_000
#: Of a page's own part, on average; so much less filler is needed.
_OWN_BYTES = 7_000

#: Label, Python codec, whether the Content-Type header names it (or else a `meta` element), pages in 64 with it.
_CHARSETS = (
    ("utf-8", "utf-8", True, 36),
    ("utf-8", "utf-8", False, 16),
    ("iso-8859-1", "cp1252", True, 4),
    ("windows-1252", "cp1252", False, 4),
    ("shift_jis", "shift_jis", False, 3),
    # By its byte order mark: no meta element can be read before the encoding is known.
    ("utf-16", "utf-16-le", True, 1),
)
_CHARSET_OF = tuple(number for number, charset in enumerate(_CHARSETS) for _ in range(charset[3]))

_GZIP_START = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
_BROTLI_LAST = b"\x03"
#: The longest meta-block whose length fits four nibbles, as its header below has it.
_BROTLI_BLOCK_BYTES = 65_536

#: The texts of links repeat; only the paths are the page's own.
_TEXTS = (
    *("Read more", "Details &amp; prices", "The whole story", "Next", "Opening hours", "Map", "Photographs", "Archive"),
    *("A letter to the editor", "Terms of use", "Part two", "Comments", "Over there", "Sources", "Notes", "Calendar"),
    *("<b>Bold</b> claims", "Contact", "Index", "Who we are"),
)
#: Between two links: the end of one and the start of the next.
_BETWEEN = tuple(f'">{text}</a></li>\n<li class="item-{number % 5}"><a href="' for number, text in enumerate(_TEXTS))

#: The first week of February 2025, which began with a Saturday: one date is as good as another.
_DATES = tuple(
    f"{day}, {number:02d} Feb 2025 08:15:30 GMT"
    for number, day in enumerate(("Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"), start=1)
)

FILES = {
    ".pdf": b"%PDF-1.4\n" + b"% a document of no pages\n" * 80 + b"%%EOF\n",
    ".jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(range(256)) * 8 + b"\xff\xd9",
    ".zip": b"PK\x05\x06" + bytes(18),
    ".png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
}


class Filler(msgspec.Struct, frozen=True, gc=False):
    """The shared part of a page in each encoding, ready to be continued."""

    content_type: str
    codec: str
    plain: bytes
    deflated: bytes
    brotli: bytes
    checksum: int


class Pages:
    """Renders the pages of one web. Holds the fillers needed so far: some 30 MB in the end, however many sites."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._fillers: dict[tuple[int, int], Filler] = {}

    def page(self, site: Site, number: int, headers: Mapping[str, str]) -> tuple[str, bytes]:
        """Header lines and body for a client that sent `headers`; no body if it has the page already."""
        look, size = draws(2, self._web.seed, site.index, number, "page")
        tag = f'W/"{self._web.seed:x}-{site.index:x}-{number:x}"'
        date = _DATES[look % len(_DATES)]
        validators = f"ETag: {tag}\r\nLast-Modified: {date}\r\n"
        if "if-none-match" in headers:
            if tag in headers["if-none-match"]:
                return validators, b""
        elif headers.get("if-modified-since") == date:
            return validators, b""
        charset = _CHARSET_OF[look >> 8 & 63]
        classes = _SIZE_CLASSES if charset < 2 else _RARE_SIZE_CLASSES
        shared = self._filler(charset, (size >> 8) % classes)
        own = self.own_part(site, number).encode(shared.codec, "xmlcharrefreplace")
        encoding = accepted_encoding(headers.get("accept-encoding", ""), self._web.encodings)
        lines = f"Content-Type: {shared.content_type}\r\nVary: Accept-Encoding\r\n{validators}"
        if encoding == "gzip":
            return f"{lines}Content-Encoding: gzip\r\n", gzipped(shared, own)
        if encoding == "br":
            return f"{lines}Content-Encoding: br\r\n", brotlied(shared, own)
        return lines, shared.plain + own

    def own_part(self, site: Site, number: int) -> str:
        """What differs from page to page, at the end of each."""
        links = self._web.links_of(site, number)
        count = len(links)
        parts = [""] * (2 * count)
        parts[::2] = [link if isinstance(link, str) else as_attribute(link[0]) for link in links]
        turn = number % len(_BETWEEN)
        parts[1::2] = (_BETWEEN[turn:] + _BETWEEN * (count // len(_BETWEEN) + 1))[:count]
        # Otherwise it would open a link that does not come.
        parts[-1] = '">Last</a></li>\n'
        markup = "".join(parts)
        return (
            f'<article id="own"><h1>Page {number} of {site.name}</h1>\n'
            f'<ul class="links"><li class="first"><a href="{markup}</ul></article>\n</div></body></html>\n'
        )

    def _filler(self, charset: int, size_class: int) -> Filler:
        found = self._fillers.get((charset, size_class))
        if found is None:
            found = self._fillers[charset, size_class] = self._make_filler(charset, size_class)
        return found

    def _make_filler(self, charset: int, size_class: int) -> Filler:
        label, codec, in_header, _ = _CHARSETS[charset]
        classes = _SIZE_CLASSES if charset < 2 else _RARE_SIZE_CLASSES
        deviation = NormalDist().inv_cdf((size_class + 0.5) / classes)
        size = int(self._web.median_bytes * 2.718281828459045 ** (self._web.size_sigma * deviation))
        size = min(size, _MOST_BYTES) - _OWN_BYTES
        text = filler(
            draws(1, self._web.seed, charset, size_class, "filler")[0],
            size // 2 if codec == "utf-16-le" else size,
            charset=None if in_header else label,
            language="ja" if label == "shift_jis" else "fr",
        )
        plain = text.encode(codec, "xmlcharrefreplace")
        if codec == "utf-16-le":
            plain = b"\xff\xfe" + plain
        deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        squeeze = brotli.Compressor(quality=5)
        return Filler(
            content_type=f"text/html; charset={label}" if in_header else "text/html",
            codec=codec,
            plain=plain,
            deflated=_GZIP_START + deflate.compress(plain) + deflate.flush(zlib.Z_FULL_FLUSH),
            brotli=squeeze.process(plain) + squeeze.flush(),
            checksum=zlib.crc32(plain),
        )


def gzipped(shared: Filler, own: bytes) -> bytes:
    """One gzip member. The own part is compressed without a look back into the filler."""
    length = len(shared.plain) + len(own)
    trailer = struct.pack("<II", zlib.crc32(own, shared.checksum), length & 0xFFFFFFFF)
    return b"".join((shared.deflated, isal_zlib.compress(own, 1, -zlib.MAX_WBITS), trailer))


def brotlied(shared: Filler, own: bytes) -> bytes:
    """One brotli stream. The own part stands in it as it is (RFC 7932 §9.2, ISUNCOMPRESSED)."""
    parts = [shared.brotli]
    for start in range(0, len(own), _BROTLI_BLOCK_BYTES):
        block = own[start : start + _BROTLI_BLOCK_BYTES]
        # ISLAST 0, MNIBBLES 0 (four of them), MLEN - 1 in 16 bits, ISUNCOMPRESSED 1, and zeros up to the next byte.
        parts += [((len(block) - 1) << 3 | 1 << 19).to_bytes(3, "little"), block]
    parts.append(_BROTLI_LAST)
    return b"".join(parts)


@lru_cache(maxsize=256)
def accepted_encoding(header: str, offered: tuple[str, ...] = ("br", "gzip")) -> str:
    """The first of those offered that a client accepts, or nothing."""
    accepted = {}
    for item in header.lower().split(","):
        name, _, weight = item.partition(";")
        accepted[name.strip()] = weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    for name in offered:
        if accepted.get(name, accepted.get("*", False)):
            return name
    return ""


def sitemap(site: Site) -> bytes:
    """Lists open pages that links lead to as well; at most a thousand, all on the site's own host."""
    urls = (site.url(number) for number in range(min(site.open_pages, 1_000)) if site.host(number) == site.name)
    rows = "".join(f"<url><loc>{escape(url)}</loc></url>\n" for url in urls)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</urlset>\n'
    ).encode()
