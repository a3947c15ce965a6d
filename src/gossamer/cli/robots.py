"""`gossamer robots`: what a robots.txt allows, and which line says so."""

import argparse
import json

from gossamer.cli.arguments import Parser, print_row, printable, read_file
from gossamer.fetch import robots

SUMMARY = "Say which URLs a robots.txt file allows, and which of its lines decides."
NOTES = (
    """The file is read as the crawler reads it (RFC 9309; only its first 500 KiB). Without a URL: only its facts."""
)


def add_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a robots.txt file, or - for standard input")
    parser.add_argument("urls", nargs="*", metavar="URL", help="a URL or a path")
    parser.add_argument("--agent", metavar="TOKEN", default="Gossamer", help="product token of the crawler [Gossamer]")
    parser.add_argument("--json", action="store_true", help="one JSON object for the file and all URLs")


def run(arguments: argparse.Namespace) -> int:
    parsed = robots.parse(read_file(arguments.file, source="FILE"))
    rules = parsed.for_agent(arguments.agent)
    verdicts = [(url, rules.verdict(url)) for url in arguments.urls]
    if arguments.json:
        answers = [
            {"url": url, "allowed": said.allowed, "reason": said.reason, "rule": said.rule, "line": said.line}
            for url, said in verdicts
        ]
        facts = {"agent": arguments.agent, "crawl_delay": rules.crawl_delay, "sitemaps": parsed.sitemaps}
        print(json.dumps(facts | {"urls": answers}))
        return 0
    for url, said in verdicts:
        print(printable(url))
        print_row("allowed", "yes" if said.allowed else "no")
        print_row("because", said.reason if said.line is None else f"{said.reason}, line {said.line}: {said.rule}")
    print(f"for {printable(arguments.agent)}")
    print_row("crawl-delay", "none" if rules.crawl_delay is None else f"{rules.crawl_delay:g} s")
    for sitemap in parsed.sitemaps:
        print_row("sitemap", sitemap)
    return 0
