"""robots.txt against the public cases and files: all on which three parsers agree, and ours on those they dispute."""

import base64
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gossamer.fetch.robots import parse

Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(shared_data: Path) -> list[Case]:
    found: list[Case] = json.loads((shared_data / "robots_cases.json").read_text())["cases"]
    return found


@pytest.fixture(scope="module")
def decisions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("robots_disputed.toml").read_text())[
        "decision"
    ]
    return found


def _body(case: Case) -> bytes:
    text = case["robots_txt"]
    return base64.b64decode(case["robots_txt_b64"]) if text is None else str(text).encode()


def _label(case: Case) -> str:
    agent, url = case["user_agent"], case["url"]
    digest = hashlib.sha256(b"\0".join((_body(case), agent.encode(), url.encode()))).hexdigest()[:10]
    return f"{digest} {case['test']} | {agent} | {url if len(url) <= 60 else url[:57] + '...'}"


def test_every_case_that_google_crawler_commons_and_protego_agree_on_is_answered_as_they_do(cases: list[Case]) -> None:
    core = [case for case in cases if case["tier"] == "core"]
    assert len(core) == 968
    wrong = []
    for case in core:
        verdict = parse(_body(case)).verdict(case["user_agent"], case["url"])
        if verdict.allowed != case["allowed"]:
            wrong.append((_label(case), verdict))
    assert wrong == []


def test_every_disputed_case_is_decided_in_the_table_exactly_once(
    cases: list[Case], decisions: list[dict[str, Any]]
) -> None:
    disputed = [_label(case) for case in cases if case["tier"] == "disputed"]
    decided = [label for decision in decisions for label in (*decision["allow"], *decision["deny"])]
    assert len(disputed) == 190
    assert sorted(decided) == sorted(disputed)


def test_every_disputed_case_is_answered_as_the_table_decides(
    cases: list[Case], decisions: list[dict[str, Any]]
) -> None:
    answers = {label: answer for d in decisions for answer in ("allow", "deny") for label in d[answer]}
    wrong = []
    for case in cases:
        if case["tier"] == "disputed":
            verdict = parse(_body(case)).verdict(case["user_agent"], case["url"])
            if ("allow" if verdict.allowed else "deny") != answers[_label(case)]:
                wrong.append((_label(case), verdict))
    assert wrong == []


def test_each_decision_gives_its_reason_and_where_the_rfc_is_silent_it_denies(decisions: list[dict[str, Any]]) -> None:
    for decision in decisions:
        assert len(decision["reason"].strip()) > 40
        assert decision["rfc"] == "silent" or decision["rfc"].startswith("2."), decision["reason"]
        assert decision["rfc"] != "silent" or decision["allow"] == [], decision["reason"]


#: File, agent, paths that are allowed, paths that are not, Crawl-delay.
FILES: list[tuple[str, str, str, str, float | None]] = [
    ("crawl-delay-group-merging.txt", "mybot", "/ /login/", "/private/", 10.0),
    ("crawl-delay-group-merging.txt", "yourbot", "/", "/private/ /login/", None),
    ("crawl-delay-group-merging.txt", "anybot", "/ /private/ /login/", "", 30.0),
    ("directive-typos-robots.txt", "bot1", "/", "/desallow/ /dissalow/", None),
    ("directive-typos-robots.txt", "bot2", "/desallow/", "/useragent/", None),
    ("directive-typos-robots.txt", "bot3", "/useragent/", "/useg-agent/", None),
    ("directive-typos-robots.txt", "bot4", "/useg-agent/", "/useragent-no-colon/", None),
    ("dos-line-endings.txt", "anybot", "/", "", 1.0),
    ("extended-standard-robots.txt", "bot1", "/", "", None),
    ("extension-robots.txt", "anybot", "/private/ /admin/", "", None),
    ("extension-robots.txt", "mybot", "/secret/ /admin/", "/private/", None),
    ("extension-robots.txt", "otherbot", "/private/", "/admin/", None),
    ("extensions-group-merging.txt", "mybot", "/", "/private/ /login/", None),
    ("extensions-group-merging.txt", "yourbot", "/", "/private/ /login/", None),
    ("extensions-group-merging.txt", "anybot", "/llms.txt", "/ /private/", None),
    ("format-errors-robots.txt", "bot1", "/", "/whitespace-before-colon/ /no-colon/", None),
    ("format-errors-robots.txt", "bot2", "/", "/no-colon-useragent/", None),
    ("format-errors-robots.txt", "bot3", "/whitespace-before-colon", "/", None),
    ("malformed-path.txt", "anybot", "/wiki/", "/wiki/Wikipedia_talk%3Mediation_Committee/x", None),
    ("malformed-path.txt", "anybot", "/wiki/Wikipedia", "/wiki/Wikipedia_talk%3AMediation_Committee/x", None),
    ("many-user-agents.txt", "wget", "", "/ /index.html", None),
    ("many-user-agents.txt", "mysuperlongbotnamethatmatchesnothing", "/ /index.html", "", None),
    ("merge-rules.txt", "wget", "/foo/bar /ckh/bar /", "/tmp/bar", None),
    ("merge-rules.txt", "anybot", "/ckh/bar /", "/foo/bar /tmp/bar", None),
    ("merge-rules.txt", "curl", "", "/", None),
    ("precedence-of-rules.txt", "testy", "/ /foo/bar", "/foo /foo/baz", None),
    ("precedence-of-rules.txt", "wget", "/foo /index.html", "/bar", None),
    ("relative-sitemap-robots.txt", "anybot", "/", "/cache/ /files/x", None),
    ("rfc9309-example-longest-match-robots.txt", "foobot", "/example/page/", "/example/page/disallowed.gif", None),
    ("rfc9309-example-rule-group-merging.txt", "examplebot", "/", "/foo /bar /baz", None),
    ("rfc9309-example-rule-group-merging.txt", "bazbot", "/foo /bar", "/baz", None),
    ("rfc9309-example-simple-robots.txt", "anybot", "/publications/ /a.gif?x", "/a.gif /example/", None),
    ("rfc9309-example-simple-robots.txt", "foobot", "/example/page.html /example/allowed.gif", "/ /a.gif", None),
    ("rfc9309-example-simple-robots.txt", "bazbot", "/ /example/", "/example/page.html", None),
    ("rfc9309-example-simple-robots.txt", "quxbot", "/ /example/page.html /a.gif", "", None),
    ("robots-with-utf16be-bom.txt", "googlebot", "/", "/profile /a/output/print", None),
    ("robots-with-utf16le-bom.txt", "foobot", "/", "/login.aspx /profile", None),
    ("robots-with-utf8-bom.txt", "foobot", "/", "/login.aspx /profile", None),
    ("sitemap-robots.txt", "anybot", "/", "", None),
    (
        "wildcards.txt",
        "anybot",
        "/wishlist/universal/x /",
        "/wishlist/ /x/gcrnsts /gp/registry/wishlist/x/reserve",
        None,
    ),
]


def test_each_public_file_gives_its_rules_and_delays(shared_data: Path) -> None:
    wrong = []
    for name, agent, allowed, denied, delay in FILES:
        rules = parse((shared_data / "robots-files" / name).read_bytes()).for_agent(agent)
        wrong += [(name, agent, path) for path in allowed.split() if not rules.verdict(path).allowed]
        wrong += [(name, agent, path) for path in denied.split() if rules.verdict(path).allowed]
        if rules.crawl_delay != delay:
            wrong.append((name, agent, str(rules.crawl_delay)))
    assert wrong == []


def test_no_public_file_is_left_out(shared_data: Path) -> None:
    files = {path.name for path in (shared_data / "robots-files").glob("*.txt")}
    assert files == {name for name, *_ in FILES} | {"sitemap-robots-dedup.txt"}


def test_each_public_file_gives_its_sitemaps(shared_data: Path) -> None:
    newsweek = ("http://www.newsweek.com/sitemap_index.xml",)
    expected = {
        "sitemap-robots.txt": ("http://domain.com/sitemap.xml", "http://domain.com/dir/MixedCased-sitemap.xml"),
        "sitemap-robots-dedup.txt": ("http://example.org/sitemap.xml",),
        "robots-with-utf16be-bom.txt": newsweek,
        "robots-with-utf16le-bom.txt": newsweek,
        "robots-with-utf8-bom.txt": newsweek,
    }
    found = {path.name: parse(path.read_bytes()).sitemaps for path in (shared_data / "robots-files").glob("*.txt")}
    assert len(found.pop("wildcards.txt")) == 8
    assert {name: sitemaps for name, sitemaps in found.items() if sitemaps} == expected
