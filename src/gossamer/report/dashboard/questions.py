"""What a person searches for, answered by `gossamer explain` in a process of its own: the leader stays small, and goes
on whatever the search costs. The dashboard's server asks, in the thread of a request.
"""

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal
from unicodedata import category

import msgspec

from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.url import Url, canonicalise, redacted

log = logging.getLogger("gossamer.report")

#: Of one call of `explain`. It takes half a second, and some more while the machine is busy.
ANSWER_SECONDS = 30.0
#: Those that wait while one is answered. A person asks one at a time, and some have two windows.
MOST_WAITING = 4
#: A URL that is longer is not in any crawl: max_url_length is far below.
MOST_CHARACTERS = 4096

#: Not `example.org:8080`, which is a host and a port.
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?![0-9])")

_ENDED = "the crawl has ended"

Kind = Literal["url", "site"]
Explain = Callable[[str], object]


class TooManyQuestions(GossamerError):  # noqa: N818 (not a fault)
    """Each is answered in its turn, and there are enough of them already."""


class Question(msgspec.Struct, frozen=True):
    """What was typed, as whole URLs that `explain` takes: the first that the crawl knows is meant."""

    kind: Kind
    urls: tuple[str, ...]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What the page gets."""

    typed: str
    kind: Kind
    explanation: object


def read_question(typed: str) -> Question:
    """Raises UsageError for what cannot be looked for. No URL in it begins with a dash: none can become a flag."""
    text = typed.strip()
    if not text:
        raise UsageError("nothing to look for; give a URL, or a site such as example.org")
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"what is looked for has {len(text)} characters; no URL of a crawl has over {MOST_CHARACTERS}")
    if any(category(character) in {"Cc", "Cs"} for character in text):
        raise UsageError(
            f"{redacted(text)!r:.200} holds a control character; give a URL, or a site such as example.org"
        )
    if _SCHEME.match(text):
        return Question("url", (text,))
    bare = text.lstrip("/\\")
    if any(mark in bare for mark in "/\\?#"):
        return Question("url", (f"https://{bare}", f"http://{bare}"))
    roots = [canonicalise(f"{scheme}://{bare}/") for scheme in ("https", "http")]
    # What is no host goes on as it is: `explain` has the words for it.
    return Question("site", tuple(root.text if isinstance(root, Url) else f"https://{bare}/" for root in roots))


class ExplainCommand:
    """Asks `gossamer explain --json` of one crawl, until `close`. Two threads do not call it at once."""

    def __init__(self, data: Path, command: Sequence[str] = (), *, patience_seconds: float = ANSWER_SECONDS) -> None:
        """`command` is put before the URL."""
        # -P: the directory that we were started in is no place to import from.
        gossamer = (sys.executable, "-P", "-m", "gossamer", "explain", "--json", str(data.resolve()), "--")
        self._command = tuple(command) or gossamer
        self._patience_seconds = patience_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def __call__(self, typed: str) -> Answered:
        question = read_question(typed)
        found: list[dict[str, Any]] = []
        for url in question.urls:
            found.append(self._explain(url))
            if found[-1].get("is_admitted"):
                break
        # The first of equals: https.
        best = max(found, key=_familiarity)
        return Answered(typed=redacted(typed), kind=question.kind, explanation=best)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def _explain(self, url: str) -> dict[str, Any]:
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(_ENDED)
            process = self._process = subprocess.Popen(  # noqa: S603 (no shell, and the URL is an argument of its own)
                [*self._command, url],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # an interrupt from the keyboard is the leader's
            )
        with process:
            try:
                said, complaint = process.communicate(timeout=self._patience_seconds)
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"no answer in {self._patience_seconds:g} seconds; try again later") from None
            finally:
                # Before it is waited for: a number that is free again may be another process's.
                with self._lock:
                    self._process = None
                    if process.returncode is None:
                        process.kill()
                    is_closed = self._is_closed
        if is_closed:
            raise StoreUnavailable(_ENDED)
        return _result(process.returncode, said, complaint)


class OneAtATime:
    """Questions are answered one after the other; who comes while many wait is sent away."""

    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._places = threading.BoundedSemaphore(1 + MOST_WAITING)
        self._turn = threading.Lock()

    def ask(self, typed: str) -> object:
        if not self._places.acquire(blocking=False):
            raise TooManyQuestions("other searches are being answered; try again in a moment")
        try:
            with self._turn:
                return self._explain(typed)
        finally:
            self._places.release()


def _result(code: int, said: bytes, complaint: bytes) -> dict[str, Any]:
    words = complaint.decode(errors="replace").strip().removeprefix("gossamer: ")
    if code == UsageError.exit_code:
        raise UsageError(words)
    if code == StoreUnavailable.exit_code:
        raise StoreUnavailable(words)
    if code:
        log.error("explain ended with %d: %s", code, words)
        raise GossamerError("the search failed; the log file of the leader has the reason")
    return msgspec.json.decode(said, type=dict[str, Any])


def _familiarity(explanation: dict[str, Any]) -> tuple[bool, bool]:
    """How much the crawl had to do with it."""
    robots = explanation.get("robots") or {}
    return bool(explanation.get("is_admitted")), robots.get("access", "never-asked") != "never-asked"
