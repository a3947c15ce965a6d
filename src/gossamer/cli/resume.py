"""`gossamer resume`: goes on with a crawl that was stopped or killed."""

import argparse
from pathlib import Path

from gossamer import layers
from gossamer.cli import flags
from gossamer.cli.arguments import Parser, at_least
from gossamer.cli.running import (
    add_crawl_flags,
    check_for_crawl,
    print_end,
    read_exclusions,
    run_crawl,
    scope_flag,
    take_exclusions,
)
from gossamer.errors import UsageError
from gossamer.frontier.admission import Exclusions
from gossamer.run.data_directory import FIXED, DataDirectory
from gossamer.run.loosened import Rules
from gossamer.run.resuming import Resuming
from gossamer.run.stores import EMBEDDED, StoreChoice, check_same_kind

SUMMARY = "Go on with a crawl that was stopped, killed or at its limit; settings may change."
NOTES = f"""What the crawl was started with holds, unless it is given anew; what is given anew is kept for the next
time. The numbers of processes may change. Fixed are: {", ".join(sorted(FIXED))}, and the kind of store.

--max-pages counts the pages of all runs. --more-pages N sets it to the pages so far and N more."""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("data_dir", metavar="DIR", help="the data directory of the crawl")
    parser.add_argument(
        "--more-pages", type=int, metavar="N", help="stop after N more pages: sets --max-pages to those so far and N"
    )
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
    if at_least("--more-pages", arguments.more_pages, 1) is not None and arguments.max_pages is not None:
        raise UsageError("--more-pages and --max-pages: both set the same limit; give one of them")
    settings = layers.combine([layers.without_derived(kept), *given])
    check_for_crawl(settings)
    check_same_kind(data, layers.combine([kept]).frontier.store, _store(kept, *given))
    exclusions = read_exclusions(arguments.exclude_file)
    data.take()
    data.rewrite_settings()
    before = Rules(layers.combine([kept]), _readable_exclusions(data))
    take_exclusions(data, exclusions)
    resuming = Resuming(data, before, settings, more_pages=arguments.more_pages)
    summary = run_crawl(data, settings, quiet=arguments.quiet, begin=resuming.begin)
    return print_end(summary, as_json=arguments.json, had_nothing_to_do=resuming.has_nothing_to_do)


def _readable_exclusions(data: DataDirectory) -> Exclusions:
    """Of the run before; a file that was damaged since then may be replaced by this resume."""
    try:
        return data.exclusions()
    except UsageError:
        return Exclusions()


def _store(*given: layers.Layer) -> StoreChoice:
    found = [layer["store"] for layer in given if "store" in layer]
    return StoreChoice(*found[-1]) if found else StoreChoice(EMBEDDED, "the default")
