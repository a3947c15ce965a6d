"""CPU time of the pure pieces, least of several interleaved rounds: `python -m benchmarks.vocabulary [--rounds N]`."""

import argparse
import gzip
import platform
import re
import time
from collections.abc import Callable
from html import unescape

from benchmarks.vocabulary.pages import page
from gossamer.fetch import robots
from gossamer.parse.charset import decode_text
from gossamer.parse.decode import decode_body
from gossamer.parse.html import extract
from gossamer.url import Url, canonicalise

PAGES = [page(seed) for seed in range(20)]
HREF = re.compile(r'<a [^>]*href="([^"]*)"')


class Measure:
    """One line of the table: a piece of work, how many units it does, and what a unit may cost at most (0: no aim)."""

    def __init__(self, name: str, aim_microseconds: int, units: int, work: Callable[[], object]) -> None:
        self.name = name
        self.aim = aim_microseconds
        self.units = units
        self.work = work
        self.least = float("inf")

    def run(self) -> None:
        began = time.process_time()
        self.work()
        self.least = min(self.least, (time.process_time() - began) * 1e6 / self.units)


def robots_file(lines: int) -> bytes:
    """Two groups, half of the rules with a wildcard, as many files of shops and forums have them."""
    rules = ["User-agent: *", "Crawl-delay: 2"]
    for number in range((lines - 4) // 2):
        rules += [f"Disallow: /section-{number}/private/", f"Allow: /section-{number}/*/public$"]
    return "\n".join([*rules, "User-agent: Other", "Disallow: /"]).encode()


def measures() -> list[Measure]:
    found = canonicalise("https://www.example.co.uk/news/2026/page.html")
    assert isinstance(found, Url)
    base = found
    links = [[unescape(href) for href in HREF.findall(text)][:100] for text in PAGES]
    compressed = [gzip.compress(text.encode()) for text in PAGES]
    file = robots_file(100)
    rules = robots.parse(file).for_agent("Gossamer")
    urls = [f"https://example.com/section-{number}/a/b?c=%7Ed" for number in range(200)]
    count = len(PAGES)
    return [
        Measure(
            "resolve, canonicalise, fingerprint, site: 100 links",
            250,
            count,
            lambda: [canonicalise(link, base) for page_links in links for link in page_links],
        ),
        Measure(
            "gunzip and decode a 100 KB page",
            0,
            count,
            lambda: [decode_text(decode_body(body, "gzip", 10 << 20).data, None) for body in compressed],
        ),
        Measure(
            "parse, links, facts: 100 KB page", 600, count, lambda: [extract(t, base, with_text=False) for t in PAGES]
        ),
        Measure("the same with plain and main text", 900, count, lambda: [extract(t, base) for t in PAGES]),
        Measure(
            "robots.txt of 100 lines: parse",
            600,
            20,
            lambda: [robots.parse(file).for_agent("Gossamer") for _ in range(20)],
        ),
        Measure("robots.txt of 100 lines: one match", 15, len(urls), lambda: [rules.verdict(url) for url in urls]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    table = measures()
    for _ in range(parser.parse_args().rounds):
        for measure in table:
            measure.run()
    size = sum(len(text.encode()) for text in PAGES) // len(PAGES)
    print(f"CPython {platform.python_version()}, {len(PAGES)} pages of {size:,} bytes on average\n")
    print(f"{'CPU µs (user + system), least of the rounds':<54}{'found':>8}{'aim':>8}")
    for measure in table:
        print(f"{measure.name:<54}{measure.least:>8.1f}{measure.aim or '—':>8}")


if __name__ == "__main__":
    main()
