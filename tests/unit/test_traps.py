"""What a path may look like, and which URLs are variants of one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.frontier.traps import PathLimits, path_fingerprint
from gossamer.records import Reason

SEGMENTS = 20
REPEATS = 3
LIMITS = PathLimits(SEGMENTS, REPEATS)


def judged(path: str, limits: PathLimits = LIMITS) -> Reason | None:
    return limits.judge(f"https://example.org{path}")


def numbered(count: int) -> str:
    return "".join(f"/{number}" for number in range(count))


@pytest.mark.parametrize("end", ["", "/", "/.html"])
def test_a_path_has_at_most_so_many_segments(end: str) -> None:
    longest = SEGMENTS - (end == "/.html")
    assert judged(numbered(longest) + end) is None
    assert judged(numbered(longest + 1) + end) is Reason.PATH_DEPTH


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", None),
        ("/a", None),
        ("/a/a/a/", None),
        ("/a/a/a/a", Reason.PATH_REPEATS),
        ("/a/b/a/b/a/b/", None),
        ("/a/b/a/b/a/b/a/b/", Reason.PATH_REPEATS),
        ("/a/x/a/y/a/z/a", Reason.PATH_REPEATS),
        ("/x/y/a/b/c/a/b/c/a/b/c/a/b/c", Reason.PATH_REPEATS),
        ("/a/b/c/d/e/a/b/c/d/e/a/b/c/d/e/", None),
        ("/a/A/a/A/a/A/", None),
        ("/a/aa/aaa/aaaa/aaaaa", None),
        ("/2011/11/11/11-things", None),
        ("/web/2001/http://example.com/", None),
        ("/a//b//c//d", None),
        ("/a//b//c//d//e", Reason.PATH_REPEATS),
        ("///////", Reason.PATH_REPEATS),
    ],
)
def test_one_segment_stands_in_a_path_at_most_so_often_in_a_row_or_not(path: str, reason: Reason | None) -> None:
    assert judged(path) is reason


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=25), st.integers(1, 22), st.integers(1, 6))
def test_the_verdict_is_what_counting_each_segment_says(segments: list[str], most: int, repeats: int) -> None:
    path = "".join(f"/{segment}" for segment in segments) or "/"
    counted = segments[:-1] if segments and not segments[-1] else segments
    is_repeating = any(counted.count(segment) > repeats for segment in counted)
    expected = Reason.PATH_DEPTH if len(counted) > most else Reason.PATH_REPEATS if is_repeating else None
    limits = PathLimits(most, repeats)
    assert judged(path, limits) is expected
    assert expected is None or f"https://example.org{path}".count("/") > limits.harmless_slashes


def test_relative_links_that_nest_come_to_an_end() -> None:
    """Three words that are appended in every order: without a bound there is no end to them."""
    found = {"/"}
    new = found
    while new:
        grown = {path + word for path, word in itertools.product(new, ("a/", "b/", "index.html/"))}
        new = {path for path in grown if judged(path) is None} - found
        found = found | new
    assert max(path.count("/") for path in found) == 1 + 3 * REPEATS
    assert len(found) < 10_000


def test_variants_of_a_path_are_known_by_what_stands_before_their_parameters() -> None:
    variants = ["/shop?a=1", "/shop?a=2;b", "/shop;jsessionid=1", "/shop;jsessionid=2?a=1", "/shop?", "/shop?/x"]
    fingerprints = {path_fingerprint(f"https://example.org{variant}") for variant in variants}
    assert len(fingerprints) == 1
    others = ["https://example.org/shop2?a=1", "https://example.org/?a=1", "https://www.example.org/shop?a=1"]
    assert len({path_fingerprint(url) for url in others} | fingerprints) == 4


def test_a_url_without_parameters_is_a_variant_of_nothing() -> None:
    assert path_fingerprint("https://example.org/shop") == path_fingerprint("https://example.org/") == 0
