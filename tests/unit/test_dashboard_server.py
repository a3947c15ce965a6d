"""The HTTP side of the dashboard and of the metrics, over real sockets: who is answered, what, and who is not."""

import asyncio
import contextlib
import gzip
import http.client
import json
import logging
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil
import pytest

from gossamer.config import IdentitySettings, Settings
from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.store import Counts
from gossamer.frontier.stores.sqlite import SqliteStore
from gossamer.frontier.traps import path_fingerprint
from gossamer.records import Candidate
from gossamer.report.board import Board, Facts
from gossamer.report.connections import MOST_CONNECTIONS
from gossamer.report.dashboard.addresses import (
    Addresses,
    make_token,
    read_addresses,
    remove_addresses,
    write_addresses,
)
from gossamer.report.dashboard.questions import MOST_WAITING, Explain, ExplainCommand, read_question
from gossamer.report.dashboard.server import DashboardServer, page_routes
from gossamer.report.history import KEPT_SAMPLES
from gossamer.report.http import (
    BODY_BYTES,
    FURTHER_PORTS,
    HEAD_BYTES,
    LINGER_BYTES,
    TARGET_BYTES,
    Answer,
    HttpServer,
    Request,
    Route,
)
from gossamer.report.metrics_server import MetricsServer
from gossamer.report.sample import Activity, Bound, Percentiles, RecentPage, Sample
from gossamer.run.data_directory import DataDirectory, Frontier
from gossamer.url import Url, canonicalise

TOKEN = "the-token-of-this-crawl"
HOSTILE_TITLE = "<img src=x onerror=alert(1)> \x1b[31m \u202e"
CONTROLS = ["/api/pause", "/api/resume", "/api/stop", "/api/block"]
#: No answer takes so long; a test that waits for one that never comes ends with an error of the socket.
TIMEOUT_SECONDS = 60.0
#: Of a server whose patience with a client is under test.
SHORT_SECONDS = 0.5
MEASURED = Bound("work", "nothing holds it back")


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class FakeControls:
    """Notes what it was asked for."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def pause(self) -> None:
        self.done.append("pause")

    def resume(self) -> None:
        self.done.append("resume")

    def stop(self) -> None:
        self.done.append("stop")

    def block(self, site: str) -> None:
        if " " in site:
            raise UsageError(f"{site!r} is no site")
        self.done.append(f"block {site}")


def no_question(typed: str) -> object:
    raise AssertionError(typed)


def made_board() -> Board:
    return Board(
        Facts(
            version="1",
            data_directory="/crawl",
            run=2,
            started_at=1000.0,
            store="redis://***@127.0.0.1/0",
            delay_seconds=1.0,
            max_pages=0,
            max_duration_seconds=0.0,
        )
    )


def put(board: Board, at: float, title: str = HOSTILE_TITLE, bound: Bound = MEASURED) -> None:
    page = RecentPage(
        url="https://a.example/",
        title=title,
        site="a.example",
        status=200,
        received_bytes=1,
        seconds=0.1,
        fetched_at=at,
    )
    sample = Sample(
        at=at,
        elapsed_seconds=at - 1000.0,
        counts=Counts(admitted=10, finished=3, leased=1, spooled=2),
        outcomes={"page": 2},
        latency={"total": Percentiles(0.1, 0.2, 0.3)},
        bound=bound,
    )
    board.put(sample, Activity(recent=[page]), b"crawler_pages_crawled_total 3.0\n")


def ask(
    port: int,
    path: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    *,
    address: str = "127.0.0.1",
) -> Reply:
    connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def talk(port: int, sent: bytes) -> bytes:
    """All that comes back, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
        return heard(client)


def heard(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while received := client.recv(65536):
            found += received
    return found


class Dashboard:
    """A server and what it was made of."""

    def __init__(self, explain: Explain = no_question, patience_seconds: float = TIMEOUT_SECONDS) -> None:
        self.board = made_board()
        self.controls = FakeControls()
        self.server = DashboardServer(self.board, self.controls, TOKEN, 0, explain, patience_seconds=patience_seconds)
        self.port = self.server.port

    def get(self, path: str, **headers: str) -> Reply:
        return ask(self.port, path, headers=_fields(headers))

    def post(self, path: str, body: bytes = b"", **headers: str) -> Reply:
        return ask(self.port, path, "POST", _fields(headers), body)

    def search(self, text: str) -> Reply:
        return self.get(f"/api/explain?q={quote(text, safe='')}", X_Gossamer_Token=TOKEN)


def _fields(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextlib.contextmanager
def serving(explain: Explain = no_question, patience_seconds: float = TIMEOUT_SECONDS) -> Iterator[Dashboard]:
    dashboard = Dashboard(explain, patience_seconds)
    with contextlib.closing(dashboard.server):
        yield dashboard


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is honest is waited for, however late it gets its turn."""
    monkeypatch.setattr("gossamer.report.http.LINGER_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr("gossamer.report.http.CLOSE_SECONDS", TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def one_dashboard() -> Iterator[Dashboard]:
    with serving() as made:
        yield made


@pytest.fixture
def dashboard(one_dashboard: Dashboard) -> Dashboard:
    """As if it were new: closing one takes a fifth of a second."""
    one_dashboard.controls.done.clear()
    one_dashboard.board = one_dashboard.server._board = made_board()
    return one_dashboard


# What is shown.


def test_before_the_first_sample_everything_is_there_but_empty(dashboard: Dashboard) -> None:
    reply = dashboard.get("/api/now")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    shown = reply.json
    assert set(shown) == set(
        "now facts state end sample bound activity recent span step points partial spans".split()  # noqa: SIM905
    )
    assert (shown["state"], shown["sample"], shown["points"], shown["span"]) == ("running", None, [], "hour")
    assert (shown["end"], shown["bound"]["by"], shown["partial"]) == (None, "starting", None)
    assert shown["recent"] == {"pages_per_second": None, "outcomes": {}}
    assert shown["facts"]["data_directory"] == "/crawl"
    assert shown["activity"] == {"busiest": [], "failing": [], "recent": []}


def test_now_shows_the_last_sample_what_is_queued_and_the_titles_as_they_are(dashboard: Dashboard) -> None:
    put(dashboard.board, 1005.0)
    dashboard.board.state = "paused"
    shown = dashboard.get("/api/now").json
    assert shown["state"] == "paused"
    assert (shown["sample"]["at"], shown["sample"]["counts"]["queued"]) == (1005.0, 4)
    assert shown["sample"]["latency"]["total"] == {"p50": 0.1, "p90": 0.2, "p99": 0.3}
    assert shown["activity"]["recent"][0]["title"] == HOSTILE_TITLE
    assert [(point["at"], point["outcomes"]) for point in shown["points"]] == [(1005.0, {"page": 2})]


def test_a_title_with_half_a_character_hides_nothing_else(dashboard: Dashboard) -> None:
    put(dashboard.board, 1005.0, title="half \ud800 a pair")
    shown = dashboard.get("/api/now").json
    assert shown["activity"]["recent"][0]["title"] == "half ? a pair"
    assert shown["sample"]["counts"]["queued"] == 4


def test_points_are_those_after_since_of_the_hour_or_of_the_day(dashboard: Dashboard) -> None:
    for number in range(30):
        put(dashboard.board, 1000.0 + 5 * number)

    def times(query: str) -> list[float]:
        return [point["at"] for point in dashboard.get(f"/api/now?{query}").json["points"]]

    assert len(times("")) == 30
    assert times("since=1135") == [1140.0, 1145.0]
    assert times("since=1145.0&span=hour") == []
    # Of a run that is younger than an hour, the day has every sample.
    assert times("span=day&since=1135") == [1140.0, 1145.0]
    for number in range(30, KEPT_SAMPLES + 30):
        put(dashboard.board, 1000.0 + 5 * number)
    last = 1000.0 + 5 * (KEPT_SAMPLES + 29)
    assert times("span=day")[:2] == [1055.0, 1115.0]
    assert times("span=day&since=1055")[0] == 1115.0
    assert times(f"span=5min&since={last - 10}") == [last - 5, last]
    assert (times("span=5min")[0], len(times("span=5min"))) == (last - 295, 60)
    assert times("span=all")[0] == 1000.0
    shown = dashboard.get("/api/now?span=day").json
    assert (shown["step"], shown["partial"]["at"], shown["partial"]["outcomes"]) == (60, last, {"page": 12})
    assert shown["recent"]["outcomes"] == {"page": 120}


def test_every_answer_says_which_run_it_is_from(dashboard: Dashboard) -> None:
    known = dashboard.get("/api/now").headers["X-Gossamer-Run"]
    assert known
    for path in ("/", "/dashboard.js", "/api/explain", "/nothing"):
        assert dashboard.get(path).headers["X-Gossamer-Run"] == known
    with serving() as other:
        assert other.get("/api/now").json["facts"]["identity"] == other.get("/").headers["X-Gossamer-Run"] != known


@pytest.mark.parametrize("path", CONTROLS)
def test_a_control_that_names_another_run_does_nothing(dashboard: Dashboard, path: str) -> None:
    reply = dashboard.post(path, b'{"site": "a.example"}', X_Gossamer_Token=TOKEN, X_Gossamer_Run="another")
    assert (reply.status, dashboard.controls.done) == (409, [])
    assert "another run" in reply.json["error"]


def test_the_line_fits_the_state_though_the_sample_is_older(dashboard: Dashboard) -> None:
    put(dashboard.board, 1005.0, bound=Bound("paused", "paused on the dashboard"))
    assert dashboard.get("/api/now").json["bound"]["because"].startswith("resumed: ")
    dashboard.board.state = "paused"
    assert dashboard.get("/api/now").json["bound"]["because"] == "paused on the dashboard"
    put(dashboard.board, 1010.0, bound=Bound("politeness", "all sites are cooling"))
    assert dashboard.get("/api/now").json["bound"]["by"] == "paused"


# The end.


def test_a_page_that_asks_soon_is_told_how_the_run_ended_before_the_server_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gossamer.report.dashboard.audience.WAIT_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr("gossamer.report.dashboard.audience.LATELY_SECONDS", TIMEOUT_SECONDS)
    with serving() as dashboard:
        for tab in ("one", "other"):
            assert dashboard.get(f"/api/now?tab={tab}").json["state"] == "running"
        dashboard.board.stop_reason = "max_pages"
        dashboard.board.finish()
        closing = threading.Thread(target=dashboard.server.close)
        closing.start()
        for tab in ("one", "other"):
            assert closing.is_alive()
            shown = dashboard.get(f"/api/now?tab={tab}").json
            assert (shown["state"], shown["end"]["reason"]) == ("finished", "max_pages")
            assert list(shown["spans"]) == ["5min", "hour", "day", "all"]
        closing.join(TIMEOUT_SECONDS)
        assert not closing.is_alive()


def test_the_end_waits_for_nobody_who_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for a page in the background, which has not asked for long; else this would take an hour."""
    monkeypatch.setattr("gossamer.report.dashboard.audience.WAIT_SECONDS", 3600.0)
    with serving() as dashboard:
        dashboard.get("/api/now")
        dashboard.get("/api/now?tab=background")
        monkeypatch.setattr("gossamer.report.dashboard.audience.LATELY_SECONDS", -1.0)
        dashboard.board.finish()
    assert dashboard.board.end is not None
    assert dashboard.board.end.reason == "failed"


@pytest.mark.parametrize("query", ["since=soon", "since=nan", "since=inf", "span=week", "&".join(["a=1"] * 9)])
def test_a_bad_parameter_is_a_bad_request(dashboard: Dashboard, query: str) -> None:
    reply = dashboard.get(f"/api/now?{query}")
    assert reply.status == 400
    assert "since" in reply.json["error"]


def test_every_file_of_the_page_is_served_with_its_type_and_not_sent_again_unchanged(dashboard: Dashboard) -> None:
    paths = [path for path in page_routes() if not path.startswith("/api")]
    assert "/" in paths
    for path in paths:
        reply = dashboard.get(path)
        suffix = path.rpartition(".")[2]
        expected = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}.get(suffix, "text/html")
        assert (reply.status, reply.headers["Content-Type"].partition(";")[0]) == (200, expected), path
        assert reply.headers["Cache-Control"] == "no-cache"
        assert reply.body
        again = dashboard.get(path, If_None_Match=f'"other", {reply.headers["ETag"]}')
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", reply.headers["ETag"])


@pytest.mark.parametrize(
    "path", ["/../server.py", "/%2e%2e/server.py", "//etc/passwd", "/page/index.html", "/api", "/x"]
)
def test_nothing_but_the_page_and_the_api_is_served(dashboard: Dashboard, path: str) -> None:
    assert dashboard.get(path).status == 404


def test_the_token_is_in_nothing_that_can_be_got_without_it(dashboard: Dashboard) -> None:
    put(dashboard.board, 1005.0)
    for path in [*page_routes(), "/api/now"]:
        reply = dashboard.get(path)
        assert TOKEN.encode() not in reply.body
        assert TOKEN not in str(reply.headers)


# Headers.


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 200),
        ("HEAD", "/", {}, 200),
        ("GET", "/api/now", {}, 200),
        ("GET", "/nothing", {}, 404),
        ("GET", "/api/pause", {}, 405),
        ("POST", "/api/pause", {}, 403),
        ("POST", "/api/pause", {"X-Gossamer-Token": TOKEN}, 204),
        ("GET", "/", {"Host": "evil.example"}, 403),
        ("GET", "/api/now?since=x", {}, 400),
        ("GET", "/" + "x" * 10_000, {}, 414),
        ("POST", "/api/pause", {"X-Gossamer-Token": TOKEN, "Content-Length": "999999"}, 413),
        ("PURGE", "/", {}, 405),
    ],
)
def test_every_answer_carries_the_headers_that_keep_other_pages_out(
    dashboard: Dashboard, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    reply = ask(dashboard.port, path, method, headers)
    assert reply.status == status
    policy = reply.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy)
    assert not any("unsafe" in part for part in policy)
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    assert reply.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert reply.headers["X-Frame-Options"] == "DENY"
    assert reply.headers["Cache-Control"] == ("no-cache" if (path, status) == ("/", 200) else "no-store")
    assert not {"Server", "Access-Control-Allow-Origin", "Set-Cookie"} & set(reply.headers)
    assert method != "HEAD" or (reply.body, reply.headers["Content-Length"] > "0") == (b"", True)


# Whose requests are answered.


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1.nip.example:{port}"]
)
def test_a_name_that_leads_here_from_elsewhere_gets_nothing(dashboard: Dashboard, host: str) -> None:
    host = host.format(port=dashboard.port)
    for path in ("/", "/api/now", "/api/explain?q=x"):
        assert dashboard.get(path, Host=host).status == 403
    assert dashboard.post("/api/pause", X_Gossamer_Token=TOKEN, Host=host).status == 403
    assert dashboard.controls.done == []


def test_two_hosts_or_none_get_nothing(dashboard: Dashboard) -> None:
    own = f"Host: 127.0.0.1:{dashboard.port}\r\n"
    for hosts in ("", own + own, own + "Host: evil.example\r\n"):
        assert talk(dashboard.port, f"GET /api/now HTTP/1.1\r\n{hosts}\r\n".encode()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_loopback_names_are_answered(dashboard: Dashboard, host: str) -> None:
    assert dashboard.get("/api/now", Host=f"{host}:{dashboard.port}").status == 200


@pytest.mark.parametrize("path", CONTROLS)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "t\xf6ken"])
def test_a_control_without_the_token_is_forbidden_and_does_nothing(
    dashboard: Dashboard, path: str, token: str | None
) -> None:
    headers = {} if token is None else {"X_Gossamer_Token": token}
    reply = dashboard.post(path, b'{"site": "a.example"}', **headers)
    assert reply.status == 403
    assert "token" in reply.json["error"]
    assert dashboard.controls.done == []


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:{port}", ""])
def test_a_control_asked_for_by_a_page_from_elsewhere_is_forbidden_even_with_the_token(
    dashboard: Dashboard, origin: str
) -> None:
    reply = dashboard.post("/api/stop", X_Gossamer_Token=TOKEN, Origin=origin.format(port=dashboard.port))
    assert (reply.status, dashboard.controls.done) == (403, [])


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_the_api_is_closed_to_pages_from_elsewhere(dashboard: Dashboard, site: str) -> None:
    """A page on another port of this machine is of the same site."""
    assert dashboard.get("/api/explain?q=x", Sec_Fetch_Site=site).status == 403
    assert dashboard.get("/api/now", Sec_Fetch_Site=site).status == 403
    assert dashboard.post("/api/stop", X_Gossamer_Token=TOKEN, Sec_Fetch_Site=site).status == 403
    assert dashboard.controls.done == []
    assert dashboard.get("/", Sec_Fetch_Site=site).status == 200  # a link to the dashboard is no harm


def test_a_search_needs_the_token_and_starts_nothing_without_it(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    with serving(crawl.explain) as dashboard:
        for headers in ({}, {"X_Gossamer_Token": ""}, {"X_Gossamer_Token": "wrong"}):
            reply = dashboard.get("/api/explain?q=https://a.example/", **headers)
            assert reply.status == 403
            assert "token" in reply.json["error"]
    assert not crawl.asked.exists()


def test_with_token_and_own_origin_every_control_is_done(dashboard: Dashboard) -> None:
    own = {"Origin": f"http://127.0.0.1:{dashboard.port}", "Sec_Fetch_Site": "same-origin", "X_Gossamer_Token": TOKEN}
    for path in CONTROLS:
        reply = dashboard.post(path, b'{"site": "a.example"}', **own)
        assert (reply.status, reply.body) == (204, b"")
    assert dashboard.controls.done == ["pause", "resume", "stop", "block a.example"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", CONTROLS)
def test_no_other_method_on_a_control_does_anything(dashboard: Dashboard, method: str, path: str) -> None:
    reply = ask(dashboard.port, path, method, {"X-Gossamer-Token": TOKEN})
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
    assert dashboard.controls.done == []


def test_what_is_shown_can_only_be_got(dashboard: Dashboard) -> None:
    reply = dashboard.post("/api/now", X_Gossamer_Token=TOKEN)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"site": 7}', b'{"site": "a", "x": 1}', b"\xff\xfe", b'{"site": "\xff"}', b"site=a"]
)
def test_a_block_without_a_site_is_a_bad_request(dashboard: Dashboard, body: bytes) -> None:
    reply = dashboard.post("/api/block", body, X_Gossamer_Token=TOKEN)
    assert (reply.status, dashboard.controls.done) == (400, [])


def test_what_is_no_site_is_refused_in_the_words_of_the_control(dashboard: Dashboard) -> None:
    reply = dashboard.post("/api/block", b'{"site": "no site"}', X_Gossamer_Token=TOKEN)
    assert (reply.status, reply.json) == (400, {"error": "'no site' is no site"})


# Searching.


class Crawl:
    """What `explain` is asked, and what it says, in place of a crawl."""

    def __init__(self, directory: Path, *, known: str = "") -> None:
        self.asked = directory / "asked"
        program = directory / "explain.py"
        program.write_text(
            "import json, sys\n"
            f"with open({str(self.asked)!r}, 'a') as asked:\n"
            "    asked.write(json.dumps(sys.argv[1:]) + '\\n')\n"
            "url = sys.argv[-1]\n"
            "if 'exit-' in url:\n"
            "    print('gossamer: the words', file=sys.stderr)\n"
            "    sys.exit(int(url.partition('exit-')[2][0]))\n"
            f"print(json.dumps({{'url': url, 'is_admitted': url == {known!r}}}))\n"
        )
        self.explain = ExplainCommand(directory, [sys.executable, "-I", "-S", str(program), "--"])

    def arguments(self) -> list[list[str]]:
        return [json.loads(line) for line in self.asked.read_text().splitlines()]


def test_a_url_is_explained_as_it_was_typed(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    with serving(crawl.explain) as dashboard:
        reply = dashboard.search("https://a.example/x?y=1&z=ü #f")
    url = "https://a.example/x?y=1&z=ü #f"
    assert reply.json == {"typed": url, "kind": "url", "explanation": {"url": url, "is_admitted": False}}
    assert crawl.arguments() == [["--", url]]


@pytest.mark.parametrize("known", ["https://a.example/", "http://a.example/", ""])
def test_of_a_site_the_root_is_explained_that_the_crawl_knows(tmp_path: Path, known: str) -> None:
    crawl = Crawl(tmp_path, known=known)
    with serving(crawl.explain) as dashboard:
        reply = dashboard.search("A.example")
    assert (reply.json["kind"], reply.json["explanation"]["url"]) == ("site", known or "https://a.example/")
    asked = ["https://a.example/", "http://a.example/"]
    assert crawl.arguments() == [["--", url] for url in (asked[:1] if known == asked[0] else asked)]


@pytest.mark.parametrize(
    ("typed", "kind", "urls"),
    [
        ("example.org", "site", ("https://example.org/", "http://example.org/")),
        (" example.org:8080 ", "site", ("https://example.org:8080/", "http://example.org:8080/")),
        ("bücher.example", "site", ("https://xn--bcher-kva.example/", "http://xn--bcher-kva.example/")),
        ("[::1]", "site", ("https://[::1]/", "http://[::1]/")),
        ("example.org/a", "url", ("https://example.org/a", "http://example.org/a")),
        ("//example.org/a", "url", ("https://example.org/a", "http://example.org/a")),
        ("example.org:8080/a", "url", ("https://example.org:8080/a", "http://example.org:8080/a")),
        ("HTTP://example.org", "url", ("HTTP://example.org",)),
        ("mailto:a@example.org", "url", ("mailto:a@example.org",)),
        ("javascript:alert(1)", "url", ("javascript:alert(1)",)),
        ("two words", "site", ("https://two words/", "https://two words/")),
    ],
)
def test_what_is_typed_is_read_as_a_url_or_a_site(typed: str, kind: str, urls: tuple[str, ...]) -> None:
    question = read_question(typed)
    assert (question.kind, question.urls) == (kind, urls)


@pytest.mark.parametrize("typed", ["--help", "--", "-h", "--json", "-", "--=x", "—help", "/--help", " --help", "@file"])
def test_nothing_that_is_typed_becomes_a_flag(typed: str) -> None:
    assert all(url.startswith(("https://", "http://")) for url in read_question(typed).urls)


@pytest.mark.parametrize("typed", ["", " \n ", "a\nb", "--help\n--help", "a\x00b", "a\x1b[31m", "x" * 5000])
def test_what_cannot_be_looked_for_is_a_bad_request_and_starts_nothing(tmp_path: Path, typed: str) -> None:
    crawl = Crawl(tmp_path)
    with serving(crawl.explain) as dashboard:
        reply = dashboard.search(typed)
    assert reply.status == 400
    assert "\n" not in reply.json["error"]
    assert not crawl.asked.exists()


def test_a_search_of_a_megabyte_is_refused_before_it_is_read(dashboard: Dashboard) -> None:
    assert dashboard.search("x" * (1 << 20)).status == 414


@pytest.mark.parametrize(("code", "status", "words"), [(2, 400, "the words"), (3, 503, "the words"), (1, 500, "log")])
def test_what_explain_complains_of_is_told(tmp_path: Path, code: int, status: int, words: str) -> None:
    with serving(Crawl(tmp_path).explain) as dashboard:
        reply = dashboard.search(f"https://a.example/exit-{code}")
    assert reply.status == status
    assert words in reply.json["error"]


def test_a_search_that_takes_too_long_is_given_up_and_its_process_ended(tmp_path: Path) -> None:
    explain = ExplainCommand(tmp_path, _sleeper(), patience_seconds=0.3)
    before = psutil.Process().children()
    with serving(explain) as dashboard:
        assert dashboard.search("https://a.example/").status == 504
        assert psutil.Process().children() == before


def _sleeper() -> list[str]:
    return [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


def test_closing_ends_the_search_that_is_under_way_with_its_process(tmp_path: Path) -> None:
    before = psutil.Process().children()
    with serving(ExplainCommand(tmp_path, _sleeper())) as dashboard:
        asking = threading.Thread(target=lambda: talk(dashboard.port, search_for("x.example", dashboard.port)))
        asking.start()
        _until(lambda: psutil.Process().children() != before)
    asking.join(TIMEOUT_SECONDS)
    assert not asking.is_alive()
    assert psutil.Process().children() == before


def search_for(text: str, port: int) -> bytes:
    head = f"GET /api/explain?q={text} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Gossamer-Token: {TOKEN}\r\n\r\n"
    return head.encode()


def test_one_search_at_a_time_some_wait_and_the_next_is_sent_away() -> None:
    go_on, running, most = threading.Event(), [0], [0]

    def explain(typed: str) -> object:
        running[0] += 1
        most[0] = max(most[0], running[0])
        go_on.wait(TIMEOUT_SECONDS)
        running[0] -= 1
        return {"typed": typed}

    with serving(explain) as dashboard:
        replies: list[Reply] = []
        asking = [
            threading.Thread(target=lambda: replies.append(dashboard.search("x"))) for _ in range(2 + MOST_WAITING)
        ]
        for thread in asking:
            thread.start()
        _until(lambda: len(replies) == 1)
        assert (replies[0].status, replies[0].headers["Retry-After"]) == (429, "5")
        go_on.set()
        for thread in asking:
            thread.join(TIMEOUT_SECONDS)
    assert sorted(reply.status for reply in replies) == [200] * (1 + MOST_WAITING) + [429]
    assert most == [1]


@pytest.mark.parametrize(("error", "status"), [(StoreUnavailable, 503), (UsageError, 400), (GossamerError, 500)])
def test_errors_of_a_search_have_their_words(error: type[GossamerError], status: int) -> None:
    def explain(typed: str) -> object:
        raise error(f"because of {typed}")

    with serving(explain) as dashboard:
        reply = dashboard.search("<b>")
    assert (reply.status, reply.json) == (status, {"error": "because of <b>"})


def test_a_real_crawl_is_asked_by_a_process_of_its_own(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "crawl")
    settings = Settings(identity=IdentitySettings(email="a@example.org"))
    data.create()
    data.write_settings(settings)
    data.record_frontier(Frontier(crawl="test", is_made=True))
    data.seeds.write_text("")
    url = canonicalise("http://a.example/")
    assert isinstance(url, Url)

    async def admit() -> None:
        store = SqliteStore(data.frontier, settings.url.slots)
        await store.open()
        try:
            await store.begin_run(latest_not_before_seconds=1e6)
            candidate = Candidate(
                url.text, url.site, url.fingerprint, is_seed=True, path_fingerprint=path_fingerprint(url.text)
            )
            await store.admit([candidate], AdmissionRules(settings.scope, Exclusions()).limits, now=0.0)
        finally:
            await store.close()

    asyncio.run(admit())
    with serving(ExplainCommand(data.root, patience_seconds=TIMEOUT_SECONDS)) as dashboard:
        found = dashboard.search("a.example").json
        bad = dashboard.search("--help me")
    assert (found["kind"], found["explanation"]["url"], found["explanation"]["verdict"]) == ("site", url.text, "queued")
    assert bad.status == 400
    assert bad.json["error"].startswith("'https://--help me/' is no URL")


# What a client can do to the server.


def test_a_client_that_sends_nothing_or_little_by_little_is_dropped() -> None:
    with serving(patience_seconds=SHORT_SECONDS) as dashboard:
        with socket.create_connection(("127.0.0.1", dashboard.port), TIMEOUT_SECONDS) as silent:
            assert heard(silent) == b""
        with socket.create_connection(("127.0.0.1", dashboard.port), TIMEOUT_SECONDS) as slow:
            sent = 0
            with contextlib.suppress(ConnectionError):
                for letter in b"GET /api/now HTTP/1.1\r\nX: " + b"x" * 2000:
                    slow.sendall(bytes([letter]))
                    sent += 1
                    time.sleep(0.02)
            assert sent < 2000
        with socket.create_connection(("127.0.0.1", dashboard.port), TIMEOUT_SECONDS) as body:
            body.sendall(
                f"POST /api/pause HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\nX-Gossamer-Token: {TOKEN}\r\n"
                "Content-Length: 10\r\n\r\n{".encode()
            )
            assert heard(body) == b""
        assert dashboard.controls.done == []
        dashboard.server._server._listener.patience_seconds = TIMEOUT_SECONDS
        assert dashboard.get("/api/now").status == 200


class _Vast:
    """More than the buffers of two sockets hold. Once a client has asked for it, the server has little patience."""

    headers: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.server = HttpServer("127.0.0.1", 0, self, patience_seconds=TIMEOUT_SECONDS)

    def routes(self) -> Mapping[str, Route]:
        return {"/": Route("GET", self._answer)}

    def _answer(self, _: Request) -> Answer:
        self.server._listener.patience_seconds = SHORT_SECONDS
        self.is_asked.set()
        return Answer(body=bytes(64 << 20))

    def refusal(self, request: Request) -> Answer | None:
        return None if request.path == "/" else Answer(body=b"no")


def test_a_client_that_does_not_take_its_answer_is_dropped() -> None:
    vast = _Vast()
    server = vast.server
    with contextlib.closing(server), socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert vast.is_asked.wait(TIMEOUT_SECONDS)
        _until(lambda: not any(thread.name == "http-request" for thread in threading.enumerate()))
        assert len(heard(client)) < 64 << 20


def test_slow_clients_beyond_the_limit_do_not_keep_a_good_one_out() -> None:
    """Half of them send nothing, the others half a request, and none of them ends before the good one is answered."""
    with serving() as dashboard, contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", dashboard.port), TIMEOUT_SECONDS))
            for _ in range(MOST_CONNECTIONS + 8)
        ]
        for client in slow[::2]:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"GET /api/now HTTP/1.1\r\n")
        for _ in range(3):
            assert dashboard.get("/api/now").status == 200
        # The oldest had to go, and each good one took the place of one more.
        assert all(heard(client) == b"" for client in slow[: len(slow) - MOST_CONNECTIONS])
        assert slow[-1].send(b"x") == 1


def test_clients_that_do_not_take_their_answers_do_not_keep_a_good_one_out() -> None:
    asked: list[int] = []

    class Large:
        headers: Mapping[str, str] = {}

        def routes(self) -> Mapping[str, Route]:
            return {"/large": Route("GET", self.large), "/": Route("GET", lambda _: Answer(body=b"small"))}

        def large(self, _: Request) -> Answer:
            asked.append(1)
            return Answer(body=bytes(16 << 20))

        def refusal(self, _: Request) -> Answer | None:
            return None

    server = HttpServer("127.0.0.1", 0, Large(), patience_seconds=TIMEOUT_SECONDS)
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        for number in range(MOST_CONNECTIONS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS))
            client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            _until(lambda number=number: len(asked) > number)  # type: ignore[misc]
        assert ask(server.port, "/").body == b"small"


def test_when_all_connections_are_being_answered_the_next_is_refused() -> None:
    go_on, asked = threading.Event(), threading.Semaphore(0)

    class Slow:
        headers: Mapping[str, str] = {}

        def routes(self) -> Mapping[str, Route]:
            return {"/": Route("GET", self.answer)}

        def answer(self, _: Request) -> Answer:
            asked.release()
            go_on.wait(TIMEOUT_SECONDS)
            return Answer(body=b"done")

        def refusal(self, _: Request) -> Answer | None:
            return None

    server = HttpServer("127.0.0.1", 0, Slow(), patience_seconds=TIMEOUT_SECONDS)
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS))
            for _ in range(MOST_CONNECTIONS)
        ]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        for _ in clients:
            assert asked.acquire(timeout=TIMEOUT_SECONDS)
        assert talk(server.port, b"").startswith(b"HTTP/1.1 503 ")
        go_on.set()
        assert all(heard(client).endswith(b"done") for client in clients)


def test_a_body_that_is_too_large_is_refused_and_the_client_hears_of_it(dashboard: Dashboard) -> None:
    # More than the buffers hold: the client is still sending when it is answered.
    reply = dashboard.post("/api/block", bytes(LINGER_BYTES - (1 << 16)), X_Gossamer_Token=TOKEN)
    assert reply.status == 413
    assert str(BODY_BYTES) in reply.json["error"]
    assert dashboard.post("/api/block", b"x" * (BODY_BYTES + 1), X_Gossamer_Token=TOKEN).status == 413
    assert dashboard.post("/api/block", b"x" * BODY_BYTES, X_Gossamer_Token=TOKEN).status == 400


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ("Content-Length: -1", 400),
        ("Content-Length: x", 400),
        ("Content-Length: ²", 400),
        ("Content-Length: 1\r\nContent-Length: 2", 400),
        (f"Content-Length: {'9' * 10_000}", 413),
        ("Transfer-Encoding: chunked", 411),
    ],
)
def test_a_body_of_unknown_length_is_refused(dashboard: Dashboard, fields: str, status: int) -> None:
    head = (
        f"POST /api/pause HTTP/1.1\r\nHost: localhost:{dashboard.port}\r\nX-Gossamer-Token: {TOKEN}\r\n{fields}\r\n\r\n"
    )
    assert talk(dashboard.port, head.encode("latin-1")).startswith(f"HTTP/1.1 {status} ".encode())
    assert dashboard.controls.done == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * TARGET_BYTES + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES + b"\r\n\r\n", 431),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 400),
        (b"<script>alert(1)</script> / x y z\r\n\r\n", 400),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /\r\n", 403),
    ],
    ids=["target", "headers", "header", "version", "TLS", "script", "proxy", "0.9"],
)
def test_what_is_no_good_request_is_refused_without_an_echo(dashboard: Dashboard, sent: bytes, status: int) -> None:
    reply = talk(dashboard.port, sent + b"\r\n")
    assert reply.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Security-Policy" in reply
    assert b"script>" not in reply
    assert b"Python" not in reply


def test_an_error_of_ours_is_a_500_that_tells_nothing_and_is_logged_once(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def explain(_: str) -> object:
        raise RuntimeError("a secret of ours")

    caplog.set_level(logging.DEBUG, "gossamer")
    with serving(explain) as dashboard:
        reply = dashboard.search("x")
    assert reply.status == 500
    assert b"secret" not in reply.body
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [str(error.exc_info and error.exc_info[1]) for error in errors] == ["a secret of ours"]
    assert capfd.readouterr() == ("", "")


def test_what_is_searched_for_is_not_in_the_log(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG, "gossamer")
    with serving(Crawl(tmp_path).explain) as dashboard:
        reply = dashboard.search("https://user:hunter2canary@a.example/")
    assert reply.json["typed"] == "https://***@a.example/"
    assert "/api/explain" in caplog.text
    assert "hunter2canary" not in caplog.text


# Ports, addresses, the end.


def test_a_port_that_is_taken_is_left_alone_and_the_next_one_used() -> None:
    with serving() as first:
        second = DashboardServer(first.board, first.controls, TOKEN, first.port, no_question)
        with contextlib.closing(second):
            assert first.port < second.port <= first.port + FURTHER_PORTS
            assert second.url == f"http://127.0.0.1:{second.port}/"
            assert [ask(port, "/api/now").status for port in (first.port, second.port)] == [200, 200]


def test_where_all_ports_are_taken_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.report.http.FURTHER_PORTS", 0)
    with serving() as first, pytest.raises(OSError, match=f"the ports {first.port} to {first.port} .* are all taken"):
        MetricsServer(first.board, "127.0.0.1", first.port)


def test_an_address_that_is_not_ours_is_an_error_and_not_a_taken_port() -> None:
    with pytest.raises(OSError, match="annot assign"):
        MetricsServer(made_board(), "192.0.2.1", 9470)


def test_close_ends_every_thread_and_connection_and_frees_the_port() -> None:
    before = set(threading.enumerate())
    with serving() as dashboard:
        client = socket.create_connection(("127.0.0.1", dashboard.port), TIMEOUT_SECONDS)
        client.sendall(b"GET /api")
        _until(lambda: len(set(threading.enumerate()) - before) == 2)
    with client:
        assert heard(client) == b""
    assert set(threading.enumerate()) <= before
    dashboard.server.close()
    with contextlib.closing(DashboardServer(made_board(), FakeControls(), TOKEN, dashboard.port, no_question)) as again:
        assert again.port == dashboard.port


def test_the_dashboard_listens_on_loopback_alone(dashboard: Dashboard) -> None:
    listening = [
        found.laddr.ip
        for found in psutil.Process().net_connections("inet")
        if found.status == psutil.CONN_LISTEN and found.laddr.port == dashboard.port
    ]
    assert listening == ["127.0.0.1"]


def test_an_empty_token_opens_nothing() -> None:
    with pytest.raises(ValueError, match="empty token"):
        DashboardServer(made_board(), FakeControls(), "", 0, no_question)


def test_the_addresses_are_the_owners_alone_and_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_addresses(tmp_path) is None
    token = make_token()
    addresses = Addresses(dashboard="http://127.0.0.1:8470/", metrics=None, token=token)
    (tmp_path / "dashboard.json.new").write_text("of a killed run, and readable by all")
    for _ in range(2):
        write_addresses(tmp_path, addresses)
    assert read_addresses(tmp_path) == addresses
    assert stat.S_IMODE((tmp_path / "dashboard.json").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "dashboard.json").read_bytes()) == {
        "dashboard": "http://127.0.0.1:8470/",
        "metrics": None,
        "token": token,
    }
    assert addresses.link == f"http://127.0.0.1:8470/#token={token}"
    assert Addresses(token=token).link is None
    (tmp_path / "dashboard.json").write_bytes(b"\xff")
    assert read_addresses(tmp_path) is None
    remove_addresses(tmp_path)
    remove_addresses(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert make_token() != token


# Metrics.


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_the_metrics_are_what_is_on_the_board(address: str) -> None:
    board = made_board()
    with contextlib.closing(MetricsServer(board, address, 0)) as server:
        empty = ask(server.port, "/metrics", address=address)
        assert (empty.status, empty.body) == (200, b"")
        assert empty.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        put(board, 1005.0)
        reply = ask(server.port, "/metrics", address=address)
        assert (reply.status, reply.body) == (200, board.exposition)
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        shown = f"[{address}]" if ":" in address else address
        assert server.url == f"http://{shown}:{server.port}/metrics"


def test_the_metrics_are_compressed_for_who_accepts_that() -> None:
    board = made_board()
    board.exposition = b"crawler_pages_crawled_total 3.0\n" * 1000
    with contextlib.closing(MetricsServer(board, "127.0.0.1", 0)) as server:
        for accepted in ("gzip", "br, gzip;q=0.5", "deflate,GZIP"):
            reply = ask(server.port, "/metrics", headers={"Accept-Encoding": accepted})
            assert reply.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(reply.body) == board.exposition
        for accepted in ("identity", "gzip;q=0", "x-gzip2", ""):
            reply = ask(server.port, "/metrics", headers={"Accept-Encoding": accepted})
            assert (reply.body, "Content-Encoding" in reply.headers) == (board.exposition, False)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("127.0.0.1", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{port}", 200),
        ("192.0.2.7:1234", 200),
        ("crawler.example.org:{port}", 200),
        (socket.gethostname(), 200),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("org", 403),
        ("localhost:evil", 403),
        ("", 403),
    ],
)
def test_the_metrics_are_served_under_our_own_names_alone(host: str, status: int) -> None:
    with contextlib.closing(MetricsServer(made_board(), "127.0.0.1", 0, ["Crawler.example.org"])) as server:
        for path in ("/", "/metrics"):
            reply = ask(server.port, path, headers={"Host": host.format(port=server.port)})
            assert reply.status == status
            assert status == 200 or "--metrics-hosts" in reply.json["error"]


def test_the_metrics_want_one_host() -> None:
    with contextlib.closing(MetricsServer(made_board(), "127.0.0.1", 0)) as server:
        for hosts in ("", "Host: localhost\r\nHost: evil.example\r\n"):
            assert talk(server.port, f"GET /metrics HTTP/1.1\r\n{hosts}\r\n".encode()).startswith(b"HTTP/1.1 403 ")


def test_the_metrics_can_only_be_read_and_have_a_front_page() -> None:
    with contextlib.closing(MetricsServer(made_board(), "127.0.0.1", 0)) as server:
        front = ask(server.port, "/")
        assert (front.status, b'href="/metrics"' in front.body) == (200, True)
        assert ask(server.port, "/metrics", "HEAD").status == 200
        assert ask(server.port, "/metrics", "POST").status == 405
        assert ask(server.port, "/api/now").status == 404
        assert "Server" not in front.headers


def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)
