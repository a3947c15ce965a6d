"""What the rules kept out is counted exactly, and remembered as far as the table has room."""

from pathlib import Path

import pytest

from gossamer.frontier.refused_links import (
    CELLS,
    CODES,
    SEED_CELLS,
    SUFFIX,
    Found,
    RefusedLink,
    RefusedLinks,
    RefusedLinksReader,
)
from gossamer.records import Reason
from gossamer.url import stable_hash


def noted(path: Path, *urls: str, reason: Reason = Reason.DEPTH, depth: int = 2, cells: int = SEED_CELLS) -> None:
    links = RefusedLinks(path, cells)
    for url in urls:
        links.note(stable_hash(url), reason, depth)
    links.close()


def test_what_was_refused_is_found_by_its_fingerprint_with_reason_and_depth(tmp_path: Path) -> None:
    noted(tmp_path / f"parser-0{SUFFIX}", "https://a.example/1", depth=3)
    found = RefusedLinksReader(tmp_path)
    assert found.find(stable_hash("https://a.example/1")) == [RefusedLink(Reason.DEPTH, Found.LINK, 3)]
    assert found.find(stable_hash("https://a.example/2")) == []
    assert not found.may_have_forgotten


@pytest.mark.parametrize("reason", CODES)
@pytest.mark.parametrize("way", Found)
def test_every_reason_and_way_comes_back(tmp_path: Path, reason: Reason, way: Found) -> None:
    links = RefusedLinks(tmp_path / f"x{SUFFIX}", SEED_CELLS)
    links.note(2**64 - 1, reason, 1_000, way)
    links.close()
    assert RefusedLinksReader(tmp_path).find(2**64 - 1) == [RefusedLink(reason, way, 255)]


def test_the_codes_in_the_files_never_change() -> None:
    """A file of this version is read by the next ones."""
    assert [str(reason) for reason in CODES] == [
        *("extension", "depth", "hops", "scope", "not-included", "excluded", "blocked-site", "path-depth"),
        *("path-repeats", "link-bytes", "queue-full", "site-full", "path-variants", "site-dropped"),
        *("not-a-url", "scheme", "too-long"),
    ]
    assert list(CODES.values()) == list(range(1, len(CODES) + 1))


def test_counts_and_urls_outlive_the_process_and_are_added_up_over_all(tmp_path: Path) -> None:
    one, other = tmp_path / f"parser-0{SUFFIX}", tmp_path / f"parser-1{SUFFIX}"
    noted(one, "https://a.example/1", "https://a.example/1")
    noted(one, "https://a.example/2")
    noted(other, "https://a.example/1", reason=Reason.SCOPE)
    found = RefusedLinksReader(tmp_path)
    assert found.totals == {Reason.DEPTH: 3, Reason.SCOPE: 1}
    assert {link.reason for link in found.find(stable_hash("https://a.example/1"))} == {Reason.DEPTH, Reason.SCOPE}
    again = RefusedLinks(one, SEED_CELLS)
    assert again.counted == {}
    again.count(Reason.SCHEME)
    assert again.counted == {Reason.SCHEME: 1}
    again.close()


def test_the_file_never_grows_and_the_latest_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / f"parser-0{SUFFIX}"
    urls = [f"https://a.example/{number}" for number in range(SEED_CELLS // 50)]
    noted(path, "https://first.example/")
    size = path.stat().st_size
    links = RefusedLinks(path, SEED_CELLS)
    first = stable_hash("https://first.example/")
    links.note(first ^ 1 << 40, Reason.SCOPE, 1)  # another URL that needs the same cell
    links.close()
    noted(path, *urls)
    found = RefusedLinksReader(tmp_path)
    assert path.stat().st_size == size
    assert found.find(first) == []
    assert found.may_have_forgotten
    assert found.find(stable_hash(urls[-1]))


@pytest.mark.parametrize("content", [b"", b"something else", bytes(3 << 20)])
def test_a_damaged_file_is_nothing_to_a_reader_and_made_anew_by_a_writer(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"parser-0{SUFFIX}"
    path.write_bytes(content)
    assert RefusedLinksReader(tmp_path).find(7) == []
    assert RefusedLinksReader(tmp_path).totals == {}
    noted(path, "https://a.example/", cells=CELLS)
    assert RefusedLinksReader(tmp_path).totals == {Reason.DEPTH: 1}


def test_a_file_whose_content_is_damaged_stops_neither_a_writer_nor_a_reader(tmp_path: Path) -> None:
    path = tmp_path / f"parser-0{SUFFIX}"
    noted(path, "https://a.example/")
    content = bytearray(path.read_bytes())
    content[32:] = b"\xff" * (len(content) - 32)
    path.write_bytes(content)
    for mark in (0x62, 0x7F):  # a way and a reason that do not exist
        content[-8:] = (2**64 - 2**16 + mark).to_bytes(8, "little")
        path.write_bytes(content)
        assert RefusedLinksReader(tmp_path).find(2**64 - 1) == []
    noted(path, "https://a.example/")
    assert RefusedLinksReader(tmp_path).totals == {Reason.DEPTH: 1}


def test_where_no_file_can_be_made_it_counts_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    links = RefusedLinks(tmp_path / "file" / "x", SEED_CELLS)
    links.note(1, Reason.DEPTH, 1)
    assert links.counted == {Reason.DEPTH: 1}
    links.close()


def test_a_crawl_without_any_record_says_so(tmp_path: Path) -> None:
    assert not RefusedLinksReader(tmp_path / "refused").is_there
