"""Rules that a resume loosens, and what they have kept out so far. Pure.

A refused link is not kept, and a URL that was dropped at its turn is finished: neither comes back when the rule
changes. Whoever loosens a rule is told so, with numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gossamer.config import Settings
from gossamer.fetch.addresses import ports_of
from gossamer.frontier.admission import Exclusions
from gossamer.frontier.refused_links import CODES
from gossamer.records import Reason

ADVICE = (
    "a refused link comes in only if a page that is still to be fetched links to it; for all of them, start a new crawl"
    " with these settings, or with their URLs as seeds"
)


class _Rule(NamedTuple):
    """A setting by its section and name, the reasons that it refuses with, and what makes it looser."""

    section: str
    name: str
    reasons: tuple[Reason, ...]
    is_looser: Callable[[Any, Any], bool]


def _is_deeper(before: int, after: int) -> bool:
    return before >= 0 and (after < 0 or after > before)


def _is_more(before: float, after: float) -> bool:
    return after > before


def _has_fewer(before: str, after: str) -> bool:
    return bool(set(before.split()) - set(after.split()))


def _has_others(before: str, after: str) -> bool:
    return _has_fewer(after, before)


def _excludes_less(before: Any, after: Any) -> bool:
    """Which of two patterns matches more cannot be told: one that is not there any more may have."""
    return bool(_patterns(before) - _patterns(after))


def _has_fewer_ports(before: str, after: str) -> bool:
    return bool(ports_of(before) - ports_of(after))


def _includes_more(before: Any, after: Any) -> bool:
    return bool(before) and (not after or bool(_patterns(after) - _patterns(before)))


def _patterns(value: str | tuple[str, ...]) -> set[str]:
    """One, or several."""
    return set(filter(None, [value] if isinstance(value, str) else value))


_RULES = (
    _Rule("scope", "scope", (Reason.SCOPE,), lambda before, after: (before, after) == ("seeds", "any")),
    _Rule("scope", "max_depth", (Reason.DEPTH,), _is_deeper),
    _Rule("scope", "max_hops", (Reason.HOPS,), _is_more),
    _Rule("scope", "include", (Reason.NOT_INCLUDED,), _includes_more),
    _Rule("scope", "exclude", (Reason.EXCLUDED,), _excludes_less),
    _Rule("scope", "skip_extensions", (Reason.EXTENSION,), _has_fewer),
    _Rule("scope", "max_path_segments", (Reason.PATH_DEPTH,), _is_more),
    _Rule("scope", "max_path_repeats", (Reason.PATH_REPEATS,), _is_more),
    _Rule("scope", "max_path_variants", (Reason.PATH_VARIANTS,), _is_more),
    _Rule("scope", "max_site_urls", (Reason.SITE_FULL,), _is_more),
    _Rule("scope", "max_site_queue", (Reason.QUEUE_FULL,), _is_more),
    _Rule("scope", "max_site_queue_bytes", (Reason.QUEUE_FULL,), _is_more),
    _Rule("parse", "max_link_bytes", (Reason.LINK_BYTES,), _is_more),
    _Rule("fetch", "media_types", (Reason.MEDIA_TYPE,), _has_others),
    _Rule("fetch", "allow_private_addresses", (Reason.BLOCKED_ADDRESS,), _is_more),
    _Rule("fetch", "blocked_ports", (Reason.BLOCKED_ADDRESS,), _has_fewer_ports),
    _Rule("politeness", "max_crawl_delay_seconds", (Reason.CRAWL_DELAY,), _is_more),
)
_OF_EXCLUDE_FILE = (Reason.EXCLUDED, Reason.BLOCKED_SITE)


class Rules(NamedTuple):
    """All that a resume may change of what is admitted."""

    settings: Settings
    exclusions: Exclusions


def loosened(
    before: Rules, after: Rules, *, refused: Mapping[Reason, int] | None, dropped: Mapping[str, int]
) -> Iterator[str]:
    """A line for each looser rule that has kept something out.

    `refused` are links by reason, over all runs; None if they were not counted. `dropped` are URLs by reason.
    """
    for rule in _RULES:
        was = getattr(getattr(before.settings, rule.section), rule.name)
        now = getattr(getattr(after.settings, rule.section), rule.name)
        if rule.is_looser(was, now):
            yield from _line(_change(rule, was, now), rule.reasons, refused, dropped)
    removed = before.exclusions.domains - after.exclusions.domains
    prefixes = {prefix for found in after.exclusions.prefixes.values() for prefix in found}
    if removed or any(prefix not in prefixes for found in before.exclusions.prefixes.values() for prefix in found):
        yield from _line("the exclude file has lost entries", _OF_EXCLUDE_FILE, refused, dropped)


def _change(rule: _Rule, was: Any, now: Any) -> str:
    if rule.is_looser is _has_fewer:
        # The lists are long, and differ by a few words.
        return f"{rule.name} no longer has {_shown(' '.join(sorted(set(was.split()) - set(now.split()))))}"
    if rule.is_looser is _has_fewer_ports:
        return f"{rule.name} no longer has {_shown(' '.join(map(str, sorted(ports_of(was) - ports_of(now)))))}"
    return f"{rule.name.removesuffix('_seconds')} is now {_shown(now)} instead of {_shown(was)}"


def _line(
    change: str, reasons: tuple[Reason, ...], refused: Mapping[Reason, int] | None, dropped: Mapping[str, int]
) -> Iterator[str]:
    are_links_refused = any(reason in CODES for reason in reasons)
    links = None if refused is None and are_links_refused else sum((refused or {}).get(reason, 0) for reason in reasons)
    urls = sum(dropped.get(reason, 0) for reason in reasons)
    kept_out = ["links that it refused in earlier runs"] if links is None else []
    if links:
        kept_out.append(f"{links:,} link{'' if links == 1 else 's'} refused for this reason")
    if urls:
        # Which of the two it was is not counted.
        cause = "a blocked address or port" if Reason.BLOCKED_ADDRESS in reasons else "it"
        kept_out.append(f"{urls:,} URL{'' if urls == 1 else 's'} dropped for {cause}")
    if kept_out:
        stay = "stays" if (links or 0) + urls == 1 else "stay"
        yield f"{change}: {' and '.join(kept_out)} {stay} out"


def _shown(value: object) -> str:
    """Lists of words and patterns are cut: they may be long."""
    if isinstance(value, bool):
        return "on" if value else "off"
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    return "none" if not text else f"{text:.60}{'…' if len(text) > 60 else ''}"
