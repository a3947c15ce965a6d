"""`gossamer url`: what a URL is to Gossamer."""

import argparse
import json
import re
from collections.abc import Iterable, Iterator

from gossamer.cli.arguments import Parser, print_row, printable, read_file
from gossamer.cli.flags import add_settings, settings
from gossamer.config import UrlSettings
from gossamer.errors import UsageError
from gossamer.frontier.slots import slot_of
from gossamer.seed.typed import with_scheme
from gossamer.url import Refusal, Url, canonicalise, redacted

_SCHEME = re.compile(r"\s*[a-z][a-z0-9+.-]*:", re.IGNORECASE)

SUMMARY = "Show a URL's canonical form, site, host, slot and fingerprint, or why it is refused."
NOTES = """Exit code 1 if any of them is refused. With --json one object per line."""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "urls", nargs="+", metavar="URL", help="a URL, or a bare domain; - reads them from standard input, one per line"
    )
    parser.add_argument("--base", metavar="URL", help="the page on which the URLs stand")
    parser.add_argument("--json", action="store_true", help="one JSON object per URL and line")
    add_settings(parser, ["url"])


def run(arguments: argparse.Namespace) -> int:
    rules = settings(arguments).url
    base = base_url(arguments.base, rules, source="--base") if arguments.base is not None else None
    refused = False
    for reference in _references(arguments.urls):
        found = canonicalise(with_scheme(reference) if base is None else reference, base, rules)
        refused |= isinstance(found, Refusal)
        facts = _facts(found, rules)
        if isinstance(found, Refusal) and base is None and not _SCHEME.match(reference):
            facts["detail"] = f"{facts['detail']}; write it with http:// or https://, or give its page with --base"
        if arguments.json:
            print(json.dumps({"input": redacted(reference)} | facts))
        else:
            print(printable(str(facts.pop("url", redacted(reference)))))
            for name, value in facts.items():
                print_row(name, value)
    return 1 if refused else 0


def base_url(text: str, rules: UrlSettings, *, source: str) -> Url:
    """A URL that a command cannot do without."""
    found = canonicalise(with_scheme(text), None, rules)
    if isinstance(found, Refusal):
        raise UsageError(
            f"{source}: {redacted(text)!r:.200} is refused ({found.reason}): {found.detail}; give a whole http(s) URL"
        )
    return found


def _facts(found: Url | Refusal, rules: UrlSettings) -> dict[str, object]:
    if isinstance(found, Refusal):
        return {"refused": found.reason, "detail": found.detail}
    return {
        "url": found.text,
        "site": found.site,
        "host": found.host,
        "port": found.port,
        "slot": slot_of(found.site, rules.slots),
        # In hex: as a number it would lose its last digits in every JSON reader that has only doubles.
        "fingerprint": f"{found.fingerprint:016x}",
    }


def _references(given: Iterable[str]) -> Iterator[str]:
    for reference in given:
        if reference == "-":
            text = read_file("-", source="URL").decode("utf-8", "replace")
            yield from filter(None, (line.strip() for line in text.splitlines()))
        else:
            yield reference
