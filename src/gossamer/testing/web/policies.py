"""What each origin's robots.txt says, and how it says it.

A policy is drawn for every host. What it allows is known here in closed form; the text that the server sends is written
from the same policy, and a test reads it with the crawler's own parser to see that both agree.
"""

from enum import StrEnum

import msgspec

#: The product token that has a group of its own in some files.
OUR_AGENT = "Gossamer"

PRIVATE_PREFIX = "/private/"

#: What RFC 9309 §2.3.1.2 asks a crawler to follow.
FAR_HOPS = 5

#: Beyond the 500 KiB that RFC 9309 §2.5 asks a crawler to read; the rule that counts stands at the beginning.
_HUGE_BYTES = 600 << 10


class Policy(StrEnum):
    """How an origin answers for its robots.txt."""

    OPEN = "open"
    """200, everything is allowed."""
    PARTS = "parts"
    """200, /private/ is disallowed."""
    ONLY_US = "only_us"
    """200, /private/ is disallowed for us and everything for all others."""
    DELAY = "delay"
    """As PARTS, with a Crawl-delay."""
    HUGE = "huge"
    """As PARTS, followed by comments up to 600 KiB."""
    MOVED = "moved"
    """One redirect, then as PARTS."""
    MOVED_FAR = "moved_far"
    """Five redirects, then as PARTS."""
    ABSENT = "absent"
    """404: everything is allowed."""
    FORBIDDEN = "forbidden"
    """200, everything is disallowed."""
    FAILING = "failing"
    """503: nothing may be fetched."""


class PolicyMix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often each policy is drawn, in proportion to all of them.

    By default four origins in five can be crawled without further ado, as on the web; each of the others is frequent
    enough for a web of a hundred sites to have some.
    """

    open: float = 35
    parts: float = 20
    only_us: float = 5
    delay: float = 4
    huge: float = 3
    moved: float = 4
    moved_far: float = 2
    absent: float = 20
    forbidden: float = 4
    failing: float = 3

    def choose(self, chance: float) -> Policy:
        weights = [getattr(self, policy) for policy in Policy]
        left = chance * sum(weights)
        for policy, weight in zip(Policy, weights, strict=True):
            left -= weight
            if left < 0:
                return policy
        return next(policy for policy in Policy if getattr(self, policy) > 0)


def everywhere(policy: Policy) -> PolicyMix:
    """The mix in which every origin has one policy."""
    return PolicyMix(**{other: float(other is policy) for other in Policy})


def allows(policy: Policy, target: str, agent: str) -> bool:
    if policy in (Policy.OPEN, Policy.ABSENT):
        return True
    if policy in (Policy.FORBIDDEN, Policy.FAILING):
        return False
    if policy is Policy.ONLY_US and agent.lower() != OUR_AGENT.lower():
        return False
    return not target.startswith(PRIVATE_PREFIX)


class RobotsAnswer(msgspec.Struct, frozen=True, gc=False):
    """What the server sends for a robots.txt, or for the place that one moved to."""

    status: int
    location: str | None = None
    """A path on the same host."""
    text: str = ""


def robots_answer(policy: Policy, target: str, delay_seconds: float, sitemap: str | None) -> RobotsAnswer | None:
    """The answer to `target`, /robots.txt or where it redirects to; None if the target is neither."""
    if target == "/robots.txt":
        hop = 0
    elif target.startswith("/robots-") and target.endswith(".txt") and target[8:-4] in set("12345"):
        hop = int(target[8:-4])
    else:
        return None
    hops = {Policy.MOVED: 1, Policy.MOVED_FAR: FAR_HOPS}.get(policy, 0)
    if hop > hops:
        return None
    if hop < hops:
        return RobotsAnswer(status=301 if hop % 2 else 302, location=f"/robots-{hop + 1}.txt")
    if policy is Policy.ABSENT:
        return RobotsAnswer(status=404, text="there is no such file\n")
    if policy is Policy.FAILING:
        return RobotsAnswer(status=503, text="out of order\n")
    return RobotsAnswer(status=200, text=_text(policy, delay_seconds, sitemap))


def _text(policy: Policy, delay_seconds: float, sitemap: str | None) -> str:
    parts = f"Disallow: {PRIVATE_PREFIX}\n"
    if policy is Policy.OPEN:
        text = "User-agent: *\nDisallow:\n"
    elif policy is Policy.FORBIDDEN:
        text = "User-agent: *\nDisallow: /\n"
    elif policy is Policy.ONLY_US:
        text = f"User-agent: *\nDisallow: /\n\nUser-agent: {OUR_AGENT}\n{parts}"
    elif policy is Policy.DELAY:
        text = f"User-agent: *\n{parts}Crawl-delay: {delay_seconds:g}\n"
    else:
        text = f"User-agent: *\n{parts}"
    if sitemap is not None:
        text += f"\nSitemap: {sitemap}\n"
    if policy is Policy.HUGE:
        comment = "# nothing of note stands on this line, nor on those that follow it\n"
        text += comment * ((_HUGE_BYTES - len(text)) // len(comment) + 1)
    return text
