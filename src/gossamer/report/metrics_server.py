"""Where a Prometheus asks for the metrics. The leader makes one, unless it is turned off."""

from collections.abc import Mapping

from gossamer.report.board import Board
from gossamer.report.http import SAFE_HEADERS, Answer, HttpServer, Request, Route


class MetricsServer:
    """`/metrics` for a Prometheus: what the leader put on the board last. Whoever reaches the address may read it."""

    headers: Mapping[str, str] = SAFE_HEADERS | {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"
    }

    def __init__(self, board: Board, address: str, port: int) -> None:
        self._board = board
        self._routes = {"/": Route("GET", self._link), "/metrics": Route("GET", self._metrics)}
        self._server = HttpServer(address, port, self)
        self.port = self._server.port
        self.url = f"{self._server.url}metrics"

    def close(self) -> None:
        self._server.close()

    def routes(self) -> Mapping[str, Route]:
        return self._routes

    def refusal(self, request: Request) -> Answer | None:  # noqa: ARG002 (nobody is refused what can only be read)
        return None

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
