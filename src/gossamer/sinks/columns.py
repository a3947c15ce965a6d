"""The columns of the two tables, in their order: what the writers fill, and what readers and docs call them.

Types are DuckDB's names. Every time is UTC, in milliseconds; a column is null where nothing is known.

The first columns of `PAGES` are those of Common Crawl's URL index (cc-index-table, the flat schema), by name, order and
meaning, so that what was written for that reads this too. The two offsets are wider here: an archive file of ours may
be larger than two gigabytes.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    meaning: str


PAGES = (
    Column("url_surtkey", "VARCHAR", "the URL as archives sort it: host reversed, then the path"),
    Column("url", "VARCHAR", "the canonical URL"),
    Column("url_host_name", "VARCHAR", "the host, a name or an address"),
    Column("url_host_tld", "VARCHAR", "the last label of the host; null for an address, like all labels"),
    Column("url_host_2nd_last_part", "VARCHAR", "the label before it"),
    Column("url_host_3rd_last_part", "VARCHAR", "the label before that"),
    Column("url_host_4th_last_part", "VARCHAR", "and so on"),
    Column("url_host_5th_last_part", "VARCHAR", "and so on"),
    Column("url_host_registry_suffix", "VARCHAR", "the public suffix of a registry, such as co.uk"),
    Column("url_host_registered_domain", "VARCHAR", "that and one label more"),
    Column("url_host_private_suffix", "VARCHAR", "the public suffix, private ones such as github.io included"),
    Column("url_host_private_domain", "VARCHAR", "that and one label more"),
    Column("url_host_name_reversed", "VARCHAR", "the labels of the host in reverse"),
    Column("url_protocol", "VARCHAR", "http or https"),
    Column("url_port", "INTEGER", "null if it is the default of the protocol"),
    Column("url_path", "VARCHAR", "from the slash behind the host to the query"),
    Column("url_query", "VARCHAR", "without its question mark; null if there is none"),
    Column("fetch_time", "TIMESTAMP", "when the request began, in UTC"),
    Column("fetch_status", "SMALLINT", "the status of the answer"),
    Column("fetch_redirect", "VARCHAR", "null: a page is no redirect"),
    Column("content_digest", "VARCHAR", "SHA-1 of the body as received, in base 32"),
    Column("content_mime_type", "VARCHAR", "the media type that the server names"),
    Column("content_mime_detected", "VARCHAR", "the media type that the body begins like"),
    Column("content_charset", "VARCHAR", "the encoding that the text was read in"),
    Column("content_languages", "VARCHAR", "null: languages are not detected; see language"),
    Column(
        "content_truncated",
        "VARCHAR",
        "why the page is not whole: length, time or disconnect on the wire; length, corrupt or unexpected-end when its"
        " content encoding was undone; null if it is whole",
    ),
    Column("warc_record_id", "BLOB", "null: the record is named by file and offset"),
    Column("warc_filename", "VARCHAR", "the archive file that has the answer, below the data directory"),
    Column("warc_record_offset", "BIGINT", "where in that file the record begins"),
    Column("warc_record_length", "BIGINT", "how many bytes of that file it takes"),
    Column("warc_segment", "VARCHAR", "null: a crawl has no segments of archives"),
    Column("crawl", "VARCHAR", "the name of the crawl"),
    Column("subset", "VARCHAR", "always warc: all rows are of pages"),
    # From here on they are ours.
    Column("title", "VARCHAR", "of the page"),
    Column("description", "VARCHAR", "as the page describes itself"),
    Column("text", "VARCHAR", "all visible text; null with --no-text, and for what is no text"),
    Column("main_text", "VARCHAR", "the article alone, empty where nothing reads as one"),
    Column("outlink_count", "INTEGER", "how many links were found"),
    Column("depth", "INTEGER", "links from the seed; 0 is a seed"),
    Column("canonical", "VARCHAR", "the URL that the page calls its canonical one"),
    Column("meta_robots", "VARCHAR", "the directives for us, of the page and its headers, with commas between them"),
    Column("language", "VARCHAR", "as the page declares it"),
    Column("site", "VARCHAR", "the unit of politeness that it belongs to"),
    Column("hops", "INTEGER", "redirects that led to it since the last page or seed"),
    Column("via", "VARCHAR", "the page that links to it, or what was redirected to it; null for a seed"),
    Column("address", "VARCHAR", "the numeric address that answered"),
    Column("is_verified", "BOOLEAN", "whether the certificate was verified"),
    Column("received_bytes", "BIGINT", "of the body, as received"),
    Column("decoded_bytes", "BIGINT", "of the body, when its content encoding was undone"),
)

FETCHES = (
    Column("time", "TIMESTAMP", "when it began, in UTC"),
    Column("site", "VARCHAR", "the unit of politeness"),
    Column("url", "VARCHAR", "what was asked for, or would have been"),
    Column("kind", "VARCHAR", "url, or robots: a robots.txt that was asked for on the way"),
    Column("depth", "INTEGER", "links from the seed; null for robots, like all that belongs to a URL of the frontier"),
    Column("hops", "INTEGER", "redirects that led to it since the last page or seed"),
    Column("via", "VARCHAR", "the page that links to it, or what was redirected to it; null for a seed"),
    Column("outcome", "VARCHAR", "done, retry (it went back to its queue) or dropped"),
    Column("failure_kind", "VARCHAR", "what went wrong, in one word; null for a page, a redirect and a robots.txt"),
    Column("status", "SMALLINT", "of the answer; null if none came"),
    Column("redirect", "VARCHAR", "where the answer points, canonical if it is a URL that could be fetched"),
    Column("bytes", "BIGINT", "of the body, as received"),
    Column("dns_seconds", "REAL", "to find the address; null where a phase was not reached"),
    Column("connect_seconds", "REAL", "to connect"),
    Column("tls_seconds", "REAL", "to agree on a cipher"),
    Column("first_byte_seconds", "REAL", "from the request sent to the head of the answer"),
    Column("total_seconds", "REAL", "all of it"),
    Column("attempt", "INTEGER", "the first is 1"),
    Column("returned", "INTEGER", "how often it came back because its holder died or its segment was lost"),
    Column("reason", "VARCHAR", "for a person: what exactly failed, which rule decided"),
    Column("address", "VARCHAR", "the numeric address that answered, or that was tried last"),
    Column("is_verified", "BOOLEAN", "whether the certificate was verified"),
    Column("warc_filename", "VARCHAR", "the archive file that has the answer, below the data directory"),
    Column("warc_record_offset", "BIGINT", "where in that file the record begins"),
    Column("warc_record_length", "BIGINT", "how many bytes of that file it takes"),
)
