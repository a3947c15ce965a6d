"""Links that are no URLs, that never end, or that are too many: rows 18, 20 to 31, 48 and 50."""

import hashlib
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, quote

from gossamer.testing.web.hostile.site import (
    Expected,
    Place,
    Site,
    computed,
    document,
    links,
    page,
    redirect,
    robots_file,
    streamed,
)

MANY_LINKS = 1_000_000
SOME_LINKS = 100_000
LONG_PATH_CHARACTERS = 100_000
LONG_URL_CHARACTERS = 1_000_000
SECRET = "secret-22"  # noqa: S105 (a canary that no log, index or metric may show)

#: From the spelling of a host in a link to the one name that it has.
HOSTS = {
    "H20.TEST": "h20.test",
    "h20.test.": "h20.test",
    "h20.test:80": "h20.test",
    "WWW.h20.test.": "www.h20.test",
    "bücher.h20.test": "xn--bcher-kva.h20.test",
    "BÜCHER.h20.test": "xn--bcher-kva.h20.test",
    "b\u00adücher.h20.test": "xn--bcher-kva.h20.test",
    "xn--bcher-kva.h20.test": "xn--bcher-kva.h20.test",
    "ｗｉｄｅ.h20.test": "wide.h20.test",
    "under_score.h20.test": "under_score.h20.test",
    "-dash-.h20.test": "-dash-.h20.test",
    f"{'a' * 63}.h20.test": f"{'a' * 63}.h20.test",
}

#: As they stand in the page. What can be read as a URL leads to a page; nothing raises.
MALFORMED = {
    "http://": Expected.NOT_A_URL,
    "http://[::1": Expected.NOT_A_URL,
    "http://h21.test:99999/": Expected.NOT_A_URL,
    "http://h21.test:port/": Expected.NOT_A_URL,
    "http://a b/": Expected.NOT_A_URL,
    "http://exa<mple/": Expected.NOT_A_URL,
    "http://h21..test/": Expected.NOT_A_URL,
    "http://%00/": Expected.NOT_A_URL,
    "http://1.2.3.4.5/": Expected.NOT_A_URL,
    "//": Expected.NOT_A_URL,
    "ht\ntp://h21.test/newline": Expected.DONE,
    "\t/tab\tbed ": Expected.DONE,
    "http:/one-slash": Expected.DONE,
    "http:\\\\h21.test\\backslash": Expected.DONE,
    "///h21.test/three": Expected.DONE,
    "/with space": Expected.DONE,
    "/%zz": Expected.DONE,
    "/\ud7ff\uffff": Expected.DONE,
    "/a/../../../up": Expected.DONE,
    "?": Expected.DONE,
}
OTHER_SCHEMES = (
    "mailto:someone@h23.test",
    "tel:+123456789",
    "javascript:void(0)",
    "JavaScript:alert('x')",
    "java\nscript:alert(1)",
    "data:text/html;base64,PHA+",
    "blob:http://h23.test/1",
    "ftp://h23.test/",
    "file:///etc/passwd",
    "about:blank",
    "ws://h23.test/",
    "magnet:?xt=urn:none",
    "android-app://org.test/",
)
SEPARATORS = (
    "/a|b",
    "/a|7",
    "/a%0Ab",
    "/a*b?c[]=*",
    "/]]|%00",
    "/{slot}:1",
    "/'; drop table seen; --",
    '/"quoted"',
    "/a\\b",
    "/a%09b",
    "/$(x)`y`",
    "/a,b;c=d",
)


def sites() -> dict[int, Site]:
    return {
        18: {"*/*": Place(play=computed(_farm), expected=(Expected.BUDGET,))},
        20: _hosts(),
        21: _list("h21.test", MALFORMED),
        22: _credentials(),
        23: _list("h23.test", dict.fromkeys(OTHER_SCHEMES, Expected.SCHEME)),
        24: _long(),
        25: _list("h25.test", dict.fromkeys(SEPARATORS, Expected.DONE)),
        26: _trap("h26.test", "/calendar?y=2026&m=1", _calendar, Expected.BUDGET),
        27: _trap("h27.test", "/shop;jsessionid=0", _sessions, Expected.BUDGET),
        28: _trap("h28.test", "/a/b/", _repeating, Expected.TRAP),
        29: _trap("h29.test", "/items?sort=price", _facets, Expected.BUDGET),
        30: _trap("h30.test", "/not/found", _soft_404, Expected.BUDGET),
        31: _many(),
        48: _refresh_and_base(),
        50: _expressions(),
    }


def _hosts() -> Site:
    urls = {f"http://{spelling}/same": Expected.DONE for spelling in HOSTS} | {"http://[::1]/": Expected.ADDRESS}
    same = Place(play=page(document("The same", "whatever it is called")))
    return {
        "h20.test/links": Place(play=page(document("Hosts", links(urls))), expected=(Expected.DONE,), links=urls),
        **{f"{host}/same": same for host in HOSTS.values()},
    }


def _list(host: str, hrefs: dict[str, Expected]) -> Site:
    found = page(document("Found", "behind a strange link"))
    return {
        f"{host}/links": Place(play=page(document("Links", links(hrefs))), expected=(Expected.DONE,), links=hrefs),
        f"{host}/*": Place(play=found),
        f"{host}/": Place(play=page(document("Strange links", links(["/links"])))),
    }


def _credentials() -> Site:
    url = f"http://alice:{SECRET}@h22.test/inside"
    return {
        "h22.test/links": Place(
            play=page(document("A key under the mat", links([url, f"//{SECRET}@h22.test/inside"]))),
            expected=(Expected.DONE,),
            links={url: Expected.DONE},
        ),
        "h22.test/redirect": Place(play=redirect(url), expected=(Expected.REDIRECT,), links={url: Expected.DONE}),
        "h22.test/inside": Place(play=page(document("Inside", ""))),
    }


def _long() -> Site:
    hrefs = {
        "/" + "x" * LONG_URL_CHARACTERS: Expected.TOO_LONG,
        "/?" + "%25" * 1000: Expected.TOO_LONG,
        "/" + "x" * 3000: Expected.TOO_LONG,
        "/" + "x" * 1500: Expected.DONE,
    }

    def growing(target: str) -> str:
        # What a site does that quotes its own address once too often: each page's link is longer by a third.
        return document("Growing", links([f"/grow?from={quote(target, safe='')}"]))

    return {
        "h24.test/links": Place(play=page(document("Long", links(hrefs))), expected=(Expected.DONE,), links=hrefs),
        "h24.test/grow?from=%2F": Place(play=computed(growing), expected=(Expected.DONE,)),
        "h24.test/grow": Place(play=computed(growing)),
        "h24.test/" + "x" * 1500: Place(play=page(document("Long, but not too long", ""))),
    }


def _trap(host: str, start: str, make: Callable[[str], str], expected: Expected) -> Site:
    return {
        f"{host}/": Place(play=page(document("A trap", links([start]))), expected=()),
        f"{host}{start}": Place(play=computed(make), expected=(Expected.DONE,)),
        f"{host}/*": Place(play=computed(make), expected=(expected,)),
    }


def _calendar(target: str) -> str:
    asked = dict(parse_qsl(target.partition("?")[2]))
    months = _number(asked.get("y", "")) * 12 + _number(asked.get("m", "")) - 1
    hrefs = [f"/calendar?y={month // 12}&m={month % 12 + 1}" for month in (months - 1, months + 1, months + 12)]
    days = [f"/calendar/day?n={months * 31 + day}" for day in range(1, 32)]
    return document(f"Month {months}", links(hrefs + days))


def _sessions(target: str) -> str:
    # A server that has given no cookie yet; nothing is kept, so the session comes from what was asked.
    session = hashlib.blake2b(target.encode(), digest_size=16).hexdigest()
    hrefs = [f"/shop/{item};jsessionid={session}" for item in range(10)]
    hrefs += [f"/basket?item={item}&PHPSESSID={session}" for item in range(10)]
    return document("Shop", links([*hrefs, f"/(S({session[:24]}))/account"]))


def _repeating(target: str) -> str:
    return document(f"Depth {target.count('/')}", links(["a/b/", "b/a/", "../b/a/b/", "./index.html/"]))


def _facets(target: str) -> str:
    path, _, query = target.partition("?")
    chosen = [part for part in query.split("&") if part][:12]
    more = [f"{name}={value}" for name in ("colour", "size", "brand", "price", "sort", "page") for value in "123"]
    hrefs = [f"{path}?{'&'.join([*chosen, part])}" for part in more if part not in chosen]
    hrefs += [f"{path}?{'&'.join([*chosen[at:], *chosen[:at]])}" for at in range(1, len(chosen))]
    return document(f"{len(chosen)} filters", links(hrefs))


def _soft_404(target: str) -> str:
    # The body is the same wherever one asks; only the links differ, so that there is always somewhere to go.
    start = hashlib.blake2b(target.encode(), digest_size=6).hexdigest()
    return document("Sorry", "<p>What you look for is not here.</p>" + links(f"/{start}/{n}" for n in range(10)))


def _farm(target: str) -> str:
    start = hashlib.blake2b(target.encode(), digest_size=6).hexdigest()
    return document("A farm", links(f"http://{start}-{number}.farm.test/{start}/{number}" for number in range(50)))


def _many() -> Site:
    def hrefs(count: int) -> Iterator[bytes]:
        yield b"<!doctype html><title>Many links</title>"
        for start in range(0, count, 1000):
            yield b"".join(b"<a href=/p/%d>%d</a>\n" % (number, number) for number in range(start, start + 1000))

    return {
        "h31.test/many": Place(play=streamed(lambda: hrefs(SOME_LINKS)), expected=(Expected.LINKS_CAPPED,)),
        "h31.test/million": Place(
            play=streamed(lambda: hrefs(MANY_LINKS)), expected=(Expected.LENGTH, Expected.LINKS_CAPPED)
        ),
        "h31.test/": Place(play=page(document("Two pages", links(["/many", "/million"])))),
        "h31.test/*": Place(play=computed(lambda target: document(target, "one of many"))),
    }


def _refresh_and_base() -> Site:
    def refresh(content: str) -> Place:
        return Place(play=page(f'<meta http-equiv=refresh content="{content}"><p>Wait.'), expected=(Expected.DONE,))

    def base(*tags: str) -> Place:
        return Place(play=page(f"<head>{''.join(tags)}</head><a href=landed>x</a>"), expected=(Expected.DONE,))

    landed = Place(play=page(document("Landed", "")))
    return {
        "h48.test/self": refresh("0; url=/self"),
        "h48.test/one": refresh("0;url=/two"),
        "h48.test/two": refresh("0;URL='/one'"),
        "h48.test/far": refresh("1000000000; url=/landed"),
        "h48.test/negative": refresh("-1; url=/landed"),
        "h48.test/script": refresh("0; url=javascript:alert(1)"),
        "h48.test/base-other": base("<base href=http://other.h48.test/deep/>"),
        "h48.test/base-data": base("<base href=data:text/html,x>"),
        "h48.test/base-twice": base("<base href=/first/>", "<base href=http://other.h48.test/second/>"),
        "h48.test/base-private": base("<base href=http://169.254.169.254/>"),
        "h48.test/landed": landed,
        "h48.test/first/landed": landed,
        "other.h48.test/deep/landed": landed,
    }


def _expressions() -> Site:
    hrefs = {
        "/" + "a" * LONG_PATH_CHARACTERS: Expected.TOO_LONG,
        "/" + "a" * 1900 + "!": Expected.DONE,
        "/" + "a/" * 900: Expected.TRAP,
        "/" + "aA1-" * 450 + ".html": Expected.DONE,
        "/?" + "a=a&" * 450 + "!": Expected.DONE,
    }
    # Matched by going back and forth, such a rule takes longer than the universe has.
    rules = "User-agent: *\n" + f"Disallow: /{'*a' * 200}b$\n" * 50 + "Disallow: /closed\n"
    return {
        "h50.test/links": Place(play=page(document("Patterns", links(hrefs))), expected=(Expected.DONE,), links=hrefs),
        "h50.test/closed": Place(play=page(document("Closed", "")), expected=(Expected.DISALLOWED,)),
        "h50.test/robots.txt": Place(play=robots_file(rules)),
        "h50.test/": Place(play=page(document("Patterns", links(["/links", "/closed"])))),
        "h50.test/*": Place(play=page(document("Found", ""))),
    }


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
