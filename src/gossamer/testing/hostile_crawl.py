"""What became of every URL of the hostile catalogue in one crawl, in the catalogue's own words.

    Tap ──► attempts (all outcomes of every URL) ──► Evidence, with the sink's pages ──► verdicts() ──► table()

A store only counts what is finished. Every outcome goes through the spool, though, and the tap reads each segment
there.
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

#: A segment stays in the spool until a commit, which takes half a second at the very least.
_LOOK_SECONDS = 0.02

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
}


class Tap:
    """Reads every segment of a crawl's spool while it runs, from `__enter__` to `__exit__`, and takes nothing from it.

    `attempts` has all outcomes of each URL in their order, without bodies. A thread of its own links each new file to
    a place where no parser deletes it, and reads it there.
    """

    def __init__(self, spool: Path, directory: Path) -> None:
        self.attempts: dict[str, list[Outcome]] = defaultdict(list)
        self._spool = spool
        self._directory = directory
        self._seen: set[str] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._directory.mkdir()
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
        for path in (*self._spool.glob("ready/*.seg"), *self._spool.glob("claimed/*/*.seg")):
            copy = self._directory / path.name
            # It may change hands in this moment: then it is found in the other place.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                os.link(path, copy)
            if path.name not in self._seen and copy.exists():
                self._seen.add(path.name)
                for outcome in read_segment(copy):
                    answer = outcome.answer and msgspec.structs.replace(outcome.answer, body=b"")
                    bare = msgspec.structs.replace(outcome, answer=answer, robots=())
                    self.attempts[outcome.lease.url].append(bare)
                copy.unlink()


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
