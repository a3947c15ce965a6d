"""What a process finds in itself: its descriptors, its largest objects, what holds them, what was there before."""

import asyncio
import contextlib
import gc
import json
import os
import socket
import stat
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from gossamer.report import diagnosis as diagnosis_module
from gossamer.report import objects as objects_module
from gossamer.report.descriptors import Descriptors, count_descriptors, look_at_descriptors
from gossamer.report.diagnosis import Diagnosis, read, write
from gossamer.report.holders import held_by
from gossamer.report.objects import Objects, excerpt, look_at_objects

#: A process that leaks: more and more strings in a list, one attribute of one object; it is diagnosed twice.
LEAKING = """
import sys
from pathlib import Path

from gossamer.report import objects
from gossamer.report.diagnosis import write

objects.BUDGET_SECONDS = 60.0

class Leaker:
    def __init__(self):
        self.kept = []

leaker = Leaker()
data = Path(sys.argv[1])
for number in range(2):
    leaker.kept += [f"leak {number} " + "x" * 100_000, *map(str, range(1_000_000, 1_030_000))]
    write(data / "diagnosis/leaking.json", process="leaking", store_endpoints=frozenset(), data=data, extra={})
    print((data / "diagnosis/leaking.json").read_text())
"""

#: A process without a descriptor left; standard output is its log.
EXHAUSTED = """
import logging
import os
import resource
import sys
from pathlib import Path

from gossamer.report.descriptors import count_descriptors, look_at_descriptors
from gossamer.report.diagnosis import write

logging.basicConfig(stream=sys.stdout)
data = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.pipe()
try:
    while True:
        os.dup(1)
except OSError:
    pass
print(look_at_descriptors(data, frozenset(), {}).total, flush=True)
try:
    count_descriptors(data, frozenset(), {})
except OSError as error:
    print(error.strerror, flush=True)
write(data / "diagnosis/exhausted.json", process="exhausted", store_endpoints=frozenset(), data=data, extra={})
"""


@pytest.fixture(autouse=True)
def large_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is looked at, however slow the machine is."""
    monkeypatch.setattr(objects_module, "BUDGET_SECONDS", 60.0)


def run(program: str, directory: Path) -> str:
    ran = subprocess.run([sys.executable, "-c", program, directory], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def diagnose(directory: Path, **more: Any) -> Diagnosis:
    """Of this process, written and read."""
    path = directory / "diagnosis" / "me.json"
    write(path, process="me", store_endpoints=frozenset(), data=directory, **{"extra": {}, **more})
    found = read(path)
    assert found is not None
    return found


# --- objects ----------------------------------------------------------------------------------------------------------


def test_a_leak_is_shown_with_what_holds_it_and_the_next_report_says_that_it_was_there_and_has_grown(
    tmp_path: Path,
) -> None:
    first, second = (msgspec.json.decode(line, type=Diagnosis) for line in run(LEAKING, tmp_path).splitlines())
    assert (first.last_at, second.last_at) == (None, first.at)
    kept = next(one for one in second.objects.largest if one.type == "list")
    assert (kept.held_by, kept.was_there, kept.since) == ("__main__.Leaker.kept", True, first.at)
    assert kept.grown_bytes > 30_000 * 8 * 0.9
    strings = {one.excerpt[:6]: one for one in second.objects.largest if one.excerpt.startswith("leak ")}
    assert {word: one.was_there for word, one in strings.items()} == {"leak 0": True, "leak 1": False}
    assert {one.held_by for one in strings.values()} == {f"list of {kept.length:,}, in __main__.Leaker.kept"}
    assert strings["leak 0"].since == first.at
    change = next(one.change for one in second.objects.types if one.type == "str")
    assert change is not None
    assert 29_000 < change < 31_000


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Those of this process that a test does not make are many, and are left out."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Holding:
    """Has something large."""

    def __init__(self, held: Any) -> None:
        self.held = held


def large(word: str) -> str:
    return word + "x" * 3_000_000


def holders_in_report() -> dict[str, str]:
    found = look_at_objects(Objects(), now=0.0)
    return {one.excerpt[:7]: one.held_by for one in found.largest if one.excerpt.startswith("held ")}


@pytest.mark.usefixtures("few_objects")
def test_what_holds_an_object_is_named_as_the_program_names_it() -> None:
    class Slotted:
        """Has something in a slot, and in itself."""

        __slots__ = ("in_slot",)
        in_class: ClassVar[str] = large("held 1 ")

        def __init__(self) -> None:
            self.in_slot = large("held 2 ")

    slotted = Slotted()
    plain, nested = Holding(large("held 3 ")), Holding({"https://web.example/": (large("held 4 "),)})

    async def waiting(text: str) -> None:
        await asyncio.sleep(3600)
        raise AssertionError(text, slotted, plain, nested)

    async def look() -> dict[str, str]:
        task = asyncio.create_task(waiting(large("held 5 ")))
        await asyncio.sleep(0)
        try:
            return holders_in_report()
        finally:
            task.cancel()

    inside = "test_what_holds_an_object_is_named_as_the_program_names_it.<locals>"
    assert asyncio.run(look()) == {
        "held 1 ": f"{__name__}.{inside}.Slotted.in_class",
        "held 2 ": f"{__name__}.{inside}.Slotted.in_slot",
        "held 3 ": f"{__name__}.Holding.held",
        "held 4 ": f"tuple of 1, in dict of 1, in {__name__}.Holding.held",
        "held 5 ": f"coroutine {inside}.waiting",
    }


class Untold(msgspec.Struct, gc=False):
    """The collector is not told of it, nor of what it holds."""

    text: str


@pytest.mark.usefixtures("few_objects")
def test_a_string_in_a_struct_that_the_collector_does_not_know_is_found() -> None:
    holding = Holding(Untold(large("held 6 ")))
    assert holders_in_report()["held 6 "] == f"{__name__}.Untold.text, in {__name__}.Holding.held"
    assert holding.held.text


@pytest.mark.usefixtures("few_objects")
def test_what_is_large_among_very_many_small_ones_is_found() -> None:
    holding = Holding({f"https://web.example/{number}": number for number in range(50_000)})
    holding.held[large("held 7 ")] = 0
    assert holders_in_report()["held 7 "] == f"dict of 50,001, in {__name__}.Holding.held"


@pytest.mark.usefixtures("few_objects")
def test_a_key_from_the_web_is_never_shown_as_a_name() -> None:
    holding = {"\x1b[31m": ["x"]}
    ((words, _),) = held_by([(holding["\x1b[31m"], ())], set())
    assert "\x1b" not in words
    assert words.startswith("dict of 1")


@pytest.mark.usefixtures("few_objects")
def test_a_string_of_the_same_place_and_size_but_other_text_is_new() -> None:
    holding = Holding(large("held 8 "))
    first = look_at_objects(Objects(), now=1.0)
    others = [msgspec.structs.replace(one, mark=one.mark + 1) for one in first.known]
    again = look_at_objects(first, now=2.0)
    after = look_at_objects(msgspec.structs.replace(first, known=others), now=3.0)
    assert [one.was_there for one in again.largest if one.excerpt.startswith("held 8 ")] == [True]
    assert [one.was_there for one in after.largest if one.excerpt.startswith("held 8 ")] == [False]
    assert holding.held


def test_work_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects_module, "BUDGET_SECONDS", 0.0)
    found = look_at_objects(Objects(), now=0.0)
    assert found.is_capped
    assert found.looked_at < found.tracked
    # Containers are counted in any case; what is estimated is not compared with a complete count.
    assert next(one.count for one in found.types if one.type == "function") > 0
    again = look_at_objects(msgspec.structs.replace(found, counts=found.counts | {"str": 1}), now=1.0)
    assert all(one.change is None for one in again.types if one.type == "str")
    assert next(one.change for one in again.types if one.type == "function") is not None


@pytest.mark.usefixtures("few_objects")
def test_what_was_looked_at_lives_no_longer_and_nothing_is_left_behind(tmp_path: Path) -> None:
    holding = Holding(large("held 9 "))
    gone = weakref.ref(holding)
    diagnose(tmp_path)
    before, descriptors = len(gc.get_objects()), len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        diagnose(tmp_path)
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
    assert len(gc.get_objects()) - before < 200
    assert gc.isenabled()
    gc.disable()
    try:
        del holding
        assert gone() is None, "only a collection would have freed it"
    finally:
        gc.enable()


# --- excerpts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://user:sekrit@host:6379/0 …", "redis://***@host:6379/0 \\u2026"),
        ('{"store":"postgresql://u:p:w@h/db"}', '{"store":"postgresql://***@h/db"}'),
        ("see http://a.example/ and http://b:c@d.example", "see http://a.example/ and http://***@d.example"),
        ("https://plain.example", "https://plain.example"),
        ("?token=abcdef&x=1", "?token=***&x=1"),
        ('"password": "hunter2", "x"', '"password": "***", "x"'),
        ("Authorization: Basic dXNlcjpw", "Authorization: ***"),
        ("the-given-token is here", "*** is here"),
        ("\x1b[2J\u202e\x00\n", "\\x1b[2J\\u202e\\x00\\n"),
        (b"GET /\x9b31m", "GET /\\x9b31m"),
        (bytearray(b"abc"), "abc"),
        (["no text"], ""),
    ],
)
def test_an_excerpt_steers_no_terminal_and_shows_no_secret(text: object, shown: str) -> None:
    assert excerpt(text, ["the-given-token", ""]) == shown


def test_a_password_that_the_excerpt_would_cut_is_hidden_too() -> None:
    assert "sekrit" not in excerpt("redis://:" + "sekrit" * 1000 + "@host/")
    assert excerpt("redis://:" + "sekrit" * 1000 + "@host/").startswith("redis://***@")
    assert len(excerpt("\x00" * 5000)) <= objects_module.EXCERPT_CHARACTERS


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("store", ["redis://:sek%20rit@h/0", "postgresql://h/db?user=u&password=sek%20rit&ssl=1"])
def test_the_store_s_password_is_in_no_report_though_it_stands_in_large_strings(tmp_path: Path, store: str) -> None:
    kept = ["AUTH sek rit " + "x" * 3_000_000, f"{store} " + "x" * 3_000_000, "say sek%20rit " + "x" * 3_000_000]
    found = diagnose(tmp_path, secrets=[store])
    assert len([one for one in found.objects.largest if "***" in one.excerpt]) == len(kept)
    text = (tmp_path / "diagnosis" / "me.json").read_text()
    assert "sek%20rit" not in text
    assert "sek rit" not in text


# --- descriptors ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """One end, and the other."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            server.close()
            yield near, far


def more(after: Descriptors, before: Descriptors) -> dict[str, int]:
    return dict(Counter(after.kinds) - Counter(before.kinds))


def test_every_descriptor_is_counted_once_under_what_it_is_for(tmp_path: Path) -> None:
    for folder in ("spool", "warc", "log"):
        (tmp_path / folder).mkdir()
    with contextlib.ExitStack() as stack:
        (store, _), (plain, _), (secure, other) = (stack.enter_context(connected()) for _ in range(3))
        stores = frozenset({store.getpeername()})
        web = {plain.fileno(): "http", secure.fileno(): "https"}
        # The other ends are in this process as well, and go to a port that says nothing.
        before = look_at_descriptors(tmp_path, frozenset(), {})
        assert before.kinds["other"] >= 6
        for name in ("spool/1.open", "warc/1.warc.gz.open", "log/fetches.parquet.open", "log/leader.log"):
            stack.enter_context((tmp_path / name).open("wb"))
        for name in ("frontier.db", "frontier.db-wal", "lock"):
            stack.enter_context((tmp_path / name).open("wb"))
        for end in os.pipe():
            stack.callback(os.close, end)
        stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        name_server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        name_server.connect(("127.0.0.1", 53))
        after = look_at_descriptors(tmp_path, stores, web)
        assert more(after, before) == {
            "store": 3,
            "http": 1,
            "https": 1,
            "spool": 1,
            "sinks": 2,
            "log": 1,
            "pipes": 2,
            "serving": 1,
            "dns": 1,
        }
        assert after.others["data directory: lock"] == 1
        assert after.total == sum(after.kinds.values())
        assert count_descriptors(tmp_path, stores, web) == after.kinds
        assert after.soft_limit is not None
        assert other.fileno() > 0, "looking has closed nothing"


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not tell the state of a connection")
def test_connections_that_the_other_side_has_closed_are_counted(tmp_path: Path) -> None:
    with connected() as (near, far):
        web = {near.fileno(): "http"}
        assert look_at_descriptors(tmp_path, frozenset(), web).states["http"] == {"ESTABLISHED": 1}
        far.close()
        assert near.recv(1) == b""
        found = look_at_descriptors(tmp_path, frozenset(), web)
        assert found.states["http"] == {"CLOSE_WAIT": 1}
        assert any(peer.kind == "http" and peer.connections == 1 for peer in found.peers)


def test_ports_tell_where_nothing_else_does(tmp_path: Path) -> None:
    """Nobody listens there, which a connected datagram socket does not need."""
    with contextlib.ExitStack() as stack:
        before = look_at_descriptors(tmp_path, frozenset(), {})
        for port in (80, 443, 8443):
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.connect(("127.0.0.1", port))
        after = look_at_descriptors(tmp_path, frozenset(), {})
        assert more(after, before) == {"http": 1, "https": 1, "other": 1}
        assert after.others["connection to port 8443"] == 1


def test_files_without_a_name_and_temporary_ones_are_listed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with (tmp_path / "gone").open("wb"):
        (tmp_path / "gone").unlink()
        found = look_at_descriptors(data, frozenset(), {})
    if Path("/proc/self/fd").exists():
        assert f"{tmp_path / 'gone'} (deleted)" in found.temporary


def test_a_process_without_a_descriptor_left_is_diagnosed_in_its_log(tmp_path: Path) -> None:
    told, refused, *log = run(EXHAUSTED, tmp_path).splitlines()
    assert (int(told), refused) == (64, "Too many open files")
    assert "the diagnosis cannot be written" in log[0]
    assert "64 descriptors are open, 64 are allowed" in log[0]


# --- the report -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_objects")
def test_a_report_has_everything_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    async def inside() -> Diagnosis:
        return diagnose(tmp_path, extra={"numbers": {"in_flight": 3}})

    found = asyncio.run(inside())
    assert (found.process, found.pid, found.errors) == ("me", os.getpid(), {})
    assert found.memory["python_blocks"] > 0
    assert found.tasks == {"test_a_report_has_everything_and_only_its_owner_can_read_it.<locals>.inside": 1}
    assert sum(found.threads.values()) >= 1
    assert found.used["user_seconds"] > 0
    assert "nofile" in found.limits
    assert found.collector["uncollectable"] == 0
    assert found.extra == {"numbers": {"in_flight": 3}}
    path = tmp_path / "diagnosis" / "me.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["me.json"]


@pytest.mark.usefixtures("few_objects")
def test_what_cannot_be_found_out_is_said_and_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Descriptors:
        raise PermissionError("not yours")

    monkeypatch.setattr(diagnosis_module, "look_at_descriptors", fails)
    found = diagnose(tmp_path, extra={"cannot be written": object()})
    assert found.errors["descriptors"] == "PermissionError: not yours"
    assert set(found.errors) == {"descriptors", "extra"}
    assert found.objects.largest


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("content", ["", "no JSON", '{"process":"me","pid":1,"started":"1","at":1.0}'])
def test_the_report_of_another_process_or_a_broken_one_is_no_last_report(tmp_path: Path, content: str) -> None:
    (tmp_path / "diagnosis").mkdir()
    (tmp_path / "diagnosis" / "me.json").write_text(content)
    found = diagnose(tmp_path)
    assert found.last_at is None
    assert not any(one.was_there for one in found.objects.largest)
    assert diagnose(tmp_path).last_at == found.at


def test_a_crawl_that_nobody_asks_has_nothing_of_it_in_memory() -> None:
    program = "import gossamer.run.leader, gossamer.run.process, json, sys; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    parts = {"diagnosis", "objects", "holders"}
    assert {f"gossamer.report.{part}" for part in parts}.isdisjoint(json.loads(ran.stdout))
