"""`./gossamer` and `./check` as a stranger meets them, without a network.

A stand-in for Python plays the interpreter, venv, pip and the program, and writes down every call; a checkout is a
directory with the real scripts in it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Nothing here takes so long; a test that waits for what never comes fails.
PATIENCE_SECONDS = 60.0

#: What the scripts may use. Python is not among them.
TOOLS = ["cat", "cmp", "cp", "date", "dirname", "env", "grep", "id", "ln", "mkdir", "mv", "readlink", "rm", "rmdir"]
TOOLS += ["sed", "sh", "sleep", "tail", "tee"]

FAKE_PYTHON = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
    *"sys.version_info"*) printf '%s %s' "{version}" "$0" ;;
    *"import ensurepip"*) exit {ensurepip} ;;
    *"-m venv "*)
        for place; do :; done
        mkdir -p "$place/bin" && ln -sf "$0" "$place/bin/python"
        [ -z "${{VENV_GATE:-}}" ] || while [ ! -e "$VENV_GATE" ]; do sleep 0.1; done ;;
    *realpath*) echo "{path}" ;;
    *"-m pip "*)
        [ -z "${{PIP_SAYS:-}}" ] || {{ echo "$PIP_SAYS"; exit 1; }}
        echo $$ >"$CALLS.pip"
        exec sleep "${{PIP_SECONDS:-0}}" ;;
    *"-m ruff check"*) echo "lint says no"; exit 1 ;;
    *"-m pytest"*) echo "===== 3 passed, 1 skipped in 0.12s =====" ;;
    *"-m gossamer.testing.servers"*) echo "Valkey 9.1.2" ;;
    *"-m gossamer"*) shift 3; echo "program:$*"; echo "$GOSSAMER_COMMAND" >"$CALLS.command" ;;
esac
"""


class Checkout:
    """The scripts in a directory with a space in its name, and a PATH with nothing but tools and stand-ins."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "a checkout"
        self.tools = directory / "tools"
        self.calls = directory / "calls"
        self.tools.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.tools / tool).symlink_to(found)
        for name in ("scripts", "requirements", ".ci"):
            (self.root / name).mkdir(parents=True)
        for name in ("gossamer", "check", "scripts/environment.sh", "scripts/servers.sh", "scripts/lock", ".ci/run"):
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "pyproject.toml").write_text("[project]\n")
        (self.root / "requirements/pip.lock").write_text("pip==1\n")
        self.lock("kept==1", "dropped==2")

    def lock(self, *pins: str) -> None:
        for name in ("run", "check"):
            (self.root / f"requirements/{name}.lock").write_text("".join(f"{pin}\n" for pin in pins))

    def python(self, name: str = "python3", version: str = "3 12 1", *, ensurepip: bool = True) -> Path:
        path = self.tools / name
        path.write_text(FAKE_PYTHON.format(path=path, version=version, ensurepip=0 if ensurepip else 1))
        path.chmod(0o755)
        return path

    def command(self, *words: str, **variables: str) -> tuple[list[str], dict[str, str]]:
        return [*words], {"PATH": str(self.tools), "CALLS": str(self.calls), **variables}

    def run(self, *words: str, program: str = "gossamer", cwd: Path | None = None, **variables: str) -> "Run":
        self.calls.write_text("")
        command, environment = self.command(str(self.root / program), *words, **variables)
        done = subprocess.run(
            command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        return Run(done, self.calls.read_text())

    def start(self, errors: Path, **variables: str) -> subprocess.Popen[str]:
        """What it says on standard error goes to a file, to be read while it runs."""
        command, environment = self.command(str(self.root / "gossamer"), **variables)
        # Whoever starts the tests may have told them to ignore signals, as a shell does in the background.
        heeding = (
            "import os, signal, sys\n"
            "for number in (signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)\n"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        with errors.open("w") as stderr:
            return subprocess.Popen(
                [sys.executable, "-c", heeding, *command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )

    def wait_for_pip(self) -> int:
        """Until the script waits for its pip, and has noted which process that is."""

        def content(file: Path) -> str:
            return file.read_text() if file.exists() else ""

        worker, pip = self.root / ".venv/lock/worker", self.calls.with_suffix(".pip")
        wait_until(lambda: content(pip).endswith("\n") and content(pip) == content(worker))
        return int(content(pip))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Run:
    """What one run of a script said, did and returned."""

    def __init__(self, done: subprocess.CompletedProcess[str], calls: str) -> None:
        self.code, self.out, self.err, self.calls = done.returncode, done.stdout, done.stderr, calls

    def made_an_environment(self) -> bool:
        return "-m venv " in self.calls


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_run_sets_up_and_keeps_stdout_for_the_program(checkout: Checkout, tmp_path: Path) -> None:
    checkout.python()
    run = checkout.run("crawl", "a b", cwd=tmp_path)
    assert (run.code, run.out) == (0, "program:crawl a b\n")
    assert run.made_an_environment()
    installed = re.findall(r"install (?!.*--editable)(.*)", run.calls)
    options = "--require-hashes --no-deps --only-binary :all: -r"
    # A current pip first, by the one that came with Python; then all else, as wheels.
    assert installed == [f"{options} {checkout.root}/requirements/{name}.lock" for name in ("pip", "run")]
    assert "--no-build-isolation --editable" in run.calls
    assert "making" in run.err


def test_no_module_is_taken_from_the_directory_that_it_is_called_in(checkout: Checkout, tmp_path: Path) -> None:
    checkout.python()
    run = checkout.run(cwd=tmp_path)
    called = [call for call in run.calls.splitlines() if "-m " in call]
    assert [name for name in ("venv", "pip", "gossamer") if any(f"-m {name}" in call for call in called)] == [
        "venv",
        "pip",
        "gossamer",
    ]
    assert [call for call in called if not call.startswith(("-P ", "-I "))] == []


def test_the_second_run_calls_nothing_but_the_program(checkout: Checkout) -> None:
    checkout.python()
    checkout.run()
    run = checkout.run("status")
    assert (run.code, run.out, run.err) == (0, "program:status\n", "")
    assert run.calls == "-P -m gossamer status\n"


@pytest.mark.parametrize("called", ["./gossamer", "a checkout/gossamer"])
def test_the_program_is_told_how_it_was_called(checkout: Checkout, tmp_path: Path, called: str) -> None:
    checkout.python()
    words, environment = checkout.command(called, "x")
    where = checkout.root if called == "./gossamer" else tmp_path
    subprocess.run(words, env=environment, cwd=where, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    assert checkout.calls.with_suffix(".command").read_text() == f"{called}\n"


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox", "ksh", "zsh"])
def test_any_posix_shell_will_do(checkout: Checkout, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} here")
    checkout.python()
    words = [found, *(["sh"] if shell == "busybox" else []), "gossamer", "x"]
    command, environment = checkout.command(*words)
    for expected in ("gossamer: ready\n", ""):
        done = subprocess.run(
            command,
            env=environment,
            cwd=checkout.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert (done.returncode, done.stdout) == (0, "program:x\n")
        assert done.stderr.endswith(expected)


def test_it_runs_through_a_chain_of_links(checkout: Checkout, tmp_path: Path) -> None:
    checkout.python()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/second").symlink_to("../a checkout/gossamer")
    (tmp_path / "first").symlink_to(tmp_path / "bin/second")
    command, environment = checkout.command(str(tmp_path / "first"), "x")
    done = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.stdout == "program:x\n"
    assert (checkout.root / ".venv/setup/place").is_file()


def test_a_changed_lock_is_installed_in_place_and_what_it_dropped_goes(checkout: Checkout) -> None:
    checkout.python()
    checkout.run()
    checkout.lock("kept==1", "added==3")
    run = checkout.run()
    assert run.code == 0
    assert not run.made_an_environment()
    assert "uninstall --yes dropped" in run.calls
    assert "--require-hashes" in run.calls
    assert checkout.run().calls == "-P -m gossamer\n"


def test_a_moved_checkout_gets_a_new_environment(checkout: Checkout) -> None:
    checkout.python()
    checkout.run()
    checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
    assert checkout.run().made_an_environment()
    assert not checkout.run().made_an_environment()


def test_a_python_that_changed_or_went_gets_a_new_environment(checkout: Checkout) -> None:
    name = checkout.tools / "python3"
    name.symlink_to(checkout.python("python3.12", "3 12 1"))
    checkout.run()
    assert not checkout.run().made_an_environment()
    # What an upgrade of the system does: the same name now leads to another interpreter.
    other = checkout.python("python3.13", "3 13 0")
    name.unlink()
    name.symlink_to(other)
    assert checkout.run().made_an_environment()
    name.unlink()
    assert checkout.run().made_an_environment()


def test_another_gossamer_python_gets_a_new_environment_and_none_keeps_it(checkout: Checkout) -> None:
    checkout.python()
    other = checkout.python("special", "3 14 0")
    checkout.run()
    assert checkout.run(GOSSAMER_PYTHON=str(other)).made_an_environment()
    assert not checkout.run(GOSSAMER_PYTHON=str(other)).made_an_environment()
    assert not checkout.run().made_an_environment()


def test_a_gossamer_python_that_does_not_run_is_an_error_that_names_it(checkout: Checkout) -> None:
    checkout.python()
    run = checkout.run(GOSSAMER_PYTHON="/nowhere/python")
    assert (run.code, run.out) == (1, "")
    assert "GOSSAMER_PYTHON=/nowhere/python does not run" in run.err


@pytest.mark.parametrize("version", ["2 7 18", "3 9 2", "3 10 13"])
def test_a_python_that_is_too_old_is_named_with_what_is_needed(checkout: Checkout, version: str) -> None:
    checkout.python(version=version)
    run = checkout.run()
    assert (run.code, run.out) == (1, "")
    assert f"python3 is Python {version.replace(' ', '.')}, too old" in run.err
    assert "needs Python 3.11 or newer" in run.err


def test_a_python_that_no_package_has_wheels_for_is_passed_over_unless_it_is_named(checkout: Checkout) -> None:
    newest = checkout.python(version="3 15 0")
    assert "python3 is Python 3.15.0, too new" in checkout.run().err
    checkout.python("python3.14", "3 14 2")
    assert "with Python 3.14.2" in checkout.run().err
    assert "with Python 3.15.0" in checkout.run(GOSSAMER_PYTHON=str(newest)).err


def test_a_changed_pip_is_installed_before_the_next_run(checkout: Checkout) -> None:
    checkout.python()
    checkout.run()
    (checkout.root / "requirements/pip.lock").write_text("pip==2\n")
    run = checkout.run()
    assert "requirements/pip.lock" in run.calls
    assert not run.made_an_environment()
    assert checkout.run().calls == "-P -m gossamer\n"


def test_a_newer_python_under_another_name_is_found(checkout: Checkout) -> None:
    checkout.python(version="3 9 2")
    checkout.python("python3.12", "3 12 5")
    run = checkout.run()
    assert run.code == 0
    assert "with Python 3.12.5" in run.err


def test_no_python_at_all_is_said_with_the_command_that_installs_it(checkout: Checkout) -> None:
    apt = checkout.tools / "apt-get"
    apt.write_text("#!/bin/sh\n")
    apt.chmod(0o755)
    run = checkout.run()
    assert (run.code, run.out) == (1, "")
    assert "no python3 on the PATH" in run.err
    assert "apt-get install python3 python3-venv" in run.err


def test_a_python_without_ensurepip_is_told_which_package_has_it(checkout: Checkout) -> None:
    apt = checkout.tools / "apt-get"
    apt.write_text("#!/bin/sh\n")
    apt.chmod(0o755)
    checkout.python(version="3 11 2", ensurepip=False)
    run = checkout.run()
    assert (run.code, run.out) == (1, "")
    assert "cannot make environments" in run.err
    assert "apt-get install python3.11-venv" in run.err
    assert not run.made_an_environment()


def test_a_failed_installation_names_its_log_and_is_redone(checkout: Checkout) -> None:
    checkout.python()
    run = checkout.run(PIP_SAYS="NewConnectionError: no route")
    assert (run.code, run.out) == (1, "")
    assert str(checkout.root / ".venv/setup.log") in run.err
    assert "could not be reached" in run.err
    assert not (checkout.root / ".venv/lock").exists()
    assert checkout.run("x").out == "program:x\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_set_up_ends_its_pip_gives_the_lock_back_and_is_redone(
    checkout: Checkout, how: signal.Signals, tmp_path: Path
) -> None:
    checkout.python()
    process = checkout.start(tmp_path / "errors", PIP_SECONDS="300")
    pip = checkout.wait_for_pip()
    os.kill(process.pid, how)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + how
    wait_until(lambda: has_ended(pip))
    assert not (checkout.root / ".venv/lock").exists()
    run = checkout.run("x")
    assert run.out == "program:x\n"
    assert run.made_an_environment()


def test_a_lock_whose_holder_was_killed_is_taken_over(checkout: Checkout, tmp_path: Path) -> None:
    checkout.python()
    process = checkout.start(tmp_path / "errors", PIP_SECONDS="300")
    checkout.wait_for_pip()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert (checkout.root / ".venv/lock/pid").read_text() == f"{process.pid}\n"
    assert checkout.run("x").out == "program:x\n"
    assert not (checkout.root / ".venv/lock").exists()


def test_three_first_runs_at_once_make_one_environment_and_all_run(checkout: Checkout, tmp_path: Path) -> None:
    checkout.python()
    errors = [tmp_path / f"errors-{number}" for number in range(3)]
    gate = tmp_path / "gate"
    processes = [checkout.start(file, VENV_GATE=str(gate)) for file in errors]
    # The one that makes the environment is held up until the two others wait for it.
    try:
        wait_until(lambda: sum("waiting for process" in file.read_text() for file in errors) == 2)
    finally:
        gate.touch()
    outputs = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], [file.read_text() for file in errors]
    assert outputs == ["program:\n"] * 3
    assert checkout.calls.read_text().count("-m venv ") == 1


def test_check_runs_every_stage_after_a_failure_and_sums_up_at_the_end(checkout: Checkout) -> None:
    checkout.python()
    run = checkout.run(program="check")
    assert run.code == 1
    summary = run.out[run.out.index("=== check ===") :]
    assert re.search(r"^FAILED +lint +\d+ s$", summary, re.MULTILINE)
    for stage in ("format", "types", "tests"):
        assert re.search(rf"^ok +{stage} +\d+ s$", summary, re.MULTILINE), stage
    assert "Valkey 9.1.2" in summary
    assert "3 passed, 1 skipped in 0.12s" in summary
    assert summary.rstrip().splitlines()[-1].startswith("check: FAILED")


def test_check_with_arguments_runs_only_the_tests(checkout: Checkout) -> None:
    checkout.python()
    run = checkout.run("fast", "-k", "a name", program="check")
    assert run.code == 0
    assert "-m ruff" not in run.calls
    assert "--color=no -m not servers -k a name\n" in run.calls
    assert run.out.endswith("check: ok\n")


def test_the_run_lock_of_a_set_up_for_checks_serves_the_program_too(checkout: Checkout) -> None:
    checkout.python()
    checkout.run("fast", program="check")
    assert checkout.run("x").calls == "-P -m gossamer x\n"


def pins(lock: str) -> dict[str, str]:
    """Name to the rest of its entry: version, marker and hashes."""
    text = (ROOT / "requirements" / lock).read_text()
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    return dict(entry.split("==", 1) for entry in entries)


def wanted(requirements: list[str]) -> set[str]:
    return {re.split(r"[ ;<>=!~\[]", line, maxsplit=1)[0].lower().replace("_", "-") for line in requirements}


def test_both_locks_pin_the_same_versions_with_hashes() -> None:
    run, check = pins("run.lock"), pins("check.lock")
    assert {name: entry.split()[0] for name, entry in run.items()}.items() <= {
        name: entry.split()[0] for name, entry in check.items()
    }.items()
    assert [name for name, entry in (run | check | pins("pip.lock")).items() if "--hash=sha256:" not in entry] == []


def test_every_dependency_of_the_project_is_in_the_locks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    assert wanted(groups["installer"]) == set(pins("pip.lock"))
    assert wanted(project["project"]["dependencies"] + groups["build"]) - set(pins("run.lock")) == set()
    assert wanted(project["project"]["dependencies"] + groups["check"]) - set(pins("check.lock")) == set()


def test_the_locks_name_neither_an_index_nor_a_place_on_somebodys_machine() -> None:
    for name in ("pip.lock", "run.lock", "check.lock"):
        text = (ROOT / "requirements" / name).read_text()
        assert not re.search(r"://|index-url|find-links|/home/|/root/|/tmp/", text), name
