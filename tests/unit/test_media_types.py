"""What a body is by how it begins, and by what it was read as."""

import gzip

import pytest

from gossamer.config import Settings
from gossamer.parse.page import SNIFFED_BYTES, binary_type, text_type
from gossamer.parse.record import read_answer
from gossamer.records import Answer

XHTML = b"http://www.w3.org/1999/xhtml"
STRICT = b'"-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd"'


def detected(body: bytes, content_type: str = "text/html", content_encoding: str = "") -> str:
    headers = [(b"Content-Type", content_type.encode()), (b"Content-Encoding", content_encoding.encode())]
    given = tuple((name, value) for name, value in headers if value)
    answer = Answer("http://a.test/", 0.0, b"", b"HTTP/1.1 200 OK", 200, given, body)
    return read_answer(answer, Settings()).record.media_type_detected


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"%PDF-1.7\n", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/vnd.wave"),
        (b"RIFF\x24\0\0\0AVI LIST", "video/x-msvideo"),
        (b"BM\x46\n\0\0\0\0\0\0\x36", "image/bmp"),
        (b"\0\0\1\0\1\0\x10\x10", "image/vnd.microsoft.icon"),
        (b"ID3\3\0\0\0", "audio/mpeg"),
        (b"OggS\0\2\0\0", "application/ogg"),
        (b"MThd\0\0\0\6\0\1", "audio/midi"),
        (b"\0\0\0\x20ftypisom\0\0\2\0", "video/mp4"),
        (b"\0\0\1\0ftypmp42", "video/mp4"),
        (b"\0\0\0\x1cftypM4A \0", "audio/mp4"),
        (b"\0\0\0\x14ftypqt  \0", "video/quicktime"),
        (b"\0\0\0\x14ftyp3gp4\0", "video/3gpp"),
        (b"\0\0\0\x1cftypavif\0", "image/avif"),
        (b"\0\0\0\x1cftypheic\0", "image/heic"),
        (b"\x1aE\xdf\xa3\x9fB\x86", "application/x-matroska"),
        (b"wOFF\0\1\0\0", "font/woff"),
        (b"wOF2OTTO", "font/woff2"),
        (b"OTTO\0\r", "application/x-font-otf"),
        (b"\0\1\0\0\0\x0f", "application/x-font-ttf"),
        (gzip.compress(b"x", mtime=0), "application/gzip"),
        (b"PK\3\4\x14\0", "application/zip"),
        (b"Rar!\x1a\7\0", "application/x-rar-compressed"),
        (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    ],
)
def test_a_binary_format_is_known_by_its_first_bytes_whatever_it_is_called(body: bytes, name: str) -> None:
    assert binary_type(body) == name
    assert [detected(body, label) for label in ("text/html", "text/plain", "image/x-unheard-of", "")] == [name] * 4


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"<!DOCTYPE html><html><body>", "text/html"),
        (b"no tag at all", "text/html"),
        (b'<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN">', "text/html"),
        (b"<!DOCTYPE html PUBLIC " + STRICT + b"><html>", "application/xhtml+xml"),
        (b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC ' + STRICT + b">", "application/xhtml+xml"),
        (b'\xef\xbb\xbf\n<html lang="en" xmlns="' + XHTML + b'">', "application/xhtml+xml"),
        (b"<!-- " + XHTML + b" --><html><p>", "text/html"),
        (b"<html><a href='" + XHTML + b"'>", "text/html"),
        (b" " * SNIFFED_BYTES + b'<html xmlns="' + XHTML + b'">', "text/html"),
        (b'<?xml version="1.0"?><html><p>', "text/html"),
        (b'<?xml version="1.0"?><rss version="2.0">', "application/xml"),
        (b' {"a": [1]}', "application/json"),
        (b'[ {"a": 1}]', "application/json"),
        (b"{not json}", "text/html"),
        (b"[1] a note", "text/html"),
        ("<html>".encode("utf-16"), "text/html"),
        (b"", ""),
    ],
)
def test_a_page_is_html_unless_it_begins_like_something_else(body: bytes, name: str) -> None:
    assert detected(body) == name
    assert detected(gzip.compress(body, mtime=0), content_encoding="gzip") == name


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"words", "text/plain"),
        (b"", ""),
        (b"<html><p>", "text/html"),
        (b'<html xmlns="' + XHTML + b'">', "application/xhtml+xml"),
        (b'<?xml version="1.0"?><feed>', "application/xml"),
        (b'{"a": 1}', "application/json"),
        (b"a < b", "text/plain"),
    ],
)
def test_plain_text_is_plain_text_unless_it_begins_like_something_else(body: bytes, name: str) -> None:
    assert detected(body, "text/plain; charset=utf-8") == name
    # What is read as nothing is nothing that is known, with the same exceptions.
    assert text_type(body, "") == ("" if name == "text/plain" else name)
