"""`gossamer settings`: what a crawl would run with, and where each value comes from."""

import argparse
from importlib.metadata import version

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
    identity = layers.combine(given).identity
    print(f"# user agent: {identity.user_agent(version('gossamer'))}")
    last_given = {name: value for layer in given for name, value in layer.items()}
    section = ""
    for setting in layers.settings_by_name().values():
        if setting.section != section:
            section = setting.section
            print(f"\n[{section}]")
        found = last_given.get(setting.name, layers.Given(setting.default, "default"))
        # An absent text has no value that could be written back, so its line stays a comment.
        # Nor is a password shown.
        shown = redacted(found.value) if isinstance(found.value, str) else found.value
        print(f"{'# ' if found.value == '' else ''}{setting.name} = {layers.show(shown)}  # {printable(found.source)}")
    return 0
