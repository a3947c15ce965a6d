"""What a verification has found: each kind of fault with its number and its first examples, so that no crawl is too
broken to be reported on."""

from collections import Counter

import msgspec

#: Of each kind; the rest is counted.
EXAMPLES = 20
#: Of one finding: a damaged or foreign file may have a URL of any length.
MOST_CHARACTERS = 2_000


class Finding(msgspec.Struct, frozen=True):
    """One fault, or one thing worth knowing; the kind is for programs, the text for people."""

    kind: str
    text: str


class Findings:
    """Filled by the checks, read by the command."""

    def __init__(self, examples: int = EXAMPLES) -> None:
        self._examples = examples
        self.faults: list[Finding] = []
        self.counts: Counter[str] = Counter()
        """All faults by kind, also those beyond the examples."""
        self.notes: list[Finding] = []
        """What is not wrong, and may be unexpected."""

    def fault(self, kind: str, text: str, *, times: int = 1) -> None:
        self.counts[kind] += times
        if sum(fault.kind == kind for fault in self.faults) < self._examples:
            shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
            self.faults.append(Finding(kind, shown))

    def count_only(self, kind: str, times: int) -> None:
        """Faults of which the examples were given already."""
        self.counts[kind] += times

    def note(self, kind: str, text: str) -> None:
        self.notes.append(Finding(kind, text))

    @property
    def examples(self) -> int:
        return self._examples
