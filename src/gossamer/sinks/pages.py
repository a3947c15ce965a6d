"""Pages as a table, in `pages/`: a row for every page, with its text. columns.py says what is in it."""

from functools import lru_cache
from pathlib import Path

from publicsuffixlist import PublicSuffixList

from gossamer.sinks.columns import PAGES
from gossamer.sinks.merge import ParquetTable
from gossamer.sinks.parquet import TableSink
from gossamer.sinks.sink import Entry
from gossamer.sinks.surt import surt_key
from gossamer.url import DEFAULT_PORTS, registrable_domain

DIRECTORY = "pages"
PREFIX = "part"
#: The subset of Common Crawl that has the successful answers.
SUBSET = "warc"
_TABLE = ParquetTable(
    DIRECTORY,
    PREFIX,
    PAGES,
    repeating=[
        column.name
        for column in PAGES
        if column.name
        not in {
            *("url_surtkey", "url", "url_path", "url_query", "content_digest", "warc_record_offset"),
            *("warc_record_length", "fetch_time", "title", "description", "text", "main_text", "canonical"),
            *("outlink_count", "received_bytes", "decoded_bytes"),
        }
    ],
    unsearched=["title", "description", "text", "main_text", "canonical", "content_digest", "via"],
    encoded=["text", "main_text"],
)


class PagesSink(TableSink):
    """Takes what was read of pages, and nothing else. The parser calls `write`, the committer the rest."""

    def __init__(self, data: Path, *, parser: str, crawl: str) -> None:
        super().__init__(data, _TABLE, parser)
        self._crawl = crawl
        # The lists are read when they are first asked: later there may be no descriptor left for that.
        _host("example.org")

    def write(self, entry: Entry) -> None:
        page, outcome, place = entry.page, entry.outcome, entry.place
        answer = outcome.answer
        if page is None or answer is None:
            return
        url, lease = page.url, outcome.lease
        path, mark, query = url.text[len(url.origin) :].partition("?")
        self._add(
            (
                surt_key(url.text),
                url.text,
                *_host(url.host),
                url.scheme,
                None if url.port == DEFAULT_PORTS[url.scheme] else url.port,
                path,
                query if mark else None,
                int(outcome.fetched_at * 1_000),
                answer.status,
                None,
                entry.digest,
                page.media_type or None,
                page.media_type_detected or None,
                page.charset or None,
                None,
                page.truncated or None,
                None,
                *((None, None, None) if place is None else (place.file, place.offset, place.length)),
                None,
                self._crawl,
                SUBSET,
                page.title or None,
                page.description or None,
                page.text,
                page.main_text,
                page.links,
                lease.depth,
                page.canonical,
                ", ".join(page.robots) or None,
                page.language or None,
                lease.site,
                lease.hops,
                lease.via or None,
                answer.address or None,
                answer.is_verified,
                len(answer.body),
                page.decoded_bytes,
            ),
            len(page.text or b"") + len(page.main_text or b""),
        )


@lru_cache(maxsize=65_536)
def _host(host: str) -> tuple[str | None, ...]:
    """All columns that follow from the host, in their order: a crawl meets the same few thousand all the time."""
    labels = host.split(".")
    if host.endswith("]") or labels[-1].isdecimal():
        return (host, *(None,) * 10)
    labels.reverse()
    private_domain = registrable_domain(host)
    registries = _registries()
    return (
        host,
        *labels[:5],
        *(None,) * (5 - len(labels)),
        registries.publicsuffix(host),
        registries.privatesuffix(host),
        host if private_domain is None else private_domain.partition(".")[2],
        private_domain,
        ".".join(labels),
    )


@lru_cache(maxsize=1)
def _registries() -> PublicSuffixList:
    """Without the private suffixes that `registrable_domain` knows too."""
    return PublicSuffixList(only_icann=True)
