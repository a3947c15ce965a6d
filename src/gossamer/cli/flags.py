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

DEFAULT_FILE = "gossamer.toml"


def add_settings(parser: Parser, sections: Sequence[str]) -> None:
    """Give a command the flags of the sections that it reads, and `--config`."""
    parser.add_argument(
        "--config", metavar="FILE", help=f"settings file; {DEFAULT_FILE} in the current directory if there is one"
    )
    for section in sections:
        group = parser.add_argument_group(f"settings of [{section}]")
        for setting in layers.settings_by_name().values():
            if setting.section == section:
                add_setting(group, setting)


def add_setting(group: argparse._ArgumentGroup, setting: layers.Setting) -> None:
    # A percent sign in help text is argparse's own.
    help_text = f"{setting.description} [{setting.shown_default}]".replace("%", "%%")
    if setting.is_switch:
        group.add_argument(
            setting.flag, dest=setting.name, action=argparse.BooleanOptionalAction, default=None, help=help_text
        )
    elif setting.is_list:
        group.add_argument(
            setting.flag,
            dest=setting.name,
            action="append",
            metavar=setting.placeholder,
            help=f"{help_text}; may be repeated",
        )
    else:
        group.add_argument(setting.flag, dest=setting.name, metavar=setting.placeholder, help=help_text)


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
