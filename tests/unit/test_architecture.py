"""The layout's promises: imports point one way, modules are short, each can be imported alone, nothing is unsafe."""

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gossamer

SOURCE = Path(gossamer.__file__).parent

#: From the bottom up. A package may import its own modules and any package of a lower level, never one beside it.
LEVELS: list[set[str]] = [
    {
        "url",
        "records",
        "errors",
        "config",
        "disk",
        "endings",
        "invocation",
        "layers",
        "patterns",
        "setting_types",
        "spelling",
        "units",
    },
    {"frontier", "spool", "sinks"},
    {"seed", "fetch", "parse", "report"},
    {"run"},
    {"look"},
    {"cli"},
    {"__main__"},
]
VOCABULARY = LEVELS[0]
#: What we ship for tests stands beside the program: it may use all of it, and only `cli` may use it.
TESTING = "testing"
#: Reading anything from outside with one of these runs what the outside sent.
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "yaml"}
UNSAFE_CALLS = {"eval", "exec"}
LONGEST_MODULE = 400
#: The largest module of today has 90 KB of classes and constants when it is imported.
MOST_IMPORTED_BYTES = 256 << 10

MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / module).read_text("utf-8"))


def package(module: str) -> str:
    """The folder a module stands in, or its own name at the top."""
    return module.partition("/")[0].removesuffix(".py")


def imports(module: str) -> Iterator[str]:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are written in full"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def our_imports(module: str) -> set[str]:
    """The packages of ours that a module imports."""
    found = (name.split(".") for name in imports(module))
    return {parts[1] for parts in found if parts[0] == "gossamer" and len(parts) > 1}


def level(name: str) -> int:
    return next(number for number, names in enumerate(LEVELS) if name in names)


def test_every_package_has_its_level() -> None:
    known = set().union(*LEVELS) | {TESTING, "__init__"}
    assert {package(module) for module in MODULES} <= known


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    here = package(module)
    if here in {TESTING, "__init__"}:
        return
    for other in our_imports(module):
        if other == TESTING:
            assert here == "cli", f"{module} imports what is shipped for tests"
        elif here in VOCABULARY:
            assert other in VOCABULARY, f"{module} is vocabulary and imports {other}"
        elif other != here:
            assert level(other) < level(here), f"{module} imports {other}"


@pytest.mark.parametrize("module", MODULES)
def test_imports_stand_at_the_top(module: str) -> None:
    parsed = tree(module)
    top = {id(node) for node in parsed.body}
    inner = [
        node.lineno
        for node in ast.walk(parsed)
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in top
    ]
    assert inner == []


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_short_and_say_what_they_are(module: str) -> None:
    lines = (SOURCE / module).read_text("utf-8").count("\n")
    docstring = ast.get_docstring(tree(module))
    assert docstring, f"{module} has no docstring"
    assert lines <= LONGEST_MODULE or "lines because" in docstring, f"{module} has {lines} lines"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_unsafe_is_used(module: str) -> None:
    assert not UNSAFE_MODULES & {name.partition(".")[0] for name in imports(module)}
    calls = {
        node.func.id
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not UNSAFE_CALLS & calls


def test_the_broad_except_stands_in_two_places_at_most() -> None:
    """One that cleans up and raises again catches nothing, and does not count."""
    broad = [
        f"{module}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and ast.unparse(node.body[-1]) != "raise"
    ]
    assert len(broad) <= 2, broad


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_module_can_be_imported_alone() -> None:
    """Each in a process of its own, where none of ours was imported yet: what only works because another module came
    first fails here. What they import of others is there already, which saves half a minute."""
    names = [
        ".".join(["gossamer", *Path(module).with_suffix("").parts]).removesuffix(".__init__") for module in MODULES
    ]
    program = (
        "import aiodns, asyncpg, brotli, cryptography.x509, duckdb, fsspec, httptools, isal.igzip, msgspec, numpy\n"
        "import prometheus_client, psutil, publicsuffixlist, pyarrow.parquet, redis.asyncio, turbohtml, uvloop\n"
        "import argparse, asyncio, concurrent.futures, http.server, logging.handlers, multiprocessing, os\n"
        "import sqlite3, ssl, subprocess, sys, tomllib, zstandard\n"
        "for name in sys.argv[1:]:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        __import__(name); sys.stdout.flush(); os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0, name\n"
        "print(len(sys.argv) - 1)"
    )
    # From 3.12 on Python warns of a fork beside threads, which the libraries have; the child only imports.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program, *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"{len(names)}\n"


def test_importing_a_module_builds_nothing_large() -> None:
    """By the file that allocates, so that libraries are not counted; all in one process, because that takes a second
    and one for each module would take minutes."""
    names = [_dotted(module) for module in MODULES if not module.endswith("__main__.py")]
    program = f"""
import importlib, json, tracemalloc
tracemalloc.start()
for name in {names!r}:
    importlib.import_module(name)
found = tracemalloc.take_snapshot().statistics("filename")
print(json.dumps({{entry.traceback[0].filename: entry.size for entry in found}}))
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], check=True, capture_output=True, text=True)
    ours = {file: size for file, size in json.loads(done.stdout).items() if file.startswith(str(SOURCE))}
    assert len(ours) > 100
    assert {file: size for file, size in ours.items() if size > MOST_IMPORTED_BYTES} == {}


def test_a_crawl_loads_no_duckdb() -> None:
    """It would take 25 MB of the leader's memory, and nobody asks it anything while a crawl runs."""
    program = "import sys, gossamer.cli.crawl, gossamer.cli.resume; print('duckdb' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def _dotted(module: str) -> str:
    return f"gossamer/{module}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
