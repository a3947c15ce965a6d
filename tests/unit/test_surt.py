"""The keys of the index are those by which the archives of the world look URLs up."""

import pytest

from gossamer.sinks.surt import surt_key
from gossamer.url import Refusal, canonicalise

#: As the Internet Archive's `surt` package 0.3.1 has them, which pywb uses. Those of wikipedia.org and of .ar, and the
#: two with addresses and robots.txt, are published as Common Crawl's too.
KEYS = [
    ("http://example.com/", "com,example)/"),
    ("https://www.example.com/", "com,example)/"),
    ("https://www2.example.co.uk:8443/", "uk,co,example:8443)/"),
    ("https://wwww.example.com/", "com,example,wwww)/"),
    ("https://www.com/", "com)/"),
    ("https://www12/", "www12)/"),
    ("http://www.www.example.com/A/B/", "com,example,www)/a/b"),
    ("https://an.wikipedia.org/wiki/Escopete", "org,wikipedia,an)/wiki/escopete"),
    (
        "https://fusionbikes.com.ar/producto/luz-knog-blinder-mini-niner/",
        "ar,com,fusionbikes)/producto/luz-knog-blinder-mini-niner",
    ),
    (
        "http://futbolinterior.com.ar/component/mailto/?tmpl=component&template=shaper_helix3&link=b2449d",
        "ar,com,futbolinterior)/component/mailto?link=b2449d&template=shaper_helix3&tmpl=component",
    ),
    ("http://34.203.211.192/robots.txt", "192,211,203,34)/robots.txt"),
    (
        "https://[2600:1f18:200d:fb00:2b74:867c:ab0c:150a]/robots.txt",
        "2600:1f18:200d:fb00:2b74:867c:ab0c:150a)/robots.txt",
    ),
    ("http://[2001:db8::1]:8080/", "2001:db8::1:8080)/"),
    ("https://xn--mnchen-3ya.de/", "de,xn--mnchen-3ya)/"),
    ("https://example.com//a///b//", "com,example)/a/b"),
    ("https://example.com/a/?", "com,example)/a"),
    ("https://example.com/a?B=2&a=1&a=0&A", "com,example)/a?a&a=0&a=1&b=2"),
    ("https://example.com/?a-b=1&a=2&a&a=", "com,example)/?a&a=&a=2&a-b=1"),
    ("https://example.com/?&&b", "com,example)/?&&b"),
    ("https://example.com/?q=a+b%20C", "com,example)/?q=a+b%20c"),
    ("https://example.com/%C3%84/%7Euser", "com,example)/%c3%84/~user"),
    ("https://example.com/%2525252541", "com,example)/a"),
    ("https://example.com/%25", "com,example)/%25"),
    ("https://example.com/100%", "com,example)/100%25"),
    ("https://example.com/%zz", "com,example)/%25zz"),
    ("https://example.com/a%2F..%2Fb", "com,example)/b"),
    ("https://example.com/%2E%2E%2Fx", "com,example)/../x"),
    ("https://example.com/a%3Fb%23c%0Ad", "com,example)/a?b%23c%0ad"),
    ('https://example.com/a|b^c[d]"{e}', 'com,example)/a|b^c[d]"{e}'),
    ("https://example.com/?x=%22%27%3C%3E|^", "com,example)/?x=\"'<>|^"),
    ("https://example.com/?a%26b=1", "com,example)/?a&b=1"),
    (
        "https://example.com/;jsessionid=0123456789ABCDEF0123456789ABCDEF",
        "com,example)/;jsessionid=0123456789abcdef0123456789abcdef",
    ),
    ("https://example.com/?jsessionid=0123456789ABCDEF0123456789ABCDEF&b=1", "com,example)/?b=1"),
    ("https://example.com/?a=1&PHPSESSID=0123456789abcdef0123456789abcdef", "com,example)/?&a=1"),
    ("https://example.com/?sid=0123456789abcdef0123456789abcdef", "com,example)/"),
    ("https://example.com/?x=1&sid=9999", "com,example)/?sid=9999&x=1"),
    ("https://example.com/?story_sid=0123456789abcdef0123456789abcdef&b=1", "com,example)/?story_b=1"),
    ("https://example.com/?ASPSESSIONIDABCDEFGH=ABCDEFGHIJKLMNOPQRSTUVWX&b=1", "com,example)/?b=1"),
    ("https://example.com/?CFID=12&CFTOKEN=34&b=1", "com,example)/?b=1"),
    ("https://example.com/(S(0123456789abcdefghijklmn))/Page.aspx?x=1", "com,example)/page.aspx?x=1"),
    ("https://example.com/a/(0123456789abcdefghijklmn)/b.aspx", "com,example)/a/b.aspx"),
    (
        "https://example.com/(S(0123456789abcdefghijklmn))/page.html",
        "com,example)/(s(0123456789abcdefghijklmn))/page.html",
    ),
    ("https://example.com/?r?", "com,example)/?r?"),
    ("https://example.com/?=", "com,example)/?="),
    ("https://example.com/a_b-c~d.e!$&'()*+,;=:@", "com,example)/a_b-c~d.e!$&'()*+,;=:@"),
]


@pytest.mark.parametrize(("reference", "key"), KEYS)
def test_a_key_is_that_of_the_archives(reference: str, key: str) -> None:
    url = canonicalise(reference)
    assert not isinstance(url, Refusal)
    assert surt_key(url.text) == key


def test_a_key_has_no_white_space_and_is_plain_ascii() -> None:
    url = canonicalise("https://exämple.com/ä b\t?c=ö d&e=%0a%20%00%ff")
    assert not isinstance(url, Refusal)
    key = surt_key(url.text)
    assert key.isascii()
    assert key.split() == [key]
    assert key.isprintable()


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("%25" * 650, "%25" * 650),
        ("%" + "25" * 980, "%25"),
        ("?" + "cfid=" * 390, "?" + "cfid=" * 390),
        ("(a(/" * 480 + ".aspx", "(a(/" * 480 + ".aspx"),
        ("x/" + "%252525%2e/" * 150, "x" + "/%25." * 150),
    ],
)
def test_a_key_of_a_hostile_url_has_an_end(path: str, key: str) -> None:
    assert surt_key(f"https://example.com/{path}") == f"com,example)/{key}"
