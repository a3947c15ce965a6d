"""What happened to one crawl that was attacked."""

from collections import Counter

import msgspec

from gossamer.testing.nemesis.events import Event


class Story(msgspec.Struct, kw_only=True):
    """What happened to one crawl. The checker needs to know what it may forgive."""

    done: list[Event] = []
    left: list[Event] = []
    """The crawl was over before their time came, or had no such process for too long."""
    caught_writing: int = 0
    repeats_allowed: int = 0
    """What the dead had leased when they died."""
    fetcher_deaths: int = 0
    resumes: int = 0
    gave_up: int = 0
    """Times that the crawl ended itself because its processes died one after another; it was resumed."""
    replaced: int = 0
    """Fetchers that were stopped, and that the leader ended and replaced by itself."""
    largest_segment_bytes: int = 0
    """Of the segments that were seen in the spool."""
    deaths: Counter[str] = msgspec.field(default_factory=Counter)
    """Of processes, by kind."""
    failures: list[str] = []
    """Ends that are none of ours: wrong exit codes, hanging."""
    seconds: float = 0.0
