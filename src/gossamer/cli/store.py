"""`gossamer store`: looks at a server that is to hold frontiers, and clears away one that nobody needs any more."""

import argparse
import asyncio
from collections.abc import Sequence

import msgspec

from gossamer.cli.arguments import Parser, printable
from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.stores.examination import Finding, Verdict
from gossamer.run import stores
from gossamer.url import redacted

SUMMARY = "Check a server for frontiers: versions, settings that matter, what to change; or remove a frontier from it."
NOTES = """`store check URL` shows what the server is, how it is set, and which crawls have their frontier there.
`store remove URL CRAWL` removes one of those for ever; its data directory stays, and cannot be resumed.

exit codes: 0 fit for a crawl, 2 bad usage, 3 not fit, or not reached"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=("check", "remove"), help="what to do")
    parser.add_argument("url", metavar="URL", help="sqlite, redis://…, rediss://…, unix://… or postgresql://…")
    parser.add_argument("crawl", metavar="CRAWL", nargs="?", help="of remove: which, as check names it")
    parser.add_argument("--json", action="store_true", help="one JSON object for each finding and line")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "remove":
        if arguments.crawl is None:
            raise UsageError("store remove: which crawl? name it as `gossamer store check` does")
        asyncio.run(stores.remove(arguments.url, arguments.crawl))
        print(f"the frontier of crawl {arguments.crawl} is removed from {redacted(arguments.url)}")
        return 0
    if arguments.crawl is not None:
        raise UsageError(f"store check: {arguments.crawl!r}: only remove takes a crawl")
    findings = asyncio.run(stores.examine(arguments.url))
    is_fit = all(finding.verdict is not Verdict.REFUSED for finding in findings)
    if arguments.json:
        for finding in findings:
            print(msgspec.json.encode(finding).decode())
    else:
        _print(findings)
        print(f"{redacted(arguments.url)} is {'fit' if is_fit else 'not fit'} for a crawl")
    return 0 if is_fit else StoreUnavailable.exit_code


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        word = "" if finding.verdict is Verdict.GOOD else f"  ({finding.verdict})"
        print(f"  {printable(finding.name):<{width}}  {printable(finding.value)}{word}")
        if finding.advice:
            print(f"  {'':<{width}}  → {printable(finding.advice)}")
