"""Links and redirects become candidates, or are counted by why not."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.config import ScopeSettings, UrlSettings
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.frontier.refused_links import RefusedLinks
from gossamer.frontier.traps import path_fingerprint
from gossamer.parse.candidates import Candidates, Recent
from gossamer.parse.html import Link, LinkKind
from gossamer.records import Answer, Candidate, Lease, Reason
from gossamer.url import Refusal, Url, canonicalise, stable_hash
from tests.unit.test_url import REFERENCES, URLS


def url(text: str) -> Url:
    found = canonicalise(text)
    assert isinstance(found, Url)
    return found


PAGE = url("http://www.a.test/dir/page.html")


def lease(at: Url = PAGE, *, depth: int = 3, hops: int = 2, is_seed: bool = False) -> Lease:
    return Lease(1, 0, 1, at.text, at.site, at.fingerprint, depth, hops, is_seed, 0, 0)


def link(href: str, *rel: str) -> Link:
    return Link(href, LinkKind.A, rel)


def candidates(scope: ScopeSettings | None = None, *, max_link_bytes: int = 1 << 20) -> Candidates:
    rules = AdmissionRules(scope or ScopeSettings(), Exclusions())
    return Candidates(rules, UrlSettings(), max_link_bytes, RefusedLinks())


def offered(source: Candidates, *links: Link, base: Url = PAGE, nofollow: bool = False) -> list[Candidate]:
    offer: dict[int, Candidate] = {}
    source.add_links(offer, lease(), base, links, nofollow=nofollow)
    return list(offer.values())


def test_a_link_is_a_candidate_one_level_deeper_without_hops() -> None:
    target = url("http://www.a.test/dir/next")
    assert offered(candidates(), link("next")) == [
        Candidate(target.text, "a.test", target.fingerprint, depth=4, via=PAGE.text)
    ]


def test_a_link_says_of_which_path_it_is_a_variant() -> None:
    found = offered(candidates(), link("list?page=1"), link("list?page=2"), link("list"))
    paths = [candidate.path_fingerprint for candidate in found]
    assert paths == [path_fingerprint("http://www.a.test/dir/list?")] * 2 + [0]


def test_the_urls_of_one_page_take_no_more_bytes_than_they_may() -> None:
    """Those that are not offered, because they are known or refused, take none; and the next page has all again."""
    source = candidates(max_link_bytes=3 * len("http://www.a.test/dir/1234"))
    known = [*offered(source, link("known"))]
    source.answered(known, [Reason.NEW])
    long = "x" * 1_000
    links = [link(href) for href in ("known", "mailto:x", f"{long}.zip", "1111", "2222", "22222", long, "3333", "4")]
    assert [one.url[-4:] for one in offered(source, *links)] == ["1111", "2222", "3333"]
    assert source.refused[Reason.LINK_BYTES] == 3
    assert [one.url[-4:] for one in offered(source, link("5555"))] == ["5555"]
    assert source.refused[Reason.LINK_BYTES] == 3


def test_links_are_resolved_against_the_base() -> None:
    found = offered(candidates(), link("next"), base=url("https://b.test/x/"))
    assert [candidate.url for candidate in found] == ["https://b.test/x/next"]


def test_a_url_is_offered_once_however_it_is_written() -> None:
    found = offered(candidates(), link("/x"), link("/x"), link("/x#part"), link("HTTP://WWW.A.TEST:80/x"))
    assert [candidate.url for candidate in found] == ["http://www.a.test/x"]


def test_the_pages_of_one_offer_share_its_links() -> None:
    source = candidates()
    offer: dict[int, Candidate] = {}
    source.add_links(offer, lease(depth=1), PAGE, [link("/x")], nofollow=False)
    source.add_links(offer, lease(depth=5), PAGE, [link("/x"), link("/y")], nofollow=False)
    assert [(found.url, found.depth) for found in offer.values()] == [
        ("http://www.a.test/x", 2),
        ("http://www.a.test/y", 6),
    ]


def test_links_of_a_nofollow_page_are_left_alone_and_counted() -> None:
    source = candidates()
    assert offered(source, link("/x"), link("/y"), nofollow=True) == []
    assert source.nofollow == 2


def test_a_nofollow_link_is_left_alone_and_counted() -> None:
    source = candidates()
    assert [found.url for found in offered(source, link("/x", "external", "nofollow"), link("/y", "external"))] == [
        "http://www.a.test/y"
    ]
    assert source.nofollow == 1


def test_what_is_not_offered_is_counted_by_its_reason() -> None:
    source = candidates(ScopeSettings(exclude=("/private/",)))
    links = (link("mailto:x@a.test"), link("http://["), link("/" + "x" * 3000), link("/photo.jpg"), link("/private/x"))
    assert offered(source, *links) == []
    assert source.refused == {
        Reason.SCHEME: 1,
        Reason.NOT_A_URL: 1,
        Reason.TOO_LONG: 1,
        Reason.EXTENSION: 1,
        Reason.EXCLUDED: 1,
    }


def test_links_beyond_the_depth_are_refused() -> None:
    source = candidates(ScopeSettings(max_depth=3))
    assert offered(source, link("/x")) == []
    assert source.refused == {Reason.DEPTH: 1}


def test_what_the_store_knows_is_not_offered_again() -> None:
    source = candidates()
    found = offered(source, link("/new"), link("/seen"))
    source.answered(found, [Reason.NEW, Reason.SEEN])
    assert [again.url for again in offered(source, link("/new"), link("/seen"), link("/z"))] == ["http://www.a.test/z"]
    assert source.refused == {}


def test_an_offer_without_an_answer_is_made_again() -> None:
    source = candidates()
    assert offered(source, link("/x")) == offered(source, link("/x")) != []


def test_what_the_store_refused_is_offered_again_and_counted() -> None:
    source = candidates()
    found = offered(source, link("/full"), link("/out"))
    source.answered(found, [Reason.QUEUE_FULL, Reason.SCOPE])
    assert offered(source, link("/full"), link("/out")) == found
    assert source.refused == {Reason.QUEUE_FULL: 1, Reason.SCOPE: 1}


def test_a_redirect_keeps_depth_and_seed_goes_one_hop_on_and_stands_at_the_head() -> None:
    target = url("http://b.test/there?x=1")
    for is_seed in (False, True):
        assert candidates().of_redirect(lease(is_seed=is_seed), "//b.test/there?x=1#y") == [
            Candidate(
                target.text,
                "b.test",
                target.fingerprint,
                depth=3,
                hops=3,
                is_seed=is_seed,
                at_head=True,
                path_fingerprint=path_fingerprint(target.text),
                via=PAGE.text,
            )
        ]


def test_a_redirect_to_a_known_url_is_offered_still() -> None:
    source = candidates()
    source.answered(offered(source, link("/x")), [Reason.NEW])
    assert len(source.of_redirect(lease(is_seed=True), "/x")) == 1


def test_a_redirect_beyond_the_hops_is_refused() -> None:
    source = candidates(ScopeSettings(max_hops=2))
    assert source.of_redirect(lease(), "/x") == []
    assert source.refused == {Reason.HOPS: 1}


def test_a_redirect_to_nowhere_is_no_candidate() -> None:
    source = candidates()
    assert source.of_redirect(lease(), None) == []
    assert source.of_redirect(lease(), "javascript:void(0)") == []
    assert source.refused == {Reason.SCHEME: 1}


def test_letters_of_a_location_are_utf_8_or_else_single_bytes() -> None:
    for location in ("/ü".encode(), b"/\xfc"):
        answer = Answer("http://www.a.test/", 0.0, b"", b"", 301, ((b"Location", location),), b"")
        assert candidates().of_redirect(lease(), answer.location)[0].url == "http://www.a.test/%C3%BC"


BASES = st.sampled_from(
    [
        PAGE,
        url("https://b.test:8443/x/y?z"),
        url("http://[::1]/"),
        url("http://127.0.0.1/%7B//a"),
        url("http://a.test/"),
    ]
)


@given(BASES, st.lists(REFERENCES | URLS, max_size=4), st.data())
def test_what_is_offered_is_what_reading_every_reference_says(
    base: Url, references: list[str], data: st.DataObject
) -> None:
    """However a link is written, and whether or not it is found out at a glance."""
    source = candidates(ScopeSettings(skip_extensions=""))
    references = [reference.strip() for reference in references if reference.strip()]
    read = [canonicalise(reference, base) for reference in references]
    urls = {found.text: found for found in read if isinstance(found, Url)}
    known = data.draw(st.sets(st.sampled_from(sorted(urls)))) if urls else set()
    source.answered(
        [Candidate(text, urls[text].site, urls[text].fingerprint) for text in known], [Reason.SEEN] * len(known)
    )
    found = offered(source, *map(link, references), base=base)
    traps = source.refused[Reason.PATH_DEPTH] + source.refused[Reason.PATH_REPEATS]
    refusals = sum(isinstance(one, Refusal) for one in dict(zip(references, read, strict=True)).values())
    assert source.refused.total() - traps == refusals
    assert len(found) + traps == len(urls.keys() - known)
    for candidate in found:
        named = urls[candidate.url]
        assert (candidate.site, candidate.fingerprint) == (named.site, named.fingerprint)
        assert candidate.url not in known


def test_only_what_was_told_is_recent_and_the_last_told_is() -> None:
    recent = Recent(places=8)
    assert not any(fingerprint in recent for fingerprint in (0, 1, 8, 2**64 - 1))
    recent.update([0, 3, 2**64 - 1])
    assert all(fingerprint in recent for fingerprint in (0, 3, 2**64 - 1))
    assert not any(fingerprint in recent for fingerprint in (8, 11, 2**64 - 9))


def test_a_fingerprint_is_recent_until_another_one_wants_its_place() -> None:
    recent = Recent(places=8)
    recent.update([3, 4])
    recent.update([11, 3 + 2**63])
    assert [fingerprint in recent for fingerprint in (3, 4, 11, 3 + 2**63)] == [False, True, False, True]


def test_most_of_the_last_hundred_thousands_of_fingerprints_are_recent() -> None:
    recent = Recent()
    fingerprints = [stable_hash(str(number)) for number in range(200_000)]
    recent.update(fingerprints)
    assert sum(fingerprint in recent for fingerprint in fingerprints) > 180_000
