"""What an audit comes to: counts, offences with their first examples, a verdict; for people and for programs."""

import heapq
import json
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from gossamer.units import counted

#: The time of what never happened; the clock has none below zero.
NEVER = -1

#: A URL of 2,000 characters would hide the rest of a report for people; programs get it whole.
_SHOWN_CHARACTERS = 200


class Offence(StrEnum):
    """What a crawler can be convicted of, in the order of the report."""

    NEVER_FETCHED = "never-fetched"
    CUT_OFF = "cut-off"
    NOT_REACHABLE = "not-reachable"
    DISALLOWED = "disallowed"
    DUPLICATE = "duplicate"
    TOO_SOON = "too-soon"
    OVERLAP = "overlap"
    ROBOTS_NOT_FIRST = "robots-not-first"
    ROBOTS_TOO_OFTEN = "robots-too-often"
    ROBOTS_TOO_SOON = "robots-too-soon"
    USER_AGENT = "user-agent"
    FOREIGN = "foreign"


MEANINGS = {
    Offence.NEVER_FETCHED: "reachable and allowed, but never requested",
    Offence.CUT_OFF: "requested, but every answer was cut off before its end",
    Offence.NOT_REACHABLE: "requested, though no path of allowed pages leads there",
    Offence.DISALLOWED: "requested, though robots.txt keeps it out",
    Offence.DUPLICATE: "requested again after a complete and final answer",
    Offence.TOO_SOON: "requested before the site's delay had passed",
    Offence.OVERLAP: "requested while another request to the site was under way",
    Offence.ROBOTS_NOT_FIRST: "first page of an origin requested before its robots.txt was known",
    Offence.ROBOTS_TOO_OFTEN: "robots.txt requested again too early",
    Offence.ROBOTS_TOO_SOON: "requested too soon before or after a visit that asked for robots.txt and no page",
    Offence.USER_AGENT: "requested under another name",
    Offence.FOREIGN: "requested from a host that is not of this web",
}


class Example(msgspec.Struct, frozen=True):
    """One case of an offence; `at_seconds` counts from the first request of the log, None for what never happened."""

    at_seconds: float | None
    url: str
    detail: str


class Finding(msgspec.Struct, frozen=True):
    """One offence and how often it was committed; `examples` are the first of them in time."""

    offence: Offence
    count: int
    examples: tuple[Example, ...]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted, whether or not it is an offence."""

    requests: int
    robots_requests: int
    cut_off: int
    retries: int
    """Requests for a URL that had had no complete and final answer yet."""
    repeats: int
    """Requests for a URL that had one: an offence beyond the number that the rules allow."""
    sites: int
    origins: int
    urls_requested: int
    """Distinct, without robots.txt."""
    urls_expected: int
    urls_expected_requested: int
    behind_disallowed: int
    """Found on pages that were not to be fetched: a consequence, so they are no offence of their own."""
    seconds: float
    shortest_gap_seconds: float | None
    """Between the end of one request and the start of the next to the same site; None if no site had two in turn."""


class Audit(msgspec.Struct, frozen=True):
    """The answer of `audit`: clean if and only if there are no findings."""

    counts: Counts
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        return not self.findings

    @property
    def offences(self) -> set[Offence]:
        return {finding.offence for finding in self.findings}

    @property
    def verdict(self) -> str:
        return "clean" if self.is_clean else f"convicted of: {', '.join(found.offence for found in self.findings)}"

    def to_json(self) -> str:
        return json.dumps({"verdict": self.verdict} | msgspec.to_builtins(self))

    def lines(self) -> Iterator[str]:
        """The report. URLs and details hold what a client sent: a terminal wants them escaped."""
        counts = self.counts
        gap = "none" if counts.shortest_gap_seconds is None else f"{counts.shortest_gap_seconds:.3f} s"
        yield f"requests      {counts.requests:,} in {counts.seconds:,.3f} s"
        yield f"  robots.txt  {counts.robots_requests:,}"
        yield f"  cut off     {counts.cut_off:,}"
        yield f"  retries     {counts.retries:,}"
        yield f"  repeats     {counts.repeats:,}"
        yield f"urls          {counts.urls_requested:,} requested, {counts.urls_expected_requested:,} of them expected"
        yield f"  expected    {counts.urls_expected:,}"
        yield f"sites         {counts.sites:,} with {counted(counts.origins, 'origin')}"
        yield f"shortest gap  {gap}"
        for finding in self.findings:
            yield f"{finding.offence} ({finding.count:,}): {MEANINGS[finding.offence]}"
            for example in finding.examples:
                when = "" if example.at_seconds is None else f"+{example.at_seconds:.3f} s  "
                detail = f"  ({example.detail})" if example.detail else ""
                yield f"  {when}{example.url:.{_SHOWN_CHARACTERS}}{detail:.{_SHOWN_CHARACTERS}}"
            if finding.count > len(finding.examples):
                yield f"  … and {finding.count - len(finding.examples):,} more"
        if counts.behind_disallowed:
            yield f"{counts.behind_disallowed:,} more were found only on pages that were not to be fetched"
        yield f"verdict       {self.verdict}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Charges:
    """Collects offences while an audit goes on, in any order; the first examples in time survive."""

    def __init__(self) -> None:
        self._cases: dict[Offence, list[tuple[int, str, str]]] = {offence: [] for offence in Offence}

    def add(self, offence: Offence, at_ns: int, url: str, detail: str = "") -> None:
        self._cases[offence].append((at_ns, url, detail))

    def count(self, offence: Offence) -> int:
        return len(self._cases[offence])

    def findings(self, *, began_at_ns: int, examples: int, pardoned: set[Offence]) -> tuple[Finding, ...]:
        return tuple(
            Finding(
                offence,
                len(cases),
                tuple(
                    Example((at_ns - began_at_ns) / 1e9 if at_ns != NEVER else None, url, detail)
                    for at_ns, url, detail in heapq.nsmallest(examples, cases)
                ),
            )
            for offence, cases in self._cases.items()
            if cases and offence not in pardoned
        )
