"""What a server is and how it is set: what `gossamer store check` shows, and what a store looks at when it opens."""

from collections.abc import Collection, Sequence
from enum import StrEnum

import msgspec

from gossamer.errors import StoreUnavailable


class Verdict(StrEnum):
    """How much one fact matters."""

    GOOD = "good"
    ADVICE = "advice"
    """Works, and would be better or safer otherwise."""
    REFUSED = "refused"
    """A crawl does not start on it, unless it is told to."""


class Finding(msgspec.Struct, frozen=True):
    """One fact about a server."""

    name: str
    value: str
    verdict: Verdict = Verdict.GOOD
    advice: str = ""
    """What to change, with the very words of the server's own settings."""


def refuse_volatile(server: str, findings: Sequence[Finding], names: Collection[str]) -> None:
    """Raises StoreUnavailable if one of these settings lets a power loss undo what was acknowledged. For `--durable`,
    which no other setting overrules."""
    volatile = [finding for finding in findings if finding.name in names and finding.verdict is not Verdict.GOOD]
    if volatile:
        reasons = "; ".join(f"{finding.name} is {finding.value}: {finding.advice}" for finding in volatile)
        raise StoreUnavailable(f"{server} cannot be used with --durable: {reasons}")


def refuse(server: str, findings: Sequence[Finding], *, hint: str = " (or accept it with --unsafe-store)") -> None:
    """Raises StoreUnavailable, which says everything that is to be changed, if anything is refused."""
    refused = [finding for finding in findings if finding.verdict is Verdict.REFUSED]
    if refused:
        reasons = "; ".join(f"{finding.name} is {finding.value}: {finding.advice}" for finding in refused)
        raise StoreUnavailable(f"{server} is not fit for a crawl: {reasons}{hint}")
