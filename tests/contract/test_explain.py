"""What `gossamer explain` and `gossamer show` say of a URL, for every way that one can end, wait or be kept out.

The first half asks the pure function, with what a store could say; the second half asks the commands, of a real
frontier and real files.
"""

import asyncio
import gzip
import json
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gossamer.cli.explain import rows as rows_of
from gossamer.cli.main import command_module, command_parser, main
from gossamer.config import (
    FetchSettings,
    IdentitySettings,
    PolitenessSettings,
    RunSettings,
    ScopeSettings,
    Settings,
    SinkSettings,
    UrlSettings,
)
from gossamer.errors import GossamerError, UsageError
from gossamer.frontier.admission import AdmissionRules, Exclusions, parse_exclusions
from gossamer.frontier.politeness import decide
from gossamer.frontier.refused_links import CODES, Found, RefusedLink
from gossamer.frontier.store import Sighting, SiteState, UrlState
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.frontier.traps import path_fingerprint
from gossamer.look.attempts import Attempt
from gossamer.look.explain import Evidence, explain, explain_refusal
from gossamer.look.explanation import Explanation, Verdict
from gossamer.look.refused_before import FORGOTTEN, NOT_RECORDED, NOT_STORED, Remembered
from gossamer.look.standings import RobotsAccess
from gossamer.parse.record import read_answer
from gossamer.records import (
    Answer,
    Candidate,
    Destination,
    Finished,
    Lease,
    Move,
    Outcome,
    PhaseTimes,
    Reason,
    Release,
    RobotsCopy,
    SiteClock,
)
from gossamer.run.data_directory import DataDirectory, Frontier
from gossamer.sinks.commit import Committer
from gossamer.sinks.log import LogSink
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.sink import Entry, Place, Sink
from gossamer.sinks.warc import WarcSink
from gossamer.url import Refusal, RefusalReason, Url, canonicalise

NOW = 1_000_000.0
WHEN = datetime(2026, 11, 15, 16, 3, 11, tzinfo=UTC)
PLACE = Place("warc/GOSSAMER-20261115160000-000100000001-host.warc.gz", 100, 200)
LINK = "https://shop.example.org/a/page?x=1"
SETTINGS = Settings()


def canonical(text: str, settings: UrlSettings = SETTINGS.url) -> Url:
    url = canonicalise(text, None, settings)
    assert isinstance(url, Url)
    return url


def lease(text: str = LINK, **facts: Any) -> Lease:
    url = canonical(text)
    told: dict[str, Any] = {
        "depth": 2,
        "hops": 0,
        "is_seed": False,
        "attempt": 0,
        "returned": 0,
        "via": "https://example.org/",
    } | facts
    return Lease(number=0, slot=1, epoch=3, url=url.text, site=url.site, fingerprint=url.fingerprint, **told)


def site(**facts: Any) -> SiteState:
    told: dict[str, Any] = {
        "queued": 4,
        "admitted": 9,
        "owner": "fetcher-0",
        "epoch": 3,
        "owned_until": NOW + 30,
    } | facts
    return SiteState(name="example.org", slot=1, **told)


def row(outcome: str = "done", **facts: Any) -> Attempt:
    return Attempt(at=WHEN, url=LINK, outcome=outcome, attempt=facts.pop("attempt", 1), depth=2, hops=0, **facts)


def robots(body: bytes = b"", *, access: str = "parse", failures: int = 0, valid: float = 3600.0) -> RobotsCopy:
    return RobotsCopy(
        origin="https://shop.example.org",
        access=access,
        body=body,
        fetched_at=0.0 if failures else NOW - 60,
        expires_at=NOW + valid,
        failures=failures,
    )


def told(sighting: Sighting, typed: str = LINK, *, settings: Settings = SETTINGS, **facts: Any) -> Explanation:
    evidence = Evidence(
        typed=typed, url=canonical(typed, settings.url), settings=settings, now=NOW, sighting=sighting, **facts
    )
    return explain(evidence)


def queued(
    typed: str = LINK, *, entry: Lease | None = None, state: SiteState | None = None, **facts: Any
) -> Explanation:
    sighting = Sighting(state=UrlState.QUEUED, site=state or site(), ahead=3, lease=entry or lease(typed))
    return told(sighting, typed, **facts)


def finished(*rows: Attempt, state: SiteState | None = None, **facts: Any) -> Explanation:
    return told(Sighting(state=UrlState.FINISHED, site=state or site()), attempts=list(rows), **facts)


def unseen(typed: str = LINK, *, state: SiteState | None = None, variants: int = 0, **facts: Any) -> Explanation:
    return told(Sighting(state=UrlState.UNSEEN, site=state, path_variants=variants), typed, **facts)


def scope(**values: Any) -> Settings:
    return Settings(scope=ScopeSettings(**values))


# --- how it ended -----------------------------------------------------------------------------------------------------


def test_a_page_is_fetched_with_its_status_time_and_place() -> None:
    found = finished(row(status=200, place=PLACE, via="https://example.org/"))
    assert found.verdict is Verdict.FETCHED
    assert found.summary == f"fetched: 200 on 2026-11-15 16:03:11 UTC, page in {PLACE.file}"
    assert (found.place, found.depth, found.via) == (PLACE, 2, "https://example.org/")


def test_a_page_whose_rules_have_changed_since_is_still_fetched_and_the_rules_now_are_told() -> None:
    found = finished(row(status=200), settings=scope(exclude=("page",)))
    assert found.verdict is Verdict.FETCHED
    assert found.rules_now is not None
    assert found.rules_now.reason is Reason.EXCLUDED


def test_a_row_says_how_a_url_ended_though_the_store_still_has_it_spooled() -> None:
    sighting = Sighting(state=UrlState.SPOOLED, site=site(), lease=lease(), segment="s")
    assert told(sighting, attempts=[row(status=200)]).verdict is Verdict.FETCHED


def test_a_redirect_says_where_to() -> None:
    found = finished(row(status=301, redirect="https://example.org/b"))
    assert found.verdict is Verdict.REDIRECTED
    assert "301" in found.summary
    assert found.summary.endswith("to https://example.org/b")


def test_an_error_status_is_a_failure_with_its_answer_in_the_archive() -> None:
    found = finished(row("dropped", failure_kind="status", status=404, place=PLACE))
    assert found.verdict is Verdict.FAILED
    assert found.summary == f"failed: status 404 on 2026-11-15 16:03:11 UTC, answer in {PLACE.file}"


def test_a_failure_after_several_attempts_names_their_number_and_the_last_cause() -> None:
    rows = [row("retry", failure_kind="timeout", attempt=number) for number in (1, 2)]
    found = finished(*rows, row("dropped", failure_kind="connect", reason="refused", attempt=3))
    assert found.verdict is Verdict.FAILED
    assert found.summary.startswith("failed after 3 attempts: connect (refused) on ")
    assert len(found.attempts) == 3


def test_an_internal_error_is_said_to_be_the_crawlers_fault() -> None:
    rows = [
        row("retry", failure_kind="internal-error"),
        row("dropped", failure_kind="internal-error", reason="ValueError: x"),
    ]
    found = finished(*rows)
    assert found.verdict is Verdict.FAILED
    assert found.summary.startswith(
        "failed after 2 attempts: an internal error of the crawler, not the site's fault (ValueError: x);"
    )


def test_a_seed_whose_server_speaks_no_tls_gets_a_hint_to_plain_http() -> None:
    def notes(text: str, depth: int) -> list[str]:
        last = Attempt(
            at=WHEN, url=LINK, outcome="dropped", attempt=3, depth=depth, hops=0, failure_kind="tls", reason=text
        )
        return finished(last).notes

    hint = "the server may speak plain http there: seed http://shop.example.org/a/page?x=1 instead"
    assert hint in notes("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1016)", 0)
    assert hint not in notes("certificate verify failed", 0)
    assert hint not in notes("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1016)", 2)


def test_what_robots_txt_disallowed_is_refused_with_the_line() -> None:
    found = finished(row("dropped", failure_kind="robots", reason="line 2: Disallow: /a/"))
    assert found.verdict is Verdict.REFUSED
    assert found.summary.startswith("refused: robots.txt disallows it (line 2: Disallow: /a/); dropped on ")


@pytest.mark.parametrize(
    ("detail", "flag", "opened"),
    [
        ("127.0.0.1 is a private address", "--allow-private-addresses", FetchSettings(allow_private_addresses=True)),
        ("port 443 is one of blocked_ports", "--blocked-ports", FetchSettings(blocked_ports="22")),
    ],
)
def test_a_blocked_address_names_the_setting_and_the_rules_are_against_it_until_that_changes(
    detail: str, flag: str, opened: FetchSettings
) -> None:
    ending = row("dropped", failure_kind="blocked-address", reason=detail)
    closed = Settings(fetch=FetchSettings(blocked_ports="443"))
    found = finished(ending, settings=closed)
    assert found.verdict is Verdict.REFUSED
    assert f"({detail}); it needs a new crawl with {flag}" in found.summary
    assert found.rules_now == found.refusal
    assert "rules now" not in dict(rows_of(found))
    assert finished(ending, settings=Settings(fetch=opened)).rules_now is None


def test_the_address_of_the_crawls_own_store_is_blocked_whatever_the_settings() -> None:
    ending = row("dropped", failure_kind="blocked-address", reason="127.0.0.1 is the address of the crawl's store")
    found = finished(ending, settings=Settings(fetch=FetchSettings(allow_private_addresses=True)))
    assert found.rules_now == found.refusal
    assert "--" not in found.summary


@pytest.mark.parametrize("reason", ["excluded", "blocked-site", "not-included", "depth", "path-repeats", "extension"])
def test_what_the_rules_dropped_at_its_turn_was_excluded_later(reason: str) -> None:
    found = finished(row("dropped", failure_kind=reason))
    assert found.verdict is Verdict.EXCLUDED_LATER
    assert found.refusal is not None
    assert found.refusal.reason == reason
    assert "it was queued, and the rules dropped it at its turn on 2026-11-15" in found.summary


@pytest.mark.parametrize(
    ("dropped", "verdict"),
    [
        (Reason.SITE_FAILING, Verdict.FAILED),
        (Reason.CRAWL_DELAY, Verdict.REFUSED),
        (Reason.BLOCKED_SITE, Verdict.EXCLUDED_LATER),
    ],
)
def test_what_was_finished_with_its_site_has_no_row_of_its_own_and_the_site_says_why(
    dropped: Reason, verdict: Verdict
) -> None:
    found = finished(row("retry", failure_kind="timeout"), state=site(dropped=dropped))
    assert found.verdict is verdict
    assert "its site was given up while it was queued" in found.summary


def test_without_a_log_a_page_is_known_from_the_table_of_pages_and_anything_else_is_not() -> None:
    settings = Settings(sinks=SinkSettings(sinks="warc,pages"))
    page = row(status=200, place=PLACE)
    assert finished(page=page, settings=settings).verdict is Verdict.FETCHED
    found = finished(settings=settings)
    assert found.verdict is Verdict.FINISHED
    assert "sinks do not have the log" in found.summary


# --- where it is ------------------------------------------------------------------------------------------------------


def test_a_queued_url_says_how_many_stand_before_it_and_when_its_site_is_due() -> None:
    found = queued(state=site(not_before=NOW + 41, clock=SiteClock(NOW - 29)))
    assert found.verdict is Verdict.QUEUED
    assert found.summary == "queued: 3 before it; the site may be asked again in 41 s (70 s between requests)"
    assert found.turn_seconds == 41 + 3 * 70
    assert queued().summary == "queued: 3 before it; its site may be asked now"


def test_a_crawl_delay_is_what_stands_between_the_requests() -> None:
    found = queued(state=site(not_before=NOW + 41, clock=SiteClock(NOW - 5, 90.0, 0)))
    assert "(90 s between requests)" in found.summary


def test_that_nothing_runs_is_told() -> None:
    assert queued(is_running=False).summary.endswith("; the crawl is not running")


def test_a_queued_url_of_a_paused_crawl_is_not_said_to_have_its_turn_soon() -> None:
    words = "the crawl is paused on the dashboard until it is resumed there"
    found = queued(state=site(not_before=NOW + 41, clock=SiteClock(NOW - 29)), paused_by="dashboard")
    assert (found.summary, found.turn_seconds) == (f"queued: 3 before it; {words}", None)
    assert str(dict(rows_of(found))["next request"]).startswith("when the crawl is resumed; 70 s between requests")
    assert queued(paused_by="dashboard").summary == found.summary
    full = queued(paused_by="disk").summary
    assert full.endswith("; the crawl is paused because the disk is nearly full, until there is room")
    failing = site(not_before=NOW + 41, clock=SiteClock(NOW - 20, 0.0, 2))
    assert queued(state=failing, paused_by="dashboard").summary.endswith(f"(back-off after 2 failures); {words}")


def test_that_the_crawl_has_all_its_pages_is_told() -> None:
    found = queued(settings=Settings(run=RunSettings(max_pages=1000)), pages=1000)
    assert found.summary == "queued: 3 before it; the crawl has the 1,000 pages that max_pages allows"


def test_a_queued_url_of_a_failing_site_is_backing_off_with_the_cause() -> None:
    failing = site(not_before=NOW + 41, clock=SiteClock(NOW - 20, 0.0, 2))
    found = queued(state=failing, site_attempt=row("retry", failure_kind="timeout"))
    assert found.verdict is Verdict.BACKING_OFF
    assert found.summary == (
        "queued: 3 before it; the site may be asked again in 41 s (back-off after 2 failures: timeout)"
    )
    busy = queued(state=failing, site_attempt=row("retry", failure_kind="busy", status=429))
    assert "back-off after 2 failures: busy (status 429)" in busy.summary
    assert queued(state=failing).summary.endswith("(back-off after 2 failures)")


def test_a_queued_url_that_failed_before_names_its_last_failure() -> None:
    before = row("retry", failure_kind="dns", reason="Domain name not found")
    assert queued(attempts=[before]).summary.endswith(
        "its site may be asked now; its last attempt: dns (Domain name not found)"
    )
    assert "last attempt" not in queued(attempts=[]).summary


def test_a_failing_site_whose_time_has_come_is_not_backing_off() -> None:
    assert queued(state=site(not_before=NOW - 1, clock=SiteClock(NOW - 90, 0.0, 2))).verdict is Verdict.QUEUED


def test_a_site_whose_robots_txt_does_not_come_is_backing_off() -> None:
    found = queued(state=site(not_before=NOW + 60), robots=robots(access="disallow-all", failures=2, valid=60))
    assert found.verdict is Verdict.BACKING_OFF
    assert "(its robots.txt did not come, 2 times in a row)" in found.summary
    assert found.robots is not None
    assert found.robots.access is RobotsAccess.UNREACHABLE


def test_an_old_robots_txt_that_counts_because_the_server_is_down_is_told_as_such() -> None:
    copy = replace(
        robots(b"User-agent: *\nDisallow: /q", access="disallow-all", failures=5), fetched_at=NOW - 25 * 3600
    )
    found = queued(state=site(), robots=copy)
    assert found.verdict is Verdict.QUEUED
    assert found.robots is not None
    assert (found.robots.access, found.robots.is_old_copy, found.robots.is_given_up) == ("allowed", True, False)
    older = queued(state=site(), robots=replace(copy, fetched_at=NOW - 49 * 3600))
    assert older.robots is not None
    assert (older.robots.access, older.robots.is_old_copy, older.robots.is_given_up) == ("unreachable", False, True)


def test_a_queued_url_that_is_excluded_by_now_will_be_dropped_at_its_turn() -> None:
    exclusions = parse_exclusions("https://shop.example.org/a/\n", "file")
    found = queued(exclusions=exclusions)
    assert found.verdict is Verdict.EXCLUDED_LATER
    assert found.summary == (
        "refused: the exclude file has https://shop.example.org/a/; it was queued before, and will be dropped when its"
        " turn comes"
    )


def test_a_queued_url_that_robots_txt_disallows_is_refused_with_the_line() -> None:
    found = queued(robots=robots(b"User-agent: *\nDisallow: /a/\n"))
    assert found.verdict is Verdict.REFUSED
    assert "robots.txt disallows it (line 2: Disallow: /a/)" in found.summary
    assert found.refusal is not None
    assert found.refusal.reason is Reason.ROBOTS
    expired = queued(robots=robots(b"User-agent: *\nDisallow: /a/\n", valid=-1))
    assert "unless it changed: it is asked for again first" in expired.summary


def test_a_queued_url_whose_robots_txt_is_given_up_is_refused() -> None:
    found = queued(robots=robots(access="disallow-all", failures=4))
    assert found.verdict is Verdict.REFUSED
    assert found.refusal is not None
    assert found.refusal.reason is Reason.ROBOTS_UNREACHABLE


def test_a_queued_url_whose_crawl_delay_is_too_long_is_refused() -> None:
    found = queued(
        robots=robots(b"User-agent: *\nCrawl-delay: 400\n"),
        settings=Settings(politeness=PolitenessSettings(max_crawl_delay_seconds=300.0)),
    )
    assert found.refusal is not None
    assert found.refusal.reason is Reason.CRAWL_DELAY


def test_a_queued_url_on_which_too_many_fetchers_died_will_be_dropped() -> None:
    found = queued(entry=lease(returned=5))
    assert found.verdict is Verdict.FAILED
    assert "5 fetchers died" in found.summary


def test_attempts_that_are_not_committed_yet_are_announced() -> None:
    found = queued(entry=lease(attempt=2), attempts=[row("retry", failure_kind="dns", attempt=1)])
    assert found.attempt == 3
    assert "1 attempt not in the files yet: they are written at a commit" in found.notes


def test_a_leased_url_names_who_has_it() -> None:
    sighting = Sighting(state=UrlState.LEASED, site=site(is_busy=True), lease=lease(attempt=1))
    found = told(sighting)
    assert (found.verdict, found.summary) == (Verdict.LEASED, "leased: fetcher-0 has it now, attempt 2")


def test_a_url_whose_origin_asked_for_no_requests_says_until_when() -> None:
    held = replace(robots(), busy_until=NOW + 86_000, busy_answers=2)
    found = queued(state=site(not_before=NOW + 1), robots=held)
    assert found.verdict is Verdict.BACKING_OFF
    assert "its origin may be asked again in 23.9 h (it was busy, 2 times in a row)" in found.summary
    assert found.turn_seconds == 86_000 + 3 * 70
    assert dict(rows_of(found))["origin"] == "https://shop.example.org asked for no requests for 23.9 h yet"
    over = queued(robots=replace(held, busy_until=NOW - 1))
    assert over.summary == "queued: 3 before it; its site may be asked now"
    assert "origin" not in dict(rows_of(over))


def test_a_site_that_waits_beyond_its_own_gap_waits_for_its_server_address() -> None:
    words = (
        "queued: 3 before it; its site waits 41 s yet for its turn at its server address, which it shares with other"
    )
    # Nothing in the store says which of the two it is; a row of the log does.
    either = f"{words} sites, or after a visit for robots.txt alone"
    for clock in (SiteClock(), SiteClock(NOW - 71)):
        found = queued(state=site(not_before=NOW + 41, clock=clock))
        assert (found.verdict, found.summary) == (Verdict.QUEUED, either)
    sure = queued(state=site(not_before=NOW + 41), attempts=[row("retry", failure_kind="server-address")])
    assert sure.summary == f"{words} sites"
    cooling = queued(
        state=site(not_before=NOW + 41, clock=SiteClock(NOW - 29)),
        attempts=[row("retry", failure_kind="server-address")],
    )
    assert cooling.summary.endswith("(70 s between requests)")


def test_a_url_that_a_dead_fetcher_had_goes_back() -> None:
    sighting = Sighting(state=UrlState.LEASED, site=site(owned_until=NOW - 1), lease=lease())
    assert "it goes back to the head of its queue" in told(sighting).summary
    held = Sighting(state=UrlState.LEASED, site=site(), lease=lease())
    assert told(held, is_running=False).summary.endswith("; the crawl is not running")


def test_a_spooled_url_names_its_segment() -> None:
    found = told(Sighting(state=UrlState.SPOOLED, site=site(), lease=lease(), segment="1-0-7"))
    assert found.verdict is Verdict.SPOOLED
    assert "segment 1-0-7" in found.summary


# --- why it was never admitted ----------------------------------------------------------------------------------------


def test_a_url_that_nobody_links_to_is_unseen_and_would_be_admitted() -> None:
    found = unseen()
    assert found.verdict is Verdict.UNSEEN
    assert found.summary == (
        "never seen: no seed that was loaded and no link that was followed leads to it; the rules would admit it"
    )
    assert found.robots is not None
    assert found.robots.access is RobotsAccess.NEVER_ASKED
    assert found.notes == []


def test_of_an_unseen_url_it_is_told_if_a_refusal_was_not_recorded_or_may_be_forgotten() -> None:
    assert unseen(remembered=Remembered(is_recorded=False)).notes == [NOT_RECORDED]
    assert unseen(remembered=Remembered(may_have_forgotten=True)).notes == [FORGOTTEN]


def refused(reason: Reason, depth: int = 2, found: Found = Found.LINK) -> Remembered:
    return Remembered(links=[RefusedLink(reason, found, depth)], may_have_forgotten=True)


def test_a_link_that_was_refused_is_told_from_one_that_nobody_found() -> None:
    found = unseen(settings=scope(max_depth=1), remembered=refused(Reason.DEPTH))
    assert (found.verdict, found.refusal and found.refusal.reason) == (Verdict.REFUSED, Reason.DEPTH)
    assert found.summary == ("refused: a link to it was refused: it is 2 links away from a seed, and max_depth is 1")
    assert found.rules_now == found.refusal
    assert NOT_STORED in found.notes
    assert FORGOTTEN not in found.notes


@pytest.mark.parametrize("reason", [reason for reason in CODES if reason not in set(map(str, RefusalReason))])
def test_a_link_that_was_refused_under_other_rules_is_told_that_it_would_be_admitted_now(reason: Reason) -> None:
    found = unseen(remembered=refused(reason))
    assert found.verdict is Verdict.REFUSED
    assert found.summary.startswith("refused: a link to it was refused: ")
    assert found.summary.endswith("; the rules as they are now would admit it")
    assert found.refusal is not None
    assert found.refusal.reason is reason
    assert found.refusal.words != str(reason)
    assert found.rules_now is None


def test_a_link_that_was_refused_for_another_reason_than_now_is_told_both() -> None:
    found = unseen(settings=scope(scope="seeds"), remembered=refused(Reason.SITE_FULL))
    assert found.summary == (
        "refused: a link to it was refused (its site had max_site_urls), and the rules as they are now refuse it too:"
        " scope is seeds, and no seed is of its site, example.org"
    )


def test_a_seed_and_a_redirect_that_were_refused_are_called_so() -> None:
    exclusions = parse_exclusions("example.org", "file")
    found = unseen(exclusions=exclusions, remembered=refused(Reason.BLOCKED_SITE, 0, Found.SEED))
    assert found.summary.startswith("refused: it was given as a seed, and refused: the exclude file lists its site")
    found = unseen(remembered=refused(Reason.HOPS, 1, Found.REDIRECT))
    assert found.summary.startswith("refused: a redirect to it was refused: more redirects in a row")


def test_a_redirect_whose_target_was_refused_says_why() -> None:
    remembered = Remembered(target=[RefusedLink(Reason.SCOPE, Found.REDIRECT, 1)])
    found = finished(row(status=301, redirect="https://other.example/"), remembered=remembered)
    assert found.notes == ["where it redirects to was refused: scope was seeds, and its site was not seeded"]


def test_a_declined_media_type_is_named() -> None:
    found = finished(row("dropped", failure_kind="media-type", status=200, reason="application/pdf"))
    assert found.summary == (
        "failed: the server sent application/pdf, which is not one of media_types"
        " (text/html application/xhtml+xml text/plain), on 2026-11-15 16:03:11 UTC"
    )


def test_of_an_unseen_url_the_deepest_place_that_would_do_is_told() -> None:
    assert unseen(settings=scope(max_depth=3)).summary.endswith("would admit it up to 3 links away from a seed")
    found = unseen(settings=scope(max_depth=0))
    assert (found.verdict, found.refusal and found.refusal.reason) == (Verdict.REFUSED, Reason.DEPTH)


def test_of_an_unseen_url_it_is_told_that_robots_txt_is_against_it() -> None:
    found = unseen(state=site(), robots=robots(b"User-agent: *\nDisallow: /\n"))
    assert found.verdict is Verdict.UNSEEN
    assert found.summary.endswith("would admit it, but robots.txt disallows it (line 2: Disallow: /)")


def test_while_seeds_are_loaded_an_unseen_url_may_be_one() -> None:
    assert any("not all seeds are admitted yet" in note for note in unseen(is_loading=True).notes)


REFUSALS = [
    (LINK, scope(scope="seeds"), site(), Reason.SCOPE, "scope is seeds"),
    (LINK, scope(scope="seeds"), None, Reason.SCOPE, "scope is seeds"),
    (LINK, scope(include=("other",)), site(), Reason.NOT_INCLUDED, "include is 'other'"),
    (LINK, scope(exclude=("pag.",)), site(), Reason.EXCLUDED, "exclude is 'pag.'"),
    (LINK, scope(include=("other", r"\d\.x")), site(), Reason.NOT_INCLUDED, r"include is 'other' or '\d\.x'"),
    (LINK, scope(exclude=("x{9}", r"pag\w")), site(), Reason.EXCLUDED, r"exclude is 'pag\w', which"),
    ("https://a.example/x.PDF", SETTINGS, None, Reason.EXTENSION, "skip_extensions has 'pdf'"),
    (f"https://a.example{'/a/b' * 4}/", SETTINGS, None, Reason.PATH_REPEATS, "'a' stands 4 times"),
    (
        "https://a.example/" + "/".join(map(str, range(21))) + "/",
        SETTINGS,
        None,
        Reason.PATH_DEPTH,
        "its path has 21 segments",
    ),
    (LINK, scope(max_site_urls=9), site(), Reason.SITE_FULL, "its site has had 9 URLs"),
    (LINK, scope(max_site_queue=4), site(), Reason.QUEUE_FULL, "its site's queue has 4 URLs"),
    (LINK, scope(max_site_queue_bytes=5 * len(LINK) - 1), site(), Reason.QUEUE_FULL, "no room for one of"),
    (LINK, SETTINGS, site(dropped=Reason.SITE_FAILING), Reason.SITE_DROPPED, "its site was given up: it failed too"),
]


@pytest.mark.parametrize(("typed", "settings", "state", "reason", "words"), REFUSALS)
def test_a_url_that_the_rules_refuse_is_told_the_rule_and_its_setting(
    typed: str, settings: Settings, state: SiteState | None, reason: Reason, words: str
) -> None:
    found = unseen(typed, settings=settings, state=state)
    assert found.verdict is Verdict.REFUSED
    assert found.summary.startswith("refused: not admitted; the rules as they are now refuse it: ")
    assert words in found.summary
    assert found.refusal is not None
    assert found.refusal.reason is reason


def test_variants_of_a_path_are_refused_from_their_bound_on() -> None:
    found = unseen(state=site(), variants=10, settings=scope(max_path_variants=10))
    assert (found.verdict, found.refusal and found.refusal.reason) == (Verdict.REFUSED, Reason.PATH_VARIANTS)
    assert unseen(state=site(), variants=9, settings=scope(max_path_variants=10)).verdict is Verdict.UNSEEN


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        ("example.org", Reason.BLOCKED_SITE, "the exclude file lists its site, example.org"),
        ("shop.example.org", Reason.EXCLUDED, "the exclude file covers its host, shop.example.org"),
        ("https://shop.example.org/a/", Reason.EXCLUDED, "the exclude file has https://shop.example.org/a/"),
    ],
)
def test_an_entry_of_the_exclude_file_is_named(line: str, reason: Reason, words: str) -> None:
    found = unseen(exclusions=parse_exclusions(line, "file"))
    assert found.refusal is not None
    assert (found.refusal.reason, found.refusal.words) == (reason, words)
    assert "as a seed it would be admitted" not in found.notes


def test_a_rule_that_seeds_are_free_of_is_told_as_such() -> None:
    assert "as a seed it would be admitted" in unseen("https://a.example/x.pdf").notes


# --- another spelling -------------------------------------------------------------------------------------------------


def test_another_spelling_of_a_known_url_is_a_duplicate() -> None:
    spelling = "HTTPS://Shop.Example.org:443/a/./page?x=1#top"
    found = told(Sighting(state=UrlState.FINISHED, site=site()), spelling, attempts=[row(status=200)])
    assert (found.verdict, found.canonical_verdict, found.url) == (Verdict.DUPLICATE, Verdict.FETCHED, LINK)
    assert found.summary.startswith(f"duplicate: another spelling of {LINK}, which is fetched: 200 on ")


def test_another_spelling_of_an_unknown_url_is_no_duplicate() -> None:
    found = unseen("https://shop.example.org/a/%70age?x=1")
    assert (found.verdict, found.url) == (Verdict.UNSEEN, LINK)


def test_a_password_that_was_typed_is_not_shown() -> None:
    found = unseen("https://me:secret@shop.example.org/")
    assert "secret" not in repr(found)
    refused = explain_refusal("ftp://me:secret@example.org/", refusal("ftp://me:secret@example.org/"))
    assert "secret" not in repr(refused)


def refusal(text: str) -> Refusal:
    found = canonicalise(text)
    assert isinstance(found, Refusal)
    return found


def test_what_is_no_url_that_is_fetched_is_refused() -> None:
    found = explain_refusal("mailto:x@example.org", refusal("mailto:x@example.org"))
    assert (found.verdict, found.url) == (Verdict.REFUSED, None)
    assert found.refusal is not None
    assert found.refusal.reason is Reason.SCHEME


def test_a_robots_txt_was_asked_for_as_such() -> None:
    found = unseen("https://example.org/robots.txt", attempts=[row(kind="robots", status=200)])
    assert found.verdict is Verdict.ROBOTS_FILE
    assert found.summary.startswith("robots.txt: status 200 on ")


# --- a real frontier, and real files ----------------------------------------------------------------------------------

#: Of the crawl that the commands are asked about. Its sites stay closed for longer than all these tests take.
CRAWL = Settings(
    identity=IdentitySettings(email="test@example.org"),
    politeness=PolitenessSettings(delay_seconds=700.0, backoff_seconds=700.0),
    scope=ScopeSettings(scope="seeds", max_site_urls=8, max_path_variants=2, max_depth=5),
)
HTML = b"<html><head><title>A &#x202e;title</title></head><body><p>One.</p><p>Two.</p></body></html>"
ROBOTS_TXT = b"User-agent: *\nDisallow: /private/\n"


class Crawl:
    """A crawl as its processes leave it, made by their own parts; no process of it runs."""

    def __init__(self, root: Path, settings: Settings = CRAWL) -> None:
        self.data = DataDirectory(root)
        self.data.create()
        self.data.write_settings(settings)
        self.data.record_frontier(Frontier(crawl="test", is_made=True))
        self.data.seeds.write_text("")
        self.settings = settings
        self.limits = AdmissionRules(settings.scope, Exclusions()).limits
        self.store = SqliteStore(self.data.frontier, settings.url.slots)
        self.sinks: list[Sink] = [
            WarcSink(root, run=1, parser="p0", index=0, file_bytes=1 << 30, facts={}),
            PagesSink(root, parser="p0", crawl="test"),
            LogSink(root, parser="p0"),
        ]
        self.committer = Committer(root, "p0", self.store, self.sinks)
        self.segments = 0

    async def open(self) -> None:
        await self.store.open()
        await self.store.begin_run(latest_not_before_seconds=1e6)

    async def admit(self, *urls: str, is_seed: bool = False) -> list[Reason]:
        found = [canonical(url) for url in urls]
        depth = 0 if is_seed else 1
        return await self.store.admit(
            [
                Candidate(
                    url.text,
                    url.site,
                    url.fingerprint,
                    depth,
                    is_seed=is_seed,
                    path_fingerprint=path_fingerprint(url.text),
                    via="" if is_seed else "https://linking.example/",
                )
                for url in found
            ],
            self.limits,
            now=0.0,
        )

    async def lease(self) -> dict[str, Lease]:
        now = await self.store.now()
        delay = self.settings.politeness.delay_seconds
        owned = await self.store.own("fetcher-0", range(64), now=now, until=now + 60, delay_seconds=delay)
        given = await self.store.lease(str(now), owned, 1000, now=now, delay_seconds=delay, max_pages=0)
        return {lease.url: lease for lease in given.leases}

    async def end(
        self, lease: Lease, reason: Reason, *, answer: Answer | None = None, detail: str = "", is_committed: bool = True
    ) -> None:
        """As a worker, a fetcher and then a parser do it."""
        decision = decide(
            lease,
            reason,
            status=None if answer is None else answer.status,
            was_sent=answer is not None or reason is Reason.TIMEOUT,
            ended_at=await self.store.now(),
            chance=0.5,
            settings=self.settings.politeness,
        )
        self.segments += 1
        segment = f"00001-000-{self.segments:08d}"
        release = Release(lease, True, decision.not_before, decision.clock, decision.dropped_site)
        await self.store.release([release])
        await self.store.spool(segment, [Move(lease, decision.destination, reason)])
        if not is_committed:
            return
        times = PhaseTimes(total=0.0 if answer is None and reason is not Reason.TIMEOUT else 0.25)
        robots = (said(f"{lease.url[: lease.url.index('/', 8)]}/robots.txt", 200, ROBOTS_TXT),) if answer else ()
        outcome = Outcome(lease, decision.result, reason, time.time(), detail, answer, "192.0.2.1", times, robots)
        entry = Entry(outcome, reason)
        if reason is Reason.PAGE and answer is not None:
            entry.page = read_answer(answer, self.settings).record
        for sink in self.sinks:
            sink.write(entry)
        done = Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, reason, outcome.body_bytes)
        is_back = decision.destination in {Destination.HEAD, Destination.LATER, Destination.TAIL}
        self.committer.segment_done(self.data.spool / segment, [] if is_back else [done])
        await self.committer.commit()

    async def close(self) -> None:
        await self.store.close()


def said(url: str, status: int, body: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    host = canonical(url).host.encode()
    return Answer(
        url=url,
        fetched_at=time.time(),
        request=b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
        status_line=b"HTTP/1.1 %d Said" % status,
        status=status,
        headers=((b"Content-Type", b"text/html"), *headers),
        body=body,
        address="192.0.2.1",
        times=PhaseTimes(total=0.25),
    )


async def crawl_everything(crawl: Crawl) -> None:
    """Sites named for what becomes of their one seed, and some URLs that wait behind it."""
    await crawl.open()
    names = ("page", "moved", "missing", "robots", "slow", "excluded", "given-up", "held", "read")
    await crawl.admit(*(f"https://{name}.example/" for name in names), is_seed=True)
    await crawl.admit("https://page.example/1", "https://page.example/2", "https://page.example/private/")
    await crawl.admit("https://slow.example/next", "https://excluded.example/next", "https://given-up.example/next")
    await crawl.admit(*(f"https://full.example/{number}" for number in range(8)), is_seed=True)
    await crawl.admit("https://read.example/x?1", "https://read.example/x?2")
    origins = ("https://page.example", "https://robots.example")
    now = await crawl.store.now()
    await crawl.store.save_robots(
        [
            RobotsCopy(origin=origin, access="parse", body=ROBOTS_TXT, fetched_at=now, expires_at=now + 3600)
            for origin in origins
        ]
    )
    leases = {url.removeprefix("https://").partition(".")[0]: lease for url, lease in (await crawl.lease()).items()}
    coded = (b"Content-Encoding", b"gzip")
    page = said("https://page.example/", 200, gzip.compress(HTML, mtime=0), (coded, (b"X-Odd", b"\x1b[2J")))
    await crawl.end(leases["page"], Reason.PAGE, answer=page)
    moved = said("https://moved.example/", 301, b"", ((b"Location", b"/to"),))
    await crawl.end(leases["moved"], Reason.REDIRECT, answer=moved)
    await crawl.end(leases["missing"], Reason.STATUS, answer=said("https://missing.example/", 404, b"no such page"))
    await crawl.end(leases["robots"], Reason.ROBOTS, detail="line 2: Disallow: /private/")
    await crawl.end(leases["slow"], Reason.TIMEOUT, detail="no answer within 15 s")
    await crawl.end(leases["excluded"], Reason.EXCLUDED)
    await crawl.end(leases["given-up"], Reason.BLOCKED_SITE)
    await crawl.end(leases["read"], Reason.PAGE, answer=said("https://read.example/", 200, HTML), is_committed=False)
    await crawl.close()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    crawl = Crawl(tmp_path_factory.mktemp("explained") / "crawl")
    asyncio.run(crawl_everything(crawl))
    crawl.data.write_exclusions("https://excluded.example/\n")
    return crawl


class Asking:
    """The commands, in this process."""

    def __init__(self, crawl: Crawl, capsys: pytest.CaptureFixture[str]) -> None:
        self.crawl = crawl
        self._capsys = capsys

    def ask(self, command: str, url: str, *flags: str) -> str:
        arguments = command_parser(command).read([str(self.crawl.data.root), url, *flags])
        assert command_module(command).run(arguments) == 0
        out, err = self._capsys.readouterr()
        assert err == ""
        return out

    def verdict(self, url: str) -> tuple[str, str]:
        """And the reason of the rule that decided, if one did."""
        found = json.loads(self.ask("explain", url, "--json"))
        assert found["typed"] == url
        return found["verdict"], (found["refusal"] or {"reason": ""})["reason"]


@pytest.fixture
def asking(crawled: Crawl, capsys: pytest.CaptureFixture[str]) -> Asking:
    return Asking(crawled, capsys)


@pytest.mark.parametrize(
    ("url", "verdict", "reason"),
    [
        ("https://page.example/", "fetched", ""),
        ("https://moved.example/", "redirected", ""),
        ("https://missing.example/", "failed", ""),
        ("https://robots.example/", "refused", "robots"),
        ("https://page.example/1", "queued", ""),
        ("https://page.example/private/", "refused", "robots"),
        ("https://held.example/", "leased", ""),
        ("https://read.example/", "spooled", ""),
        ("https://slow.example/next", "backing-off", ""),
        ("https://slow.example/", "backing-off", ""),
        ("https://excluded.example/", "excluded-later", "excluded"),
        ("https://excluded.example/next", "excluded-later", "excluded"),
        ("https://given-up.example/next", "excluded-later", "blocked-site"),
        ("https://given-up.example/other", "refused", "site-dropped"),
        ("https://elsewhere.example/", "refused", "scope"),
        ("https://full.example/more", "refused", "site-full"),
        ("https://read.example/x?3", "refused", "path-variants"),
        ("https://page.example/a/b/a/b/a/b/a/b/", "refused", "path-repeats"),
        ("https://page.example/3", "unseen", ""),
        ("HTTPS://page.example:443/#top", "duplicate", ""),
        ("https://page.example/robots.txt", "robots-file", ""),
        ("ftp://page.example/", "refused", "scheme"),
    ],
)
def test_the_command_is_right_about(asking: Asking, url: str, verdict: str, reason: str) -> None:
    assert asking.verdict(url) == (verdict, reason)


def test_the_first_line_answers_and_the_rows_are_the_reasons(asking: Asking) -> None:
    first, *rows = asking.ask("explain", "https://page.example/").splitlines()
    assert first.startswith("fetched: 200 on ")
    assert ", page in warc/GOSSAMER-" in first
    text = "\n".join(rows)
    for expected in ("page.example, 4 admitted, 3 queued, seeded", "allowed", "700 s between requests", "attempts (1)"):
        assert expected in text


def test_status_counts_what_is_fetched_and_not_yet_written_beside_the_pages(
    crawled: Crawl, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(crawled.data.root)]) == 0
    assert "\n  pages             1; 1 outcome fetched and not yet written\n" in capsys.readouterr().out


def test_who_is_before_a_queued_url_is_counted(asking: Asking) -> None:
    first = asking.ask("explain", "https://page.example/2").partition("\n")[0]
    assert first.startswith("queued: 1 before it; the site may be asked again in ")
    assert first.endswith("; the crawl is not running")


def test_a_back_off_names_its_cause(asking: Asking) -> None:
    first = asking.ask("explain", "https://slow.example/next").partition("\n")[0]
    assert "(back-off after 1 failure: timeout)" in first


def test_an_answer_is_read_from_a_directory_that_is_not_touched(asking: Asking) -> None:
    def files() -> dict[Path, tuple[int, int]]:
        paths = asking.crawl.data.root.rglob("*")
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}

    before = files()
    asking.ask("explain", "https://page.example/")
    asking.ask("show", "https://page.example/")
    assert files() == before


def test_json_is_ascii_so_that_no_text_of_the_web_steers_a_terminal(asking: Asking) -> None:
    assert asking.ask("show", "https://page.example/", "--json").isascii()
    assert asking.ask("explain", "https://page.example/", "--json").isascii()


@pytest.mark.parametrize("command", ["explain", "show"])
def test_a_bare_domain_is_taken_as_a_crawl_takes_it(asking: Asking, command: str) -> None:
    found = json.loads(asking.ask(command, "page.example", "--json"))
    assert found["url"] == "https://page.example/"
    assert found.get("verdict", "fetched") == "fetched"


@pytest.mark.parametrize("command", ["explain", "show"])
def test_what_is_no_url_or_no_crawl_is_bad_usage(asking: Asking, tmp_path: Path, command: str) -> None:
    module, parser = command_module(command), command_parser(command)
    with pytest.raises(UsageError, match="give a whole http"):
        asking.ask(command, "a page")
    with pytest.raises(UsageError, match=r"holds no crawl"):
        module.run(parser.read([str(tmp_path), "https://page.example/"]))
    with pytest.raises(UsageError, match="URL"):
        parser.read([str(tmp_path)])


# --- gossamer show ----------------------------------------------------------------------------------------------------


def test_a_page_is_shown_with_facts_headers_and_text_and_nothing_of_it_steers_the_terminal(asking: Asking) -> None:
    out = asking.ask("show", "https://page.example/")
    assert not {"\x1b", "\u202e"} & set(out)
    for line in (
        "https://page.example/",
        r"  title                  A \u202etitle",
        "  fetch_status           200",
        "  GET / HTTP/1.1",
        "  HTTP/1.1 200 Said",
        "  Content-Encoding: gzip",
        r"  X-Odd: \x1b[2J",
        "  One.",
        "  Two.",
    ):
        assert line in out.splitlines()


def test_a_page_whose_archived_answer_is_damaged_is_shown_with_facts_and_text(
    crawled: Crawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(crawled.data.root, root)
    for path in (root / "warc").iterdir():
        path.write_bytes(bytes(path.stat().st_size))

    def shown(*flags: str) -> tuple[int, str, str]:
        return main(["show", str(root), "https://page.example/", *flags]), *capsys.readouterr()

    code, out, err = shown()
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert any(line.split() == ["fetch_status", "200"] for line in lines)
    answer = lines.index("answer")
    assert "cannot be read" in lines[answer + 1]
    assert lines[answer + 2].startswith("text (")
    assert "  One." in lines
    code, out, err = shown("--json")
    found = json.loads(out)
    assert (code, err, found["archived"], found["page"]["fetch_status"]) == (1, "", None, 200)
    assert "cannot be read" in found["archive_error"]
    code, out, err = shown("--raw")
    assert (code, out) == (1, "")
    assert "cannot be read" in err


def test_any_spelling_of_a_url_is_shown(asking: Asking) -> None:
    assert asking.ask("show", "HTTPS://page.EXAMPLE/#top") == asking.ask("show", "https://page.example/")


@pytest.mark.parametrize(("flags", "body"), [((), HTML), (("--encoded",), gzip.compress(HTML, mtime=0))])
def test_the_body_alone_is_written_decoded_or_as_it_came(
    crawled: Crawl, capfdbinary: pytest.CaptureFixture[bytes], flags: tuple[str, ...], body: bytes
) -> None:
    parser = command_parser("show")
    arguments = parser.read([str(crawled.data.root), "https://page.example/", "--raw", *flags])
    assert command_module("show").run(arguments) == 0
    assert capfdbinary.readouterr() == (body, b"")


def test_a_body_is_not_written_to_a_terminal(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(UsageError, match="could steer this terminal"):
        asking.ask("show", "https://page.example/", "--raw")


def test_what_is_no_page_is_shown_from_its_attempt_and_its_archived_answer(asking: Asking) -> None:
    missing = asking.ask("show", "https://missing.example/")
    assert "  failure_kind   status" in missing.splitlines()
    assert "  HTTP/1.1 404 Said" in missing.splitlines()
    moved = json.loads(asking.ask("show", "https://moved.example/", "--json"))
    assert moved["attempt"]["redirect"] == "https://moved.example/to"
    assert moved["archived"]["status_line"] == "HTTP/1.1 301 Said"
    failed = asking.ask("show", "https://slow.example/")
    assert "  reason         no answer within 15 s" in failed.splitlines()
    assert "  archive        nothing" in failed.splitlines()
    robots = asking.ask("show", "https://page.example/robots.txt")
    assert "  kind           robots" in robots.splitlines()


def test_what_the_files_do_not_have_points_to_explain(asking: Asking) -> None:
    with pytest.raises(GossamerError, match=r"ask why: gossamer explain .*crawl https://page.example/1$") as caught:
        asking.ask("show", "https://page.example/1")
    assert caught.value.exit_code == 1
    with pytest.raises(GossamerError, match="no server answered"):
        asking.ask("show", "https://slow.example/", "--raw")


def test_flags_that_contradict_each_other_are_refused(asking: Asking) -> None:
    for flags in (["--encoded"], ["--raw", "--json"]):
        with pytest.raises(UsageError, match="--raw"):
            asking.ask("show", "https://page.example/", *flags)


def test_of_several_answers_the_latest_is_shown_and_their_number_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = Crawl(tmp_path / "crawl", Settings(politeness=PolitenessSettings(delay_seconds=0.0, backoff_seconds=0.01)))

    async def fail_twice() -> None:
        await crawl.open()
        await crawl.admit("https://weak.example/", is_seed=True)
        for status in (500, 502):
            leases = await crawl.lease()
            answer = said("https://weak.example/", status, b"later")
            await crawl.end(leases["https://weak.example/"], Reason.STATUS, answer=answer)
            await asyncio.sleep(0.02)  # longer than the back-off
        await crawl.close()

    asyncio.run(fail_twice())
    asking = Asking(crawl, capsys)
    out = asking.ask("show", "https://weak.example/")
    assert "  answers        2; this is the latest" in out.splitlines()
    assert "  HTTP/1.1 502 Said" in out.splitlines()
    assert "attempts (2)" in asking.ask("explain", "https://weak.example/")
