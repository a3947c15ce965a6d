"""The HTTP side of the dashboard, and its API. The leader makes one; the page in `page/` is its only client of ours.

It listens on 127.0.0.1 alone. Every answer carries `HEADERS`; whatever goes wrong is `{"error": "words for a person"}`.

GET /, /NAME
    The files of `page/`; `/` is index.html. With an ETag: 304 where nothing has changed.
GET /api/now[?since=UNIXTIME][&span=5min|hour|day|all][&tab=NAME]
    now         the clock here, Unix time: ages are to be counted from it
    facts       `report.board.Facts`; `identity` is this run's alone
    state       "running", "paused", "stopping" or "finished"
    end         null, or how a finished run ended: `report.board.End`
    sample      `report.sample.Sample`, and `counts.queued` besides; null before the first one
    bound       `report.sample.Bound`: what limits the crawl now; fits `state`, which may be newer than the sample
    activity    `report.sample.Activity`; everything in it is from the web
    recent      of the last five minutes: `pages_per_second` (the mean; null before the first sample), and `outcomes`
    span        "hour" is the default
    step        seconds between two points. If it has changed, all points have: ask for them again, without `since`
    points      list of `report.history.Point`, the oldest first;
                with `since` only those later than that: give the `at` of the last point that was got
    partial     null, or a point of what was measured since the last one of `points`
    spans       null; of a finished run, `step`, `points` and `partial` of every span, because nobody can ask again
    A page gives a name of its own choice as `tab`: if it asks every few seconds, the server waits for it at the end.
GET /api/explain?q=TEXT (needs the token)
    What became of a URL; of a site (a host, without a scheme), what became of the root of its https or http origin.
    typed         q
    kind          "url" or "site" (q has neither a scheme nor a path)
    explanation   what `gossamer explain --json` prints (`look.explanation.Explanation`)
    400 what is no URL, 429 too many ask at once, 503 the store does not answer, 504 no answer in half a minute
POST /api/pause, /api/resume, /api/stop     no body
POST /api/block                             {"site": "example.org"}
    204: it is done, or under way; `state` will tell. 400: that is not a site. 409: `X-Gossamer-Run` names another run.

Every answer says which run it is from: the header `X-Gossamer-Run` has the `identity` of its facts.

Whose requests are answered:

- `Host` must name a loopback address and our port, or it is 403: a name that leads here from elsewhere is a trick.
- What /api is asked must come from this page or from no page (`Sec-Fetch-Site`), or it is 403.
- A POST and /api/explain need the header `X-Gossamer-Token`, and an `Origin`, if there is one, that is our own; else
  403. A search starts a process and says what the crawl knows of any URL: that is for the owner of the crawl.
- No GET changes anything.
"""

import hashlib
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import msgspec

from gossamer.errors import GossamerError, StoreUnavailable, UsageError
from gossamer.report.board import Board, Controls
from gossamer.report.bounds import bound_now
from gossamer.report.dashboard.audience import Audience
from gossamer.report.dashboard.questions import Explain, ExplainCommand, OneAtATime, TooManyQuestions
from gossamer.report.history import SPANS, Point, Series
from gossamer.report.http import PATIENCE_SECONDS, SAFE_HEADERS, Answer, HttpServer, Request, Route, problem
from gossamer.report.sample import Sample

log = logging.getLogger("gossamer.report")

ADDRESS = "127.0.0.1"
TOKEN_HEADER = "X-Gossamer-Token"  # noqa: S105 (the name of it)
RUN_HEADER = "X-Gossamer-Run"
#: Nothing is kept by the browser but the files of the page, and those are asked for again each time.
HEADERS: Mapping[str, str] = SAFE_HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
#: More than any request of the page has.
_MOST_PARAMETERS = 8


class _Block(msgspec.Struct, forbid_unknown_fields=True):
    """The body of /api/block."""

    site: str


class DashboardServer:
    """Serves from the moment it is made until `close`. Raises OSError if there is no port for it."""

    def __init__(
        self,
        board: Board,
        controls: Controls,
        token: str,
        port: int,
        explain: Explain,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """An `ExplainCommand` is closed with the server."""
        if not token:
            raise ValueError("an empty token would be anybody's")
        self.headers: Mapping[str, str] = {**HEADERS, RUN_HEADER: board.facts.identity}
        self._board = board
        self._controls = controls
        self._audience = Audience()
        self._token = token.encode()
        self._explain = explain
        self._questions = OneAtATime(explain)
        self._routes = page_routes() | {
            "/api/now": Route("GET", self._now),
            "/api/explain": Route("GET", self._answer_question),
            "/api/pause": Route("POST", partial(self._control, controls.pause)),
            "/api/resume": Route("POST", partial(self._control, controls.resume)),
            "/api/stop": Route("POST", partial(self._control, controls.stop)),
            "/api/block": Route("POST", self._block),
        }
        self._server = HttpServer(ADDRESS, port, self, patience_seconds=patience_seconds)
        self.port = self._server.port
        self.url = self._server.url

    def close(self) -> None:
        """If the board says how the run ended, those who look on have a moment to get to know it."""
        if self._board.end is not None:
            self._audience.wait()
        if isinstance(self._explain, ExplainCommand):
            self._explain.close()
        self._server.close()

    # Whose requests are answered.

    def routes(self) -> Mapping[str, Route]:
        return self._routes

    def refusal(self, request: Request) -> Answer | None:
        hosts = request.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in _own_hosts(request.port):
            return _forbidden(
                f"this address is not the dashboard's: open http://{ADDRESS}:{request.port}/ (through ssh -L, with the"
                " same port on both sides)"
            )
        asked_from = request.headers.get_all("Sec-Fetch-Site", [])
        if request.path.startswith("/api/") and not set(asked_from) <= {"same-origin", "none"}:
            return _forbidden("asked by a page from elsewhere")
        if request.method != "POST" and request.path != "/api/explain":
            return None
        if not set(request.headers.get_all("Origin", [])) <= {f"http://{hosts[0].lower()}"}:
            return _forbidden("asked by a page from elsewhere")
        if not set(request.headers.get_all(RUN_HEADER, [])) <= {self.headers[RUN_HEADER]}:
            return problem(HTTPStatus.CONFLICT, "this page belongs to another run; open the address again")
        given = request.headers.get(TOKEN_HEADER, "").encode(errors="replace")
        if not secrets.compare_digest(given, self._token):
            return _forbidden("this needs the token: it is in dashboard.json of the data directory")
        return None

    # What is asked.

    def _now(self, request: Request) -> Answer:
        try:
            asked = _parameters(request)
            since = float(asked.get("since", "0"))
        except ValueError:
            return problem(HTTPStatus.BAD_REQUEST, "since is no time; give seconds, as in since=1700000000.5")
        span = next((each for each in SPANS if each == asked.get("span", "hour")), None)
        if not math.isfinite(since) or span is None:
            return problem(HTTPStatus.BAD_REQUEST, f"since is a time in seconds, and span is one of {', '.join(SPANS)}")
        board = self._board
        # First: what is said beside it may be newer, never older.
        end, state = board.end, board.state
        series = board.history.series(span)
        answer = {
            "now": time.time(),
            "facts": board.facts,
            "state": state,
            "end": end,
            "sample": board.sample and _with_queued(board.sample),
            "bound": bound_now(board.sample, state),
            "activity": board.activity,
            "recent": _recent(board.history.series("5min").points),
            "span": span,
            "step": series.step_seconds,
            "points": [point for point in series.points if point.at > since],
            "partial": series.partial,
            "spans": None if end is None else {each: _series(board.history.series(each)) for each in SPANS},
        }
        if tab := asked.get("tab"):
            self._audience.note(tab, knows_end=end is not None)
        return Answer(body=_json(answer))

    def _answer_question(self, request: Request) -> Answer:
        try:
            typed = _parameters(request).get("q", "")
        except ValueError:
            return problem(HTTPStatus.BAD_REQUEST, "that is no search; ask /api/explain?q=…")
        try:
            return Answer(body=_json(self._questions.ask(typed)))
        except UsageError as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        except TooManyQuestions as error:
            return problem(HTTPStatus.TOO_MANY_REQUESTS, str(error), {"Retry-After": "5"})
        except StoreUnavailable as error:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except TimeoutError as error:
            return problem(HTTPStatus.GATEWAY_TIMEOUT, str(error))
        except GossamerError as error:
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _control(self, act: Callable[[], None], request: Request) -> Answer:
        log.info("asked for at the dashboard: %s", request.path)
        act()
        return Answer(status=HTTPStatus.NO_CONTENT)

    def _block(self, request: Request) -> Answer:
        try:
            site = msgspec.json.decode(request.body, type=_Block).site
        except (msgspec.DecodeError, UnicodeDecodeError):
            return problem(HTTPStatus.BAD_REQUEST, 'no site was named; send {"site": "example.org"}')
        try:
            self._controls.block(site)
        except UsageError as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        log.info("asked for at the dashboard: block %s", site)
        return Answer(status=HTTPStatus.NO_CONTENT)


def page_routes() -> dict[str, Route]:
    """The files of the page, read now and kept: they are small, and an upgrade must not change them under a crawl."""
    routes: dict[str, Route] = {}
    for file in (files("gossamer.report.dashboard") / "page").iterdir():
        content_type = _CONTENT_TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            name = "" if file.name == "index.html" else file.name
            routes[f"/{name}"] = Route("GET", partial(_file, file.read_bytes(), content_type))
    return routes


def _file(content: bytes, content_type: str, request: Request) -> Answer:
    # Weak: the same for the file and for its compressed form.
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    known = ",".join(request.headers.get_all("If-None-Match", [])).split(",")
    if tag in (one.strip() for one in known):
        return Answer(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Answer(body=content, content_type=content_type, headers=headers)


def _own_hosts(port: int) -> set[str]:
    names = {ADDRESS, "localhost", "[::1]"}
    # Browsers leave out the port that is usual.
    return {f"{name}:{port}" for name in names} | (names if port == 80 else set())


def _forbidden(words: str) -> Answer:
    return problem(HTTPStatus.FORBIDDEN, words)


def _parameters(request: Request) -> dict[str, str]:
    """The last one of each name. Raises ValueError for too many."""
    found = parse_qs(request.query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    return {name: values[-1] for name, values in found.items()}


def _with_queued(sample: Sample) -> dict[str, Any]:
    counts = msgspec.structs.asdict(sample.counts) | {"queued": sample.counts.queued}
    return msgspec.structs.asdict(sample) | {"counts": counts}


def _series(series: Series) -> dict[str, Any]:
    return {"step": series.step_seconds, "points": series.points, "partial": series.partial}


def _recent(points: Sequence[Point]) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    for point in points:
        outcomes.update(point.outcomes)
    rate = sum(point.pages_per_second for point in points) / len(points) if points else None
    return {"pages_per_second": rate, "outcomes": outcomes}


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A title may hold half a character; that must not hide all the rest.
        return msgspec.json.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(entry) for key, entry in value.items()}
    return [_whole(entry) for entry in value] if isinstance(value, list | tuple) else value
