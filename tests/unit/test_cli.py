"""The commands as a user meets them: what they print, where, and with which exit code."""

import gzip
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gossamer import layers
from gossamer.cli.flags import HINTS
from gossamer.cli.main import COMMANDS, command_parser, main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in an empty directory, in an environment without settings."""
    for variable in [name for name in os.environ if name.startswith("GOSSAMER_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ran:
        code = main(arguments)
        return Ran(code, *capsys.readouterr())

    return call


def complaint(ran: Ran) -> str:
    """The one line on standard error of a command that was used wrongly."""
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("gossamer: ")
    assert ran.err.count("\n") == 1
    return ran.err.removeprefix("gossamer: ").rstrip("\n")


# --- gossamer ---------------------------------------------------------------------------------------------------------


def test_without_a_command_the_overview_is_shown(run: Run) -> None:
    ran = run()
    assert (ran.code, ran.out) == (2, "")
    assert "commands:" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["crwal"], "unknown command 'crwal', did you mean crawl? See gossamer --help"),
        (["frobnicate"], "unknown command 'frobnicate'; see gossamer --help"),
        (["--max-pages", "3", "crawl"], "unknown argument '--max-pages': a command comes first; see gossamer --help"),
        (
            ["store", "chek", "sqlite"],
            "argument action: 'chek' is not one of check, remove, did you mean check? See gossamer store --help",
        ),
    ],
)
def test_an_unknown_command_is_named(run: Run, arguments: list[str], message: str) -> None:
    assert complaint(run(*arguments)) == message


def test_help_prints_what_the_flag_prints(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for arguments in (["help", "url"], ["url", "--help"], ["help"], ["--help"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2] == shown[3]
    assert main(["help", "crwal"]) == 2
    assert "did you mean crawl?" in capsys.readouterr().err


def test_a_number_that_is_none_is_refused_in_plain_words(run: Run) -> None:
    for command in (["resume", "d", "--more-pages"], ["pages", "d", "--limit"], ["audit", "--web-seed"]):
        said = complaint(run(*command, "x"))
        assert said.startswith(f"argument {command[-1]}: 'x' is not a whole number; see")


@pytest.mark.parametrize(("given", "meant"), [("500K", "500KB or 500KiB"), ("1.5 m", "1.5MB or 1.5MiB")])
def test_a_size_without_the_last_letter_of_its_unit_is_answered_with_both_units(
    run: Run, given: str, meant: str
) -> None:
    said = complaint(run("settings", "--max-body", given))
    assert f"'{given}' is not a value for max_body; write {meant}; allowed: a size such as" in said
    assert "write" not in complaint(run("settings", "--max-body", "xk"))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_flag_is_named_with_the_nearest(run: Run, command: str) -> None:
    wanted = {
        "settings": [],
        "simweb": [],
        "demo": [],
        "parse": ["x", "--url", "http://a/"],
        "show": ["x", "http://a/"],
        "sql": ["x", "select 1"],
        "export": ["x", "--format=jsonl", "-o", "y"],
        "explain": ["x", "http://a/"],
        "store": ["check", "sqlite"],
    }.get(command, ["x"])
    assert complaint(run(command, *wanted, "--jsn")).startswith("unknown argument '--jsn'")


def test_the_nearest_flag_is_offered(run: Run) -> None:
    assert "did you mean --base?" in complaint(run("url", "x", "--bas", "y"))


@pytest.mark.parametrize(
    ("flag", "nearest"),
    [
        ("--max_pages", "--max-pages"),
        ("--max-page", "--max-pages"),
        ("--dealy", "--delay"),
        ("--seed", "--seed-file"),
        ("--num-fetcher", "--num-fetcher-processes"),
        ("--tor", None),
        ("-l", None),
        ("-x", None),
    ],
)
def test_a_flag_is_suggested_only_when_it_is_close(run: Run, flag: str, nearest: str | None) -> None:
    suggestion = f", did you mean {nearest}? See" if nearest else "; see"
    assert (
        complaint(run("crawl", "a.test", flag, "1")) == f"unknown argument '{flag}'{suggestion} gossamer crawl --help"
    )


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["resume", "d", "--seed-file", "f"], "seeds are given to `gossamer crawl`"),
        (["resume", "--data-dir", "d"], "`gossamer resume DIR`"),
        (["crawl", "--resume", "d"], "`gossamer resume DIR`"),
        (["crawl", "a.test", "--max-workers=9"], "use --fetcher-workers N"),
        (["crawl", "a.test", "--depth", "2"], "use --max-depth N"),
        (["crawl", "a.test", "--limit=2"], "use --max-pages N"),
        (["crawl", "a.test", "--output", "x"], "--data-dir DIR"),
        (["crawl", "a.test", "-o", "x"], "--data-dir DIR"),
        (["crawl", "a.test", "--threads", "4"], "use --fetcher-workers N"),
        (["crawl", "a.test", "--workers", "4"], "use --fetcher-workers N"),
        (["crawl", "a.test", "--concurrency", "4"], "use --fetcher-workers N"),
        (["crawl", "a.test", "--user-agent", "x"], "--email and --contact"),
        (["crawl", "a.test", "--wait", "2"], "use --delay DURATION"),
        (["crawl", "--seeds", "x"], "use --seed-file FILE"),
        (["crawl", "a.test", "--ignore-robots"], "robots.txt is always obeyed"),
        (["crawl", "a.test", "--max-size=1MB"], "--max-body SIZE"),
        (["resume", "d", "--max-bytes=1MB"], "--max-body SIZE"),
        (["crawl", "a.test", "--max-time", "1h"], "use --max-duration DURATION"),
        (["resume", "d", "--timeout", "9"], "use --fetch-timeout DURATION"),
        (["resume", "d", "-v"], "use --log-level debug"),
        (["crawl", "a.test", "--verbose"], "use --log-level debug"),
        (["crawl", "a.test", "--allowed-domains", "a.test"], "use --scope seeds"),
        (["crawl", "a.test", "--redis-host", "h"], "--store redis://"),
        (["crawl", "a.test", "--redis-port", "1"], "--store redis://"),
        (["crawl", "a.test", "--redis-db=1"], "--store redis://"),
        (["crawl", "a.test", "--redis-password", "hidden"], "--store redis://"),
    ],
)
def test_a_flag_of_another_program_is_answered_with_ours(run: Run, arguments: list[str], hint: str) -> None:
    said = complaint(run(*arguments))
    assert hint in said
    assert "did you mean" not in said
    assert "hidden" not in said


def test_every_flag_that_a_hint_names_exists() -> None:
    known = {flag for command in ("crawl", "resume") for flag in command_parser(command)._option_string_actions}
    named = {flag for hint in HINTS.values() for flag in re.findall(r"--[a-z-]+", hint)}
    assert named <= known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delay", "1", "--delay=1"], "--delay: --delay was given before; give it once"),
        (["--json", "--json"], "--json: --json was given before; give it once"),
        (["--text", "--no-text"], "--no-text: --text or --no-text was given before; give it once"),
        (["--seed-file=a", "--seed-file=b"], "--seed-file: --seed-file was given before; give it once"),
    ],
)
def test_a_flag_that_is_no_list_is_given_once(run: Run, arguments: list[str], message: str) -> None:
    assert complaint(run("crawl", "a.test", *arguments)) == f"{message}; see gossamer crawl --help"


@pytest.mark.parametrize("flag", ["--include", "--exclude", "--skip-extensions", "--media-types", "--email"])
def test_a_control_character_is_refused_before_anything_is_made(run: Run, tmp_path: Path, flag: str) -> None:
    """In crawl.toml it would make every later `resume` and `status` fail."""
    email = [] if flag == "--email" else ["--email=a@b.org"]
    for character in "\x7f\x01":
        said = complaint(run("crawl", "a.test", *email, f"{flag}=a@b.org{character}", "--data-dir=new"))
        assert said.startswith(f"{flag}: 'a@b.org\\x{ord(character):02x}' is not a value for ")
    assert not (tmp_path / "new").exists()


def test_include_and_exclude_may_be_repeated(run: Run) -> None:
    ran = run("settings", "--email=a@b.org", "--include=/a", "--include=/b", "--exclude", "z$")
    scope = tomllib.loads(ran.out)["scope"]
    assert (scope["include"], scope["exclude"]) == (["/a", "/b"], ["z$"])


@pytest.mark.parametrize("command", ["crawl", "resume", "settings"])
def test_the_help_shows_what_people_use_and_another_shows_all(
    run: Run, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match=r"^0$"):
            run(command, flag)
        shown[flag] = capsys.readouterr().out
    settings = layers.settings_by_name().values()
    common = [setting for setting in settings if setting.is_common]
    assert 12 <= len(common) <= 18
    for setting in settings:
        is_shown = re.search(rf"^  {setting.flag}\b", shown["--help"], re.MULTILINE) is not None
        assert is_shown == setting.is_common
        assert re.search(rf"^  {setting.flag}\b", shown["--help-all"], re.MULTILINE)
        assert f"\n[{setting.section}] " in shown["--help-all"]
    assert {line[1:].partition("]")[0] for line in shown["--help"].splitlines() if line.startswith("[")} == {
        setting.section for setting in common
    }


@pytest.mark.parametrize("arguments", [["demo", "--seconds"], ["simweb", "--latency"], ["audit", "x", "--delay"]])
def test_durations_of_the_commands_have_units_too(run: Run, arguments: list[str]) -> None:
    said = complaint(run(*arguments, "soon"))
    assert said.startswith(f"argument {arguments[-1]}: 'soon' is not a duration such as 90, 90s, 10m, 1.5h or 1d")
    parsed = command_parser(arguments[0]).read([*arguments[1:], "1.5m"])
    assert vars(parsed)[arguments[-1][2:]] == 90


def test_a_reader_that_leaves_early_is_no_error_to_shout_about() -> None:
    reader = subprocess.run(
        ["sh", "-c", '"$1" -m gossamer url - | head -n 1', "sh", sys.executable],
        input="http://example.com/\n" * 20_000,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (reader.stdout, reader.stderr) == ("http://example.com/\n", "")


# --- gossamer url -----------------------------------------------------------------------------------------------------


def test_url_prints_what_a_url_is(run: Run) -> None:
    ran = run("url", "http://EXAMPLE.com/a/../b")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "http://example.com/b",
        "  site              example.com",
        "  host              example.com",
        "  port              80",
        "  slot              51",
        "  fingerprint       d92784cfe7c6ce13",
    ]


def test_url_says_why_one_is_refused_and_goes_on(run: Run) -> None:
    ran = run("url", "--json", "mailto:x", "a/b", "http://example.com/")
    assert ran.code == 1
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer.get("refused") for answer in answers] == ["scheme", "not-a-url", None]
    assert "https://" in answers[1]["detail"]
    assert answers[2]["fingerprint"] == f"{13364996003878346283:016x}"


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("example.org", "https://example.org/"),
        ("shop.example/p/3", "https://shop.example/p/3"),
        ("example.org:8080", "https://example.org:8080/"),
    ],
)
def test_url_takes_bare_domains_as_a_crawl_does(run: Run, typed: str, url: str) -> None:
    ran = run("url", typed)
    assert (ran.code, ran.out.splitlines()[0]) == (0, url)


def test_url_resolves_against_the_base(run: Run) -> None:
    assert run("url", "--base", "https://example.org/a/b", "../c").out.startswith("https://example.org/c\n")


def test_url_refuses_a_base_that_is_none(run: Run) -> None:
    assert complaint(run("url", "--base", "mailto:x", "a")).startswith("--base: 'mailto:x' is refused (scheme)")


def test_url_reads_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "urls").write_bytes(b"http://a.example/\n\n  http://b.example/ \r\nhttp://\xff.example/")
    with (tmp_path / "urls").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        ran = run("url", "--json", "-")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer.get("url") for answer in answers] == ["http://a.example/", "http://b.example/", None]
    assert ran.code == 1


def test_url_settings_change_the_answer(run: Run) -> None:
    ran = run("url", "--json", "--site-key", "host", "--strip-tracking", "http://www.example.com/?utm_id=1&a=2")
    answer = json.loads(ran.out)
    assert (answer["site"], answer["url"]) == ("www.example.com", "http://www.example.com/?a=2")


def test_nothing_reaches_the_terminal_unescaped(run: Run) -> None:
    ran = run("url", "\x1b]0;owned\x07\u202e\udcff\xa0é")
    assert ran.out.splitlines()[0] == r"\x1b]0;owned\x07\u202e\udcff" "\xa0é"
    assert "\\x1b[31m" in complaint(run("url", "--slots", "\x1b[31m", "http://a/"))


# --- gossamer robots --------------------------------------------------------------------------------------------------

ROBOTS = b"""User-agent: *
Disallow: /private
Crawl-delay: 5

User-agent: gossamer
Disallow: /no\x1b[31m
Allow: /no/but
Sitemap: https://example.com/sitemap.xml
"""


@pytest.fixture
def robots_file(tmp_path: Path) -> str:
    (tmp_path / "robots.txt").write_bytes(ROBOTS)
    return "robots.txt"


def test_robots_names_the_line_that_decides(run: Run, robots_file: str) -> None:
    ran = run("robots", robots_file, "--agent", "Other", "/private/x", "http://example.com/public", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["agent"], answer["crawl_delay"]) == (0, "Other", 5)
    assert answer["sitemaps"] == ["https://example.com/sitemap.xml"]
    assert answer["urls"] == [
        {"url": "/private/x", "allowed": False, "reason": "rule", "rule": "Disallow: /private", "line": 2},
        {
            "url": "http://example.com/public",
            "allowed": True,
            "reason": "no-rule-matches",
            "rule": None,
            "line": None,
        },
    ]


def test_robots_prints_for_people_and_escapes_what_it_read(run: Run, robots_file: str) -> None:
    ran = run("robots", robots_file, "/no%1B%5B31m/x", "/no/but")
    assert ran.out.splitlines() == [
        "/no%1B%5B31m/x",
        "  allowed           no",
        "  because           rule, line 6: Disallow: /no\\x1b[31m",
        "/no/but",
        "  allowed           yes",
        "  because           rule, line 7: Allow: /no/but",
        "for Gossamer",
        "  crawl-delay       none",
        "  sitemap           https://example.com/sitemap.xml",
    ]


def test_robots_takes_urls_after_two_dashes(run: Run, robots_file: str) -> None:
    ran = run("robots", robots_file, "--json", "--", "/private", "--agent", "-x")
    assert [answer["url"] for answer in json.loads(ran.out)["urls"]] == ["/private", "--agent", "-x"]
    assert run("robots", "--agent=Other", "--", robots_file, "/private").out.startswith(
        "/private\n  allowed           no"
    )


def test_robots_of_a_missing_file(run: Run) -> None:
    assert complaint(run("robots", "nowhere.txt", "/")) == "FILE: cannot read 'nowhere.txt': No such file or directory"


# --- gossamer parse ---------------------------------------------------------------------------------------------------

PAGE = """<!DOCTYPE html><html lang="de"><head><title>Caf\u00e9 \x1b[31m</title><base href="/b/">
<meta name="robots" content="noindex"><link rel="canonical" href="c"></head>
<body><script>no()</script><p>Words of a page<p>
<a rel="nofollow" href="x?utm_id=1">one</a> <a href="mailto:a@b.org">two</a></body>
"""


@pytest.fixture
def page_file(tmp_path: Path) -> str:
    (tmp_path / "page.gz").write_bytes(gzip.compress(PAGE.encode("iso-8859-1")))
    return "page.gz"


def test_parse_shows_what_a_parser_process_sees(run: Run, page_file: str) -> None:
    headers = (
        "--content-type",
        "text/html; charset=latin1",
        "--content-encoding",
        "gzip",
        "--x-robots-tag",
        "nofollow",
    )
    ran = run("parse", page_file, "--url", "http://example.com/a/", *headers, "--strip-tracking", "--json")
    assert (ran.code, ran.err) == (0, "")
    said = json.loads(ran.out)
    assert (said["content_encodings"], said["truncated"], said["fallback"]) == (["gzip"], None, None)
    assert (said["charset"], said["charset_source"]) == ("windows-1252", "header")
    assert (said["title"], said["language"]) == ("Caf\u00e9 [31m", "de")
    assert (said["base"], said["canonical"]) == ("http://example.com/b/", "http://example.com/b/c")
    assert (said["robots"], said["noindex"], said["nofollow"]) == (["noindex", "nofollow"], True, True)
    assert [link.get("url", link.get("refused")) for link in said["links"]] == [
        "http://example.com/b/c",
        "http://example.com/b/x",
        "scheme",
    ]
    assert "Words of a page" in said["text"]
    assert "no()" not in said["text"]


def test_parse_prints_for_people(run: Run, page_file: str) -> None:
    ran = run("parse", page_file, "--content-encoding", "gzip", "--url", "http://example.com/a/", "--no-text")
    assert ran.out.splitlines()[0] == "http://example.com/a/"
    assert "  a                 mailto:a@b.org — refused: scheme" in ran.out.splitlines()
    assert "\x1b" not in ran.out
    assert "Words of a page" not in ran.out


def test_parse_obeys_the_limits(run: Run, page_file: str) -> None:
    arguments = ("parse", page_file, "--url", "http://example.com/", "--content-encoding", "gzip", "--json")
    cut_on_the_wire = json.loads(run(*arguments, "--max-body", "100").out)
    assert (cut_on_the_wire["bytes"] > 0, cut_on_the_wire["truncated"]) == (True, "length")
    cut_when_decoded = json.loads(run(*arguments, "--max-body", "250").out)
    assert (cut_when_decoded["bytes"], cut_when_decoded["truncated"]) == (250, "length")
    short = json.loads(run(*arguments, "--max-parse-bytes", "60").out)
    assert (short["parsed_bytes"], short["links"]) == (60, [])
    few = json.loads(run(*arguments, "--max-links", "1").out)
    assert (len(few["links"]), few["links_left_out"]) == (1, 2)


def test_parse_needs_the_pages_url(run: Run, page_file: str) -> None:
    assert "--url" in complaint(run("parse", page_file))
    assert complaint(run("parse", page_file, "--url", "a page")).startswith("--url: 'a page' is refused")
    assert run("parse", page_file, "--url", "example.com").out.startswith("https://example.com/\n")


def test_parse_of_an_empty_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    said = json.loads(run("parse", "empty", "--url", "http://example.com/", "--json").out)
    assert (said["bytes"], said["links"], said["text"]) == (0, [], "")


# --- gossamer settings ------------------------------------------------------------------------------------------------


def test_settings_are_a_valid_file_with_the_source_of_each(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gossamer.toml").write_text('[url]\nslots = 8\nsite_key = "host"\n[identity]\nemail = "a@b.org"\n')
    monkeypatch.setenv("GOSSAMER_SLOTS", "9")
    ran = run("settings", "--no-text")
    assert (ran.code, ran.err) == (0, "")
    assert "(+a@b.org)" in ran.out.splitlines()[0]
    assert "slots = 9  # GOSSAMER_SLOTS" in ran.out
    assert 'site_key = "host"  # gossamer.toml [url] site_key' in ran.out
    assert "text = false  # --no-text" in ran.out
    assert "max_links = 6000  # default" in ran.out
    assert tomllib.loads(ran.out)["url"]["slots"] == 9
    (tmp_path / "again.toml").write_text(ran.out)
    monkeypatch.delenv("GOSSAMER_SLOTS")
    assert tomllib.loads(run("settings", "--config", "again.toml").out) == tomllib.loads(ran.out)


def test_no_contact_no_crawl(run: Run) -> None:
    assert complaint(run("settings")).startswith(
        "no contact is set, so no crawl: give --email ADDRESS or --contact URL"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[url]\nslot = 3\n", "gossamer.toml [url] slot: unknown setting; did you mean slots?"),
        ("[url\n", "gossamer.toml: not a TOML file: "),
        (
            "[url]\nslots = 0\n",
            "gossamer.toml [url] slots: 0 is not a value for slots; allowed: a whole number, at least 1",
        ),
    ],
)
def test_a_bad_file_stops_every_command_that_reads_settings(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gossamer.toml").write_text(text)
    for arguments in (("settings", "--email", "a@b.org"), ("url", "http://example.com/")):
        assert complaint(run(*arguments)).startswith(message)


def test_a_settings_file_that_is_named_must_exist(run: Run) -> None:
    assert complaint(run("settings", "--config", "no.toml")).startswith("--config: cannot read 'no.toml'")
