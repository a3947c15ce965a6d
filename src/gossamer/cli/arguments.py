"""What every command shares: arguments with one-line errors, files as input, text made safe to print."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from unicodedata import category

from gossamer.errors import UsageError
from gossamer.invocation import command
from gossamer.spelling import closest
from gossamer.units import DURATION_EXAMPLES, read_seconds
from gossamer.url import redacted

#: Before an argument that follows `--`: no argument of a process can hold it.
_PROTECTED = "\0"


class Parser(argparse.ArgumentParser):
    """An argparse parser whose every complaint is one line, raised instead of printed.

    Flags are never guessed from an abbreviation: a script that relies on one breaks when a flag is added. A flag is
    given once, unless its action is `append`: the first value would be lost silently.
    """

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, action in {None: _Store, "store": _Store, "store_true": _StoreTrue, "switch": _Switch}.items():
            self.register("action", name, action)
        self.register("type", int, _whole_number)
        self.hints: Mapping[str, str] = {}
        """What to use instead, by flags that this command does not have."""
        self._given: set[str] = set()
        self._hidden: dict[argparse.Action, str | None] = {}

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"{message}{' See' if message.endswith('?') else '; see'} {command(*self.prog.split()[1:], '--help')}"
        )

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        self._given.clear()
        # Intermixed: `robots FILE --agent TOKEN URL` has a flag between its positional arguments. That mode knows no
        # `--`, after which nothing is a flag.
        end = arguments.index("--") if "--" in arguments else len(arguments)
        protected = [f"{_PROTECTED}{word}" if word.startswith("-") else word for word in arguments[end + 1 :]]
        found, unknown = self.parse_known_intermixed_args([*arguments[:end], *protected])
        if unknown:
            self._refuse(unknown[0])
        return argparse.Namespace(**{name: _unprotected(value) for name, value in vars(found).items()})

    def count(self, action: argparse.Action, flag: str) -> None:
        """Called by a flag's action each time that the flag is given."""
        if action.dest in self._given:
            self.error(f"{flag}: {' or '.join(action.option_strings)} was given before; give it once")
        self._given.add(action.dest)

    def hide(self, action: argparse.Action) -> None:
        """Show it with `--help-all` only."""
        if not self._hidden:
            self.add_argument("--help-all", action=_HelpAll, help="show this help with all settings and exit")
            # argparse would list every flag a second time.
            names = [f"[{a.metavar} ...]" if a.nargs == "*" else f"{a.metavar}" for a in self._get_positional_actions()]
            self.usage = " ".join([self.prog, *names, "[options]"])
        self._hidden[action] = action.help
        action.help = argparse.SUPPRESS

    def show_all(self) -> None:
        """From now on the help shows what was hidden."""
        for action, text in self._hidden.items():
            action.help = text

    def _refuse(self, unknown: str) -> NoReturn:
        flag = unknown.partition("=")[0]
        if not flag.startswith("-"):
            self.error(f"unknown argument {redacted(unknown.removeprefix(_PROTECTED))!r}")
        hint = self.hints.get(flag)
        # Every letter is one mistake away from every other.
        nearest = closest(flag, self._option_string_actions) if flag.startswith("--") else None
        self.error(
            f"unknown argument {flag!r}" + (f": {hint}" if hint else f", did you mean {nearest}?" if nearest else "")
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            nearest = closest(str(value), action.choices)
            words = f", did you mean {nearest}?" if nearest else ""
            raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(action.choices)}{words}")


class _Once(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None and isinstance(parser, Parser):
            parser.count(self, option_string)
        super().__call__(parser, namespace, values, option_string)


class _Store(_Once, argparse._StoreAction):
    pass


class _StoreTrue(_Once, argparse._StoreTrueAction):
    pass


class _Switch(_Once, argparse.BooleanOptionalAction):
    pass


class _HelpAll(argparse._HelpAction):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if isinstance(parser, Parser):
            parser.show_all()
        super().__call__(parser, namespace, values, option_string)


def duration(text: str) -> float:
    """The type of an argument that is a duration."""
    found = read_seconds(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r:.200} is not a duration such as {DURATION_EXAMPLES}")
    return found


def _whole_number(text: str) -> int:
    """What `type=int` means here: argparse's own words would name a Python type."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.200} is not a whole number") from None


def _unprotected(value: Any) -> Any:
    if isinstance(value, list):
        return [_unprotected(item) for item in value]
    return value.removeprefix(_PROTECTED) if isinstance(value, str) else value


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


def at_least(flag: str, value: int | None, least: int) -> int | None:
    if value is not None and value < least:
        raise UsageError(f"{flag}: {value} makes no sense; give {least} or more")
    return value
