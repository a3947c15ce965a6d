"""Redirects that lead in circles, out of the web, or into the crawler's own network: rows 12 to 17 and 19.

Rows 17 and 19 are the resolver's; what stands here is the page that names the hosts which it treats so.
"""

from gossamer.testing.web.hostile.site import (
    HTML,
    Expected,
    Pace,
    Place,
    Play,
    Site,
    document,
    links,
    page,
    redirect,
    robots_file,
)
from gossamer.testing.web.resolver import PRIVATE_ADDRESSES, special_names
from gossamer.testing.web.server import Connection

CHAIN_LENGTH = 50
#: Redirects in a row that a crawler follows by default.
HOPS = 5

#: Written as literals in links and Location headers: each leads into somebody's own network, or to the crawler itself.
PRIVATE_HOSTS = (
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 (written into a page, nothing is bound to it)
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[fd00::1]",
    "[fe80::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
)

#: Spellings of such addresses. The URL standard reads every one of them as the number that it is.
SPELLINGS = {
    "2130706433": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "0x7f.1": "127.0.0.1",
    "127.1": "127.0.0.1",
    "127.0.1": "127.0.0.1",
    "0177.0.0.01": "127.0.0.1",
    "017700000001": "127.0.0.1",
    "0X7F.0x0.0.1": "127.0.0.1",
    "127.0.0.1.": "127.0.0.1",
    "%31%32%37.0.0.1": "127.0.0.1",
    "１２７.０.０.１": "127.0.0.1",
    "127。0。0。1": "127.0.0.1",
    "0": "0.0.0.0",  # noqa: S104
    "0x": "0.0.0.0",  # noqa: S104
    "2852039166": "169.254.169.254",
    "0xa9fea9fe": "169.254.169.254",
    "0251.0376.0251.0376": "169.254.169.254",
    "10.1": "10.0.0.1",
    "3232235777": "192.168.1.1",
    "[0:0:0:0:0:0:0:1]": "[::1]",
    "[::FFFF:7F00:1]": "[::ffff:7f00:1]",
}

_SCHEMES = {
    "file": "file:///etc/hostname",
    "data": "data:text/html,<p>from%20nowhere",
    "javascript": "javascript:alert(1)",
    "ftp": "ftp://h14.test/pub/",
    "gopher": "gopher://127.0.0.1:6379/_FLUSHALL",
    "view-source": "view-source:http://h14.test/landed",
    "blob": "blob:http://h14.test/0",
}


def sites() -> dict[int, Site]:
    return {
        12: _circles(),
        13: _elsewhere(),
        14: _out_of_the_web(),
        15: _private(),
        16: _spelt(),
        # A client that stays with the public address finds nobody there; only the page may never be reached.
        17: _named("h17.test", (Expected.ADDRESS, Expected.TIMEOUT, Expected.DISCONNECT)),
        19: _named("h19.test", (Expected.DNS,)),
    }


def _circles() -> Site:
    async def cookie_loop(connection: Connection, _pace: Pace) -> None:
        # Each round sets another cookie and wants it back, so that every request differs from the one before.
        rounds = connection.headers.get("cookie", "").count("round") + 1
        again = ("Set-Cookie", f"round{rounds}=1")
        connection.respond(302, [HTML, ("Location", "http://h12.test/cookies"), again], b"")

    async def chain(connection: Connection, _pace: Pace) -> None:
        number = connection.target.partition("?")[2]
        following = int(number) + 1 if number.isascii() and number.isdecimal() and len(number) < 4 else 0
        if following > CHAIN_LENGTH:
            connection.respond(200, [HTML], document("The end of the chain", "").encode())
        else:
            connection.respond(302, [HTML, ("Location", f"/chain?{following}")], b"")

    async def growing(connection: Connection, _pace: Pace) -> None:
        # Within one segment: a path of repeating segments would end as a trap before it ends as a chain.
        connection.respond(302, [HTML, ("Location", f"{connection.target[:4000]}-again")], b"")

    # A seed's sixth redirect in a row is one too many.
    grown = "/grow" + "-again" * HOPS
    return {
        "h12.test/self": _redirect("/self", Expected.SEEN),
        "h12.test/one": _redirect("/two", Expected.REDIRECT),
        "h12.test/two": _redirect("/one", Expected.SEEN),
        "h12.test/cookies": _leading(cookie_loop, "http://h12.test/cookies", Expected.SEEN),
        "h12.test/fragment": _redirect("/fragment#again", Expected.SEEN),
        "h12.test/chain?0": Place(play=chain, expected=(Expected.REDIRECT,)),
        f"h12.test/chain?{HOPS}": _leading(chain, f"/chain?{HOPS + 1}", Expected.HOPS),
        "h12.test/chain": Place(play=chain),
        "h12.test/grow": Place(play=growing, expected=(Expected.REDIRECT,)),
        f"h12.test{grown}": _leading(growing, f"{grown}-again", Expected.HOPS),
        "h12.test/*": Place(play=growing),
        "h12.test/": Place(
            play=page(
                document("In circles", links(("/self", "/one", "/cookies", "/fragment", "/chain?0", "/grow"))),
            )
        ),
    }


def _elsewhere() -> Site:
    async def swing(connection: Connection, _pace: Pace) -> None:
        other = "http" if connection.scheme == "https" else "https"
        connection.respond(301, [HTML, ("Location", f"{other}://h13.test/swing")], b"")

    landed = Place(play=page(document("Landed", "")))
    return {
        "h13.test/to-https": _redirect("https://h13.test/landed", Expected.DONE),
        "h13.test/to-http": _redirect("http://h13.test/landed", Expected.DONE, scheme="https"),
        # The redirect back is to a URL that is known.
        "h13.test/swing": _leading(swing, "http://h13.test/swing", Expected.SEEN),
        "h13.test/to-host": _redirect("http://other.h13.test/landed", Expected.DONE),
        "h13.test/to-site": _redirect("http://h13-other.test/landed", Expected.DONE),
        "h13.test/to-closed": _redirect("http://closed.h13.test/landed", Expected.DISALLOWED),
        "closed.h13.test/landed": Place(play=landed.play, expected=(Expected.DISALLOWED,)),
        "closed.h13.test/robots.txt": Place(play=robots_file("User-agent: *\nDisallow: /\n")),
        "h13.test/landed": landed,
        "other.h13.test/landed": landed,
        "h13-other.test/landed": landed,
    }


def _out_of_the_web() -> Site:
    nowhere = {"nonsense": "http://[::1", "port": "http://h14.test:99999/", "nothing": "http://"}
    return {f"h14.test/{word}": _redirect(target, Expected.SCHEME) for word, target in _SCHEMES.items()} | {
        f"h14.test/{word}": _redirect(target, Expected.NOT_A_URL) for word, target in nowhere.items()
    }


def _private() -> Site:
    urls = {f"http://{host}/": Expected.ADDRESS for host in PRIVATE_HOSTS}
    # The crawler's own store and the metrics of its machine stand behind such addresses.
    urls |= {"http://127.0.0.1:6379/": Expected.ADDRESS, "http://localhost:5432/": Expected.ADDRESS}
    urls |= {f"http://{word}.h15.test/": Expected.ADDRESS for word in PRIVATE_ADDRESSES}
    return _led_to("h15.test", urls)


def _spelt() -> Site:
    return _led_to("h16.test", {f"http://{spelling}/": Expected.ADDRESS for spelling in SPELLINGS})


def _led_to(host: str, urls: dict[str, Expected]) -> Site:
    """A page that links to them all, and a redirect to each."""
    site: Site = {
        f"{host}/links": Place(play=page(document("Links inwards", links(urls))), expected=(Expected.DONE,), links=urls)
    }
    return site | {
        f"{host}/redirect?{number}": _redirect(url, expected) for number, (url, expected) in enumerate(urls.items())
    }


def _named(site: str, never: tuple[Expected, ...]) -> Site:
    # Late, always anew or by way of many names is answered all the same. Of many addresses one is the server's.
    answered = {
        "late.h19.test": Expected.DNS,
        "zero-ttl.h19.test": Expected.DNS,
        "chain.h19.test": Expected.DNS,
        "many.h19.test": Expected.DISCONNECT,
    }
    return {
        f"{name}/": Place(
            play=page(document("Reached", "by a name that is hard to resolve")),
            expected=(Expected.DONE, answered[name]) if name in answered else never,
        )
        for name in special_names()
        if name.endswith(f".{site}")
    }


def _redirect(target: str, expected: Expected, *, scheme: str = "http") -> Place:
    # A Location header is bytes; browsers and servers take other letters for UTF-8.
    return _leading(redirect(target.encode().decode("latin-1")), target, expected, scheme=scheme)


def _leading(play: Play, target: str, expected: Expected, *, scheme: str = "http") -> Place:
    return Place(play=play, expected=(Expected.REDIRECT,), links={target: expected}, scheme=scheme)
