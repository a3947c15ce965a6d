"""Traps: places where a site makes new URLs without end, mostly by mistake. Pure.

No rule can tell a trap from a large site for certain, so each only sets a bound, and together they bound every one:

- a path that grows, by relative links that nest (`/a/b/a/b/`): its segments, and how often one of them stands in it;
- a path with ever new parameters (calendars, filters, session ids): how many variants of it are admitted, which the
  store counts by `path_fingerprint`;
- anything else, such as ever new words in the path: how many URLs of the site are admitted, which the store counts.
"""

from gossamer.records import Reason
from gossamer.url import stable_hash


class PathLimits:
    """What a path may look like. Part of `AdmissionRules`, asked for nearly every link.

    That one segment stands in it too often, in a row or not, covers every sequence that repeats: `/a/b/a/b/a/b/a/b/`
    has four times `a`. Only counting those in a row would leave a way out, as three words can be strung together for
    ever without a repetition in a row.
    """

    def __init__(self, max_segments: int, max_repeats: int) -> None:
        self._max_segments = max_segments
        self._max_repeats = max_repeats
        # Three slashes come before the first segment.
        self.harmless_slashes = min(max_segments, max_repeats) + 2
        """A path with no more of them is no trap, and need not be judged."""

    def judge(self, path: str) -> Reason | None:
        """Of a canonical URL up to its query: whether it looks like a trap."""
        segments = path.split("/")[3:]
        if not segments[-1]:
            segments.pop()
        if len(segments) > self._max_segments:
            return Reason.PATH_DEPTH
        different = set(segments)
        if len(segments) - len(different) >= self._max_repeats and any(
            segments.count(segment) > self._max_repeats for segment in different
        ):
            return Reason.PATH_REPEATS
        return None


def path_fingerprint(url: str) -> int:
    """Of what stands before the first `?` or `;` of a canonical URL, the same for all variants of a path; 0 if neither
    is there. A `;` counts because sessions stand behind it: `/shop;jsessionid=1`."""
    if "?" not in url and ";" not in url:
        return 0
    return stable_hash(url.partition("?")[0].partition(";")[0])
