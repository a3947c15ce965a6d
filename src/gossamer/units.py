"""Numbers as people write and read them: durations and sizes with a unit, counts with their noun."""

import contextlib
import math
import re
from fractions import Fraction

_DURATION_UNITS = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_SIZE_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
DURATION_EXAMPLES = "90, 90s, 10m, 1.5h or 1d"
SIZE_EXAMPLES = "1048576, 500KB, 10MB or 1GiB"

#: Fifteen digits keep a float exact, and an integer within what any store takes.
_NUMBER = r"(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})"
_DURATION = re.compile(rf"\s*(?:{_NUMBER}\s*(?:ms|s|min|m|h|d)\s*)+", re.ASCII | re.IGNORECASE)
_DURATION_PART = re.compile(rf"({_NUMBER})\s*(ms|s|min|m|h|d)", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(rf"\s*({_NUMBER})\s*([kmgt]?i?b)\s*", re.ASCII | re.IGNORECASE)
_PLAIN_BYTES = re.compile(r"\s*(\d{1,15})\s*", re.ASCII)


def read_seconds(text: str) -> float | None:
    """`90`, `90s`, `1.5h` or `1h30m` in seconds; None if it is no duration."""
    with contextlib.suppress(ValueError):
        plain = float(text)
        return plain if plain >= 0 and math.isfinite(plain) else None
    if not _DURATION.fullmatch(text):
        return None
    parts = _DURATION_PART.findall(text)
    return float(sum(Fraction(number) * _DURATION_UNITS[unit.lower()] for number, unit in parts))


def read_bytes(text: str) -> int | None:
    """`1048576`, `500KB` (1,000 each) or `1MiB` (1,024 each) in bytes; None if it is no size."""
    match = _SIZE.fullmatch(text)
    if match is not None and match[2].lower() in _SIZE_UNITS:
        return int(Fraction(match[1]) * _SIZE_UNITS[match[2].lower()])
    plain = _PLAIN_BYTES.fullmatch(text)
    return None if plain is None else int(plain[1])


def written_seconds(seconds: float) -> str:
    """The shortest form that `read_seconds` reads back: `70s`, `5m`, `100ms`, `0`."""
    exact = Fraction(str(seconds))
    for unit in ("d", "h", "m", "s", "ms"):
        if exact and (exact / _DURATION_UNITS[unit]).denominator == 1:
            return f"{exact / _DURATION_UNITS[unit]}{unit}"
    return f"{seconds:g}"


def written_bytes(number: int) -> str:
    """The shortest form that `read_bytes` reads back: `64MiB`, `1GB`, `100`."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"):
        if number and number % _SIZE_UNITS[unit.lower()] == 0:
            return f"{number // _SIZE_UNITS[unit.lower()]}{unit}"
    return f"{number}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 page`, `2 pages`, `1,000 processes`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
