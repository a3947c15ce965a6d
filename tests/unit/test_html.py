"""What a page says: links, facts, and what is written away before the parser sees it."""

import msgspec
import pytest

from gossamer.parse.html import MAX_HREF_CHARACTERS, MAX_LINE_CHARACTERS, Facts, Link, LinkKind, extract
from gossamer.parse.taming import MAX_ROOT_ATTRIBUTES, MAX_ROOTS, Taming, tame
from gossamer.url import Url, canonicalise


def url(text: str) -> Url:
    parsed = canonicalise(text)
    assert isinstance(parsed, Url)
    return parsed


PAGE = url("https://www.example.org/a/b.html")


def facts(markup: str, *headers: str) -> Facts:
    return extract(markup, PAGE, with_text=False, x_robots_tag=headers)


def hrefs(markup: str) -> list[str]:
    return [link.href for link in facts(markup).links]


def test_links_come_in_document_order_with_their_kind_and_relations() -> None:
    found = facts(
        "<link rel='Next prefetch' href=n><a href='x' rel='nofollow UGC'>some <b>text</b></a><map><area href=ar></map>"
        "<iframe src=i></iframe><meta http-equiv=refresh content='3; url=r'><a href=last></a>"
    ).links
    assert found == (
        Link("n", LinkKind.LINK, ("next", "prefetch")),
        Link("x", LinkKind.A, ("nofollow", "ugc")),
        Link("ar", LinkKind.AREA),
        Link("i", LinkKind.IFRAME),
        Link("r", LinkKind.META),
        Link("last", LinkKind.A),
    )


def test_frames_are_links() -> None:
    assert hrefs("<frameset><frame src=a><frame src=b></frameset>") == ["a", "b"]


def test_links_in_noscript_templates_and_shadow_roots_are_found() -> None:
    markup = "<noscript><a href=n></a></noscript><template><a href=t></a></template>"
    assert hrefs(markup + "<div><template shadowrootmode=open><a href=s></a></template></div>") == ["n", "t", "s"]


def test_an_href_is_trimmed_and_its_entities_are_decoded_but_it_is_not_resolved() -> None:
    assert hrefs('<a href=" \n../c?x=1&amp;y=2\t">') == ["../c?x=1&y=2"]


def test_empty_links_and_bare_fragments_are_no_links() -> None:
    found = facts("<a>x</a><a href>x</a><a href=' '>x</a><a href='#top'>x</a><a href='p#top'>x</a>")
    assert [link.href for link in found.links] == ["p#top"]
    assert found.links_left_out == 0


@pytest.mark.parametrize(
    ("rel", "followed"),
    [
        ("next", True),
        ("canonical", True),
        ("alternate", True),
        ("ALTERNATE hreflang", True),
        ("alternate stylesheet", False),
        ("stylesheet", False),
        ("prev", False),
        ("", False),
    ],
)
def test_only_next_canonical_and_alternate_link_elements_are_links(rel: str, followed: bool) -> None:
    assert hrefs(f'<link rel="{rel}" href=x>') == (["x"] if followed else [])


def test_links_beyond_the_cap_are_counted() -> None:
    found = extract("<a href=x>x</a>" * 25, PAGE, max_links=10, with_text=False)
    assert (len(found.links), found.links_left_out) == (10, 15)


def test_an_href_too_long_to_be_a_url_is_left_out_and_counted() -> None:
    found = facts(f'<a href="{"x" * (MAX_HREF_CHARACTERS + 1)}">x</a><a href=y>y</a>')
    assert [link.href for link in found.links] == ["y"]
    assert found.links_left_out == 1


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("5; url=/r", "/r"),
        ("0;URL='/r'", "/r"),
        ('0, url = "/r" and more', "/r"),
        ("0 /r", "/r"),
        ("1.5;/r", "/r"),
        (" 0;url=/r?a=1;b=2", "/r?a=1;b=2"),
        ("url=/r", "/r"),
        ("1000000000;url=/r", "/r"),
        ("5", None),
        ("5;", None),
        ("5; url=", None),
        ("never", None),
        ("", None),
    ],
)
def test_a_refresh_is_read_as_browsers_do(content: str, target: str | None) -> None:
    escaped = content.replace('"', "&quot;")
    assert hrefs(f'<meta http-equiv=Refresh content="{escaped}">') == ([] if target is None else [target])


@pytest.mark.parametrize(
    ("head", "base"),
    [
        ("", "https://www.example.org/a/b.html"),
        ("<base href=/c/>", "https://www.example.org/c/"),
        ("<base href=//other.example/>", "https://other.example/"),
        ("<base target=_top><base href=/c/>", "https://www.example.org/c/"),
        ("<base href=/c/><base href=/d/>", "https://www.example.org/c/"),
        ("<base href=data:text/plain,x>", "https://www.example.org/a/b.html"),
        ("<base href=javascript:x><base href=/d/>", "https://www.example.org/a/b.html"),
        (f"<base href=/{'x' * 100_000}>", "https://www.example.org/a/b.html"),
        ("<base href=c/><base href=d/>", "https://www.example.org/a/c/"),
    ],
)
def test_the_first_base_with_an_href_decides_and_only_http_counts(head: str, base: str) -> None:
    assert facts(head).base.text == base


def test_title_description_language_and_canonical_are_read() -> None:
    found = facts(
        "<html lang=de-CH><title> Ein\n Titel &amp; mehr </title><title>zwei</title>"
        "<meta property=og:description content=zweite><meta name=Description content=' erste '>"
        "<link rel=canonical href=' /c '><link rel=canonical href=/d><svg><title>drawn</title></svg>"
    )
    assert (found.title, found.description, found.language) == ("Ein Titel & mehr", "erste", "de-CH")
    assert found.canonical == "/c"


def test_the_open_graph_description_stands_in_and_the_title_of_a_drawing_does_not() -> None:
    found = facts("<svg><title>drawn</title></svg><meta property=og:description content=d>")
    assert (found.title, found.description) == ("", "d")


def test_no_control_character_reaches_a_fact() -> None:
    dirty = "a\x00\x1b[31mb\x85\x9b\x7f\ud800c&#27;d"
    found = extract(
        f"<html lang='{dirty}'><title>{dirty}</title><meta name=description content='{dirty}'>"
        f"<meta name=robots content='{dirty}'><a rel='{dirty}' href=x></a><link rel=canonical href='{dirty}'>"
        f"<p>{dirty}</p>",
        PAGE,
    )
    assert found.links[0].rel == ("a\N{REPLACEMENT CHARACTER}[31mb\N{REPLACEMENT CHARACTER}cd",)
    # What was linked is kept as it was written.
    written = msgspec.json.encode(msgspec.structs.replace(found, links=())).decode()
    assert not [letter for letter in written if ord(letter) < 32 or 127 <= ord(letter) < 160]
    assert "\\u00" not in written
    assert "[31mb" in found.title


def test_a_title_of_a_megabyte_is_cut() -> None:
    assert len(facts(f"<title>{'word ' * 200_000}</title>").title) <= MAX_LINE_CHARACTERS


@pytest.mark.parametrize(
    ("markup", "headers", "directives", "noindex", "nofollow"),
    [
        ("", (), (), False, False),
        ("<meta name=robots content='NoIndex, follow'>", (), ("noindex", "follow"), True, False),
        ("<meta name=ROBOTS content=none>", (), ("none",), True, True),
        ("<meta name=gossamer content=nofollow>", (), ("nofollow",), False, True),
        ("<meta name=googlebot content=noindex>", (), (), False, False),
        (
            "<meta name=robots content=noindex><meta name=robots content=nofollow>",
            (),
            ("noindex", "nofollow"),
            True,
            True,
        ),
        ("", ("noindex", "nofollow"), ("noindex", "nofollow"), True, True),
        ("", ("Gossamer: noindex",), ("noindex",), True, False),
        ("", ("googlebot: noindex, nofollow",), (), False, False),
        ("", ("googlebot: noindex, gossamer: nofollow",), ("nofollow",), False, True),
        ("", ("max-snippet: 5, noindex",), ("max-snippet: 5", "noindex"), True, False),
        (
            "",
            ("unavailable_after: 25 Jun 2010 15:00:00 PST",),
            ("unavailable_after: 25 jun 2010 15:00:00 pst",),
            False,
            False,
        ),
        ("<meta name=robots content=noindex>", ("noindex",), ("noindex",), True, False),
        ("", ("", ",", ":", "googlebot:"), (), False, False),
    ],
)
def test_robots_directives_of_metas_and_headers_are_merged(
    markup: str, headers: tuple[str, ...], directives: tuple[str, ...], noindex: bool, nofollow: bool
) -> None:
    found = facts(markup, *headers)
    assert (found.robots, found.noindex, found.nofollow) == (directives, noindex, nofollow)


def test_text_is_never_computed_when_it_is_not_asked_for() -> None:
    found = facts("<p>text</p>")
    assert (found.text, found.main_text) == (None, None)


def test_a_link_below_a_hundred_thousand_elements_is_found() -> None:
    assert hrefs("<div>" * 100_000 + "<a href=deep>x</a>") == ["deep"]


def listing(rows: int) -> str:
    row = (
        '<tr class="odd"><td><a href="/item/{0}" title="Item {0}">Item <b>{0}</b></a></td><td><i class="icon"></i></td>'
        '<td><font color="#{0:06x}">price</font></td><td><small id="s{0}">{0}</small><br></td></tr>\n'
    )
    return f"<html lang=en><body class=list><table><tbody>{''.join(row.format(i) for i in range(rows))}</tbody></table>"


def encyclopedia(sections: int) -> str:
    section = (
        '<h2 id="s{0}"><span>Section {0}</span></h2>\n<p>The <b>subject</b> of <i>section</i> is <a href="/wiki/{0}" '
        'title="{0}">explained</a><sup id="r{0}"><a href="#n{0}">[{0}]</a></sup> in <code>text</code>.</p>\n<ul><li>one'
        "<li>two <a href='/wiki/x{0}'>more</a></ul>\n<table><tr><th>k<td>v</table>\n"
    )
    return f"<html><body><main>{''.join(section.format(i) for i in range(sections))}</main>"


@pytest.mark.parametrize("markup", [listing(4_000), encyclopedia(3_000)], ids=["listing", "encyclopedia"])
def test_a_real_page_of_a_megabyte_loses_nothing(markup: str) -> None:
    assert 800_000 < len(markup) < 1_200_000
    found = extract(markup, PAGE, max_links=100_000)
    assert len(found.links) == markup.count('href="/') + markup.count("href='/")
    assert found.links_left_out == 0
    # Formatting may be renamed on a page as large as this; nothing may be left unread.
    assert set(found.tamed) <= {Taming.FORMATTING}
    assert found.text is not None
    assert found.text.count(b"explained") == markup.count("explained")
    assert found.text.count(b"price") == markup.count("price")


def test_an_ordinary_page_is_parsed_as_it_is() -> None:
    for markup in (listing(100), encyclopedia(250), "", "plain text", "<p>a<b>b<p>c"):
        assert tame(markup).markup is markup
        assert tame(markup).tamed == ()


def test_formatting_that_would_be_remade_without_end_is_renamed_and_links_and_text_stay() -> None:
    markup = "<p>" + "".join(f"<FONT size={i}>" for i in range(400)) + "<p>some <B>text</B> <a href=x>here</a>" * 9_000
    safe = tame(markup)
    assert safe.tamed == (Taming.FORMATTING,)
    assert "<FONT" not in safe.markup
    found = extract(markup, PAGE, max_links=100_000)
    assert len(found.links) == 9_000
    assert found.text is not None
    assert found.text.count(b"some text here") == 9_000


def test_roots_with_floods_of_attributes_are_renamed_and_the_first_keeps_its_language() -> None:
    few = " ".join(f"a{i}=''" for i in range(MAX_ROOT_ATTRIBUTES - 1))
    many = " ".join(f"b{i}" for i in range(MAX_ROOT_ATTRIBUTES + 1))
    assert tame(f"<html lang=fr {few}><body {few}>").tamed == ()
    assert tame(f"<html lang=fr><body {many}>").markup == f"<html lang=fr><div {many}>"
    assert tame("<body a>" * (MAX_ROOTS + 2)).markup == "<body a>" * MAX_ROOTS + "<div a>" * 2
    assert facts(f"<html lang=fr>x<body {many}><a href=x>").language == "fr"


def test_elements_whose_names_begin_like_those_of_roots_are_left_alone() -> None:
    markup = "<html lang=fr>" + "<body-cell a=1>x</body-cell>" * 4 * MAX_ROOTS
    assert tame(markup).markup == markup
    assert tame(markup).tamed == ()


@pytest.mark.parametrize("hidden", ["<html a{0}>", "<b a{0}>"], ids=["roots", "formatting"])
def test_nothing_is_hidden_in_what_only_looks_like_the_attribute_of_a_root(hidden: str) -> None:
    # The comment ends before the quote does: all that follows are tags.
    markup = "<!--<body x='-->" + "".join(hidden.format(i) for i in range(2_000)) + "<p>x" * 20_000 + "<a href=x>'>"
    safe = tame(markup)
    assert safe.tamed == ((Taming.FORMATTING,) if "<b a" in markup else (Taming.ROOTS,))
    assert safe.markup.count("<html a") < MAX_ROOTS
    assert "<b a" not in safe.markup
    assert hrefs(markup) == ["x"]


def test_a_script_in_the_attribute_of_a_root_does_no_harm() -> None:
    assert tame("<html lang=fr><body onload='if (a < b) c()'>").tamed == ()


def test_formatting_elements_that_are_alike_count_only_as_often_as_they_can_be_open() -> None:
    alike = "<p><i class='icon'></i>text" * 20_000
    assert tame(alike).tamed == ()
    assert tame("".join(f"<p><i class='icon{i}'></i>text" for i in range(20_000))).tamed == (Taming.FORMATTING,)
    # Where a `<` stands in it, the end of a tag is not known.
    assert tame(alike.replace("icon", "a<b")).tamed == (Taming.FORMATTING,)


@pytest.mark.parametrize("tables", [1, 4_000])
def test_tables_below_the_depth_that_the_parser_survives_are_renamed(tables: int) -> None:
    markup = "<div>" * 600 + "<table><tr><td>a<td><a href=x>b</a></table>" * tables
    found = extract(markup, PAGE)
    assert found.tamed == (Taming.TABLES,)
    assert len(found.links) == tables


def test_roots_that_are_renamed_count_as_deep() -> None:
    safe = tame("<body a>" * 600 + "<table><tr><td>a</table>")
    assert safe.tamed == (Taming.ROOTS, Taming.TABLES)


def test_styling_that_the_parser_multiplies_is_not_scored() -> None:
    found = extract('<p><a href=x class="' + "c " * 5_000 + '">' + "<p>x" * 2_000, PAGE)
    assert found.tamed == (Taming.ATTRIBUTES,)
    assert len(found.links) == 2_001
