"""What the commands refuse, with a message that names the value and says what to do."""

import gzip
import json
from pathlib import Path

import pytest

from gossamer.cli.main import main
from gossamer.config import Settings
from gossamer.run.data_directory import DataDirectory
from tests.crawl.conftest import Crawls


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_no_contact_no_crawl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "crawl", "https://example.org", f"--data-dir={tmp_path / 'new'}")
    assert "--email" in message
    assert not (tmp_path / "new").exists()


def test_an_existing_crawl_is_refused_and_left_as_it_is(small_web: Crawls, capsys: pytest.CaptureFixture[str]) -> None:
    small_web.crawl("--max-pages=5")
    before = {path: path.read_bytes() for path in small_web.data.rglob("*") if path.is_file()}
    message = refused(capsys, "crawl", "https://example.org", "--email=a@b.org", f"--data-dir={small_web.data}")
    assert f"gossamer resume {small_web.data}" in message
    assert {path: path.read_bytes() for path in small_web.data.rglob("*") if path.is_file()} == before


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("precious")
    message = refused(capsys, "crawl", "https://example.org", "--email=a@b.org", f"--data-dir={tmp_path}")
    assert "not empty" in message
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "seed"),
        (["ftp://example.org/"], "ftp://example.org/"),
        (["https://example.org", "--seed-file=/nowhere/seeds"], "/nowhere/seeds"),
        (["https://example.org", "--exclude-file=/nowhere/list"], "/nowhere/list"),
        (["https://example.org", "--include=("], "--include"),
        (["https://example.org", "--delay=-1"], "--delay"),
        (["https://example.org", "--delay=nan"], "--delay"),
        (["https://example.org", "--connect-to=localhost:80"], "--connect-to"),
        (["https://example.org", "--scope=any", "--seeded-urls-only"], "--seeded-urls-only"),
        (["https://example.org", "--store=oracle://x"], "--store"),
        (["https://example.org", "--fetcher-workers=1000000"], "--fetcher-workers"),
    ],
)
def test_bad_input_is_named_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    data = tmp_path / "new"
    message = refused(capsys, "crawl", *arguments, "--email=a@b.org", f"--data-dir={data}")
    assert words in message
    assert not data.exists()


def test_what_is_no_crawl_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds no crawl" in refused(capsys, "resume", str(tmp_path))
    assert "does not exist" in refused(capsys, "resume", str(tmp_path / "nowhere"))


def test_a_directory_above_a_crawl_is_answered_with_that_crawl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DataDirectory(tmp_path / "crawl").create()
    DataDirectory(tmp_path / "crawl").write_settings(Settings())
    for command in ("status", "resume", "pages"):
        assert f"holds no crawl: there is no crawl.toml in it; did you mean {tmp_path / 'crawl'}?" in refused(
            capsys, command, str(tmp_path)
        )
        assert "does not exist" in refused(capsys, command, str(tmp_path / "nowhere"))
    DataDirectory(tmp_path / "other").create()
    DataDirectory(tmp_path / "other").write_settings(Settings())
    assert "did you mean" not in refused(capsys, "status", str(tmp_path))


def test_what_is_fixed_cannot_change_at_a_resume(small_web: Crawls, capsys: pytest.CaptureFixture[str]) -> None:
    small_web.crawl("--max-pages=5")
    for flag, value in (("--slots", "32"), ("--site-key", "host")):
        message = refused(capsys, "resume", str(small_web.data), flag, value)
        assert flag in message
        assert "fixed" in message
    assert small_web.resume("--slots=64", "--max-pages=6")["pages"] == 6


def test_a_resume_keeps_the_settings_that_it_was_given(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5", "--no-text")
    small_web.resume("--max-pages=8")
    assert small_web.resume()["pages"] == 8
    assert all(page["text"] is None for page in small_web.pages())


def test_seeds_come_from_urls_and_from_a_compressed_file(small_web: Crawls, tmp_path: Path) -> None:
    web = small_web.graph
    file = tmp_path / "more.gz"
    file.write_bytes(gzip.compress(f"# two more\n{web.home(1)}\n\n{web.home(2)} \n".encode()))
    running = small_web._gossamer(
        "crawl",
        web.home(0),
        f"--seed-file={file}",
        f"--data-dir={small_web.data}",
        "--contact=https://example.org/crawl",
        "--delay=0",
        "--max-depth=0",
        f"--connect-to=http=127.0.0.1:{small_web.web.http_port},https=127.0.0.1:{small_web.web.https_port}",
    )
    summary = small_web.end(running)
    assert summary["admitted"] == 3
    agents = {request.user_agent for request in small_web.requests()}
    assert len(agents) == 1
    assert "(+https://example.org/crawl)" in agents.pop()


def test_a_page_is_a_row_with_its_text(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=3")
    for page in small_web.pages():
        assert page["fetch_status"] == 200
        assert page["content_mime_type"] == "text/html"
        assert page["title"]
        assert len(page["text"]) > 100
        assert page["received_bytes"] > 0
    assert "crawl.toml" in {path.name for path in small_web.data.iterdir()}
    log_lines = (small_web.data / "log" / "leader.log").read_text("utf-8").splitlines()
    assert {json.loads(line)["process"] for line in log_lines} == {"leader"}
