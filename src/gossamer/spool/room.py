"""The spool's hard limit, as whoever writes a segment sees it."""

import time

from gossamer.spool.directory import SpoolDirectory

#: Far below the limit the spool is listed this often; nobody writes half a limit meanwhile.
_LOOK_SECONDS = 0.25


class SpoolRoom:
    """Says before each segment whether it may be written. All folders count: what is claimed is on the disk, too.

    Each fetcher has one. Those that ask at the same moment all see the same room, so the limit is exceeded by one
    segment of each at most. Used by one thread at a time.
    """

    def __init__(self, spool: SpoolDirectory, limit_bytes: int) -> None:
        self._spool = spool
        self._limit_bytes = limit_bytes
        self._seen_bytes = 0
        self._seen_at = float("-inf")

    def take(self, size_bytes: int) -> bool:
        """Whether a segment of this size may be written now; if so, it is counted."""
        now = time.monotonic()
        if now - self._seen_at >= _LOOK_SECONDS or self._seen_bytes >= self._limit_bytes // 2:
            self._seen_bytes, self._seen_at = self._spool.used_bytes(), now
            if self._seen_bytes >= self._limit_bytes:
                return False
        self._seen_bytes += size_bytes
        return True
