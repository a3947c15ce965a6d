"""What every sink is: it takes what became of URLs, and can go back to any boundary that it was asked to mark.

A sink's file is called `<name>.<parser>.open` while it is written, and gets `<name>` when it is complete and committed.
So an open file belongs to one parser, by its name, and nobody else touches it.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Protocol

import msgspec

from gossamer.disk import sync
from gossamer.errors import GossamerError
from gossamer.records import Answer, Outcome, Reason
from gossamer.url import Url

_BASE32 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".ljust(256)
#: The lower half of every 160, 80, 40, 20 and 10 bits, when each five take the room of eight; and how far the upper
#: half moves.
_HALVINGS = tuple(
    (sum(((1 << half) - 1) << place for place in range(0, 256, half * 16 // 5)), half * 3 // 5)
    for half in (80, 40, 20, 10, 5)
)

OPEN_SUFFIX = ".open"
_OPEN_NAME = re.compile(r"(.+)\.([A-Za-z0-9_-]+)\.open")


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a page; the facts of its answer are the outcome's."""

    url: Url
    media_type: str
    """As the server says, in lower case and without parameters; empty if it says nothing."""
    media_type_detected: str
    """As the body begins; empty if it begins like nothing known."""
    charset: str
    truncated: str
    """Why what was read is not whole; empty if it is."""
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
    text: bytes | None
    """UTF-8, without control characters, as the other one; None where it was not computed."""
    main_text: bytes | None


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where an answer stands in the archive."""

    file: str
    """Below the data directory, by its final name."""
    offset: int
    length: int


class Entry(msgspec.Struct):
    """One outcome on its way through the sinks, which take it in their order: the archive first, to say where it is."""

    outcome: Outcome
    reason: Reason
    """What it ends as: that of the outcome, unless its page could not be parsed."""
    page: PageRecord | None = None
    place: Place | None = None
    """Of its answer, if that is archived."""
    robots_places: tuple[Place | None, ...] = ()
    """Of the answers in `outcome.robots`, in their order."""
    _digest: str = ""

    @property
    def digest(self) -> str:
        """Of the body as received; computed once for all sinks."""
        if not self._digest and self.outcome.answer is not None:
            self._digest = body_digest(self.outcome.answer)
        return self._digest


def body_digest(answer: Answer) -> str:
    """As archives have it: SHA-1 in base 32, which names a body and secures nothing."""
    return base32(hashlib.sha1(answer.body, usedforsecurity=False).digest())


def base32(digest: bytes) -> str:
    """Of the 20 bytes of a SHA-1 (RFC 4648 §6), in half of the time that the standard library takes.

    160 bits are drawn apart, by halves, until each five of them have a byte of their own.
    """
    bits = int.from_bytes(digest)
    for mask, shift in _HALVINGS:
        low = bits & mask
        bits = low | (bits ^ low) << shift
    return bits.to_bytes(32).translate(_BASE32).decode()


class OpenFile(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far an open file counts. A complete one gets no more bytes, and its final name at the commit."""

    path: str
    """Below the data directory, with its `.open`."""
    length_bytes: int
    is_complete: bool = False

    @property
    def final_path(self) -> str:
        match = _OPEN_NAME.fullmatch(self.path)
        if match is None:
            raise GossamerError(f"{self.path!r} is not the name of an open file")
        return match[1]


class Prepared(msgspec.Struct, frozen=True):
    """What a commit must name of one sink."""

    files: tuple[OpenFile, ...] = ()
    """All of its open files; all that was written is in them."""
    replaced: tuple[str, ...] = ()
    """Files whose content is in one of them too, and which go when that has its name. Below the data directory."""


#: A boundary between two segments, in a sink's own numbers. The same numbers mean the same place.
Mark = tuple[int, ...]


class Sink(Protocol):
    """Where finished outcomes go. The parser calls `write` and `flush`, the committer alone the rest.

    It appends to open files of its own, and never renames one: a final name is the commit's to give. Whatever raises
    OSError may be called again when there is room, and has then lost nothing and doubled nothing.
    """

    def write(self, entry: Entry) -> None:
        """Takes it, in memory. Never raises OSError."""

    def flush(self) -> None:
        """Hand to the system what has become too much for the memory. May raise OSError."""

    def mark(self) -> Mark:
        """The boundary at which it stands. May raise OSError."""

    def rollback(self, mark: Mark) -> None:
        """Take back what was written since: the last mark, or the one at which the last commit was made."""

    def prepare(self) -> Prepared:
        """For a commit: hand everything to the system. A file may become complete only here. May raise OSError."""

    def after_commit(self) -> None:
        """What was prepared last counts: its complete files have their names, and are not the sink's any more."""


def open_name(final: str, parser: str) -> str:
    return f"{final}.{parser}{OPEN_SUFFIX}"


def owner_of(name: str) -> str | None:
    """The parser that an open file belongs to, by the file's name; None if it is no open file."""
    match = _OPEN_NAME.fullmatch(name)
    return match[2] if match else None


def cut(path: Path, length_bytes: int) -> None:
    """Take away what is beyond a length. A file that is shorter was tampered with: padding it would hide that.

    What is taken away does not come back after a power loss: the file may get its final name next.
    """
    size_bytes = path.stat().st_size
    if size_bytes < length_bytes:
        raise GossamerError(
            f"{path} is {size_bytes} bytes long, and {length_bytes} were written to it for good:"
            " something else has cut it. Restore it, or move it away to go on without its pages"
        )
    if size_bytes > length_bytes:
        os.truncate(path, length_bytes)
        sync(path)


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """One call may write less than it was given, as when the disk is about to be full."""
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(descriptor, view[written:])
