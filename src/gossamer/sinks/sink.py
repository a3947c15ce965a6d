"""What every sink is: it takes pages, and its files can be cut back to any boundary that it was asked to mark.

A sink's file is called `<run>-<parser>-<serial>.<kind>.open` while it is written, and loses the `.open` when it is
complete and committed. So an open file belongs to one parser, by its name, and nobody else touches it.
"""

import os
import re
from pathlib import Path
from typing import Protocol

import msgspec

from gossamer.errors import GossamerError

OPEN_SUFFIX = ".open"
_OPEN_NAME = re.compile(r"\d+-(.+)-\d+\.[a-z.]+\.open")


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a page. The order of the fields is the order of the keys in a line of JSON."""

    url: str
    site: str
    host: str
    depth: int
    """Links between a seed and this page."""
    hops: int
    """Redirects that led here since the last page or seed."""
    status: int
    fetched_at: float
    """When the request began, in seconds since 1970."""
    address: str
    """The numeric address that answered."""
    is_verified: bool
    """Whether the certificate was verified; false without TLS."""
    media_type: str
    """As the server says, in lower case and without parameters; empty if it says nothing."""
    charset: str
    truncated: str
    """Why the body is not whole; empty if it is."""
    received_bytes: int
    """Of the body, in its content encoding."""
    decoded_bytes: int
    title: str
    description: str
    language: str
    canonical: str | None
    robots: tuple[str, ...]
    """The directives that are meant for us, of the page and of its headers."""
    noindex: bool
    nofollow: bool
    links: int
    """How many were found."""
    text: str | None
    """None where it was not computed."""
    main_text: str | None


class OpenFile(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far an open file counts. A complete one gets no more bytes, and its final name at the commit."""

    path: str
    """Below the data directory, with its `.open`."""
    length_bytes: int
    is_complete: bool = False

    @property
    def final_path(self) -> str:
        return self.path.removesuffix(OPEN_SUFFIX)


#: All open files of one sink, as they were at a boundary between two segments.
Mark = tuple[OpenFile, ...]


class Sink(Protocol):
    """Where finished pages go. The parser writes to it; the committer alone calls the rest.

    It appends to open files of its own, and never renames one: a final name is the commit's to give.
    """

    def write(self, record: PageRecord) -> None:
        """If it raises OSError, the record was not taken: call it again when there is room."""

    def mark(self) -> Mark:
        """Hand everything to the system, and say how long the files are. A file may become complete only here."""

    def rollback(self, mark: Mark) -> None:
        """Take back what was written since the mark: the last one, or the last that was committed."""

    def after_commit(self, mark: Mark) -> None:
        """The complete files of this mark have their final names, and are not the sink's any more."""


def owner_of(name: str) -> str | None:
    """The parser that an open file belongs to, by the file's name; None if it is no open file."""
    match = _OPEN_NAME.fullmatch(name)
    return match[1] if match else None


def cut(path: Path, length_bytes: int) -> None:
    """Take away what is beyond a length. A file that is shorter was tampered with: padding it would hide that."""
    size_bytes = path.stat().st_size
    if size_bytes < length_bytes:
        raise GossamerError(
            f"{path} is {size_bytes} bytes long, and {length_bytes} were written to it for good:"
            " something else has cut it. Restore it, or move it away to go on without its pages"
        )
    if size_bytes > length_bytes:
        os.truncate(path, length_bytes)


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """One call may write less than it was given, as when the disk is about to be full."""
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(descriptor, view[written:])
