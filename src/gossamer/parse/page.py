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
#: send them as HTML by mistake. Each has bytes in it that no text has, or a word that no page begins with.
_BINARY_START = re.compile(
    rb"%PDF-|\x89PNG\r\n\x1a\n|GIF8[79]a|\xff\xd8\xff|RIFF.{4}(?:WEBPVP|WAVE|AVI )|BM.{4}\0\0\0\0|\0\0[\x01\x02]\0"
    rb"|ID3[\x02-\x04]|OggS\0|MThd\0\0\0\x06|\0.{3}ftyp|\x1aE\xdf\xa3|wOF[F2](?:\0\x01\0\0|OTTO|true)|OTTO\0|\0\x01\0\0"
    rb"|\x1f\x8b\x08|PK\x03\x04|Rar!\x1a\x07|7z\xbc\xaf",
    re.DOTALL,
)


class Page(msgspec.Struct, frozen=True):
    """What each step made of the page. `text` holds no more of the body than was parsed; its encoding is empty if
    nothing was."""

    body: Decoded
    text: Text
    facts: Facts


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
    if is_binary(body.data):
        return Page(body, Text("", "", "default"), extract("", url, with_text=False, x_robots_tag=x_robots_tag))
    text = decode_text(body.data[: settings.max_parse_bytes], content_type)
    facts = extract(text.text, url, max_links=settings.max_links, with_text=settings.text, x_robots_tag=x_robots_tag)
    return Page(body, text, facts)


def is_binary(data: bytes) -> bool:
    """Whether it begins like a known format that is no text, whatever it was called."""
    return _BINARY_START.match(data) is not None
