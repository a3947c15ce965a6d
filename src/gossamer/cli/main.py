"""The `gossamer` command: finds the command's file, runs it, turns what goes wrong into one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import ModuleType

from gossamer.cli import parse, robots, settings, url
from gossamer.cli.arguments import Parser, printable
from gossamer.errors import GossamerError

#: In the order of `gossamer --help`. Each module has SUMMARY, NOTES, add_arguments(parser) and run(arguments).
COMMANDS: dict[str, ModuleType] = {"url": url, "robots": robots, "parse": parse, "settings": settings}


def command_parser(name: str) -> Parser:
    module = COMMANDS[name]
    parser = Parser(f"gossamer {name}", f"{module.SUMMARY}\n\n{module.NOTES}")
    module.add_arguments(parser)
    return parser


def overview() -> Parser:
    """The parser of `gossamer` itself: it knows the commands' names and nothing of their arguments."""
    rows = "\n".join(f"  {name:<10}{module.SUMMARY}" for name, module in COMMANDS.items())
    parser = Parser("gossamer", f"A broad web crawler: polite, multi-process, crash-proof.\n\ncommands:\n{rows}")
    parser.add_argument("--version", action="version", version=f"gossamer {version('gossamer')}")
    parser.add_argument("command", choices=COMMANDS, metavar="command", help="one of the above; each has its --help")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    # What was crawled, or typed, may hold characters that the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not given:
        overview().print_help(sys.stderr)
        return 2
    try:
        command = overview().read(given[:1]).command
        code = int(COMMANDS[command].run(command_parser(command).read(given[1:])))
        sys.stdout.flush()
    except GossamerError as error:
        print(f"gossamer: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not complain of it again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code
