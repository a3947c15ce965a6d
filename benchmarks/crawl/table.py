"""All systems side by side, as Markdown."""

from collections.abc import Iterable, Mapping

from benchmarks.crawl.measured import FETCHER, PARSER, STORE, WHOLE, Floor, Measured

HEAD = (
    "| system | CPU ms/page | leader + fetchers | parsers | store | x floor | pages/s | peak MB | written MB | kept MB"
    " | KB/page | pages |"
)
#: What the columns mean that do not say it themselves.
NOTES = (
    "CPU: user and system time of every process of the system and of its store; written (to the disk) and kept (at the"
    " end): per 1,000 pages; KB/page: of the body on the wire; x floor: of the floor with the same scheme."
)


def row(one: Measured, floor: Floor | None) -> str:
    kinds = [f"{one.cpu[kind]:.2f}" if kind in one.cpu else "" for kind in (FETCHER, PARSER, STORE)]
    if WHOLE in one.cpu:
        kinds = ["(one process)", "", ""]
    cells = [
        f"{one.system}, {one.scheme}",
        f"**{one.total:.2f}**",
        *kinds,
        f"{one.total / floor.total:.2f}" if floor else "",
        f"{one.pages_per_second:.0f}",
        f"{one.peak_bytes / 1e6:.0f}",
        f"{one.written_bytes / 1e3:.1f}",
        f"{one.kept_bytes / 1e3:.1f}",
        f"{one.received_bytes / 1e3:.1f}",
        f"{one.pages:,}",
    ]
    return f"| {' | '.join(cells)} |"


def floor_row(floor: Floor) -> str:
    parts = f"fetch {floor.fetch:.3f}, gunzip {floor.gunzip:.3f}, parse {floor.parse:.3f}"
    cells = [f"floor, {floor.scheme} ({parts})", f"**{floor.total:.2f}**", "", "", "", "1.00", "", "", "", ""]
    return f"| {' | '.join([*cells, f'{floor.received_bytes / 1e3:.1f}', f'{floor.pages:,}'])} |"


def table(measured: Iterable[Measured], floors: Mapping[str, Floor]) -> list[str]:
    """Lines."""
    lines = [HEAD, "|---" + "|--:" * (HEAD.count("|") - 2) + "|"]
    lines += [row(one, floors.get(one.scheme)) for one in measured]
    lines += [floor_row(floor) for floor in floors.values()]
    return [*lines, "", NOTES]


def known_table(measured: list[Measured]) -> list[str]:
    """The same crawl with few and with many known URLs."""
    first = measured[0].total
    lines = ["| system | known URLs, beginning to end | CPU ms/page | ratio |", "|---|--:|--:|--:|"]
    for one in measured:
        known = " to ".join(f"{count:,}" for count in one.known or ())
        lines.append(f"| {one.system}, {one.scheme} | {known} | {one.total:.2f} | {one.total / first:.2f} |")
    return lines
