"""Pages that are hard to read: rows 32 to 36."""

import codecs
import gzip
from collections.abc import Iterator
from functools import partial

from gossamer.testing.web.hostile.site import Expected, Place, Site, body, document, streamed

DEPTH = 100_000
ATTRIBUTE_BYTES = 9_000_000
#: In every page that can be read: the link that shows that it was.
LINK = '<a href="/landed">Über</a>'
TEXT = document("Zeichen", f"<p>Übergrößenträger, 漢字</p>{LINK}")


def sites() -> dict[int, Site]:
    return {32: _nested(), 33: _dear(), 34: _charsets(), 35: _controls(), 36: _mistyped()}


def _nested() -> Site:
    def nested(opening: bytes) -> Iterator[bytes]:
        yield b"<!doctype html><title>Deep</title>" + LINK.encode()
        for _ in range(DEPTH // 1000):
            yield opening * 1000
        yield b'<a href="/bottom">the bottom</a>'

    tags = {"div": b"<div>", "table": b"<table><tr><td>", "list": b"<ul><li>", "font": b"<font>", "svg": b"<svg><g>"}
    return {
        f"h32.test/{word}": Place(play=streamed(partial(nested, tag)), expected=(Expected.DONE, Expected.LENGTH))
        for word, tag in tags.items()
    } | _landed("h32.test")


def _dear() -> Site:
    link = LINK.encode()

    def repeated(piece: bytes, times: int) -> Iterator[bytes]:
        yield link
        block = max(1, times // 100)
        for _ in range(0, times, block):
            yield piece * block

    def attribute() -> Iterator[bytes]:
        yield link + b'<p title="'
        for _ in range(ATTRIBUTE_BYTES // 50_000):
            yield b"x" * 50_000
        yield b'">after</p>'

    def comment() -> Iterator[bytes]:
        yield link + b"<!-- never closed "
        yield from repeated(b"<a href=/hidden>- -> --!", 20_000)

    def attributes() -> Iterator[bytes]:
        yield link + b"<p "
        for start in range(0, 100_000, 1000):
            yield b"".join(b"a%d=1 " % number for number in range(start, start + 1000))
        yield b">after</p>"

    pages = {
        "adoption": lambda: repeated(b"<a><i>", 30_000),
        "formatting": lambda: repeated(b"<b><p>", 30_000),
        "foster": lambda: repeated(b"<table><b>", 20_000),
        "attribute": attribute,
        "attributes": attributes,
        "comment": comment,
        "entities": lambda: repeated(b"&notanentity&am", 50_000),
        "unclosed-tags": lambda: repeated(b"<p <p <p <", 50_000),
        "select": lambda: repeated(b"<select><option><b>", 20_000),
        "script": lambda: repeated(b"<script><!--<script>", 20_000),
    }
    return {
        f"h33.test/{word}": Place(play=streamed(make), expected=(Expected.DONE, Expected.LENGTH, Expected.PARSE))
        for word, make in pages.items()
    } | _landed("h33.test")


def _charsets() -> Site:
    western = document("Zeichen", f"<p>Übergrößenträger</p>{LINK}")
    declared = TEXT.replace("<head>", '<head><meta charset="{}">')
    pages: dict[str, tuple[bytes, str | None]] = {
        "wrong": (western.encode("windows-1252"), "text/html; charset=utf-8"),
        "none": (TEXT.encode(), "text/html"),
        "no-type": (TEXT.encode(), None),
        "unknown": (TEXT.encode(), "text/html; charset=x-klingon"),
        "empty": (TEXT.encode(), "text/html; charset="),
        "quotes": (TEXT.encode(), 'text/html; charset="utf-8'),
        "not-a-charset": (western.encode("latin-1"), "text/html; charset=base64"),
        "replacement": (western.encode("ascii", "replace"), "text/html; charset=iso-2022-kr"),
        "conflict": (declared.format("utf-8").encode("shift_jis", "replace"), "text/html; charset=shift_jis"),
        "meta-lies": (declared.format("utf-16").encode(), "text/html"),
        "utf-16": (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "text/html"),
        "utf-16-no-mark": (TEXT.encode("utf-16-be"), "text/html; charset=utf-16be"),
        "utf-32": (codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"), "text/html; charset=utf-32"),
        "two-marks": (codecs.BOM_UTF8 * 2 + TEXT.encode(), "text/html; charset=windows-1252"),
        "mark-disagrees": (codecs.BOM_UTF8 + TEXT.encode(), "text/html; charset=utf-16le"),
        "odd-utf-16": (TEXT.encode("utf-16-le")[:-1], "text/html; charset=utf-16le"),
        "utf-7": (western.encode("utf-7"), "text/html; charset=utf-7"),
    }
    return {
        f"h34.test/{word}": Place(play=body(data, content_type), expected=(Expected.DONE,))
        for word, (data, content_type) in pages.items()
    } | _landed("h34.test")


def _controls() -> Site:
    everything = bytes(range(32)) + b"\x7f" + bytes(range(0x80, 0xA0))
    pages = {
        "nul": TEXT.replace("Zeichen", "Zei\0chen").replace("/landed", "/lan\0ded").encode(),
        "controls": TEXT.encode().replace(b"<p>", b"<p>" + everything),
        "surrogates": TEXT.encode().replace(b"<p>", b"<p>\xed\xa0\x80\xed\xb0\x80&#xD800;&#0;&#x110000;"),
        "only-nul": bytes(100_000),
        "half-a-letter": TEXT.encode() + "Ü".encode()[:1],
    }
    return {
        f"h35.test/{word}": Place(play=body(data), expected=(Expected.DONE,)) for word, data in pages.items()
    } | _landed("h35.test")


def _mistyped() -> Site:
    pdf = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Type /Catalog >>\nendobj\n" + bytes(range(256)) * 20
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(2000)
    markup = TEXT.encode()
    not_html = (Expected.NOT_PARSED,)
    # Downloaded or not by its label; parsed only if it is HTML.
    other = (Expected.MEDIA_TYPE, Expected.DONE)
    pages: dict[str, tuple[bytes, str | None, tuple[Expected, ...]]] = {
        "pdf-as-html": (pdf, "text/html", not_html),
        "image-as-html": (png, "text/html", not_html),
        "gzip-as-html": (gzip.compress(markup, mtime=0), "text/html", not_html),
        "zip-as-html": (b"PK\x03\x04" + bytes(500), "text/html", not_html),
        "html-as-nothing": (markup, None, (Expected.DONE,)),
        "html-as-octets": (markup, "application/octet-stream", other),
        "html-as-image": (markup, "image/png", other),
        "html-as-text": (markup, "text/plain", (Expected.NOT_PARSED, Expected.DONE, Expected.MEDIA_TYPE)),
        "html-as-nonsense": (markup, "html;;; charset", other),
        "type-in-capitals": (markup, "TEXT/HTML;CHARSET=UTF-8", (Expected.DONE,)),
        "nothing-as-html": (b"", "text/html", (Expected.DONE,)),
    }
    return {
        f"h36.test/{word}": Place(play=body(data, content_type), expected=expected)
        for word, (data, content_type, expected) in pages.items()
    } | _landed("h36.test")


def _landed(host: str) -> Site:
    landed = Place(play=body(document("Landed", "").encode()))
    return {f"{host}/landed": landed, f"{host}/bottom": landed}
