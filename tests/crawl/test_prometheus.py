"""A real Prometheus watches a crawl in which processes are killed: at the end its totals are those of the web's log."""

import contextlib
import math
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.report.dashboard.addresses import read_addresses
from gossamer.report.metrics import BY_NAME
from gossamer.testing.prometheus import PrometheusServer, Series, promtool
from gossamer.testing.server_binaries import ServerBinary, find_prometheus_servers
from gossamer.testing.servers import RedisServer, free_port
from gossamer.testing.web.access_log import Request
from gossamer.testing.web.graph import Web
from tests.conftest import present
from tests.contract.test_deploy import DEPLOY, alert_rules, metric_of, panel_queries
from tests.crawl.conftest import PATIENCE_SECONDS, assert_each_once, crawls_of, fetches_in, stopped
from tests.crawl.test_deaths import children
from tests.crawl.test_stopping import until_pages_are_fetched

#: Longer than the crawl lasts: what is asked for is all that was scraped.
ALL_SECONDS = 3600
#: With it the crawl lasts ten seconds at least, so that it is not over before a process was killed.
DELAY_SECONDS = 0.5
#: Longer than the web is stopped.
LONG_TIMEOUTS = tuple(f"--{what}-timeout=300" for what in ("connect", "tls", "header", "fetch"))


@pytest.fixture
def prometheus_binary() -> ServerBinary:
    return present(next(iter(find_prometheus_servers()), None), "Prometheus")


def until(is_so: Callable[[], object], running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "this never came"
        assert running.poll() is None, "the crawl was over too soon"
        time.sleep(0.05)


def configured(metrics: str) -> dict[str, str]:
    """The files of deploy/ as they are delivered, but for the port and for the patience of a test."""
    files = {name: (DEPLOY / "prometheus" / name).read_text("utf-8") for name in ("prometheus.yml", "alerts.yml")}
    target = metrics.removeprefix("http://").removesuffix("/metrics")
    text = (
        files["prometheus.yml"]
        .replace("127.0.0.1:9470", target)
        .replace("15s", "1s")
        .replace("timeout: 5s", "timeout: 1s")
    )
    assert target in text
    assert text.count("1s") == 3
    return files | {"prometheus.yml": text}


def newest(prometheus: PrometheusServer) -> tuple[float, float]:
    """When the leader was last scraped, and for how long the crawl had run by its newest sample."""
    found = prometheus.raw("crawler_uptime_seconds", seconds=ALL_SECONDS)
    return found[0].samples[-1] if found else (0.0, 0.0)


def value(prometheus: PrometheusServer, expression: str, at: float) -> float:
    found = prometheus.query(expression, at=at)
    assert len(found) == 1, f"{expression}: {found}"
    return found[0].value


def counters(series: list[Series]) -> dict[str, list[float]]:
    """Those that may only grow: counters, and what a histogram is made of."""
    found = {}
    for one in series:
        name = one.labels["__name__"]
        metric, _ = metric_of(name)
        if metric is not None and metric.kind != "gauge":
            label = ", ".join(f"{key}={text}" for key, text in sorted(one.labels.items()))
            found[label] = [value for _, value in one.samples]
    return found


def is_kept(request: Request, unwanted: set[str]) -> bool:
    """Whether its body counts as received: not what "busy" is said with, nor what has a media type that is left."""
    url = f"{request.scheme}://{request.host}{request.path}"
    return request.path != "/robots.txt" and request.status not in {429, 503} and url not in unwanted


def rules_of(prometheus: PrometheusServer) -> list[dict[str, Any]]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


def substituted(query: str) -> str:
    return query.replace("$instance", ".*").replace("$__rate_interval", "5m")


@pytest.mark.timeout(600)
def test_a_real_prometheus_has_the_auditors_totals_though_processes_were_killed(
    prometheus_binary: ServerBinary, redis_server: RedisServer, tmp_path: Path
) -> None:
    web = Web(sites=20, pages=20, links_per_page=30, median_bytes=8_000, https_share=0.3)
    with crawls_of(web, tmp_path, redis_server.url) as crawls:
        with contextlib.ExitStack() as held:
            # A parser that is stopped before there is anything to parse holds up nothing but the leader's end, which
            # waits for all parsers to leave.
            with stopped(crawls.web.pids):
                running = crawls.start(
                    "--num-fetcher-processes=2",
                    "--num-parser-processes=2",
                    f"--metrics-port={free_port()}",
                    "--ui-port=0",
                    *LONG_TIMEOUTS,
                    delay=DELAY_SECONDS,
                )
                until(lambda: len(children(crawls, "parser")) == 2, running)
                idle, _ = children(crawls, "parser")
                held.enter_context(stopped([idle]))
            until(lambda: read_addresses(crawls.data), running)
            addresses = read_addresses(crawls.data)
            assert addresses is not None
            assert addresses.metrics is not None
            prometheus = held.enter_context(PrometheusServer(prometheus_binary, configured(addresses.metrics)))

            def busy(kind: str) -> list[int]:
                return [pid for pid in children(crawls, kind) if pid != idle]

            for kind, after in (("fetcher", 60), ("parser", 140)):
                until_pages_are_fetched(crawls, after, running)
                until(lambda kind=kind: bool(busy(kind)), running)  # type: ignore[misc]
                os.kill(busy(kind)[0], signal.SIGKILL)
            log = crawls.data / "log" / "leader.log"
            until(lambda: '"stopping: ' in log.read_text() and not busy("fetcher") and not busy("parser"), running)
            at, seen = newest(prometheus)
            # The first may have been taken at the moment of stopping.
            for _ in range(2):
                until(lambda seen=seen: newest(prometheus)[1] > seen, running)  # type: ignore[misc]
                at, seen = newest(prometheus)
            with urllib.request.urlopen(addresses.metrics, timeout=PATIENCE_SECONDS) as answer:
                exposition = answer.read().decode()
            requests = crawls.requests()
            totals = {name: value(prometheus, f"sum({name})", at) for name in BY_NAME if name.endswith("_total")}
            fetches = {one.labels["fetch_type"]: one.value for one in prometheus.query("crawler_fetches_total", at=at)}
            fetched_pages = value(prometheus, 'crawler_outcomes_total{outcome="page"}', at)
            deaths = value(prometheus, 'crawler_errors_total{error_type="process-death"}', at)
            answered = value(prometheus, "sum(crawler_fetch_duration_seconds_count)", at)
            robots = value(prometheus, 'crawler_fetch_duration_seconds_count{fetch_type="robots"}', at)
            store_connections = value(prometheus, "crawler_store_connection_seconds_count", at)
            fetchers = prometheus.query('crawler_process_open_fds{process_type="fetcher"}', at=at)
            kinds = {one.labels["kind"]: one.value for one in prometheus.query("crawler_open_fds", at=at)}
            queries = {where: prometheus.query(substituted(query), at=at) for where, query in panel_queries().items()}
            until(lambda: all(rule["health"] != "unknown" for rule in rules_of(prometheus)), running)
            rules = rules_of(prometheus)
            scraped = prometheus.raw('{job="gossamer"}', seconds=ALL_SECONDS)
            assert running.poll() is None, "it was not held at its end"
        summary = crawls.end(running)

        assert summary["stop_reason"] == "exhausted"
        assert summary["restarts"] == 2
        assert crawls.requests() == requests, "it was not held at its end"
        judged = crawls.judge(delay=DELAY_SECONDS, repeats=200, restarts=2)
        assert judged.is_clean, judged.verdict
        pages = crawls.pages()
        assert_each_once(pages, crawls.expected_pages())

        # The totals are those of the server's log, and of what the crawl has left behind.
        assert fetches == {
            "page": judged.counts.requests - judged.counts.robots_requests,
            "robots": judged.counts.robots_requests,
        }
        assert totals["crawler_pages_crawled_total"] == len(pages)
        assert totals["crawler_urls_added_total"] == summary["admitted"]
        assert totals["crawler_parse_processed_total"] == summary["finished"] == summary["admitted"]
        assert totals["crawler_process_restarts_total"] == deaths == 2
        # What a killed process had not yet handed on was done again, and is counted again; the auditor saw it, too.
        again = judged.counts.repeats
        unwanted = {row["url"] for row in fetches_in(crawls.data) if row["failure_kind"] == "media-type"}
        assert len(pages) <= fetched_pages <= len(pages) + again
        assert len(pages) <= totals["crawler_pages_parsed_total"]
        # Requests that were in flight when their fetcher was killed: sent, and never heard of.
        unheard = sum(fetches.values()) - answered
        assert 0 <= unheard <= again + judged.counts.retries
        bodies = [request.body_bytes for request in requests if is_kept(request, unwanted)]
        assert 0 <= sum(bodies) - totals["crawler_received_bytes_total"] <= unheard * max(bodies)

        # Requests for robots.txt are told from the others; the leader is a fetcher; its descriptors are known by kind.
        assert 0 < robots <= judged.counts.robots_requests
        assert "leader" in {one.labels["process_id"] for one in fetchers}
        assert min(kinds["store"], kinds["serving"], kinds["log"], kinds["pipes"]) > 0
        assert store_connections > 0

        # No counter ever went back, in any scrape.
        grown = counters(scraped)
        assert len(grown) > 100
        assert [label for label, values in grown.items() if values != sorted(values)] == []

        # promtool has nothing to say against what is served.
        checked = promtool(prometheus_binary, "check", "metrics", text=exposition)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert exposition.count("\n") - exposition.count("\n#") <= 500

        # Every panel has something to show, and every alert was evaluated.
        assert [where for where, found in queries.items() if not found] == []
        empty = [where for where, found in queries.items() if all(math.isnan(one.value) for one in found)]
        assert empty == []
        assert {rule["name"] for rule in rules} == alert_rules().keys()
        assert {rule["health"] for rule in rules} == {"ok"}
        assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
