"""Files that are given as seed files and are something else; their beginning tells, so the answer is one line."""

import re

_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: Two fields or a quoted one, where neither a scheme nor a path before it says that the comma is part of a URL; or the
#: name of a column alone.
_TABLE = re.compile(
    r"(?!(?:[a-z][a-z0-9+.-]*://|[^\s,;/?]+\.[^\s,;/?]*[/?])).*[,;\t]\s*\S|\""
    r"|(?:url|domain|host|hostname|website|site|link|address)s?\Z",
    re.IGNORECASE,
)


def what_is_no_text(start: bytes) -> str | None:
    """What is wrong with a file that begins so; None if it may be UTF-8 text."""
    if start.startswith(_BYTE_ORDER_MARKS):
        return "it is UTF-16 text; save it as UTF-8, such as: iconv -f UTF-16 -t UTF-8 FILE"
    if b"\0" in start:
        return "it is no UTF-8 text: there are NUL bytes in it, as in UTF-16 text, a spreadsheet or an archive"
    return None


def is_table(line: str) -> bool:
    """Whether the first line that is no comment is one of a CSV file, or the header of one."""
    return _TABLE.match(line.partition("#")[0].strip("\ufeff \t\r\n")) is not None
