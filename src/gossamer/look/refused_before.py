"""What is remembered of a URL that a rule kept out when it was found, in words. Pure; `explain.py` asks.

`frontier/refused_links.py` has what is remembered, and says when it may have been forgotten.
"""

import msgspec

from gossamer.frontier.refused_links import CELLS, Found, RefusedLink
from gossamer.look.refusals import Refused
from gossamer.records import Reason
from gossamer.units import counted

NOT_RECORDED = (
    "refused links of this crawl were not recorded: it may have been found under other rules, or when a queue was full"
)
FORGOTTEN = (
    "it may have been refused and forgotten: many links were refused, and each parser remembers the last ones in a"
    f" table of {CELLS:,} places"
)
NOT_STORED = (
    "refused links are not stored: it comes in only if a page that is still to be fetched links to it, or as a seed of"
    " a new crawl"
)

_HOW = {Found.LINK: "a link to it was refused", Found.REDIRECT: "a redirect to it was refused"}
_WORDS = {
    Reason.HOPS: "more redirects in a row led to it than max_hops allows",
    Reason.SCOPE: "scope was seeds, and its site was not seeded",
    Reason.EXTENSION: "skip_extensions had the ending of its path",
    Reason.NOT_INCLUDED: "include was not found in it",
    Reason.EXCLUDED: "it was excluded",
    Reason.BLOCKED_SITE: "the exclude file listed its site",
    Reason.PATH_DEPTH: "its path has more segments than max_path_segments allowed",
    Reason.PATH_REPEATS: "its path repeats a segment more often than max_path_repeats allowed",
    Reason.LINK_BYTES: "the URLs before it on its page had taken max_link_bytes",
    Reason.QUEUE_FULL: "its site's queue was full (max_site_queue, max_site_queue_bytes)",
    Reason.SITE_FULL: "its site had max_site_urls",
    Reason.PATH_VARIANTS: "its path had max_path_variants",
    Reason.SITE_DROPPED: "its site had been given up",
}


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What the trace of refused links says of a URL."""

    links: list[RefusedLink] = []
    target: list[RefusedLink] = []
    """Of the URL that it redirects to."""
    is_recorded: bool = True
    may_have_forgotten: bool = False


def words_of(link: RefusedLink) -> str:
    """Why it was refused then; the value of the setting at that time is not known."""
    if link.reason is Reason.DEPTH:
        return f"it is {counted(link.depth, 'link')} away from a seed, deeper than max_depth allowed"
    return _WORDS.get(link.reason, str(link.reason))


def how(link: RefusedLink) -> str:
    return _HOW.get(link.found, "it was given as a seed, and refused")


def refused_before(link: RefusedLink, now: Refused | None) -> tuple[str, Refused]:
    """The line, and the rule that decided; `now` is what the rules say of it at this moment."""
    if now is not None and now.reason is link.reason:
        return f"refused: {how(link)}: {now.words}", now
    then = words_of(link)
    if now is not None:
        return f"refused: {how(link)} ({then}), and the rules as they are now refuse it too: {now.words}", now
    return f"refused: {how(link)}: {then}; the rules as they are now would admit it", Refused(link.reason, then)
