"""floors.json: how far above the floor Gossamer is, by system and scheme, in the best run that was recorded.

Ratios to a floor that was measured in the same run compare between machines and between busy and idle hours, as times
do not. The file changes only when somebody asks for it, and never for the worse without being told so.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.crawl.measured import Floor, Measured

FILE = Path(__file__).resolve().parents[1] / "floors.json"
#: What a shared machine does to figures is less than this.
TOLERANCE = 1.25


def ratios(measured: Mapping[str, Measured], floors: Mapping[str, Floor]) -> dict[str, float]:
    """By the system's name, of those whose scheme has a floor."""
    return {
        name: round(one.total / floors[one.scheme].total, 2) for name, one in measured.items() if one.scheme in floors
    }


def load(file: Path = FILE) -> dict[str, float]:
    return {str(name): float(ratio) for name, ratio in json.loads(file.read_text()).items()} if file.exists() else {}


def save(kept: Mapping[str, float], file: Path = FILE) -> None:
    file.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")


def complaints(now: Mapping[str, float], kept: Mapping[str, float]) -> list[str]:
    """A line for each that is too far above what is kept, and for having nothing to compare."""
    common = [name for name in now if name in kept]
    if not common:
        return [f"nothing to compare: {FILE.name} has none of what was measured ({', '.join(now) or 'no ratio'})"]
    return [
        f"{name}: {now[name]:.2f} times the floor, {now[name] / kept[name] - 1:.0%} more than the {kept[name]:.2f}"
        f" in {FILE.name}; at most {TOLERANCE - 1:.0%} are allowed"
        for name in common
        if now[name] > kept[name] * TOLERANCE
    ]


def recorded(
    now: Mapping[str, float], kept: Mapping[str, float], *, accept_worse: bool
) -> tuple[dict[str, float], list[str]]:
    """What to keep from now on, and a line for each figure that was measured."""
    result, lines = dict(kept), []
    for name, ratio in now.items():
        before = kept.get(name)
        if before is None or ratio < before or (ratio > before and accept_worse):
            result[name] = ratio
            lines.append(f"{name}: {ratio:.2f} recorded" + (f", before {before:.2f}" if before is not None else ""))
        elif ratio > before:
            lines.append(f"{name}: {before:.2f} stays; {ratio:.2f} is worse and takes --accept-worse")
        else:
            lines.append(f"{name}: {before:.2f} as before")
    return result, lines
