"""Where a robots.txt may be redirected to, if that is another site.

Such a request goes to a site that is not leased, whose own delay and robots.txt nobody has asked about. So its target
must not be excluded, and of each target site and each server's network only so much is asked for.
"""

import time
from collections import OrderedDict

from gossamer.fetch.server_addresses import ServerAddresses, Turn
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.store_clock import StoreClock
from gossamer.url import Url

#: Between two such requests of one fetcher to one target site.
GAP_SECONDS = 1.0
#: Target sites that are remembered: as many as could be asked in a gap, and more.
_SITES_KEPT = 20_000
#: Before the name of a site that waits for a turn at the server of its target; no site begins so.
_REDIRECTED = "robots of "


class RobotsRedirects:
    """Says of each target on another site whether it may be asked. The workers of one fetcher share it."""

    def __init__(self, rules: AdmissionRules, addresses: ServerAddresses, clock: StoreClock) -> None:
        self._rules = rules
        self._addresses = addresses
        self._clock = clock
        self._next_at: OrderedDict[str, float] = OrderedDict()
        """Monotonic; by target site."""

    def refusal(self, target: Url) -> str:
        """Why it is not followed now, for a person; empty if it is, and then it counts as asked."""
        if self._rules.excludes(target.text, target.site):
            return f"it is redirected to {target.host}, which is excluded"
        now = time.monotonic()
        if self._next_at.get(target.site, 0.0) > now:
            return f"it is redirected to {target.site}, to which others were redirected within the last second"
        self._next_at[target.site] = now + GAP_SECONDS
        self._next_at.move_to_end(target.site)
        if len(self._next_at) > _SITES_KEPT:
            self._next_at.popitem(last=False)
        return ""

    def turn(self, site: str, own: Turn | None) -> Turn:
        """At the server of the target, for a site that has one at its own; to be ended after the request.

        If there is none now, a time is reserved for the next try: also where many wait, it comes to its turn.
        """
        return Turn(self._addresses, self._clock.latest, f"{_REDIRECTED}{site}", own)
