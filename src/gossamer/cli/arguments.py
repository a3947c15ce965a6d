"""What every command shares: arguments with one-line errors, files as input, text made safe to print."""

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from unicodedata import category

from gossamer.errors import UsageError
from gossamer.url import redacted


class Parser(argparse.ArgumentParser):
    """An argparse parser whose every complaint is one line, raised instead of printed.

    Flags are never guessed from an abbreviation: a script that relies on one breaks when a flag is added.
    """

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        # Intermixed: `robots FILE --agent TOKEN URL` has a flag between its positional arguments.
        # That mode knows no `--`, after which nothing is a flag.
        parse = self.parse_known_args if "--" in arguments else self.parse_known_intermixed_args
        found, unknown = parse(arguments)
        if unknown:
            known = sorted(set(re.findall(r"--[a-z][a-z-]+", self.format_help())))
            flag = unknown[0].partition("=")[0]
            nearest = difflib.get_close_matches(flag, known, n=1)
            shown = flag if flag.startswith("-") else redacted(unknown[0])
            self.error(f"unknown argument {shown!r}" + (f", did you mean {nearest[0]}?" if nearest else ""))
        return found


def read_file(name: str, *, source: str, at_most: int = -1) -> bytes:
    """A file's bytes, or standard input's for `-`."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(at_most)
        with Path(name).open("rb") as file:
            return file.read(at_most)
    except OSError as error:
        raise UsageError(f"{source}: cannot read {name!r}: {error.strerror or error}") from None


def printable(text: str) -> str:
    """`text` with whatever could steer a terminal (controls, escapes, bidirectional marks) written out."""
    return "".join(c if c.isprintable() or category(c) == "Zs" else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def print_row(name: str, value: object) -> None:
    print(f"  {name:<18}{printable(f'{value}')}")
