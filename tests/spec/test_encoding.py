"""Character encodings against the suites of html5lib and of the web platform."""

import ast
import json
import re
from pathlib import Path

from gossamer.parse.charset import decode_text, encoding_for_label

REPLACEMENT = "\ufffd"


def decoded(label: str, data: bytes) -> str:
    return decode_text(data, f"text/html; charset={label}").text


def numbers(listing: str) -> bytes:
    return bytes(int(number, 0) for number in listing.split(",") if number.strip())


def test_every_page_of_the_html5lib_suite_gets_the_encoding_that_it_declares(shared_data: Path) -> None:
    failures, cases = [], 0
    for file in sorted((shared_data / "html5lib-encoding").glob("*.dat")):
        for case in re.split(rb"(?:\A|\n)#data\n", file.read_bytes())[1:]:
            data, _, rest = case.partition(b"\n#encoding\n")
            expected = rest.split(b"\n")[0].decode("ascii")
            found = decode_text(data, None)
            cases += 1
            if found.encoding.lower() != expected.lower():
                failures.append((file.name, data[:200], expected, found.encoding, found.source))
    assert failures == []
    assert cases == 82


def test_all_228_labels_name_the_encoding_of_the_standard_in_any_case_and_spacing(shared_data: Path) -> None:
    labels = json.loads((shared_data / "wpt-encoding" / "labels.json").read_text())
    failures = [
        (label, expected, encoding_for_label(spelling))
        for label, expected in labels.items()
        for spelling in (label, f"\t {label.upper()}\r\n\f")
        if encoding_for_label(spelling) != expected
    ]
    assert failures == []
    assert (len(labels), len(set(labels.values()))) == (228, 40)


def test_the_encodings_table_agrees_with_the_labels(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "encodings.js").read_text()
    table = json.loads(script[script.index("[") : script.rindex("]") + 1])
    entries = [entry for section in table for entry in section["encodings"]]
    failures = [
        (label, entry["name"], encoding_for_label(label))
        for entry in entries
        for label in entry["labels"]
        if encoding_for_label(label) != entry["name"]
    ]
    assert failures == []
    assert len(entries) == 40


def test_labels_outside_the_standard_name_nothing(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "unsupported-labels.window.js").read_text()
    labels = re.findall(r'^ {2}"([^"]+)",?$', script, re.MULTILINE)
    assert [label for label in labels if encoding_for_label(label) is not None] == []
    assert len(labels) > 150


def test_every_byte_of_every_single_byte_encoding_decodes_as_in_the_index(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "single-byte-decoder.js").read_text()
    start = script.index("{", script.index("singleByteIndexes ="))
    indexes, _ = json.JSONDecoder().raw_decode(script, start)
    failures = []
    for name, upper_half in indexes.items():
        expected = "".join(map(chr, range(128))) + "".join(
            REPLACEMENT if point is None else chr(point) for point in upper_half
        )
        found = decoded(name, bytes(range(256)))
        failures += [(name, hex(at)) for at in range(256) if found[at : at + 1] != expected[at : at + 1]]
    assert failures == []
    assert len(indexes) >= 27


def test_iso_2022_jp_recovers_from_every_broken_escape(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "iso-2022-jp-decoder.any.js").read_text()
    cases = re.findall(r'^decode\(\[(.*?)\], ("(?:[^"\\]|\\.)*"), "(.*?)"\)', script, re.MULTILINE)
    failures = []
    for listing, expected, description in cases:
        found = decoded("iso-2022-jp", numbers(listing))
        if found != ast.literal_eval(expected):
            failures.append((description, expected, found))
    assert failures == []
    assert len(cases) == script.count("\ndecode(")


def test_a_sequence_cut_by_the_end_becomes_one_replacement(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "textdecoder-eof.any.js").read_text()
    pattern = r'new TextDecoder\((?:"(\w+)")?\)\.decode\(new Uint8Array\(\[(.*?)\]\)\), ("[^"]*")\)'
    cases = re.findall(pattern, script)
    failures = []
    for label, listing, expected in cases:
        found = decoded(label or "utf-8", numbers(listing))
        if found != ast.literal_eval(expected):
            failures.append((label, listing, expected, found))
    assert failures == []
    assert len(cases) == 10


def test_the_mistakes_of_other_implementations_are_not_ours(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "textdecoder-mistakes.any.js").read_text()
    failures, cases, label = [], 0, ""
    for line in script.splitlines():
        if heading := re.fullmatch(r"\s+'?([\w-]+)'?: \[", line):
            label = heading[1]
        elif row := re.match(r"\s+\[\[([^\]]*)\], ('[^']*')\],", line):
            # GBK is decoded as gb18030; the suite gives it the same rows.
            for name in ("gb18030", "gbk") if label == "gb18030" else (label,):
                cases += 1
                # With a letter before them, FE FF are what the suite means and not a byte-order mark.
                found = decoded(name, b"A" + numbers(row[1]))
                if found != "A" + ast.literal_eval(row[2]):
                    failures.append((name, row[1], row[2], found))
    assert failures == []
    assert cases > 40


def test_the_odd_bytes_of_single_byte_encodings_are_those_of_the_suite(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "textdecoder-mistakes.any.js").read_text()
    rows = re.findall(r"^ {4}'?([\w-]+)'?: \{ (\d+: .*?) \},$", script, re.MULTILINE)
    failures = []
    for name, listing in rows:
        for pair in listing.split(", "):
            byte, point = pair.split(": ")
            expected = REPLACEMENT if point == "r" else chr(int(point))
            if decoded(name, bytes([int(byte)])) != expected:
                failures.append((name, pair))
    assert failures == []
    assert len(rows) == 14


def test_lone_surrogates_of_utf_16_are_replaced_one_by_one(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "textdecoder-utf16-surrogates.any.js").read_text()
    cases = re.findall(r"encoding: '(.*?)',\s+input: \[(.*?)\],\s+expected: ('.*?')", script)
    failures = [case for case in cases if decoded(case[0], numbers(case[1])) != ast.literal_eval(case[2])]
    assert failures == []
    assert len(cases) == 5


def test_a_byte_order_mark_is_taken_off_and_outranks_every_other_word(shared_data: Path) -> None:
    script = (shared_data / "wpt-encoding" / "textdecoder-byte-order-marks.any.js").read_text()
    cases = re.findall(r"encoding: '(.*?)',\s+bom: \[(.*?)\],\s+bytes: \[(.*?)\]", script)
    expected = "z\xa2\u6c34\U0001d11e\U0010fffd"
    for label, mark, listing in cases:
        page = decode_text(numbers(mark) + numbers(listing), "text/html; charset=koi8-r")
        assert (page.text, page.encoding.lower(), page.source) == (expected, label, "bom")
        assert decoded(label, numbers(listing)) == expected
    assert len(cases) == 3


def test_of_two_byte_order_marks_only_the_first_is_one(shared_data: Path) -> None:
    for name, encoding in (("utf-8", "UTF-8"), ("utf-16le", "UTF-16LE"), ("utf-16be", "UTF-16BE")):
        page = decode_text((shared_data / "wpt-encoding" / f"two-boms-{name}.html").read_bytes(), None)
        assert (page.text, page.encoding, page.source) == ("\ufeff", encoding, "bom")


def test_utf_32_does_not_exist(shared_data: Path) -> None:
    seen = {}
    for file in sorted((shared_data / "wpt-encoding").glob("utf-32-*.*ml")):
        page = decode_text(file.read_bytes(), "text/html; charset=utf-32")
        # Read as anything the standard knows, there are zeros between the letters and so no tag of that name.
        assert "<html" not in page.text
        seen[file.name] = (page.encoding, page.source)
    assert len(seen) == 8
    assert {found for name, found in seen.items() if "little-endian-bom" in name} == {("UTF-16LE", "bom")}
    assert all(encoding == "windows-1252" for name, (encoding, _) in seen.items() if "-bom" not in name)


def test_an_encoding_that_is_not_to_be_read_gives_one_replacement_character(shared_data: Path) -> None:
    labels = json.loads((shared_data / "wpt-encoding" / "labels.json").read_text())
    unreadable = [label for label, name in labels.items() if name == "replacement"]
    assert {decoded(label, b"ABCabc123\xa0") for label in unreadable} == {REPLACEMENT}
    assert {decoded(label, b"") for label in unreadable} == {""}
