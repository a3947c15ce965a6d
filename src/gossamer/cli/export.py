"""`gossamer export`: the pages of a crawl as one file."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from gossamer.cli.arguments import Parser, printable
from gossamer.cli.looking import add_crawl, add_page_filters, crawl_of, page_condition, telling_uncommitted
from gossamer.cli.rows_output import write_json_lines
from gossamer.errors import UsageError
from gossamer.look.export import page_texts, written_beside
from gossamer.look.tables import Tables
from gossamer.run.data_directory import DataDirectory

SUMMARY = "Write a crawl's pages into one file: lines of JSON, Parquet, or plain text."
NOTES = """jsonl and parquet have every column (docs/data.md lists them), the text included; parquet is compressed with
Zstandard. text has of each page a line `==> URL`, a line with its title, an empty line, its main text (or its text,
where no main text was found) and an empty line; a line of a text that begins with `==> ` has a space put before it.

The pages are those that are committed at this moment, in no order. The file is written beside its place and renamed
when it is whole."""


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument("--format", choices=("jsonl", "parquet", "text"), required=True, help="what to write")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to; - is standard output")
    parser.add_argument("--force", action="store_true", help="replace the file if there is one")
    add_page_filters(parser)


def run(arguments: argparse.Namespace) -> int:
    data = crawl_of(arguments)
    condition, parameters = page_condition(arguments)
    with telling_uncommitted(data):
        _export(data, arguments, condition, parameters)
    return 0


def _export(data: DataDirectory, arguments: argparse.Namespace, condition: str, parameters: list[object]) -> None:
    if arguments.output == "-":
        if arguments.format == "parquet":
            _parquet_to_stdout(data.root, condition, parameters)
        else:
            _write(data.root, condition, parameters, arguments.format, sys.stdout)
        return
    with written_beside(Path(arguments.output), may_replace=arguments.force) as path:
        if arguments.format == "parquet":
            _write_parquet(data.root, condition, parameters, path)
        else:
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                _write(data.root, condition, parameters, arguments.format, stream)


def _write(root: Path, condition: str, parameters: list[object], wanted: str, stream: TextIO) -> None:
    columns = "*" if wanted == "jsonl" else "url, title, main_text, text"
    with Tables(root) as tables:
        found = tables.query(f"SELECT {columns} FROM pages{condition}", parameters)  # noqa: S608 (texts of ours)
        if wanted == "jsonl":
            write_json_lines(found, stream)
            return
        for text in page_texts(found.rows):
            shown = "\n".join(map(printable, text.split("\n"))) if stream.isatty() else text
            stream.write(shown)


def _write_parquet(root: Path, condition: str, parameters: list[object], path: Path) -> None:
    with Tables(root, output=path) as tables:
        tables.write_parquet(f"SELECT * FROM pages{condition}", parameters)  # noqa: S608 (texts of ours)


def _parquet_to_stdout(root: Path, condition: str, parameters: list[object]) -> None:
    """Through a file: its end says where everything is."""
    if sys.stdout.isatty():
        raise UsageError("-o: a Parquet file is nothing for a terminal; name a file, or redirect the output")
    with tempfile.TemporaryDirectory(prefix="gossamer-") as folder:
        path = Path(folder) / "pages.parquet"
        path.touch()
        _write_parquet(root, condition, parameters, path)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
