"""Pages made to hurt a parser: each is answered within its memory, and its links, facts and both texts are there.

How much CPU time they take is measured by `python -m benchmarks.pathological`. Here a page whose reading takes ten
seconds of it, as one would that is quadratic in anything, kills its reader. `./check campaign` reads them as long as a
page may be, `./check` a quarter of that, in the same shapes.
"""

import os

import pytest

from gossamer.testing.pathological import FAMILIES, MAX_MEGABYTES, PARSED_CHARACTERS, read_family

#: The part of the longest page that is read.
PART = 1.0 if "GOSSAMER_TEST_EXAMPLES" in os.environ else 0.25


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_page_costs_less_than_300_megabytes_and_keeps_its_links(family: str) -> None:
    readings = read_family(family, int(PART * PARSED_CHARACTERS))
    assert len(readings) >= 4
    assert [(reading.page, reading.fault) for reading in readings if reading.fault] == []
    assert [(reading.page, reading.megabytes) for reading in readings if reading.megabytes > MAX_MEGABYTES] == []
