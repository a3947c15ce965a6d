"""How fast a crawl goes, for a person: over more than one moment, so that the figures are calm."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import msgspec

from gossamer.records import Reason
from gossamer.report.sample import SAMPLE_SECONDS, Sample

#: The rate that is shown is of this time; that of failures and that for the time left are of a minute.
RATE_SECONDS = 15.0
_RATE_SAMPLES = int(RATE_SECONDS / SAMPLE_SECONDS)
_MINUTE_SAMPLES = int(60 / SAMPLE_SECONDS)

#: Outcomes that are no failure: what came, and URLs that went back because it was not their turn.
KEPT = {Reason.PAGE, Reason.REDIRECT, Reason.ORIGIN_HELD, Reason.SERVER_ADDRESS}


class Pace(msgspec.Struct, frozen=True):
    """What is known of it; None is not known yet."""

    pages_per_second: float | None = None
    """Now."""
    pages_per_second_lately: float | None = None
    """Of a minute."""
    failures_lately: dict[str, int] | None = None
    """In a minute, by reason; what is tried again included."""


class Paces:
    """What was seen in the last minute. `report/progress.py` tells it everything that it is shown."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_MINUTE_SAMPLES)
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def note(self, elapsed_seconds: float, pages: int, sample: Sample | None) -> None:
        """The same sample may come often."""
        self._last = (elapsed_seconds, pages)
        if self._first is None:
            self._first = self._last
        if sample is None or sample.elapsed_seconds < 1:
            # The very first is of no time at all.
            return
        if not self._samples or self._samples[-1].at != sample.at:
            self._samples.append(sample)

    def now(self) -> Pace:
        if self._samples:
            return Pace(
                _mean_rate(list(self._samples)[-_RATE_SAMPLES:]),
                _mean_rate(list(self._samples)),
                failures_of(sum((Counter(sample.outcomes) for sample in self._samples), Counter())),
            )
        # Pages are counted when they are written, many at once: a poor measure, for the first seconds alone.
        began_at, pages_before = self._first or self._last
        seconds = self._last[0] - began_at
        if seconds < 1 or self._last[1] == pages_before:
            return Pace()
        rate = (self._last[1] - pages_before) / seconds
        return Pace(rate, rate, None)


def failures_of(outcomes: Mapping[str, int]) -> dict[str, int]:
    """Those of the outcomes that are failures, the most frequent first."""
    failed = sorted((-count, reason) for reason, count in outcomes.items() if reason not in KEPT and count)
    return {reason: -count for count, reason in failed}


def _mean_rate(samples: Iterable[Sample]) -> float:
    rates = [sample.pages_per_second for sample in samples]
    return sum(rates) / len(rates)
