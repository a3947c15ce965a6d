"""What the crawler must never do with what it was given: repeat a password, start a shell, trust a file's bytes."""

import ast
import asyncio
import random
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

import gossamer
from gossamer.cli.main import main
from gossamer.config import ScopeSettings, UrlSettings
from gossamer.errors import GossamerError
from gossamer.frontier.admission import AdmissionRules, parse_exclusions
from gossamer.frontier.refused_links import RefusedLinks
from gossamer.parse.note import read_note
from gossamer.records import Finished
from gossamer.run.data_directory import DataDirectory
from gossamer.seed.load import SeedLoader
from gossamer.sinks.commit import recover
from gossamer.spool.directory import SpoolDirectory
from gossamer.testing.stores.model import ModelStore
from gossamer.url import redacted

SECRET = "hunter2canary"
SOURCE = Path(gossamer.__file__).parent

# Passwords.


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        (f"http://user:{SECRET}@host:99999/a", "http://***@host:99999/a"),
        (f"http://{SECRET}@host/", "http://***@host/"),
        (f"  HTTP:\\\\user:{SECRET}@host", "  HTTP:\\\\***@host"),
        (f"//user:{SECRET}@host/", "//***@host/"),
        (f"user:{SECRET}@host", "***@host"),
        (f"http:user:{SECRET}@host", "***@host"),
        (f"http://user:{SECRET}/with/slashes@host/", "http://***@host/"),
        (f"http://user:a@{SECRET}@host/", "http://***@host/"),
        (f"redis://:{SECRET}@host:6379/0", "redis://***@host:6379/0"),
        (f"http=user:{SECRET}@192.0.2.1:80", "***@192.0.2.1:80"),
        (f"postgresql://host/db?user=u&password={SECRET}&ssl=1", "postgresql://host/db?user=u&password=***&ssl=1"),
        (f"unix:///run/redis.sock?password={SECRET}", "unix:///run/redis.sock?password=***"),
        (f"rediss://:{SECRET}@host/0?ssl_password={SECRET}", "rediss://***@host/0?ssl_password=***"),
        ("https://example.org/?q=pass&page=2", "https://example.org/?q=pass&page=2"),
        ("https://example.org/@user", "https://example.org/@user"),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b"),
        ("example.org/@user", "example.org/@user"),
        ("example.org:80/@user", "example.org:80/@user"),
        ("mailto:a@example.org", "mailto:a@example.org"),
        ("a@example.org", "a@example.org"),
        ("no address at all", "no address at all"),
    ],
)
def test_a_reference_is_shown_without_its_password_and_else_as_it_is(reference: str, shown: str) -> None:
    assert redacted(reference) == shown


@pytest.mark.parametrize(
    "piece", ["/", "a", "a:", "/@", " ", " @", "a.", "\\", ":", "http://", "@", "?", "&pass", "pass"]
)
def test_hiding_a_password_takes_no_longer_than_reading_it(piece: str) -> None:
    """A megabyte of anything: what is quadratic does not come to its end before the test's time is over."""
    text = piece * ((1 << 20) // len(piece))
    assert len(redacted(text)) <= len(text) + len("***")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """All that a command which fails prints."""
    assert main(arguments) != 0
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["crawl", f"http://user:{SECRET}@example.org:99999/"],
        ["crawl", f"ftp://user:{SECRET}@example.org/"],
        ["crawl", f"user:{SECRET}@example.org"],
        ["crawl", f"http://user:{SECRET}/x@example.org/"],
        ["crawl", f"http://user:{SECRET}@exa mple.org/\x1b[31m"],
        ["crawl", "example.org", f"--store=mysql://:{SECRET}@example.org/0"],
        ["crawl", "example.org", f"--stor=redis://:{SECRET}@example.org/0"],
        ["crawl", "example.org", f"--resolver=user:{SECRET}@127.0.0.1:53"],
        ["crawl", "example.org", f"--connect-to=http://user:{SECRET}@127.0.0.1:80"],
        ["crawl", "example.org", f"--contact=ftp://user:{SECRET}@example.org/"],
        ["url", f"http://user:{SECRET}@example.org:99999/"],
        ["url", "--json", f"http://user:{SECRET}@example.org:99999/"],
        ["url", "--base", f"ftp://user:{SECRET}@example.org/", "x"],
    ],
    ids=lambda arguments: " ".join(arguments).replace(SECRET, "…").replace("\x1b", "ESC"),
)
def test_no_complaint_repeats_a_password_or_a_control_character(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = ["--email=a@example.org", f"--data-dir={tmp_path / 'new'}"] if arguments[0] == "crawl" else []
    text = said(capsys, *arguments, *extra)
    assert text
    assert SECRET not in text
    assert "\x1b" not in text
    assert not (tmp_path / "new").exists()


def test_no_complaint_about_a_file_repeats_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for flag, line in (("--seed-file", f"http://user:{SECRET}@host:99999/"), ("--exclude-file", f"user:{SECRET}@host")):
        file = tmp_path / "list"
        file.write_text(f"{line}\n")
        new = f"--data-dir={tmp_path / 'new'}"
        text = said(capsys, "crawl", f"{flag}={file}", "--email=a@example.org", new)
        assert str(file) in text
        assert SECRET not in text + caplog.text
    assert "line 1: 'http://***@host:99999/' is no seed" in caplog.text


def test_no_complaint_about_the_environment_repeats_a_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOSSAMER_STORE", "GOSSAMER_STOR"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, f"mysql://:{SECRET}@example.org/0")
            text = said(capsys, "settings")
        assert variable in text
        assert SECRET not in text


def test_the_settings_are_shown_without_the_password_of_the_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_STORE", f"redis://user:{SECRET}@example.org/0")
    assert main(["settings", "--email=a@example.org"]) == 0
    text = capsys.readouterr().out
    assert 'store = "redis://***@example.org/0"  # GOSSAMER_STORE' in text
    assert SECRET not in text


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_store_that_does_not_answer_is_named_without_its_password_and_leaves_nothing_behind(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        port = taken.getsockname()[1]
        arguments = ["crawl", "example.org", "--email=a@example.org", f"--data-dir={tmp_path / 'new'}"]
        store = f"--store={scheme}://user:{SECRET}@127.0.0.1:{port}/0"
        assert main([*arguments, store, "--store-patience=0"]) == 3
    text = capsys.readouterr().err
    assert f"{scheme}://***@127.0.0.1:{port}/0 does not answer" in text
    assert SECRET not in text
    assert not (tmp_path / "new").exists()


# Nothing is run.

#: By the last part of the name, whatever module it comes from.
UNSAFE_FUNCTIONS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell", "mktemp", "tempnam"}


def test_no_shell_is_started_and_no_file_name_is_guessed() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            shell = [keyword for keyword in node.keywords if keyword.arg == "shell"]
            if name in UNSAFE_FUNCTIONS or any(ast.unparse(keyword.value) != "False" for keyword in shell):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {name}")
    assert found == []


# Random bytes in our own files. Those of segments are in test_spool.py, a crawl with all of it in test_canaries.py.


def random_contents(size: int | None = None) -> list[bytes]:
    dice = random.Random(7)
    return [dice.randbytes(dice.randint(0, 300) if size is None else size) for _ in range(300)]


def test_a_note_of_random_bytes_is_read_as_some_page_or_none(tmp_path: Path) -> None:
    note = tmp_path / "parser-0.note"
    for content in [*random_contents(64), *random_contents()]:
        note.write_bytes(content)
        found = read_note(note)
        assert found is None or (len(found.segment) <= 60 and found.page >= 0)


def test_processes_of_random_bytes_are_nobody(tmp_path: Path) -> None:
    for content in [*random_contents(), b"[]", b'{"leader":1}', b'{"leader":1,"started":{"x":"y"},"owners":[]}']:
        (tmp_path / "processes.json").write_bytes(content)
        assert DataDirectory(tmp_path).processes() is None


class NoStore:
    """Must not be asked for anything."""

    async def sync(self) -> None: ...

    async def finish(self, finished: Sequence[Finished]) -> None:
        raise AssertionError(finished)


def test_a_commit_record_of_random_bytes_is_an_error_that_names_it_and_changes_nothing(tmp_path: Path) -> None:
    record = tmp_path / "commit" / "parser-0.json"
    record.parent.mkdir()
    page = tmp_path / "pages" / "part-parser-0-000000-000000.parquet.parser-0.open"
    page.parent.mkdir()
    page.write_bytes(b"precious\n")
    for content in [*random_contents(), b"", b"null", b"[]", b"{}", b'{"files":[],"segments":[],"finished":[[]]}']:
        record.write_bytes(content)
        with pytest.raises(
            GossamerError, match=r"parser-0\.json is not a commit record.*[Rr]estore it, or move it away"
        ):
            asyncio.run(recover(tmp_path, NoStore()))
        assert (record.read_bytes(), page.read_bytes()) == (content, b"precious\n")


def test_serial_numbers_of_random_bytes_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path)
    spool.create()
    assert spool.reserve_serials(0).start == 0
    for content in [*random_contents(), b"", b"-1", b"1.5"]:
        (tmp_path / "serials" / "000").write_bytes(content)
        with pytest.raises(GossamerError, match="serials/000 does not say"):
            spool.reserve_serials(0)


@pytest.mark.parametrize(
    "content",
    [
        *(b'{"offset_bytes":-7}', b'{"offset_bytes":7}', b'{"offset_bytes":100000}', b"7", b"null", b"\xff\x00"),
        b'{"offset_bytes":1000000000000000000000000000000}',
        *random_contents()[:20],
    ],
)
def test_an_offset_at_which_no_seed_can_begin_costs_no_seed(tmp_path: Path, content: bytes) -> None:
    seeds = tmp_path / "seeds"
    seeds.write_text("".join(f"https://site-{number}.example/\n" for number in range(10)))
    (tmp_path / "seeds.offset").write_bytes(content)

    async def load() -> tuple[int, int]:
        rules = AdmissionRules(ScopeSettings(), parse_exclusions("", ""))
        loader = SeedLoader(seeds, ModelStore(8), rules, UrlSettings(), RefusedLinks())
        first, again = await loader.load(lambda _: None), await loader.load(lambda _: None)
        return first.admitted, again.lines

    assert asyncio.run(load()) == (10, 0)


# Processes.


def test_no_process_imports_from_the_directory_that_the_command_was_started_in() -> None:
    """A file msgspec.py that lies there would be run in every parser."""
    calls = {path: re.findall(r"sys\.executable, (\S+),", path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
    assert [path.name for path, first in calls.items() if set(first) - {'"-P"'}] == []
    assert "supervisor.py" in {path.name for path, first in calls.items() if first}
