"""The visible text of a page and its article."""

from gossamer.parse.html import extract
from gossamer.parse.text import clean, encoded
from gossamer.url import Url, canonicalise

PROSE = "Loose-leaf tea steeps best just off the boil, they say, and whoever has tried it both ways tends to agree. "


def both(markup: str) -> tuple[str, str]:
    page = canonicalise("https://www.example.org/")
    assert isinstance(page, Url)
    found = extract(markup, page)
    assert found.text is not None
    assert found.main_text is not None
    return found.text.decode(), found.main_text.decode()


def lines(markup: str) -> list[str]:
    return [line for line in both(markup)[0].split("\n") if line]


def test_blocks_are_lines_and_white_space_is_collapsed() -> None:
    markup = "<h1>One</h1><div>two  \n\t words<div>three</div></div><p>four<br>five<section>six</section>"
    assert lines(markup) == ["One", "two words", "three", "four", "five", "six"]


def test_inline_elements_do_not_break_words() -> None:
    assert lines("<p>in<b>di</b>vis<span>i</span>ble <i>word</i>") == ["indivisible word"]


def test_what_a_reader_does_not_see_is_left_out() -> None:
    markup = (
        "<title>t</title><p>a</p><script>s</script><style>c</style><template>t</template><noscript>n</noscript>"
        "<!-- c --><iframe>i</iframe><select><option>o</select><textarea>x</textarea><p>b</p>"
    )
    assert lines(markup) == ["a", "b"]


def test_a_table_gives_a_line_for_each_row_without_padding() -> None:
    markup = "<table><caption>Cap</caption><tr><th>k</th><th>value</th></tr><tr><td>long key</td><td>v</td></table>"
    assert [line.strip() for line in lines(markup)] == ["Cap", "k value", "long key v"]


def test_cells_are_kept_apart_whatever_is_in_them() -> None:
    markup = (
        "<table><tr><td>a</td><td>b<i>c</i>d</td><td></td> <td>e<!-- -->f</td><td> g </td></tr>"
        "<tr><td>h<td>i<table><tr><td>j<td>k</table>l<td>m</table>"
    )
    assert lines(markup) == ["a bcd ef g", "h i", "j k l m"]


def test_a_script_between_cells_is_left_out() -> None:
    assert lines("<table><tr><script>s</script><td>a</td><style>t</style><td>b</td></table>") == ["a b"]


def test_lists_and_quotations_are_not_decorated() -> None:
    markup = "<ul><li>a<ol><li>b</ol></ul><blockquote>q<blockquote>r</blockquote></blockquote>"
    assert lines(markup) == ["a", "b", "q", "r"]


def test_the_article_is_found_and_stands_in_the_plain_text_once_at_its_place() -> None:
    plain, main = both(
        "<nav><a href=/>Home</a> <a href=/x>News</a></nav><div><article><h1>Tea</h1>"
        f"<p>{PROSE}</p><p>{PROSE}</p></article></div><footer>Imprint</footer>"
    )
    assert main.startswith("Tea\n")
    assert main.count(PROSE.strip()) == 2
    assert "Home" not in main
    assert "Imprint" not in main
    assert plain.count(PROSE.strip()) == 2
    assert plain.index("Home") < plain.index(main) < plain.index("Imprint")


def test_a_page_that_is_all_article_keeps_all_its_text() -> None:
    plain, main = both(f"<body><p>{PROSE}<p>{PROSE}<p>{PROSE}")
    assert plain.count(PROSE.strip()) == 3
    assert main.count(PROSE.strip()) == 3


def test_a_page_without_an_article_has_no_main_text() -> None:
    assert both("<p>short") == ("short", "")
    assert both("") == ("", "")


def test_an_article_in_a_table_cell_is_found() -> None:
    plain, main = both(f"<table><tr><td>menu<td><p>{PROSE}</p><p>{PROSE}</p></table>")
    assert main.count(PROSE.strip()) == 2
    assert "menu" in plain


def test_control_characters_are_removed_and_lone_surrogates_replaced() -> None:
    assert clean("a\x00b\x1b[0mc\x7f\x85\x9fd\te\nf\u00a0ä") == "ab[0mcd\te\nf\u00a0ä"
    assert clean("a\ud800b\x01") == "a\N{REPLACEMENT CHARACTER}b"


def test_clean_text_comes_back_as_it_is() -> None:
    text = "Zürich, 東京 and \U0001f600\n"
    assert clean(text) == text
    assert encoded(text) == text.encode()
