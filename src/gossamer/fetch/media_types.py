"""Whether an answer's body is worth its download: by its label, and where that says nothing by its first bytes.

Only what is *unlabelled* is looked at: no Content-Type, or `application/octet-stream`, which servers send for what they
do not know. Any other label is believed. What a downloaded body really is, its parser decides.
"""

import re

#: So many bytes decide. A page that begins with a longer comment or licence is rare, and an unlabelled one rarer.
SNIFFED_BYTES = 512

_UNKNOWN = b"application/octet-stream"
#: How HTML begins, behind white space and byte-order mark: as the MIME sniffing standard has it.
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<(?:!--|\?xml|(?:!doctype html|html|head|body|title|meta|script|style|iframe|h1|div|font"
    rb"|table|a|br|p|b)[\s>])",
    re.IGNORECASE,
)
#: No text has these (the standard's "binary data bytes").
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def essence(content_type: bytes | None) -> bytes:
    """Type and subtype in lower case, without parameters; empty if there is no such thing in it."""
    found = (content_type or b"").partition(b";")[0].strip().lower()
    return found if b"/" in found else b""


def is_wanted(content_type: bytes | None, wanted: frozenset[bytes], *, is_encoded: bool) -> bool | None:
    """Whether to download; None: its first bytes are to decide.

    Where a content encoding hides those, what has no label is downloaded, and what is labelled as unknown is not.
    """
    named = essence(content_type)
    if _is_listed(named, wanted):
        return True
    if named not in {b"", _UNKNOWN}:
        return False
    return not named if is_encoded else None


def is_wanted_by_start(content_type: bytes | None, wanted: frozenset[bytes], start: bytes) -> bool:
    """The same for what is unlabelled, by its first bytes: HTML, or any text if it has no label at all."""
    if _is_listed(b"text/html", wanted) and _HTML.match(start):
        return True
    return not essence(content_type) and _is_listed(b"text/plain", wanted) and not _BINARY.search(start)


def _is_listed(named: bytes, wanted: frozenset[bytes]) -> bool:
    """By its own name, as `image/*` or as `*/*`, which is also what has no name."""
    return named in wanted or named.partition(b"/")[0] + b"/*" in wanted or b"*/*" in wanted


def declined_type(content_type: bytes | None) -> str:
    """What the server called it, for the log; it may be anything, and of any length."""
    named = essence(content_type)[:100].decode("ascii", "backslashreplace")
    return named or "unlabelled content"
