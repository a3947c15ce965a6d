"""Where a robots.txt may be redirected to, and how often; the network's edge is played."""

import asyncio
from collections.abc import Callable

import pytest

from gossamer.config import ScopeSettings, UrlSettings
from gossamer.fetch import robots_redirects
from gossamer.fetch.client import Client, Failure
from gossamer.fetch.meter import FetchType
from gossamer.fetch.robots import Access
from gossamer.fetch.robots_redirects import RobotsRedirects
from gossamer.fetch.robots_request import Heard, RobotsLimits, request_robots
from gossamer.fetch.server_addresses import ServerAddresses
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.store_clock import StoreClock
from gossamer.records import Answer, PhaseTimes, Reason
from gossamer.url import Url, canonicalise
from tests.contract.played_clock import PlayedClock

RULES = b"User-agent: *\nDisallow: /closed\n"
ADDRESSES = {"shared1.test": "198.51.100.1", "shared2.test": "198.51.100.2"}


class Web(Client):
    """Every robots.txt is at its target, every target says the same."""

    def __init__(self, **targets: str) -> None:
        self.asked: list[str] = []
        self.ends_at: set[float | None] = set()
        self._targets = {f"http://{host}.test/robots.txt": target for host, target in targets.items()}

    async def get(
        self,
        url: Url,
        *,
        max_body_bytes: int,  # noqa: ARG002
        media_types: frozenset[str] | None = None,  # noqa: ARG002
        fetch_type: FetchType = "page",  # noqa: ARG002
        ends_at: float | None = None,
        may_connect: Callable[[str], bool] | None = None,
    ) -> Answer | Failure:
        self.ends_at.add(ends_at)
        if may_connect is not None and not may_connect(ADDRESSES.get(url.host, "192.0.2.1")):
            return Failure(Reason.SERVER_ADDRESS, "not its turn", "", PhaseTimes(), was_sent=False)
        self.asked.append(url.text)
        target = self._targets.get(url.text)
        status, headers = (200, ()) if target is None else (302, ((b"location", target.encode()),))
        return Answer(url.text, 0.0, b"", b"", status, headers, RULES if target is None else b"")


class Fetcher:
    """What the workers of one fetcher share."""

    def __init__(self, web: Web, *excluded: str, gap: float = 0.0, pattern: str = "") -> None:
        self.web = web
        self.rules = AdmissionRules(
            ScopeSettings(exclude=(pattern,) if pattern else ()), Exclusions(frozenset(excluded))
        )
        self.addresses = ServerAddresses(gap_seconds=gap, concurrency=1 if gap else 0, share=1.0)
        clock = StoreClock()
        clock.sample(0.0, asked_at=0.0, answered_at=0.0)
        self.redirects = RobotsRedirects(self.rules, self.addresses, clock)

    def ask(self, host: str, settings: UrlSettings | None = None) -> Heard:
        settings = settings or UrlSettings()
        url = canonicalise(f"http://{host}.test/page", None, settings)
        assert isinstance(url, Url)
        limits = RobotsLimits(ends_at=17.0, redirects=self.redirects, settings=settings)
        heard = asyncio.run(request_robots(self.web, url, [], limits))
        assert isinstance(heard, Heard)
        return heard


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PlayedClock:
    played = PlayedClock()
    monkeypatch.setattr(robots_redirects, "time", played)
    return played


def test_a_redirect_to_an_excluded_site_is_not_followed_and_counts_as_unreachable() -> None:
    fetcher = Fetcher(Web(a="http://www.victim.test/search?q=1"), "victim.test")
    heard = fetcher.ask("a")
    assert (heard.access, heard.detail) == (
        Access.DISALLOW_ALL,
        "it is redirected to www.victim.test, which is excluded",
    )
    assert fetcher.web.asked == ["http://a.test/robots.txt"]


def test_a_redirect_to_what_a_pattern_excludes_is_not_followed() -> None:
    fetcher = Fetcher(Web(a="http://victim.test/search?q=1", b="http://victim.test/robots.txt"), pattern="/search")
    assert (fetcher.ask("a").access, fetcher.ask("b").access) == (Access.DISALLOW_ALL, Access.PARSE)


def test_one_target_site_is_asked_once_a_second_however_many_are_redirected_to_it(clock: PlayedClock) -> None:
    web = Web(**{f"a{number}": f"http://h{number}.victim.test/{number}" for number in range(4)})
    fetcher = Fetcher(web)
    assert [fetcher.ask(f"a{number}").access for number in range(3)] == [
        Access.PARSE,
        Access.DISALLOW_ALL,
        Access.DISALLOW_ALL,
    ]
    assert "victim.test" in fetcher.ask("a3").detail
    clock.advance(robots_redirects.GAP_SECONDS)
    assert fetcher.ask("a3").access is Access.PARSE
    assert [url for url in web.asked if "victim" in url] == ["http://h0.victim.test/0", "http://h3.victim.test/3"]


@pytest.mark.usefixtures("clock")
def test_redirects_within_the_site_are_followed_without_a_limit() -> None:
    web = Web(**{"a": "http://www.a.test/robots.txt", "www.a": "http://x.a.test/r"})
    fetcher = Fetcher(web, "other.test")
    assert [fetcher.ask("a").access for _ in range(3)] == [Access.PARSE] * 3
    # Where each host is a site of its own, these are other sites.
    assert fetcher.ask("a", UrlSettings(site_key="host")).access is Access.PARSE
    assert fetcher.ask("a", UrlSettings(site_key="host")).access is Access.DISALLOW_ALL


def test_a_redirect_needs_a_turn_at_its_targets_server_and_has_a_time_at_the_next_try() -> None:
    fetcher = Fetcher(Web(a="http://shared1.test/", b="http://shared2.test/"), gap=60.0)
    assert fetcher.ask("a").access is Access.PARSE
    heard = fetcher.ask("b")
    assert (heard.access, heard.detail) == (Access.DISALLOW_ALL, "server-address: not its turn")
    assert [network.visits for network in fetcher.addresses._networks.values()] == [0], "it was given back"
    (reserved,) = fetcher.addresses._reservations
    assert reserved == "robots of b.test"


def test_all_requests_of_a_visit_end_with_it() -> None:
    fetcher = Fetcher(Web(a="http://b.test/robots.txt", b="http://c.test/"))
    fetcher.ask("a")
    assert (len(fetcher.web.asked), fetcher.web.ends_at) == (3, {17.0})


def test_remembered_targets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_redirects, "_SITES_KEPT", 3)
    fetcher = Fetcher(Web(**{f"a{number}": f"http://v{number}.test/" for number in range(9)}))
    for number in range(9):
        fetcher.ask(f"a{number}")
    assert list(fetcher.redirects._next_at) == ["v6.test", "v7.test", "v8.test"]
