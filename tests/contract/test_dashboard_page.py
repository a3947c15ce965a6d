"""The dashboard as a person sees it: a real Chromium on the real server, over a crawl that is made up."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
import pytest

from gossamer.errors import UsageError
from gossamer.frontier.store import Counts
from gossamer.report.board import Board, Facts
from gossamer.report.dashboard.server import DashboardServer
from gossamer.report.history import KEPT_OF_ALL
from gossamer.report.sample import (
    PHASES,
    Activity,
    Bound,
    Percentiles,
    ProcessUse,
    RecentPage,
    Sample,
    SiteActivity,
    SystemUse,
)
from gossamer.testing.browser import Browser, Page, find_chromium
from gossamer.testing.guard import children, is_running
from gossamer.testing.server_binaries import ServerUnavailable

TOKEN = "the-token-of-this-run"
#: As long as a name can be.
LONG_SITE = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 45}.example.org"
HOSTILE = '<img src="/nowhere.png" onerror="window.hacked = true"><script>window.hacked = true</script>'
#: An escape sequence, a bell, and a mark that turns the order of letters.
STEERING = "red \x1b[31m bell \x07 turned \u202egpj.exe"
MEASURED = Bound("politeness", "9,000 sites are cooling; --delay lowers this")
ARABIC = "مرحبا بالعالم"

#: Everything that a key can reach. `visibility` and size: what is hidden is not for anybody.
FOCUSABLE = """[...document.querySelectorAll("a[href], button, input, [tabindex='0']")].filter(
    (one) => !one.disabled && one.checkVisibility() && !one.closest("dialog:not([open])"))"""
#: Of a group of radio buttons the chosen one alone is a stop.
STOPS = f"{FOCUSABLE}.filter((one) => one.type !== 'radio' || one.checked)"


class Calls:
    """Controls that remember what they were told."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.made: list[str] = []

    def pause(self) -> None:
        self.made.append("pause")
        self.board.state = "paused"

    def resume(self) -> None:
        self.made.append("resume")
        self.board.state = "running"

    def stop(self) -> None:
        self.made.append("stop")
        self.board.state = "stopping"

    def block(self, site: str) -> None:
        if "." not in site:
            raise UsageError(f"{site!r} is no site; give a domain such as example.org")
        self.made.append(f"block {site}")


class Crawl:
    """A made-up crawl with its dashboard."""

    def __init__(self, port: int = 0, **facts: Any) -> None:
        known: dict[str, Any] = {
            "version": "9.9",
            "data_directory": "/data/of/the/crawl",
            "run": 3,
            "started_at": time.time() - 3600,
            "store": "sqlite",
            "delay_seconds": 1.0,
            "max_pages": 1_000_000,
            "max_duration_seconds": 0.0,
        }
        self.facts = Facts(**known | facts)
        self.board = Board(self.facts)
        self.calls = Calls(self.board)
        self.asked: list[str] = []
        self.successors: list[Crawl] = []
        self.server = DashboardServer(self.board, self.calls, TOKEN, port, self.explain)
        self.address = f"http://127.0.0.1:{self.server.port}/"
        self.with_token = f"{self.address}#token={TOKEN}"

    def replace(self, **facts: Any) -> Self:
        """Another run takes the port, as after a kill: a page that is open hears nothing of it."""
        self.server.close()
        other = type(self)(self.server.port, **facts)
        assert other.server.port == self.server.port
        self.successors.append(other)
        return other

    def explain(self, typed: str) -> dict[str, Any]:
        self.asked.append(typed)
        if typed == "no url":
            raise UsageError("'no url' is no URL; give a whole http(s) URL")
        attempt: dict[str, Any] = {
            "at": "2026-01-02T03:04:05Z",
            "url": typed,
            "kind": "url",
            "outcome": "done",
            "failure_kind": None,
            "status": 200,
            "reason": HOSTILE,
            "redirect": None,
            "bytes": 48_211,
            "total_seconds": 0.41,
            "address": "192.0.2.7",
        }
        explanation = {
            "verdict": "fetched",
            "summary": f"fetched: 200 on a day, page in a.warc.gz {HOSTILE}",
            "typed": typed,
            "url": typed,
            "state": "finished",
            "is_admitted": True,
            "refusal": None,
            "rules_now": None,
            "depth": 2,
            "hops": 0,
            "via": f"javascript:{HOSTILE}",
            "attempts": [attempt],
            "notes": [STEERING],
        }
        return {"typed": typed, "kind": "url", "explanation": explanation}

    def put(
        self,
        at: float,
        rate: float,
        *,
        latency: bool = True,
        activity: Activity | None = None,
        bound: Bound = MEASURED,
        spooled: int = 0,
    ) -> None:
        pages = int(rate * 1000)
        self.board.put(
            Sample(
                at=at,
                elapsed_seconds=at - self.facts.started_at,
                counts=Counts(
                    admitted=900_000, finished=100_000, spooled=spooled, pages=pages,
                    received_bytes=pages * 50_000, sites=10_000, sites_waiting=9_000, sites_ready=1_000, sites_busy=50,
                ),
                pages_per_second=rate,
                fetches_per_second=rate * 1.2,
                bytes_per_second=rate * 50_000,
                in_flight=50,
                workers=200,
                backlog_pages=int(rate),
                outcomes={"page": int(rate * 5), "timeout": 4, "dns": 3, "status": 2, "robots": 1},
                latency=dict.fromkeys(PHASES, Percentiles(0.04, 0.3, 1.5)) if latency else {},
                processes=[
                    ProcessUse(
                        kind="leader", name="leader", pid=7, cpu=0.5, cpu_seconds=9.0, memory_bytes=90_000_000,
                        descriptors=80, pages_per_second=rate,
                    )
                ],
                system=SystemUse(disk_total_bytes=1000, disk_free_bytes=900),
                bound=bound,
            ),
            activity or self.board.activity,
            b"",
        )  # fmt: skip

    def put_hour(self) -> None:
        """With ten minutes in which nobody measured, and a latency that is missing for a while."""
        now = time.time()
        for index in range(700, 0, -1):
            if not 300 < index < 420:
                self.put(now - index * 5, 40 + index % 17, latency=not 100 < index < 200, activity=self.activity())

    def activity(self, *sites: str) -> Activity:
        names = sites or (LONG_SITE, "second.example", *(f"site-{number}.example" for number in range(30)))
        rows = [
            SiteActivity(site=site, requests=1000 - place, pages=900, failures=600, received_bytes=10**6)
            for place, site in enumerate(names)
        ]
        recent = [
            RecentPage(
                url=url, title=title, site="a.example", status=200, received_bytes=1234, seconds=0.2, fetched_at=1.8e9
            )
            for url, title in (
                (f"https://a.example/?{HOSTILE}", HOSTILE),
                ("javascript:window.hacked=true", "a link"),
                ("https://b.example/", STEERING),
                ("https://c.example/", ARABIC),
                (f"https://{LONG_SITE}/{'path/' * 300}", "title " * 500),
                ("https://d.example/", ""),
            )
        ]
        return Activity(busiest=rows, failing=rows[:5], recent=recent)


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    try:
        program = find_chromium()
    except ServerUnavailable as error:
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(f"{error} (with CI set this is a failure)")
        pytest.skip(str(error))
    with Browser(program) as browser, browser.page() as opened:
        yield opened


@pytest.fixture(autouse=True)
def patient_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is looked at gets to know the end, however late it gets its turn."""
    monkeypatch.setattr("gossamer.report.dashboard.audience.LATELY_SECONDS", 60.0)
    monkeypatch.setattr("gossamer.report.dashboard.audience.WAIT_SECONDS", 60.0)


@pytest.fixture
def crawl() -> Iterator[Crawl]:
    """It is closed, with what took its port, when nobody judges any more what the page could not load."""
    made = Crawl()
    yield made
    for one in (*made.successors, made):
        one.server.close()


@pytest.fixture
def page(tab: Page, crawl: Crawl) -> Iterator[Page]:
    """Whatever a test does: nothing is asked for elsewhere, and nothing is complained of that it did not take. Each
    has a server on a port of its own, and so a storage of its own in the browser."""
    tab.view(1440, 900)
    try:
        yield tab
        assert tab.take_complaints() == []
        assert {urlsplit(url).netloc for url in tab.requests} == {f"127.0.0.1:{crawl.server.port}"}
        assert tab.evaluate("window.hacked") is None
    finally:
        tab.leave()


def show(page: Page, address: str) -> None:
    page.open(address)
    page.wait_for("document.body.dataset.shown > 0")


def ask_now(page: Page) -> None:
    """As when somebody comes back to the page: without waiting for the next time that it asks. Twice: the first answer
    that is shown may be to a request that was already under way, and so be of the time before this call."""
    for _ in range(2):
        shown = page.evaluate("document.body.dataset.shown")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for(f"document.body.dataset.shown > {shown}")


def text(page: Page, selector: str) -> str:
    found = page.evaluate(f"document.querySelector({selector!r}).textContent")
    assert isinstance(found, str)
    return found


def until(condition: Callable[[], bool]) -> None:
    """In a moment: the page was clicked and the server is told, a process was killed and others follow it. What the
    browser tells is not read meanwhile: for that there is `Page.wait_for`."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


ABANDONED = """
import sys, time
from gossamer.testing.browser import Browser, find_chromium
with Browser(find_chromium()) as browser, browser.page() as page:
    page.open("about:blank")
    print(browser.pid, browser.directory, flush=True)
    time.sleep(600)
"""


@pytest.mark.usefixtures("tab")  # which says what to do where there is no browser
def test_a_browser_is_gone_when_whoever_started_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid, directory = starter.stdout.readline().split()
        family = list(children(int(pid)))
        assert family
        starter.kill()
    until(lambda: not any(is_running(one) for one in (int(pid), *family)) and not Path(directory).exists())


# What is shown.


def test_numbers_move_when_the_board_changes(page: Page, crawl: Crawl) -> None:
    crawl.put_hour()
    crawl.put(time.time(), 41.24)
    show(page, crawl.address)
    assert text(page, "#pages") == "41,240"
    assert text(page, "#rate") == "41.2"
    assert text(page, "#received") == "2.1 GB"
    assert text(page, "#queued") == "800 k"
    assert text(page, "#state-text") == "Running"
    assert text(page, ".bound") == "Limited by politeness: 9,000 sites are cooling; --delay lowers this"
    assert text(page, "#limit-name") == "Limit: 1,000,000 pages"
    assert text(page, "#limit-text").startswith("4.1 %, about ")
    assert text(page, "#health") == "Healthy"
    assert "1 k ready" in text(page, "#chart-queued .foot")
    assert "8 k cooling" in text(page, "#chart-queued .foot")
    drawn = page.evaluate("document.querySelector('#chart-pages path.line').getAttribute('d')")
    crawl.put(time.time(), 77.7)
    ask_now(page)
    assert text(page, "#pages") == "77,700"
    assert text(page, "#rate") == "77.7"
    assert page.evaluate("document.querySelector('#chart-pages path.line').getAttribute('d')") != drawn


def test_charts_draw_what_was_measured_and_leave_open_what_was_not(page: Page, crawl: Crawl) -> None:
    crawl.put_hour()
    show(page, crawl.address)
    paths = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll("figure")].map(
            (one) => [one.id, [...one.querySelectorAll(".line, .column")].map((path) => path.getAttribute("d"))]))"""
    )
    assert len(paths) == 7
    for name, drawn in paths.items():
        points = set(re.findall(r"[\d.]+ [\d.]+", " ".join(drawn)))
        assert len(points) >= 50, name
    # One gap of those ten minutes, and in the latencies one more.
    assert paths["chart-pages"][0].count("M") == 2
    assert paths["chart-latency"][0].count("M") == 3
    # A path for each outcome and failure that happened; those that did not are not in the legend.
    legend = "[...document.querySelectorAll('#chart-failures .legend li')].filter((one) => one.checkVisibility())"
    assert page.evaluate(f"{legend}.map((one) => one.children[1].textContent)") == ["status", "time-out", "DNS"]
    assert sum(bool(path) for path in paths["chart-failures"]) == 3


def test_a_chart_is_read_by_pointer_and_by_arrow_keys(page: Page, crawl: Crawl) -> None:
    crawl.put_hour()
    crawl.put(time.time(), 99.5)
    show(page, crawl.address)
    reading = "document.querySelector('#chart-pages .legend .value').textContent"
    assert page.evaluate(reading) == "99.5/s"
    page.hover("#chart-pages svg")
    page.wait_for("document.querySelector('#chart-pages .at').textContent.includes(':')")
    assert page.evaluate(reading) != "99.5/s"
    page.hover("h1")
    page.wait_for(f"{reading} === '99.5/s'")
    page.evaluate("document.querySelector('#chart-latency svg').focus()")
    page.press("Home")
    assert "99 % 1.5 s" in text(page, "#said")
    first = text(page, "#chart-latency .at")
    page.press("ArrowRight")
    assert text(page, "#chart-latency .at") > first


DRAWN = "document.querySelector('#chart-pages path.line').getAttribute('d').match(/[ML]/g).length"
TICKS = """[...document.querySelectorAll('#chart-pages .tick')].map((one) => one.textContent)
    .filter((one) => /:|[A-Z]/.test(one))"""


def choose(page: Page, span: str) -> None:
    page.evaluate("performance.clearResourceTimings()")
    page.evaluate(f"document.querySelector('input[value=\"{span}\"]').click()")
    # Listed there once they are answered.
    page.wait_for(f"performance.getEntriesByType('resource').some((one) => one.name.includes('span={span}'))")
    ask_now(page)


def left_edge(page: Page) -> float:
    """Where the first line begins, as a share of the width."""
    return float(
        page.evaluate(
            """(() => {
                const svg = document.querySelector("#chart-pages svg");
                const first = Number(svg.querySelector("path.line").getAttribute("d").match(/M([\\d.]+)/)[1]);
                return (first - 46) / (svg.clientWidth - 56);
            })()"""
        )
    )


def test_charts_offer_five_minutes_an_hour_a_day_and_all(page: Page, crawl: Crawl) -> None:
    """Of a crawl of three days, of which each span shows as much as it says."""
    crawl.facts = crawl.board.facts = msgspec.structs.replace(crawl.facts, started_at=time.time() - 3 * 86400)
    now = time.time()
    for index in range(int(3 * 86400 / 5), -1, -1):
        crawl.put(now - index * 5, 40 + index % 17)
    show(page, crawl.address)
    assert page.evaluate("[...document.querySelectorAll('.choice span')].map((one) => one.textContent)") == [
        "5 min",
        "Hour",
        "Day",
        "All",
    ]
    for span in ("5min", "hour", "day", "all"):
        choose(page, span)
        assert left_edge(page) < 0.02
        assert page.evaluate(DRAWN) >= 40
        ticks = page.evaluate(TICKS)
        assert len(set(ticks)) == len(ticks) >= 2
        # Days have names where there is more than one of them.
        assert any(re.search("[A-Z]", tick) for tick in ticks) == (span == "all")


@pytest.mark.parametrize("span", ["5min", "hour", "day", "all"])
def test_a_chart_begins_where_the_crawl_begins(page: Page, crawl: Crawl, span: str) -> None:
    crawl.facts = crawl.board.facts = msgspec.structs.replace(crawl.facts, started_at=time.time() - 200)
    for age in range(200, -1, -5):
        crawl.put(time.time() - age, 5.0)
    show(page, crawl.address)
    choose(page, span)
    assert left_edge(page) < 0.02
    assert page.evaluate(DRAWN) == 41


def test_points_that_were_thinned_meanwhile_are_got_anew(page: Page, crawl: Crawl) -> None:
    now = time.time()
    for index in range(KEPT_OF_ALL - 2):
        crawl.put(now - 7200 + index * 5, 5.0)
    crawl.facts = crawl.board.facts = msgspec.structs.replace(crawl.facts, started_at=now - 7200)
    show(page, crawl.address)
    choose(page, "all")
    for index in range(KEPT_OF_ALL - 2, KEPT_OF_ALL + 2):
        crawl.put(now - 7200 + index * 5, 500.0)
    ask_now(page)
    assert crawl.board.history.series("all").step_seconds == 10
    assert text(page, "#chart-pages .legend .value") == "500/s"
    assert page.evaluate("document.querySelector('#chart-pages path.line').getAttribute('d').match(/M/g).length") == 1


def test_what_is_fetched_and_not_yet_written_moves_between_commits(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time() - 5, 5.0, spooled=120)
    show(page, crawl.address)
    assert (text(page, "#pages"), text(page, "#unwritten")) == ("5,000", "+ 120 not yet written")
    crawl.put(time.time(), 5.0, spooled=345)
    ask_now(page)
    assert (text(page, "#pages"), text(page, "#unwritten")) == ("5,000", "+ 345 not yet written")
    crawl.put(time.time() + 1, 5.345)
    ask_now(page)
    assert (text(page, "#pages"), text(page, "#unwritten")) == ("5,345", "")


def test_a_paused_crawl_has_no_time_left_and_after_resume_the_line_fits_the_badge(page: Page, crawl: Crawl) -> None:
    crawl.put(
        time.time(), 5.0, bound=Bound("paused", "paused on the dashboard until it is resumed there; 8 URLs queued")
    )
    crawl.board.state = "paused"
    show(page, crawl.with_token)
    assert text(page, "#limit-text") == "0.5 %, paused"
    assert text(page, ".bound").startswith("Paused on the dashboard until")
    page.click("#pause")
    page.wait_for("document.querySelector('#state-text').textContent === 'Running'")
    # The sample is still of the pause.
    assert text(page, ".bound") == "Resumed: sites are asked again as they are due"
    assert "left" in text(page, "#limit-text")


def test_time_that_runs_in_a_pause_is_said_to(page: Page, crawl: Crawl) -> None:
    crawl.facts = crawl.board.facts = msgspec.structs.replace(crawl.facts, max_pages=0, max_duration_seconds=7200.0)
    crawl.put(time.time(), 5.0)
    crawl.board.state = "paused"
    show(page, crawl.address)
    assert text(page, "#limit-text") == "50 %, stops in about 1 h"


def test_a_crawl_that_waits_for_the_disk_cannot_be_resumed_by_a_click(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, bound=Bound("disk", "the disk is nearly full"))
    crawl.board.state = "paused"
    show(page, crawl.with_token)
    assert text(page, "#pause") == "Resume"
    assert page.evaluate("document.querySelector('#pause').disabled")
    assert "room on the disk" in page.evaluate("document.querySelector('#pause').title")


#: Everything that would do something to a crawl, or ask it something.
WORKING = """[...document.querySelectorAll("button, input:not([name=span]), form.notice")].filter(
    (one) => !one.disabled && one.checkVisibility() && !one.closest("dialog")).map((one) => one.id || one.className)"""


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [
        ("exhausted", "Finished", "everything that was admitted is fetched"),
        ("max_pages", "Finished", "the limit of 1,000,000 pages is reached"),
        ("max_duration", "Finished", "the limit of 2 h is reached"),
        ("interrupted", "Stopped", "gossamer resume /data/of/the/crawl"),
        ("failed", "Failed", "log/leader.log"),
    ],
)
def test_a_finished_run_says_so_and_why_and_keeps_its_last_figures(
    page: Page, crawl: Crawl, reason: str, state: str, words: str
) -> None:
    crawl.facts = crawl.board.facts = msgspec.structs.replace(crawl.facts, max_duration_seconds=7200.0)
    crawl.put_hour()
    show(page, crawl.with_token)
    crawl.put(time.time(), 7.0, activity=crawl.activity("first.example"))
    crawl.board.stop_reason = reason
    crawl.board.finish()
    crawl.server.close()  # which waits for the page to ask
    page.wait_for(f"document.querySelector('#state-text').textContent === '{state}'")
    assert words in text(page, ".bound")
    assert text(page, "#pages") == "7,000"
    assert page.evaluate("document.title") == f"{state} · Gossamer"
    assert text(page, "#said") == f"The crawl: {state}"
    assert page.evaluate("document.body.classList.contains('lost')") is False
    assert page.evaluate(WORKING) == []
    assert "left" not in text(page, "#limit-text")
    # It can be looked at in every span, and asks nothing more of an address that may be another's.
    asked = len(page.requests)
    for span in ("5min", "day", "all"):
        page.evaluate(f"document.querySelector('input[value=\"{span}\"]').click()")
        assert page.evaluate(DRAWN) > 10
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    if reason == "exhausted":  # once is enough
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 3000))")
    assert len(page.requests) == asked


def test_a_tab_never_shows_another_run_that_took_its_port(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity("first.example"))
    show(page, crawl.with_token)
    other = crawl.replace(data_directory="/data/of/another", run=8)
    other.put(time.time(), 99.0, activity=other.activity("other.example"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for("document.querySelector('#other').checkVisibility()", 120)
    page.take_complaints()  # of the moment between the two

    def is_that_of_the_first(pages: str) -> None:
        assert text(page, "#state-text") == "Another run"
        assert "Run 3 of /data/of/the/crawl is not at this address any more." in text(page, ".bound")
        assert "run 8 of /data/of/another" in text(page, "#other")
        assert text(page, "#pages") == pages
        assert "other.example" not in text(page, "#busiest")
        assert page.evaluate(WORKING) == []

    is_that_of_the_first("5,000")
    # The tab remembers whose it is when it is loaded again.
    page.open(crawl.address)
    page.wait_for("document.querySelector('#other').checkVisibility()")
    is_that_of_the_first("–")
    assert other.calls.made == []
    # By a click that says so it becomes the other's; the token of the first opens nothing there.
    page.click("#show-other")
    page.wait_for("document.querySelector('#pages')?.textContent === '99,000'")  # loading, at first
    assert text(page, "#place") == "/data/of/another"
    assert page.evaluate("document.querySelector('#unlock').checkVisibility()")
    assert page.evaluate("document.querySelector('#pause').disabled")


def test_a_click_at_the_moment_of_the_change_does_nothing_to_the_other_run(page: Page, crawl: Crawl) -> None:
    """Even if both had the same token."""
    crawl.put(time.time(), 5.0)
    show(page, crawl.with_token)
    page.evaluate("window.keptFetch = window.fetch; window.fetch = () => new Promise(() => {})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # what it asks now is never answered
    other = crawl.replace(data_directory="/data/of/another")
    page.evaluate("window.fetch = window.keptFetch")
    page.click("#pause")
    page.wait_for("document.querySelector('#other').checkVisibility()", 120)
    assert other.calls.made == []
    page.take_complaints()


def test_the_printed_address_of_another_run_opens_it_in_a_tab_of_the_first(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    show(page, crawl.with_token)
    other = crawl.replace(data_directory="/data/of/another")
    page.take_complaints()
    page.evaluate(f"location.href = {other.with_token!r}")
    page.wait_for("document.querySelector('#place')?.textContent === '/data/of/another'", 120)  # loading, at first
    page.wait_for("!document.querySelector('#pause').disabled")
    page.take_complaints()


def test_a_connection_that_is_lost_while_the_crawl_stops_is_its_end(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    crawl.board.state = "stopping"
    show(page, crawl.with_token)
    crawl.server.close()
    page.wait_for("document.querySelector('#state-text').textContent === 'Ended'", 120)
    assert "was stopping, and has ended" in text(page, ".bound")
    page.evaluate("window.fetch = () => new Promise(() => {}); window.stop()")
    page.take_complaints()


def test_before_the_first_sample_nothing_is_shown_as_zero(page: Page, crawl: Crawl) -> None:
    show(page, crawl.with_token)
    assert text(page, "#pages") == "–"
    assert text(page, "#state-text") == "Running"
    assert text(page, ".bound") == "Starting: the first figures come in a moment"
    assert page.evaluate("document.querySelectorAll('path').length") <= 7 * 8
    assert page.evaluate("[...document.querySelectorAll('figure .nothing')].every((one) => one.checkVisibility())")
    assert text(page, "#recent") == "No page was read yet"
    crawl.put(time.time(), 5.0)
    ask_now(page)
    assert text(page, "#pages") == "5,000"


def test_what_is_from_the_web_is_shown_as_text_and_runs_nothing(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity(f"{HOSTILE}.example", LONG_SITE))
    show(page, crawl.with_token)
    titles = page.evaluate("[...document.querySelectorAll('#recent .title')].map((one) => one.textContent)")
    assert titles[0] == HOSTILE
    assert titles[2] == "red \ufffd[31m bell \ufffd turned \ufffdgpj.exe"
    assert titles[3] == ARABIC
    assert titles[5] == "https://d.example/"
    assert f"{HOSTILE}.example" in text(page, "#busiest tbody")
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    links = page.evaluate(
        "[...document.querySelectorAll('#recent a')].map((one) => [one.protocol, one.rel, one.target])"
    )
    # One is not of the web: it is no link.
    assert links == [["https:", "noreferrer noopener", "_blank"]] * 5
    assert page.evaluate("document.querySelector('#recent li:nth-child(4) a').dir") == "auto"


def test_of_very_many_sites_the_first_are_shown(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity(*(f"site-{number}.example" for number in range(10_000))))
    show(page, crawl.address)
    assert page.evaluate("document.querySelectorAll('#busiest tbody tr').length") == 10


def test_rows_do_not_move_under_the_pointer(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity("first.example", "second.example"))
    show(page, crawl.with_token)
    names = "[...document.querySelectorAll('#busiest tbody .link')].map((one) => one.textContent).join(' ')"
    page.hover("#busiest .block")
    crawl.put(time.time(), 6.0, activity=crawl.activity("second.example", "third.example", "first.example"))
    ask_now(page)
    assert page.evaluate(names) == "first.example second.example"
    page.hover("h1")
    ask_now(page)
    assert page.evaluate(names) == "second.example third.example first.example"


def test_a_crawl_that_is_gone_is_said_to_be_and_its_last_figures_stay(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    show(page, crawl.with_token)
    crawl.server.close()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for("document.body.classList.contains('lost')")
    assert text(page, ".bound").startswith("The crawl does not answer. It has ended, or cannot be reached;")
    assert text(page, "#said") == "The crawl: No answer"
    assert text(page, "#pages") == "5,000"
    assert page.evaluate("getComputedStyle(document.querySelector('.figures')).filter") == "grayscale(1)"
    assert page.evaluate("document.querySelector('#pause').disabled && document.querySelector('#stop').disabled")
    # It asks nothing more, and what it has asked is cancelled: else one more complaint could follow those taken here.
    page.evaluate("window.fetch = () => new Promise(() => {}); window.stop()")
    # Of the browser, which cannot reach it, with a word for each moment at which that may be found. Of the page, none.
    gone = re.compile("net::ERR_(CONNECTION_|SOCKET_|EMPTY_RESPONSE)")
    assert [one for one in page.take_complaints() if not gone.search(one)] == []


# The search.


def test_the_search_shows_what_explain_says(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    show(page, crawl.with_token)
    page.click("#query")
    page.type("https://a.example/x")
    page.press("Enter")
    page.wait_for("document.querySelector('#answer .summary')")
    assert crawl.asked == ["https://a.example/x"]
    assert text(page, "#answer .summary") == f"fetched200 on a day, page in a.warc.gz {HOSTILE}"
    assert text(page, "#answer-title") == "https://a.example/x"
    assert "2 links from a seed, 0 redirects" in text(page, "#answer .rows")
    attempts = page.evaluate("[...document.querySelectorAll('#answer .attempts td')].map((one) => one.textContent)")
    assert attempts[1:] == ["done", "200", "48.2 kB", "410 ms", "192.0.2.7", HOSTILE]
    assert page.evaluate("[...document.querySelectorAll('#answer a')].map((one) => one.href)") == [
        "https://a.example/x"
    ]
    assert "fetched" in text(page, "#said")
    page.press("Escape")
    assert not page.evaluate("document.querySelector('#answer').checkVisibility()")
    assert page.evaluate("document.activeElement.id") == "query"


def test_a_question_that_is_none_is_answered_with_the_servers_words(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    show(page, crawl.with_token)
    page.click("#query")
    page.type("no url")
    page.press("Enter")
    page.wait_for("document.querySelector('#answer .problem')")
    assert text(page, "#answer .problem") == "No answer: 'no url' is no URL; give a whole http(s) URL"
    assert all("400" in one for one in page.take_complaints())


def test_a_search_without_the_token_says_what_it_needs_and_asks_nothing(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    show(page, crawl.address)
    page.click("#query")
    page.type("https://a.example/x")
    page.press("Enter")
    page.wait_for("document.querySelector('#answer .problem')")
    assert "needs the token of this run" in text(page, "#answer .problem")
    assert crawl.asked == []


# The controls.


def test_the_token_of_the_address_is_kept_and_does_not_stay_in_it(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0)
    show(page, crawl.with_token)
    assert page.evaluate("location.href") == crawl.address
    assert not page.evaluate("document.querySelector('#unlock').checkVisibility()")
    show(page, crawl.address)  # loaded again
    page.wait_for("!document.querySelector('#pause').disabled")
    page.click("#pause")
    page.wait_for("document.querySelector('#state-text').textContent === 'Paused'")
    assert text(page, "#pause") == "Resume"
    assert text(page, "#bound-by") == "Paused:"
    assert text(page, "#said") == "The crawl: Paused"
    page.click("#pause")
    page.wait_for("document.querySelector('#state-text').textContent === 'Running'")
    assert crawl.calls.made == ["pause", "resume"]


def test_without_the_token_nothing_can_be_told_and_the_page_says_where_it_is(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity("first.example"))
    show(page, crawl.address)
    disabled = (
        "[...document.querySelectorAll('#pause, #stop, #block button, .sites .block')].map((one) => one.disabled)"
    )
    assert page.evaluate(disabled) == [True] * 5
    assert "dashboard.json" in text(page, "#unlock")
    page.click("#token")
    page.type("a wrong one")
    page.press("Enter")
    assert page.evaluate(disabled) == [False] * 5
    page.click("#pause")
    page.wait_for("document.querySelector('#result').checkVisibility()")
    assert text(page, "#result-text") == "Refused: the token is wrong, or of another run."
    assert page.evaluate(disabled) == [True] * 5
    assert page.evaluate("document.activeElement.id") == "token"
    assert all("403" in one for one in page.take_complaints())
    assert crawl.calls.made == []
    page.type(TOKEN)
    page.press("Enter")
    page.press("Enter")  # the focus is on "Pause" now
    page.wait_for("document.querySelector('#state-text').textContent === 'Paused'")
    assert crawl.calls.made == ["pause"]


def test_a_site_is_blocked_from_its_row_after_a_confirmation(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity("first.example", f"{HOSTILE}.example"))
    show(page, crawl.with_token)
    page.click("#busiest tr:nth-child(2) .block")
    page.wait_for("document.querySelector('#confirm').open")
    assert text(page, "#confirm-title") == f"Block {HOSTILE}.example?"
    page.click("#confirm-no")
    assert not page.evaluate("document.querySelector('#confirm').open")
    page.click("#failing-sites tr:nth-child(1) .block")
    page.click("#confirm-yes")
    page.wait_for("document.querySelector('#result-text').textContent === 'first.example is blocked.'")
    assert crawl.calls.made == ["block first.example"]
    page.click("#block-site")
    page.type("nowhere")
    page.press("Enter")
    page.click("#confirm-yes")
    page.wait_for("document.querySelector('#result').textContent.includes('is no site; give a domain')")
    assert all("400" in one for one in page.take_complaints())
    assert crawl.calls.made == ["block first.example"]


# For everybody.


def test_the_keyboard_alone_reaches_every_control_and_stops_the_crawl(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity("first.example", "second.example"))
    show(page, crawl.with_token)
    number = page.evaluate(f"{STOPS}.length")
    assert number > 30
    seen = []
    for _ in range(number):
        page.press("Tab")
        here = page.evaluate(
            f"""(() => {{
                const one = document.activeElement;
                const ring = one.type === "radio" ? one.closest("fieldset") : one;
                return [{STOPS}.indexOf(one), getComputedStyle(ring).outlineStyle !== "none"];
            }})()"""
        )
        assert here[1], f"the focus is not to be seen at stop {here[0]}"
        seen.append(here[0])
    # Each once, in the order of the page, from the link that skips the bar to the last button.
    assert seen == list(range(number))
    assert page.evaluate("document.activeElement === document.querySelector('#block button')")

    page.evaluate("document.querySelector('#pause').focus()")
    page.press("Tab")
    page.press("Enter")
    assert page.evaluate("document.querySelector('#confirm').open && document.activeElement.id") == "confirm-no"
    page.press("Escape")
    assert not page.evaluate("document.querySelector('#confirm').open")
    assert page.evaluate("document.activeElement.id") == "stop"
    page.press("Enter")
    page.press("Enter")  # "Cancel" has the focus: pressed twice by mistake, nothing happens
    assert not page.evaluate("document.querySelector('#confirm').open")
    page.press("Enter")
    page.press("Tab")
    page.press("Enter")
    page.wait_for("document.querySelector('#state-text').textContent === 'Stopping'")
    assert crawl.calls.made == ["stop"]


def test_what_has_the_focus_keeps_it_while_the_figures_move(page: Page, crawl: Crawl) -> None:
    crawl.put(time.time(), 5.0, activity=crawl.activity("first.example", "second.example"))
    show(page, crawl.with_token)
    page.evaluate("document.querySelector('#busiest tr:nth-child(2) .block').focus()")
    crawl.put(time.time(), 6.0, activity=crawl.activity("third.example", "first.example"))
    ask_now(page)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Block second.example"
    # And nobody who listens is told of every new figure.
    assert text(page, "#said") == ""


@pytest.mark.parametrize("width", [360, 820])
def test_a_narrow_window_is_never_scrolled_sideways(page: Page, crawl: Crawl, width: int) -> None:
    crawl.put_hour()
    crawl.put(time.time(), 148_466.123, spooled=1_234_567)  # figures as long as they get
    page.view(width, 800, mobile=True)
    show(page, crawl.with_token)
    page.evaluate(f"document.querySelector('#query').value = 'https://{LONG_SITE}/'")
    page.evaluate("document.querySelector('#search').requestSubmit()")
    page.wait_for("document.querySelector('#answer .summary')")
    # Nothing hangs out of the window, but for what is scrolled in itself.
    outside = """[...document.querySelectorAll("body *:not(.scroll *)")].filter((one) => one.checkVisibility()
        && one.getBoundingClientRect().right > innerWidth + 0.5).map((one) => one.outerHTML.slice(0, 80))"""
    assert page.evaluate(outside) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


#: For each text that can be seen: its contrast with what is behind it (WCAG 2.2, 1.4.3), if that is too small.
WEAK_TEXTS = """(() => {
    const pixel = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const numbers = (colour) => {
        pixel.clearRect(0, 0, 1, 1);
        pixel.fillStyle = colour;
        pixel.fillRect(0, 0, 1, 1);
        return [...pixel.getImageData(0, 0, 1, 1).data];
    };
    const linear = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    const light = (colour) => {
        const [r, g, b] = colour.map((one) => linear(one / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = numbers(getComputedStyle(one).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255, 255];
    };
    const weak = [];
    for (const one of document.querySelectorAll("body *")) {
        const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!hasText || !one.checkVisibility() || one.disabled) continue;
        if (one.closest(".unseen, .skip, script, noscript")) continue;
        const style = getComputedStyle(one);
        const text = light(numbers(one instanceof SVGElement ? style.fill : style.color));
        const ground = light(behind(one));
        const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
        if (contrast < 4.5) weak.push(`${contrast.toFixed(2)} ${one.className} ${one.textContent.slice(0, 40)}`);
    }
    return weak;
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read_in_light_and_in_dark(page: Page, crawl: Crawl, dark: bool) -> None:
    crawl.put_hour()
    page.view(1440, 900, dark=dark)
    show(page, crawl.with_token)
    page.evaluate("document.querySelector('#query').value = 'https://a.example/'")
    page.evaluate("document.querySelector('#search').requestSubmit()")
    page.wait_for("document.querySelector('#answer .summary')")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(ground) < 50) if dark else (min(ground) > 200)
    assert page.evaluate(WEAK_TEXTS) == []
