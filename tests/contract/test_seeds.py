"""Seeds: what is copied into the data directory, and that every one of them is admitted, once, whatever happens."""

import asyncio
import gzip
import json
import logging
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from gossamer.config import ScopeSettings, UrlSettings
from gossamer.errors import StoreUnavailable, UsageError
from gossamer.frontier.admission import AdmissionRules, Exclusions, parse_exclusions
from gossamer.frontier.refused_links import RefusedLinks
from gossamer.frontier.store import AdmitLimits, Store
from gossamer.records import Candidate, Reason
from gossamer.seed import load as load_module
from gossamer.seed.copy import copy_seeds
from gossamer.seed.load import Loaded, SeedLoader
from gossamer.testing.stores.model import ModelStore

SETTINGS = UrlSettings()
RULES = AdmissionRules(ScopeSettings(), Exclusions())


def copied(target: Path, *urls: str, seed_file: Path | None = None) -> list[str]:
    count = copy_seeds(urls, None if seed_file is None else str(seed_file), target, SETTINGS)
    lines = target.read_text("ascii").splitlines()
    assert len(lines) == count
    return lines


# The copy


def test_a_typed_seed_that_is_the_name_of_a_file_is_answered_with_seed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("seeds.txt").write_text("a.example\n")
    Path("my seeds").write_text("a.example\n")
    for typed, shown in (("seeds.txt", "seeds.txt"), ("./seeds.txt", "./seeds.txt"), ("my seeds", "'my seeds'")):
        with pytest.raises(UsageError, match=f"is a file here; .* give --seed-file {re.escape(shown)};"):
            copied(tmp_path / "seeds", typed)
    assert copied(tmp_path / "seeds", "https://seeds.txt", "a.txt") == ["https://seeds.txt/", "https://a.txt/"]
    with pytest.raises(UsageError, match="is no seed"):
        copied(tmp_path / "seeds", "x" * 5000 + "/\0")


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("a.csv", "url,title\nhttps://a.example/,Home\nhttps://b.example/,Docs\n", "tail -n +2 a.csv | cut -d, -f1"),
        ("a.csv", "\ufeffid;url\r\n1;http://127.0.0.1:8080/\r\n", "tail -n +2 a.csv | cut -d';' -f2"),
        ("a.csv", "1,google.com\n2,example.org\n", "cut -d, -f2 a.csv"),
        ("a b.tsv", "1\texample.org\n", "cut -f2 'a b.tsv'"),
        ("a.csv", "# made today\nrank,domain\n\n1,a.example\n", "tail -n +3 a.csv | cut -d, -f2"),
        ("a.csv", "URL\nhttps://a.example/\n", "tail -n +2 a.csv"),
        ("a.csv.gz", "1,a.example\n2,b.example\n", "zcat a.csv.gz | cut -d, -f2"),
    ],
)
def test_the_command_suggested_for_a_table_yields_exactly_its_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with pytest.raises(UsageError) as refusal:
        copied(tmp_path / "seeds", seed_file=Path(name))
    suggested = str(refusal.value).partition("such as: ")[2]
    assert suggested == f"{command} | gossamer crawl --seed-file - …"
    out = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=30).stdout
    Path("list").write_text(out)
    found = {line.split("/")[2] for line in copied(tmp_path / "seeds", seed_file=Path("list"))}
    assert found == set(re.findall(r"[a-z]+\.(?:example|com|org)|127\.0\.0\.1:8080", text))


@pytest.mark.parametrize(
    "text",
    [
        "url,source\nhttps://a.example/,https://b.example/\n",
        'id,url\n1,"https://a.example/,x"\n',
        "id,url\n1,https://a.example/,x\n",
        "id,name\n1,Home\n",
        "id;url,title\n1;https://a.example/,x\n",
    ],
)
def test_a_table_whose_column_of_urls_is_not_certain_gets_no_concrete_command(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError, match="one URL or domain on each line") as refusal:
        copied(tmp_path / "seeds", seed_file=tmp_path / "a.csv")
    assert "-f" not in str(refusal.value).replace(str(tmp_path), "")
    assert "tail" not in str(refusal.value)


def test_what_was_typed_comes_first_then_the_file(tmp_path: Path) -> None:
    seed_file = tmp_path / "sites.txt"
    seed_file.write_text("c.example\n", "utf-8")
    seeds = copied(tmp_path / "seeds", "a.example", "http://b.example/x", seed_file=seed_file)
    assert seeds == ["https://a.example/", "http://b.example/x", "https://c.example/"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds", "sites.txt"]


@pytest.mark.parametrize(
    ("line", "seed"),
    [
        ("example.org", "https://example.org/"),
        ("  Example.ORG.\r", "https://example.org/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("192.0.2.1", "https://192.0.2.1/"),
        ("http://example.org", "http://example.org/"),
        ("https://example.org:8443/a?b#c", "https://example.org:8443/a?b"),
        ("https://example.org/ä b", "https://example.org/%C3%A4%20b"),
        ("https://someone:secret@example.org/", "https://example.org/"),
        ("example.org # a comment", "https://example.org/"),
        ("\ufeffexample.org", "https://example.org/"),
        ("shop.example/p/3", "https://shop.example/p/3"),
        ("shop.example/a:b?c=http://d.example/", "https://shop.example/a:b?c=http://d.example/"),
        ("shop.example?q=1", "https://shop.example/?q=1"),
        ("example.org:8080", "https://example.org:8080/"),
        ("localhost:8080/x", "https://localhost:8080/x"),
        ("[::1]:8080", "https://[::1]:8080/"),
        ("//shop.example/p", "https://shop.example/p"),
        ("https://example.org/a,b", "https://example.org/a,b"),
    ],
)
def test_a_line_is_a_url_or_a_bare_domain_which_starts_with_https(tmp_path: Path, line: str, seed: str) -> None:
    seed_file = tmp_path / "sites.txt"
    seed_file.write_text(f"# first\n\n{line}\n", "utf-8", newline="")
    assert copied(tmp_path / "seeds", seed_file=seed_file) == [seed]


@pytest.mark.parametrize("compresslevel", [None, 6])
def test_a_file_is_read_whether_or_not_it_is_gzipped(tmp_path: Path, compresslevel: int | None) -> None:
    text = b"a.example\nb.example"
    seed_file = tmp_path / "sites"
    seed_file.write_bytes(text if compresslevel is None else gzip.compress(text, compresslevel))
    assert copied(tmp_path / "seeds", seed_file=seed_file) == ["https://a.example/", "https://b.example/"]


@pytest.mark.parametrize(
    "sent", [b"a.example\nb.example\n", gzip.compress(b"a.example\nb.example\n")], ids=["plain", "gzip"]
)
def test_a_dash_is_standard_input(tmp_path: Path, sent: bytes) -> None:
    program = (
        "import sys, pathlib\n"
        "from gossamer.config import UrlSettings\n"
        "from gossamer.seed.copy import copy_seeds\n"
        "print(copy_seeds([], '-', pathlib.Path(sys.argv[1]), UrlSettings()))"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "seeds")]
    ran = subprocess.run(arguments, input=sent, capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"2\n", b"")
    assert (tmp_path / "seeds").read_text("ascii") == "https://a.example/\nhttps://b.example/\n"


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "#",
        "two words",
        "mailto:a@example.org",
        "a@example.org",
        "ftp://example.org/",
        "tel:123",
        "images/logo.png",
        "../a.html",
    ],
)
def test_a_typed_seed_that_is_none_is_an_error_that_names_it(tmp_path: Path, typed: str) -> None:
    with pytest.raises(UsageError, match="is no seed") as caught:
        copied(tmp_path / "seeds", "example.org", typed)
    assert repr(typed) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_bad_line_of_a_file_is_logged_with_its_number_and_the_others_are_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed_file = tmp_path / "sites.txt"
    long_line = b"https://example.org/" + b"a" * 3_000_000
    seed_file.write_bytes(b"a.example\ntwo words\n\xff.example\n" + long_line + b"\na@b.example\nb.example\n")
    with caplog.at_level(logging.WARNING, "gossamer.seed"):
        assert copied(tmp_path / "seeds", seed_file=seed_file) == ["https://a.example/", "https://b.example/"]
    messages = [record.getMessage() for record in caplog.records]
    assert [message.partition(": ")[0] for message in messages] == [
        *(f"{seed_file}, line {number}" for number in (2, 3, 4, 5)),
        str(seed_file),
    ]
    assert "two words" in messages[0]
    assert messages[-1] == f"{seed_file}: 4 lines are no seeds and were left out"
    assert max(map(len, messages)) < 500


def test_a_file_of_bad_lines_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seed_file = tmp_path / "sites.txt"
    seed_file.write_text("a.example\n" + "no seed\n" * 1000, "utf-8")
    copied(tmp_path / "seeds", seed_file=seed_file)
    assert len(caplog.records) < 30
    assert "1000 lines" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("content", [b"", b"\n# nothing\n", b"no seed\n", gzip.compress(b"", mtime=0)])
def test_a_file_without_any_seed_is_an_error_and_leaves_no_copy(tmp_path: Path, content: bytes) -> None:
    seed_file = tmp_path / "sites"
    seed_file.write_bytes(content)
    with pytest.raises(UsageError, match="sites: no line of it is a seed"):
        copied(tmp_path / "seeds", "example.org", seed_file=seed_file)
    assert list(tmp_path.iterdir()) == [seed_file]


@pytest.mark.parametrize("is_gzipped", [False, True])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a.example\nb.example\n".encode("utf-16"), "UTF-16"),
        ("a.example\nb.example\n".encode("utf-16-be"), "NUL bytes"),
        (b"PK\x03\x04\0\0", "NUL bytes"),
        (b"rank,domain\n1,a.example\n2,b.example\n", "line 1: 'rank,domain' is a line of a table"),
        (b"# list\n1,a.example\n2,b.example\n", "line 2: '1,a.example' is a line of a table"),
        (b"\xef\xbb\xbfurl;title\nhttps://a.example/;A\n", "line 1: "),
        (b"URL\r\nhttps://a.example/\r\n", "line 1: 'URL' is a line of a table"),
        (b'"https://a.example/","A"\n', "line 1: "),
    ],
)
def test_a_file_of_another_kind_is_one_error_and_no_line_for_each_seed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, words: str, is_gzipped: bool
) -> None:
    seed_file = tmp_path / "sites"
    seed_file.write_bytes(gzip.compress(content) if is_gzipped else content)
    with pytest.raises(UsageError, match=re.escape(words)):
        copied(tmp_path / "seeds", seed_file=seed_file)
    assert caplog.records == []
    assert list(tmp_path.iterdir()) == [seed_file]


@pytest.mark.parametrize(
    "seed", ["a.example/p;v=1", "www.a.example/0,1518,7.html", "a.example:80/?b=1;c=2", "a.example?b=1,2"]
)
def test_a_url_without_a_scheme_may_have_commas_and_semicolons(tmp_path: Path, seed: str) -> None:
    seed_file = tmp_path / "sites"
    seed_file.write_text(f"{seed}\nb.example\n")
    assert copy_seeds([], str(seed_file), tmp_path / "seeds", SETTINGS) == 2


@pytest.mark.parametrize("line", ["a.example\t# ours, since May", "\ta.example", "a.example \t"])
def test_a_tab_around_a_seed_makes_no_table_of_its_file(tmp_path: Path, line: str) -> None:
    seed_file = tmp_path / "sites"
    seed_file.write_text(f"{line}\nb.example\n")
    assert copy_seeds([], str(seed_file), tmp_path / "seeds", SETTINGS) == 2


def test_nothing_given_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to start from"):
        copied(tmp_path / "seeds")


@pytest.mark.parametrize("kind", ["missing", "directory", "cut", "damaged"])
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path, kind: str) -> None:
    # Not compressible, so that the cut and the damage fall into what is read.
    chance = random.Random(7)
    domains = b"".join(b"%032x.example\n" % chance.getrandbits(128) for _ in range(200))
    whole = gzip.compress(domains)
    seed_file = tmp_path / "sites.gz"
    if kind == "directory":
        seed_file.mkdir()
    elif kind == "cut":
        seed_file.write_bytes(whole[:-50])
    elif kind == "damaged":
        seed_file.write_bytes(whole[:20] + b"\xff" * 500 + whole[520:])
    with pytest.raises(UsageError, match=r"sites\.gz: the seeds cannot be read"):
        copied(tmp_path / "seeds", seed_file=seed_file)
    assert not (tmp_path / "seeds").exists()


def test_a_data_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no/seeds"):
        copied(tmp_path / "no" / "seeds", "example.org")


# Loading


class Watched(ModelStore):
    """Remembers what was new; may fail at a call, before or after the work is done."""

    def __init__(self, *, fails_at: int = 0, after_admitting: bool = False) -> None:
        super().__init__(slots=4)
        self.admitted: list[Candidate] = []
        self.calls = 0
        self.fails_at = fails_at
        self.after_admitting = after_admitting

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        self.calls += 1
        fails = self.calls == self.fails_at
        if fails and not self.after_admitting:
            raise StoreUnavailable("gone before")
        answers = await super().admit(candidates, limits, now=now)
        self.admitted += [one for one, answer in zip(candidates, answers, strict=True) if answer is Reason.NEW]
        if fails:
            raise StoreUnavailable("gone after")
        return answers


def load(
    seeds: Path, store: Store, rules: AdmissionRules = RULES, settings: UrlSettings = SETTINGS
) -> tuple[Loaded, list[Loaded]]:
    heard: list[Loaded] = []
    return asyncio.run(SeedLoader(seeds, store, rules, settings, RefusedLinks()).load(heard.append)), heard


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "BATCH_SEEDS", 10)


def numbered(count: int) -> list[str]:
    return [f"https://site-{number}.example/" for number in range(count)]


@pytest.mark.usefixtures("small_batches")
def test_every_seed_is_admitted_as_one_in_order_with_progress_at_each_batch(tmp_path: Path) -> None:
    copied(tmp_path / "seeds", *numbered(25))
    store = Watched()
    loaded, heard = load(tmp_path / "seeds", store)
    assert loaded == Loaded(25, 25, {}, is_complete=True)
    assert [(one.lines, one.is_complete) for one in heard] == [(10, False), (20, False), (25, False), (25, True)]
    assert [candidate.url for candidate in store.admitted] == numbered(25)
    assert {(one.depth, one.hops, one.is_seed, one.at_head) for one in store.admitted} == {(0, 0, True, False)}


def test_the_sites_of_seeds_are_due_from_their_admission_on(tmp_path: Path) -> None:
    copied(tmp_path / "seeds", *numbered(3))
    store = Watched()
    store.clock = lambda: 5_000.0
    load(tmp_path / "seeds", store)
    states = asyncio.run(store.site_states([one.site for one in store.admitted]))
    # The loader goes on with its own clock from what the store said.
    assert all(5_000.0 <= state.not_before < 5_600.0 for state in states.values())
    assert len(states) == 3


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("fails_at", [1, 2, 3])
@pytest.mark.parametrize("after_admitting", [False, True])
def test_a_load_that_was_cut_off_is_gone_on_with_and_every_seed_admitted_once(
    tmp_path: Path, fails_at: int, after_admitting: bool
) -> None:
    copied(tmp_path / "seeds", *numbered(25))
    store = Watched(fails_at=fails_at, after_admitting=after_admitting)
    with pytest.raises(StoreUnavailable):
        load(tmp_path / "seeds", store)
    loaded, _ = load(tmp_path / "seeds", store)
    assert [candidate.url for candidate in store.admitted] == numbered(25)
    assert loaded.lines == 25 - 10 * (fails_at - 1), "what was acknowledged is not read again"
    assert loaded.refused == ({Reason.SEEN: min(10, loaded.lines)} if after_admitting else {})


def test_a_load_that_was_complete_asks_the_store_nothing(tmp_path: Path) -> None:
    copied(tmp_path / "seeds", *numbered(25))
    store = Watched()
    load(tmp_path / "seeds", store)
    again, heard = load(tmp_path / "seeds", store)
    assert again == Loaded(0, 0, {}, is_complete=True)
    assert heard == [again]
    assert store.calls == 1


@pytest.mark.usefixtures("small_batches")
def test_the_offset_is_written_only_after_the_store_has_synced_what_it_covers(tmp_path: Path) -> None:
    """Otherwise a power loss leaves seeds that neither the store nor a resume knows of."""
    offset_file = tmp_path / "seeds.offset"
    found: list[tuple[int, int]] = []

    class SyncingStore(ModelStore):
        async def sync(self) -> None:
            offset = json.loads(offset_file.read_bytes())["offset_bytes"] if offset_file.exists() else 0
            found.append(((await self.counts(now=0.0)).admitted, offset))

    lines = copied(tmp_path / "seeds", *numbered(15))
    load(tmp_path / "seeds", SyncingStore(slots=4))
    assert found == [(10, 0), (15, sum(len(line) + 1 for line in lines[:10]))]


@pytest.mark.parametrize("content", [b"", b"{", b'{"offset_bytes": "x"}'])
def test_an_offset_that_cannot_be_read_costs_time_and_no_seed(tmp_path: Path, content: bytes) -> None:
    copied(tmp_path / "seeds", *numbered(25))
    store = Watched()
    load(tmp_path / "seeds", store)
    (tmp_path / "seeds.offset").write_bytes(content)
    loaded, _ = load(tmp_path / "seeds", store)
    assert loaded == Loaded(25, 0, {Reason.SEEN: 25}, is_complete=True)
    assert len(store.admitted) == 25


def test_what_the_rules_and_the_store_refuse_is_counted_by_reason(tmp_path: Path) -> None:
    typed = ["a.example", "https://a.example/", "b.example", "https://c.example/x.pdf", "https://c.example/" + "y" * 80]
    copied(tmp_path / "seeds", *typed)
    rules = AdmissionRules(ScopeSettings(scope="seeds"), parse_exclusions("b.example", "excluded"))
    loaded, _ = load(tmp_path / "seeds", Watched(), rules, UrlSettings(max_url_length=64))
    refused = {Reason.SEEN: 1, Reason.BLOCKED_SITE: 1, Reason.TOO_LONG: 1}
    assert loaded == Loaded(5, 2, refused, is_complete=True)


class Forgetful(ModelStore):
    """A store that keeps nothing, so that only the loader's memory is measured."""

    async def admit(self, candidates: Sequence[Candidate], limits: AdmitLimits, *, now: float) -> list[Reason]:
        assert limits == RULES.limits
        assert now <= self.clock()
        return [Reason.NEW] * len(candidates)


def test_many_seeds_are_copied_and_loaded_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches are small, so that a file of a megabyte is many of them."""
    monkeypatch.setattr(load_module, "BATCH_SEEDS", 200)
    seed_file = tmp_path / "sites.txt"
    # Few hosts, all of them known before: what `url.py` remembers of hosts is bounded by itself, and not measured here.
    with seed_file.open("w", encoding="ascii") as file:
        file.writelines(
            f"https://host-{number % 500}.example/a/long/path/to/page/{number}\n" for number in range(20_000)
        )
    assert seed_file.stat().st_size > 900_000
    copied(tmp_path / "warm", *(f"https://host-{number}.example/" for number in range(500)))
    tracemalloc.start()
    try:
        assert copy_seeds([], str(seed_file), tmp_path / "seeds", SETTINGS) == 20_000
        loaded, heard = load(tmp_path / "seeds", Forgetful(slots=4))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (loaded.lines, loaded.admitted, len(heard)) == (20_000, 20_000, 101)
    assert peak_bytes < 400_000
