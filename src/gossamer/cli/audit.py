"""`gossamer audit`: whether a crawler behaved on the simulated web, by the server's access log."""

import argparse
import re
from pathlib import Path

import msgspec

from gossamer.cli.arguments import Parser, duration, printable, read_file
from gossamer.cli.url import base_url
from gossamer.config import UrlSettings
from gossamer.errors import UsageError
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web.access_log import read
from gossamer.testing.web.graph import Web

SUMMARY = "Judge a crawl of the simulated web by the server's access log."
NOTES = """Exit code 0 if the crawl is clean, 1 if it is convicted of anything.
A directory stands for all access-*.log files in it, and its web.json says which web was served."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("logs", nargs="+", metavar="LOG", help="an access log, or the log directory of `simweb`")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--examples", metavar="N", type=_count, default=5, help="examples of each offence [5]")
    web = parser.add_argument_group("the web that was served")
    web.add_argument("--web", metavar="FILE", help="its web.json, if not the one beside the logs")
    web.add_argument("--web-seed", metavar="N", type=int, help="another seed than the file says [0]")
    web.add_argument("--sites", metavar="N", type=_count, help="another number of sites [100]")
    web.add_argument("--pages", metavar="N", type=_count, help="another number of pages per site [100]")
    web.add_argument(
        "--other-sites", metavar="REGEX", type=_pattern, help="whole sites served besides: only manners are judged"
    )
    crawl = parser.add_argument_group("what the crawler was told")
    crawl.add_argument("--seeds", metavar="FILE", help="URLs or bare domains, one per line [every home page]")
    crawl.add_argument(
        "--delay", metavar="DURATION", type=duration, default=70.0, help="time between two to a site [70s]"
    )
    crawl.add_argument("--user-agent", metavar="REGEX", type=_pattern, help="how the User-Agent begins [Gossamer/]")
    crawl.add_argument("--max-depth", metavar="N", type=_count, help="links followed from a seed [any number]")
    crawl.add_argument("--same-sites-only", action="store_true", help="only the sites of the seeds were to be crawled")
    crawl.add_argument("--no-files", action="store_true", help="what is not HTML by its name was to be left")
    crawl.add_argument("--partial", action="store_true", help="it was stopped early: what is missing is no offence")
    crawl.add_argument("--restarts", metavar="N", type=_count, default=0, help="how often it was restarted [0]")
    crawl.add_argument("--repeats", metavar="N", type=_count, default=0, help="answers that kills may have cost it [0]")
    crawl.add_argument(
        "--robots-interval", metavar="DURATION", type=duration, help="time for which a robots.txt is good [1d]"
    )


def run(arguments: argparse.Namespace) -> int:
    files = _files(arguments.logs)
    web = _web(arguments)
    options = {
        "user_agent": arguments.user_agent,
        "other_sites": arguments.other_sites,
        "robots_interval_seconds": arguments.robots_interval,
    }
    rules = Rules(
        seeds=web.seeds() if arguments.seeds is None else _seeds(arguments.seeds),
        delay_seconds=arguments.delay,
        is_partial=arguments.partial,
        max_depth=arguments.max_depth,
        same_sites_only=arguments.same_sites_only,
        files=not arguments.no_files,
        repeats=arguments.repeats,
        restarts=arguments.restarts,
        **{name: value for name, value in options.items() if value is not None},
    )
    found = audit(read(files), web, rules, examples=arguments.examples)
    if arguments.json:
        print(found.to_json())
    else:
        for line in found.lines():
            print(printable(line))
    return 0 if found.is_clean else 1


def _files(logs: list[str]) -> list[Path]:
    files: list[Path] = []
    for log in map(Path, logs):
        if not log.exists():
            raise UsageError(f"{str(log)!r} does not exist; give an access log, or the log directory of `simweb`")
        found = sorted(log.glob("access-*.log")) if log.is_dir() else [log]
        if not found:
            raise UsageError(f"{str(log)!r} has no access-*.log in it; give the log directory of the simulated web")
        files += found
    return files


def _web(arguments: argparse.Namespace) -> Web:
    """From a file, changed by the flags; from the flags alone if there is none."""
    directories = [log if log.is_dir() else log.parent for log in map(Path, arguments.logs)]
    beside = [str(file) for directory in directories if (file := directory / "web.json").is_file()]
    changes = {"seed": arguments.web_seed, "sites": arguments.sites, "pages": arguments.pages}
    given = {name: value for name, value in changes.items() if value is not None}
    name: str | None = arguments.web or next(iter(beside), None)
    if name is None and not given:
        raise UsageError(
            f"which web was served? There is no web.json in {str(directories[0])!r}; "
            "give one with --web, or --web-seed, --sites and --pages"
        )
    try:
        web = Web() if name is None else msgspec.json.decode(read_file(name, source="--web"), type=Web)
        return msgspec.structs.replace(web, **given)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{name or 'the web'}: no web that could be served: {error}") from None


def _seeds(name: str) -> list[str]:
    lines = (line.strip() for line in read_file(name, source="--seeds").decode("utf-8", "replace").splitlines())
    wanted = [line for line in lines if line and not line.startswith("#")]
    # A bare domain starts with https, as in a crawl.
    whole = (line if _SCHEME.match(line) else f"https://{line}" for line in wanted)
    return [base_url(line, UrlSettings(), source="--seeds").text for line in whole]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r:.100} is no whole number of 0 or more")
    return int(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r:.100} is no regular expression: {error}") from None
    return text
