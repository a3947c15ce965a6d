"""What the sinks get of a page, and the links that it has: from an answer as it came through the spool.

HTML is parsed; plain text has no links and is its own text; of anything else only the facts of the answer are kept.
What the Content-Type header says decides, unless the body begins like a known format that is no text at all. Where it
names no type, or the one that servers send for what they do not know, the body decides alone: it is HTML if it begins
like it.
"""

import msgspec

from gossamer.config import ParseSettings, Settings
from gossamer.errors import GossamerError
from gossamer.parse.charset import Text, decode_text
from gossamer.parse.decode import decode_body
from gossamer.parse.html import Link, extract
from gossamer.parse.page import SNIFFED_BYTES, Page, begins_like_html, binary_type, read_page, text_type
from gossamer.parse.text import clean, encoded
from gossamer.records import Answer
from gossamer.sinks.sink import PageRecord
from gossamer.url import Refusal, Url, canonicalise

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_PLAIN_TYPE = "text/plain"
_UNKNOWN_TYPE = "application/octet-stream"
#: Longer ones are no media types; RFC 6838 §4.2 allows 127 characters on each side of the slash.
_MAX_TYPE_CHARACTERS = 255


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """All that a parser needs of a page. `links` are as written, in the order of the page; `base` resolves them."""

    record: PageRecord
    base: Url
    links: tuple[Link, ...] = ()


def read_answer(answer: Answer, settings: Settings) -> Reading:
    """Never raises for anything that the page or its headers hold."""
    url = canonicalise(answer.url, None, settings.url)
    if isinstance(url, Refusal):
        raise GossamerError(
            f"{answer.url} was admitted and is no URL under the settings now ({url.reason}):"
            " resume with the settings that the crawl was created with"
        )
    content_type = ", ".join(_values(answer, b"content-type")[:1])
    content_encoding = ", ".join(_values(answer, b"content-encoding"))
    x_robots_tag = _values(answer, b"x-robots-tag")
    media_type = clean(content_type.partition(";")[0].strip().lower())[:_MAX_TYPE_CHARACTERS]
    # The same of which a fetcher has downloaded the start to know whether it is worth the rest.
    is_unlabelled = "/" not in media_type or media_type == _UNKNOWN_TYPE
    if media_type in _HTML_TYPES or (is_unlabelled and _is_html(answer.body, content_encoding)):
        page = read_page(
            answer.body,
            url,
            settings.parse,
            content_type=content_type,
            content_encoding=content_encoding,
            x_robots_tag=x_robots_tag,
        )
    else:
        page = _read_other(
            answer.body,
            url,
            settings.parse,
            content_type=content_type if media_type == _PLAIN_TYPE else None,
            content_encoding=content_encoding,
            x_robots_tag=x_robots_tag,
        )
    facts = page.facts
    canonical = None if facts.canonical is None else canonicalise(facts.canonical, facts.base, settings.url)
    record = PageRecord(
        url=url,
        media_type=media_type,
        media_type_detected=page.media_type,
        charset=page.text.encoding,
        truncated=answer.truncated or page.body.truncated or "",
        decoded_bytes=len(page.body.data),
        title=facts.title,
        description=facts.description,
        language=facts.language,
        canonical=canonical.text if isinstance(canonical, Url) else None,
        robots=facts.robots,
        noindex=facts.noindex,
        nofollow=facts.nofollow,
        links=len(facts.links) + facts.links_left_out,
        text=facts.text,
        main_text=facts.main_text,
    )
    return Reading(record, facts.base, facts.links)


def _read_other(
    received: bytes,
    url: Url,
    settings: ParseSettings,
    *,
    content_type: str | None,
    content_encoding: str,
    x_robots_tag: list[str],
) -> Page:
    """What is no HTML: its headers' facts, and its text if it has a `content_type` (that of plain text)."""
    body = decode_body(received[: settings.max_body_bytes], content_encoding, settings.max_body_bytes)
    facts = extract("", url, with_text=False, x_robots_tag=x_robots_tag)
    binary = binary_type(body.data)
    if content_type is None or binary:
        return Page(body, Text("", "", "default"), facts, binary or text_type(body.data, ""))
    text = decode_text(body.data[: settings.max_parse_bytes], content_type)
    if settings.text:
        facts = msgspec.structs.replace(facts, text=encoded(text.text))
    return Page(body, text, facts, text_type(body.data, _PLAIN_TYPE))


def _is_html(received: bytes, content_encoding: str) -> bool:
    return begins_like_html(decode_body(received, content_encoding, SNIFFED_BYTES).data)


def _values(answer: Answer, name: bytes) -> list[str]:
    """The headers of that name. Their bytes are taken one by one: no value raises, and ours are ASCII."""
    return [value.decode("latin-1") for key, value in answer.headers if key.lower() == name]
