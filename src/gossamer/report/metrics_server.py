"""Where a Prometheus asks for the metrics. The leader makes one, unless it is turned off.

A web page can make a name of its own lead to this address, and then have the browser read the metrics for it (DNS
rebinding). So the `Host` of a request must be an IP address, `localhost`, the name of this machine, or a name that the
settings allow. The port in it does not matter: it may be another one behind a tunnel or a container's network.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from gossamer.report.board import Board
from gossamer.report.http import SAFE_HEADERS, Answer, HttpServer, Request, Route, problem

_PORT = re.compile(r":[0-9]{1,5}\Z")


class MetricsServer:
    """`/metrics` for a Prometheus: what the leader put on the board last. Whoever reaches it by an address or a name
    that is ours may read it."""

    headers: Mapping[str, str] = SAFE_HEADERS | {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"
    }

    def __init__(self, board: Board, address: str, port: int, names: Iterable[str] = ()) -> None:
        """`names` may stand in `Host`, besides those that always may."""
        self._board = board
        self._names = {name.lower() for name in (*names, "localhost", socket.gethostname())}
        self._routes = {"/": Route("GET", self._link), "/metrics": Route("GET", self._metrics)}
        self._server = HttpServer(address, port, self)
        self.port = self._server.port
        self.url = f"{self._server.url}metrics"

    def close(self) -> None:
        self._server.close()

    def routes(self) -> Mapping[str, Route]:
        return self._routes

    def refusal(self, request: Request) -> Answer | None:
        hosts = request.headers.get_all("Host", [])
        if len(hosts) == 1 and self._is_own(_PORT.sub("", hosts[0].strip().lower())):
            return None
        return problem(
            HTTPStatus.FORBIDDEN,
            "the metrics are not served under this name: use an IP address, or allow the name with --metrics-hosts",
        )

    def _is_own(self, host: str) -> bool:
        if host in self._names:
            return True
        try:
            # No name leads to an origin that is an address: a page cannot have it but from there.
            return bool(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
        except ValueError:
            return False

    def _metrics(self, _: Request) -> Answer:
        return Answer(
            body=self._board.exposition,
            content_type="text/plain; version=0.0.4; charset=utf-8",
            headers={"Cache-Control": "no-store"},
        )

    def _link(self, _: Request) -> Answer:
        page = (
            b'<!doctype html><title>Gossamer</title><p>The metrics of this crawl: <a href="/metrics">/metrics</a></p>'
        )
        return Answer(body=page, content_type="text/html; charset=utf-8")
