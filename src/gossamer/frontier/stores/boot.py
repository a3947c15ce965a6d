"""A clock that nobody can set, and that counts the machine's sleep; good from one start of the machine to the next."""

import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Digits of it that are taken; a number of so many is exact as a float, too.
_DIGITS = 12


def since_boot() -> tuple[int, float]:
    """A number that every start of the machine has for itself, and the seconds since; 0 where the system tells none."""
    try:
        number = int(_BOOT_ID.read_text("ascii").replace("-", "")[:_DIGITS], 16)
    except (OSError, ValueError):
        return 0, 0.0
    return number, time.clock_gettime(time.CLOCK_BOOTTIME)
