"""A private Prometheus for tests, and promtool, which comes with it.

    with PrometheusServer(find_prometheus_servers()[0], {"prometheus.yml": "scrape_configs: …"}) as prometheus:
        prometheus.query("sum(crawler_fetches_total)")
        prometheus.raw("crawler_fetches_total", seconds=600)       every sample as it was scraped

As the other servers (`servers.py`) it has a loopback port and a directory of its own, and leaves nothing behind.
"""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import Server

#: An answer over some minutes of one small crawl takes milliseconds; a loaded machine may need a thousand times that.
ANSWER_SECONDS = 30.0


class Series(NamedTuple):
    """Its labels, the name among them, and its samples: when each was taken, and what it was."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]

    @property
    def value(self) -> float:
        return self.samples[-1][1]


class PrometheusServer(Server):
    """Prometheus over a configuration of the test's: `files` has prometheus.yml and what that names, such as rules."""

    def __init__(self, binary: ServerBinary, files: Mapping[str, str]) -> None:
        super().__init__(binary)
        self._files = dict(files)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def query(self, expression: str, *, at: float | None = None) -> list[Series]:
        """What the expression gives at one moment, now if none is named."""
        told = {"query": expression} | ({} if at is None else {"time": str(at)})
        answer = self.ask("query", told)
        if answer["resultType"] == "scalar":
            return [Series({}, [_sample(answer["result"])])]
        return [
            Series(one["metric"], [_sample(sample) for sample in one.get("values", [one.get("value")])])
            for one in answer["result"]
        ]

    def raw(self, selector: str, *, seconds: int) -> list[Series]:
        """The samples themselves, of the last so many seconds."""
        return self.query(f"{selector}[{seconds}s]")

    def ask(self, verb: str, told: Mapping[str, str] | None = None) -> Any:
        """One call of its HTTP API, such as `rules` or `targets`; a refusal is an exception with its words."""
        request = f"{self.url}/api/v1/{verb}?{urllib.parse.urlencode(told or {})}"
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 (our own server)
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise ValueError(f"{verb} {told}: {error.read().decode(errors='replace')}") from None

    def _initialise(self) -> None:
        for name, text in self._files.items():
            (self.directory / name).write_text(text, "utf-8")

    def _command(self) -> list[str]:
        return [
            str(self.binary.path),
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._data}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _answers(self) -> bool:
        # The flags tell our server from one that had the port before it.
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):  # noqa: S310 (our own server)
                return bool(self.ask("status/flags")["storage.tsdb.path"] == str(self._data))
        except (OSError, ValueError, KeyError):
            return False


def promtool(binary: ServerBinary, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """The tool beside that Prometheus; `text` is what it reads."""
    return subprocess.run(  # noqa: S603 (a program that we found)
        [binary.path.parent / "promtool", *arguments],
        env=binary.environment(),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def _sample(sample: list[Any]) -> tuple[float, float]:
    when, value = sample
    return float(when), float(value)
