"""`gossamer pages`: the pages of a crawl, the newest first."""

import argparse

from gossamer.cli.arguments import Parser, at_least
from gossamer.cli.looking import add_crawl, add_page_filters, crawl_of, page_condition, telling_uncommitted
from gossamer.cli.rows_output import add_format, check_format, write_rows
from gossamer.look.newest import newest_pages
from gossamer.look.tables import Tables

SUMMARY = "List a crawl's pages, the newest first, while it runs or after."
NOTES = """A table shows when, status, bytes, URL and title; jsonl and csv have every column, the text included
(docs/data.md lists them). In csv a text that a spreadsheet would run as a formula (it begins with = + - @, also
behind white space, or with a tab or a line end, and is no number) gets an apostrophe in front; --raw leaves it as the
page has it. For all pages of a large crawl `gossamer export` is quicker: it sorts nothing."""

#: What fits a screen.
TABLE_LIMIT = 20
TABLE_COLUMNS = "fetch_time AS time, fetch_status AS status, received_bytes AS bytes, url, title"


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    add_page_filters(parser)
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"at most so many [{TABLE_LIMIT} in a table, otherwise all]"
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    check_format(arguments)
    limit = at_least("--limit", arguments.limit, 1)
    condition, parameters = page_condition(arguments)
    data = crawl_of(arguments)
    with telling_uncommitted(data), Tables(data.root) as tables:
        if arguments.format == "table":
            order = "ORDER BY fetch_time DESC, url LIMIT ?"
            query = f"SELECT {TABLE_COLUMNS} FROM pages{condition} {order}"  # noqa: S608 (texts of ours)
            found = tables.query(query, [*parameters, limit or TABLE_LIMIT])
        else:
            found = newest_pages(tables, condition, parameters, limit)
        write_rows(found, arguments.format, raw=arguments.raw)
    return 0
