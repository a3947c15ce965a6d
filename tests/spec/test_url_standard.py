"""URLs against the web-platform-tests, the Public Suffix List's own cases and other crawlers' data."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gossamer.config import UrlSettings
from gossamer.url import Url, canonicalise, registrable_domain, resolve

STRIPPING = UrlSettings(strip_session_ids=True, strip_tracking=True)


def cases(path: Path) -> list[dict[str, Any]]:
    """The cases of a web-platform-tests file; the strings between them are comments."""
    return [case for case in json.loads(path.read_text("utf-8")) if isinstance(case, dict)]


def concerns_http(case: dict[str, Any]) -> bool:
    """Whether Gossamer could meet it: the answer or the base is http(s), or it must fail with such a scheme."""
    texts = (case.get("href"), case.get("base"), case["input"] if case.get("failure") else None)
    return any(text is not None and re.match(r"\s*https?:", text, re.IGNORECASE) for text in texts)


def test_every_http_case_of_the_url_standard_is_right(shared_data: Path) -> None:
    chosen = [case for case in cases(shared_data / "wpt-url" / "urltestdata.json") if concerns_http(case)]
    wrong = [
        (case["input"], case["base"], case.get("href"), found)
        for case in chosen
        if (found := resolve(case["input"], case["base"])) != case.get("href")
    ]
    assert wrong == []
    assert len(chosen) > 400


def test_canonical_urls_keep_what_the_standard_says(shared_data: Path) -> None:
    """Our form only takes away: host, port, path and query of an accepted URL are the standard's, up to escapes."""
    wrong = []
    for case in cases(shared_data / "wpt-url" / "urltestdata.json"):
        url = canonicalise(case["input"] if case["base"] is None else resolve(case["input"], case["base"]) or "")
        if isinstance(url, Url):
            expected = (case["hostname"].removesuffix("."), case["protocol"], case["port"])
            explicit_port = re.search(r":(\d+)$", url.origin.partition("://")[2])
            found = (url.host, f"{url.scheme}:", explicit_port[1] if explicit_port else "")
            path = url.text[len(url.origin) :]
            if found != expected or unescaped(path) != unescaped(case["pathname"] + case["search"]):
                wrong.append((case["input"], url))
    assert wrong == []


def unescaped(path: str) -> str:
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), path).rstrip("?")


def test_every_idna_case_is_right(shared_data: Path) -> None:
    files = ("toascii.json", "IdnaTestV2.json", "IdnaTestV2-removed.json")
    chosen = [case for file in files for case in cases(shared_data / "wpt-url" / file) if case["input"]]
    wrong = []
    for case in chosen:
        found = resolve(f"https://{case['input']}/x")
        if found != (None if case["output"] is None else f"https://{case['output']}/x"):
            wrong.append((case["input"], case["output"], found))
    assert wrong == []
    assert len(chosen) > 2700


def is_ipv4(host: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+\.\d+", host) is not None


def test_every_odd_ipv4_spelling_is_the_address_it_is(shared_data: Path) -> None:
    spellings: dict[str, str | None] = json.loads((shared_data / "urlcanon" / "funky_ipv4.json").read_text("utf-8"))
    wrong = {}
    for spelling, address in spellings.items():
        url = canonicalise(f"http://{spelling}/")
        # "0000xa" is a name like any other, and no address.
        found = url.host if isinstance(url, Url) and is_ipv4(url.host) else None
        if found != address:
            wrong[spelling] = (address, found)
    assert wrong == {}
    assert len(spellings) == 47


def test_every_registrable_domain_is_right(shared_data: Path) -> None:
    text = (shared_data / "publicsuffix" / "test_psl.txt").read_text("utf-8")
    rows = re.findall(r"^checkPublicSuffix\((?:null|'([^']*)'), (?:null|'([^']*)')\);", text, re.MULTILINE)
    wrong = []
    for name, expected in rows:
        url = canonicalise(f"http://{name}/")
        expected_ascii = canonicalise(f"http://{expected}/") if expected else None
        found = registrable_domain(url.host) if isinstance(url, Url) else None
        if found != (expected_ascii.host if isinstance(expected_ascii, Url) else None):
            wrong.append((name, expected, found))
    assert wrong == []
    assert len(rows) == 78


def every_url(shared_data: Path) -> Iterator[str]:
    """Every text in the data that is, or was tried as, a URL."""
    for case in cases(shared_data / "wpt-url" / "urltestdata.json"):
        yield from (text for text in (case["input"], case["base"], case.get("href")) if text is not None)
    for case in json.loads((shared_data / "url_canon_cases.json").read_text("utf-8"))["cases"]:
        yield from (text for text in (case["input"], case["expected"]) if isinstance(text, str))
    for case in json.loads((shared_data / "robots_cases.json").read_text("utf-8"))["cases"]:
        yield case["url"]
    for file in (shared_data / "urlcanon").glob("*.json"):
        yield from strings(json.loads(file.read_text("utf-8")))
    for name in ("toascii.json", "IdnaTestV2.json"):
        yield from (f"http://{case['input']}/" for case in cases(shared_data / "wpt-url" / name))


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield f"http://example.com/{value}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from strings(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def test_canonicalisation_is_idempotent_on_every_url_in_the_data(shared_data: Path) -> None:
    base = canonicalise("http://example.org/foo/bar")
    assert isinstance(base, Url)
    changed, tried = [], 0
    for text in every_url(shared_data):
        for settings in (UrlSettings(), STRIPPING):
            for url in (canonicalise(text, None, settings), canonicalise(text, base, settings)):
                if isinstance(url, Url):
                    tried += 1
                    if canonicalise(url.text, None, settings) != url:
                        changed.append((text, url, canonicalise(url.text, None, settings)))
    assert changed == []
    assert tried > 10_000


def test_the_session_ids_that_heritrix_strips_are_stripped(shared_data: Path) -> None:
    """Its answers leave a `?` or `&` behind, ours do not; it insists on 32 characters, we do not."""
    rows = json.loads((shared_data / "url_canon_cases.json").read_text("utf-8"))["cases"]
    chosen = [row for row in rows if row["op"] == "StripSessionIDs" and row["expected"] != row["input"]]
    wrong = []
    for row in chosen:
        url = canonicalise(row["input"], None, STRIPPING)
        if not isinstance(url, Url) or url.text != row["expected"].rstrip("?&"):
            wrong.append((row, url))
    assert wrong == []
    assert len(chosen) == 10
