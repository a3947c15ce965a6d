"""The judgement of a whole log: coverage, duplicates, gaps and overlaps, each a function of its own."""

import re
from collections.abc import Container, Iterable, Iterator
from collections.abc import Set as AbstractSet

from gossamer.testing.audit.pauses import judge_pauses
from gossamer.testing.audit.report import NEVER, Audit, Charges, Counts, Offence
from gossamer.testing.audit.robots import RobotsVisits
from gossamer.testing.audit.rules import KnownWeb, Rules
from gossamer.testing.audit.visits import Visit, Visits, collected
from gossamer.testing.web.access_log import Request
from gossamer.testing.web.sites import PAGES, Kind


def audit(requests: Iterable[Request], known: KnownWeb, rules: Rules, *, examples: int = 5) -> Audit:
    """Judges a whole log. Requests may come in any order, so the logs of several processes just follow each other."""
    visits = collected(requests, re.compile(rules.user_agent))
    charges = Charges()
    other_sites = re.compile(rules.other_sites)
    graphed = {site for site in visits.by_site if known.is_known_site(site)}
    judged = {site for site in visits.by_site if site in graphed or other_sites.fullmatch(site)}
    robots = RobotsVisits(visits, judged, known)
    gaps = [
        _judge_manners(visits.by_site[site], robots.owners, robots.delays(site, rules), rules, charges)
        for site in judged
    ]
    # What is judged by the graph: pages, and only on sites that it knows.
    exempt = set(robots.owners)
    for site in visits.by_site.keys() - graphed:
        exempt.update(visit.url for visit in visits.by_site[site])
    for site in visits.by_site.keys() - judged:
        for visit in visits.by_site[site]:
            charges.add(Offence.FOREIGN, visit.started_at_ns, visit.url)
    retries = _judge_duplicates(visits, exempt, charges)
    expected = known.reachable(
        rules.seeds, max_depth=rules.max_depth, same_sites_only=rules.same_sites_only, files=rules.files
    )
    unexpected = [url for url in visits.by_url if url not in expected]
    expected_requested = len(visits.by_url) - len(unexpected)
    if not rules.is_partial:
        if expected_requested < len(expected):
            _judge_missing(expected, visits, charges)
        _judge_cut_off(expected, visits, known, charges)
    disallowed, behind = _judge_surplus(set(unexpected) - exempt, visits, known, charges)
    robots.judge_order(disallowed, charges)
    robots.judge_frequency(rules, charges)
    for site in judged:
        judge_pauses(visits.by_site[site], visits.origins[site], robots, rules, charges)
    for visit, agent in visits.misnamed:
        charges.add(Offence.USER_AGENT, visit.started_at_ns, visit.url, f"{agent!a}")
    repeats = charges.count(Offence.DUPLICATE)
    return Audit(
        counts=Counts(
            requests=visits.count,
            robots_requests=robots.count,
            cut_off=len(visits.aborted),
            retries=retries,
            repeats=repeats,
            sites=len(visits.by_site),
            origins=sum(map(len, visits.origins.values())),
            urls_requested=len(visits.by_url) - sum(url in visits.by_url for url in robots.owners),
            urls_expected=len(expected),
            urls_expected_requested=expected_requested,
            behind_disallowed=behind,
            seconds=(visits.ended_at_ns - visits.began_at_ns) / 1e9,
            shortest_gap_seconds=min((gap / 1e9 for gap in gaps if gap is not None), default=None),
        ),
        findings=charges.findings(
            began_at_ns=visits.began_at_ns,
            examples=examples,
            pardoned={Offence.DUPLICATE} if repeats <= rules.repeats else set(),
        ),
    )


def _judge_manners(
    visits: Iterable[Visit],
    robots: Container[str],
    delays: list[tuple[int, float]],
    rules: Rules,
    charges: Charges,
) -> int | None:
    """Gaps and overlaps of one site; the shortest gap, if there is one.

    `delays` are in seconds, growing, each in force from its time on.
    """
    lateness_ns = round(rules.abort_lateness_seconds * 1e9)
    shortest: int | None = None
    previous: Visit | None = None
    busy_until_ns = 0
    for visit in visits:
        if visit.url in robots:
            continue
        started_at_ns, ended_at_ns = visit.started_at_ns, visit.ended_at_ns
        if previous is not None:
            gap_ns = started_at_ns - busy_until_ns
            if gap_ns < 0:
                detail = f"{previous.url} went on for {-gap_ns / 1e9:.6f} s"
                charges.add(Offence.OVERLAP, started_at_ns, visit.url, detail)
            else:
                if shortest is None or gap_ns < shortest:
                    shortest = gap_ns
                while len(delays) > 1 and delays[1][0] <= started_at_ns:
                    delays = delays[1:]
                delay_seconds = delays[0][1]
                if gap_ns < delay_seconds * 1e9:
                    detail = f"{gap_ns / 1e9:.6f} s after {previous.url}, not {delay_seconds:g} s"
                    charges.add(Offence.TOO_SOON, started_at_ns, visit.url, detail)
        if visit.aborted:
            ended_at_ns = max(started_at_ns, ended_at_ns - lateness_ns)
        if previous is None or ended_at_ns >= busy_until_ns:
            previous, busy_until_ns = visit, ended_at_ns
    return shortest


def _judge_duplicates(visits: Visits, exempt: AbstractSet[str], charges: Charges) -> int:
    """Charges what was asked for again after a final answer, and says how many were asked for again before one."""
    retries = 0
    for url in visits.again.keys() - exempt:
        answered: Visit | None = None
        for place, visit in enumerate(visits.again[url]):
            if answered is not None:
                seconds = (visit.started_at_ns - answered.ended_at_ns) / 1e9
                charges.add(Offence.DUPLICATE, visit.started_at_ns, url, f"{answered.status} {seconds:.3f} s before")
            else:
                retries += place > 0
                answered = visit if visit.is_final else None
    return retries


def _judge_missing(expected: AbstractSet[str], visits: Visits, charges: Charges) -> None:
    for url in expected:
        if url not in visits.by_url:
            charges.add(Offence.NEVER_FETCHED, NEVER, url)


def _judge_cut_off(expected: AbstractSet[str], visits: Visits, known: KnownWeb, charges: Charges) -> None:
    for url in {visit.url for visit in visits.aborted if visit.url in expected}:
        # The rest of a file that is not HTML may be declined once its headers are there.
        if all(visit.aborted for visit in visits.of(url)) and known.answer(url).kind in PAGES:
            charges.add(Offence.CUT_OFF, visits.of(url)[0].started_at_ns, url)


def _judge_surplus(
    surplus: AbstractSet[str], visits: Visits, known: KnownWeb, charges: Charges
) -> tuple[set[str], int]:
    """Charges what was not to be requested; the disallowed ones, and how many were found only by way of them."""
    disallowed = {url for url in surplus if not known.is_allowed(url)}
    # A crawler that knows sitemaps asks for them, one that does not leaves them: neither is wrong.
    candidates = {url for url in surplus - disallowed if known.answer(url).kind is not Kind.SITEMAP}
    unexplained = set(candidates)
    to_follow = list(disallowed)
    while to_follow and unexplained:
        url = to_follow.pop()
        for target in _targets(url, known):
            if target in unexplained:
                unexplained.remove(target)
                to_follow.append(target)
    for offence, urls in ((Offence.DISALLOWED, disallowed), (Offence.NOT_REACHABLE, unexplained)):
        for url in urls:
            charges.add(offence, visits.of(url)[0].started_at_ns, url)
    return disallowed, len(candidates) - len(unexplained)


def _targets(url: str, known: KnownWeb) -> Iterator[str]:
    location = known.answer(url).location
    if location is not None:
        yield location
    for link in known.links(url):
        if link.target is not None:
            yield link.target
