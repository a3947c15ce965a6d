"""Pages as one file: written beside its place, and renamed into it when it is whole."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gossamer.errors import UsageError


@contextlib.contextmanager
def written_beside(path: Path, *, may_replace: bool) -> Iterator[Path]:
    """The path to write to; what is there becomes the file at the end, unless something fails."""
    if path.is_dir():
        raise UsageError(f"-o: {str(path)!r} is a directory; name a file")
    if path.exists() and not may_replace:
        raise UsageError(f"-o: {str(path)!r} exists; name another file, or give --force to replace it")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # A new file in any case: in a directory that others can write to, a link of this name could lead elsewhere.
        beside.unlink(missing_ok=True)
        beside.touch(exist_ok=False)
    except OSError as error:
        raise UsageError(f"-o: cannot write {str(path)!r}: {error.strerror or error}") from None
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def page_texts(rows: Iterator[Sequence[object]]) -> Iterator[str]:
    """Of URL, title, main text and text: one entry for each page, which begins with the only line that can look so."""
    for url, title, main_text, text in rows:
        body = "\n".join(
            f" {line}" if line.startswith("==> ") else line for line in str(main_text or text or "").splitlines()
        )
        yield f"==> {url}\n{' '.join(str(title or '').split())}\n\n{body}\n\n"
