"""One page, from the bytes as received to everything that is read of it: the steps of this folder in their order."""

import re
from collections.abc import Iterable

import msgspec

from gossamer.config import ParseSettings
from gossamer.parse.charset import Text, decode_text
from gossamer.parse.decode import Decoded, decode_body
from gossamer.parse.html import Facts, extract
from gossamer.url import Url

#: How images, sounds, films, fonts, archives and PDF begin (https://mimesniff.spec.whatwg.org has most of it): servers
#: send them as HTML by mistake. Each has bytes in it that no text has, or a word that no page begins with. The names
#: are those that Apache Tika has for them, and with it the index of Common Crawl.
_BINARY_FORMATS = (
    ("application/pdf", rb"%PDF-"),
    ("image/png", rb"\x89PNG\r\n\x1a\n"),
    ("image/gif", rb"GIF8[79]a"),
    ("image/jpeg", rb"\xff\xd8\xff"),
    ("image/webp", rb"RIFF.{4}WEBPVP"),
    ("audio/vnd.wave", rb"RIFF.{4}WAVE"),
    ("video/x-msvideo", rb"RIFF.{4}AVI "),
    ("image/bmp", rb"BM.{4}\0\0\0\0"),
    # These have the length of their first part before their name, so they stand before others that begin with zeros.
    ("audio/mp4", rb"\0.{3}ftypM4[AB]"),
    ("image/heic", rb"\0.{3}ftyphei[cx]"),
    ("image/avif", rb"\0.{3}ftypavi[fs]"),
    ("video/quicktime", rb"\0.{3}ftypqt  "),
    ("video/3gpp", rb"\0.{3}ftyp3g[egps]"),
    ("video/mp4", rb"\0.{3}ftyp"),
    ("image/vnd.microsoft.icon", rb"\0\0[\x01\x02]\0"),
    ("audio/mpeg", rb"ID3[\x02-\x04]"),
    ("application/ogg", rb"OggS\0"),
    ("audio/midi", rb"MThd\0\0\0\x06"),
    ("application/x-matroska", rb"\x1aE\xdf\xa3"),
    ("font/woff", rb"wOFF(?:\0\x01\0\0|OTTO|true)"),
    ("font/woff2", rb"wOF2(?:\0\x01\0\0|OTTO|true)"),
    ("application/x-font-otf", rb"OTTO\0"),
    ("application/x-font-ttf", rb"\0\x01\0\0"),
    ("application/gzip", rb"\x1f\x8b\x08"),
    ("application/zip", rb"PK\x03\x04"),
    ("application/x-rar-compressed", rb"Rar!\x1a\x07"),
    ("application/x-7z-compressed", rb"7z\xbc\xaf"),
)
_BINARY_START = re.compile(b"|".join(b"(%b)" % start for _, start in _BINARY_FORMATS), re.DOTALL)

#: How XML, JSON and HTML begin, the last as in the rows of that standard.
_TEXT_START = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*+(?:(<\?xml)|((?:\[\s*+)?\{\s*+\")"
    rb"|(<(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[ >])))",
    re.IGNORECASE,
)
_XML, _JSON, _HTML = 1, 2, 3
_HTML_ROOT = re.compile(rb"<(?:!doctype\s+)?html[\s>]", re.IGNORECASE)
_XHTML_ROOT = re.compile(
    rb"<!doctype\s+html\s+public\s+[\"']-//W3C//DTD XHTML"
    rb"|<html\s[^<>]*?xmlns\s*=\s*[\"']?http://www\.w3\.org/1999/xhtml",
    re.IGNORECASE,
)
#: How much of a body that standard looks at.
SNIFFED_BYTES = 1445


class Page(msgspec.Struct, frozen=True):
    """What each step made of the page. `text` holds no more of the body than was parsed; its encoding is empty if
    nothing was."""

    body: Decoded
    text: Text
    facts: Facts
    media_type: str
    """As the body begins, or what it was read as; empty if neither says anything."""


def read_page(
    received: bytes,
    url: Url,
    settings: ParseSettings,
    *,
    content_type: str | None = None,
    content_encoding: str = "",
    x_robots_tag: Iterable[str] = (),
) -> Page:
    """Never raises, whatever was received; the last three arguments are the headers of those names."""
    body = decode_body(received[: settings.max_body_bytes], content_encoding, settings.max_body_bytes)
    if len(received) > settings.max_body_bytes:
        # The decoder sees only that its stream stops early; that we stopped it is the better reason.
        body = msgspec.structs.replace(body, truncated="length")
    binary = binary_type(body.data)
    if binary:
        return Page(body, Text("", "", "default"), extract("", url, with_text=False, x_robots_tag=x_robots_tag), binary)
    data = body.data[: settings.max_parse_bytes]
    text = decode_text(data, content_type)
    facts = extract(
        text.text,
        url,
        encoded=data if text.encoding == "UTF-8" else None,
        max_links=settings.max_links,
        with_text=settings.text,
        x_robots_tag=x_robots_tag,
    )
    return Page(body, text, facts, text_type(body.data, "text/html"))


def binary_type(data: bytes) -> str:
    """The known format that is no text and that it begins like, whatever it was called; empty if there is none."""
    match = _BINARY_START.match(data)
    return "" if match is None or match.lastindex is None else _BINARY_FORMATS[match.lastindex - 1][0]


def text_type(data: bytes, read_as: str) -> str:
    """Of what is no known binary format: XML, JSON, XHTML or HTML if it begins like it, otherwise what it was read as.

    An empty body is of no type.
    """
    match = _TEXT_START.match(data, 0, SNIFFED_BYTES)
    kind = None if match is None else match.lastindex
    if kind == _JSON:
        return "application/json"
    if kind in {_XML, _HTML} or read_as == "text/html":
        # The two words first: they are found in a moment, or not at all.
        named = data.find(b"/xhtml", 0, SNIFFED_BYTES) >= 0 or data.find(b"DTD XHTML", 0, SNIFFED_BYTES) >= 0
        if named and _XHTML_ROOT.search(data, 0, SNIFFED_BYTES):
            return "application/xhtml+xml"
        if kind == _XML and not _HTML_ROOT.search(data, 0, SNIFFED_BYTES):
            return "application/xml"
        return "text/html" if data else ""
    return read_as if data else ""


def begins_like_html(data: bytes) -> bool:
    """As a browser judges what has no label: XML counts, since most of what is sent so is XHTML."""
    match = _TEXT_START.match(data, 0, SNIFFED_BYTES)
    return match is not None and match.lastindex != _JSON
