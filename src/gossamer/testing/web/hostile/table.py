"""The hostile catalogue: what the web does to a crawler, who plays it here, and what is expected of the crawler."""

from enum import StrEnum

import msgspec

from gossamer.testing.web.hostile.site import Expected


class Player(StrEnum):
    """Who does it. `page` is the server too, by what it writes; `pure` needs no network and stands in unit tests."""

    SERVER = "server"
    RESOLVER = "resolver"
    PAGE = "page"
    PURE = "pure"


class Row(msgspec.Struct, frozen=True):
    """One hazard. `later` says what the crawler has to learn first, and is empty if it is expected to survive it now.

    What is expected stands with each URL (`expectations` in `hostile`); here only where nothing plays the row.
    """

    number: int
    player: Player
    hazard: str
    played: str
    answer: str
    later: str = ""
    expected: tuple[Expected, ...] = ()

    @property
    def name(self) -> str:
        return f"h{self.number:02}"

    @property
    def site(self) -> str:
        """Where a crawl begins."""
        return f"{self.name}.test"


_S, _R, _P = Player.SERVER, Player.RESOLVER, Player.PAGE

ROWS = (
    Row(
        1,
        _S,
        "body without end",
        "blocks of paragraphs for ever, without a length and chunked",
        "cut at the cap and stored as truncated",
    ),
    Row(
        2,
        _S,
        "dribble",
        "a byte per second: of the head, of the body, of tiny chunks",
        "given up by total time or least rate, never by a timer that each read sets anew",
    ),
    Row(
        3,
        _S,
        "huge head",
        "a header of 1 MB, 10,000 headers, 800 KB in all, lines and heads without end",
        "an error, in bounded memory",
    ),
    Row(
        4,
        _S,
        "gzip bomb",
        "256 MiB in 256 KB; 50,000 empty members; a bomb in a bomb",
        "decoded up to the cap, marked as truncated",
    ),
    Row(
        5,
        _S,
        "other bombs",
        "256 MiB of br in 3 KB, of zstd in 8 KB, of deflate wrapped and bare; zstd windows of 128 MiB and 3.75 TiB",
        "the cap holds inside a single chunk; an absurd window is damage",
    ),
    Row(
        6,
        _S,
        "many content encodings",
        "three and a thousand layers of gzip, really applied",
        "two layers are undone; of more, none",
    ),
    Row(7, _S, "bomb in a redirect", "302 with a bomb as its body", "the body of a redirect is never decoded"),
    Row(
        8,
        _S,
        "Content-Length lies",
        "too small with another answer behind it, too big, negative, words, signs, a million digits, two that differ",
        "what came is kept and marked; nothing is allocated by it; the connection is not used again",
    ),
    Row(
        9,
        _S,
        "broken chunks",
        "sizes of 2^63 and more, no hex, no line ends, extensions and trailers without end, a length as well",
        "an error or the prefix, in bounded memory",
    ),
    Row(
        10,
        _S,
        "damaged compression",
        "gzip and br cut in the middle, a wrong checksum, rubbish in the stream",
        "the decoded prefix is kept and marked",
    ),
    Row(
        11,
        _S,
        "Content-Encoding lies",
        "plain text as gzip, br, zstd; an unknown coding; one layer named twice",
        "the raw bytes are the page",
    ),
    Row(
        12,
        _S,
        "redirects in circles",
        "to itself, in pairs, by cookies, 50 in a row, ever longer",
        "ends at five hops, or where the URL is already known",
    ),
    Row(
        13,
        _S,
        "redirects elsewhere",
        "http to https and back, to other hosts and sites, to one that robots.txt closes",
        "the target is a new URL with its own robots.txt, delay and scope",
    ),
    Row(
        14,
        _S,
        "redirects out of the web",
        "to file:, data:, javascript:, ftp:, gopher:, and to what is no URL",
        "dropped",
    ),
    Row(
        15,
        _S,
        "private addresses",
        "links and redirects to loopback, private, link-local, carrier, mapped addresses, and to names that have such",
        "refused when it connects, at each hop",
    ),
    Row(
        16,
        _S,
        "spellings of addresses",
        "2130706433, 0x7f.1, 127.1, 0, full-width digits, and so on, as links and redirects",
        "read as the address that they are, then refused",
    ),
    Row(
        17,
        _R,
        "DNS rebinding",
        "a public address first and a private one when asked again; both in one answer; one in each family",
        "judged by the address that the socket gets",
    ),
    Row(
        18,
        _R,
        "wildcard farm",
        "every name under farm.test exists, on one address, with 50 more in each page",
        "a budget of hosts per site",
        later="a budget of hosts per registrable domain; the resolver and the server play it already",
    ),
    Row(
        19,
        _R,
        "DNS trouble",
        "no answer, a late one, SERVFAIL, NXDOMAIN, no records, half a message, zero TTL, 100 addresses, alias loops",
        "a time-out of its own, failures remembered, nobody else waits",
    ),
    Row(
        20,
        _P,
        "spellings of hosts",
        "capitals, trailing dots, default ports, international names, underscores, IPv6 literals",
        "one name for each host",
    ),
    Row(
        21,
        _P,
        "malformed URLs",
        "links with tabs, spaces, backslashes, bad ports, bad hosts",
        "what the URL standard says, or dropped; never an exception",
    ),
    Row(
        22,
        _P,
        "credentials in URLs",
        "links and a redirect with a user name and password",
        "removed; never in a log, an index or a request",
    ),
    Row(
        23,
        _P,
        "other schemes",
        "mailto:, tel:, javascript:, data:, blob: and the like as links",
        "dropped before the frontier",
    ),
    Row(
        24,
        _P,
        "long URLs",
        "a link of 1 MB, and a page that quotes its own address in its link, again and again",
        "dropped by length; canonical form is stable",
    ),
    Row(
        25,
        _P,
        "separators in URLs",
        "links with | * quotes, brackets, braces, escaped newlines and NULs",
        "stored and fetched to the letter",
    ),
    Row(
        26,
        _P,
        "calendar",
        "each month links to the next and to its days, for ever",
        "the site keeps its share and no more",
    ),
    Row(
        27,
        _P,
        "session ids",
        "every page has a new session in the path or query of its links",
        "removed if so set; otherwise the site's share ends it",
    ),
    Row(
        28, _P, "repeating segments", "relative links that nest for ever: /a/b/a/b/", "dropped after a few repetitions"
    ),
    Row(29, _P, "facets", "filters in any order and combination", "the site keeps its share and no more"),
    Row(
        30,
        _P,
        "soft 404, near-duplicates",
        "the same page wherever one asks, each with ten new links",
        "demoted by its share of duplicates",
        later="knowing near-duplicates; the server plays it already",
    ),
    Row(
        31,
        _P,
        "a million links",
        "pages with 100,000 and 1,000,000 links",
        "the first few thousand are taken, the others counted",
    ),
    Row(
        32,
        _P,
        "deep nesting",
        "100,000 open elements of several kinds, links at both ends",
        "no crash; links kept where possible",
    ),
    Row(
        33,
        _P,
        "costly markup",
        "misnested formatting, one attribute of 9 MB, 100,000 attributes, unclosed comments, tags and scripts",
        "read within its time and memory, or given up as this page's failure",
    ),
    Row(
        34,
        _P,
        "charsets",
        "wrong, absent, unknown, contradictory ones; UTF-7, UTF-16, UTF-32, two marks",
        "sniffed by the standard, replaced where wrong; never an exception",
    ),
    Row(
        35,
        _P,
        "control characters",
        "NUL, C0 and C1 controls, surrogates, a letter cut in half",
        "kept in the archive, cleaned in the text",
    ),
    Row(
        36,
        _P,
        "mislabelled types",
        "PDF, PNG, gzip, zip as HTML; HTML as images, octets, text and nothing",
        "the first kilobyte decides; only HTML is parsed",
    ),
    Row(
        37,
        _S,
        "robots.txt fails",
        "5xx, silence, a dribble, resets, refusal, half a file, noise",
        "nothing of that origin is fetched; asked again, then dropped",
    ),
    Row(
        38,
        _S,
        "robots.txt is refused",
        "400, 401, 403, 404, 410, 451; 429 with a short and a long pause",
        "4xx allows all; 429 is a pause, not a permission",
    ),
    Row(
        39,
        _S,
        "odd robots.txt",
        "10 MB, an HTML page, empty, byte-order mark, UTF-16, NULs, only CR, lines of 1 MB",
        "the first 500 KiB are read; rules after junk hold",
    ),
    Row(
        40,
        _S,
        "robots.txt elsewhere",
        "five and six redirects, a loop, another site, ftp:, a private address",
        "five are followed; beyond is as if missing; rules are the first host's",
    ),
    Row(
        41,
        _S,
        "429 and 503",
        "Retry-After in seconds, as a date, past, in ten years, as garbage, absent",
        "the site waits between a second and a day; the URL goes back to its queue",
    ),
    Row(
        42,
        _S,
        "bad certificates",
        "expired, not yet valid, self-signed, for another host, TLS 1.0 only",
        "fetched and recorded, or failed with --verify-tls; never a crash",
    ),
    Row(
        43,
        _S,
        "silence",
        "a TLS handshake that stalls, a request without an answer",
        "given up within the time for it",
    ),
    Row(
        44,
        _S,
        "broken off",
        "reset and end in the body, in a chunk, in the head, before anything",
        "the prefix is kept and marked; retried once",
    ),
    Row(
        45,
        _S,
        "not quite HTTP",
        "no head, odd status lines, folded headers, bare newlines, 1xx without end, noise",
        "lenient or an error, in bounded memory",
    ),
    Row(
        46,
        _S,
        "escapes and forged lines",
        "terminal escapes, CR, bidirectional marks, markup in status line, headers, title, Location",
        "never raw in a log, a terminal or a dashboard",
    ),
    Row(
        47,
        _S,
        "cookies",
        "a wall that wants its cookie back, 10,000 cookies, cookies for a public suffix and another site",
        "no cookie is kept",
    ),
    Row(
        48,
        _P,
        "refresh and base",
        "meta refresh to itself, in pairs, in 10^9 seconds; base to another host, data:, twice",
        "a refresh is a link; the first base counts, if it is http(s)",
    ),
    Row(
        49,
        _S,
        "sitemaps",
        "entities that multiply, indexes of indexes, compressed bombs",
        "no entities, two levels, caps",
        later="sitemaps are not read yet; nothing plays it",
        expected=(Expected.LENGTH, Expected.PARSE),
    ),
    Row(
        50,
        _P,
        "costly patterns",
        "paths of 10^5 letters, hundreds of segments; 50 robots.txt rules of 200 wildcards each",
        "linear time",
    ),
)
