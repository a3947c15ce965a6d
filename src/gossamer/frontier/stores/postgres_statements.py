"""The statements of the PostgreSQL store: named files in postgres_sql, each of which begins with what it does."""

import functools
from collections.abc import Iterable
from importlib import resources

_FILES = resources.files(__package__).joinpath("postgres_sql")


def statement(name: str) -> str:
    """As the file has it: prepared once for each connection, so its comments cost nothing."""
    return _statements()[name]


def literal(values: Iterable[object]) -> str:
    """Numbers, truth values, words without a comma or None, as a statement reads them that has `$n::text::type[]`.

    As a list, asyncpg would ask of each value whether it is a list, too, which costs three times what this does.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


@functools.cache
def _statements() -> dict[str, str]:
    """All at once, when the store opens: later there may be no descriptor left to read a file."""
    files = (file for file in _FILES.iterdir() if file.name.endswith(".sql"))
    return {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in files}


@functools.cache
def migrations() -> tuple[str, ...]:
    """In their order: the first makes a frontier of version 1, the next one of it a frontier of version 2."""
    files = sorted(_FILES.joinpath("migrations").iterdir(), key=lambda file: file.name)
    return tuple(file.read_text("utf-8") for file in files if file.name.endswith(".sql"))
