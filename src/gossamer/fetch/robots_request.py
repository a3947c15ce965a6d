"""One origin's robots.txt, asked for: redirects followed, the answer's meaning named.

Whatever is not a whole and readable answer keeps us out (RFC 9309 section 2.3.1).
"""

import msgspec

from gossamer.config import UrlSettings
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.robots import Access, access_for
from gossamer.fetch.robots_file import BODY_LIMIT_BYTES
from gossamer.fetch.robots_redirects import RobotsRedirects
from gossamer.fetch.server_addresses import Turn
from gossamer.records import Answer, Reason
from gossamer.url import Refusal, Url, canonicalise

#: What happens before there is anybody to answer.
_UNREACHED = frozenset({Reason.DNS, Reason.CONNECT, Reason.TLS, Reason.BLOCKED_ADDRESS, Reason.SERVER_ADDRESS})


class Heard(msgspec.Struct, frozen=True):
    """What the answer means; never FOLLOW."""

    access: Access
    answer: Answer | None = None
    """Of PARSE only: the file as it was received."""
    retry_after: bytes | None = None
    detail: str = ""
    """For a person: what was wrong."""


class RobotsLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of one visit have to keep to."""

    ends_at: float | None = None
    """Monotonic: all of them together."""
    turn: Turn | None = None
    """At the server's address; asked for with the first request."""
    redirects: RobotsRedirects | None = None
    """Asked before a request to another site."""
    settings: UrlSettings = UrlSettings()
    """By which a redirect's site is known."""


async def request_robots(client: Client, url: Url, answers: list[Answer], limits: RobotsLimits) -> Heard | Failure:
    """Ask the origin of a URL. A Failure: the origin cannot even be asked, so none of its pages could be had either.

    All that was answered on the way, whatever it means, is added to `answers` as it comes, for the archive.
    """
    place: Url | Refusal | None = canonicalise("/robots.txt", url, limits.settings)
    been: list[str] = []
    while isinstance(place, Url):
        if been and place.site != url.site and limits.redirects is not None:
            refusal = limits.redirects.refusal(place)
            if refusal:
                return Heard(Access.DISALLOW_ALL, detail=refusal)
            turn = limits.redirects.turn(url.site, limits.turn)
            try:
                answer = await _get(client, place, limits.ends_at, turn)
            finally:
                turn.end()
        else:
            answer = await _get(client, place, limits.ends_at, limits.turn)
        if isinstance(answer, Failure):
            if answer.reason is Reason.OUR_SHORTAGE or (not been and _was_unreached(answer, place)):
                return answer
            return Heard(Access.DISALLOW_ALL, detail=f"{answer.reason}: {answer.detail}")
        answers.append(answer)
        been.append(place.text)
        place = canonicalise(answer.location, place, limits.settings) if answer.location else None
        loop = isinstance(place, Url) and place.text in been
        access = access_for(answer.status, redirects_followed=len(been) - 1, loop=loop)
        if access is Access.PARSE:
            return Heard(access, answer)
        if access is not Access.FOLLOW:
            return Heard(access, retry_after=answer.header(b"retry-after"), detail=f"status {answer.status}")
    return Heard(Access.DISALLOW_ALL, detail="redirected to nowhere")


async def _get(client: Client, place: Url, ends_at: float | None, turn: Turn | None) -> Answer | Failure:
    return await client.get(
        place, max_body_bytes=BODY_LIMIT_BYTES, fetch_type="robots", ends_at=ends_at, may_connect=turn
    )


def _was_unreached(failure: Failure, place: Url) -> bool:
    if failure.reason is Reason.TIMEOUT:
        last_step = failure.times.tls if place.scheme == "https" else failure.times.connect
        return last_step is None
    return failure.reason in _UNREACHED
