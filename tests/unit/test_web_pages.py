"""The bytes of simulated pages: valid in every encoding, sized as the web's are, with the links of the graph."""

import gzip
import re
import statistics

import brotli  # type: ignore[import-untyped]  # the wheel ships no stubs
import msgspec
import pytest
from selectolax.lexbor import LexborHTMLParser

from gossamer.config import Settings
from gossamer.parse.page import read_page
from gossamer.testing.web.graph import Web
from gossamer.testing.web.pages import FILES, Pages, accepted_encoding, sitemap
from gossamer.testing.web.sites import FILE_TYPES
from gossamer.url import Url, canonicalise

WEB = Web(seed=5, sites=8, pages=24, median_bytes=12_000, multi_host_share=0.5)
PAGES = Pages(WEB)


def places() -> list[tuple[int, int]]:
    return [(index, number) for index in range(WEB.sites) for number in range(WEB.site(index).open_pages)]


def charset(headers: str, body: bytes) -> str:
    named = re.search(r"charset=([\w-]+)", headers) or re.search(
        r'<meta charset="([\w-]+)"', body[:500].decode("latin-1")
    )
    assert named
    return {"iso-8859-1": "cp1252"}.get(named[1], named[1])


def test_each_encoding_gives_the_same_page() -> None:
    for index, number in places():
        site = WEB.site(index)
        plain = PAGES.page(site, number, {})[1]
        headers, zipped = PAGES.page(site, number, {"accept-encoding": "gzip"})
        assert "Content-Encoding: gzip\r\n" in headers
        assert gzip.decompress(zipped) == plain
        headers, squeezed = PAGES.page(site, number, {"accept-encoding": "gzip, br"})
        assert "Content-Encoding: br\r\n" in headers
        assert brotli.decompress(squeezed) == plain
        assert len(zipped) < len(plain)


def test_own_parts_longer_than_a_brotli_block_are_split() -> None:
    web = Web(links_per_page=3_000, median_bytes=12_000)
    plain = Pages(web).page(web.site(0), 1, {})[1]
    squeezed = Pages(web).page(web.site(0), 1, {"accept-encoding": "br"})[1]
    assert len(plain) > 150_000
    assert brotli.decompress(squeezed) == plain


def test_a_third_party_parser_finds_the_links_of_the_graph_in_their_order() -> None:
    charsets = set()
    for index, number in places():
        site = WEB.site(index)
        headers, body = PAGES.page(site, number, {})
        label = charset(headers, body)
        charsets.add(label)
        tree = LexborHTMLParser(body.decode(label))
        found = [anchor.attributes["href"] for anchor in tree.css("a[href]")]
        # Parsers leave white space around a value alone, as the standard has it.
        assert found == [link.href for link in WEB.links(site.url(number))]
    assert charsets == {"utf-8", "cp1252", "windows-1252", "shift_jis", "utf-16"}


def test_the_crawlers_own_parser_finds_every_candidate() -> None:
    for index, number in places()[::5]:
        url = canonicalise(WEB.site(index).url(number))
        assert isinstance(url, Url)
        headers, body = PAGES.page(WEB.site(index), number, {"accept-encoding": "gzip"})
        content_type = re.search(r"Content-Type: (.*)\r\n", headers)
        assert content_type
        page = read_page(body, url, Settings().parse, content_type=content_type[1], content_encoding="gzip")
        found = {canonicalise(link.href, page.facts.base) for link in page.facts.links}
        wanted = {link.target for link in WEB.links(url.text) if link.target not in {None, url.text}}
        assert wanted <= {one.text for one in found if isinstance(one, Url)}
        assert not page.text.lossy
        assert page.facts.title


def test_sizes_are_log_normal_with_the_median_and_mean_of_the_web() -> None:
    web = Web(sites=300, pages=10)
    pages = Pages(web)
    sizes = [len(pages.page(web.site(index), number, {})[1]) for index in range(300) for number in range(4)]
    assert 50_000 < statistics.median(sizes) < 70_000
    assert 100_000 < statistics.mean(sizes) < 140_000
    # The links stand at the end, and a crawler may read the first MiB only.
    assert max(sizes) < 1 << 20


def test_pages_differ_even_where_they_share_their_filler() -> None:
    bodies = {PAGES.page(WEB.site(index), number, {})[1] for index, number in places()}
    assert len(bodies) == len(places())


def test_a_client_that_has_the_page_is_told_so() -> None:
    headers, body = PAGES.page(WEB.site(0), 3, {})
    tag = re.search(r"ETag: (.*)\r\n", headers)
    date = re.search(r"Last-Modified: (.*)\r\n", headers)
    assert tag
    assert date
    assert body
    assert PAGES.page(WEB.site(0), 3, {"if-none-match": tag[1]})[1] == b""
    assert PAGES.page(WEB.site(0), 3, {"if-modified-since": date[1]})[1] == b""
    assert PAGES.page(WEB.site(0), 3, {"if-none-match": '"other"', "if-modified-since": date[1]})[1] == body


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", ""),
        ("gzip, deflate", "gzip"),
        ("gzip, deflate, br, zstd", "br"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("*", "br"),
        ("gzip;q=0", ""),
        ("identity", ""),
    ],
)
def test_the_encoding_is_one_that_the_client_accepts(header: str, encoding: str) -> None:
    assert accepted_encoding(header) == encoding


def test_a_web_sends_only_the_encodings_that_it_has() -> None:
    pages = Pages(msgspec.structs.replace(WEB, encodings=("gzip",)))
    headers, body = pages.page(WEB.site(0), 3, {"accept-encoding": "br, gzip"})
    assert "Content-Encoding: gzip\r\n" in headers
    assert pages.page(WEB.site(0), 3, {"accept-encoding": "br"})[1] == gzip.decompress(body)


def test_a_sitemap_lists_only_what_links_lead_to() -> None:
    reached = WEB.reachable(WEB.seeds())
    site = next(site for site in map(WEB.site, range(8)) if site.has_sitemap and WEB.is_allowed(WEB.home(site.index)))
    listed = re.findall(r"<loc>(.*?)</loc>", sitemap(site).decode().replace("&amp;", "&"))
    assert len(listed) > 5
    assert set(listed) <= reached


def test_every_type_of_file_has_a_body() -> None:
    assert set(FILES) == {suffix for suffix, _ in FILE_TYPES}
