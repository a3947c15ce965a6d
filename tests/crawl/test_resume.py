"""What a crawl says and keeps when it is refused, resumed, or at its limit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import RedisServer
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, fetches_in


def said(*arguments: str, code: int, **variables: str) -> str:
    """All that a command prints; in a process of its own, as a crawl is."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    done = subprocess.run(
        [sys.executable, "-m", "gossamer", *arguments],
        capture_output=True,
        text=True,
        env=ours | variables,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.embedded("the stores named here are of another kind")
def test_a_store_of_another_kind_is_refused_and_the_crawl_goes_on_without_it(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5")
    settings = small_web.data / "crawl.toml"
    before = settings.read_bytes()
    variable = {"GOSSAMER_STORE": "redis://:secret@127.0.0.1:1/0"}
    message = said("resume", str(small_web.data), "--max-pages=6", code=2, **variable)
    assert "GOSSAMER_STORE" in message
    assert "unset GOSSAMER_STORE" in message
    assert "'sqlite'" in message
    assert "redis://" in message
    assert "secret" not in message
    assert settings.read_bytes() == before
    for command, *rest in (["status"], ["doctor"], ["explain", small_web.graph.home(0)], ["sites"], ["pages"]):
        said(command, str(small_web.data), *rest, code=0, **variable)
    assert small_web.resume("--max-pages=6")["pages"] == 6


@pytest.mark.embedded("the stores named here are of another kind")
def test_a_flag_outweighs_the_variable_that_names_another_store(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5")
    variable = {"GOSSAMER_STORE": "postgresql://nobody@127.0.0.1:1/x"}
    flags = (f"--store={small_web.store}", "--max-pages=6")
    said("resume", str(small_web.data), *flags, code=0, **variable)


@pytest.mark.embedded("its file is removed")
def test_a_resume_whose_store_cannot_be_opened_keeps_the_settings(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5")
    settings = small_web.data / "crawl.toml"
    before = settings.read_bytes()
    for file in small_web.data.glob("frontier.db*"):
        file.unlink()
    said("resume", str(small_web.data), "--max-pages=99", "--delay=7", code=3)
    assert settings.read_bytes() == before


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--email=", "no contact is set"),
        ("--max-in-flight-bytes=64KiB", "max_in_flight_bytes"),
        ("--fetcher-workers=100000", "--fetcher-workers"),
    ],
)
def test_a_resume_with_settings_that_no_crawl_can_run_with_prints_one_line_and_writes_nothing(
    small_web: Crawls, flag: str, message: str
) -> None:
    small_web.crawl("--max-pages=5")
    settings, exclusions = small_web.data / "crawl.toml", small_web.data.parent / "list"
    before, files_before = settings.read_bytes(), sorted(small_web.data.iterdir())
    exclusions.write_text("example.org\n")
    limited = f"ulimit -n 1024; exec {sys.executable} -m gossamer resume {small_web.data} {flag}"
    done = subprocess.run(
        ["bash", "-c", f"{limited} --exclude-file {exclusions}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message in done.stderr
    assert settings.read_bytes() == before
    assert sorted(small_web.data.iterdir()) == files_before
    assert small_web.resume("--max-pages=6")["pages"] == 6


def test_a_resume_at_its_limit_says_so_and_more_pages_go_on_from_there(small_web: Crawls) -> None:
    small_web.crawl("--max-pages=5")
    at_limit = said("resume", str(small_web.data), code=0)
    assert "nothing to do: the crawl has 5 pages, and --max-pages counts those of all runs" in at_limit
    assert f"gossamer resume {small_web.data} --more-pages N" in at_limit
    assert "--more-pages N" in said("status", str(small_web.data), code=0)
    more = small_web.resume("--more-pages=3")
    assert (more["pages"], more["pages_this_run"]) == (8, 3)
    assert "max_pages = 8\n" in (small_web.data / "crawl.toml").read_text()
    assert small_web.resume()["pages"] == 8


def test_a_resume_with_nothing_queued_says_so_and_what_one_can_do(small_web: Crawls) -> None:
    small_web.crawl("--max-depth=0")
    done = said("resume", str(small_web.data), "--more-pages=5", code=0)
    assert "nothing to do: no URL is queued; for more pages, start a new crawl" in done
    assert "done: " not in done


@pytest.mark.parametrize("flags", [["--more-pages=0"], ["--more-pages=3", "--max-pages=9"]])
def test_more_pages_is_a_number_and_the_only_limit(small_web: Crawls, flags: list[str]) -> None:
    small_web.crawl("--max-pages=1")
    assert "--more-pages" in said("resume", str(small_web.data), *flags, code=2)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--seed-file=/nowhere/seeds"], 2),
        (["--store=redis://127.0.0.1:1/0", "--store-patience=0"], 3),
        (["--store=postgresql://nobody@127.0.0.1:1/x", "--store-patience=0"], 3),
    ],
)
@pytest.mark.parametrize("where", ["new", "above/new", "empty"])
def test_a_start_that_is_refused_leaves_things_as_they_were(
    tmp_path: Path, flags: list[str], code: int, where: str
) -> None:
    (tmp_path / "empty").mkdir()
    said("crawl", "example.org", "--email=a@b.org", f"--data-dir={tmp_path / where}", *flags, code=code)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.servers
def test_a_start_on_a_server_that_is_not_fit_leaves_nothing_behind(redis_binary: ServerBinary, tmp_path: Path) -> None:
    with RedisServer(redis_binary, {"appendonly": "no"}) as server:
        arguments = (
            "crawl",
            "example.org",
            "--email=a@b.org",
            f"--data-dir={tmp_path / 'new'}",
            f"--store={server.url}",
        )
        assert "not fit" in said(*arguments, code=3)
    assert not (tmp_path / "new").exists()


def test_a_directory_with_a_seed_file_of_ones_own_is_no_place_for_a_crawl(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text("example.org\n")
    arguments = ["crawl", f"--seed-file={tmp_path / 'seeds'}", "--email=a@b.org", f"--data-dir={tmp_path}"]
    assert "not empty" in said(*arguments, code=2)
    assert (tmp_path / "seeds").read_text() == "example.org\n"


def test_links_that_a_rule_refused_are_counted_at_the_resume_that_loosens_it_and_explained(small_web: Crawls) -> None:
    web = small_web.graph
    refused = small_web.crawl("--max-depth=1", seeds=[web.home(0)])["refused"]["depth"]
    assert refused > 0
    tight = small_web.resume("--max-depth=1")
    assert tight["pages_this_run"] == 0
    loosened = said("resume", str(small_web.data), "--max-depth=2", code=0)
    assert f"max_depth is now 2 instead of 1: {refused:,} links refused for this reason stay out" in loosened
    assert "as seeds" in loosened
    assert "stay out" not in said("resume", str(small_web.data), "--max-depth=2", code=0)
    # The trace survives all of these runs, and tells refused links from unknown ones.
    deep = web.reachable([web.home(0)], max_depth=2, files=False) - web.reachable([web.home(0)], max_depth=1)
    told = said("explain", str(small_web.data), min(deep), code=0)
    assert "refused: a link to it was refused: it is 2 links away from a seed, deeper than max_depth allowed" in told
    assert "not stored" in told
    said("resume", str(small_web.data), "--max-depth=1", code=0)
    told = said("explain", str(small_web.data), min(deep), code=0)
    assert "a link to it was refused: it is 2 links away from a seed, and max_depth is 1" in told
    assert said("explain", str(small_web.data), f"{web.home(0)}nowhere", code=0).startswith("never seen: ")
    for page in small_web.pages()[:2]:
        assert said("explain", str(small_web.data), page["url"].partition("//")[2], code=0).startswith("fetched: ")


def test_a_media_type_that_a_resume_adds_is_fetched_and_links_refused_before_are_counted(small_web: Crawls) -> None:
    refused = small_web.crawl("--max-pages=40")["refused"]["extension"]
    assert refused > 0
    told = said("resume", str(small_web.data), "--media-types=text/html application/pdf", "--max-pages=0", code=0)
    assert "skip_extensions no longer has pdf: " in told
    assert f"{refused:,} links refused for this reason stay out" in told
    assert any(row["url"].endswith(".pdf") for row in fetches_in(small_web.data))
    assert " pdf " not in (small_web.data / "crawl.toml").read_text()


def test_a_crawl_without_any_page_names_its_seeds_with_reasons_and_fails(small_web: Crawls) -> None:
    # Nobody listens at the port that all names lead to.
    arguments = ["crawl", "nobody.test", "http://s0.test/gone", "--email=a@b.org", "--delay=0", "--max-attempts=1"]
    arguments += [f"--data-dir={small_web.data}", "--connect-to=http=127.0.0.1:1,https=127.0.0.1:1", "--max-failures=1"]
    for said_at in (said(*arguments, code=1), said("resume", str(small_web.data), code=1)):
        assert "failed: no page was fetched, because no seed led to one\n" in said_at
        assert "done: " not in said_at
        for url in ("https://nobody.test/", "http://s0.test/gone"):
            assert f"  {url}: " in said_at
        assert "connect: robots.txt: " in said_at
    assert small_web.end(small_web.start_again(), code=1)["pages"] == 0


def test_a_crawl_of_a_private_address_names_the_flag_that_allows_it_at_every_turn(tmp_path: Path) -> None:
    data = str(tmp_path / "new")
    arguments = ["crawl", "http://127.0.0.1:18480", "http://example.org:22/", "--email=a@b.org", f"--data-dir={data}"]
    failed = said(*arguments, "--connect-to=127.0.0.1:1", code=1)
    assert (
        "  http://127.0.0.1:18480/: blocked-address: 127.0.0.1 is a private address or this machine's own; " in failed
    )
    assert "needs a new crawl with --allow-private-addresses\n" in failed
    assert "port 22 is one of blocked_ports; it needs a new crawl with --blocked-ports without it\n" in failed
    assert "robots.txt" not in failed
    assert "is done and has no page" in said("status", data, code=0)
    explained = said("explain", data, "http://127.0.0.1:18480", code=0)
    assert "--allow-private-addresses" in explained.partition("\n")[0]
    assert "rules now" not in explained
    resumed = said("resume", data, "--allow-private-addresses", code=1)
    assert "allow_private_addresses is now on instead of off: 2 URLs dropped" in resumed
    assert "--allow-private-addresses" in said("crawl", "--help", code=0)


def test_a_crawl_whose_seeds_are_all_refused_fails(small_web: Crawls, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("s0.test\n")
    summary = small_web.end(small_web.start(f"--exclude-file={tmp_path / 'list'}", seeds=["http://s0.test/"]), code=1)
    assert summary["refused"] == {"blocked-site": 1}
    told = said("explain", str(small_web.data), "http://s0.test/", code=0)
    assert "refused: it was given as a seed, and refused: the exclude file lists its site, s0.test" in told


def test_a_media_type_that_was_declined_is_named_in_the_log_and_by_explain(small_web: Crawls) -> None:
    small_web.end(small_web.start("--media-types=application/pdf"), code=1)
    declined = [row for row in fetches_in(small_web.data) if row["failure_kind"] == "media-type"]
    assert {row["reason"] for row in declined} <= {"text/html", "application/xhtml+xml"}
    told = said("explain", str(small_web.data), declined[0]["url"], code=0)
    assert f"the server sent {declined[0]['reason']}, which is not one of media_types (application/pdf)" in told
