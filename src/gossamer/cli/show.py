"""`gossamer show`: what a crawl has of one URL."""

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from gossamer.cli.arguments import Parser, printable
from gossamer.cli.looking import add_crawl, crawl_of, settings_of
from gossamer.cli.url import base_url
from gossamer.config import Settings
from gossamer.errors import GossamerError, UsageError
from gossamer.invocation import command
from gossamer.look.attempts import Attempt
from gossamer.look.shown import Shown, find_shown, read_shown
from gossamer.look.wording import moment
from gossamer.parse.decode import decode_body
from gossamer.records import Answer
from gossamer.units import counted

SUMMARY = "Show what a crawl has of a URL: facts, request and answer, text; or write the body itself."
NOTES = """Of a page all that is known; of a redirect, an error, a failure or a robots.txt what came of it. Of several
answers the latest is shown. Only what is committed is seen, while the crawl runs: within some minutes.

With --raw nothing but the body is written to standard output, as a file would hold it: its content encoding is undone,
unless --encoded is given too.

exit codes: 0 shown, 1 nothing is there, or its answer cannot be read (the rest is shown), 2 bad usage"""

#: Columns that repeat the URL, or have a place of their own below.
_LEFT_OUT = ("url", "text", "main_text", "crawl", "subset", "warc_record_id", "warc_segment")


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("url", metavar="URL", help="a whole URL, in any spelling")
    parser.add_argument("--raw", action="store_true", help="write the body to standard output, and nothing else")
    parser.add_argument("--encoded", action="store_true", help="with --raw: in its content encoding, as it came")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    if arguments.encoded and not arguments.raw:
        raise UsageError("--encoded: it is about the body that --raw writes; give both")
    if arguments.raw and arguments.json:
        raise UsageError("--json: --raw writes the body and nothing else; give one of the two")
    data = crawl_of(arguments)
    settings = settings_of(data)
    url = base_url(arguments.url, settings.url, source="URL")
    shown = find_shown(data.root, url.text)
    if shown is None:
        why = command("explain", str(data.root), url.text)
        raise GossamerError(f"{url.text}: nothing that is committed is about it; ask why: {why}")
    if arguments.raw:
        _write_body(_needed(read_shown(data.root, shown), shown), settings, is_encoded=arguments.encoded)
    else:
        answer, error = _read(data.root, shown)
        if arguments.json:
            # In ASCII: texts of the web could steer a terminal as JSON too.
            print(json.dumps(msgspec.to_builtins(_object(shown, answer, error))))
        else:
            _print(shown, answer, error)
        return 0 if error is None else GossamerError.exit_code
    return 0


def _read(root: Path, shown: Shown) -> tuple[Answer | None, str | None]:
    """The answer, and why it cannot be read: what the tables have is shown in any case."""
    try:
        return read_shown(root, shown), None
    except GossamerError as error:
        return None, str(error)


def _needed(answer: Answer | None, shown: Shown) -> Answer:
    if answer is None:
        why = "no server answered" if not shown.answers else "its answer is not archived"
        raise GossamerError(f"--raw: there is no body of {shown.url}: {why}")
    return answer


def _write_body(answer: Answer, settings: Settings, *, is_encoded: bool) -> None:
    if sys.stdout.isatty():
        raise UsageError("--raw: a page could steer this terminal; write it to a file (> FILE) or to a program (|)")
    body = answer.body
    if not is_encoded:
        codings = ", ".join(value.decode("latin-1") for name, value in answer.headers if name.lower() == _CODING)
        undone = decode_body(body, codings, settings.parse.max_body_bytes)
        body = undone.data
        if undone.truncated or undone.fallback:
            problem = undone.truncated or undone.fallback
            print(f"gossamer: its content encoding could not be undone as it should: {problem}", file=sys.stderr)
    if answer.truncated:
        print(f"gossamer: the body is not whole: {printable(answer.truncated)}", file=sys.stderr)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


_CODING = b"content-encoding"


def _object(shown: Shown, answer: Answer | None, error: str | None) -> dict[str, Any]:
    archived = None
    if answer is not None:
        archived = {
            "request": answer.request.decode("latin-1"),
            "status_line": answer.status_line.decode("latin-1"),
            "headers": [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers],
            "body_bytes": len(answer.body),
            "truncated": answer.truncated or None,
        }
    return {
        "url": shown.url,
        "answers": shown.answers,
        "page": shown.page,
        "attempt": shown.attempt,
        "place": shown.place,
        "archived": archived,
        "archive_error": error,
    }


def _print(shown: Shown, answer: Answer | None, error: str | None) -> None:
    print(printable(shown.url))
    rows = dict(_page_rows(shown.page) if shown.page is not None else _attempt_rows(shown.attempt))
    if shown.answers > 1:
        rows = {"answers": f"{shown.answers}; this is the latest"} | rows
    place = shown.place
    rows["archive"] = (
        "nothing" if place is None else f"{place.file}, offset {place.offset}, {counted(place.length, 'byte')}"
    )
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"  {name:<{width}}  {printable(f'{value}')}")
    if answer is not None:
        if answer.request:
            print("request")
            _print_lines(answer.request.decode("latin-1"))
        print(f"answer ({counted(len(answer.body), 'byte')} of body)")
        _print_lines(answer.status_line.decode("latin-1"))
        for header, content in answer.headers:
            _print_lines(f"{header.decode('latin-1')}: {content.decode('latin-1')}")
    if error is not None:
        print("answer")
        _print_lines(error)
    text = None if shown.page is None else shown.page["text"]
    if text is not None:
        print(f"text ({counted(len(text), 'character')})")
        _print_lines(text)


def _print_lines(text: str) -> None:
    for line in text.rstrip().splitlines():
        print(f"  {printable(line)}")


def _page_rows(page: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """What is not known is not mentioned."""
    for name, value in page.items():
        if value is None or name in _LEFT_OUT or name.startswith(("url_", "warc_")):
            continue
        yield name, moment(value) if isinstance(value, datetime) else value


def _attempt_rows(attempt: Attempt | None) -> Iterator[tuple[str, object]]:
    for name, value in {} if attempt is None else msgspec.structs.asdict(attempt).items():
        if value is not None and name not in {"url", "place"}:
            yield name, moment(value) if isinstance(value, datetime) else value
