"""What `./bench` can be asked for."""

import argparse
from pathlib import Path

GOSSAMER = ("sqlite", "redis", "postgresql")
PEERS = ("minimal", "scrapy")
FLOOR = "floor"
SYSTEMS = (*GOSSAMER, *PEERS)
HTTPS = "-https"
NAMES = (*SYSTEMS, FLOOR, *(f"{name}{HTTPS}" for name in (*SYSTEMS, FLOOR)))

DESCRIPTION = """What a page costs: CPU time per page of Gossamer on each store, of Scrapy, of a minimal crawler, and of
the floor beneath them (fetching, gunzip and parsing by themselves), over the same simulated web, in one table."""
EPILOG = f"""NAMES are {", ".join((*SYSTEMS, FLOOR))}, and each with {HTTPS} at its end for the same over TLS.
The floor is measured with whatever else is. docs/benchmarks.md says what is measured, and how.

  ./bench                                               everything: three quarters of an hour
  ./bench --only sqlite --pages 2000 --rounds 1         a first impression, in half a minute
  ./bench --check --only sqlite,redis,postgresql        fails if one of them is further above the floor than it was
  ./bench --known 1000000                               the price of a frontier that knows a million URLs
  ./bench --profile flames --only sqlite                flame graphs, into the directory flames"""


class Options(argparse.Namespace):
    """The flags, typed."""

    only: list[str]
    pages: int | None
    warm_up: int | None
    rounds: int
    scrapy_pages: int
    fetchers: int
    parsers: int
    directory: str | None
    json: Path | None
    known: int | None
    profile: Path | None
    check: bool
    record: bool
    accept_worse: bool


def parse(words: list[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="bench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--only", type=_names, metavar="NAME,...", default=[], help="measure only these; all by default")
    add("--pages", type=_positive, metavar="N", help="pages of each crawl after its warm-up [10000; 2000 with --known]")
    add("--warm-up", type=_positive, metavar="N", help="pages before that [2000; 500 with --known]")
    add("--rounds", type=_positive, metavar="N", default=3, help="of which the best counts, interleaved [3]")
    add("--scrapy-pages", type=_positive, metavar="N", default=3_000, help="at most so many of Scrapy [3000]")
    add("--fetchers", type=_positive, metavar="N", default=1, help="fetcher processes of Gossamer [1]")
    add("--parsers", type=_positive, metavar="N", default=1, help="parser processes of Gossamer [1]")
    add("--directory", metavar="DIR", help="where crawls and servers put their files [the system's temporary one]")
    add("--json", type=Path, metavar="FILE", help="also write all figures of all rounds there")
    mode = parser.add_argument_group("instead of the table")
    add = mode.add_argument
    add(
        "--known", type=_positive, metavar="N", help="a page with 10,000 known URLs and with so many; sqlite by default"
    )
    add("--profile", type=Path, metavar="DIR", help="flame graphs of each kind of process; sqlite by default")
    floors = parser.add_argument_group("ratios to the floor, kept in benchmarks/floors.json")
    add = floors.add_argument
    add("--check", action="store_true", help="fail if a ratio is more than 25 %% worse than the one kept")
    add("--record", action="store_true", help="keep ratios that are better than those kept, or new")
    add("--accept-worse", action="store_true", help="with --record: keep also those that are worse")
    given = parser.parse_args(words, namespace=Options())
    if given.accept_worse and not given.record:
        parser.error("--accept-worse: says what --record may do; give both")
    if given.known and given.profile:
        parser.error("--known and --profile: one at a time")
    if given.known or given.profile:
        if given.check or given.record or given.json:
            parser.error("--check, --record and --json go with the table; leave out --known and --profile")
        wrong = [name for name in given.only if name.removesuffix(HTTPS) not in GOSSAMER]
        if wrong:
            parser.error(
                f"--only: {', '.join(wrong)}: with --known and --profile, Gossamer alone: {', '.join(GOSSAMER)}"
            )
        given.only = given.only or ["sqlite"]
    if given.directory is not None and not Path(given.directory).is_dir():
        parser.error(f"--directory: there is no directory {given.directory!r}")
    given.only = given.only or list(NAMES)
    given.pages = given.pages or (2_000 if given.known else 10_000)
    given.warm_up = given.warm_up or (500 if given.known else 2_000)
    return given


def scheme_of(name: str) -> str:
    return "https" if name.endswith(HTTPS) else "http"


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in NAMES]
    if wrong or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong) or 'nothing'}: unknown; there are: {', '.join(NAMES)}")
    return list(dict.fromkeys(names))


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)
