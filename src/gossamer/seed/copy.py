"""The copy of the seeds in the data directory: one canonical URL a line, whatever they came in."""

import gzip
import io
import logging
import os
import shlex
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from gossamer.config import UrlSettings
from gossamer.disk import sync
from gossamer.errors import UsageError
from gossamer.seed.formats import is_table, what_is_no_text
from gossamer.seed.table_advice import table_advice
from gossamer.seed.typed import with_scheme
from gossamer.url import Refusal, RefusalReason, Url, canonicalise, redacted

_log = logging.getLogger("gossamer.seed")

#: Sixteen times the longest URL that can be set. What a line has beyond it is skipped, so that a file without line ends
#: is not read into memory.
_LONGEST_LINE_BYTES = 1 << 20
#: Enough to see what is wrong with a file. The others are counted.
_LOGGED_BAD_LINES = 20
#: The first of these tell what kind of file it is.
_LOOKED_AT_BYTES = 4096
#: Of a table, below its first line: they tell which column has the URLs.
_LOOKED_AT_LINES = 20
_GZIP_MAGIC = b"\x1f\x8b"
_STDIN = 0


def copy_seeds(urls: Sequence[str], seed_file: str | None, target: Path, settings: UrlSettings) -> int:
    """Write `target`: the URLs that were typed, then those of the file (`-` is standard input); how many there are.

    Memory is bounded however long the file is. `target` appears whole or not at all. A line of the file that is no seed
    is logged and left out, what was typed must be one.
    """
    if not urls and seed_file is None:
        raise UsageError("there is nothing to start from: give URLs, or --seed-file FILE with one on each line")
    temporary = target.with_name(f"{target.name}.part")
    copied = 0
    try:
        with temporary.open("w", encoding="ascii") as copy:
            of_file = () if seed_file is None else _file_seeds(seed_file, settings)
            for url in chain(_typed_seeds(urls, settings), of_file):
                copy.write(f"{url.text}\n")
                copied += 1
            copy.flush()
            os.fsync(copy.fileno())
        temporary.replace(target)
        sync(target.parent)
    except OSError as error:
        raise UsageError(f"{temporary}: cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return copied


def read_seed(text: str, settings: UrlSettings) -> Url | Refusal | None:
    """The URL that a line names, or why it names none; None if it is empty or a comment.

    A `#` begins a comment wherever it stands: what it would cut off a URL is the fragment, which is no part of it.
    """
    text = with_scheme(text.partition("#")[0])
    if not text:
        return None
    if "/" in text or ":" in text:
        return canonicalise(text, None, settings)
    if "@" in text:
        return Refusal(RefusalReason.NOT_A_URL, "an address of a person is no domain")
    return canonicalise(f"https://{text}/", None, settings)


def _typed_seeds(urls: Sequence[str], settings: UrlSettings) -> Iterator[Url]:
    for text in urls:
        if _is_file(text):
            raise UsageError(
                f"{text!r:.200} is a file here; to take the seeds from it, give --seed-file {shlex.quote(text):.200};"
                " if it is meant as a site, write it with https://"
            )
        url = read_seed(text, settings)
        if not isinstance(url, Url):
            detail = "it is empty" if url is None else url.detail
            shown = redacted(text)
            raise UsageError(f"{shown!r:.200} is no seed: {detail}; give a URL or a domain such as example.org")
        yield url


def _is_file(text: str) -> bool:
    if "://" in text:
        return False
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or a null byte in it
        return False


def _file_seeds(file: str, settings: UrlSettings) -> Iterator[Url]:
    seeds = bad_lines = 0
    lines = _lines(file)
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode()
            if not seeds and not bad_lines and is_table(text):
                below = [line.decode(errors="replace") for line in islice(lines, _LOOKED_AT_LINES)]
                advice = table_advice(file, number, [text, *filter(str.strip, below)])
                raise UsageError(f"{file}, line {number}: {text.strip()!r:.100} is a line of a table; {advice}")
            url = read_seed(text, settings)
        except UnicodeDecodeError:
            url = Refusal(RefusalReason.NOT_A_URL, "it is not UTF-8")
        if isinstance(url, Url):
            seeds += 1
            yield url
        elif url is not None:
            bad_lines += 1
            if bad_lines <= _LOGGED_BAD_LINES:
                shown = redacted(line.strip().decode(errors="backslashreplace"))
                _log.warning("%s, line %d: %.200r is no seed: %s", file, number, shown, url.detail)
    if not seeds:
        raise UsageError(f"{file}: no line of it is a seed; write a URL or a domain such as example.org on each line")
    if bad_lines:
        _log.warning("%s: %d lines are no seeds and were left out", file, bad_lines)


def _lines(file: str) -> Iterator[bytes]:
    """The lines of a file, gzipped or not, each cut at the longest that is read."""
    try:
        with _opened(file) as raw:
            is_gzip = raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            stream = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            with stream:
                wrong = what_is_no_text(stream.peek(_LOOKED_AT_BYTES)[:_LOOKED_AT_BYTES])
                if wrong is not None:
                    raise UsageError(f"{file}: {wrong}")
                while line := stream.readline(_LONGEST_LINE_BYTES):
                    yield line
                    while line and not line.endswith(b"\n"):
                        line = stream.readline(_LONGEST_LINE_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{file}: the seeds cannot be read: {error}") from error


def _opened(file: str) -> io.BufferedReader:
    return os.fdopen(_STDIN, "rb", closefd=False) if file == "-" else Path(file).open("rb")
