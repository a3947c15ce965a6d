"""The charset decision and the decoding: whose word counts, what is guessed, and that nothing raises."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.parse.charset import LATE_META_BYTES, PRESCAN_BYTES, Text, decode_text, encoding_for_label, prescan

RUSSIAN = "Добро пожаловать на наш сайт. Здесь вы найдёте новости и фотографии нашего города."

#: A sentence in each encoding that pages still come in, undeclared.
SENTENCES = {
    "windows-1251": RUSSIAN,
    "KOI8-R": RUSSIAN,
    "Shift_JIS": "ようこそ。このページは日本語で書かれています。新しいお知らせをご覧ください。",
    "EUC-JP": "ようこそ。このページは日本語で書かれています。新しいお知らせをご覧ください。",
    "ISO-2022-JP": "ようこそ。このページは日本語で書かれています。新しいお知らせをご覧ください。",
    "GBK": "欢迎来到我们的网站。这里有最新的新闻和文章，请您阅读。",
    "Big5": "歡迎來到我們的網站。這裡有最新的新聞和文章，請您閱讀。",
    "EUC-KR": "우리 홈페이지에 오신 것을 환영합니다. 새로운 소식과 기사를 읽어 보세요.",
    "windows-1252": "Bienvenue sur notre site. Vous trouverez ici des articles très intéressants de l'été à la côte.",
    "ISO-8859-2": "Witamy na naszej stronie. Znajdą tu Państwo wiadomości, artykuły i zdjęcia z życia miasta.",
    "windows-1250": "Vítejte na našich stránkách. Najdete zde zprávy a články, příští týden bude šťastný.",
    "windows-1253": "Καλώς ήρθατε στην ιστοσελίδα μας. Εδώ θα βρείτε νέα, άρθρα και φωτογραφίες.",
    "windows-1254": "Sitemize hoş geldiniz. Burada şehrimizin haberlerini ve fotoğraflarını bulabilirsiniz.",
    "windows-1255": "ברוכים הבאים לאתר שלנו. כאן תמצאו חדשות, מאמרים ותמונות של העיר.",
    "windows-1256": "مرحبا بكم في موقعنا. هنا تجدون الأخبار والمقالات والصور عن مدينتنا.",
}


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("text/html; charset=utf-8", "UTF-8"),
        ("text/html;charset=UTF8", "UTF-8"),
        ('text/html; charset="windows-1251"', "windows-1251"),
        ("text/html; charset='koi8-r'; x=y", "KOI8-R"),
        ("text/html; Charset = latin1", "windows-1252"),
        ("text/html; charset=iso_8859-2:1987", "ISO-8859-2"),
        ("text/html charset=big5", "Big5"),
        ("text/html, text/html; charset=gb2312", "GBK"),
        ("charset=utf-16", "UTF-16LE"),
        ('text/html; charset="utf-8', "UTF-8"),
        ("text/html; charset=utf-8; charset=koi8-r", "UTF-8"),
    ],
)
def test_the_headers_charset_is_found_however_it_is_written(content_type: str, encoding: str) -> None:
    page = decode_text(b"<meta charset=euc-kr><p>text", content_type)
    assert (page.encoding, page.source) == (encoding, "header")


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/html", "text/html; charset=", "text/html; charset=none", "text/html; nocharset=utf-8", "\udcff"],
)
def test_a_header_without_a_known_charset_leaves_the_word_to_the_page(content_type: str | None) -> None:
    page = decode_text(b"<meta charset=euc-kr><p>text", content_type)
    assert (page.encoding, page.source) == ("EUC-KR", "meta")


def test_a_byte_order_mark_outranks_header_and_meta() -> None:
    page = decode_text(b"\xef\xbb\xbf<meta charset=koi8-r>\xd0\x96", "text/html; charset=koi8-r")
    assert page == Text("<meta charset=koi8-r>Ж", "UTF-8", "bom")


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b'<meta charset="utf-8">', "UTF-8"),
        (b"<META CHARSET = KOI8-R />", "KOI8-R"),
        (b"<meta/charset=big5>", "Big5"),
        (b'<meta http-equiv=content-type content="text/html; charset=euc-jp">', "EUC-JP"),
        (b"<meta content='text/html; charset = \"gbk\"' HTTP-EQUIV='Content-Type'>", "GBK"),
        (b"<meta charset=utf-16be>", "UTF-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<meta charset=hz-gb-2312>", "replacement"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=utf-8>", "UTF-8"),
        (b"<!--><meta charset=koi8-r> --><meta charset=utf-8>", "KOI8-R"),
        (b"<a title='<meta charset=koi8-r>'><meta charset=utf-8>", "UTF-8"),
        (b"<? <meta charset=koi8-r><meta charset=utf-8>", "UTF-8"),
        (b"<meta charset=utf-8 charset=koi8-r>", "UTF-8"),
        (b"<meta charset=nonsense><meta charset=koi8-r>", "KOI8-R"),
        (b'<?xml version="1.0" encoding="windows-1251"?><html>', "windows-1251"),
        (b'<?xml version="1.0" encoding="utf-16"?><html>', "UTF-8"),
        (b'<?xml version="1.0" encoding="koi8-r"?><meta charset=euc-kr>', "EUC-KR"),
        ("<?xml".encode("utf-16-le"), "UTF-16LE"),
        ("<?xml".encode("utf-16-be"), "UTF-16BE"),
        (b"<meta charset=koi8-r", None),
        (b"<meta charset='koi8-r>", None),
        (b"<!-- <meta charset=koi8-r>", None),
        (b"<meta content='text/html; charset=koi8-r'>", None),
        (b"<metacharset=koi8-r>", None),
        (b"</meta charset=koi8-r>", None),
        (b"<meta name=charset content=koi8-r>", None),
        (b"charset=koi8-r", None),
        (b"", None),
    ],
)
def test_the_prescan_reads_declarations_as_the_standard_does(head: bytes, encoding: str | None) -> None:
    assert prescan(head) == encoding


def test_the_prescan_is_over_after_its_kilobyte_when_the_page_is_utf_8() -> None:
    page = decode_text("Ж".encode() + b" " * PRESCAN_BYTES + b"<meta charset=koi8-r>", None)
    assert (page.encoding, page.source, page.text[0]) == ("UTF-8", "detected", "Ж")


def test_a_late_meta_counts_when_the_bytes_are_not_utf_8() -> None:
    data = RUSSIAN.encode("koi8-r") + b" " * PRESCAN_BYTES + b"<meta charset=koi8-r>"
    page = decode_text(data, None)
    assert (page.encoding, page.source) == ("KOI8-R", "meta")
    assert page.text.startswith(RUSSIAN)


def test_an_undeclared_utf_8_page_is_found_wherever_its_first_letter_stands() -> None:
    text = "<p>plain</p>" * 20_000 + "Ж"
    assert decode_text(text.encode(), "text/html") == Text(text, "UTF-8", "detected")


def test_a_few_broken_letters_do_not_make_a_utf_8_page_another() -> None:
    data = RUSSIAN.encode() * 20 + b"\xd0<p>" + RUSSIAN.encode() * 20
    page = decode_text(data, None)
    assert (page.encoding, page.source, page.lossy) == ("UTF-8", "detected", True)
    assert page.text.count("\ufffd") == 1


def test_a_utf_8_page_cut_within_its_last_letter_is_still_utf_8() -> None:
    page = decode_text(RUSSIAN.encode() * 3 + b"\xd0", None)
    assert (page.encoding, page.text.count("\ufffd"), page.lossy) == ("UTF-8", 1, True)


def test_a_byte_order_mark_in_mid_page_does_not_decide_a_guess() -> None:
    for shift in range(20):
        data = b"<p>" * 10 + b"\xef\xbb\xbf" + b"x" * shift + RUSSIAN.encode("windows-1251")
        page = decode_text(data, None)
        assert (shift, page.encoding, page.source) == (shift, "windows-1251", "detected")


def test_a_plain_ascii_page_is_windows_1252_by_default() -> None:
    assert decode_text(b"<p>plain</p>", None) == Text("<p>plain</p>", "windows-1252", "default")
    assert decode_text(b"", None) == Text("", "windows-1252", "default")


def test_undeclared_legacy_pages_are_read_right() -> None:
    wrong = []
    for encoding, sentence in SENTENCES.items():
        for repeats in (1, 200):
            # The detector judges a bounded part, which must not end within a letter: the odd byte shifts its end.
            data = b"<html><script>var x;</script>" * 100 + f"{sentence}a".encode(encoding) * repeats
            page = decode_text(data, None)
            if sentence not in page.text or page.lossy or page.source != "detected":
                wrong.append((encoding, repeats, page.encoding, page.source))
    assert wrong == []


def test_a_guess_survives_a_part_that_ends_within_a_letter() -> None:
    wrong = []
    for encoding in ("Shift_JIS", "EUC-JP", "ISO-2022-JP", "GBK", "Big5", "EUC-KR"):
        sentence = SENTENCES[encoding].replace(" ", "")
        whole = (sentence * 100).encode(encoding)
        for data in (whole, b"x" + whole, whole[:-1], whole[:301], whole[:302]):
            page = decode_text(data, None)
            if sentence not in page.text:
                wrong.append((encoding, len(data), page.encoding, page.source))
    assert wrong == []


def test_a_declared_page_with_bad_bytes_is_lossy_and_whole() -> None:
    assert decode_text(b"a\xffb", "text/html; charset=utf-8") == Text("a\ufffdb", "UTF-8", "header", lossy=True)
    assert decode_text(b"a\x80\xffb", "text/html; charset=big5").lossy
    assert not decode_text(b"a\xe9b", "text/html; charset=latin1").lossy


def test_a_replacement_character_that_was_sent_is_no_loss() -> None:
    assert not decode_text("a\ufffdb".encode(), "text/html; charset=utf-8").lossy


@pytest.mark.parametrize(
    "label", ["", " ", "utf-32", "utf_8", "latin-1", "utf-8\x00", "\x0butf-8", "\u212aoi8-r", "\udc80", "hex"]
)
def test_a_label_that_only_python_or_nobody_knows_is_none(label: str) -> None:
    assert encoding_for_label(label) is None


def test_a_page_made_to_be_searched_for_ever_is_not() -> None:
    pages = [
        unit * (LATE_META_BYTES * 4 // len(unit)) + b"\xe9"
        for unit in (
            b"<meta ",
            b"<meta charset ",
            b"<meta charset=x>",
            b"<a b='",
            b"<!--",
            b"<a b=c>",
            b"<?xml encoding ",
        )
    ]
    headers = ["text/html;" + " charset =" * 3000, ";charset" + " " * 30_000, "charset=" * 4000]
    began = time.process_time()
    found = [decode_text(page, None).source for page in pages]
    found += [decode_text(b"text", header).source for header in headers]
    assert set(found) <= {"detected", "default"}
    # Together these take some 30 ms; a search that looks back takes minutes.
    assert time.process_time() - began < 5


@given(
    st.binary(max_size=300), st.one_of(st.none(), st.text(max_size=60), st.from_regex(r"text/html; ?charset=.{0,20}"))
)
def test_no_bytes_and_no_header_raise(data: bytes, content_type: str | None) -> None:
    page = decode_text(data, content_type)
    assert len(page.text) <= max(len(data), 1)
    assert encoding_for_label(page.encoding) == page.encoding


@given(st.binary(max_size=200))
def test_no_head_makes_the_prescan_raise(data: bytes) -> None:
    for head in (b"<meta " + data, b"<meta charset=" + data + b">", b"<?xml " + data, b"<!--" + data, b"<a " + data):
        encoding = prescan(head)
        assert encoding is None or encoding_for_label(encoding) == encoding


@given(st.sampled_from(sorted(SENTENCES)), st.binary(max_size=100))
def test_every_encoding_reads_any_bytes(encoding: str, data: bytes) -> None:
    # Behind a letter, so that no two bytes are taken for a byte-order mark.
    page = decode_text(b"A" + data, f"text/html; charset={encoding}")
    assert (page.source, page.text[:1]) == ("header", "A")
    assert page.lossy == ("\ufffd" in page.text)
