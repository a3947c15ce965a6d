"""What became of every URL of the hostile catalogue in one crawl, in the catalogue's own words.

    Tap ──► attempts (all outcomes of every URL) ──► Evidence, with the sink's pages ──► verdicts() ──► table()

A store only counts what is finished. Every outcome goes through the spool, though, and the tap reads each segment
there. On a busy machine a parser may be done with one before the tap has looked: so the crawl is to be started with the
tap's `environment`, in which a segment is kept for the tap before it is deleted.
"""

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from gossamer.records import Outcome, Reason, Result
from gossamer.spool.segment import parse_name, read_segment
from gossamer.testing.web.hostile.catalogue import played
from gossamer.testing.web.hostile.site import Expected, Place
from gossamer.testing.web.hostile.table import ROWS
from gossamer.url import Refusal, canonicalise

_LOOK_SECONDS = 0.05

#: What every Python process of the crawl runs before anything else.
_KEEP = """
import contextlib, os, pathlib

unlink = pathlib.Path.unlink

def keep_and_unlink(path, missing_ok=False):
    if path.suffix == ".seg":
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            os.link(path, pathlib.Path({kept!r}) / path.name)
    unlink(path, missing_ok=missing_ok)

pathlib.Path.unlink = keep_and_unlink
"""

#: The one place where the crawler's words are put into the catalogue's. Pages are in `_page_word`.
WORDS = {
    Reason.REDIRECT: Expected.REDIRECT,
    Reason.BUSY: Expected.RETRY,
    Reason.STATUS: Expected.STATUS,
    Reason.TIMEOUT: Expected.TIMEOUT,
    Reason.PROTOCOL: Expected.PROTOCOL,
    Reason.TOO_LARGE: Expected.HEADERS,
    Reason.RESET: Expected.DISCONNECT,
    Reason.CONNECT: Expected.DISCONNECT,
    Reason.TLS: Expected.TLS,
    Reason.DNS: Expected.DNS,
    Reason.BLOCKED_ADDRESS: Expected.ADDRESS,
    Reason.MEDIA_TYPE: Expected.MEDIA_TYPE,
    Reason.ROBOTS: Expected.DISALLOWED,
    Reason.ROBOTS_UNREACHABLE: Expected.ROBOTS_UNREACHABLE,
    Reason.CRAWL_DELAY: Expected.CRAWL_DELAY,
    Reason.PARSE_CRASH: Expected.PARSE,
}
#: Why a reference never became a URL of the crawl: what `canonicalise` and the rules say.
REFUSALS = {
    Reason.SCHEME: Expected.SCHEME,
    Reason.NOT_A_URL: Expected.NOT_A_URL,
    Reason.TOO_LONG: Expected.TOO_LONG,
    Reason.HOPS: Expected.HOPS,
    Reason.PATH_DEPTH: Expected.TRAP,
    Reason.PATH_REPEATS: Expected.TRAP,
    Reason.PATH_VARIANTS: Expected.BUDGET,
    Reason.SITE_FULL: Expected.BUDGET,
    Reason.LINK_BYTES: Expected.BUDGET,
}


class Tap:
    """Reads every segment of a crawl's spool while it runs, from `__enter__` to `__exit__`, and takes nothing from it.

    `attempts` has all outcomes of each URL in their order, without bodies. A thread of its own links each new file to
    a place where no parser deletes it, and reads it there. Processes that run in `environment` leave it what they
    delete.
    """

    def __init__(self, spool: Path, directory: Path) -> None:
        self.attempts: dict[str, list[Outcome]] = {}
        self._spool = spool
        self._directory = directory
        self._kept = directory / "kept"
        self._seen: set[str] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the crawl's processes."""
        path = filter(None, (str(self._directory), os.environ.get("PYTHONPATH")))
        return {"PYTHONPATH": os.pathsep.join(path)}

    def __enter__(self) -> Self:
        self._kept.mkdir(parents=True)
        (self._directory / "sitecustomize.py").write_text(_KEEP.format(kept=str(self._kept)), "utf-8")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()

    def missed(self) -> list[str]:
        """Segments that were written and not read: a fetcher's serial numbers leave no gap."""
        serials: dict[tuple[int, int], set[int]] = defaultdict(set)
        for name in filter(None, map(parse_name, self._seen)):
            serials[name.run, name.fetcher].add(name.serial)
        return [
            f"run {run}, fetcher {fetcher}, serial {serial}"
            for (run, fetcher), known in serials.items()
            for serial in set(range(max(known))) - known
        ]

    def final(self, url: str) -> Outcome | None:
        """The last outcome, if it ended the URL."""
        outcomes = self.attempts.get(url)
        return outcomes[-1] if outcomes and outcomes[-1].result is not Result.RETRY else None

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        # In the order in which they change hands: what is not found in one place is found in the next.
        for folder in ("ready", "claimed/*"):
            for path in self._spool.glob(f"{folder}/*.seg"):
                if path.name not in self._seen:
                    copy = self._directory / path.name
                    with contextlib.suppress(FileNotFoundError):
                        os.link(path, copy)
                        self._read(copy)
        for path in self._kept.glob("*.seg"):
            if path.name in self._seen:
                path.unlink()
            else:
                self._read(path)

    def _read(self, path: Path) -> None:
        self._seen.add(path.name)
        for outcome in read_segment(path):
            answer = outcome.answer and msgspec.structs.replace(outcome.answer, body=b"")
            bare = msgspec.structs.replace(outcome, answer=answer, robots=())
            # A new list each time: others look at it meanwhile.
            attempts = [*self.attempts.get(outcome.lease.url, ()), bare]
            self.attempts[outcome.lease.url] = sorted(attempts, key=lambda one: one.fetched_at)
        path.unlink()


class Verdict(msgspec.Struct, frozen=True):
    """Of one URL, or of one reference in a page: what is right, and what was found; None if nothing was."""

    row: int
    where: str
    right: tuple[Expected, ...]
    found: Expected | None
    detail: str

    @property
    def is_right(self) -> bool:
        return self.found in self.right


class Evidence(msgspec.Struct, frozen=True):
    """All that a crawl left: outcomes from the tap, the table's rows by URL, and the most links that are taken."""

    attempts: Mapping[str, list[Outcome]]
    pages: Mapping[str, dict[str, Any]]
    max_links: int

    def word(self, url: str) -> Expected | None:
        """What became of a canonical URL; None if it was never leased, unless it waits behind one that went back."""
        outcomes = self.attempts.get(url)
        if not outcomes:
            home = self.attempts.get(url[: url.index("/", 8) + 1], [])
            return Expected.RETRY if home and home[-1].result is Result.RETRY else None
        last = outcomes[-1]
        if last.result is Result.RETRY:
            return Expected.RETRY
        return self._page_word(last) if last.reason is Reason.PAGE else WORDS[last.reason]

    def word_of_reference(self, page: str, reference: str, right: Expected) -> Expected | None:
        base = canonicalise(page)
        target = base if isinstance(base, Refusal) else canonicalise(reference, base)
        if isinstance(target, Refusal):
            return REFUSALS[Reason(target.reason.value)]
        outcomes = self.attempts.get(target.text, [])
        if right is Expected.SEEN:
            return right if sum(outcome.result is not Result.RETRY for outcome in outcomes) == 1 else None
        if right in {Expected.HOPS, Expected.TRAP}:
            # It left no trace but in the counts of what was refused.
            return None if outcomes else right
        return self.word(target.text)

    def _page_word(self, outcome: Outcome) -> Expected:
        page = self.pages.get(outcome.lease.url)
        if page is None:
            return Expected.PARSE
        if page["content_truncated"]:
            return Expected(f"truncated:{page['content_truncated']}")
        if page["outlink_count"] > self.max_links:
            return Expected.LINKS_CAPPED
        is_encoded = outcome.answer is not None and outcome.answer.header(b"content-encoding")
        if is_encoded and page["decoded_bytes"] == page["received_bytes"]:
            return Expected.RAW
        # Whatever is read as text has a charset.
        return Expected.DONE if page["content_charset"] else Expected.NOT_PARSED


def verdicts(evidence: Evidence) -> list[Verdict]:
    """Of every URL and every reference at which the catalogue's *now* rows expect something."""
    found: list[Verdict] = []
    for number, where, place in current_places():
        if place.expected:
            attempts = evidence.attempts.get(where, [])
            detail = "; ".join(f"{one.result} {one.reason} {one.detail:.60}" for one in attempts[-3:])
            found.append(Verdict(number, where, place.expected, evidence.word(where), detail))
        for reference, right in place.links.items():
            word = evidence.word_of_reference(where, reference, right)
            found.append(Verdict(number, f"{where} -> {reference:.80}", (right,), word, ""))
    return found


def current_places() -> Iterator[tuple[int, str, Place]]:
    """Row, canonical URL and place of all that is played now; places that stand for many URLs are not among them."""
    later = {row.number for row in ROWS if row.later}
    for number, site in played().items():
        for where, place in site.items():
            url = canonicalise(f"{place.scheme}://{where}")
            if number not in later and not where.endswith("*") and not isinstance(url, Refusal):
                yield number, url.text, place


def table(judged: list[Verdict]) -> str:
    """By row: how many URLs and references ended as they should, and how."""
    lines = ["| row | hazard | as expected | outcomes |", "|---|---|---|---|"]
    for row in ROWS:
        of_row = [verdict for verdict in judged if verdict.row == row.number]
        if of_row:
            counts: dict[str, int] = defaultdict(int)
            for verdict in of_row:
                counts[f"`{verdict.found}`" if verdict.found else "nothing"] += 1
            right = sum(verdict.is_right for verdict in of_row)
            said = ", ".join(f"{count} × {word}" for word, count in sorted(counts.items()))
            lines.append(f"| H{row.number:02} | {row.hazard} | {right}/{len(of_row)} | {said} |")
    return "\n".join([*lines, ""])
