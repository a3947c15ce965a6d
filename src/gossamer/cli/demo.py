"""`gossamer demo`: a crawl of a simulated web, to see what a crawl is. Needs no network and no settings."""

import argparse
import time
from pathlib import Path

from gossamer.cli.arguments import Parser, duration, print_row, printable
from gossamer.cli.running import add_quiet, print_end, run_crawl
from gossamer.config import FetchSettings, IdentitySettings, PolitenessSettings, RunSettings, Settings
from gossamer.errors import UsageError
from gossamer.invocation import command
from gossamer.look.tables import Tables
from gossamer.run.data_directory import DataDirectory
from gossamer.run.stop import StopReason
from gossamer.seed.copy import copy_seeds
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web import access_log
from gossamer.testing.web.graph import Web
from gossamer.testing.web.processes import WebProcesses
from gossamer.units import counted

SUMMARY = "Crawl a simulated web on this machine to its end, and show what a crawl leaves behind."
NOTES = """Starts a web of 60 sites on loopback, crawls all of it with a delay of one second per site (about half a
minute), judges the crawl by the web server's own log, and says where the files are and what to try next."""

#: The largest site has some 25 URLs, so at one request per site and second the crawl ends after about 30 seconds.
WEB = Web(sites=60, pages=12, https_share=0.3, latency_median_seconds=0.05)
DELAY_SECONDS = 1.0
FIRST_PAGES = "SELECT url, title, outlink_count FROM pages ORDER BY fetch_time LIMIT 3"
SUGGESTED_QUERY = "select site, count(*) from pages group by site order by 2 desc limit 5"


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--seconds",
        type=duration,
        metavar="DURATION",
        default=120.0,
        help="stop after this time if the crawl has not ended [2m]",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="a new directory for all of it [gossamer-demo-TIME]")
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.seconds <= 600:
        raise UsageError(f"--seconds: {arguments.seconds:g} is not a sensible duration; give 1s to 10m")
    root = Path(arguments.data_dir or time.strftime("gossamer-demo-%Y%m%d-%H%M%S"))
    data = DataDirectory(root / "crawl")
    DataDirectory(root).create()
    data.create()
    data.take()
    seeds = WEB.seeds()
    with WebProcesses(WEB, log_directory=root / "web") as web:
        print(f"a web of {WEB.sites} sites of {WEB.pages} pages is being served on 127.0.0.1")
        settings = Settings(
            identity=IdentitySettings(email="demo@example.org"),
            politeness=PolitenessSettings(delay_seconds=DELAY_SECONDS, backoff_seconds=1.0),
            fetch=FetchSettings(connect_to=f"http=127.0.0.1:{web.http_port},https=127.0.0.1:{web.https_port}"),
            run=RunSettings(max_duration_seconds=arguments.seconds),
        )
        copy_seeds(seeds, None, data.seeds, settings.url)
        data.write_settings(settings)
        summary = run_crawl(data, settings, quiet=arguments.quiet)
        log_files = web.log_files
    code = print_end(summary, as_json=False, is_resumable=False)  # its web is gone
    shown = _print_pages(data.root)
    # A crawl that went to its end is also judged by what it missed.
    is_partial = summary.stop_reason != StopReason.EXHAUSTED
    rules = Rules(seeds=seeds, delay_seconds=DELAY_SECONDS, is_partial=is_partial, files=False)
    judged = audit(access_log.read(log_files), WEB, rules)
    print("\nwhat the web server's log says of the crawler")
    print_row("requests", f"{judged.counts.requests:,} to {counted(judged.counts.sites, 'site')}")
    if not is_partial:
        print_row(
            "reachable URLs", f"{judged.counts.urls_expected_requested:,} of {judged.counts.urls_expected:,} requested"
        )
    print_row("shortest gap", f"{judged.counts.shortest_gap_seconds or 0:.3f} s between two requests to one site")
    print_row("verdict", judged.verdict)
    print("\nwhat to try next")
    where = str(data.root)
    print(f"  {command('status', where)}")
    print(f'  {command("sql", where)} "{SUGGESTED_QUERY}"')
    for url in shown[:1]:
        print(f"  {command('show', where, printable(url))}")
        print(f"  {command('explain', where, printable(url))}")
    print(f"  {command('crawl')} https://example.org --email you@example.org --scope seeds --max-pages 20")
    print(f"  {command('crawl', '--help')}")
    return code


def _print_pages(data: Path) -> list[str]:
    """The first few, and their URLs."""
    with Tables(data) as tables:
        rows = list(tables.query(FIRST_PAGES).rows)
    if rows:
        print(f"\nthe first pages of {data / 'pages'}")
    for url, title, links in rows:
        print_row(printable(url), f"{printable(title or '')!r:.60}, {counted(links, 'link')}")
    return [url for url, _, _ in rows]
