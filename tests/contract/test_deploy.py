"""The files of deploy/, by the programs that read them: promtool, systemd, logrotate, docker compose."""

import getpass
import grp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from gossamer.cli.main import command_parser
from gossamer.config import FetchSettings, Settings
from gossamer.errors import UsageError
from gossamer.parse.isolated import MEMORY_BYTES
from gossamer.report.metrics import BY_NAME, Metric
from gossamer.report.sample import BoundBy
from gossamer.run.leader import FETCHERS_LEAVE_SECONDS, MEND_SECONDS, PARSERS_LEAVE_SECONDS
from gossamer.run.places import process_counts
from gossamer.run.process import PARSER_MEMORY_BYTES
from gossamer.run.stop import StopReason
from gossamer.testing.prometheus import promtool
from gossamer.testing.server_binaries import ServerBinary, find_logrotate, find_prometheus_servers
from tests.conftest import present

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "gossamer.json"
COMPOSE = DEPLOY / "compose.yml"
UNIT = DEPLOY / "systemd" / "gossamer@.service"
LOGROTATE = DEPLOY / "logrotate" / "gossamer"

#: What Prometheus itself adds to every series, and has of every target.
OF_PROMETHEUS = {"job", "instance"}


@pytest.fixture(scope="module")
def prometheus_binary() -> ServerBinary:
    return present(next(iter(find_prometheus_servers()), None), "Prometheus")


@pytest.fixture(scope="module")
def logrotate_binary() -> ServerBinary:
    return present(next(iter(find_logrotate()), None), "logrotate")


def alert_rules() -> dict[str, str]:
    """Name and expression of each. promtool says whether it is YAML; this form is ours."""
    text = ALERTS.read_text("utf-8")
    found = re.findall(
        r"^      - alert: (\w+)\n(?:        #.*\n)*        expr: (?:>-\n((?:          .*\n)+)|(.*)\n)",
        text,
        re.MULTILINE,
    )
    assert len(found) == text.count("- alert:") == text.count("expr:")
    return {name: " ".join((folded or plain).split()) for name, folded, plain in found}


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        yield from (panel, *panel.get("panels", []))


def panel_queries() -> dict[str, str]:
    """Every query of the dashboard, by panel and letter; those of Redis have it in their name."""
    queries: dict[str, str] = {}
    row = ""
    for panel in panels():
        if panel["type"] == "row":
            row = panel["title"]
        for target in panel.get("targets", []):
            queries[f"{row}: {panel['title']} ({target['refId']})"] = target["expr"]
    return queries


class Selected(NamedTuple):
    """What an expression asks for: a metric, and what it demands of its labels."""

    name: str
    matchers: dict[str, str]


def selectors(expression: str) -> list[Selected]:
    bare = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", expression)
    bare = re.sub(r"\[[^]]*]", " ", bare)
    found = []
    for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])\s*(\{[^}]*\})?", bare):
        if name in {"and", "or", "unless", "bool"}:
            continue
        pairs = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', matchers)
        found.append(Selected(name, dict(pairs)))
    return found


def grouped_labels(expression: str) -> set[str]:
    lists = re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)", expression)
    return {label.strip() for one in lists for label in one.split(",") if label.strip()}


def metric_of(name: str) -> tuple[Metric | None, set[str]]:
    """And the labels that its kind of series has beside its own."""
    if name in BY_NAME and BY_NAME[name].kind != "histogram":
        return BY_NAME[name], set()
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    if base != name and base in BY_NAME and BY_NAME[base].kind == "histogram":
        return BY_NAME[base], {"le"} if name.endswith("_bucket") else set()
    return None, set()


def allowed_values(metric: Metric, label: str) -> tuple[str, ...]:
    return get_args(BoundBy) if metric.name == "crawler_bound" else metric.labels[label]


def assert_known(expression: str) -> None:
    """Every metric is in the catalogue, with these labels, and these values of them."""
    chosen = selectors(expression)
    assert chosen, expression
    known_labels = set(OF_PROMETHEUS)
    for name, matchers in chosen:
        if name == "up":
            continue
        metric, extra = metric_of(name)
        assert metric is not None, f"{name} is no metric: {expression}"
        labels = OF_PROMETHEUS | set(metric.labels) | extra
        known_labels |= labels
        for label, value in matchers.items():
            assert label in labels, f"{name} has no label {label}: {expression}"
            values = set() if label in OF_PROMETHEUS else set(allowed_values(metric, label))
            assert not values or set(value.split("|")) <= values, f"{label} of {name} is never {value}: {expression}"
    assert grouped_labels(expression) <= known_labels, expression


def test_selectors_are_read_out_of_expressions() -> None:
    """The reading above, which the other tests rest on."""
    assert selectors('sum by (le) (rate(a_bucket{x="1",y=~"2|3"}[5m])) / b > 0.5 and on (job) c{z!="4"}') == [
        ("a_bucket", {"x": "1", "y": "2|3"}),
        ("b", {}),
        ("c", {"z": "4"}),
    ]
    with pytest.raises(AssertionError, match="is no metric"):
        assert_known("sum(crawler_unknown_total)")
    with pytest.raises(AssertionError, match="has no label"):
        assert_known('crawler_fetches_total{kind="page"}')
    with pytest.raises(AssertionError, match="is never"):
        assert_known('crawler_fetches_total{fetch_type="pages"}')
    with pytest.raises(AssertionError, match="is no metric"):
        assert_known("crawler_fetch_phase_seconds")


# Prometheus.


@pytest.mark.servers
@pytest.mark.parametrize(
    "words",
    [("check", "config", "prometheus.yml"), ("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")],
    ids=" ".join,
)
def test_promtool_accepts_the_files_of_prometheus(prometheus_binary: ServerBinary, words: tuple[str, ...]) -> None:
    done = promtool(prometheus_binary, *words[:2], str(DEPLOY / "prometheus" / words[2]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.servers
def test_promtool_would_see_an_alert_that_does_not_fire(prometheus_binary: ServerBinary, tmp_path: Path) -> None:
    text = ALERTS.read_text("utf-8").replace("crawler_store_up == 0", "crawler_store_up == 2")
    (tmp_path / "alerts.yml").write_text(text)
    shutil.copy(DEPLOY / "prometheus" / "alerts_test.yml", tmp_path)
    done = promtool(prometheus_binary, "test", "rules", str(tmp_path / "alerts_test.yml"))
    assert done.returncode != 0
    assert "GossamerStoreAway" in done.stdout + done.stderr


def test_prometheus_scrapes_the_default_port_and_only_this_machine() -> None:
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8")
    assert re.findall(r"targets: (.*)", text) == ['["127.0.0.1:9470"]']


@pytest.mark.parametrize("name", alert_rules())
def test_an_alert_names_metrics_that_exist(name: str) -> None:
    assert_known(alert_rules()[name])


def test_every_alert_says_how_bad_it_is_and_what_to_do_and_is_seen_to_fire() -> None:
    text = ALERTS.read_text("utf-8")
    tests = (DEPLOY / "prometheus" / "alerts_test.yml").read_text("utf-8")
    for rule in text.split("- alert: ")[1:]:
        name = rule.split()[0]
        for part in ("for: ", "summary: ", "action: "):
            assert part in rule, f"{name} has no {part}"
        assert re.search(r"severity: (critical|warning|info)\n", rule), name
        assert re.search(rf'ALERTS{{alertname="{name}",alertstate="firing".*?value: 1', tests), f"{name} is not tested"


# Grafana.


@pytest.mark.parametrize("where", panel_queries())
def test_a_panel_names_metrics_that_exist(where: str) -> None:
    query = panel_queries()[where]
    assert_known(query)
    assert 'instance=~"$instance"' in query


def test_a_dashboard_has_no_two_panels_in_one_place_and_no_number_twice() -> None:
    shown = list(panels())
    assert len({panel["id"] for panel in shown}) == len(shown)
    taken: set[tuple[int, int]] = set()
    for panel in shown:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_grafana_finds_what_it_is_provisioned_with() -> None:
    dashboards = (DEPLOY / "grafana" / "provisioning" / "dashboards" / "gossamer.yml").read_text("utf-8")
    path = re.search(r"path: (\S+)", dashboards)
    assert path is not None
    assert f"./grafana/dashboards:{path[1]}:ro" in COMPOSE.read_text("utf-8")
    sources = (DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text("utf-8")
    assert "url: http://127.0.0.1:9090" in sources
    assert "--web.listen-address=127.0.0.1:9090" in COMPOSE.read_text("utf-8")


# Compose.


def test_compose_has_no_password_of_its_own() -> None:
    text = COMPOSE.read_text("utf-8")
    asked = re.findall(r"(?<!\$)\$\{([^}]*)\}", text)
    assert asked
    for variable in asked:
        assert re.fullmatch(r"\w+:\?.+", variable), f"${{{variable}}} may be left out"
    assert set(re.findall(r"^\s+\w*PASSWORD\w*: (.*)$", text, re.MULTILINE)) <= {
        f'"${{{variable}}}"' for variable in asked
    }
    example = (DEPLOY / "env.example").read_text("utf-8")
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    assert sorted(lines) == sorted(f"{variable.split(':')[0]}=" for variable in asked)


def test_compose_can_be_reached_from_this_machine_alone() -> None:
    text = COMPOSE.read_text("utf-8")
    assert "0.0.0.0" not in text
    assert "[::]" not in text
    ports = re.findall(r"^\s+ports: \[(.*)]$", text, re.MULTILINE)
    assert len(ports) == text.count("ports:")
    assert all(port.strip(' "').startswith("127.0.0.1:") for one in ports for port in one.split(","))
    # Those with the host's network bind by themselves.
    assert text.count("network_mode: host") == 2
    assert "--web.listen-address=127.0.0.1:" in text
    assert "GF_SERVER_HTTP_ADDR: 127.0.0.1" in text


def test_compose_pins_images_and_lets_nothing_write_where_it_need_not() -> None:
    text = COMPOSE.read_text("utf-8")
    services = re.split(r"^  (\w+):\n", text.split("\nservices:\n")[1].split("\nvolumes:\n")[0], flags=re.MULTILINE)
    named = dict(zip(services[1::2], services[2::2], strict=True))
    assert named.keys() == {"redis", "prometheus", "grafana"}
    for name, service in named.items():
        assert re.search(r"image: [\w./-]+:v?\d+\.\d+\.\d+[\w.-]*\n", service), name
        assert "<<: *hardened" in service, name
        assert "healthcheck:" in service, name
    hardened = text.split("\nservices:\n")[0]
    for demand in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true"):
        assert demand in hardened


def test_compose_has_a_redis_that_the_store_takes_and_that_is_maintained() -> None:
    """7.2 has no more fixes; 8 is the series that is current."""
    version = re.search(r"image: redis:(\d+)\.(\d+)\.\d+-alpine\n", COMPOSE.read_text("utf-8"))
    assert version is not None
    assert (int(version[1]), int(version[2])) >= (8, 10)


def test_docker_compose_accepts_the_file_and_demands_the_passwords(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no docker compose")
    shutil.copytree(DEPLOY, tmp_path / "deploy")

    def config(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [docker, "compose", "--file", str(tmp_path / "deploy" / "compose.yml"), "config"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | variables
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    values = {"REDIS_PASSWORD": "one", "REDIS_MAXMEMORY": "1gb", "GRAFANA_PASSWORD": "two"}
    assert config(values).returncode == 0
    for name in values:
        refused = config(values | {name: ""})
        assert refused.returncode != 0
        assert name in refused.stderr


# systemd.


def unit_settings() -> dict[str, str]:
    lines = (line.partition("=") for line in UNIT.read_text("utf-8").splitlines() if re.match(r"\w+=", line))
    return {name: value for name, _, value in lines}


def test_systemd_accepts_the_unit() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    done = subprocess.run([program, "verify", UNIT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # It also complains of other units of this machine; ours must not be among them.
    assert UNIT.name.removesuffix(".service") not in done.stderr, done.stderr


def test_the_unit_gives_a_crawl_the_time_that_it_takes_to_stop() -> None:
    settings = unit_settings()
    needed = FETCHERS_LEAVE_SECONDS + PARSERS_LEAVE_SECONDS + 2 * MEND_SECONDS
    assert int(settings["TimeoutStopSec"]) >= needed
    assert settings["KillSignal"] == "SIGINT"
    assert settings["KillMode"] == "mixed"
    assert settings["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_the_unit_gives_a_crawl_the_memory_that_its_limits_add_up_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with 8 processors, as its comment reckons."""
    fetchers, parsers = 2, 5
    rest_of_fetcher, kept_files = 256 << 20, 512 << 20
    needed = (
        fetchers * (FetchSettings().max_in_flight_bytes + rest_of_fetcher)
        + parsers * PARSER_MEMORY_BYTES
        + MEMORY_BYTES
        + kept_files
    )
    assert f"{needed >> 20:,} MiB" in UNIT.read_text("utf-8")
    limit = re.fullmatch(r"(\d+)G", unit_settings()["MemoryMax"])
    assert limit is not None
    assert needed * 1.25 <= int(limit[1]) << 30 < needed * 1.5
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert process_counts(Settings()) == (fetchers, parsers)


def test_the_unit_knows_the_exit_codes() -> None:
    settings = unit_settings()
    assert int(settings["SuccessExitStatus"]) == StopReason.INTERRUPTED.exit_code
    assert int(settings["RestartPreventExitStatus"]) == UsageError.exit_code


@pytest.mark.parametrize("is_there", [False, True])
def test_the_unit_begins_a_crawl_once_and_goes_on_with_it_ever_after(tmp_path: Path, *, is_there: bool) -> None:
    said = tmp_path / "said"
    program = tmp_path / "bin" / "gossamer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{shlex.quote(str(said))}\n')
    program.chmod(0o755)
    data = tmp_path / "var lib" / "news"
    data.mkdir(parents=True)
    if is_there:
        (data / "crawl.toml").touch()
    # As systemd reads it: words as a shell has them, %i the instance, $$ a dollar.
    command = [
        word.replace("$$", "$").replace("%i", "news").replace("/var/lib/gossamer", str(data.parent))
        for word in shlex.split(unit_settings()["ExecStart"])
    ]
    subprocess.run(command, env={"PATH": f"{program.parent}:/usr/bin:/bin"}, check=True)
    name, *arguments = said.read_text().splitlines()
    assert name == ("resume" if is_there else "crawl")
    command_parser(name).read(arguments)  # refuses a flag that there is not
    assert str(data) in arguments
    if not is_there:
        assert {"/etc/gossamer/news.toml", "/etc/gossamer/news.seeds"} <= set(arguments)


# logrotate.


def logrotate_file(root: Path) -> str:
    """As it is delivered, but for crawls under `root` that run as whoever runs this."""
    text = LOGROTATE.read_text("utf-8")
    owner = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    for expected in ("/var/lib/gossamer/*/log/*.log {", "su gossamer gossamer", "create 0640 gossamer gossamer"):
        assert expected in text
    if os.geteuid() != 0:  # `su` is for root alone
        text = text.replace("    su gossamer gossamer\n", "")
    return text.replace("gossamer gossamer", owner).replace("/var/lib/gossamer", str(root))


@pytest.mark.servers
def test_logrotate_accepts_the_file(logrotate_binary: ServerBinary, tmp_path: Path) -> None:
    log = tmp_path / "crawls" / "news" / "log"
    log.mkdir(parents=True)
    for name in ("leader.log", "parser-0.log", "parser-0.log.1", "fetches-1.parquet"):
        (log / name).write_text("a line\n")
    file = tmp_path / "logrotate"
    file.write_text(logrotate_file(tmp_path / "crawls"))
    file.chmod(0o644)
    done = subprocess.run(
        [logrotate_binary.path, "--debug", "--force", "--state", tmp_path / "state", file],
        env=logrotate_binary.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    assert set(re.findall(r"considering log (\S+)", done.stderr)) == {f"{log}/leader.log", f"{log}/parser-0.log"}


def postrotate(root: Path) -> str:
    return logrotate_file(root).partition("    postrotate\n")[2].partition("    endscript\n")[0]


def test_the_script_of_logrotate_is_clean_shell(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "shellcheck"
    found = str(program) if program.is_file() else shutil.which("shellcheck")
    if found is None:
        pytest.skip("there is no shellcheck")
    done = subprocess.run(
        [found, "--shell=sh", "-"], input=postrotate(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_logrotate_signals_the_leader_of_a_crawl_and_no_other_process(tmp_path: Path) -> None:
    """SIGHUP is death for a process that does not expect it."""
    script = "trap 'echo heard; exit' HUP; echo ready; while :; do sleep 0.02; done"
    # A shell cannot trap what was ignored when it started, and whoever runs the tests by nohup ignores this one.
    start = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv('/bin/sh', sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", start, "sh", "-c", script], stdout=subprocess.PIPE, text=True
    ) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == "ready\n"
        since = Path(f"/proc/{leader.pid}/stat").read_text().rpartition(")")[2].split()[19]

        def rotate(processes: str) -> None:
            (tmp_path / "news").mkdir(exist_ok=True)
            (tmp_path / "news" / "processes.json").write_text(processes)
            subprocess.run(["/bin/sh", "-c", postrotate(tmp_path)], check=True)

        try:
            # Another one had this number; nobody has it; the file is torn; the crawl has ended.
            rotate(f'{{"leader":{leader.pid},"started":{{"{leader.pid}":"{int(since) - 1}"}},"owners":[],"run":1}}')
            rotate(f'{{"leader":{2**22 + 1},"started":{{"{2**22 + 1}":"5"}},"owners":[],"run":1}}')
            rotate(f'{{"leader":{leader.pid}')
            rotate("")
            assert leader.poll() is None
            rotate(f'{{"leader":{leader.pid},"started":{{"1":"1","{leader.pid}":"{since}"}},"owners":["x"],"run":1}}')
            assert leader.stdout.read() == "heard\n"
        finally:
            leader.kill()
