"""`gossamer parse`: what a page says, by the steps of a parser process."""

import argparse
import json
from typing import Any

from gossamer.cli.arguments import Parser, print_row, printable, read_file
from gossamer.cli.flags import add_settings, settings
from gossamer.cli.url import base_url
from gossamer.config import Settings, UrlSettings
from gossamer.parse.html import Link
from gossamer.parse.page import Page, read_page
from gossamer.units import counted
from gossamer.url import Url, canonicalise

SUMMARY = "Show what a page says: encoding, title, links, robots directives, text."
NOTES = """The flags named after headers stand for what the server said with the page."""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a page's body as received, or - for standard input")
    parser.add_argument("--url", metavar="URL", required=True, help="where the page was found")
    parser.add_argument("--content-type", metavar="T", help="its Content-Type header")
    parser.add_argument("--content-encoding", metavar="E", default="", help="its Content-Encoding header")
    parser.add_argument(
        "--x-robots-tag", metavar="V", action="append", default=[], help="its X-Robots-Tag header; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(parser, ["url", "parse"])


def run(arguments: argparse.Namespace) -> int:
    chosen = settings(arguments)
    url = base_url(arguments.url, chosen.url, source="--url")
    # One byte more than the limit tells a body that fills it from one that goes on.
    received = read_file(arguments.file, source="FILE", at_most=chosen.parse.max_body_bytes + 1)
    page = read_page(
        received,
        url,
        chosen.parse,
        content_type=arguments.content_type,
        content_encoding=arguments.content_encoding,
        x_robots_tag=arguments.x_robots_tag,
    )
    shown = _facts(url, page, chosen)
    if arguments.json:
        print(json.dumps(shown))
    else:
        _print(shown)
    return 0


def _facts(url: Url, page: Page, chosen: Settings) -> dict[str, Any]:
    facts = page.facts
    canonical = None if facts.canonical is None else canonicalise(facts.canonical, facts.base, chosen.url)
    return {
        "url": url.text,
        "bytes": len(page.body.data),
        "parsed_bytes": min(len(page.body.data), chosen.parse.max_parse_bytes),
        "content_encodings": page.body.encodings,
        "truncated": page.body.truncated,
        "fallback": page.body.fallback,
        "charset": page.text.encoding,
        "charset_source": page.text.source,
        "charset_lossy": page.text.lossy,
        "tamed": facts.tamed,
        "base": facts.base.text,
        "title": facts.title,
        "description": facts.description,
        "language": facts.language,
        "canonical": canonical.text if isinstance(canonical, Url) else None,
        "robots": facts.robots,
        "noindex": facts.noindex,
        "nofollow": facts.nofollow,
        "links": [_link(link, facts.base, chosen.url) for link in facts.links],
        "links_left_out": facts.links_left_out,
        "text": None if facts.text is None else facts.text.decode(),
        "main_text": None if facts.main_text is None else facts.main_text.decode(),
    }


def _link(link: Link, base: Url, rules: UrlSettings) -> dict[str, object]:
    found = canonicalise(link.href, base, rules)
    answer = {"url": found.text} if isinstance(found, Url) else {"refused": found.reason}
    return {"href": link.href, "kind": link.kind, "rel": link.rel, **answer}


def _print(shown: dict[str, Any]) -> None:
    """For people: what is not there is not mentioned."""
    print(shown.pop("url"))
    links = shown.pop("links")
    texts = {name: shown.pop(name) for name in ("text", "main_text")}
    for name, value in shown.items():
        if value not in (None, "", (), False, 0):
            print_row(name, ", ".join(value) if isinstance(value, tuple) else value)
    print(f"links ({len(links)})")
    for link in links:
        print_row(link["kind"], link.get("url") or f"{link['href']} — refused: {link['refused']}")
    for name, text in texts.items():
        if text is not None:
            print(f"{name} ({counted(len(text), 'character')})")
            for line in text.splitlines():
                print(f"  {printable(line)}")
