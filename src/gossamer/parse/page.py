"""One page, from the bytes as received to everything that is read of it: the steps of this folder in their order."""

from collections.abc import Iterable

import msgspec

from gossamer.config import ParseSettings
from gossamer.parse.charset import Text, decode_text
from gossamer.parse.decode import Decoded, decode_body
from gossamer.parse.html import Facts, extract
from gossamer.url import Url


class Page(msgspec.Struct, frozen=True):
    """What each step made of the page. `text` holds no more of the body than was parsed."""

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
    text = decode_text(body.data[: settings.max_parse_bytes], content_type)
    facts = extract(text.text, url, max_links=settings.max_links, with_text=settings.text, x_robots_tag=x_robots_tag)
    return Page(body, text, facts)
