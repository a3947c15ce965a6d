"""Counts what fetchers, parsers and the store tell as it happens: into the counters of their process, see
`report/metrics.py` for what they mean. Called on the way of every URL, so every place is looked up beforehand."""

from gossamer.fetch.meter import FetchType
from gossamer.records import Answer, Outcome, PhaseTimes, Reason
from gossamer.report.activity import TITLE_CHARACTERS, RecentPages, Sites
from gossamer.report.counters import Counters, histogram_slot, slot
from gossamer.report.metrics import (
    BACKPRESSURE,
    CALL_SECONDS,
    COMMIT_SECONDS,
    CONNECTION_SECONDS,
    CONTENT_BYTES,
    FETCH_FAILURES,
    FETCH_OUTCOMES,
    FETCH_SECONDS,
    FETCH_TYPES,
    FETCHES,
    OUTCOMES,
    OWN_TROUBLES,
    PARSE_ERRORS,
    PARSE_SECONDS,
    PARSED_PAGES,
    PHASE_SECONDS,
    RECEIVED_BYTES,
    REFUSED,
    STORE_CONNECTION_SECONDS,
    OwnTrouble,
)
from gossamer.report.sample import RecentPage
from gossamer.sinks.sink import PageRecord
from gossamer.spool.pressure import State

#: By these a site is said to fail.
_FAILURES = frozenset(
    {
        Reason.DNS,
        Reason.CONNECT,
        Reason.TLS,
        Reason.TIMEOUT,
        Reason.RESET,
        Reason.PROTOCOL,
        Reason.TOO_LARGE,
        Reason.STATUS,
        Reason.BUSY,
        Reason.ROBOTS_UNREACHABLE,
    }
)
#: For these it was asked.
_ASKED = _FAILURES | {Reason.PAGE, Reason.REDIRECT, Reason.MEDIA_TYPE}
_BUSY_STATUSES = frozenset({429, 503})

_SENT = {fetch_type: slot(FETCHES, fetch_type) for fetch_type in FETCH_TYPES}
_FAILED = {labels: slot(FETCH_FAILURES, *labels) for labels in FETCH_FAILURES.label_sets}
_OUTCOMES = {reason: slot(FETCH_OUTCOMES, str(reason) if reason in OUTCOMES else REFUSED) for reason in Reason}
_RECEIVED = slot(RECEIVED_BYTES)
_TROUBLES = {trouble: slot(OWN_TROUBLES, trouble) for trouble in OwnTrouble}
_PRESSED = {State.SOFT: slot(BACKPRESSURE, "soft"), State.HARD: slot(BACKPRESSURE, "hard")}
_FETCH_SECONDS = {fetch_type: histogram_slot(FETCH_SECONDS, fetch_type) for fetch_type in FETCH_TYPES}
_DNS, _CONNECT, _TLS, _FIRST_BYTE = (histogram_slot(PHASE_SECONDS, *labels) for labels in PHASE_SECONDS.label_sets)
_CONNECTION = histogram_slot(CONNECTION_SECONDS)
_STORE_CONNECTION = histogram_slot(STORE_CONNECTION_SECONDS)
_CONTENT = histogram_slot(CONTENT_BYTES)
_PARSED = slot(PARSED_PAGES)
_PARSE_SECONDS = histogram_slot(PARSE_SECONDS)
_COMMIT_SECONDS = histogram_slot(COMMIT_SECONDS)
_CRASH, _DAMAGED, _FAILED_SEGMENT, _CORRUPT = (
    slot(PARSE_ERRORS, word) for word in ("crash", "damaged-segment", "failed-segment", "corrupt-body")
)


class FetchCounting:
    """The meter of a fetcher and its client."""

    def __init__(self, counters: Counters) -> None:
        self.sites = Sites()
        self._counters = counters

    def sent(self, fetch_type: FetchType) -> None:
        self._counters.add(_SENT[fetch_type])

    def answered(self, fetch_type: FetchType, answer: Answer) -> None:
        self._note_times(fetch_type, answer.times)
        status = answer.status
        if status >= 400:
            # An origin without a robots.txt has said all that is needed.
            if status in _BUSY_STATUSES:
                self._counters.add(_FAILED["busy", fetch_type])
            elif status >= 500:
                self._counters.add(_FAILED["status-5xx", fetch_type])
            elif fetch_type == "page":
                self._counters.add(_FAILED["status-4xx", fetch_type])

    def failed(self, fetch_type: FetchType, reason: Reason, times: PhaseTimes) -> None:
        self._note_times(fetch_type, times)
        self._counters.add(_FAILED[reason, fetch_type])

    def delivered(self, outcome: Outcome) -> None:
        counters, reason = self._counters, outcome.reason
        counters.add(_OUTCOMES[reason])
        received = outcome.body_bytes
        if received:
            counters.add(_RECEIVED, received)
        is_page = reason is Reason.PAGE
        if is_page:
            counters.observe(_CONTENT, received)
        if reason in _ASKED:
            self.sites.note(
                outcome.lease.site, is_page=is_page, is_failure=reason in _FAILURES, received_bytes=received
            )

    def pressed(self, state: State) -> None:
        self._counters.add(_PRESSED[state])

    def fell_short(self) -> None:
        self._counters.add(_TROUBLES[OwnTrouble.SHORTAGE])

    def erred(self) -> None:
        self._counters.add(_TROUBLES[OwnTrouble.AT_URL])

    def _note_times(self, fetch_type: FetchType, times: PhaseTimes) -> None:
        observe, dns, connect, tls = self._counters.observe, times.dns, times.connect, times.tls
        if dns is not None:
            observe(_DNS, dns)
        if connect is not None:
            observe(_CONNECT, connect)
        if tls is not None:
            observe(_TLS, tls)
        if times.first_byte is not None:
            observe(_FIRST_BYTE, times.first_byte)
            # There was a connection, with TLS where that was wanted.
            observe(_CONNECTION, (dns or 0.0) + (connect or 0.0) + (tls or 0.0))
        observe(_FETCH_SECONDS[fetch_type], times.total)


class ParseCounting:
    """The meter of a parser."""

    def __init__(self, counters: Counters) -> None:
        self.recent = RecentPages()
        self._counters = counters

    def read(self, outcome: Outcome, page: PageRecord, seconds: float) -> None:
        counters = self._counters
        counters.add(_PARSED)
        counters.observe(_PARSE_SECONDS, seconds)
        if page.truncated == "corrupt":
            counters.add(_CORRUPT)
        self.recent.note(
            RecentPage(
                url=outcome.lease.url,
                title=page.title[:TITLE_CHARACTERS],
                site=outcome.lease.site,
                status=200 if outcome.answer is None else outcome.answer.status,
                received_bytes=outcome.body_bytes,
                seconds=outcome.times.total,
                fetched_at=outcome.fetched_at,
            )
        )

    def committed(self, seconds: float) -> None:
        self._counters.observe(_COMMIT_SECONDS, seconds)

    def crashed(self) -> None:
        self._counters.add(_CRASH)

    def damaged(self) -> None:
        self._counters.add(_DAMAGED)

    def failed(self) -> None:
        self._counters.add(_FAILED_SEGMENT)


class StoreCounting:
    """What a process's calls to the store take."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._verbs = {verb: histogram_slot(CALL_SECONDS, verb) for (verb,) in CALL_SECONDS.label_sets}

    def called(self, verb: str, seconds: float) -> None:
        self._counters.observe(self._verbs[verb], seconds)

    def connected(self, seconds: float) -> None:
        """A call has got its connection to the server."""
        self._counters.observe(_STORE_CONNECTION, seconds)

    def was_slow(self) -> None:
        self._counters.add(_TROUBLES[OwnTrouble.SLOW_CALL])
