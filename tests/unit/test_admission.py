"""The rules of admission: which URLs are crawled, and the reason for each that is not."""

import msgspec
import pytest

from gossamer.config import ScopeSettings
from gossamer.errors import UsageError
from gossamer.frontier.admission import AdmissionRules, Exclusions, parse_exclusions
from gossamer.frontier.store import AdmitLimits
from gossamer.records import Lease, Reason
from gossamer.url import Url, canonicalise


def rules_with(*entries: str, scope: ScopeSettings | None = None) -> AdmissionRules:
    return AdmissionRules(scope or ScopeSettings(), parse_exclusions("\n".join(entries), "excluded"))


def verdict(
    rules: AdmissionRules, text: str, *, site: str = "", depth: int = 0, hops: int = 0, is_seed: bool = False
) -> Reason | None:
    url = canonicalise(text)
    assert isinstance(url, Url)
    return rules.judge(url.text, site or url.site, depth, hops, is_seed)


# The exclude file


@pytest.mark.parametrize(
    ("entry", "url", "reason"),
    [
        ("example.org", "https://example.org/", Reason.BLOCKED_SITE),
        ("example.org", "http://www.example.org:8080/a", Reason.BLOCKED_SITE),
        ("example.org", "https://a.b.example.org/", Reason.BLOCKED_SITE),
        ("example.org", "https://badexample.org/", None),
        ("example.org", "https://example.org.uk/", None),
        ("example.org", "https://example.net/example.org", None),
        ("EXAMPLE.org.", "https://example.org/", Reason.BLOCKED_SITE),
        ("bücher.example", "https://xn--bcher-kva.example/", Reason.BLOCKED_SITE),
        ("example.org  # ours", "https://example.org/", Reason.BLOCKED_SITE),
        ("org", "https://example.org/", Reason.BLOCKED_SITE),
        ("www.example.org", "https://www.example.org/", Reason.EXCLUDED),
        ("www.example.org", "https://en.www.example.org:8080/", Reason.EXCLUDED),
        ("www.example.org", "https://example.org/", None),
        ("www.example.org", "https://blog.example.org/", None),
        ("127.0.0.1", "http://127.1:8080/", Reason.BLOCKED_SITE),
        ("[::1]", "http://[::1]:8080/", Reason.BLOCKED_SITE),
        ("[::1]", "http://[::2]/", None),
        ("https://example.org/private", "https://example.org/private/1", Reason.EXCLUDED),
        ("https://example.org/private", "https://example.org/privateer", Reason.EXCLUDED),
        ("https://example.org/private/", "https://example.org/private", None),
        ("https://example.org/private", "https://example.org/Private", None),
        ("https://example.org/private", "http://example.org/private", None),
        ("https://example.org/private", "https://example.org:8443/private", None),
        ("http://example.org:8080/a", "http://example.org:8080/a?b", Reason.EXCLUDED),
        ("https://example.org", "https://example.org/a", Reason.EXCLUDED),
        ("https://example.org/?sort=", "https://example.org/?sort=up", Reason.EXCLUDED),
        ("HTTPS://Example.org:443/a/../b", "https://example.org/b", Reason.EXCLUDED),
        ("https://example.org/@someone", "https://example.org/@someone/1", Reason.EXCLUDED),
    ],
)
def test_an_entry_excludes_what_it_names_and_nothing_else(entry: str, url: str, reason: Reason | None) -> None:
    rules = rules_with(entry)
    assert verdict(rules, url) is reason
    assert verdict(rules, url, is_seed=True) is reason, "seeds are excluded too"
    assert verdict(rules, url) is reason, "the same from memory"
    found = canonicalise(url)
    assert isinstance(found, Url)
    assert rules.excludes(found.text, found.site) is (reason is not None)


def test_what_is_excluded_by_a_pattern_may_not_be_requested_and_what_is_too_deep_may() -> None:
    rules = rules_with("other.example", scope=ScopeSettings(exclude=("/search",), max_depth=0, include=("/nothing",)))
    assert rules.excludes("https://example.org/search?q=1", "example.org")
    assert rules.excludes("https://www.other.example/", "other.example")
    assert not rules.excludes("https://example.org/robots.txt", "example.org")


def test_with_a_site_per_host_the_hosts_below_a_domain_are_blocked_sites() -> None:
    assert verdict(rules_with("example.org"), "https://www.example.org/", site="www.example.org") is Reason.BLOCKED_SITE


def test_comments_empty_lines_and_a_byte_order_mark_are_no_entries() -> None:
    parsed = parse_exclusions("\ufeffa.example\r\n\r\n# b.example\n   \nhttp://c.example/x # why\n", "excluded")
    assert parsed == Exclusions(frozenset({"a.example"}), {"http://c.example": ("http://c.example/x",)})


def test_an_empty_exclude_file_excludes_nothing() -> None:
    assert not parse_exclusions("\n# nothing yet\n", "excluded")
    assert verdict(rules_with(), "https://example.org/") is None


@pytest.mark.parametrize(
    "entry",
    [
        "*.example.org",
        "https://*.example.org/",
        ".example.org",
        "example.org:8080",
        "example.org/private",
        "someone@example.org",
        "example.org?a",
        "two words",
        "ftp://example.org/",
        "https://",
        "https:example.org",
        "https://exa mple.org/",
    ],
)
def test_a_line_that_excludes_nothing_is_an_error_that_names_file_line_and_value(entry: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_exclusions(f"# one\nexample.net\n{entry}\n", "excluded.txt")
    assert str(caught.value).startswith(f"excluded.txt, line 3: {entry!r} is no exclusion")


# The settings


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://example.org/a.pdf", Reason.EXTENSION),
        ("https://example.org/a.PDF", Reason.EXTENSION),
        ("https://example.org/a.b.zip?x=1", Reason.EXTENSION),
        ("https://example.org/a.tar.gz", Reason.EXTENSION),
        ("https://example.org/.zip", Reason.EXTENSION),
        ("https://example.org/a.html", None),
        ("https://example.org/pdf", None),
        ("https://example.org/a.pdf/", None),
        ("https://example.org/a.pdf/b", None),
        ("https://example.org/a?b=c.pdf", None),
        ("https://example.org/a?b=/c.pdf", None),
        ("https://example.org/a.", None),
        ("https://example.zip/", None),
        ("https://example.zip", None),
    ],
)
def test_the_ending_of_the_last_path_segment_decides(url: str, reason: Reason | None) -> None:
    rules = rules_with()
    assert verdict(rules, url) is reason
    assert verdict(rules, url, is_seed=True) is None, "whoever seeds a file wants it"


def test_endings_may_be_written_with_their_dot_and_in_capitals() -> None:
    rules = rules_with(scope=ScopeSettings(skip_extensions=".PDF zip"))
    assert verdict(rules, "https://example.org/a.pdf") is Reason.EXTENSION
    assert verdict(rules, "https://example.org/a.zip") is Reason.EXTENSION
    assert verdict(rules, "https://example.org/a.png") is None


@pytest.mark.parametrize(
    ("max_depth", "depth", "reason"),
    [(-1, 1_000_000, None), (0, 0, None), (0, 1, Reason.DEPTH), (3, 3, None), (3, 4, Reason.DEPTH)],
)
def test_depth_is_bounded_unless_it_is_not_set(max_depth: int, depth: int, reason: Reason | None) -> None:
    rules = rules_with(scope=ScopeSettings(max_depth=max_depth))
    assert verdict(rules, "https://example.org/", depth=depth) is reason


@pytest.mark.parametrize(("hops", "reason"), [(0, None), (5, None), (6, Reason.HOPS)])
def test_redirects_in_a_row_are_bounded_for_seeds_too(hops: int, reason: Reason | None) -> None:
    assert verdict(rules_with(), "https://example.org/", hops=hops, is_seed=True) is reason


def test_include_keeps_out_what_it_is_not_found_in_except_seeds() -> None:
    rules = rules_with(scope=ScopeSettings(include=(r"/news/\d+",)))
    assert verdict(rules, "https://example.org/news/1") is None
    assert verdict(rules, "https://example.org/news/") is Reason.NOT_INCLUDED
    assert verdict(rules, "https://example.org/news/", is_seed=True) is None


def test_exclude_keeps_out_what_it_is_found_in_seeds_included() -> None:
    rules = rules_with(scope=ScopeSettings(exclude=(r"[?&]sort=",)))
    assert verdict(rules, "https://example.org/?sort=up") is Reason.EXCLUDED
    assert verdict(rules, "https://example.org/?sort=up", is_seed=True) is Reason.EXCLUDED
    assert verdict(rules, "https://example.org/sort") is None


def test_a_blocked_site_is_named_as_such_whatever_else_is_wrong_with_the_url() -> None:
    rules = rules_with("example.org", scope=ScopeSettings(max_depth=0, include=("x",), exclude=("pdf",)))
    assert verdict(rules, "https://example.org/a.pdf", depth=9, hops=9) is Reason.BLOCKED_SITE


def test_a_path_that_looks_like_a_trap_is_refused_except_for_seeds() -> None:
    deep = "https://example.org/" + "/".join(map(str, range(21)))
    repeating = "https://example.org/a/b/a/b/a/b/a/"
    for url, reason in ((deep, Reason.PATH_DEPTH), (repeating, Reason.PATH_REPEATS)):
        assert verdict(rules_with(), url) is reason
        assert verdict(rules_with(), f"{url}?q=1") is reason
        assert verdict(rules_with(), url, is_seed=True) is None
        roomy = rules_with(scope=ScopeSettings(max_path_segments=50, max_path_repeats=4))
        assert verdict(roomy, url) is None


def test_slashes_of_a_query_are_no_path() -> None:
    assert verdict(rules_with(), f"https://example.org/?next={'/a' * 30}") is None


def test_a_lease_is_judged_by_the_rules_of_now() -> None:
    lease = Lease(
        number=1,
        slot=2,
        epoch=3,
        url="https://www.example.org/a.pdf",
        site="example.org",
        fingerprint=4,
        depth=2,
        hops=1,
        is_seed=True,
        attempt=0,
        returned=0,
    )
    assert rules_with().judge_lease(lease) is None
    assert rules_with("example.org").judge_lease(lease) is Reason.BLOCKED_SITE
    assert rules_with(scope=ScopeSettings(max_depth=1)).judge_lease(lease) is Reason.DEPTH
    assert rules_with(scope=ScopeSettings(max_hops=0)).judge_lease(lease) is Reason.HOPS
    link = msgspec.structs.replace(lease, url="https://www.example.org/a/a", is_seed=False)
    assert rules_with().judge_lease(link) is None
    assert rules_with(scope=ScopeSettings(max_path_repeats=1)).judge_lease(link) is Reason.PATH_REPEATS


def test_what_only_the_store_can_judge_is_handed_to_it() -> None:
    scope = ScopeSettings()
    assert rules_with().limits == AdmitLimits(
        only_seeded_sites=False,
        site_queue=scope.max_site_queue,
        site_queue_bytes=scope.max_site_queue_bytes,
        site_urls=scope.max_site_urls,
        path_variants=scope.max_path_variants,
    )
    given = ScopeSettings(
        scope="seeds", max_site_queue=7, max_site_queue_bytes=70, max_site_urls=8, max_path_variants=9
    )
    assert rules_with(scope=given).limits == AdmitLimits(
        only_seeded_sites=True, site_queue=7, site_queue_bytes=70, site_urls=8, path_variants=9
    )
