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
    help_text = f"{setting.description} [{layers.show(setting.default)}]".replace("%", "%%")
    if setting.is_switch:
        group.add_argument(
            setting.flag, dest=setting.name, action=argparse.BooleanOptionalAction, default=None, help=help_text
        )
    else:
        group.add_argument(setting.flag, dest=setting.name, metavar=setting.placeholder, help=help_text)


def given_layers(arguments: argparse.Namespace) -> list[layers.Layer]:
    """The three layers, weakest first. All of them are judged, also the settings that this command does not read."""
    given = {name: value for name, value in vars(arguments).items() if name in layers.settings_by_name()}
    return [
        layers.toml_layer(*_document(arguments.config)),
        layers.environment_layer(os.environ),
        layers.flag_layer({name: value for name, value in given.items() if value is not None}),
    ]


def settings(arguments: argparse.Namespace) -> Settings:
    return layers.combine(given_layers(arguments))


def _document(file: str | None) -> tuple[dict[str, object], str]:
    if file is None:
        if not Path(DEFAULT_FILE).exists():
            return {}, DEFAULT_FILE
        file = DEFAULT_FILE
    try:
        return tomllib.loads(read_file(file, source="--config").decode()), file
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from None
