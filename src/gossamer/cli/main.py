"""The `gossamer` command: finds the command's file, runs it, turns what goes wrong into one line and an exit code."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from gossamer.cli.arguments import Parser, printable
from gossamer.errors import GossamerError, UsageError
from gossamer.invocation import command
from gossamer.spelling import closest
from gossamer.url import redacted

#: In the order of `gossamer --help`. Each is a module beside this one with SUMMARY, NOTES, add_arguments(parser) and
#: run(arguments).
COMMANDS = (
    "crawl",
    "resume",
    "demo",
    "status",
    "pages",
    "show",
    "sql",
    "export",
    "sites",
    "explain",
    "doctor",
    "verify",
    "url",
    "robots",
    "parse",
    "settings",
    "store",
    "simweb",
    "audit",
)


def command_module(name: str) -> ModuleType:
    """Imported when it is asked for: the simulated web alone takes longer to import than `url` takes to run."""
    return import_module(f"gossamer.cli.{name}")


def command_parser(name: str) -> Parser:
    module = command_module(name)
    parser = Parser(f"gossamer {name}", f"{module.SUMMARY}\n\n{module.NOTES}")
    module.add_arguments(parser)
    return parser


def overview() -> Parser:
    """The parser of `gossamer` itself: it knows the commands' names and nothing of their arguments."""
    rows = "\n".join(f"  {name:<10}{command_module(name).SUMMARY}" for name in COMMANDS)
    parser = Parser("gossamer", f"A broad web crawler: polite, multi-process, crash-proof.\n\ncommands:\n{rows}")
    parser.add_argument("--version", action="version", version=f"gossamer {version('gossamer')}")
    parser.add_argument("command", metavar="command", help="one of the above; each has its --help")
    return parser


def _no_command(word: str) -> str:
    """Answers what is asked of `gossamer` itself; otherwise says which command may be meant."""
    if word in {"-h", "--help", "--version"}:
        overview().read([word])
    if word.startswith("-"):
        raise UsageError(f"unknown argument {word.partition('=')[0]!r}: a command comes first; see {command('--help')}")
    nearest = closest(word, COMMANDS)
    suggestion = f", did you mean {nearest}? See" if nearest else "; see"
    raise UsageError(f"unknown command {redacted(word)!r}{suggestion} {command('--help')}")


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    # What was crawled, or typed, may hold characters that the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not given:
        overview().print_help(sys.stderr)
        return 2
    if given[0] == "help":
        given = [*given[1:2], "--help"]
    try:
        name = given[0] if given[0] in COMMANDS else _no_command(given[0])
        code = int(command_module(name).run(command_parser(name).read(given[1:])))
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
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        print(f"gossamer: {printable(str(error))}; make room and try again: nothing is lost", file=sys.stderr)
        return 1
    return code
