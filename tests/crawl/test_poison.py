"""Pages that kill their readers cost themselves, and nobody else a page."""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contract.test_parser import POISON
from tests.crawl.conftest import PATIENCE_SECONDS, pages_in

BAD_SITES = 24
GOOD_SITES = 6
GOOD_PAGES = 8


class Web(http.server.BaseHTTPRequestHandler):
    """Good sites of some pages each, and sites of one page that kills whoever parses it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host = self.headers["Host"]
        links = b"".join(b"<a href=/p%d>x</a>" % number for number in range(1, GOOD_PAGES))
        body = POISON if host.startswith("bad") else b"<title>Good</title>" + links
        if self.path == "/robots.txt":
            body = b""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None: ...  # noqa: A002 (the name that it has there)


@contextlib.contextmanager
def serving() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_sites_with_deadly_pages_cost_two_parsers_at_most_and_no_page_of_others(tmp_path: Path) -> None:
    data, seeds = tmp_path / "crawl", tmp_path / "seeds"
    names = [f"bad{number}" for number in range(BAD_SITES)] + [f"good{number}" for number in range(GOOD_SITES)]
    seeds.write_text("".join(f"http://{name}.test/\n" for name in names))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    with serving() as port:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "gossamer", "crawl", f"--data-dir={data}", f"--seed-file={seeds}"),
                *("--email=test@example.org", "--delay=0.1", f"--connect-to=127.0.0.1:{port}", "--json"),
                *("--num-fetcher-processes=1", "--num-parser-processes=2", "--allow-private-addresses"),
                "--header-timeout=100",
            ],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["stop_reason"] == "exhausted"
    # Each parser may meet its first one before it has heard of the other's.
    assert 1 <= summary["restarts"] <= 2
    urls = [row["url"] for row in pages_in(data)]
    assert len(urls) == len(set(urls)) == GOOD_SITES * GOOD_PAGES
    assert summary["outcomes"]["dropped"] == BAD_SITES
