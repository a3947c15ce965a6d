"""CPU time that each sink adds to a page: `python -m benchmarks.sinks [--pages N] [--rounds N]`.

Pages of about 100 KB, gzipped as a server sends them, go through the sinks as a parser hands them over: in segments of
64, a commit for every thousand. Closing archives, sorting indexes, merging tables and syncing are in the figures. A
sink's cost is what it adds to the sinks before it; the first row is a commit without any.
"""

import argparse
import asyncio
import gzip
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.vocabulary.pages import page
from gossamer.config import Settings
from gossamer.parse.record import read_answer
from gossamer.records import Answer, Finished, Lease, Outcome, PhaseTimes, Reason, Result
from gossamer.report.resources import keep_freed_blocks
from gossamer.sinks.commit import Committer
from gossamer.sinks.log import LogSink
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.sink import Entry, PageRecord, Sink
from gossamer.sinks.warc import WarcSink
from gossamer.spool.writer import SEGMENT_OUTCOMES
from gossamer.url import Url, canonicalise

#: So many that one is not within reach of the compressor when it comes again.
KINDS = 400
SITES = 500
#: So that an archive is closed now and then, as one of a thousand times as many pages is.
WARC_BYTES = 64_000_000
REQUEST = (
    b"GET /%d HTTP/1.1\r\nHost: www.example.org\r\nAccept: text/html,application/xhtml+xml,text/plain,*/*;q=0.1\r\n"
    b"User-Agent: Gossamer/0.1.0 (+crawl@example.org)\r\nAccept-Encoding: gzip, br, zstd\r\nConnection: close\r\n\r\n"
)
HEADERS = (
    (b"Date", b"Sun, 15 Nov 2026 12:00:00 GMT"),
    (b"Server", b"nginx"),
    (b"Content-Type", b"text/html; charset=utf-8"),
    (b"Content-Encoding", b"gzip"),
    (b"Vary", b"Accept-Encoding"),
    (b"Cache-Control", b"max-age=600"),
    (b"ETag", b'W/"2af-61d"'),
    (b"Connection", b"close"),
)
#: With their aims in microseconds a page.
SINKS: dict[str, tuple[int, Callable[[Path], Sink]]] = {
    "warc": (
        90,
        lambda data: WarcSink(data, run=1, parser="parser-0", index=0, file_bytes=WARC_BYTES, facts={"operator": "b"}),
    ),
    "pages": (80, lambda data: PagesSink(data, parser="parser-0", crawl="benchmark")),
    "log": (10, lambda data: LogSink(data, parser="parser-0")),
}


class Nobody:
    """A store that has nothing to do."""

    async def sync(self) -> None: ...

    async def finish(self, finished: Sequence[Finished]) -> None:
        """Costs nothing, so that the sinks are all that is measured."""


def made_entries(pages: int) -> list[tuple[Outcome, PageRecord]]:
    settings = Settings()
    bodies = [gzip.compress(page(seed).encode()) for seed in range(KINDS)]
    made: list[tuple[Outcome, PageRecord]] = []
    records: dict[int, PageRecord] = {}
    for number in range(pages):
        url = canonicalise(f"https://www.site{number % SITES}.example.org/section/{number}/page.html?id={number}")
        assert isinstance(url, Url)
        answer = Answer(
            url.text, 1.8e9 + number / 100, REQUEST % number, b"HTTP/1.1 200 OK", 200, HEADERS, bodies[number % KINDS],
            address="192.0.2.7", tls="TLSv1.3", times=PhaseTimes(0.01, 0.02, 0.03, 0.04, 0.2),
        )  # fmt: skip
        if number % KINDS not in records:
            records[number % KINDS] = read_answer(answer, settings).record
        lease = Lease(
            number, 0, 1, url.text, url.site, url.fingerprint, 3, 0, False, 0, 0, via="https://www.example.org/"
        )
        outcome = Outcome(
            lease, Result.DONE, Reason.PAGE, answer.fetched_at, answer=answer, address="192.0.2.7", times=answer.times
        )
        made.append((outcome, replace(records[number % KINDS], url=url)))
    return made


def measure(names: Sequence[str], entries: list[tuple[Outcome, PageRecord]], commit_pages: int) -> float:
    """CPU microseconds per page of these sinks together."""
    data = Path(tempfile.mkdtemp())
    try:
        sinks = [SINKS[name][1](data) for name in names]
        committer = Committer(data, "parser-0", Nobody(), sinks)
        began = time.process_time()
        for number, (outcome, record) in enumerate(entries, 1):
            entry = Entry(outcome, Reason.PAGE, record)
            for sink in sinks:
                sink.write(entry)
                sink.flush()
            if number % SEGMENT_OUTCOMES == 0 or number == len(entries):
                committer.segment_done(data / "segment", [])
                if number % commit_pages < SEGMENT_OUTCOMES:
                    asyncio.run(committer.commit())
        asyncio.run(committer.commit())
        committer.close()
        return (time.process_time() - began) * 1e6 / len(entries)
    finally:
        shutil.rmtree(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit-pages", type=int, default=Settings().sinks.commit_pages)
    arguments = parser.parse_args()
    keep_freed_blocks()  # as a parser does
    entries = made_entries(arguments.pages)
    order = list(SINKS)
    chains = [order[:length] for length in range(len(order) + 1)]
    least = [float("inf")] * len(chains)
    # Half of the text: about what a page of the web has, and with the whole it says what a kilobyte costs.
    halved = [(outcome, replace(record, main_text="")) for outcome, record in entries]
    with_half = float("inf")
    for _ in range(arguments.rounds):
        for place, chain in enumerate(chains):
            least[place] = min(least[place], measure(chain, entries, arguments.commit_pages))
        with_half = min(with_half, measure(order[:2], halved, arguments.commit_pages))
    body_bytes = sum(outcome.body_bytes for outcome, _ in entries) // len(entries)
    text_bytes = sum(len(record.text or b"") + len(record.main_text or b"") for _, record in entries) // len(entries)
    print(
        f"CPython {platform.python_version()}, {len(entries):,} pages: bodies of {body_bytes:,} bytes gzipped,"
        f" {text_bytes:,} characters of text, a commit for every {arguments.commit_pages:,}\n"
    )
    print(f"{'CPU µs per page (user + system), least of the rounds':<54}{'found':>8}{'aim':>8}")
    print(f"{'none':<54}{least[0]:>8.1f}{'—':>8}")
    for place, name in enumerate(order, 1):
        print(f"{f'{name}, added':<54}{least[place] - least[place - 1]:>8.1f}{SINKS[name][0]:>8}")
    print(f"{'pages without their main text, added':<54}{with_half - least[1]:>8.1f}{SINKS['pages'][0]:>8}")
    print(f"{'all of them':<54}{least[-1]:>8.1f}{'—':>8}")


if __name__ == "__main__":
    main()
