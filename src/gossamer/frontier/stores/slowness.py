"""Names what takes long: a call to a store, or a connection that one call keeps from the others."""

import logging
import sys
import time
from contextvars import ContextVar

#: A call that takes longer is worth a line: with its batch it takes milliseconds.
SLOW_SECONDS = 2.0
#: What the stores and the machinery around them are written in: the caller of a verb stands outside of it.
_OURS = ("gossamer.frontier.stores", "gossamer.run.metered_store", "asyncio")

_LOG = logging.getLogger("gossamer.frontier")

verb_in_work: ContextVar[str] = ContextVar("verb_in_work", default="a call")
"""On whose behalf a connection is used."""


def note_call(verb: str, seconds: float) -> bool:
    """Whether a call was slow; if so, it is in the log."""
    if seconds <= SLOW_SECONDS:
        return False
    _LOG.warning("the store's %s took %.1f s, called by %s", verb, seconds, _caller())
    return True


def note_held(since: float) -> None:
    """A connection is given back that was taken at this time of the monotonic clock."""
    seconds = time.monotonic() - since
    if seconds > SLOW_SECONDS:
        _LOG.warning("%s held its connection for %.1f s, called by %s", verb_in_work.get(), seconds, _caller())


def _caller() -> str:
    """Who waits for this: the nearest frame outside of the stores."""
    frame = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_OURS):
            return f"{module}.{frame.f_code.co_name}, line {frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "a task of its own"
