"""From the bytes of a page to its text: which character encoding, by whose word, and the decoding itself.

The order is that of the HTML standard: a byte-order mark, the Content-Type header, a `<meta>` at the start of the page.
Most pages end there. For the rest it is UTF-8 if the bytes are, then a `<meta>` that came late, then a guess by letter
frequencies, then windows-1252, which is what the standard falls back to.

Names and decoders are those of the standard, not Python's codecs of the same name, which differ from them in many
places. Bytes that mean nothing become U+FFFD; no bytes and no label raise anything.
"""

# Python loads a codec at its first use, when there may be no descriptor left to open its file: a parser would die of
# its first page in UTF-16. The other decoders of the standard are in memory with turbohtml.
import encodings.utf_16_be
import encodings.utf_16_le  # noqa: F401 (see above)
import re
from functools import lru_cache
from typing import Final, Literal

import msgspec
import turbohtml
from turbohtml.detect import detect  # importing it registers the decoders of the standard as codecs "whatwg-…"

Source = Literal["bom", "header", "meta", "detected", "default"]

#: How far the standard looks for a declaration before it begins to parse.
PRESCAN_BYTES: Final = 1024

#: A browser meets a later declaration while it parses, and starts again. This much keeps a hostile scan under 3 ms.
LATE_META_BYTES: Final = 16 << 10

#: Guessing costs 80 us per KiB, so it is shown this much, from the first byte that speaks against UTF-8.
DETECT_BYTES: Final = 4 << 10

#: Broken pieces that a UTF-8 page may have per byte of whole sequences: pages cut in mid-letter, by us or by a careless
#: template. Legacy text read as UTF-8 has at least two (Chinese and Korean), mostly more than fifty.
_BROKEN_PER_WHOLE: Final = 1 / 4
_NEARLY_BYTES: Final = 8 << 10  # on either side of the first broken piece

_FALLBACK: Final = "windows-1252"
_LONGEST_LETTER: Final = 4  # bytes, in gb18030
_LONGEST_LABEL: Final = 32  # the standard's longest has 19 characters
_LABELS: Final = 256  # remembered: the standard has 228, and most pages one of three
_SPACE: Final = "\t\n\f\r "

_MARKS: Final = ((b"\xef\xbb\xbf", "UTF-8"), (b"\xff\xfe", "UTF-16LE"), (b"\xfe\xff", "UTF-16BE"))
_XML_UTF_16: Final = ((b"<\0?\0x\0", "UTF-16LE"), (b"\0<\0?\0x", "UTF-16BE"))

_HEADER_CHARSET: Final = re.compile(r"(?:^|[;,\s])charset\s*=\s*[\"']?([^\s;,\"']+)", re.IGNORECASE | re.ASCII)
_CONTENT_CHARSET: Final = re.compile(
    rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r ;\"'][^\t\n\f\r ;]*))", re.IGNORECASE
)
_XML_CHARSET: Final = re.compile(rb"<\?xml[^>]*?encoding[\t\n\f\r ]*=[\t\n\f\r ]*[\"']([^\"'>]*)[\"']")

#: The constructs that the prescan steps over or into: a comment, a meta tag, another tag, other markup.
_MARKUP: Final = re.compile(rb"<(?:(!--)|(meta(?=[\t\n\f\r /]))|(/?[a-z][^\t\n\f\r >]*)|[!/?])", re.IGNORECASE)
#: A name, then perhaps an equals sign, then its value; group 2 without a value is a quote that never closes.
_ATTRIBUTE: Final = re.compile(
    rb"[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r /=>]*+)"
    rb"(?:[\t\n\f\r ]*+(=)[\t\n\f\r ]*+(\"[^\"]*\"|'[^']*'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+|(?=>))?)?"
)
#: Whether a late declaration is worth looking for at all: a search at a hundredth of the price of a prescan.
_LATE_META: Final = re.compile(rb"<meta[\t\n\f\r /][^<>]*charset", re.IGNORECASE)


class Text(msgspec.Struct, frozen=True):
    """A page's text. `encoding` is a name of the Encoding standard, `lossy` whether the text has U+FFFD for bad bytes.

    Made by `decode_text` for the HTML parser, which is given `text` and never sees bytes.
    """

    text: str
    encoding: str
    source: Source
    lossy: bool = False


def decode_text(data: bytes, content_type: str | None) -> Text:
    """Decode a page; `content_type` is the header's value as received."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding, "bom")
    if content_type and (found := _HEADER_CHARSET.search(content_type)):
        declared = encoding_for_label(found[1])
        if declared is not None:
            return _decoded(data, declared, "header")
    declared = prescan(data[:PRESCAN_BYTES])
    if declared is not None:
        return _decoded(data, declared, "meta")
    return _undeclared(data)


@lru_cache(maxsize=_LABELS)
def encoding_for_label(label: str) -> str | None:
    """The standard's name of the encoding that a page or header calls `label`, None when it knows no such label."""
    label = label.strip(_SPACE)
    if not label.isascii() or len(label) > _LONGEST_LABEL:
        return None
    try:
        # The label table of the HTML parser; an empty document is its cheapest public form (6 us).
        return turbohtml.parse(b"", encoding=label).encoding
    except LookupError:
        return None


def prescan(head: bytes) -> str | None:
    """The encoding that the start of a page declares for itself: HTML's "prescan a byte stream", with its XML part."""
    for start, encoding in _XML_UTF_16:
        if head.startswith(start):
            return encoding
    lowered = head.lower()
    if b"charset" in lowered:
        encoding_declared = _prescan_tags(head)
        if encoding_declared is not None:
            return encoding_declared
    if lowered.startswith(b"<?xml") and (found := _XML_CHARSET.match(head)):
        return _declared_inside(found[1])
    return None


def _prescan_tags(head: bytes) -> str | None:
    at = 0
    while (markup := _MARKUP.search(head, at)) is not None:
        comment, meta, tag = markup.groups()
        if comment:
            at = head.find(b"-->", markup.start() + 2) + 3  # "<!-->" is a whole comment
            if at < 3:
                return None
        elif meta or tag:
            attributes, at = _attributes(head, markup.end())
            if at < 0:
                return None
            if meta and (encoding := _meta_encoding(attributes)) is not None:
                return encoding
        else:
            at = head.find(b">", markup.end()) + 1
            if not at:
                return None
    return None


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """A tag's attributes, the first of each name, and where they end; -1 when the bytes end before the tag does."""
    attributes: dict[bytes, bytes] = {}
    while (found := _ATTRIBUTE.match(head, at)) is not None:
        name, equals, value = found.groups()
        at = found.end()
        if at == len(head) or (equals and value is None):
            return attributes, -1
        quoted = value is not None and value[:1] in {b'"', b"'"}
        attributes.setdefault(name.lower(), value[1:-1] if quoted else value or b"")
    return attributes, at


def _meta_encoding(attributes: dict[bytes, bytes]) -> str | None:
    if b"charset" in attributes:
        return _declared_inside(attributes[b"charset"])
    if attributes.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    found = _CONTENT_CHARSET.search(attributes.get(b"content", b""))
    return _declared_inside(found[found.lastindex or 0]) if found else None


def _declared_inside(label: bytes) -> str | None:
    encoding = encoding_for_label(label.decode("latin-1"))
    # Whoever could read the declaration byte by byte is not reading UTF-16; the other is the standard's own exception.
    if encoding in {"UTF-16LE", "UTF-16BE"}:
        return "UTF-8"
    return _FALLBACK if encoding == "x-user-defined" else encoding


def _undeclared(data: bytes) -> Text:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        telling = error.start
        if _is_nearly_utf_8(data, telling):
            return _decoded(data, "UTF-8", "detected")
    else:
        if not text.isascii():
            return Text(text, "UTF-8", "detected")
        telling = text.find("\x1b")  # ISO-2022-JP is ASCII to the eye, but for its escapes
    late = prescan(data[:LATE_META_BYTES]) if _LATE_META.search(data, 0, LATE_META_BYTES) else None
    if late is not None:
        return _decoded(data, late, "meta")
    if telling < 0:
        return Text(data.decode("ascii"), _FALLBACK, "default")
    guess = _guess(data, telling)
    return _decoded(data, _FALLBACK, "default") if guess is None else _decoded(data, guess, "detected")


def _is_nearly_utf_8(data: bytes, broken_at: int) -> bool:
    part = data[max(0, broken_at - _NEARLY_BYTES) : broken_at + _NEARLY_BYTES]
    text = part.decode("utf-8", "replace")
    # Each whole sequence makes the text shorter than the bytes by one or more.
    return text.count("\ufffd") <= (len(part) - len(text)) * _BROKEN_PER_WHOLE


def _guess(data: bytes, telling: int) -> str | None:
    start = max(0, telling - 16)  # with the letters before it, which tell Latin languages apart
    part = b" " + data[start : start + DETECT_BYTES]  # what stands in mid-page is no byte-order mark
    # A letter cut in two rules its encoding out. In most encodings "<" and space are never part of one.
    end = max(part.rfind(b"<"), part.rfind(b" "))
    if end > DETECT_BYTES // 2:
        part = part[:end]
    for cut in range(_LONGEST_LETTER):
        match = detect(part[: len(part) - cut])
        if match.confidence > 0 and not (match.encoding == _FALLBACK and part.isascii()):
            return match.encoding
    return None


def _decoded(data: bytes, encoding: str, source: Source) -> Text:
    if encoding == "UTF-8":
        try:
            return Text(data.decode("utf-8"), encoding, source)
        except UnicodeDecodeError:
            return Text(data.decode("utf-8", "replace"), encoding, source, lossy=True)
    text = data.decode(f"whatwg-{encoding}")
    return Text(text, encoding, source, "\ufffd" in text)
