"""Patterns of the user: matched in linear time, or refused when they are read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.cli.main import main
from gossamer.config import ScopeSettings
from gossamer.errors import UsageError
from gossamer.frontier.admission import AdmissionRules, Exclusions
from gossamer.patterns import compile_pattern, compile_patterns
from gossamer.records import Reason

#: As people write them.
USUAL = [
    r"/tag/",
    r"\.pdf$",
    r"^https://[^/]+/(de|fr)/",
    r"[?&](sort|order)=",
    r"(?i)logout|sign-?in",
    r"//(www\.)?s5\.",
    r"/\d{4}/\d{2}/",
    r"\bcalendar\b",
    r"^http://a\.example/(x|y)*$",
    r"/[^/?]{0,3}(\?|$)",
    r"(?P<word>ab+?c|a.c)\w*/?$",
    "",
]
URLS = st.text("abcxyz0159/?&=.-_~%", max_size=40).map(lambda text: f"https://a.example/{text}")


def test_one_link_cannot_hold_up_a_pattern_that_backtracks() -> None:
    """The standard library would take longer than the age of the universe: what ends this test is the time-out."""
    is_found = compile_pattern(r"/([a-z]+/?)+\.pdf$")
    assert not is_found("/" + "a" * 60 + "!")
    assert not is_found("/" + "a" * 60_000 + "!")
    assert is_found("/" + "a" * 60_000 + ".pdf")
    rules = AdmissionRules(ScopeSettings(exclude=(r"/([a-z]+/?)+\.pdf$",)), Exclusions())
    assert rules.judge(f"http://a.test/{'a' * 60}!", "a.test", 1, 0, is_seed=False) is None
    assert rules.judge(f"http://a.test/{'a' * 60}.pdf", "a.test", 1, 0, is_seed=True) is Reason.EXCLUDED


@pytest.mark.parametrize("pattern", USUAL)
@given(url=URLS)
def test_usual_patterns_mean_what_they_mean_to_python(pattern: str, url: str) -> None:
    assert compile_pattern(pattern)(url) == (re.search(pattern, url) is not None)


@pytest.mark.parametrize("url", ["https://a.example/grüße", "https://a.example/nul\0byte", ""])
def test_any_text_can_be_judged(url: str) -> None:
    assert compile_pattern("$")(url)
    assert not compile_pattern("x{3}")(url)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"/(?=a)", "(?="),
        (r"/(?!private)", "(?!"),
        (r"(?<!a)b", "(?<!"),
        (r"(a+)/\1", r"\1"),
        (r"(?P<x>a)(?P=x)", "(?P"),
        (r"(?>a+)b", "(?>"),
        (r"a++b", "++"),
        (r"(?x) a b", "(?x"),
        (r"a{2000}", "{2000}"),
        (r"(", "missing )"),
        (r"[a", "missing ]"),
        (r"((a{1,100}){1,100}){1,100}", "repetition"),
        (r"(\pL{500}){2}" * 20, "too large"),
        (r"/a{,3}/", "write {0,3}"),
        (r"\.pdf\Z", "write $"),
    ],
)
def test_what_re2_cannot_match_is_refused_with_the_reason_and_prints_nothing(
    pattern: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        compile_pattern(pattern)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"/(?!x)", "invalid perl operator (?! at character 2 (look-around"),
        (r"\(?!a(?!b)", "invalid perl operator (?! at character 6 (look-around"),
        (r"é/(a)/\1", r"invalid escape sequence \1 at character 7 (look-around"),
        (r"x[z-a]", "invalid character class range z-a at character 3"),
        (r"ab*c**", "bad repetition operator ** at character 5"),
        (r"a(b(c)", "missing ) for the ( at character 2"),
        (r"\([(]\Q(\E(", "missing ) for the ( at character 11"),
        (r"ab)c", "unexpected ) at character 3"),
        (r"ab[c", "missing ] for the [ at character 3"),
        (r"[", "missing ] for the [ at character 1"),
        (r"*.pdf", r"repetition operator * at character 1 (patterns are regular expressions: for *.pdf write \.pdf$)"),
        (r"/a{,3}/", "{,3} as a repetition at character 3: write {0,3}"),
        (r"\.pdf\Z", r"\Z at character 6: write $"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(pattern: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        compile_pattern(pattern)


def test_unsupported_forms_are_spoken_of_only_where_there_is_one() -> None:
    with pytest.raises(UsageError, match=r"character 1$"):
        compile_pattern("(")


def test_a_url_is_judged_by_each_of_several_patterns() -> None:
    rules = AdmissionRules(ScopeSettings(include=("/a", "/b"), exclude=("z$", "y$")), Exclusions())
    judged = [rules.judge(f"http://s.test{path}", "s.test", 1, 0, is_seed=False) for path in ("/a", "/b", "/c", "/by")]
    assert judged == [None, None, Reason.NOT_INCLUDED, Reason.EXCLUDED]
    assert compile_patterns(()) is None


@pytest.mark.parametrize("pattern", [r"\{,3\}", r"\\Z", r"a{0,3}", r"a{3,}"])
def test_what_only_looks_like_what_is_refused_is_taken(pattern: str) -> None:
    assert compile_pattern(pattern)("x/{,3}/\\Z/aaa")


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_a_crawl_and_a_resume_refuse_a_pattern_before_they_begin(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["crawl", "http://a.test/", "--email=a@example.org", f"--{name}=/(?!x)", "--data-dir=new"]) == 2
    assert not (tmp_path / "new").exists()
    old = tmp_path / "old"
    old.mkdir()
    (old / "crawl.toml").write_text(f"[identity]\nemail = 'a@example.org'\n[scope]\n{name} = '/(?!x)'\n", "utf-8")
    assert main(["resume", "old"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith(f"gossamer: --{name}: '/(?!x)' is not a value for {name}; RE2 refuses it: ")
    assert f"crawl.toml [scope] {name}: '/(?!x)'" in second
    assert first.partition("RE2")[2] == second.partition("RE2")[2]


def test_the_library_is_loaded_only_if_there_is_a_pattern() -> None:
    code = """if True:
        import sys
        from gossamer.config import ScopeSettings
        from gossamer.frontier.admission import AdmissionRules, Exclusions
        from gossamer.layers import flag_layer
        flag_layer({"include": "", "exclude": ""})
        AdmissionRules(ScopeSettings(), Exclusions())
        assert "re2" not in sys.modules
        AdmissionRules(ScopeSettings(include=("x",)), Exclusions())
        assert "re2" in sys.modules
        """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
