"""`gossamer settings`: what a crawl would run with, and where each value comes from."""

import argparse
from importlib.metadata import version

import msgspec

from gossamer import layers
from gossamer.cli.arguments import Parser, printable
from gossamer.cli.flags import add_settings, given_layers
from gossamer.url import redacted

SUMMARY = "Check the settings as a crawl would, and print them with the source of each."
NOTES = (
    """The output is itself a valid gossamer.toml. A crawl needs a contact, and so does this: --email or --contact."""
)


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--reference", action="store_true", help="print every setting as the tables of the manual")
    sections = list(dict.fromkeys(setting.section for setting in layers.settings_by_name().values()))
    add_settings(parser, sections, only_common=True)


def run(arguments: argparse.Namespace) -> int:
    if arguments.reference:
        print(layers.reference(), end="")
        return 0
    given = given_layers(arguments)
    settings = layers.combine(given)
    print(f"# user agent: {settings.identity.user_agent(version('gossamer'))}")
    sources = {name: value.source for layer in given for name, value in layer.items()}
    for section, values in msgspec.to_builtins(settings).items():
        print(f"\n[{section}]")
        for name, value in values.items():
            shown = redacted(value) if isinstance(value, str) else value  # a password is not shown
            print(f"{name} = {layers.show(shown)}  # {printable(sources.get(name, 'default'))}")
    return 0
