"""An honest client and dishonest ones crawl the real server, and the auditor tells them apart by its log alone."""

import asyncio
import contextlib
import json
import ssl
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from gossamer.cli import audit as audit_command
from gossamer.cli.arguments import Parser
from gossamer.config import ParseSettings
from gossamer.fetch import robots
from gossamer.fetch.robots_rules import Rules as RobotsRules
from gossamer.parse.page import read_page
from gossamer.testing.audit.auditor import audit
from gossamer.testing.audit.report import Audit, Offence
from gossamer.testing.audit.rules import Rules
from gossamer.testing.web.access_log import Request, read
from gossamer.testing.web.channel import Channel, Head
from gossamer.testing.web.graph import Web
from gossamer.testing.web.policies import Policy, PolicyMix
from gossamer.testing.web.processes import WebProcesses
from gossamer.testing.web.server import SimulatedWeb
from gossamer.testing.web.sites import Kind
from gossamer.url import Url, canonicalise

DELAY_SECONDS = 0.05
#: What a client that does not wait is told to keep: no machine is so slow that all of its gaps are as long.
LONG_DELAY_SECONDS = 10.0
AGENT = "Gossamer/0.1.0 (+mailto:someone@example.org)"
#: Every one of them a home page's, so that each decides over a whole site.
WANTED_POLICIES = {Policy.PARTS, Policy.DELAY, Policy.MOVED_FAR, Policy.FAILING, Policy.ABSENT}


@cache
def small_web() -> Web:
    """Six sites of some ten URLs each, with all that can make a difference to an auditor."""
    webs = (
        Web(
            seed=seed,
            sites=6,
            pages=8,
            links_per_page=8,
            neighbours=3,
            https_share=0.3,
            multi_host_share=0.4,
            private_share=0.25,
            busy_share=0.1,
            redirect_share=0.15,
            missing_share=0.1,
            error_share=0.1,
            file_share=0.1,
            robots=PolicyMix(open=2, parts=4, only_us=1, delay=2, huge=0, moved=1, moved_far=2, forbidden=1, failing=2),
            crawl_delay_seconds=2 * DELAY_SECONDS,
            median_bytes=3_000,
            size_sigma=0.5,
        )
        for seed in range(10_000)
    )
    return next(
        web
        for web in webs
        if {web.policy(web.site_name(index)) for index in range(web.sites)} >= WANTED_POLICIES
        and {web.site(index).scheme for index in range(web.sites)} == {"http", "https"}
        and len(web.reachable(web.seeds())) > 40
    )


class HoldingWeb(SimulatedWeb):
    """Holds answers back as a client of a test wants it, so that nothing depends on who is faster."""

    def __init__(self, web: Web, directory: Path) -> None:
        super().__init__(web, log_directory=directory)
        self.wants_together: dict[str, set[str]] = {}
        """By URL: those with which it is asked for. None of them is answered before all have come."""
        self.never_answered: set[str] = set()
        self.cut_off = asyncio.Event()
        """A client was seen to have left before its answer."""
        self._held: dict[str, tuple[Channel, Head]] = {}

    def answer(self, channel: Channel, head: Head) -> None:
        url = f"{channel.scheme}://{head.host}{head.target}"
        if url in self.never_answered:
            return
        self._held[url] = (channel, head)
        together = self.wants_together.get(url, {url})
        if together <= self._held.keys():
            for member in together:
                super().answer(*self._held.pop(member))

    def log(self, request: Request) -> None:
        super().log(request)
        if request.aborted:
            self.cut_off.set()


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class HonestClient:
    """A crawler in a hundred lines: round by round, all sites side by side, one request at a time to each."""

    delay_seconds = DELAY_SECONDS
    told_seconds = DELAY_SECONDS
    """The delay that it is judged by."""
    obeys_robots = True
    at_once = 1

    def __init__(self, web: SimulatedWeb | WebProcesses) -> None:
        self.web = web
        self.ports = {"http": web.http_port, "https": web.https_port}
        self.tls = ssl.create_default_context(cafile=str(web.ca_certificate))
        self.rules: dict[str, RobotsRules | None] = {}
        """By origin; None where nothing may be fetched."""
        self.delays: dict[str, float] = {}
        self.ended_at: dict[str, float] = {}
        self.attempts: Counter[str] = Counter()

    async def crawl(self, seeds: Iterable[str]) -> None:
        seen: set[str] = set()
        waiting = [canonicalise(seed) for seed in seeds]
        while waiting:
            by_site: dict[str, list[Url]] = {}
            for url in waiting:
                if isinstance(url, Url) and self.wants(url) and url.text not in seen:
                    seen.add(url.text)
                    by_site.setdefault(url.site, []).append(url)
            found = await asyncio.gather(*map(self.visit_site, by_site.values()))
            waiting = [url for urls in found for url in urls]

    def wants(self, url: Url) -> bool:  # noqa: ARG002 (others are choosy)
        return True

    async def visit_site(self, urls: list[Url]) -> list[Url]:
        found: list[Url] = []
        left = list(urls)
        while left := [url for url in left if await self.is_allowed(url)]:
            batch, left = left[: self.at_once], left[self.at_once :]
            await self.wait(batch[0].site)
            responses = await self.fetch(*batch)
            self.ended_at[batch[0].site] = time.monotonic()
            for url, response in zip(batch, responses, strict=True):
                if response is None or response.status in {429, 503}:
                    left.append(url)
                else:
                    found += self.links(url, response)
        return found

    async def is_allowed(self, url: Url) -> bool:
        if url.origin not in self.rules:
            self.rules[url.origin] = await self.robots_of(url)
        rules = self.rules[url.origin]
        if not self.obeys_robots:
            return True
        return rules is not None and rules.verdict(url.text).allowed

    async def robots_of(self, url: Url) -> RobotsRules | None:
        """A visit of its own: the delay comes before it, and before the next one."""
        await self.wait_for_robots(url.site)
        rules = await self.rules_of(url)
        self.ended_at[url.site] = time.monotonic()
        return rules

    async def wait_for_robots(self, site: str) -> None:
        await self.wait(site)

    async def rules_of(self, url: Url) -> RobotsRules | None:
        place = canonicalise("/robots.txt", url)
        redirects = 0
        while True:
            assert isinstance(place, Url)
            (response,) = await self.fetch(place)
            assert response is not None
            access = robots.access_for(response.status, redirects_followed=redirects)
            if access is not robots.Access.FOLLOW:
                break
            place = canonicalise(response.headers["location"], place)
            redirects += 1
        if access not in {robots.Access.PARSE, robots.Access.ALLOW_ALL}:
            return None
        rules = robots.parse(response.body if access is robots.Access.PARSE else b"").for_agent(AGENT)
        self.delays[url.site] = max(self.delays.get(url.site, 0), rules.crawl_delay or 0)
        return rules

    async def wait(self, site: str) -> None:
        if self.delay_seconds and site in self.ended_at:
            due = self.ended_at[site] + max(self.delay_seconds, self.delays.get(site, 0))
            # A timer may fire a moment early, but not that early.
            await asyncio.sleep(max(0.0, due - time.monotonic()) + 0.001)

    def links(self, url: Url, response: Response) -> list[Url]:
        references = [response.headers["location"]] if "location" in response.headers else []
        base = url
        if response.status == 200 and response.headers["content-type"].startswith("text/html"):
            page = read_page(response.body, url, ParseSettings(), content_type=response.headers["content-type"])
            references = [link.href for link in page.facts.links]
            base = page.facts.base
        found = (canonicalise(reference, base) for reference in references)
        return [target for target in found if isinstance(target, Url)]

    async def fetch(self, *urls: Url) -> list[Response | None]:
        connections = await asyncio.gather(*map(self.connect, urls))
        try:
            for url, (_, writer) in zip(urls, connections, strict=True):
                self.attempts[url.text] += 1
                path = url.text[len(url.origin) :]
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {url.host}\r\nUser-Agent: {AGENT}\r\n\r\n".encode())
            readers = [reader for reader, _ in connections]
            return await asyncio.gather(*map(self.response, urls, readers))
        finally:
            for _, writer in connections:
                # At once: an orderly end would wait for the server's, and over TLS would not count as leaving.
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def connect(self, url: Url) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls, name = (self.tls, url.host) if url.scheme == "https" else (None, None)
        return await asyncio.open_connection("127.0.0.1", self.ports[url.scheme], ssl=tls, server_hostname=name)

    async def response(self, url: Url, reader: asyncio.StreamReader) -> Response | None:  # noqa: ARG002
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers["content-length"]))
        return Response(int(lines[0].split()[1]), headers, body)


class TooFast(HonestClient):
    """Too fast in all: also the first page of one origin comes at once after the robots.txt of another."""

    delay_seconds = 0.0
    told_seconds = LONG_DELAY_SECONDS


class AsksForRobotsTooFast(HonestClient):
    """Of all origins of a site at once."""

    async def wait_for_robots(self, site: str) -> None:
        pass


class TwoAtOnce(HonestClient):
    at_once = 2

    async def fetch(self, *urls: Url) -> list[Response | None]:
        assert isinstance(self.web, HoldingWeb)
        together = {url.text for url in urls}
        self.web.wants_together.update(dict.fromkeys(together, together))
        return await super().fetch(*urls)


class IgnoresRobots(HonestClient):
    obeys_robots = False


class SkipsAPage(HonestClient):
    def wants(self, url: Url) -> bool:
        return url.text != leaf()


class FetchesTwice(HonestClient):
    async def visit_site(self, urls: list[Url]) -> list[Url]:
        return await super().visit_site([*urls, *(url for url in urls if url.text == leaf())])


class LosesAConnection(HonestClient):
    """Leaves in the middle of its first request for a page, and asks again as a crawler may."""

    async def fetch(self, *urls: Url) -> list[Response | None]:
        assert isinstance(self.web, HoldingWeb)
        is_left = urls[0].text == leaf() and not self.attempts[leaf()]
        if is_left:
            self.web.never_answered.add(leaf())
        responses = await super().fetch(*urls)
        if is_left:
            # The pause before the next request counts from here, also for the server.
            await self.web.cut_off.wait()
            self.web.never_answered.clear()
        return responses

    async def response(self, url: Url, reader: asyncio.StreamReader) -> Response | None:
        if url.text == leaf() and self.attempts[url.text] == 1:
            return None
        return await super().response(url, reader)


@cache
def leaf() -> str:
    """A page on which nothing else depends: without it all others are found as well."""
    web = small_web()
    reachable = web.reachable(web.seeds())
    pages = (url for url in sorted(reachable) if web.answer(url).kind is Kind.PAGE)
    return next(page for page in pages if reachable - {page} <= found_without(page))


def found_without(left_out: str) -> set[str]:
    web = small_web()
    found: set[str] = set()
    waiting = web.seeds()
    while waiting:
        url = waiting.pop()
        if url not in found and url != left_out and web.is_allowed(url):
            found.add(url)
            targets = [web.answer(url).location, *(link.target for link in web.links(url))]
            waiting += [target for target in targets if target is not None]
    return found


def crawled(client: type[HonestClient], directory: Path) -> Audit:
    web = small_web()

    async def run() -> None:
        async with HoldingWeb(web, directory) as simulated:
            await client(simulated).crawl(web.seeds())

    asyncio.run(run())
    rules = Rules(seeds=web.seeds(), delay_seconds=client.told_seconds)
    return audit(read(sorted(directory.glob("access-*.log"))), web, rules)


def test_the_honest_client_is_cleared(tmp_path: Path) -> None:
    found = crawled(HonestClient, tmp_path)
    assert found.is_clean, str(found)
    facts = found.counts
    assert facts.urls_requested == facts.urls_expected == facts.urls_expected_requested > 40
    assert facts.robots_requests > facts.origins > 5
    assert facts.retries > 0
    assert facts.shortest_gap_seconds is not None
    assert facts.shortest_gap_seconds >= DELAY_SECONDS


@pytest.mark.parametrize(
    ("client", "offences"),
    [
        (TooFast, {Offence.TOO_SOON, Offence.ROBOTS_TOO_SOON}),
        (AsksForRobotsTooFast, {Offence.ROBOTS_TOO_SOON}),
        (TwoAtOnce, {Offence.OVERLAP}),
        (IgnoresRobots, {Offence.DISALLOWED}),
        (SkipsAPage, {Offence.NEVER_FETCHED}),
        (FetchesTwice, {Offence.DUPLICATE}),
    ],
)
def test_each_dishonest_client_is_convicted_of_what_it_did_and_of_nothing_else(
    client: type[HonestClient], offences: set[Offence], tmp_path: Path
) -> None:
    found = crawled(client, tmp_path)
    assert found.offences == offences, str(found)
    if offences < {Offence.NEVER_FETCHED, Offence.DUPLICATE}:
        assert [(finding.count, finding.examples[0].url) for finding in found.findings] == [(1, leaf())]


def test_a_request_that_was_cut_off_and_sent_again_is_no_offence(tmp_path: Path) -> None:
    found = crawled(LosesAConnection, tmp_path)
    assert found.is_clean, str(found)
    assert found.counts.cut_off == 1


def test_the_command_needs_no_more_than_the_log_directory_of_several_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = small_web()
    with WebProcesses(web, log_directory=tmp_path, processes=2) as running:
        # Two processes each refuse a busy page once, so a busy page may be asked for up to three times.
        asyncio.run(HonestClient(running).crawl(web.seeds()))
    assert all(file.stat().st_size for file in running.log_files)
    parser = Parser("gossamer audit", "")
    audit_command.add_arguments(parser)
    code = audit_command.run(parser.read([str(tmp_path), "--delay", str(DELAY_SECONDS), "--json"]))
    shown = json.loads(capsys.readouterr().out)
    assert (code, shown["verdict"]) == (0, "clean"), shown
    assert audit_command.run(parser.read([str(tmp_path), "--delay", "60"])) == 1
    assert capsys.readouterr().out.endswith("verdict       convicted of: too-soon, robots-too-soon\n")
