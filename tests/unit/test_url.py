"""The canonical form, the site and the hashes of a URL."""

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer import url as url_module
from gossamer.config import UrlSettings
from gossamer.frontier.slots import slot_of
from gossamer.url import (
    Refusal,
    RefusalReason,
    Url,
    canonical_site,
    canonicalise,
    registrable_domain,
    stable_hash,
)

PAGE = "https://www.example.co.uk/news/2026/page.html?a=1"


def url_of(reference: str, base: Url | None = None, settings: UrlSettings | None = None) -> Url:
    url = canonicalise(reference, base, settings or UrlSettings())
    assert isinstance(url, Url), url
    return url


def canonical(reference: str, base: str | None = None, settings: UrlSettings | None = None) -> str:
    return url_of(reference, url_of(base) if base else None, settings).text


def refusal(reference: str, settings: UrlSettings | None = None) -> RefusalReason:
    refused = canonicalise(reference, None, settings or UrlSettings())
    assert isinstance(refused, Refusal), refused
    assert refused.detail
    return refused.reason


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("HTTP://EXAMPLE.com", "http://example.com/"),
        ("http://example.com/a/../b", "http://example.com/b"),
        ("http://example.com/a/%2E%2e/b/./c", "http://example.com/b/c"),
        ("http://Bücher.example/ä?ö", "http://xn--bcher-kva.example/%C3%A4?%C3%B6"),
        ("https://example.com:443/", "https://example.com/"),
        ("http://example.com:0080/", "http://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("http://user:secret@example.com/a@b", "http://example.com/a@b"),
        ("http://example.com/a#b#c", "http://example.com/a"),
        ("http://example.com./", "http://example.com/"),
        ("http://example.com/%7euser%2fx%c3%a9", "http://example.com/~user%2Fx%C3%A9"),
        ("http://example.com/?q=%41%26%3d", "http://example.com/?q=A%26%3D"),
        ("http://example.com/100%", "http://example.com/100%"),
        ("http://example.com/Path/", "http://example.com/Path/"),
        ("http://example.com/Path", "http://example.com/Path"),
        ("http://example.com/?b=1&a=2&b=3", "http://example.com/?b=1&a=2&b=3"),
        ("http://example.com/?", "http://example.com/?"),
        ("http://example.com//a//b", "http://example.com//a//b"),
        ("  http://exa\nmple.com/\ta ", "http://example.com/a"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://a_b.example.com/", "http://a_b.example.com/"),
        ("http://example.com/a|b?c|d", "http://example.com/a|b?c|d"),
        ("http://[::0001]:80/", "http://[::1]/"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://user@[::1]:8080/", "http://[::1]:8080/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1./", "http://127.0.0.1/"),
        ("http://example.com/\ud800", "http://example.com/%EF%BF%BD"),
        ("http://xn--a/", "http://xn--a/"),
    ],
)
def test_one_canonical_form(given: str, expected: str) -> None:
    assert canonical(given) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("../x", "https://www.example.co.uk/news/x"),
        ("", "https://www.example.co.uk/news/2026/page.html?a=1"),
        ("#top", "https://www.example.co.uk/news/2026/page.html?a=1"),
        ("?b", "https://www.example.co.uk/news/2026/page.html?b"),
        ("//other.example/x", "https://other.example/x"),
        ("///other.example/x", "https://other.example/x"),
        ("http:relative", "http://relative/"),
        ("https:relative", "https://www.example.co.uk/news/2026/relative"),
    ],
)
def test_references_resolve_against_the_page(reference: str, expected: str) -> None:
    assert canonical(reference, PAGE) == expected


#: Whatever the standard or we change in some place of a URL, and what neither does.
PIECES = (
    *(
        "/",
        "//",
        "?",
        "#",
        ":",
        "@",
        "\\",
        ".",
        "/.",
        "/..",
        "/%2e",
        "%2E",
        "%41",
        "%e9",
        "%E9",
        "%2F",
        "%3d",
        "%",
        "%4",
    ),
    *(
        "a",
        "B",
        "0",
        "~",
        "-",
        "_",
        "!",
        "$",
        "&",
        "'",
        "(",
        ")",
        "*",
        "+",
        ",",
        ";",
        "=",
        "|",
        "^",
        "`",
        "{",
        "[",
        "<",
        '"',
    ),
    *(" ", "\t", "\n", "\x00", "\x7f", "é", "ß", "\ud800", "http:", "https:", "HTTP:", "ftp:", "http://", "https://"),
    *(
        "a.test",
        "www.a.co.uk",
        "A.test",
        "a.test.",
        "a..test",
        "1.2",
        "0x7f.1",
        "xn--a",
        "xn--bcher-kva",
        "[::1]",
        "a_b",
    ),
    *(
        ":80",
        ":443",
        ":080",
        ":8080",
        ":99999",
        ":",
        "%61.test",
        "bücher.test",
        "user@",
        ";jsessionid=1",
        "utm_source=x",
    ),
)
REFERENCES = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
URLS = st.builds("{}{}/{}".format, st.sampled_from(["http://", "https://"]), st.sampled_from(PIECES), REFERENCES)
SETTINGS = st.sampled_from(
    [
        UrlSettings(),
        UrlSettings(site_key="host", max_url_length=64),
        UrlSettings(strip_session_ids=True),
        UrlSettings(strip_tracking=True),
    ]
)


@given(URLS | REFERENCES, SETTINGS)
@example("http://www.a.co.uk:80/", UrlSettings())
@example("http://www.a.co.uk./", UrlSettings())
@example("http://a.test/;jsessionid=1", UrlSettings(strip_session_ids=True))
@example("http://a.test/?'", UrlSettings())
@example("http://a.test/a/%2E%2E/b", UrlSettings())
@example("http://a.test/" + "a" * 60, UrlSettings(max_url_length=64))
def test_what_is_found_canonical_at_a_glance_is_so_when_it_is_read(text: str, settings: UrlSettings) -> None:
    site = canonical_site(text, settings)
    if site is not None:
        url = url_of(text, settings=settings)
        assert (url.text, url.site) == (text, site)


@pytest.mark.parametrize(
    "text",
    [
        "https://www.example.co.uk:8443/news/2026/?page=2&q=a+b",
        "http://example.com/",
        "http://127.0.0.1/a;b=1/c~d_e-f.html",
        "http://xn--bcher-kva.example/%E6%97%A5/%20?x=%26",
    ],
)
def test_usual_urls_are_found_canonical_at_a_glance(text: str) -> None:
    assert canonical_site(text, UrlSettings()) == url_of(text).site


def test_a_host_that_is_too_long_for_any_name_is_read_and_not_remembered() -> None:
    remembered = url_module._place.cache_info().currsize
    host = "a" * 301 + ".test"
    assert (url_of(f"http://{host}/x").host, canonical_site(f"http://{host}/x", UrlSettings())) == (host, None)
    assert url_module._place.cache_info().currsize == remembered


def test_an_escape_is_never_decoded_into_a_new_escape() -> None:
    assert canonical("http://example.com/%%34%31") == "http://example.com/%%341"
    assert canonical("http://example.com/%%341") == "http://example.com/%%341"
    assert canonical("http://example.com/%2%41") == "http://example.com/%2%41"
    assert canonical("http://example.com/%2541") == "http://example.com/%2541"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("mailto:a@example.com", RefusalReason.SCHEME),
        ("javascript:void(0)", RefusalReason.SCHEME),
        ("data:text/html,x", RefusalReason.SCHEME),
        ("file:///etc/passwd", RefusalReason.SCHEME),
        ("ftp://example.com/", RefusalReason.SCHEME),
        ("blob:https://example.com/1", RefusalReason.SCHEME),
        ("example.com", RefusalReason.NOT_A_URL),
        ("http://", RefusalReason.NOT_A_URL),
        ("http://exa mple.com/", RefusalReason.NOT_A_URL),
        ("http://example.com:99999/", RefusalReason.NOT_A_URL),
        ("http://256.0.0.1/", RefusalReason.NOT_A_URL),
        ("http://./", RefusalReason.NOT_A_URL),
        ("http://0x7f../", RefusalReason.NOT_A_URL),
        ("http://a..b/", RefusalReason.NOT_A_URL),
        ("http://example.com/" + "a" * 2000, RefusalReason.TOO_LONG),
        ("data:" + "a" * 1_000_000, RefusalReason.TOO_LONG),
    ],
)
def test_what_is_no_candidate_is_refused_with_its_reason(reference: str, reason: RefusalReason) -> None:
    assert refusal(reference) == reason


def test_the_length_limit_counts_the_canonical_form() -> None:
    settings = UrlSettings(max_url_length=64)
    assert len(canonical("http://example.com/" + "a" * 45, settings=settings)) == 64
    assert refusal("http://example.com/" + "a" * 46, settings) == RefusalReason.TOO_LONG
    assert canonical("http://example.com/#" + "a" * 500, settings=settings) == "http://example.com/"
    assert refusal("http://example.com/" + "é" * 20, settings) == RefusalReason.TOO_LONG


def test_parameters_are_removed_only_by_a_setting() -> None:
    url = "http://example.com/a;jsessionid=1F?utm_source=x&id=3&PHPSESSID=abc&gclid=1"
    assert canonical(url) == url
    assert canonical(url, settings=UrlSettings(strip_tracking=True)) == (
        "http://example.com/a;jsessionid=1F?id=3&PHPSESSID=abc"
    )
    assert canonical(url, settings=UrlSettings(strip_session_ids=True)) == (
        "http://example.com/a?utm_source=x&id=3&gclid=1"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://example.com/?utm_source=x", "http://example.com/"),
        ("http://example.com/?", "http://example.com/?"),
        ("http://example.com/?fbclid", "http://example.com/"),
        ("http://example.com/?xgclid=1", "http://example.com/?xgclid=1"),
        ("http://example.com/?braid=1&gbraid=2&wbraid=3", "http://example.com/?braid=1"),
        ("http://example.com/?sid=9682993c8daa2c5497996114facdc805", "http://example.com/"),
        ("http://example.com/?sid=12", "http://example.com/?sid=12"),
        ("http://example.com/(S(abc123))/page.aspx", "http://example.com/page.aspx"),
        ("http://(s(a))/x", "http://(s(a))/x"),
        ("http://example.com/a/..;jsessionid=1/b", "http://example.com/b"),
    ],
)
def test_stripping_leaves_a_canonical_url(given: str, expected: str) -> None:
    settings = UrlSettings(strip_tracking=True, strip_session_ids=True)
    assert canonical(given, settings=settings) == expected
    assert canonical(expected, settings=settings) == expected


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("http://www.example.co.uk:8080/", "example.co.uk"),
        ("http://example.co.uk/", "example.co.uk"),
        ("http://co.uk/", "co.uk"),
        ("http://alice.github.io/", "alice.github.io"),
        ("http://www.alice.github.io/", "alice.github.io"),
        ("http://localhost:8000/", "localhost"),
        ("http://127.0.0.1:8000/", "127.0.0.1"),
        ("http://[::1]:8000/", "[::1]"),
        ("http://www.sub.unknown-tld-name/", "sub.unknown-tld-name"),
        ("http://www.食狮.公司.cn/", "xn--85x722f.xn--55qx5d.cn"),
    ],
)
def test_a_site_is_the_registrable_domain_or_the_host_itself(url: str, site: str) -> None:
    assert url_of(url).site == site


def test_site_key_host_makes_each_host_a_site() -> None:
    settings = UrlSettings(site_key="host")
    assert url_of("http://www.example.co.uk:8080/", settings=settings).site == "www.example.co.uk"
    assert url_of("http://www.example.co.uk:8080/").site == "example.co.uk"


def test_addresses_have_no_registrable_domain() -> None:
    assert registrable_domain("10.0.0.1") is None
    assert registrable_domain("[2001:db8::1]") is None


def test_the_origin_carries_a_port_only_if_it_is_not_the_default() -> None:
    assert url_of("https://example.com:443/a/b").origin == "https://example.com"
    assert url_of("https://example.com:8443/a/b").origin == "https://example.com:8443"
    assert url_of("http://[::1]:81/a").origin == "http://[::1]:81"
    assert (url_of("https://example.com/").port, url_of("http://example.com/").port) == (443, 80)


#: Changing any of these orphans the seen set and the slots of every existing crawl.
GOLDEN = {
    "http://example.com/": (13364996003878346283, 51),
    "https://example.co.uk/a?b=c": (5894657980369710736, 43),
    "http://xn--bcher-kva.example/": (5572017892532383080, 38),
}


def test_fingerprints_and_slots_have_golden_values() -> None:
    found = {text: (url_of(text).fingerprint, slot_of(url_of(text).site, 64)) for text in GOLDEN}
    assert found == GOLDEN
    assert stable_hash("") == 0x2D06800538D394C2  # the published test vector of XXH3


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_hashes_do_not_depend_on_the_hash_seed(seed: str) -> None:
    program = (
        "from gossamer.url import canonicalise; from gossamer.frontier.slots import slot_of;"
        "url = canonicalise('http://example.com/'); print(url.fingerprint, slot_of(url.site, 64))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    assert tuple(int(word) for word in ran.stdout.split()) == GOLDEN["http://example.com/"]
