import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.parse.glance import glance

_FORMATTING = re.compile(rb"<(?:b|i|s|u|em|tt|big|code|font|nobr|small|strike|strong)[\t\n\f\r /]", re.IGNORECASE)
_ROOT = re.compile(rb"<(?:html|body)[\t\n\f\r />]", re.IGNORECASE)

_NAMES = "a B i s U em TT big code font nobr Small strike strong html BODY div p li h1 x-y !-- 1"

names = st.sampled_from(_NAMES.split())
tags = st.builds(
    lambda slash, name, rest: f"<{slash}{name}{rest}",
    st.sampled_from(["", "/"]),
    names,
    st.sampled_from([">", " a>", "\n", "/>", "\t", "\f", "\r", "", "\N{LATIN SMALL LETTER E WITH ACUTE}", "<"]),
)
pages = st.lists(tags | st.text(max_size=4), max_size=60).map(lambda parts: "".join(parts).encode() + b"   ")


@given(pages)
def test_no_count_is_too_low_whatever_the_page(page: bytes) -> None:
    seen = glance(page)
    assert seen.tags == page.count(b"<")
    assert seen.tags >= seen.starts >= len(re.findall(rb"<[a-zA-Z]", page))
    assert seen.formatting >= len(_FORMATTING.findall(page))
    assert seen.anchors >= len(re.findall(rb"<[aA][\t\n\f\r />]", page))
    assert set(seen.roots) >= {root.start() for root in _ROOT.finditer(page)}
    assert 0 <= seen.table_depth <= seen.tags


@pytest.mark.parametrize(
    ("markup", "depth"),
    [
        ("<div><span></span><section>x</section></div>" * 50, 2),
        ("</div></div></div><div><div><div>x</div></div></div>", 3),
        ("<ul><li>a<li>b<li>c</ul><p>a<p>b<br><img src=x><hr>" * 20, 1),
        ("<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>b</td></tr></tbody></table>" * 20, 1),
        ("<!-- <!doctype html> < 3 <? <1 <\\/b -->", 1),
        ("<HTML><HEAD><META charset=x><TITLE>t</TITLE></HEAD><BODY><DIV></DIV></BODY></HTML>", 2),
        ("<font color=red><b>" * 300, 600),
        ("<header><head></head></header>" * 9, 2),
    ],
)
def test_the_depth_is_that_of_the_elements_that_stay_open(markup: str, depth: int) -> None:
    page = f"<table></table>{markup}   ".encode()
    assert glance(page).table_depth == depth
    assert glance(page.replace(b"<table>", b"<TEMPLATE>")).table_depth == depth


def test_without_tables_nobody_asks_for_the_depth() -> None:
    assert glance(b"<div><section><tr><td><tt>x   ").table_depth == 0


def test_plain_formatting_with_a_short_name_is_not_counted() -> None:
    assert glance(b"<b>x</b><i>y</i><em>z</em><u >w</u>   ").formatting == 1


@pytest.mark.parametrize("page", [b"", b"<", b"<p", b"<p>", b"plain text"])
def test_what_is_too_short_for_a_tag_has_none(page: bytes) -> None:
    assert glance(page) == (0, 0, 0, 0, [], 0)
