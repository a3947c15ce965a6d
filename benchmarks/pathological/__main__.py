"""CPU time and memory of reading pages made to hurt a parser: `python -m benchmarks.pathological [FAMILY ...]`.

Of each family the pages that cost most are shown. The exit code is 1 if any page takes more CPU time or memory than a
page may cost, or is not read as it should be.
"""

import argparse
import platform
import sys

from gossamer.testing.pathological import FAMILIES, MAX_CPU_SECONDS, MAX_MEGABYTES, Reading, read_family

SHOWN = 3


def dearest(readings: list[Reading]) -> list[Reading]:
    """By CPU time, and the one that takes the most memory."""
    by_time = sorted(readings, key=lambda reading: reading.cpu_seconds, reverse=True)[:SHOWN]
    largest = max(readings, key=lambda reading: reading.megabytes)
    return by_time if largest in by_time else [*by_time, largest]


def complaint(reading: Reading) -> str:
    """What is wrong with it; empty if nothing is."""
    if reading.fault:
        return reading.fault
    if reading.cpu_seconds > MAX_CPU_SECONDS:
        return "too long"
    return "too large" if reading.megabytes > MAX_MEGABYTES else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; all, if none is named"
    )
    families = parser.parse_args().families or list(FAMILIES)
    if unknown := [family for family in families if family not in FAMILIES]:
        parser.error(f"{unknown[0]}: unknown; there are: {', '.join(FAMILIES)}")
    print(f"CPython {platform.python_version()}; a page may cost {MAX_CPU_SECONDS:g} s and {MAX_MEGABYTES} MB\n")
    print(f"{'page':<64}{'CPU s':>8}{'MB':>8}")
    wrong = 0
    for family in families:
        readings = read_family(family)
        complaints = {reading: found for reading in readings if (found := complaint(reading))}
        wrong += len(complaints)
        print(f"{family}, {len(readings)} pages")
        shown = dearest(readings)
        for reading in [*shown, *(reading for reading in complaints if reading not in shown)]:
            line = f"  {reading.page:<62.61}{reading.cpu_seconds:>8.2f}{reading.megabytes:>8.0f}"
            print(f"{line}  {complaints.get(reading, '')}".rstrip())
    print(f"\npages that cost too much or are not read as they should be: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
