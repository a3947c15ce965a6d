"""The simulated web's graph: closed, the same everywhere, and true to what canonicalising and robots.txt say."""

import hashlib
import os
import subprocess
import sys

import msgspec
import pytest

from gossamer.fetch import robots
from gossamer.testing.web.graph import Web
from gossamer.testing.web.policies import Policy, PolicyMix, everywhere
from gossamer.testing.web.sites import PAGES, SECTIONS, WORDS, Kind
from gossamer.url import Url, canonicalise

#: With several hosts, both schemes and enough of every kind, on sites small enough to be walked through.
SMALL = Web(
    seed=7,
    sites=12,
    pages=25,
    https_share=0.4,
    multi_host_share=0.5,
    private_share=0.1,
    busy_share=0.05,
    redirect_share=0.2,
    orphan_share=0.1,
)

GOLDEN = """
import hashlib
from gossamer.testing.web.graph import Web
from gossamer.testing.web.pages import Pages
web = Web(seed=3, sites=5, pages=12, https_share=0.5, multi_host_share=0.5)
digest = hashlib.sha256()
for index in range(web.sites):
    site = web.site(index)
    for host in site.hosts:
        digest.update(web.answer(f"http://{host}/robots.txt").text.encode())
    for number in range(site.resources):
        url = site.url(number)
        digest.update(f"{url} {web.answer(url)} {web.links(url)} {web.is_allowed(url)}".encode())
        for encoding in ("", "gzip", "br"):
            digest.update(Pages(web).page(site, number, {"accept-encoding": encoding})[1] if number < 3 else b"")
digest.update(repr(sorted(web.reachable(web.seeds(2)))).encode())
print(digest.hexdigest())
"""


def urls(web: Web) -> list[str]:
    return [site.url(number) for site in map(web.site, range(web.sites)) for number in range(site.resources)]


def test_the_same_seed_gives_the_same_bytes_in_any_process_under_any_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", GOLDEN]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        digests.add(ran.stdout.strip())
    assert len(digests) == 1


def test_the_graph_is_the_one_it_has_always_been() -> None:
    """Without the compressed bytes, which another release of a library may write differently."""
    web = Web(seed=3, sites=5, pages=12, https_share=0.5, multi_host_share=0.5)
    digest = hashlib.sha256()
    for url in urls(web):
        answer = web.answer(url)
        links = [(link.href, link.target) for link in web.links(url)]
        digest.update(f"{url} {answer.kind} {answer.status} {answer.location} {links} {web.is_allowed(url)}\n".encode())
    assert digest.hexdigest() == "e017b6bd7a53da0f9085fe6802d54e604bea33481c4c777c327f0185eae84baf"


def test_another_seed_gives_another_web() -> None:
    assert urls(SMALL) != urls(msgspec.structs.replace(SMALL, seed=8))


def test_every_resource_is_found_back_by_its_canonical_url() -> None:
    found = []
    for index in range(SMALL.sites):
        site = SMALL.site(index)
        for number in range(site.resources):
            url = site.url(number)
            answer = SMALL.answer(url)
            canonical = canonicalise(url)
            assert isinstance(canonical, Url)
            assert canonical.text == url
            assert canonical.site == site.name
            assert (answer.site, answer.number, answer.kind) == (index, number, site.kind(number))
            found.append(answer.kind)
    assert set(found) == {*PAGES, Kind.REDIRECT, Kind.MISSING, Kind.ERROR, Kind.FILE}


def test_every_link_leads_where_canonicalising_says() -> None:
    wrong, hrefs = [], []
    for url in urls(SMALL):
        base = canonicalise(url)
        assert isinstance(base, Url)
        for link in SMALL.links(url):
            found = canonicalise(link.href, base)
            hrefs.append(link.href)
            if (found.text if isinstance(found, Url) else None) != link.target:
                wrong.append((url, link, found))
    assert wrong == []
    for form in (
        "../",
        "./",
        "//s",
        "HTTP://S",
        ":80/",
        ":443/",
        "%2d",
        "%c3%a9",
        "é",
        " ",
        "#part",
        "mailto:",
        "?view",
    ):
        assert any(form in href for href in hrefs), form


def test_links_are_as_many_and_stay_at_home_as_often_as_asked() -> None:
    web = Web(sites=50, pages=200)
    links = [
        (canonicalise(link.target), index)
        for index in range(20)
        for link in web.links(web.site(index).url(5))
        if link.target is not None
    ]
    own = sum(isinstance(url, Url) and url.site == f"s{index}.test" for url, index in links)
    assert 80 < len(links) / 20 < 120
    assert 0.55 < own / len(links) < 0.7


@pytest.mark.parametrize("same_sites_only", [False, True])
@pytest.mark.parametrize("start", ["all", "first", "deep", "redirect", "orphan", "other scheme", "other host"])
def test_what_is_reachable_by_closed_form_is_what_a_search_finds(start: str, same_sites_only: bool) -> None:
    site = SMALL.site(4)
    numbers = {site.kind(number): number for number in range(site.resources)}
    elsewhere = next(n for s in map(SMALL.site, range(12)) for n in range(s.resources) if s.host(n) != s.name)
    hosts = [s for s in map(SMALL.site, range(12)) if s.host(elsewhere) != s.name]
    seeds = {
        "all": SMALL.seeds(),
        "first": SMALL.seeds(1),
        "deep": [site.url(numbers[Kind.PAGE])],
        "redirect": [site.url(numbers[Kind.REDIRECT])],
        "orphan": [site.url(numbers[Kind.ORPHAN])],
        "other scheme": [
            url.replace("https:", "x:").replace("http:", "https:").replace("x:", "http:") for url in SMALL.seeds(3)
        ],
        "other host": [hosts[0].url(elsewhere)],
    }[start]
    closed = SMALL.reachable(seeds, same_sites_only=same_sites_only)
    searched = SMALL.reachable(seeds, same_sites_only=same_sites_only, max_depth=1_000)
    assert closed == searched
    assert all(SMALL.is_allowed(url) for url in closed)


def test_from_one_seed_nearly_every_open_site_is_reached_and_no_orphan() -> None:
    web = Web(sites=200, pages=20, orphan_share=0.1)
    reached = web.reachable([web.home(next(i for i in range(200) if web.is_allowed(web.home(i))))])
    kinds = {web.answer(url).kind for url in reached}
    assert kinds == {*PAGES, Kind.REDIRECT, Kind.MISSING, Kind.ERROR, Kind.FILE} - {Kind.ORPHAN}
    sites = {web.answer(url).site for url in reached}
    assert sites == {index for index in range(200) if web.is_allowed(web.home(index))}


def test_depth_limits_and_files_left_out_make_the_set_smaller() -> None:
    web = Web(sites=3, pages=40, robots=everywhere(Policy.OPEN))
    depths = [web.reachable(web.seeds(1), max_depth=depth) for depth in range(4)]
    assert depths[0] == {web.home(0)}
    assert depths[0] < depths[1] < depths[2] <= depths[3]
    assert {link.target for link in web.links(web.home(0)) if link.target} <= depths[1]
    everything = web.reachable(web.seeds())
    pages = web.reachable(web.seeds(), files=False)
    assert {web.answer(url).kind for url in everything - pages} == {Kind.FILE}
    assert len(web.reachable(web.seeds(), limit=10)) == 10


def test_a_million_urls_are_known_without_a_crawl() -> None:
    web = Web(sites=1_000, pages=1_000)
    assert len(web.reachable(web.seeds(1))) > 900_000


def test_a_web_of_a_hundred_thousand_sites_answers_at_once() -> None:
    web = Web(sites=100_000, pages=1_000)
    for index in range(0, 100_000, 1_000):
        url = web.site(index).url(499)
        assert web.answer(url).number == 499
        assert len(web.links(url)) >= 50


@pytest.mark.parametrize("agent", ["Gossamer", "OtherBot"])
def test_what_robots_txt_says_is_what_the_graph_knows(agent: str) -> None:
    for policy in Policy:
        web = Web(sites=2, pages=20, robots=everywhere(policy), private_share=0.2, crawl_delay_seconds=3.5)
        answer = web.answer(web.home(0) + "robots.txt")
        hops = 0
        while answer.location is not None:
            answer = web.answer(answer.location)
            hops += 1
        assert answer.kind is Kind.ROBOTS
        assert hops == {Policy.MOVED: 1, Policy.MOVED_FAR: 5}.get(policy, 0)
        assert answer.status == {Policy.ABSENT: 404, Policy.FAILING: 503}.get(policy, 200)
        if answer.status != 200:
            assert web.is_allowed(web.home(0), agent) == (answer.status == 404)
            continue
        rules = robots.parse(answer.text.encode()).for_agent(agent)
        for number in range(web.site(0).resources):
            url = web.site(0).url(number)
            assert rules.verdict(url).allowed == web.is_allowed(url, agent), (policy, url)
        assert rules.crawl_delay == web.crawl_delay("s0.test") == (3.5 if policy is Policy.DELAY else None)
        if policy is Policy.HUGE:
            assert len(answer.text) > 600_000


def test_every_policy_has_its_weight_in_the_mix() -> None:
    assert set(PolicyMix.__struct_fields__) == set(Policy)
    web = Web(sites=400)
    assert {web.policy(web.site_name(index)) for index in range(400)} == set(Policy)


def test_a_busy_page_refuses_and_then_answers() -> None:
    site = SMALL.site(next(i for i in range(12) if any(SMALL.site(i).kind(n) is Kind.BUSY for n in range(40))))
    url = site.url(next(number for number in range(site.resources) if site.kind(number) is Kind.BUSY))
    first, second = SMALL.answer(url), SMALL.answer(url, attempt=1)
    assert first.status in {429, 503}
    assert first.retry_after_seconds == 1
    assert (second.status, second.is_page) == (200, True)


def test_latency_is_log_normal_and_the_same_each_time() -> None:
    web = Web(latency_median_seconds=0.2)
    values = sorted(web.latency_seconds(f"http://s1.test/{number}") for number in range(999))
    assert 0.18 < values[499] < 0.22
    assert 0.1 < values[150] / values[499] / 1.0 < 0.7
    assert web.latency_seconds("http://s1.test/5") == web.latency_seconds("http://s1.test/5")


def test_hosts_that_are_not_of_this_web_are_nowhere() -> None:
    for host in ("s12.test", "s00.test", "www.s99.test", "x.s1.test", "example.org", "", "s1.test.", "s-1.test"):
        assert SMALL.answer(f"http://{host}/").kind is Kind.NOWHERE, host
    assert not SMALL.is_known_site("h01.test")
    assert SMALL.is_known_site("s11.test")


@pytest.mark.parametrize("options", [{"sites": 0}, {"pages": 0}, {"own_share": 1.5}, {"links_per_page": 0}])
def test_a_web_that_cannot_be_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        msgspec.convert(options, Web)


def test_a_web_goes_through_json_and_comes_back_the_same() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SMALL), type=Web) == SMALL


def test_a_single_page_is_a_web_too() -> None:
    web = Web(
        sites=1, pages=1, robots=everywhere(Policy.OPEN), redirect_share=0, missing_share=0, error_share=0, file_share=0
    )
    assert web.reachable(web.seeds()) == {"http://s0.test/"}
    assert {link.target for link in web.links("http://s0.test/")} <= {"http://s0.test/", None}


def test_the_tables_that_bits_choose_from_are_full() -> None:
    assert (len(SECTIONS), len(WORDS), len(set(WORDS))) == (16, 64, 64)
