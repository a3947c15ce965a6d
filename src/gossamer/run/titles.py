"""The names that processes have in `ps` and `top`, such as `gossamer: parser-1 mycrawl`."""

from pathlib import Path

import setproctitle

#: Of the kernel: TASK_COMM_LEN less its NUL.
SHORT_TITLE_BYTES = 15
#: Of a directory's name; more would only hide what stands behind it in a terminal.
MAX_DIRECTORY_CHARACTERS = 64
_PROGRAM = "gossamer"


def title(process: str, data: Path) -> str:
    """What `ps` shows: the process, and the name of its data directory without what could act on a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in data.resolve().name)
    return f"{_PROGRAM}: {process} {shown[:MAX_DIRECTORY_CHARACTERS]}".rstrip()


def short_title(process: str) -> str:
    """What `top` shows, in 15 bytes: of `parser-1` the number stays whole, so that processes can be told apart."""
    kind, _, number = process.partition("-")
    room = SHORT_TITLE_BYTES - len(_PROGRAM) - 1 - len(number)
    return f"{_PROGRAM}:{kind[: max(room, 0)]}{number}"


def set_title(process: str, data: Path) -> None:
    """In place of the command line, in which a store's password may stand."""
    setproctitle.setproctitle(title(process, data))
    setproctitle.setthreadtitle(short_title(process))
