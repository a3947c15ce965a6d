"""How this program was called, for the commands that its messages suggest."""

import os
import shlex

#: Set by the launcher, `./gossamer`, to the name that it was called by. Without it the program is on the PATH.
VARIABLE = "GOSSAMER_COMMAND"


def command(*words: str) -> str:
    """A command of this program that can be copied and run as it is."""
    return shlex.join([os.environ.get(VARIABLE) or "gossamer", *words])
