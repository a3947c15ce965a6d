"""Some outcomes of one segment on their way through a parser."""

import asyncio
from pathlib import Path

import msgspec

from gossamer.records import Candidate, Finished, Outcome, Reason
from gossamer.sinks.sink import Entry

#: A batch that has come to so much is not filled further: forty pages of a megabyte each, with links that are as long
#: as links may be, would not fit into a parser. Usual ones come to a quarter.
BATCH_WEIGHT = 8 << 20
#: Of a link beside its URL, which is at most its page's base and what is written in the page.
LINK_WEIGHT = 300


class Batch(msgspec.Struct, kw_only=True):
    """First what is read of them, then the store's answers are awaited."""

    segment: Path
    finished: list[Finished]
    """Of the whole segment so far; its batches share the list."""
    entries: list[Entry] = []
    """For the sinks, in the order of the segment."""
    indexes: list[int] = []
    """Where each of them stands in the segment."""
    redirects: list[Candidate] = []
    links: dict[int, Candidate] = {}
    weight: int = 0
    """Roughly, in bytes; of characters, which may take four."""
    is_last: bool = False
    """With it the segment is done."""

    def add(self, index: int, outcome: Outcome) -> Entry:
        entry = Entry(outcome, outcome.reason)
        self.entries.append(entry)
        self.indexes.append(index)
        self.weight += outcome.body_bytes
        if outcome.robots:
            self.weight += sum(len(answer.body) for answer in outcome.robots)
        return entry

    def is_full(self, most_outcomes: int) -> bool:
        return len(self.entries) >= most_outcomes or self.weight >= BATCH_WEIGHT

    def candidates(self) -> list[Candidate]:
        # A redirect first: it may be to the same place as a link, and says more of it.
        return [*self.redirects, *self.links.values()]


class Offer(msgspec.Struct, frozen=True):
    """A batch that is read, while the store is asked about its candidates."""

    batch: Batch
    candidates: list[Candidate]
    answers: asyncio.Task[list[Reason]]
