"""`gossamer sites`: what became of each site, and when it is its turn again."""

import argparse
import sys
from typing import get_args

from gossamer.cli.arguments import Parser, at_least, printable
from gossamer.cli.looking import add_crawl, crawl_of, settings_of, telling_uncommitted
from gossamer.cli.rows_output import add_format, check_format, write_rows
from gossamer.errors import StoreUnavailable
from gossamer.look.sites import Order, ask_store, joined, top_sites
from gossamer.look.tables import Tables

SUMMARY = "List a crawl's sites: pages, requests, failures, bytes, times, and what the store has queued for them."
NOTES = """A site is the unit of politeness. `requests` are those that were sent, robots.txt included; `failures` are
URLs that were dropped; `mean_s` is the mean of whole requests, in seconds. From the store, at this moment: how many
URLs are `queued`, in how many seconds the next one may be asked for (`next_in_s`), how often in a row the site was
`failing`, and why it was `dropped`. Sites of which nothing was asked for yet are not listed.

exit codes: 0 shown, 2 bad usage, 3 the store is not available: the last four columns are empty"""


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many sites [20]")
    parser.add_argument(
        "--by", choices=get_args(Order), default="pages", help="what puts a site before another [pages]"
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    check_format(arguments)
    top = at_least("--top", arguments.top, 1) or 1
    data = crawl_of(arguments)
    settings = settings_of(data)
    error = None
    with telling_uncommitted(data):
        with Tables(data.root) as tables:
            rows = top_sites(tables, arguments.by, top)
        try:
            standing = ask_store(data, settings, [row[0] for row in rows])
        except StoreUnavailable as unavailable:
            standing, error = None, unavailable
        write_rows(joined(rows, standing), arguments.format, raw=arguments.raw)
    if error is not None:
        print(f"gossamer: the store is not available: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    return 0
