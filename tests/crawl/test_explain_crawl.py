"""What `gossamer explain` says of a crawl while it runs, when it was stopped, and at its end; the web knows better."""

import contextlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.cli.main import command_module, command_parser
from gossamer.errors import StoreUnavailable, UsageError
from gossamer.records import Reason
from gossamer.testing.web.graph import Web
from gossamer.testing.web.policies import Policy, PolicyMix
from gossamer.testing.web.sites import Kind
from tests.crawl.conftest import Crawls, crawls_of, stopped
from tests.crawl.test_deaths import children

Explain = Callable[..., dict[str, Any]]

#: As few processes as can be: what is asked about does not depend on it.
FEW = ("--num-fetcher-processes=1", "--num-parser-processes=1")
#: Longer than a busy machine takes to start a crawl.
PATIENCE_SECONDS = 100.0
#: Longer than the web or a parser is stopped for, so that no request fails by it.
LONG_TIMEOUTS = tuple(f"--{what}-timeout=300" for what in ("connect", "tls", "header", "fetch"))
CRAWL_DELAY_SECONDS = 300.0


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Explain:
    def ask(crawls: Crawls, url: str, *, command: str = "explain") -> dict[str, Any]:
        arguments = command_parser(command).read([str(crawls.data), url, "--json"])
        assert command_module(command).run(arguments) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return ask


def site_with(web: Web, policy: Policy) -> int:
    return next(index for index in range(web.sites) if web.policy(web.site_name(index)) is policy)


def parsers_of(crawls: Crawls) -> list[int]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := children(crawls, "parser")):
        assert time.monotonic() < deadline, "there is never a parser"
        time.sleep(0.05)
    return found


def until(explain: Explain, crawls: Crawls, process: subprocess.Popen[str], url: str, *verdicts: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: dict[str, Any] = {}
    while found.get("verdict") not in verdicts:
        assert process.poll() is None, "the crawl ended before"
        assert time.monotonic() < deadline, f"{url} is never {verdicts}"
        time.sleep(0.1)
        with contextlib.suppress(UsageError, StoreUnavailable):  # there is no crawl yet, or no frontier
            found = explain(crawls, url)
    return found


@pytest.mark.timeout(400)
def test_a_crawl_is_explained_while_it_runs_when_it_was_stopped_and_after_an_exclusion(
    tmp_path: Path, store: str, explain: Explain
) -> None:
    web = Web(
        sites=24,
        pages=60,
        links_per_page=10,
        median_bytes=2_000,
        multi_host_share=0.0,
        robots=PolicyMix(1, 1, 0, 1, 0, 0, 0, 0, 1, 1),
        crawl_delay_seconds=CRAWL_DELAY_SECONDS,
    )
    sites = {policy: site_with(web, policy) for policy in (Policy.OPEN, Policy.DELAY, Policy.FORBIDDEN, Policy.FAILING)}
    seeds = {policy: web.home(index) for policy, index in sites.items()}
    inner = web.site(sites[Policy.DELAY]).url(1)  # its home page links to it
    elsewhere = web.home(next(index for index in range(web.sites) if index not in sites.values()))
    trap = f"{seeds[Policy.OPEN]}{'a/b/' * 4}"
    with crawls_of(web, tmp_path, store) as crawls:
        # While the web stands still, what is asked for stays leased; while the parser does, it stays spooled.
        with contextlib.ExitStack() as unparsed:
            with stopped(crawls.web.pids):
                running = crawls.start(
                    *("--scope=seeds", "--backoff=600", "--commit-interval=1", *LONG_TIMEOUTS, *FEW),
                    seeds=list(seeds.values()),
                    delay=2.5,
                )
                leased = until(explain, crawls, running, seeds[Policy.DELAY], "leased")
                assert leased["is_running"]
                assert leased["site"]["owner"] in leased["summary"]
                unparsed.enter_context(stopped(parsers_of(crawls)))
            until(explain, crawls, running, seeds[Policy.DELAY], "spooled")
        # Its links are admitted when its home page is parsed, and then wait for the Crawl-delay.
        waiting = until(explain, crawls, running, inner, "queued")
        assert CRAWL_DELAY_SECONDS / 2 < waiting["site"]["wait_seconds"] <= CRAWL_DELAY_SECONDS
        assert waiting["site"]["gap_seconds"] == CRAWL_DELAY_SECONDS
        assert waiting["robots"]["access"] == "allowed"
        assert waiting["via"] == seeds[Policy.DELAY]
        linked = web.site(sites[Policy.OPEN]).url(1)
        until(explain, crawls, running, linked, "queued", "leased", "spooled", "fetched")
        until(explain, crawls, running, seeds[Policy.FAILING], "backing-off")
        for policy, verdict in {Policy.OPEN: "fetched", Policy.DELAY: "fetched", Policy.FORBIDDEN: "refused"}.items():
            until(explain, crawls, running, seeds[policy], verdict)
        assert (explain(crawls, elsewhere)["verdict"], explain(crawls, elsewhere)["refusal"]["reason"]) == (
            "refused",
            "scope",
        )
        assert explain(crawls, trap)["refusal"]["reason"] == "path-repeats"
        assert explain(crawls, f"{seeds[Policy.OPEN]}never-linked")["verdict"] == "unseen"
        crawls.interrupt(running)

        for policy, verdict in {Policy.OPEN: "fetched", Policy.DELAY: "fetched", Policy.FORBIDDEN: "refused"}.items():
            assert explain(crawls, seeds[policy])["verdict"] == verdict
        refused = explain(crawls, seeds[Policy.FORBIDDEN])
        assert refused["refusal"]["reason"] == "robots"
        assert "line 2: Disallow: /" in refused["summary"]
        page = explain(crawls, seeds[Policy.OPEN])
        assert page["summary"].endswith(page["place"]["file"])
        shown = explain(crawls, seeds[Policy.OPEN], command="show")
        assert shown["archived"]["status_line"].startswith("HTTP/1.1 200")
        assert shown["archived"]["request"].startswith("GET / HTTP/1.1\r\n")
        assert shown["page"]["url"] == seeds[Policy.OPEN]
        spelling = f"{seeds[Policy.OPEN]}#top"
        assert explain(crawls, spelling)["verdict"] == "duplicate"
        held = explain(crawls, seeds[Policy.FAILING])
        assert held["verdict"] == "backing-off"
        assert held["robots"]["access"] == "unreachable"
        assert held["summary"].endswith("the crawl is not running")

        asked = {f"{request.scheme}://{request.host}{request.path}" for request in crawls.requests()}
        site = web.site(sites[Policy.OPEN])
        unasked = [url for url in map(site.url, range(1, site.open_pages)) if url not in asked]
        left = next(url for url in unasked if explain(crawls, url)["verdict"] == "queued")
        excluded = tmp_path / "excluded"
        excluded.write_text(f"{seeds[Policy.OPEN]}\n", "utf-8")
        running = crawls.start_again(f"--exclude-file={excluded}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while explain(crawls, left)["state"] != "finished":
            assert time.monotonic() < deadline, f"{left} is never finished"
            time.sleep(0.1)
        crawls.interrupt(running)
        later = explain(crawls, left)
        assert (later["verdict"], later["refusal"]["reason"]) == ("excluded-later", "excluded")
        assert later["state"] == "finished"
        assert later["attempts"][-1]["outcome"] == "dropped"
        assert left not in {f"{request.scheme}://{request.host}{request.path}" for request in crawls.requests()}


#: Of the simulated web, by what stands at a URL that a crawl must ask for.
VERDICTS = {
    Kind.PAGE: "fetched",
    Kind.PRIVATE: "fetched",
    Kind.BUSY: "fetched",
    Kind.REDIRECT: "redirected",
    Kind.MISSING: "failed",
    Kind.ERROR: "failed",
}
#: Of each kind; each question takes a tenth of a second.
EXAMPLES = 2


def test_at_its_end_a_crawl_is_explained_as_its_web_is(tmp_path: Path, store: str, explain: Explain) -> None:
    web = Web(
        sites=6,
        pages=24,
        links_per_page=20,
        median_bytes=2_000,
        multi_host_share=0.0,
        redirect_share=0.1,
        private_share=0.1,
        busy_share=0.03,
        error_share=0.03,
        orphan_share=0.1,
        robots=PolicyMix(1, 2, 0, 0, 0, 0, 0, 1, 0, 0),
    )
    with crawls_of(web, tmp_path, store) as crawls:
        crawls.crawl("--backoff=0.05", *FEW)
        reachable = sorted(web.reachable(web.seeds(), files=False))
        asked: Counter[Kind] = Counter()
        for url in reachable:
            kind = web.answer(url).kind
            if asked[kind] == EXAMPLES:
                continue
            asked[kind] += 1
            found = explain(crawls, url)
            assert (url, found["verdict"], found["state"]) == (url, VERDICTS[kind], "finished")
            assert found["robots"]["access"] == "allowed"
            leases = [row for row in found["attempts"] if row["kind"] == "url"]
            # Its origin may have been held because another of its pages was busy.
            requests = [row for row in leases if row["failure_kind"] != Reason.ORIGIN_HELD]
            assert len(requests) == {Kind.BUSY: 2, Kind.ERROR: 3}.get(kind, 1)
        assert set(asked) == set(VERDICTS)
        site = next(site for site in map(web.site, range(web.sites)) if web.policy(site.name) is Policy.PARTS)
        for number, verdict, reason in (
            (next(number for number in range(site.linked) if site.kind(number) is Kind.PRIVATE), "refused", "robots"),
            (next(number for number in range(site.linked) if site.kind(number) is Kind.FILE), "refused", "extension"),
        ):
            found = explain(crawls, site.url(number))
            assert (found["verdict"], found["refusal"]["reason"]) == (verdict, reason)
        orphan = next(number for number in range(site.ends[-1]) if site.kind(number) is Kind.ORPHAN)
        assert explain(crawls, site.url(orphan))["verdict"] == "unseen"
        assert explain(crawls, f"{site.scheme}://{site.name}/robots.txt")["verdict"] == "robots-file"
