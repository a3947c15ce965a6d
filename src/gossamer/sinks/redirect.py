"""Where a redirect leads, as the index and the log say it."""

from gossamer.config import UrlSettings
from gossamer.records import Answer
from gossamer.url import Refusal, canonicalise, redacted

#: What is no URL that could be asked for is shown so far.
_SHOWN_CHARACTERS = 2_000


def redirect_target(answer: Answer, urls: UrlSettings) -> str:
    """In the canonical form, so that it is the same as where it is asked for; what could never be is shown as it
    stands, without its password. Empty if it is no redirect."""
    location = answer.location if 300 <= answer.status < 400 else None
    if location is None:
        return ""
    base = canonicalise(answer.url, None, urls)
    target = base if isinstance(base, Refusal) else canonicalise(location, base, urls)
    return redacted(location)[:_SHOWN_CHARACTERS] if isinstance(target, Refusal) else target.text
