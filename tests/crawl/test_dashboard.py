"""The dashboard of a real crawl in a real browser, judged by what the web server sees."""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from gossamer.cli.main import main
from gossamer.testing.browser import Browser, Page, find_chromium
from gossamer.testing.server_binaries import ServerUnavailable
from gossamer.testing.web.graph import Web
from gossamer.testing.web.policies import Policy
from tests.crawl.conftest import Crawls, crawls_of

pytestmark = [pytest.mark.timeout(600), pytest.mark.embedded("the dashboard does not know which store there is")]

#: Twenty pages a second, of so many that the crawl is never over before the test has seen it, on a busy machine either.
WEB = Web(sites=20, pages=200, links_per_page=30, median_bytes=4_000, https_share=0.3)
DELAY_SECONDS = 1.0
#: In which every site would be due again.
QUIET_SECONDS = 2 * DELAY_SECONDS + 1
BLOCKED = "s3.test"
#: All sites but the blocked one and two more: a crawl without these is over soon.
OTHERS = r"//([a-z]+\.)?s([0-24-9]|1[2-9])\.test"
#: For what takes a second on an idle machine.
PATIENCE_SECONDS = 100.0


@pytest.fixture
def page() -> Iterator[Page]:
    try:
        program = find_chromium()
    except ServerUnavailable as missing:
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(f"{missing} (with CI set this is a failure)")
        pytest.skip(str(missing))
    with Browser(program) as browser, browser.page() as page:
        yield page


@pytest.fixture
def web(tmp_path: Path, store: str) -> Iterator[Crawls]:
    with crawls_of(WEB, tmp_path, store) as crawls:
        yield crawls


def addresses(crawls: Crawls) -> dict[str, str]:
    """As the data directory has them, once they are there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (crawls.data / "dashboard.json").exists():
        assert time.monotonic() < deadline, crawls.logs()
        time.sleep(0.05)
    found: dict[str, str] = json.loads((crawls.data / "dashboard.json").read_bytes())
    return found


def asked(crawls: Crawls) -> Counter[str]:
    """Requests so far, by site."""
    return Counter(request.host.removeprefix("www.") for request in crawls.requests())


def until_asked(crawls: Crawls, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while asked(crawls).total() < count:
        assert time.monotonic() < deadline, "nothing is asked any more"
        time.sleep(0.1)


def until_quiet(crawls: Crawls) -> None:
    """Until all fetchers have heard of the pause, and what was under way has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    before = -1
    while (now := asked(crawls).total()) != before:
        assert time.monotonic() < deadline, "the crawl goes on in its pause"
        before = now
        time.sleep(QUIET_SECONDS)


def number(page: Page, name: str) -> Any:
    return page.evaluate(f"document.getElementById('{name}').textContent")


def confirm(page: Page) -> None:
    page.wait_for("document.getElementById('confirm').open")
    page.click("#confirm-yes")


@pytest.mark.long
def test_a_person_sees_a_crawl_move_pauses_it_lets_it_go_on_blocks_a_site_and_stops_it(web: Crawls, page: Page) -> None:
    running = web.start("--num-fetcher-processes=2", delay=DELAY_SECONDS)
    there = addresses(web)
    for process in [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]:
        listening = [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
        assert {one.laddr.ip for one in listening} <= {"127.0.0.1"}
    page.view(1440, 900)
    page.open(f"{there['dashboard']}#token={there['token']}")

    # Numbers move, charts draw.
    page.wait_for("document.getElementById('state-text').textContent === 'Running'")
    page.wait_for("Number(document.getElementById('queued').textContent.replace(/\\D/g, '')) > 0")
    elapsed = number(page, "elapsed")
    page.wait_for(f"document.getElementById('elapsed').textContent !== {json.dumps(elapsed)}")
    page.wait_for("document.querySelectorAll('#chart-pages svg path').length > 0")
    page.wait_for("document.querySelectorAll('#recent li').length > 5")
    for name in ("leader", "fetcher-1", "parser-0"):
        page.wait_for(f"document.getElementById('processes').textContent.includes('{name}')")

    # A pause is one: the web server hears nothing while every site would be due.
    page.click("#pause")
    page.wait_for("document.getElementById('state-text').textContent === 'Paused'")
    until_quiet(web)
    before = asked(web).total()
    time.sleep(QUIET_SECONDS)
    assert asked(web).total() == before
    page.click("#pause")
    page.wait_for("document.getElementById('state-text').textContent === 'Running'")
    until_asked(web, before + WEB.sites)

    # A blocked site is asked for nothing more, and everybody who asks why is told.
    page.click("#block-site")
    page.type(BLOCKED)
    page.press("Enter")
    confirm(page)
    page.wait_for("!document.getElementById('result').hidden")
    # By then its fetcher has heard of it, and a request that was under way has ended.
    until_asked(web, asked(web).total() + 2 * WEB.sites)
    before_block = asked(web)
    until_asked(web, before_block.total() + 3 * WEB.sites)
    assert asked(web)[BLOCKED] == before_block[BLOCKED]
    assert (web.data / "exclusions").read_text() == f"{BLOCKED}\n"
    page.click("#query")
    page.type(f"http://{BLOCKED}/")
    page.press("Enter")
    page.wait_for("document.getElementById('answer-body').textContent.includes('blocked-site')")

    # It loaded nothing from elsewhere, and nothing went wrong in it.
    assert page.take_complaints() == []
    assert {urlsplit(url).netloc for url in page.requests} == {urlsplit(there["dashboard"]).netloc}

    # It ends as by an interrupt, and can go on; what was blocked stays blocked.
    page.click("#stop")
    confirm(page)
    # "Stopped", unless the browser was too busy to ask in the seconds that the crawl waits for it.
    page.wait_for("['Stopped', 'Ended', 'No answer'].includes(document.getElementById('state-text').textContent)")
    assert page.evaluate("document.getElementById('pause').disabled && document.getElementById('stop').disabled")
    summary = web.end(running, code=130)
    assert summary["stop_reason"] == "interrupted"
    assert not (web.data / "dashboard.json").exists()
    count = asked(web)[BLOCKED]
    assert web.resume("--delay=0", f"--exclude={OTHERS}")["stop_reason"] == "exhausted"
    assert asked(web)[BLOCKED] == count


def test_a_control_without_the_token_or_from_another_page_is_refused_and_does_nothing(web: Crawls) -> None:
    running = web.start(delay=DELAY_SECONDS)
    there = addresses(web)

    def post(**headers: str) -> int:
        request = urllib.request.Request(f"{there['dashboard']}api/pause", b"", headers, method="POST")
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def search(**headers: str) -> int:
        request = urllib.request.Request(f"{there['dashboard']}api/explain?q=s1.test", headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    token = {"X-Gossamer-Token": there["token"]}
    assert [search(), search(**token)] == [403, 200]
    assert post() == 403
    assert post(**{"X-Gossamer-Token": "0" * len(there["token"])}) == 403
    assert post(**token, Origin="http://evil.example") == 403
    assert post(**token, Host="evil.example") == 403
    before = asked(web).total()
    until_asked(web, before + 2 * WEB.sites)
    assert post(**token) == 204
    web.interrupt(running)


def test_status_and_explain_say_that_a_crawl_is_paused_and_not_after_it_was_killed(web: Crawls) -> None:
    index = next(index for index in range(WEB.sites) if WEB.policy(WEB.site_name(index)) is Policy.OPEN)
    queued = web.graph.site(index).url(1)
    # One of them is asked for at once, the other after ten minutes.
    running = web.start(seeds=[web.graph.home(index), queued], delay=600)
    there = addresses(web)

    def post(do: str) -> None:
        token = {"X-Gossamer-Token": there["token"]}
        with urllib.request.urlopen(urllib.request.Request(f"{there['dashboard']}api/{do}", b"", token)):
            pass

    def said(*arguments: str) -> str:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert main([arguments[0], str(web.data), *arguments[1:]]) == 0
        return output.getvalue()

    def until_paused_by(by: str | None) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while json.loads(said("status", "--json"))["paused_by"] != by:
            assert time.monotonic() < deadline, said("status")
            time.sleep(0.05)

    post("pause")
    until_paused_by("dashboard")
    words = "paused on the dashboard until it is resumed there"
    assert said("status").splitlines()[0].endswith(words)
    assert f"the crawl is {words}" in said("explain", queued).splitlines()[0]
    watch = [sys.executable, "-m", "gossamer", "status", str(web.data), "--watch=1s"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split("  ")[1] == "paused"
        watching.kill()
    post("resume")
    until_paused_by(None)
    assert words not in said("status") + said("explain", queued)
    post("pause")
    until_paused_by("dashboard")
    running.kill()
    running.wait()
    assert json.loads(said("status", "--json"))["paused_by"] is None
    assert words not in said("status") + said("explain", queued)
    web.end_stragglers()


def test_a_hostile_title_shows_as_text(tmp_path: Path, store: str, page: Page) -> None:
    with crawls_of(WEB, tmp_path, store, hostile=True) as crawls:
        # The second is not due before the first was looked at for long enough.
        running = crawls.start(seeds=["http://h46.test/title", "http://h46.test/"], delay=600)
        there = addresses(crawls)
        page.open(there["dashboard"])
        page.wait_for("document.getElementById('recent').textContent.includes('<script>alert(1)</script>')")
        assert page.evaluate("document.querySelectorAll('#recent script').length") == 0
        assert page.take_complaints() == []
        crawls.interrupt(running)
