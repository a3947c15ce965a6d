"""Rows 51 to 63 of the hostile catalogue: what many sites do at once, and what stands behind the crawler."""

from gossamer.testing.web.hostile.row import Player, Row
from gossamer.testing.web.hostile.site import Expected

_S, _P = Player.SERVER, Player.PAGE

CROWD_ROWS = (
    Row(
        51,
        _S,
        "burst",
        "large bodies of many sites that end at the same moment",
        "a segment exceeds its limit by one outcome at most, and the crawl goes on",
    ),
    Row(
        52,
        _S,
        "slow large bodies",
        "most of a large body at once from each of many sites, then a byte per second",
        "bytes in flight stay within the fetcher's budget; those that are too slow are given up",
    ),
    Row(
        53,
        Player.STORE,
        "store stands still",
        "the store's server is stopped for 5, 20 or 60 s under load with large bodies",
        "everything waits, nothing grows beyond its limit, nothing dies",
        expected=(Expected.DONE,),
    ),
    Row(
        54,
        _S,
        "tarpits",
        "slow in the head, in the body and in each request for robots.txt, redirects included",
        "a visit is bounded as a whole, and slow sites get a share of the workers",
    ),
    Row(
        55,
        _S,
        "closed subdomains",
        "many subdomains of one site, each with a robots.txt that closes everything",
        "visits for robots.txt alone are at least a second (or the delay) apart, and ever rarer",
    ),
    Row(
        56,
        _S,
        "robots.txt leads to a victim",
        "robots.txt of many sites redirects to the search of another site, which wants no crawler",
        "exclusions, blocks, the address policy and a gap hold for the target; otherwise robots.txt is unreachable",
    ),
    Row(
        57,
        _P,
        "many sites on one prefix",
        "links to many addresses of one /24, each a site of its own",
        "a gap and a number of visits at once for each /24 or /64",
    ),
    Row(
        58,
        _S,
        "robots.txt bombs",
        "rules of half a megabyte from some hundred bytes, of many sites",
        "pieces, bytes and the cache are bounded; what is long is read off the event loop; the short rules hold",
    ),
    Row(
        59,
        _P,
        "many poison pages",
        "pages of several sites that crash the HTML parser",
        "each costs once, over restarts too; the pages around it are committed",
    ),
    Row(
        60,
        _P,
        "pattern of a user",
        "links at which a pattern such as `/([a-z]+/?)+\\.pdf$` tries every way to divide the letters",
        "judged in linear time, or the pattern is refused at the start",
    ),
    Row(
        61,
        _S,
        "one host asks for silence",
        "Retry-After of a day and a Crawl-delay of 301 s at one host of a domain, neighbours that ask for nothing",
        "kept with the origin: the neighbours are fetched",
    ),
    Row(
        62,
        _P,
        "long base",
        "6,000 short links under a base of 1,900 characters, compressed to some kilobytes",
        "the bytes that are queued are bounded for each page and each site",
    ),
    Row(
        63,
        _P,
        "farm of sites",
        "every site names three new ones",
        "sites are leased in the order in which they became due, so no older one starves",
    ),
)
