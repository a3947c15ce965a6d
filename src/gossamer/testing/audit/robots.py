"""robots.txt in an audit: asked for before the first page of an origin, and then not again for a day."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from gossamer.fetch.robots import REDIRECT_LIMIT, Access, access_for, parse
from gossamer.testing.audit.report import Charges, Offence
from gossamer.testing.audit.rules import KnownWeb, Rules
from gossamer.testing.audit.visits import Visit, Visits
from gossamer.testing.web.policies import OUR_AGENT


class RobotsVisits:
    """The requests for the robots.txt files of every origin that was visited, and for what they redirect to.

    `audit` makes one per log; the requests in it are exempt from all rules but those here, and from no rule here.
    """

    def __init__(self, visits: Visits, sites: AbstractSet[str], known: KnownWeb) -> None:
        """`sites` are those to be judged."""
        self._visits = visits
        self._sites = sites
        self._chains: dict[str, list[str]] = {}
        self._delays: dict[str, float] = {}
        """The Crawl-delay of each origin that has one."""
        self.owners: dict[str, set[str]] = {}
        """Whose rules a URL holds. With redirects that can be several origins', and each may ask for it."""
        for site in sites:
            for origin in visits.origins[site]:
                self._chains[origin], text = _chain(origin, known)
                if "crawl-delay" in text.lower():
                    self._delays[origin] = parse(text.encode()).for_agent(OUR_AGENT).crawl_delay or 0.0
                for url in self._chains[origin]:
                    self.owners.setdefault(url, set()).add(origin)

    @property
    def count(self) -> int:
        return sum(len(self._visits.of(url)) for url in self.owners)

    def delays(self, site: str, rules: Rules) -> list[tuple[int, float]]:
        """The delays of a site as they grow: from when on, and the seconds.

        A Crawl-delay counts from the moment at which the crawler has it, for the very next request too.
        """
        growing = [(0, rules.delay_seconds)]
        learnt = []
        for origin in self._visits.origins[site] & self._delays.keys():
            answers = [visit.ended_at_ns for visit in self._visits.of(self._chains[origin][-1]) if _is_usable(visit)]
            if answers:
                learnt.append((min(answers), self._delays[origin]))
        for from_ns, delay in sorted(learnt):
            if delay > growing[-1][1]:
                growing.append((from_ns, delay))
        return growing

    def judge_order(self, disallowed: AbstractSet[str], charges: Charges) -> None:
        """Every hop to an origin's rules must have had a usable answer before the first page of the origin.

        Pages that no rules could have allowed are charged as such, and not again here.
        """
        for site in self._sites:
            for page in self._first_pages(site, disallowed):
                for url in self._chains[page.origin]:
                    answers = [visit for visit in self._visits.of(url) if visit.ended_at_ns <= page.started_at_ns]
                    if not any(map(_is_usable, answers)):
                        detail = f"{url}: {'no usable answer' if answers else 'no answer'} before"
                        charges.add(Offence.ROBOTS_NOT_FIRST, page.started_at_ns, page.url, detail)
                        break

    def _first_pages(self, site: str, disallowed: AbstractSet[str]) -> Iterator[Visit]:
        awaited = set(self._visits.origins[site])
        for visit in self._visits.by_site[site]:
            if not awaited:
                return
            if visit.origin in awaited and visit.url not in self.owners and visit.url not in disallowed:
                awaited.remove(visit.origin)
                yield visit

    def place(self, origin: str, url: str) -> int:
        """Where this URL stands in the redirects to an origin's rules; -1 if it is not among them."""
        chain = self._chains.get(origin, [])
        return chain.index(url) if url in chain else -1

    def judge_frequency(self, rules: Rules, charges: Charges) -> None:
        interval_ns = round(rules.robots_interval_seconds * 1e9)
        for url in self.owners:
            visits = self._visits.of(url)
            usable = [visit for visit in visits if _is_usable(visit)]
            failed = [visit for visit in visits if not _is_usable(visit)]
            times = len(self.owners[url]) * (1 + rules.restarts)
            for series, allowed in ((usable, times), (failed, times * rules.robots_failures)):
                for earlier, visit in zip(series, series[allowed:], strict=False):
                    elapsed_ns = visit.started_at_ns - earlier.started_at_ns
                    if elapsed_ns < interval_ns:
                        detail = f"{allowed + 1} times in {elapsed_ns / 1e9:.3f} s, the last with status {visit.status}"
                        charges.add(Offence.ROBOTS_TOO_OFTEN, visit.started_at_ns, url, detail)


def _is_usable(visit: Visit) -> bool:
    """Whether the answer says what to do next, be it to follow a redirect."""
    return not visit.aborted and access_for(visit.status) not in {Access.BACK_OFF, Access.DISALLOW_ALL}


def _chain(origin: str, known: KnownWeb) -> tuple[list[str], str]:
    """The requests that it takes to learn an origin's rules, and the text in which they stand."""
    chain = [f"{origin}/robots.txt"]
    while True:
        answer = known.answer(chain[-1])
        if answer.location is None or answer.location in chain or len(chain) > REDIRECT_LIMIT:
            return chain, answer.text
        chain.append(answer.location)
