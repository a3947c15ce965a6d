"""robots.txt: what a request for it means, how a file is read, and how a URL is judged."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.fetch.robots import (
    LONG_LINE_BYTES,
    PARSE_LIMIT_BYTES,
    REDIRECT_LIMIT,
    SITEMAP_LIMIT,
    Access,
    access_for,
    kept_part,
    parse,
    product_token,
)
from gossamer.fetch.robots_rules import (
    MOST_PATTERNS,
    MOST_WILDCARDS,
    RULE_BYTES,
    Reason,
    Rules,
    Verdict,
    compared_target,
    compile_pattern,
)


def rules_for_all(*lines: str) -> Rules:
    return parse("\n".join(["User-agent: *", *lines]).encode()).for_agent("Gossamer")


def allows(body: bytes, path: str) -> bool:
    return parse(body).verdict("Gossamer", "https://example.com" + path).allowed


# The answer to the request


@pytest.mark.parametrize(
    ("status", "access"),
    [
        (200, Access.PARSE),
        (201, Access.PARSE),
        (204, Access.PARSE),
        (206, Access.DISALLOW_ALL),
        (100, Access.DISALLOW_ALL),
        (103, Access.DISALLOW_ALL),
        (300, Access.DISALLOW_ALL),
        (304, Access.DISALLOW_ALL),
        (305, Access.DISALLOW_ALL),
        (301, Access.FOLLOW),
        (302, Access.FOLLOW),
        (303, Access.FOLLOW),
        (307, Access.FOLLOW),
        (308, Access.FOLLOW),
        (400, Access.ALLOW_ALL),
        (401, Access.ALLOW_ALL),
        (403, Access.ALLOW_ALL),
        (404, Access.ALLOW_ALL),
        (410, Access.ALLOW_ALL),
        (451, Access.ALLOW_ALL),
        (499, Access.ALLOW_ALL),
        (429, Access.BACK_OFF),
        (500, Access.DISALLOW_ALL),
        (503, Access.DISALLOW_ALL),
        (599, Access.DISALLOW_ALL),
        (600, Access.DISALLOW_ALL),
        (999, Access.DISALLOW_ALL),
        (0, Access.DISALLOW_ALL),
        (-1, Access.DISALLOW_ALL),
        pytest.param(None, Access.DISALLOW_ALL, id="time-out, refused, no address"),
    ],
)
def test_each_status_has_its_place_in_the_table(status: int | None, access: Access) -> None:
    assert access_for(status) is access


def test_the_fifth_redirect_is_followed_and_the_sixth_counts_as_not_found() -> None:
    assert REDIRECT_LIMIT == 5
    assert access_for(301, redirects_followed=4) is Access.FOLLOW
    assert access_for(301, redirects_followed=5) is access_for(404) is Access.ALLOW_ALL


def test_a_redirect_loop_counts_as_not_found_at_once() -> None:
    assert access_for(302, redirects_followed=1, loop=True) is access_for(404)


@pytest.mark.parametrize("status", [200, 404, 429, 503, None])
def test_redirects_before_a_final_answer_do_not_change_it(status: int | None) -> None:
    assert access_for(status, redirects_followed=5) is access_for(status)


def test_an_empty_body_and_an_html_page_allow_everything() -> None:
    page = b"<!DOCTYPE html><html><head><title>404</title></head><body><p>Not found: /x</p></body></html>"
    assert parse(b"").verdict("Gossamer", "/x") == Verdict(allowed=True, reason=Reason.EMPTY)
    assert parse(page).verdict("Gossamer", "/x") == Verdict(allowed=True, reason=Reason.EMPTY)


# The verdict


def test_a_verdict_names_the_rule_its_line_and_the_reason() -> None:
    rules = parse(b"# hello\r\nUser-agent: *\r\n\r\ndisallow :  /a # why\r\nAllow: /a/b\r\n").for_agent("Gossamer")
    assert rules.verdict("https://x.org/a/c") == Verdict(allowed=False, reason=Reason.RULE, rule="Disallow: /a", line=4)
    assert rules.verdict("https://x.org/a/b") == Verdict(allowed=True, reason=Reason.RULE, rule="Allow: /a/b", line=5)
    assert rules.verdict("https://x.org/b") == Verdict(allowed=True, reason=Reason.NO_RULE_MATCHES)


def test_a_file_without_our_group_allows_and_says_so() -> None:
    verdict = parse(b"User-agent: other\nDisallow: /\n").verdict("Gossamer", "/")
    assert verdict == Verdict(allowed=True, reason=Reason.NO_GROUP)


def test_robots_txt_itself_is_always_allowed_but_nothing_that_only_begins_like_it() -> None:
    rules = rules_for_all("Disallow: /")
    assert rules.verdict("https://x.org/robots.txt#top") == Verdict(allowed=True, reason=Reason.ROBOTS_TXT)
    assert not rules.verdict("https://x.org/robots.txt.bak").allowed
    assert not rules.verdict("https://x.org/a/robots.txt").allowed


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("", True),
        ("/", True),
        ("/a", False),
        ("a", False),
        ("a/b", False),
        ("/a#b", False),
        ("/x#/a", True),
        ("/a;v=1?q", False),
        ("//x.org/a", False),
        ("https://x.org", True),
        ("https://x.org/a", False),
        ("https://x.org?q=/a", True),
        ("https://x.org#/a", True),
        ("https://x.org/x?u=http://y.org/a", True),
        ("https://u:p@x.org:8/a", False),
        ("ftp://x.org/a", False),
        ("://", True),
        ("\ud800", True),
    ],
)
def test_any_spelling_of_a_url_is_judged_by_its_path_and_query(url: str, allowed: bool) -> None:
    assert rules_for_all("Disallow: /a").verdict(url).allowed is allowed


def test_the_longest_match_wins_and_of_two_equally_long_the_one_that_allows() -> None:
    rules = rules_for_all("Disallow: /page", "Allow: /p", "Allow: /folder", "Disallow: /folder", "Disallow: /*r.html")
    assert not rules.verdict("/page").allowed
    assert rules.verdict("/folder").rule == "Allow: /folder"
    assert rules.verdict("/folder.html").rule == "Disallow: /*r.html"
    assert rules_for_all("Disallow: /ab", "Allow: /*b").verdict("/ab").allowed
    assert rules_for_all("Allow: /ab", "Disallow: /*b").verdict("/ab").allowed


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("/fish", "/fish /fish.html /fishheads/x /fish?id=1", "/Fish /catfish /fis"),
        ("/fish*", "/fish /fishheads", "/Fish /catfish"),
        ("/fish/", "/fish/ /fish/salmon", "/fish /fish.html"),
        ("/*.php", "/x.php /a/x.php?y /x.php5", "/ /x.PHP"),
        ("/*.php$", "/x.php /a.php/x.php", "/x.php?y /x.php5"),
        ("/fish*.php", "/fish.php /fishheads/x.php?y", "/Fish.php /fish.ph"),
        ("/a$", "/a", "/ab /a$ /"),
        ("/a*$", "/a /ab", "/b"),
        ("/*a*a$", "/aa /axa", "/a /aab"),
        ("*", "/ /x", ""),
        ("/***x", "/x /yx", "/y"),
        ("/$", "/", "/x /?q"),
        ("/a$b", "/a$b /a%24bc", "/a /ab"),
        ("/a?b*c", "/a?bc /a?bxxc", "/axb /a"),
    ],
)
def test_star_and_dollar_are_special_and_nothing_else_is(pattern: str, matching: str, other: str) -> None:
    rules = rules_for_all(f"Disallow: {pattern}")
    assert [path for path in matching.split() if rules.verdict(path).allowed] == []
    assert [path for path in other.split() if not rules.verdict(path).allowed] == []


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        # The table of RFC 9309 section 2.2.2 and the one of section 2.2.3, each in both directions where it has one.
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/*?*=https%3A%2F%2Ffoo.bar$", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/a:b", "/a%3ab"),
        ("/*%2Ffoo", "/x?a=b%2Ffoo"),
        ("/*/foo", "/x?a=b/foo"),
        ("/a b", "/a%20b"),
        ("/100%", "/100%"),
        ("/100%zz", "/100%zz/x"),
    ],
)
def test_percent_encoding_does_not_hide_a_path(pattern: str, url: str) -> None:
    assert not rules_for_all(f"Disallow: {pattern}").verdict(url).allowed


def test_an_encoded_slash_or_question_mark_is_not_the_character_in_a_path() -> None:
    rules = rules_for_all("Disallow: /a/b", "Disallow: /c?d", "Disallow: /e%2Ff")
    assert [path for path in ("/a%2Fb", "/c%3Fd", "/e/f") if not rules.verdict(path).allowed] == []
    assert not rules.verdict("/e%2ff").allowed


def test_every_encoded_octet_has_one_compared_spelling() -> None:
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;:=@[]"
    digits = "0123456789ABCDEFabcdef"
    wrong = []
    for code in (high + low for high in digits for low in digits):
        octet = chr(int(code, 16))
        if compared_target(f"/%{code}") != ("/" + octet if octet in plain else f"/%{code.upper()}"):
            wrong.append(code)
    assert wrong == []


def test_octets_in_another_encoding_match_urls_in_the_same_encoding() -> None:
    assert not allows(b"User-agent: *\nDisallow: /b\xfccher/\n", "/b%FCcher/x")


def test_a_path_in_the_rules_is_printable_whatever_its_octets() -> None:
    rule = parse(b"User-agent: *\nDisallow: /b\xfc\xff\n").verdict("Gossamer", "/b%FC%FFx").rule
    assert rule == "Disallow: /b\ufffd\ufffd"


# Whose group it is


def test_groups_of_one_name_are_merged_and_the_one_for_all_does_not_join_them() -> None:
    body = b"User-agent: gossamer\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n\nUSER-AGENT: GOSSAMER\nDisallow: /b\n"
    assert allows(body, "/c")
    assert not allows(body, "/a")
    assert not allows(body, "/b")


def test_a_name_is_matched_whole_and_not_by_its_beginning() -> None:
    assert allows(b"User-agent: goss\nDisallow: /\n", "/")
    assert allows(b"User-agent: gossamer-images\nDisallow: /\n", "/")


def test_our_empty_group_frees_us_from_the_one_for_all() -> None:
    assert allows(b"User-agent: *\nDisallow: /\n\nUser-agent: Gossamer\n", "/x")
    assert allows(b"User-agent: *\nDisallow: /\n\nUser-agent: Gossamer\nDisallow:\n", "/x")


def test_rules_before_any_group_bind_nobody() -> None:
    assert allows(b"Disallow: /\n\nUser-agent: *\nDisallow: /x\n", "/y")


@pytest.mark.parametrize("other", ["Sitemap: https://x.org/s.xml", "Crawl-delay: 5", "Unknown: 1", "junk", "<br>"])
def test_other_lines_do_not_end_a_group_nor_a_run_of_names(other: str) -> None:
    assert not allows(f"User-agent: Gossamer\n{other}\nUser-agent: x\nDisallow: /\n".encode(), "/")
    assert not allows(f"User-agent: Gossamer\nAllow: /y\n{other}\nDisallow: /\n".encode(), "/")


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        ("Gossamer", "gossamer"),
        ("Gossamer/1.0 (+mailto:a@b.org)", "gossamer"),
        ("Gossamer (+https://b.org)", "gossamer"),
        ("Mozilla/5.0 (compatible; ExampleBot/0.1; https://www.example.com/bot.html)", "examplebot"),
        ("Foo Bar", None),
        ("agent1", None),
        ("Львів-bot", None),
        ("*", None),
        ("", None),
    ],
)
def test_a_user_agent_is_reduced_to_its_product_token(agent: str, token: str | None) -> None:
    assert product_token(agent) == token


# Where the RFC is silent, both readings must allow


@pytest.mark.parametrize(
    "lines",
    [
        "User-agent: *\nDissalow: /x",
        "User-agent: *\nDisalow : /x",
        "User-agent: *\nDisalow: x",
        "User-agent: *\nDisallow /x",
        "User-agent: *\nDisallow/x",
        "User-agent: *\nDisallow: x",
        "User-agent: *\nDisallow: /x the secret place",
        "User-agent *\nDisallow: /x",
        "Useragent: *\nDisallow: /x",
        "User agent: gossamer\nDisallow: /x",
        "User-agents: a, gossamer, b\nDisallow: /x",
        "User-agent: Gossamer/1.0\nDisallow: /x",
        "User-agent: Gossamer2\nDisallow: /x",
        "User-agent: Goss*r\nDisallow: /x",
        "User-agent: *<br>\nDisallow: /x<br>",
        "<p>User-agent: *</p>\n<p>Disallow: /x</p>",
    ],
)
def test_what_a_careless_author_meant_to_deny_is_denied(lines: str) -> None:
    rules = parse(lines.encode()).for_agent("Gossamer")
    verdict = rules.verdict("/x")
    assert (verdict.allowed, verdict.reason, verdict.line) == (False, Reason.DOUBTFUL_RULE, 2)
    assert rules.verdict("/y").allowed


@pytest.mark.parametrize("allow", ["Alow: /x", "Allow /x", "Allow: x", "Allow: x/index.html"])
def test_an_unreadable_allow_line_opens_nothing(allow: str) -> None:
    assert not rules_for_all("Disallow: /", allow).verdict("/x/").allowed


def test_a_doubtful_group_of_ours_does_not_free_us_from_the_one_for_all() -> None:
    assert not allows(b"User-agent: *\nDisallow: /\n\nUser-agent: Gossamer and friends\nAllow: /\n", "/")


def test_a_misspelt_group_of_others_does_not_take_over_the_rules_of_ours() -> None:
    assert not allows(b"User-agent: *\nDisallow: /a\nUseragent: x\nDisallow: /b\n", "/b")


def test_prose_is_no_rule() -> None:
    rules = rules_for_all(
        "Disallow everything", "Delay / pause", "Dear user agent, please do not crawl /x", "Usage: /x"
    )
    assert [path for path in ("/everything", "/x", "/") if not rules.verdict(path).allowed] == []


def test_a_clear_file_has_one_reading() -> None:
    clear = b"User-agent: MJ12bot/1.4\nDisallow: /\nUser-agent: *\nDisallow: /x\nCrawl-delay: 3\nHost: x.org\n"
    assert len(parse(clear).for_agent("Gossamer").readings) == 1


# Octets


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_each_line_end_is_one_line(end: str) -> None:
    verdict = parse(end.join(["", "User-agent: *", "", "Disallow: /x", ""]).encode()).verdict("Gossamer", "/x")
    assert (verdict.allowed, verdict.line) == (False, 4)


def test_line_ends_may_be_mixed_and_nothing_else_ends_a_line() -> None:
    rules = parse("User-agent: *\rDisallow: /a\n\r\nDisallow: /b\x0b\x85\u2028Disallow: /c".encode()).for_agent("x")
    assert rules.verdict("/a").line == 2
    assert rules.verdict("/b\x0b\x85\u2028Disallow:%20/c").line == 4
    assert rules.verdict("/c").allowed


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_the_encoding_does_not_hide_the_rules(encoding: str) -> None:
    body = "User-agent: *\nDisallow: /bücher\n".encode(encoding)
    assert not allows(body, "/b%C3%BCcher/x")
    assert not allows(b"\xfe\xff" + body if encoding == "utf-16-be" else body, "/b%C3%BCcher/x")
    assert allows(body, "/")


@pytest.mark.parametrize("mark", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"])
def test_a_mark_cut_short_does_not_hide_the_first_line(mark: bytes) -> None:
    assert not allows(mark + b"User-agent: *\nDisallow: /\n", "/")


def test_stray_nuls_do_not_hide_a_rule() -> None:
    assert not allows(b"\0User-agent: *\nDis\0allow: /a\0b\n" + b"# text\n" * 20, "/ab")


def test_a_huge_line_does_not_hide_the_rules_after_it() -> None:
    for junk in (b"x" * 2**20, b"# " + b"x" * 2**20, b"Disallow: /" + b"y" * 2**20):
        verdict = parse(b"User-agent: *\n" + junk + b"\nDisallow: /a\n").verdict("Gossamer", "/a")
        assert (verdict.allowed, verdict.line) == (False, 3)


def test_a_rule_before_a_huge_comment_on_its_line_holds() -> None:
    assert not allows(b"User-agent: *\nDisallow: /a #" + b"x" * 2**20, "/a")


def test_no_more_than_the_limit_is_parsed_and_a_rule_across_it_is_not_cut() -> None:
    start = b"User-agent: *\nDisallow: /first\n"
    filler = b"# filler\n" * (PARSE_LIMIT_BYTES // 9 - 5)
    room = PARSE_LIMIT_BYTES - len(start) - len(filler)
    fits = start + filler + b"Disallow: /" + b"f" * (room - 12) + b"\n"
    assert len(fits) == PARSE_LIMIT_BYTES
    body = fits + b"Disallow: /after\n"
    assert not allows(body, "/first")
    assert not allows(body, "/" + "f" * (room - 12))
    assert allows(body, "/after")
    across = start + filler + b"Disallow: /" + b"f" * room + b"\n"
    assert allows(across, "/" + "f" * (room - 12))
    assert LONG_LINE_BYTES < PARSE_LIMIT_BYTES


@given(st.binary(max_size=300), st.text(max_size=30), st.text(max_size=30))
def test_no_octets_no_agent_and_no_url_raise(body: bytes, agent: str, url: str) -> None:
    assert isinstance(parse(body).verdict(agent, url).allowed, bool)


@given(
    st.lists(
        st.sampled_from(
            [
                "User-agent: *",
                "useragent x",
                "Disallow: /",
                "Disalow /<b>",
                "Allow: *$",
                "Crawl-delay: x",
                "\0",
                "?:%2F",
            ]
        ).map(str.encode)
        | st.binary(max_size=6)
    ),
    st.text("/?%*$2Ffa#:", max_size=12),
)
def test_lines_that_almost_make_sense_do_not_raise(lines: list[bytes], url: str) -> None:
    for separator in (b"\n", b"", b": "):
        robots = parse(separator.join(lines))
        assert isinstance(robots.verdict("Gossamer", url).reason, Reason)
        assert isinstance(robots.verdict(url, "/").reason, Reason)


@given(st.text("ab*$", max_size=8), st.text("ab$", max_size=10))
def test_the_matcher_agrees_with_regular_expressions(pattern: str, path: str) -> None:
    end = r"\Z" if pattern.endswith("$") else ""
    expression = ".*".join(re.escape(part) for part in pattern.removesuffix("$").split("*")) + end
    assert compile_pattern(pattern.encode()).matches(path) == bool(re.match(expression, path, re.DOTALL))


# Delays and sitemaps


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("10", 10.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("3600", 3600.0),
        ("10<br>", 10.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("9" * 400, None),
        ("ten", None),
        ("", None),
        ("1,5", None),
        ("\udcff", None),
    ],
)
def test_a_delay_is_a_finite_number_that_is_not_negative(value: str, delay: float | None) -> None:
    body = f"User-agent: *\nCrawl-delay: {value}\n".encode(errors="surrogateescape")
    assert parse(body).for_agent("Gossamer").crawl_delay == delay


def test_where_groups_merge_the_highest_delay_counts_and_that_of_others_does_not() -> None:
    body = b"""User-agent: gossamer
Crawl-delay: 3
Disallow: /a
User-agent: other
Crawl-delay: 90
Disallow: /
User-agent: gossamer
Crawl-delay: 7
Crawl-delay: 5
User-agent: *
Crawl-delay: 60
"""
    assert parse(body).for_agent("gossamer").crawl_delay == 7.0
    assert parse(body).for_agent("anybot").crawl_delay == 60.0


def test_a_delay_is_meant_for_the_names_before_it_and_not_for_those_that_follow() -> None:
    body = b"User-agent: a\nUser-agent: b\nCrawl-delay: 9\nUser-agent: c\nDisallow: /x\n"
    delays = [parse(body).for_agent(agent).crawl_delay for agent in "abc"]
    assert delays == [9.0, 9.0, None]
    assert not parse(body).verdict("a", "/x").allowed


def test_a_delay_in_a_doubtful_group_counts() -> None:
    assert parse(b"Useragent: Gossamer/1\nCrawl-delay: 9\n").for_agent("Gossamer").crawl_delay == 9.0


def test_sitemaps_are_absolute_once_each_and_of_a_bounded_number() -> None:
    lines = ["Sitemap: https://x.org/a.xml", "sitemap:HTTP://x.org/B.xml", "Sitemap: https://x.org/a.xml"]
    wrong = [
        "Sitemap: /a.xml",
        "Sitemap:",
        "Sitemap: ftp://x.org/a",
        "Sitemap: https://",
        f"Sitemap: http://{'x' * 3000}",
    ]
    assert parse("\n".join(lines + wrong).encode()).sitemaps == ("https://x.org/a.xml", "HTTP://x.org/B.xml")
    many = "\n".join(f"Sitemap: https://x.org/{number}" for number in range(SITEMAP_LIMIT + 10))
    assert len(parse(many.encode()).sitemaps) == SITEMAP_LIMIT


# Time: each of these takes milliseconds (the last two of the files a second) when it is linear, and minutes when not.
# The bounds leave room for a busy machine.


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("/*a*a*a*a*b", True),
        ("/*a*a*a*a*b$", True),
        ("/" + "*a" * 60 + "b", True),
        ("/*" + "a" * 5000 + "b", True),
        # Cut, so they match more.
        ("/" + "*a" * 1000 + "b", False),
        ("/*" + "a" * 50_000 + "b", False),
    ],
)
def test_wildcards_take_linear_time(pattern: str, allowed: bool) -> None:
    rules = rules_for_all(f"Disallow: {pattern}")
    began_at = time.process_time()
    assert rules.verdict("/" + "a" * 10**5).allowed == allowed
    assert time.process_time() - began_at < 10


@given(
    pattern=st.text("ab/*$?%4A", max_size=24).map(str.encode),
    path=st.text("ab/$?%4A", max_size=24),
    allow=st.text("ab/*", max_size=6),
)
def test_a_disallow_beyond_the_limits_matches_more_and_never_less(pattern: bytes, path: str, allow: str) -> None:
    """Also where an Allow would have been less specific than the whole rule."""
    body = b"User-agent: *\nDisallow: /%b\nAllow: /%b\n" % (pattern, allow.encode())
    whole = parse(body).verdict("Gossamer", "/" + path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gossamer.fetch.robots_rules.RULE_BYTES", 12)
        patched.setattr("gossamer.fetch.robots_rules.MOST_WILDCARDS", 2)
        bounded = parse(body).verdict("Gossamer", "/" + path)
    assert whole.allowed or not bounded.allowed


def test_an_allow_beyond_the_limits_is_ignored() -> None:
    allow = "Allow: /a" + "*b" * (MOST_WILDCARDS + 1)
    assert not rules_for_all("Disallow: /", allow).verdict("/a" + "b" * 300).allowed
    assert not rules_for_all("Disallow: /", "Allow: /" + "a" * RULE_BYTES).verdict("/" + "a" * RULE_BYTES).allowed
    most = "Allow: /a" + "*b" * MOST_WILDCARDS
    assert rules_for_all("Disallow: /", most).verdict("/a" + "b" * 300).allowed


def test_a_file_with_too_many_wildcards_for_us_disallows_everything_and_only_to_us() -> None:
    lines = [f"Disallow: *{number:x}x" for number in range(MOST_PATTERNS)]
    assert rules_for_all(*lines).verdict("/open").allowed
    too_many = rules_for_all(*lines, "Disallow: *a", "Disallow: /b").verdict("/open")
    assert (too_many.allowed, too_many.line) == (False, MOST_PATTERNS + 3)
    others = "\n".join(["User-agent: other", *lines, *lines, "User-agent: *", "Disallow: /closed"])
    assert parse(others.encode()).verdict("Gossamer", "/open").allowed


def test_a_bomb_of_wildcards_takes_no_more_than_its_limits() -> None:
    bomb = rules_for_all("Disallow: x?/" + "*{" * 255_000)
    assert bomb.size_bytes < 100_000
    assert not rules_for_all("Disallow: /" + "*{" * 255_000).verdict("/" + "{" * 300).allowed


@given(
    lines=st.lists(
        st.sampled_from(
            [b"User-agent: *", b"Disallow: /a", b"\xef\xbb\xbfDisallow: /b", b"#" * 90, b"Allow: /" + b"c" * 80]
        )
    ),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf"]),
    encoding=st.sampled_from([None, "utf-16", "utf-16-le"]),
)
def test_the_part_that_is_kept_is_read_like_the_whole(
    lines: list[bytes], end: bytes, mark: bytes, encoding: str | None
) -> None:
    body = mark + end.join(lines)
    if encoding is not None:
        body = body.decode().encode(encoding)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gossamer.fetch.robots.PARSE_LIMIT_BYTES", 120)
        patched.setattr("gossamer.fetch.robots.LONG_LINE_BYTES", 60)
        kept = kept_part(body)
        assert len(kept) <= 123
        assert parse(kept) == parse(body)


@pytest.mark.parametrize(
    "unit",
    ["<", "<a", "d", "da", "us", "user-", " ", ":", "%", "*", "(", "compatible;", "\0\0x", "/", "a,", "\n", "*\n"],
)
def test_hostile_files_take_linear_time(unit: str) -> None:
    junk = unit * (PARSE_LIMIT_BYTES // len(unit))
    began_at = time.process_time()
    for field in ("", "User-agent: ", "Disallow: ", "Crawl-delay: "):
        rules = parse(f"User-agent: *\n{field}{junk}\nDisallow: /x\n".encode()).for_agent("Gossamer")
        assert isinstance(rules.verdict("/x").allowed, bool)
    assert time.process_time() - began_at < 20


def test_as_many_rules_as_fit_into_a_file_are_kept_and_found() -> None:
    lines = [f"Disallow: /{number:x}" for number in range(10**5, 10**5 + 30_000)]
    rules = rules_for_all(*lines)
    assert rules.verdict(f"/{10**5 + 29_999:x}/x").line == len(lines) + 1
