"""Numbers as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.units import counted, read_bytes, read_seconds, written_bytes, written_seconds


@given(st.integers(0, 10**14))
def test_a_size_that_is_written_is_read_back(number: int) -> None:
    assert read_bytes(written_bytes(number)) == number


@given(st.integers(0, 10**12).map(lambda milliseconds: milliseconds / 1000))
def test_a_duration_that_is_written_is_read_back(seconds: float) -> None:
    assert read_seconds(written_seconds(seconds)) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "10x", "1 0", "-5s", "1e", "10mm", "5s, 3s", "inf", "nan", "-1", "١٠s", "9" * 400]
)
def test_what_is_no_duration_is_none(text: str) -> None:
    assert read_seconds(text) is None


@pytest.mark.parametrize("text", ["", "B", "10", "1.5", "10M", "10kbit", "10iB", "-1KB", "1e3KB", "nan", "9" * 16])
def test_what_is_no_size_is_none(text: str) -> None:
    assert (read_bytes(text) is None) == (text != "10")


def test_a_count_has_the_form_of_its_noun() -> None:
    assert [counted(number, "page") for number in (0, 1, 2, 1000)] == ["0 pages", "1 page", "2 pages", "1,000 pages"]
    assert counted(2, "process", "processes") == "2 processes"
