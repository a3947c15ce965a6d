"""Pages made to hurt a parser: each is answered within 300 MB, and its links, facts and both texts are there.

How much CPU time they take is measured by `python -m benchmarks.pathological`. Here a page whose reading takes ten
seconds of it, as one would that is quadratic in anything, kills its reader.
"""

import pytest

from gossamer.testing.pathological import FAMILIES, MAX_MEGABYTES, read_family


@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_page_costs_less_than_300_megabytes_and_keeps_its_links(family: str) -> None:
    readings = read_family(family)
    assert len(readings) >= 4
    assert [(reading.page, reading.fault) for reading in readings if reading.fault] == []
    assert [(reading.page, reading.megabytes) for reading in readings if reading.megabytes > MAX_MEGABYTES] == []
