"""The settings as flags, and the layers that a command runs with: gossamer.toml < environment < flags."""

import argparse
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

from gossamer import layers
from gossamer.cli.arguments import Parser, read_file
from gossamer.config import Settings
from gossamer.errors import UsageError
from gossamer.units import DURATION_EXAMPLES, SIZE_EXAMPLES

DEFAULT_FILE = "gossamer.toml"

_DATA = "a crawl writes into its data directory, `gossamer crawl --data-dir DIR`; `gossamer export` writes its pages"
_REQUESTS = "use --fetcher-workers N, the requests at once of each fetcher process"
_SIZE = "there is no limit for the size of a crawl; --max-body SIZE limits each page, --max-pages N their number"
_VERBOSE = "use --log-level debug; the log files are in the data directory"
_REDIS = "the frontier's server is one URL: --store redis://[:PASSWORD@]HOST:PORT/DB, or GOSSAMER_STORE"
#: What to use instead of the flags of other crawlers, and of other commands of this one.
HINTS = {
    "--resume": "to continue a crawl, use `gossamer resume DIR`",
    "--max-workers": _REQUESTS,
    "--workers": _REQUESTS,
    "--threads": _REQUESTS,
    "--concurrency": _REQUESTS,
    "--depth": "use --max-depth N",
    "--limit": "use --max-pages N",
    "--max-time": "use --max-duration DURATION",
    "--max-size": _SIZE,
    "--max-bytes": _SIZE,
    "--timeout": "use --fetch-timeout DURATION for a request, or --max-duration DURATION for the crawl",
    "--wait": "use --delay DURATION",
    "--user-agent": "it is made of --email and --contact, which say who is asking",
    "--ignore-robots": "robots.txt is always obeyed; there is no flag against that",
    "--allowed-domains": "use --scope seeds, which stays on the sites of the seeds, or --include PATTERN",
    "--seeds": "use --seed-file FILE, or give URLs without a flag",
    "--output": _DATA,
    "-o": _DATA,
    "--verbose": _VERBOSE,
    "-v": _VERBOSE,
    "--redis-host": _REDIS,
    "--redis-port": _REDIS,
    "--redis-db": _REDIS,
    "--redis-password": _REDIS,
    "--seed-file": "seeds are given to `gossamer crawl`, when a crawl is created",
    "--data-dir": "the data directory is given without a flag: `gossamer resume DIR`",
}


def add_settings(parser: Parser, sections: Sequence[str], *, only_common: bool = False) -> None:
    """Give a command the flags of the sections that it reads, and `--config`.

    With `only_common`, its help shows the settings that people use, and `--help-all` shows all.
    """
    parser.add_argument(
        "--config", metavar="FILE", help=f"settings file; {DEFAULT_FILE} in the current directory if there is one"
    )
    for section in sections:
        group = parser.add_argument_group(f"[{section}] {layers.section_title(section)}")
        for setting in layers.settings_by_name().values():
            if setting.section == section:
                action = add_setting(group, setting)
                if only_common and not setting.is_common:
                    parser.hide(action)
    if only_common:
        parser.hints = HINTS
        parser.epilog = (
            f"A DURATION is such as {DURATION_EXAMPLES}, a SIZE such as {SIZE_EXAMPLES}.\n"
            f"Each setting can also be given in {DEFAULT_FILE} or the environment: docs/configuration.md."
        )


def add_setting(group: argparse._ArgumentGroup, setting: layers.Setting) -> argparse.Action:
    repeated = "; may be repeated" if setting.is_list else ""
    default = f" [{setting.shown_default}]" if setting.default not in {"", ()} else ""
    # A percent sign in help text is argparse's own.
    help_text = f"{setting.description.removesuffix('.')}{repeated}{default}".replace("%", "%%")
    if setting.is_switch:
        return group.add_argument(setting.flag, dest=setting.name, action="switch", default=None, help=help_text)
    return group.add_argument(
        setting.flag,
        dest=setting.name,
        action="append" if setting.is_list else "store",
        metavar=setting.placeholder,
        help=help_text,
    )


def given_layers(arguments: argparse.Namespace) -> list[layers.Layer]:
    """The three layers, weakest first. All of them are judged, also the settings that this command does not read."""
    file = arguments.config
    if file is None and Path(DEFAULT_FILE).exists():
        file = DEFAULT_FILE
    return [{} if file is None else file_layer(file), *stronger_layers(arguments)]


def stronger_layers(arguments: argparse.Namespace) -> list[layers.Layer]:
    """Environment and flags: those that any file yields to."""
    given = {name: value for name, value in vars(arguments).items() if name in layers.settings_by_name()}
    return [
        layers.environment_layer(os.environ),
        layers.flag_layer({name: value for name, value in given.items() if value is not None}),
    ]


def settings(arguments: argparse.Namespace) -> Settings:
    return layers.combine(given_layers(arguments))


def file_layer(file: str) -> layers.Layer:
    try:
        return layers.toml_layer(tomllib.loads(read_file(file, source="--config").decode()), file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from None
