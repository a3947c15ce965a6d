"""Heads and framing that break the rules of HTTP: rows 3, 8, 9 and 45 to 47."""

from gossamer.testing.web.hostile.site import (
    CLOSE,
    HTML,
    Expected,
    Pace,
    Place,
    Play,
    Site,
    body,
    document,
    endless,
    page,
    raw,
    redirect,
    response_head,
)
from gossamer.testing.web.server import Connection

_OK = "HTTP/1.1 200 OK"
_PAGE = document("Framed", "a page of some length").encode()
_CHUNKED = ("Transfer-Encoding", "chunked")

LONG_LINE_BYTES = 1_000_000
MANY_HEADERS = 10_000
MANY_DIGITS = 1_000_000
MANY_INTERIM = 10_000
#: Terminal escapes, a carriage return that hides what stands before it, a forged log line, a bidirectional override.
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\rhidden"
FORGED_LINE = "INFO forged line"
#: Never to be seen in a log, a title or an index other than escaped.
CANARY = "canary-46"


def sites() -> dict[int, Site]:
    return {
        3: _large_heads(),
        8: _lengths(),
        9: _chunks(),
        45: _not_quite_http(),
        46: _escapes(),
        47: _cookies(),
    }


def _large_heads() -> Site:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    end = b"Content-Length: %d\r\n\r\n%b" % (len(_PAGE), _PAGE)
    expected = (Expected.HEADERS,)
    return {
        "h03.test/long-line": Place(
            play=raw(start, b"X-Long: " + b"x" * LONG_LINE_BYTES + b"\r\n", end), expected=expected
        ),
        "h03.test/long-name": Place(play=raw(start, b"x" * LONG_LINE_BYTES + b": y\r\n", end), expected=expected),
        "h03.test/many": Place(
            play=raw(start, b"".join(b"X-Header-%d: value\r\n" % number for number in range(MANY_HEADERS)), end),
            expected=expected,
        ),
        "h03.test/large-in-all": Place(
            play=raw(start, (b"X-Long: " + b"x" * 10_000 + b"\r\n") * 80, end), expected=expected
        ),
        "h03.test/endless": Place(play=endless(start, b"X-Header: again\r\n"), expected=expected),
        "h03.test/endless-line": Place(play=endless(start + b"X-Header: ", b"again "), expected=expected),
        "h03.test/endless-status": Place(play=endless(b"HTTP/1.1 200 ", b"Okay "), expected=expected),
    }


def _lengths() -> Site:
    def stated(*lengths: str) -> Play:
        headers = [("Content-Length", length) for length in lengths]
        return raw(response_head(_OK, HTML, *headers, CLOSE), _PAGE)

    # A client that keeps the connection finds an answer behind the answer, to a question that it did not ask.
    smuggled = document("Smuggled", "an answer to nobody's request").encode()
    surplus = response_head(_OK, HTML, ("Content-Length", str(len(smuggled)))) + smuggled
    invalid = (Expected.PROTOCOL, Expected.DONE)
    return {
        "h08.test/too-small": Place(
            play=raw(response_head(_OK, HTML, ("Content-Length", "20")) + _PAGE[:20] + surplus),
            expected=(Expected.DONE,),
        ),
        "h08.test/too-big": Place(play=stated("1000000"), expected=(Expected.CUT,)),
        "h08.test/gigantic": Place(play=stated(str(1 << 62)), expected=(Expected.CUT, Expected.LENGTH)),
        "h08.test/negative": Place(play=stated("-1"), expected=invalid),
        "h08.test/words": Place(play=stated("thousand"), expected=invalid),
        "h08.test/plus": Place(play=stated(f"+{len(_PAGE)}"), expected=invalid),
        "h08.test/underscore": Place(play=stated("1_0"), expected=invalid),
        "h08.test/empty": Place(play=stated(""), expected=invalid),
        "h08.test/many-digits": Place(play=stated("9" * MANY_DIGITS), expected=(Expected.HEADERS, Expected.PROTOCOL)),
        "h08.test/many-digits-short": Place(play=stated("9" * 5000), expected=invalid),
        "h08.test/two-different": Place(play=stated("10", str(len(_PAGE))), expected=invalid),
        "h08.test/two-equal": Place(
            play=stated(str(len(_PAGE)), str(len(_PAGE))), expected=(Expected.DONE, Expected.PROTOCOL)
        ),
    }


def _chunks() -> Site:
    head = response_head(_OK, HTML, _CHUNKED, CLOSE)
    chunk = b"%x\r\n%b\r\n" % (len(_PAGE), _PAGE)
    broken = (Expected.PROTOCOL, Expected.CUT)
    return {
        "h09.test/huge-size": Place(play=raw(head, b"8000000000000000\r\n", _PAGE), expected=broken),
        "h09.test/huger-size": Place(play=raw(head, b"f" * 5000 + b"\r\n", _PAGE), expected=broken),
        "h09.test/negative-size": Place(play=raw(head, b"-5\r\n", _PAGE), expected=broken),
        "h09.test/not-hex": Place(play=raw(head, b"0x10\r\n", _PAGE), expected=broken),
        "h09.test/no-line-end": Place(play=raw(head, b"5\r\nhelloworld", chunk, b"0\r\n\r\n"), expected=broken),
        "h09.test/bare-newlines": Place(
            play=raw(head, chunk.replace(b"\r\n", b"\n"), b"0\n\n"), expected=(*broken, Expected.DONE)
        ),
        "h09.test/endless-extension": Place(play=endless(head + b"5;", b"name=value;"), expected=(Expected.PROTOCOL,)),
        "h09.test/endless-extensions": Place(
            # One byte of body for each sixty of overhead: a cap on the body alone comes late.
            play=endless(head, b"1;" + b"x" * 60 + b"\r\ny\r\n"),
            expected=(Expected.LENGTH, Expected.PROTOCOL, Expected.TIMEOUT),
        ),
        "h09.test/endless-trailers": Place(
            play=endless(head + chunk + b"0\r\n", b"X-Trailer: again\r\n"), expected=(Expected.PROTOCOL, Expected.CUT)
        ),
        "h09.test/length-and-chunks": Place(
            play=raw(response_head(_OK, HTML, ("Content-Length", "5"), _CHUNKED, CLOSE), chunk, b"0\r\n\r\n"),
            expected=(Expected.DONE, Expected.PROTOCOL),
        ),
        "h09.test/chunked-twice": Place(
            play=raw(response_head(_OK, HTML, ("Transfer-Encoding", "chunked, chunked"), CLOSE), chunk, b"0\r\n\r\n"),
            expected=(Expected.PROTOCOL, Expected.DONE),
        ),
    }


def _not_quite_http() -> Site:
    headers = b"Content-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n" % len(_PAGE)
    rest = headers + b"\r\n" + _PAGE
    lenient, strict = (Expected.DONE, Expected.PROTOCOL), (Expected.PROTOCOL, Expected.DONE)
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    return {
        "h45.test/no-head": Place(play=raw(_PAGE), expected=strict),
        "h45.test/no-status-line": Place(play=raw(rest), expected=strict),
        "h45.test/colon": Place(play=raw(b"HTTP/1.1 200: OK\r\n" + rest), expected=strict),
        "h45.test/no-reason": Place(play=raw(b"HTTP/1.1 200\r\n" + rest), expected=lenient),
        "h45.test/status-999": Place(
            play=raw(b"HTTP/1.1 999 Denied\r\n" + rest), expected=(Expected.STATUS, Expected.PROTOCOL)
        ),
        "h45.test/status-words": Place(play=raw(b"HTTP/1.1 OK\r\n" + rest), expected=(Expected.PROTOCOL,)),
        "h45.test/http-5": Place(play=raw(b"HTTP/5.0 200 OK\r\n" + rest), expected=strict),
        "h45.test/icy": Place(play=raw(b"ICY 200 OK\r\n" + rest), expected=strict),
        "h45.test/folded": Place(play=raw(b"HTTP/1.1 200 OK\r\nX-Folded: one\r\n\ttwo\r\n" + rest), expected=lenient),
        "h45.test/folded-first": Place(play=raw(b"HTTP/1.1 200 OK\r\n folded: first\r\n" + rest), expected=strict),
        "h45.test/no-colon": Place(play=raw(b"HTTP/1.1 200 OK\r\nno colon here\r\n" + rest), expected=strict),
        "h45.test/space-before-colon": Place(play=raw(b"HTTP/1.1 200 OK\r\nServer : x\r\n" + rest), expected=strict),
        "h45.test/bare-newlines": Place(
            play=raw(b"HTTP/1.1 200 OK\n" + headers.replace(b"\r", b"") + b"\n" + _PAGE), expected=lenient
        ),
        "h45.test/nul-in-header": Place(play=raw(b"HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\n" + rest), expected=strict),
        "h45.test/interim": Place(play=raw(interim * 3, b"HTTP/1.1 200 OK\r\n" + rest), expected=lenient),
        "h45.test/many-interim": Place(
            play=raw(interim * MANY_INTERIM, b"HTTP/1.1 200 OK\r\n" + rest), expected=(Expected.PROTOCOL, Expected.DONE)
        ),
        "h45.test/endless-interim": Place(play=endless(b"", interim), expected=(Expected.PROTOCOL, Expected.TIMEOUT)),
        "h45.test/switching": Place(
            play=raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: gossip\r\n\r\nhear, hear"),
            expected=(Expected.PROTOCOL,),
        ),
        "h45.test/noise": Place(play=raw(bytes(range(256)) * 16), expected=(Expected.PROTOCOL,)),
    }


def _escapes() -> Site:
    start = f"HTTP/1.1 200 {ESCAPES}\r\nContent-Type: text/html; charset=utf-8\r\nServer: {CANARY}{ESCAPES}\r\n"
    split = f"X-Split: one\r\n\r\n{FORGED_LINE}\r\n"
    title = f"{CANARY}{ESCAPES}\u202egnp.exe\n{FORGED_LINE}<script>alert(1)</script>"
    escaped_location = f"/landed?%0d%0aSet-Cookie:%20{CANARY}=1&%1b[31m"
    return {
        "h46.test/headers": Place(
            play=raw(start.encode("latin-1") + b"Connection: close\r\n\r\n" + _PAGE),
            expected=(Expected.DONE, Expected.PROTOCOL),
        ),
        "h46.test/split": Place(
            play=raw(f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{split}".encode("latin-1")),
            expected=(Expected.DONE,),
        ),
        "h46.test/content-type": Place(
            play=body(_PAGE, f"text/html; charset=utf-8{CANARY}\x1b[31m"), expected=(Expected.DONE, Expected.PROTOCOL)
        ),
        "h46.test/title": Place(play=page(f"<title>{title}</title><p>{title}"), expected=(Expected.DONE,)),
        "h46.test/location": Place(play=redirect(escaped_location), expected=(Expected.REDIRECT,)),
        "h46.test/landed": Place(play=page(document("Landed", ""))),
    }


def _cookies() -> Site:
    def cookies(*values: str) -> Play:
        return body(_PAGE, HTML[1], *(("Set-Cookie", value) for value in values))

    async def wall(connection: Connection, _pace: Pace) -> None:
        if "passed=1" in connection.headers.get("cookie", ""):
            connection.respond(200, [HTML], _PAGE)
        else:
            connection.respond(302, [HTML, ("Location", connection.target), ("Set-Cookie", "passed=1")], b"")

    return {
        "h47.test/wall": Place(play=wall, expected=(Expected.REDIRECT,), links={"/wall": Expected.SEEN}),
        "h47.test/many": Place(
            play=cookies(*(f"name{number}={number}" for number in range(MANY_HEADERS))), expected=(Expected.HEADERS,)
        ),
        "h47.test/public-suffix": Place(
            play=cookies("everywhere=1; Domain=test; Path=/", "uk=1; Domain=co.uk", "all=1; Domain=."),
            expected=(Expected.DONE,),
        ),
        "h47.test/other-site": Place(play=cookies("planted=1; Domain=h46.test; Path=/"), expected=(Expected.DONE,)),
        "h47.test/malformed": Place(
            play=cookies("=;=;;", "a" * 4000, "\xff=\xfe; Max-Age=1e999"), expected=(Expected.DONE,)
        ),
    }
