"""What is built and handed on: the wheel, the image, and the workflow that builds them on every supported Python."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = (ROOT / ".github" / "workflows" / "check.yml").read_text("utf-8")
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
DOCKERIGNORE = (ROOT / ".dockerignore").read_text("utf-8")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def supported() -> list[str]:
    """Versions of Python, by the classifiers."""
    found = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line)
        for line in project()["project"]["classifiers"]
    )
    return [match[1] for match in found if match]


# The wheel.


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pip would have it built, with the locked build tool and without a network."""
    to = tmp_path_factory.mktemp("wheel")
    script = "import sys, flit_core.buildapi as build; print(build.build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", script, to], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [path] = to.glob("*.whl")
    return path


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "gossamer").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == wanted
    # Without these a store or the dashboard does not even start.
    for suffix in (".lua", ".sql", ".html", ".js", ".css", ".svg"):
        assert any(name.endswith(suffix) for name in held), suffix
    assert "gossamer/py.typed" in held


def test_the_wheel_says_what_it_is_and_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        assert "gossamer=gossamer.cli.main:main" in archive.read(
            metadata.replace("METADATA", "entry_points.txt")
        ).decode().replace(" ", "")
        assert any(name.endswith("/LICENSE") for name in archive.namelist())
    assert f"Requires-Python: {project()['project']['requires-python']}" in text
    assert text.count("Requires-Dist:") == len(project()["project"]["dependencies"])


def test_the_program_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Over the packages of the lock, which are those of whoever runs the tests."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    script = (
        "import pathlib, sys, gossamer, gossamer.cli.main as main;"
        "assert pathlib.Path(gossamer.__file__).is_relative_to(sys.argv[1]), gossamer.__file__;"
        "sys.exit(main.main(['--version']))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path)],
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"gossamer {project()['project']['version']}\n"), done.stderr


# The workflow.


def test_the_workflow_checks_every_supported_python() -> None:
    versions = re.search(r"^ +python: \[(.*)]$", WORKFLOW, re.MULTILINE)
    assert versions is not None
    assert [version.strip(' "') for version in versions[1].split(",")] == supported()
    oldest = f">={supported()[0]}"
    assert project()["project"]["requires-python"] == oldest
    assert project()["tool"]["ruff"]["target-version"] == f"py{supported()[0].replace('.', '')}"


def test_the_launcher_and_the_image_take_supported_pythons() -> None:
    launcher = (ROOT / "scripts" / "environment.sh").read_text("utf-8")
    candidates = re.search(r"for candidate in python3 (.*); do", launcher)
    assert candidates is not None
    assert candidates[1].split() == [f"python{version}" for version in reversed(supported())]
    minor = int(supported()[-1].removeprefix("3."))
    assert f"3.1[{minor + 1 - 10}-9] | 3.[2-9][0-9])" in launcher
    assert re.findall(r"^FROM python:(\S+)-slim-trixie", DOCKERFILE, re.MULTILINE) == [supported()[-1]] * 2


def test_the_workflow_may_read_and_nothing_else_and_pins_what_it_uses() -> None:
    assert "\npermissions:\n  contents: read\n" in WORKFLOW
    assert WORKFLOW.count("permissions:") == 1
    assert "pull_request_target" not in WORKFLOW
    assert "secrets." not in WORKFLOW
    used = re.findall(r"uses: (.*)", WORKFLOW)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert WORKFLOW.count("actions/checkout@") == WORKFLOW.count("persist-credentials: false")
    jobs = re.findall(r"^  \w+:$", WORKFLOW.split("\njobs:\n")[1], re.MULTILINE)
    assert WORKFLOW.count("timeout-minutes:") == len(jobs) == 3


def test_the_workflow_runs_scripts_that_there_are() -> None:
    for script in (".ci/run", "scripts/wheel"):
        assert f"run: {script}" in WORKFLOW
        assert (ROOT / script).stat().st_mode & 0o111
    assert "docker build --file deploy/Dockerfile" in WORKFLOW


# The image.


def copied() -> list[str]:
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_the_image_is_built_from_the_locks_by_hash_as_wheels() -> None:
    for lock in ("pip", "run"):
        assert f"--require-hashes --no-deps --only-binary :all: -r requirements/{lock}.lock" in DOCKERFILE
    assert "pip install --no-index --no-deps --no-build-isolation ." in DOCKERFILE
    assert len(re.findall(r"pip install", DOCKERFILE)) == 3


def test_the_image_gets_what_it_copies_and_nothing_else() -> None:
    allowed = [line[1:] for line in DOCKERIGNORE.splitlines() if line.startswith("!")]
    assert DOCKERIGNORE.splitlines()[1] == "*"
    assert sorted(allowed) == sorted(copied())
    assert all((ROOT / path).exists() for path in allowed)


def test_the_image_does_not_run_as_root_and_gets_its_signals() -> None:
    last = DOCKERFILE.split("\nFROM ")[-1]
    lines = [line for line in last.splitlines() if line and not line.startswith("#")]
    assert "USER gossamer" in lines
    assert lines.index("USER gossamer") < lines.index("VOLUME /data")
    assert 'ENTRYPOINT ["gossamer"]' in lines
    assert "STOPSIGNAL SIGTERM" in lines
    assert "--mode 0700 --owner gossamer --group gossamer /data" in last
