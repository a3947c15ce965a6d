"""Each rule of the auditor, with logs made by hand: what convicts, and what looks alike and does not."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from gossamer.cli import audit as command
from gossamer.cli.arguments import Parser
from gossamer.errors import UsageError
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import MEANINGS, Audit, Offence
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web.access_log import Request, line
from gossamer.testing.web.graph import Web
from gossamer.testing.web.policies import Policy, everywhere
from gossamer.testing.web.sites import Kind

HOME = "http://a.test/"
ONE = "http://a.test/one"
TWO = "http://a.test/two"
MOVED = "http://a.test/moved"
SECRET = "http://a.test/secret"
BEHIND = "http://a.test/behind"
FAR_BEHIND = "http://a.test/far-behind"
ORPHAN = "http://a.test/orphan"
OTHER = "http://b.test/"
ROBOTS = "http://a.test/robots.txt"
OTHER_ROBOTS = "http://b.test/robots.txt"
AGENT = "Gossamer/0.1.0 (+mailto:someone@example.org)"
DAY = 24 * 3600.0
DELAY = 10.0

LINKS = {HOME: [ONE, TWO, MOVED, SECRET], ONE: [HOME, TWO], SECRET: [BEHIND], BEHIND: [FAR_BEHIND]}


class HandLink(NamedTuple):
    target: str | None


class HandAnswer(NamedTuple):
    kind: Kind
    location: str | None = None
    text: str = ""


class HandMadeWeb:
    """Two sites. Home links to one, two, a redirect to the other site and a page behind robots.txt that links on."""

    sites = frozenset({"a.test", "b.test"})

    def __init__(
        self, *, delays: dict[str, float] | None = None, redirects: dict[str, str] | None = None, failing: bool = False
    ) -> None:
        self.redirects = {MOVED: OTHER} | (redirects or {})
        self.delays = delays or {}
        self.failing = failing

    def is_known_site(self, site: str) -> bool:
        return site in self.sites

    def reachable(self, seeds: Iterable[str], *, max_depth: int | None, same_sites_only: bool, files: bool) -> set[str]:
        if self.failing:
            return set()
        found = set(seeds)
        if max_depth != 0:
            found |= {ONE, MOVED} | ({TWO} if files else set()) | (set() if same_sites_only else {OTHER})
        return found

    def is_allowed(self, url: str) -> bool:
        return not self.failing and url != SECRET

    def links(self, url: str) -> list[HandLink]:
        return [HandLink(None), *(HandLink(target) for target in LINKS.get(url, ()))]

    def answer(self, url: str) -> HandAnswer:
        delay = self.delays.get(url)
        text = "" if delay is None else f"User-agent: *\nCrawl-delay: {delay:g}\n"
        return HandAnswer(Kind.PAGE, self.redirects.get(url), text)


WEB = HandMadeWeb()


def get(
    url: str,
    at: float,
    *,
    status: int = 200,
    seconds: float = 1.0,
    aborted: bool = False,
    agent: str = AGENT,
) -> Request:
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    start = round(at * 1e9)
    return Request(start, start + round(seconds * 1e9), aborted, scheme, host, f"/{path}", status, 100, 40_000, agent)


#: All that there is to fetch, at the speed that is asked for: eleven seconds from start to start.
HONEST = [
    get(ROBOTS, 0),
    get(HOME, 1),
    get(ONE, 12),
    get(TWO, 23),
    get(MOVED, 34, status=301),
    get(OTHER_ROBOTS, 35, status=404),
    get(OTHER, 36),
]


def judged(
    requests: Iterable[Request],
    web: HandMadeWeb = WEB,
    *,
    rules: Rules | None = None,
    examples: int = 5,
) -> Audit:
    return audit(requests, web, rules or Rules(seeds=[HOME], delay_seconds=DELAY), examples=examples)


def rules(**changes: object) -> Rules:
    return Rules(**{"seeds": [HOME], "delay_seconds": DELAY} | changes)  # type: ignore[arg-type]


def convicted(found: Audit, offence: Offence, *urls: str) -> bool:
    """Of this offence alone, for these URLs."""
    (finding,) = found.findings
    assert finding.count == len(finding.examples)
    assert (finding.offence, [example.url for example in finding.examples]) == (offence, list(urls))
    return True


# --- the whole --------------------------------------------------------------------------------------------------------


def test_an_honest_crawl_is_clean() -> None:
    found = judged(HONEST)
    assert found.findings == ()
    assert (found.is_clean, found.verdict) == (True, "clean")
    facts = found.counts
    assert (facts.requests, facts.robots_requests, facts.cut_off, facts.retries, facts.repeats) == (7, 2, 0, 0, 0)
    assert (facts.sites, facts.origins, facts.urls_requested, facts.urls_expected) == (2, 2, 5, 5)
    assert facts.urls_expected_requested == 5
    assert (facts.seconds, facts.shortest_gap_seconds) == (37.0, 10.0)


def test_the_order_of_the_log_does_not_matter() -> None:
    """Several processes write a file each, and each writes a request when it has ended."""
    requests = [*HONEST, get(TWO, 50), get(SECRET, 60.5)]
    shuffled = list(requests)
    random.Random(1).shuffle(shuffled)
    assert judged(shuffled) == judged(requests)
    assert judged(requests).offences == {Offence.DUPLICATE, Offence.DISALLOWED, Offence.TOO_SOON}


def test_an_empty_log_fetched_nothing() -> None:
    found = judged([])
    assert convicted(found, Offence.NEVER_FETCHED, HOME, MOVED, ONE, TWO, OTHER)
    assert (found.counts.requests, found.counts.seconds, found.counts.shortest_gap_seconds) == (0, 0.0, None)


def test_an_empty_log_of_a_partial_crawl_is_clean() -> None:
    assert judged([], rules=rules(is_partial=True)).is_clean


def test_every_offence_says_what_it_means() -> None:
    assert set(MEANINGS) == set(Offence)


def test_the_report_shows_the_first_examples_and_counts_the_rest() -> None:
    again = [get(TWO, 100 + 11 * number) for number in range(9)]
    found = judged([*again[::-1], *HONEST], examples=2)
    lines = str(found).splitlines()
    start = lines.index("duplicate (9): requested again after a complete and final answer")
    assert lines[start + 1 :] == [
        f"  +100.000 s  {TWO}  (200 76.000 s before)",
        f"  +111.000 s  {TWO}  (200 87.000 s before)",
        "  … and 7 more",
        "verdict       convicted of: duplicate",
    ]


def test_the_machine_readable_report_has_all_of_it() -> None:
    shown = json.loads(judged([*HONEST, get(TWO, 100, agent="Mozilla/5.0 \x1b[31m")]).to_json())
    assert shown["verdict"] == "convicted of: duplicate, user-agent"
    assert shown["counts"]["requests"] == 8
    assert [finding["offence"] for finding in shown["findings"]] == ["duplicate", "user-agent"]
    assert shown["findings"][1]["examples"] == [{"at_seconds": 100.0, "url": TWO, "detail": r"'Mozilla/5.0 \x1b[31m'"}]


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_a_page_that_was_never_requested_is_missing() -> None:
    assert convicted(judged(request for request in HONEST if request.path != "/two"), Offence.NEVER_FETCHED, TWO)


def test_a_crawl_that_was_stopped_early_misses_nothing() -> None:
    assert judged(HONEST[:3], rules=rules(is_partial=True)).is_clean


def test_the_depth_asked_for_decides_what_is_missing_and_what_is_too_much() -> None:
    shallow = rules(max_depth=0)
    assert judged(HONEST[:2], rules=shallow).is_clean
    assert convicted(judged(HONEST, rules=shallow), Offence.NOT_REACHABLE, ONE, TWO, MOVED, OTHER)


def test_another_site_is_too_much_for_a_crawl_that_stays() -> None:
    assert judged(HONEST[:5], rules=rules(same_sites_only=True)).is_clean
    assert convicted(judged(HONEST, rules=rules(same_sites_only=True)), Offence.NOT_REACHABLE, OTHER)


def test_what_nothing_links_to_is_not_reachable() -> None:
    assert convicted(judged([*HONEST, get(ORPHAN, 50, status=404)]), Offence.NOT_REACHABLE, ORPHAN)


def test_what_robots_txt_keeps_out_is_disallowed_and_not_also_unreachable() -> None:
    assert convicted(judged([*HONEST, get(SECRET, 50)]), Offence.DISALLOWED, SECRET)


def test_what_was_found_on_a_disallowed_page_is_its_consequence() -> None:
    found = judged([*HONEST, get(SECRET, 50), get(BEHIND, 70), get(FAR_BEHIND, 90)])
    assert convicted(found, Offence.DISALLOWED, SECRET)
    assert found.counts.behind_disallowed == 2
    assert "2 more were found only on pages that were not to be fetched" in str(found)


def test_what_a_disallowed_url_redirects_to_is_its_consequence() -> None:
    web = HandMadeWeb(redirects={SECRET: ORPHAN})
    found = judged([*HONEST, get(SECRET, 50, status=302), get(ORPHAN, 70)], web)
    assert convicted(found, Offence.DISALLOWED, SECRET)
    assert found.counts.behind_disallowed == 1


def test_files_are_too_much_for_a_crawl_that_wants_none() -> None:
    assert convicted(judged(HONEST, rules=rules(files=False)), Offence.NOT_REACHABLE, TWO)


def test_a_sitemap_may_be_read_or_left() -> None:
    class WithSitemap(HandMadeWeb):
        def answer(self, url: str) -> HandAnswer:
            return HandAnswer(Kind.SITEMAP) if url.endswith(".xml") else super().answer(url)

    assert judged([*HONEST, get("http://a.test/sitemap.xml", 50)], WithSitemap()).is_clean


def test_a_host_of_no_site_of_this_web_is_foreign() -> None:
    found = judged([*HONEST, get("http://elsewhere.example/robots.txt", 50), get("http://elsewhere.example/x", 50)])
    assert convicted(found, Offence.FOREIGN, "http://elsewhere.example/robots.txt", "http://elsewhere.example/x")
    assert found.counts.robots_requests == 2


@pytest.mark.parametrize("host", ["", "a..test", "[::", "\udcff\udcfe", "a.test:99999", "x" * 3000])
def test_a_host_header_that_is_none_is_foreign(host: str) -> None:
    found = judged([*HONEST, get(HOME, 50)._replace(host=host)])
    assert found.offences == {Offence.FOREIGN}
    assert json.loads(found.to_json())["findings"][0]["count"] == 1


def test_sites_served_besides_the_graph_are_judged_by_their_manners_alone() -> None:
    requests = [
        *HONEST,
        get("http://h01.test/robots.txt", 0),
        get("http://h01.test/endless", 1),
        get("http://h01.test/endless", 12),
        get("http://h01.test/other", 15),
    ]
    besides = rules(other_sites=r"h\d+\.test")
    assert convicted(judged(requests, rules=besides), Offence.TOO_SOON, "http://h01.test/other")
    assert judged(requests).offences == {Offence.FOREIGN}


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("A.TEST", "/two"),
        ("a.test:80", "/two"),
        ("a.test.", "/two"),
        ("a.test", "/x/../two"),
        ("a.test", "/%74wo"),
        ("a.test", "http://a.test/two"),
    ],
)
def test_a_request_counts_for_its_canonical_url(host: str, path: str) -> None:
    requests = [request for request in HONEST if request.path != "/two"]
    assert judged([*requests, get(TWO, 50)._replace(host=host, path=path)]).is_clean


# --- duplicates and what was cut off ----------------------------------------------------------------------------------


def test_a_url_is_a_duplicate_after_a_complete_and_final_answer() -> None:
    assert convicted(judged([*HONEST, get(TWO, 50), get(TWO, 70)]), Offence.DUPLICATE, TWO, TWO)


@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 403, 404, 410])
def test_an_answer_is_final(status: int) -> None:
    assert convicted(judged([*HONEST, get(ONE, -20, status=status), get(ROBOTS, -31)][1:]), Offence.DUPLICATE, ONE)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_an_answer_may_be_asked_for_again(status: int) -> None:
    found = judged([*HONEST, get(ONE, -20, status=status), get(ROBOTS, -31)][1:])
    assert found.is_clean
    assert (found.counts.retries, found.counts.repeats) == (1, 0)


def test_a_request_that_was_cut_off_may_be_sent_again_and_only_until_one_is_answered() -> None:
    requests = [*HONEST[:2], get(ONE, 12, aborted=True), get(ONE, 23, aborted=True, status=0), get(ONE, 34)]
    found = judged(requests, rules=rules(is_partial=True))
    assert found.is_clean
    assert (found.counts.cut_off, found.counts.retries) == (2, 2)
    assert convicted(judged([*requests, get(ONE, 45)], rules=rules(is_partial=True)), Offence.DUPLICATE, ONE)


def test_a_page_that_was_cut_off_once_and_then_fetched_is_not_missing() -> None:
    assert judged([*HONEST, get(TWO, -20, aborted=True), get(ROBOTS, -22)][1:]).is_clean


def test_a_page_that_was_only_ever_cut_off_was_not_fetched() -> None:
    requests = [request._replace(aborted=request.path == "/two") for request in HONEST]
    assert convicted(judged(requests), Offence.CUT_OFF, TWO)
    assert judged(requests, rules=rules(is_partial=True)).is_clean


def test_a_file_that_was_declined_in_the_middle_was_fetched() -> None:
    class WithFile(HandMadeWeb):
        def answer(self, url: str) -> HandAnswer:
            return HandAnswer(Kind.FILE) if url == TWO else super().answer(url)

    assert judged((request._replace(aborted=request.path == "/two") for request in HONEST), WithFile()).is_clean


def test_a_page_that_was_asked_for_twice_at_once_is_a_duplicate_too() -> None:
    found = judged([*HONEST, get(TWO, 23.5, seconds=0.5)])
    assert found.offences == {Offence.DUPLICATE, Offence.OVERLAP}


def test_a_kill_may_cost_as_many_repeats_as_were_in_flight_and_no_more() -> None:
    requests = [*HONEST, get(ONE, 50), get(TWO, 70)]
    found = judged(requests, rules=rules(repeats=2))
    assert found.is_clean
    assert found.counts.repeats == 2
    assert convicted(judged(requests, rules=rules(repeats=1)), Offence.DUPLICATE, ONE, TWO)


# --- gaps and overlaps ------------------------------------------------------------------------------------------------


def test_a_gap_counts_from_the_end_of_the_request_before() -> None:
    requests = [*HONEST[:2], get(ONE, 11.999)]
    assert convicted(judged(requests, rules=rules(is_partial=True)), Offence.TOO_SOON, ONE)


def test_a_gap_of_exactly_the_delay_is_enough() -> None:
    assert judged([*HONEST[:2], get(ONE, 12)], rules=rules(is_partial=True)).is_clean
    short = get(ONE, 12)._replace(started_at_ns=11_999_999_999)
    assert judged([*HONEST[:2], short], rules=rules(is_partial=True)).offences == {Offence.TOO_SOON}


def test_the_crawl_delay_of_the_site_counts_if_it_is_the_higher_one() -> None:
    assert convicted(judged(HONEST, HandMadeWeb(delays={ROBOTS: 10.5})), Offence.TOO_SOON, ONE, TWO, MOVED)
    assert judged(HONEST, HandMadeWeb(delays={ROBOTS: 2.0, OTHER_ROBOTS: 100.0})).is_clean


def test_a_crawl_delay_of_another_origin_counts_for_the_site_from_when_it_is_known() -> None:
    secure = "https://a.test/robots.txt"
    web = HandMadeWeb(delays={secure: 10.5})
    assert judged([*HONEST, get(secure, 40)], web).is_clean
    assert convicted(judged([*HONEST, get(secure, 20)], web), Offence.TOO_SOON, TWO, MOVED)
    assert convicted(judged([*HONEST, get(secure, 20, status=503), get(secure, 30)], web), Offence.TOO_SOON, MOVED)


def test_a_lower_crawl_delay_that_is_learnt_later_changes_nothing() -> None:
    secure = "https://a.test/robots.txt"
    web = HandMadeWeb(delays={secure: 10.5, ROBOTS: 9.0})
    assert convicted(judged([get(secure, -2, seconds=0.5), *HONEST], web), Offence.TOO_SOON, ONE, TWO, MOVED)


def test_hosts_ports_and_schemes_of_one_site_share_its_delay() -> None:
    requests = [
        *HONEST,
        *(get(f"{origin}/robots.txt", 40) for origin in ("https://a.test", "http://a.test:8080", "http://www.a.test")),
        get("https://a.test/", 50),
        get("http://a.test:8080/", 51.5),
        get("http://www.a.test/", 53),
    ]
    (finding,) = [found for found in judged(requests).findings if found.offence is Offence.TOO_SOON]
    assert [example.url for example in finding.examples] == ["http://a.test:8080/", "http://www.a.test/"]


def test_other_sites_do_not_wait_for_each_other() -> None:
    requests = [get(ROBOTS, 0), get(OTHER_ROBOTS, 0), get(HOME, 1), get(OTHER, 1)]
    assert judged(requests, rules=rules(is_partial=True)).is_clean


def test_two_at_once_is_an_overlap_and_not_also_too_soon() -> None:
    found = judged([*HONEST[:2], get(ONE, 1.5), get(TWO, 12.5)], rules=rules(is_partial=True))
    assert convicted(found, Offence.OVERLAP, ONE)
    assert found.findings[0].examples[0].detail == f"{HOME} went on for 0.500000 s"


def test_the_gap_counts_from_the_last_of_overlapping_requests_to_end() -> None:
    """The second is long over when the first still goes on."""
    requests = [*HONEST[:1], get(HOME, 1, seconds=30), get(ONE, 2), get(TWO, 35)]
    found = judged(requests, rules=rules(is_partial=True))
    assert [(charge.offence, charge.examples[0].url) for charge in found.findings] == [
        (Offence.TOO_SOON, TWO),
        (Offence.OVERLAP, ONE),
    ]


def test_at_the_same_instant_two_requests_overlap_and_touching_ones_do_not() -> None:
    partial = rules(is_partial=True, delay_seconds=0.0)
    assert convicted(judged([*HONEST[:2], get(ONE, 1)], rules=partial), Offence.OVERLAP, ONE)
    assert judged([*HONEST[:2], get(ONE, 2)], rules=partial).is_clean
    assert judged([*HONEST[:2], get(ONE, 2)], rules=rules(is_partial=True)).offences == {Offence.TOO_SOON}


def test_robots_txt_does_not_count_for_the_gap_between_pages() -> None:
    requests = [*HONEST[:2], get("https://a.test/robots.txt", 3, seconds=8), get(ONE, 12)]
    assert judged(requests, rules=rules(is_partial=True)).is_clean


def test_the_server_may_be_a_little_late_to_see_that_a_client_left() -> None:
    """The client leaves at 2.0 and waits for ten seconds; a busy server saw it at 2.2."""
    left = get(HOME, 1, seconds=1.2, aborted=True)
    assert judged([HONEST[0], left, get(ONE, 12)], rules=rules(is_partial=True)).is_clean
    late = left._replace(ended_at_ns=2_300_000_000)
    assert judged([HONEST[0], late, get(ONE, 12)], rules=rules(is_partial=True)).offences == {Offence.TOO_SOON}
    short = get(HOME, 1, seconds=0.1, aborted=True)
    assert judged([HONEST[0], short, get(ONE, 10.9)], rules=rules(is_partial=True)).offences == {Offence.TOO_SOON}
    whole = left._replace(aborted=False)
    assert judged([HONEST[0], whole, get(ONE, 12)], rules=rules(is_partial=True)).offences == {Offence.TOO_SOON}


# --- robots.txt -------------------------------------------------------------------------------------------------------


def test_robots_txt_comes_before_the_first_page_of_an_origin() -> None:
    assert convicted(judged(HONEST[1:]), Offence.ROBOTS_NOT_FIRST, HOME)
    late = [get(ROBOTS, 3), *HONEST[1:]]
    assert convicted(judged(late), Offence.ROBOTS_NOT_FIRST, HOME)


def test_robots_txt_must_have_ended_when_the_first_page_starts() -> None:
    assert judged([get(ROBOTS, 0, seconds=1), *HONEST[1:]]).is_clean
    assert convicted(judged([get(ROBOTS, 0, seconds=1.1), *HONEST[1:]]), Offence.ROBOTS_NOT_FIRST, HOME)


def test_each_origin_has_its_own_robots_txt() -> None:
    requests = [*HONEST, get("https://a.test/", 50)]
    assert judged(requests).offences == {Offence.ROBOTS_NOT_FIRST, Offence.NOT_REACHABLE}


@pytest.mark.parametrize("status", [200, 204, 400, 401, 403, 404, 410])
def test_a_robots_txt_is_known_by_status(status: int) -> None:
    assert judged([get(ROBOTS, 0, status=status), *HONEST[1:]]).is_clean


@pytest.mark.parametrize("status", [0, 206, 429, 500, 503])
def test_a_robots_txt_is_not_known_by_status(status: int) -> None:
    assert convicted(judged([get(ROBOTS, 0, status=status), *HONEST[1:]]), Offence.ROBOTS_NOT_FIRST, HOME)


def test_a_robots_txt_that_was_cut_off_is_not_known() -> None:
    assert convicted(judged([get(ROBOTS, 0, aborted=True), *HONEST[1:]]), Offence.ROBOTS_NOT_FIRST, HOME)
    assert judged([get(ROBOTS, -5, aborted=True), *HONEST]).is_clean


def test_nothing_may_be_fetched_while_robots_txt_fails_and_that_is_one_offence() -> None:
    failing = HandMadeWeb(failing=True)
    requests = [get(ROBOTS, -10, status=503), get(ROBOTS, 0, status=503)]
    assert judged(requests, failing).is_clean
    assert convicted(judged([*requests, get(HOME, 1)], failing), Offence.DISALLOWED, HOME)


def test_the_redirects_of_robots_txt_are_followed_first_and_exempt_like_itself() -> None:
    first, second = "http://a.test/r1.txt", "http://a.test/r2.txt"
    web = HandMadeWeb(redirects={ROBOTS: first, first: second})
    hops = [get(ROBOTS, -2, status=301), get(first, -1, status=302), get(second, 0)]
    found = judged([*hops, *HONEST[1:]], web)
    assert found.is_clean
    assert found.counts.robots_requests == 4
    assert convicted(judged([*hops[:2], *HONEST[1:]], web), Offence.ROBOTS_NOT_FIRST, HOME)


def test_a_loop_of_robots_txt_redirects_ends() -> None:
    back = "http://a.test/r1.txt"
    web = HandMadeWeb(redirects={ROBOTS: back, back: ROBOTS})
    assert judged([get(ROBOTS, -1, status=301), get(back, 0, status=301), *HONEST[1:]], web).is_clean


def test_a_robots_txt_that_serves_two_origins_may_be_asked_for_by_both() -> None:
    web = HandMadeWeb(redirects={ROBOTS: OTHER_ROBOTS})
    requests = [get(ROBOTS, -1, status=301), get(OTHER_ROBOTS, 0), *HONEST[1:]]
    assert judged(requests, web).is_clean
    once_more = [*requests, get(OTHER_ROBOTS, 60)]
    assert convicted(judged(once_more, web), Offence.ROBOTS_TOO_OFTEN, OTHER_ROBOTS)


def test_robots_txt_is_asked_for_once_a_day() -> None:
    assert judged([*HONEST, get(ROBOTS, DAY), get(ROBOTS, 2 * DAY)]).is_clean
    assert convicted(judged([*HONEST, get(ROBOTS, DAY - 0.001)]), Offence.ROBOTS_TOO_OFTEN, ROBOTS)
    often = rules(robots_interval_seconds=60)
    assert judged([*HONEST, get(ROBOTS, 60)], rules=often).is_clean


def test_a_restart_may_ask_for_robots_txt_once_more() -> None:
    requests = [*HONEST, get(ROBOTS, 60), get(ROBOTS, 120)]
    assert judged(requests, rules=rules(restarts=2)).is_clean
    assert convicted(judged(requests, rules=rules(restarts=1)), Offence.ROBOTS_TOO_OFTEN, ROBOTS)


def test_a_robots_txt_that_fails_may_be_asked_for_again_but_not_for_ever() -> None:
    failures = [get(ROBOTS, 11 * number - 200, status=429 if number % 2 else 503) for number in range(11)]
    assert judged([*failures[:10], *HONEST]).is_clean
    found = judged([*failures, *HONEST])
    assert convicted(found, Offence.ROBOTS_TOO_OFTEN, ROBOTS)
    assert found.findings[0].examples[0].detail == "11 times in 110.000 s, the last with status 503"


# --- visits without a page --------------------------------------------------------------------------------------------

PARTIAL = Rules(seeds=[HOME], delay_seconds=DELAY, is_partial=True)


def alone(number: int, at: float, *, seconds: float = 0.5, aborted: bool = False) -> Request:
    """The robots.txt of one of many subdomains, after which no page of it is asked for."""
    return get(f"http://h{number}.a.test/robots.txt", at, seconds=seconds, aborted=aborted)


def test_visits_for_robots_txt_alone_are_a_second_apart_and_rarer_with_each_in_a_row() -> None:
    # A second after the first, then two, four, eight; the delay of ten is the longest pause.
    honest = [alone(n, at) for n, at in enumerate((0, 1.5, 4, 8.5, 17, 27.5, 38))]
    assert judged(honest, rules=PARTIAL).is_clean
    soon = judged([alone(0, 0), alone(1, 1.4)], rules=PARTIAL)
    assert convicted(soon, Offence.ROBOTS_TOO_SOON, "http://h1.a.test/robots.txt")
    steady = [alone(n, 2 * n) for n in range(5)]
    found = judged(steady, rules=PARTIAL)
    assert convicted(found, Offence.ROBOTS_TOO_SOON, *(f"http://h{n}.a.test/robots.txt" for n in (2, 3, 4)))
    assert found.findings[0].examples[0].detail == "1.500000 s after http://h1.a.test/robots.txt, not 2 s"


def test_the_pause_after_robots_txt_alone_is_never_longer_than_the_delay() -> None:
    visits = [alone(n, n) for n in range(5)]
    assert judged(visits, rules=rules(is_partial=True, delay_seconds=0.5)).is_clean
    assert judged(visits, rules=rules(is_partial=True, delay_seconds=0.6)).offences == {Offence.ROBOTS_TOO_SOON}


def test_a_page_ends_the_row_of_visits_for_robots_txt_alone() -> None:
    row = [alone(0, 0), alone(1, 1.5), alone(2, 4)]
    page = [get(ROBOTS, 9), get(HOME, 10)]
    assert judged([*row, *page, alone(3, 21), alone(4, 22.5)], rules=PARTIAL).is_clean
    assert judged([*row, alone(3, 21), alone(4, 22.5)], rules=PARTIAL).offences == {Offence.ROBOTS_TOO_SOON}


def test_a_page_waits_for_the_pause_after_the_robots_txt_of_another_origin() -> None:
    known = [get(ROBOTS, 0), get(HOME, 1)]
    assert judged([*known, alone(0, 12), get(ONE, 13.5)], rules=PARTIAL).is_clean
    assert convicted(judged([*known, alone(0, 12), get(ONE, 13.4)], rules=PARTIAL), Offence.ROBOTS_TOO_SOON, ONE)


def test_robots_txt_is_not_asked_for_in_a_page_or_right_after_it() -> None:
    known = [get(ROBOTS, 0), get(HOME, 1, seconds=3)]
    assert judged([*known, alone(0, 5)], rules=PARTIAL).is_clean
    for at in (2, 4.9):
        assert judged([*known, alone(0, at)], rules=PARTIAL).offences == {Offence.ROBOTS_TOO_SOON}


def test_redirects_of_robots_txt_within_its_site_are_one_visit() -> None:
    web = HandMadeWeb(redirects={ROBOTS: "https://a.test/robots.txt", "https://a.test/robots.txt": "http://a.test/r"})
    chain = [get(ROBOTS, 0), get("https://a.test/robots.txt", 1), get("http://a.test/r", 2)]
    assert judged([*chain, get(HOME, 3)], web, rules=PARTIAL).is_clean
    assert judged([*chain, alone(0, 4)], web, rules=PARTIAL).is_clean
    assert judged([*chain, alone(0, 3.9)], web, rules=PARTIAL).offences == {Offence.ROBOTS_TOO_SOON}
    # The same file again is not the next redirect.
    assert Offence.ROBOTS_TOO_SOON in judged([*chain, get(ROBOTS, 3.5)], web, rules=PARTIAL).offences


def test_a_robots_txt_to_which_another_site_redirects_is_not_judged_by_the_pauses() -> None:
    web = HandMadeWeb(redirects={OTHER_ROBOTS: ROBOTS})
    requests = [get(ROBOTS, 0), get(HOME, 1), get(OTHER_ROBOTS, 2.1), get(ROBOTS, 2.2), get(OTHER, 3.5)]
    assert judged(requests, web, rules=PARTIAL).is_clean


def test_a_restart_may_begin_the_row_anew_but_never_shorten_the_first_pause() -> None:
    row = [alone(0, 0), alone(1, 1.5), alone(2, 4), alone(3, 5.5), alone(4, 8)]
    assert judged(row, rules=PARTIAL).offences == {Offence.ROBOTS_TOO_SOON}
    assert judged(row, rules=rules(is_partial=True, restarts=1)).is_clean
    hasty = [*row[:3], alone(3, 5.4)]
    assert judged(hasty, rules=rules(is_partial=True, restarts=1)).offences == {Offence.ROBOTS_TOO_SOON}


def test_a_robots_txt_that_was_cut_off_may_have_ended_a_little_earlier() -> None:
    assert judged([alone(0, 0, aborted=True), alone(1, 1.3)], rules=PARTIAL).is_clean
    assert not judged([alone(0, 0, aborted=True), alone(1, 1.2)], rules=PARTIAL).is_clean


# --- the name ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["", "gossamer/0.1.0", "Mozilla/5.0 (compatible; Gossamer/0.1.0)", "Python/3.11"])
def test_every_request_carries_the_expected_name(agent: str) -> None:
    requests = [request._replace(user_agent=agent) if request.path == "/two" else request for request in HONEST]
    assert convicted(judged(requests), Offence.USER_AGENT, TWO)


def test_robots_txt_too_is_asked_for_under_the_expected_name() -> None:
    assert convicted(judged([HONEST[0]._replace(user_agent="x"), *HONEST[1:]]), Offence.USER_AGENT, ROBOTS)


def test_the_name_may_be_given_as_a_pattern() -> None:
    strict = rules(user_agent=r"Gossamer/\d+\.\d+\.\d+ \(\+\S+\)$")
    assert judged(HONEST, rules=strict).is_clean
    assert judged((r._replace(user_agent="Gossamer/1.0.0") for r in HONEST), rules=strict).offences == {
        Offence.USER_AGENT
    }


# --- gossamer audit ---------------------------------------------------------------------------------------------------

ONE_SITE = Web(sites=1, pages=1, robots=everywhere(Policy.OPEN))
CRAWLED = [get("http://s0.test/robots.txt", 0), get("http://s0.test/", 1)]


def ran(*arguments: str) -> int:
    parser = Parser("gossamer audit", "")
    command.add_arguments(parser)
    return command.run(parser.read(arguments))


def logged(directory: Path, *requests: Request) -> str:
    directory.mkdir(exist_ok=True)
    (directory / "access-0.log").write_text("".join(f"{line(request)}\n" for request in requests))
    return str(directory)


@pytest.fixture
def log(tmp_path: Path) -> str:
    (tmp_path / "web.json").write_bytes(msgspec.json.encode(ONE_SITE))
    return logged(tmp_path, *CRAWLED)


def test_a_log_directory_says_itself_which_web_was_served(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(log) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "verdict       clean"


def test_logs_of_a_web_that_is_described_by_flags(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(log) / "web.json").unlink()
    seed = next(seed for seed in range(100) if Web(seed=seed, sites=1, pages=1).policy("s0.test") is Policy.OPEN)
    assert ran(f"{log}/access-0.log", "--sites", "1", "--pages", "1", "--web-seed", str(seed), "--partial") == 0
    assert capsys.readouterr().out.startswith("requests      2 in 2.000 s\n")


def test_a_single_log_is_read_with_the_web_beside_it(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(f"{log}/access-0.log", "--json") == 0
    assert json.loads(capsys.readouterr().out)["counts"]["requests"] == 2


def test_flags_change_what_the_file_says(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(log, "--web", f"{log}/web.json", "--pages", "3", "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["verdict"] == "convicted of: never-fetched"
    assert shown["findings"][0]["count"] >= 1


def test_several_directories_are_one_log(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = logged(tmp_path / "more", get("http://s0.test/", 100))
    assert ran(log, more) == 1
    assert "convicted of: duplicate" in capsys.readouterr().out
    assert ran(log, more, "--repeats", "1") == 0


def test_seeds_may_be_bare_domains_and_comments(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "seeds").write_text("# home pages\n\ns0.test\nHTTP://S0.test:80\n")
    secure = [get("https://s0.test/robots.txt", 90), get("https://s0.test/", 91, status=301)]
    logged(tmp_path, *secure, *CRAWLED[:1])
    assert ran(log, "--seeds", str(tmp_path / "seeds")) == 1
    out = capsys.readouterr().out
    assert "never-fetched (1)" in out
    assert "convicted of: never-fetched\n" in out


def test_what_a_client_sent_cannot_steer_the_terminal(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    nasty = get("http://s0.test/", 1, agent="\x1b[2J\u202e")._replace(host="\x1b]0;x\x07\n")
    logged(Path(log), *CRAWLED, nasty)
    assert ran(log) == 1
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "convicted of: user-agent, foreign" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{empty}"], "no access-*.log"),
        (["{empty}/gone/access-0.log"], "does not exist"),
        (["{empty}/bare"], "which web was served"),
        (["{log}", "--web", "{log}/access-0.log"], "no web that could be served"),
        (["{log}", "--sites", "0"], "no web that could be served"),
        (["{log}", "--sites", "x"], "no whole number"),
        (["{log}", "--delay", "soon"], "is not a duration"),
        (["{log}", "--delay", "nan"], "is not a duration"),
        (["{log}", "--user-agent", "("], "no regular expression"),
        (["{log}", "--seeds", "{log}/none"], "cannot read"),
        (["{empty}/other.txt"], "no access log"),
    ],
)
def test_bad_usage_is_one_line(log: str, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "web.json").write_bytes(msgspec.json.encode(ONE_SITE))
    (tmp_path / "empty" / "other.txt").write_text("something else\n")
    (tmp_path / "empty" / "bare").mkdir()
    (tmp_path / "empty" / "bare" / "access-0.log").touch()
    with pytest.raises(UsageError) as raised:
        ran(*(argument.format(log=log, empty=tmp_path / "empty") for argument in arguments))
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
