"""`gossamer resume`: goes on with a crawl that was stopped or killed."""

import argparse
from pathlib import Path

from gossamer import layers
from gossamer.cli import flags
from gossamer.cli.arguments import Parser
from gossamer.cli.running import add_crawl_flags, print_end, read_exclusions, run_crawl, scope_flag, take_exclusions
from gossamer.errors import UsageError
from gossamer.run.data_directory import FIXED, DataDirectory

SUMMARY = "Go on with a crawl that was stopped, killed or at its limit; settings may change."
NOTES = f"""What the crawl was started with holds, unless it is given anew; what is given anew is kept for the next
time. The numbers of processes may change. Fixed are: {", ".join(sorted(FIXED))}."""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("data_dir", metavar="DIR", help="the data directory of the crawl")
    add_crawl_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    scope_flag(arguments)
    data = DataDirectory(Path(arguments.data_dir))
    kept = data.read_settings()
    given = [{} if arguments.config is None else flags.file_layer(arguments.config), *flags.stronger_layers(arguments)]
    for layer in given:
        for name in FIXED & layer.keys():
            before = kept[name].value if name in kept else layers.settings_by_name()[name].default
            if layer[name].value != before:
                raise UsageError(
                    f"{layer[name].source}: {layer[name].value!r} cannot be given to this crawl; it was created with"
                    f" {before!r}, and that is fixed"
                )
    settings = layers.combine([kept, *given])
    exclusions = read_exclusions(arguments.exclude_file)
    data.take()
    take_exclusions(data, exclusions)
    data.write_settings(settings)
    return print_end(run_crawl(data, settings, quiet=arguments.quiet), as_json=arguments.json)
