"""Fixtures of the unit tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings


@pytest.fixture(scope="module", autouse=True)
def repeatable_examples() -> Iterator[None]:
    """The examples of hypothesis are the same on every run, and none fails because a busy machine was slow."""
    before = settings.get_current_profile_name()
    settings.load_profile("ci")
    yield
    settings.load_profile(before)
