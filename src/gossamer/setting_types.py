"""The kinds of values that settings have, beyond what their plain types say, and the marks beside a setting's type.

    delay_seconds: Annotated[Seconds, COMMON, Meta(ge=0, description="…")]

`layers.py` reads values of these kinds.
"""

from enum import Enum, auto
from typing import Annotated


class Kind(Enum):
    """How a value is written, where its plain type does not say it."""

    DURATION = auto()
    """A number of seconds, or a number with a unit."""
    SIZE = auto()
    """A number of bytes, or a number with a unit."""
    WORDS = auto()
    """Words with white space between them."""
    PATTERNS = auto()
    """Regular expressions. The flag may be repeated; a TOML file has one as text, or a list."""


class Mark(Enum):
    """What is said of a setting beside its type."""

    COMMON = auto()


#: One of the settings that people use: `--help` shows it, where `--help-all` shows the others too.
COMMON = Mark.COMMON

Seconds = Annotated[float, Kind.DURATION]
Bytes = Annotated[int, Kind.SIZE]
Words = Annotated[str, Kind.WORDS]
Patterns = Annotated[tuple[str, ...], Kind.PATTERNS]

#: In Meta.extra: what is allowed, where the type alone does not say it.
WORDING = "wording"
