"""`gossamer sql`: a query over the tables of a crawl."""

import argparse

from gossamer.cli.arguments import Parser, read_file
from gossamer.cli.looking import add_crawl, crawl_of, telling_uncommitted
from gossamer.cli.rows_output import add_format, check_format, write_rows
from gossamer.errors import UsageError
from gossamer.look.tables import Tables

SUMMARY = "Ask a crawl's tables in SQL, while it runs or after."
NOTES = """The SQL is DuckDB's. The tables are `pages`, one row for each page, and `fetches`, one row for each outcome
(docs/data.md lists their columns; or ask: describe pages). `ccindex` is another name of pages, as in Common Crawl's
index. They hold what was committed when the query began. Only these tables can be read, no file can be written, and
nothing comes from the network. In csv a text that a spreadsheet would run as a formula gets an apostrophe in front.

examples:
  gossamer sql DIR "select site, count(*) as pages from pages group by site order by pages desc limit 10"
  gossamer sql DIR "select failure_kind, count(*) as times from fetches group by all order by times desc"
  gossamer sql DIR - --format csv < query.sql > answer.csv"""


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("query", metavar="QUERY", help="one statement or several; - reads them from standard input")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    check_format(arguments)
    data = crawl_of(arguments)
    query = arguments.query
    if query == "-":
        try:
            query = read_file("-", source="QUERY").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"QUERY: not UTF-8 text: {error.reason} at byte {error.start}") from None
    with telling_uncommitted(data), Tables(data.root) as tables:
        write_rows(tables.query(query), arguments.format, raw=arguments.raw)
    return 0
