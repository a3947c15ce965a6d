"""Who looks at the dashboard, so that the end of a crawl reaches the pages that are open.

A page asks every few seconds and learns of the end when it asks next; by then the server would be gone. So the server
waits at its end, for a moment, until each page that has asked lately has been told. It waits for nobody else.
"""

import threading
import time

#: A page that is looked at asks every 2.5 seconds, one in the background every 30: one that has not asked for so long
#: is closed, or in the background.
LATELY_SECONDS = 4.0
#: The most that the end of a crawl is held up.
WAIT_SECONDS = 4.0
#: Names of tabs that are remembered; others are not waited for.
MOST_TABS = 32


class Audience:
    """The pages that have asked, by the names that they gave themselves. Called in many threads."""

    def __init__(self) -> None:
        self._asked_at: dict[str, float] = {}
        self._changed = threading.Condition()

    def note(self, tab: str, *, knows_end: bool) -> None:
        """It has asked, and what it is answered says how the run ended, or that it goes on."""
        with self._changed:
            self._asked_at.pop(tab, None)
            if not knows_end:
                self._asked_at[tab] = time.monotonic()
                if len(self._asked_at) > MOST_TABS:
                    del self._asked_at[next(iter(self._asked_at))]
            self._changed.notify_all()

    def wait(self) -> None:
        """Until all that have asked lately have been told of the end, or it takes too long."""
        now = time.monotonic()
        with self._changed:
            looking = {tab for tab, asked_at in self._asked_at.items() if asked_at > now - LATELY_SECONDS}
            self._changed.wait_for(lambda: not looking & self._asked_at.keys(), WAIT_SECONDS)
