"""`gossamer crawl`: a new crawl, in a data directory of its own."""

import argparse
import time
from pathlib import Path

from gossamer.cli import flags
from gossamer.cli.arguments import Parser
from gossamer.cli.running import (
    add_crawl_flags,
    check_for_crawl,
    print_end,
    read_exclusions,
    run_crawl,
    scope_flag,
    take_exclusions,
)
from gossamer.run.data_directory import DataDirectory
from gossamer.seed.copy import copy_seeds

SUMMARY = "Start a crawl: from seeds to pages, politely, until it is done, stopped or at its limit."
NOTES = """It needs --email or --contact: every request says who is asking. Into the data directory go archives (warc/,
index/), pages with their text (pages/) and a row for every outcome (log/); --sinks chooses. Look into it with
`gossamer status`. Stop it with an interrupt or SIGTERM, and go on with `gossamer resume`.

exit codes: 0 done (exhausted or at its limit), 1 no seed led to a page, 2 bad usage, 3 the store is not available,
4 processes die again and again, 130 interrupted and can be resumed"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("url", nargs="*", metavar="URL", help="where to start: a URL, or a bare domain")
    parser.add_argument(
        "--seed-file", metavar="FILE", help="more of them, one on each line, # for comments, may be gzip; - is stdin"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="a new directory for all that the crawl leaves [crawl-TIME]")
    add_crawl_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    scope_flag(arguments)
    settings = flags.settings(arguments)
    check_for_crawl(settings)
    exclusions = read_exclusions(arguments.exclude_file)
    data = DataDirectory(Path(arguments.data_dir or time.strftime("crawl-%Y%m%d-%H%M%S")))
    data.create()
    data.take()
    data.clear()
    try:
        copy_seeds(arguments.url, arguments.seed_file, data.seeds, settings.url)
        take_exclusions(data, exclusions)
        data.write_settings(settings)
        summary = run_crawl(data, settings, quiet=arguments.quiet)
    finally:
        if not data.which_frontier().is_made:
            data.undo_create()  # nothing was crawled: the same command may come again
    return print_end(summary, as_json=arguments.json)
