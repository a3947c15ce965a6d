"""What sites and users write that must not come out again: passwords nowhere, control characters never raw.

And the other direction: random bytes in the files of a crawl. Each is rejected, counted, and costs no page.
"""

import contextlib
import gzip
import json
import os
import random
import re
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from gossamer.records import Result
from gossamer.spool.segment import read_segment
from gossamer.testing.web.graph import Web
from tests.crawl.conftest import PATIENCE_SECONDS, Crawls, assert_each_once, crawls_of, fetches_in, pages_in
from tests.crawl.test_deaths import processes, until

SECRET = "hunter2canary"
#: What means something to terminals, logs, format strings, templates, shells, SQL, Lua and file systems.
NASTY = (
    "\x1b]0;canary\x07\x1b[31m\x9b31m\x00\x08\x7f\x85\u202e\u2028\r\nSet-Cookie: canary=1\r\n\r\n"
    "'\"`|{}{0}{{7*7}}%s%n%(x)s$(touch canary)`touch canary`;--'); DROP TABLE seen;--]]os.exit()--[[../../../canary\\"
)
#: Raw in a UTF-8 file: what a terminal obeys. Line feeds end lines.
RAW_CONTROLS = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
FILE_NAME = re.compile(r"[A-Za-z0-9._-]+")
NASTY_PATHS = [
    *("/pipe|pipe", "/quotes'%22%60", "/braces{}{0}%7B%7B7*7%7D%7D", "/format%25s%25n", "/lines%0D%0AX-Canary:%201"),
    *("/escape%1B%5B31m", "/nul%00", "/..%2F..%2F..%2Fcanary", "/%2e%2e%2fcanary", "/sql'%29;DROP%20TABLE%20seen;--"),
    *("/]]os.exit()--[[", "/*?*[a-z]", "/bidi%E2%80%AE", "/surrogate%ED%A0%80", "/$(touch%20canary)", "/" + "x" * 300),
]


def page(body: str, *headers: str) -> bytes:
    content = f"<!doctype html>{body}".encode("utf-8", "surrogatepass")
    lines = ["HTTP/1.1 200 \x1b[31mcanary", "Content-Type: text/html; charset=utf-8", *headers]
    lines += [f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + content


def home(host: str) -> bytes:
    links = "".join(f'<a href="{path}">x</a>' for path in NASTY_PATHS)
    credentials = "".join(
        f"<a href='{place}'>x</a>"
        for place in (
            f"http://user:{SECRET}@{host}/with-password",
            f"http://{SECRET}@{host}/with-user",
            f"//user:{SECRET}@{host}/without-scheme",
            f"http:///user:{SECRET}@other.test/more-slashes",
            f"http:\\\\user:{SECRET}@{host}\\backslashes",
            f"http://user:{SECRET}@{host}:99999/no-port",
            f"ftp://user:{SECRET}@{host}/no-scheme",
            f"http://user:{SECRET}@[::1/no-host",
            f"http://user:{SECRET}@127.0.0.1/no-address",
            f"http://user:{SECRET}@unreachable.test:1/nobody",
        )
    )
    head = (
        f"<html lang='{NASTY}'><title>Canary {NASTY}&#xD800;\ud800</title>"
        f'<meta name=description content="{NASTY.replace(chr(34), "")}">'
        f'<meta name=robots content="max-snippet:{NASTY.replace(chr(34), "")}">'
        f"<link rel=canonical href='http://user:{SECRET}@{host}/canonical'>"
        f"<meta http-equiv=refresh content='0;url=http://user:{SECRET}@{host}/refreshed'>"
    )
    text = NASTY.replace("<", "&lt;")
    return page(
        f"{head}<p>{text}</p><pre>{text}</pre>{links}{credentials}<a href='/redirect'>x</a><a href='/odd'>x</a>",
        "Server: \x1b]0;canary\x07'\"|{}%s",
        f"Set-Cookie: session={SECRET}; path=/",
        f"Link: <http://user:{SECRET}@{host}/header>; rel=canonical",
        "X-Robots-Tag: \x1b[31mcanary, unavailable_after: \x07{}|",
    )


def answer(target: str, host: str) -> bytes:
    if target == "/robots.txt":
        rules = f"User-agent: *\r\nDisallow: /disallowed\x1b[31m|{{}}\r\n{NASTY}\r\nCrawl-delay: {NASTY}\r\n"
        content = rules.encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)
    if target == "/":
        return home(host)
    if target == "/redirect":
        where = f"http://user:{SECRET}@{host}/redirected?\x1b[31m\x07|{{}}"
        return f"HTTP/1.1 302 \x1b[31mFound\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()
    if target == "/odd":
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\x1b[31m\x07'\"{}|%s\r\n\r\n<title>odd</title>"
    return page("<title>leaf</title>")


class HostileServer(socketserver.ThreadingTCPServer):
    """Every host on one port of loopback; remembers what it was asked for."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.heads: list[str] = []


class Exchange(socketserver.StreamRequestHandler):
    """One request, one answer."""

    def handle(self) -> None:
        lines = []
        while (line := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
            lines.append(line)
        if lines:
            assert isinstance(self.server, HostileServer)
            self.server.heads.append("\n".join(lines))
            host = next(line[6:] for line in lines if line.lower().startswith("host: "))
            self.wfile.write(answer(lines[0].split(" ")[1], host))


@contextlib.contextmanager
def hostile_server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]


def crawl(directory: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    done = subprocess.run(
        [sys.executable, "-m", "gossamer", *arguments],
        capture_output=True,
        env=environment,
        cwd=directory,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode(errors="replace")
    return done


def test_passwords_come_out_nowhere_and_control_characters_never_raw(tmp_path: Path, store: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    seeds = tmp_path / "seeds.gz"
    seeds.write_bytes(
        gzip.compress(
            b"http://user:%(s)s@file.test/?from-file\nhttp://user:%(s)s@file.test:99999/\n"
            b"ftp://user:%(s)s@file.test/\nuser:%(s)s@file.test\n\x1b[31m\x07\xff|{}%%s\n" % {b"s": SECRET.encode()}
        )
    )
    with hostile_server() as server:
        done = crawl(
            work,
            "crawl",
            "http://canary.test/",
            f"http://user:{SECRET}@typed.test/?typed",
            f"--seed-file={seeds}",
            "--email=test@example.org",
            "--data-dir=data",
            f"--store={store}",
            "--delay=0",
            "--backoff=0.01",
            "--log-level=debug",
            f"--connect-to=127.0.0.1:{server.server_address[1]}",
        )
    # It was a crawl of all that, not of nothing.
    asked = {
        tuple(head.split("\n")[0].split(" ")[1:2] + re.findall("(?im)^host: (.*)$", head)) for head in server.heads
    }
    for path in ("/with-password", "/with-user", "/without-scheme", "/backslashes", "/redirect", "/refreshed", "/odd"):
        assert (path, "canary.test") in asked
    assert {("/more-slashes", "other.test"), ("/?typed", "typed.test"), ("/?from-file", "file.test")} <= asked
    assert sum(path.startswith("/redirected?") for path, _ in asked) == 1
    rows = pages_in(work / "data")
    pages = {found["url"]: found for found in rows}
    assert len(rows) == len(pages) >= len(NASTY_PATHS) + 10
    assert pages["http://canary.test/"]["title"].startswith("Canary ")
    assert "DROP TABLE seen" in pages["http://canary.test/"]["text"]

    # Passwords: not sent on, not printed, not written.
    assert [head for head in server.heads if SECRET in head or "authorization" in head.lower()] == []
    assert SECRET.encode() not in done.stdout + done.stderr
    assert [str(file) for file in files(work) if SECRET.encode() in file.read_bytes()] == []
    # Tables are compressed; the archive holds what was sent, as it must.
    cells = [(name, str(cell)) for row in (*rows, *fetches_in(work / "data")) for name, cell in row.items()]
    assert [cell for cell in cells if SECRET in cell[1]] == []
    assert (work / "data" / "seeds").read_text().splitlines() == [
        *("http://canary.test/", "http://typed.test/?typed", "http://file.test/?from-file")
    ]

    # Controls: what a person or a program reads line by line has none but the ends of the lines.
    logs = [file for file in files(work / "data" / "log") if file.suffix == ".log"]
    indexes = files(work / "data" / "index")
    assert logs
    assert indexes
    for text in (done.stdout, done.stderr, *(file.read_bytes() for file in (*logs, *indexes))):
        assert RAW_CONTROLS.findall(text) == []
    # What is text may have its tabs and lines; all else that a page or a server says has none.
    assert [cell for cell in cells if RAW_CONTROLS.findall(cell[1].replace("\t", "").encode())] == []
    assert {name for name, cell in cells if "\n" in cell} <= {"text", "main_text"}
    for log in logs:
        assert log.read_bytes().isascii()
        assert all(json.loads(line)["message"] for line in log.read_text().splitlines())

    # Names of files are ours, and nothing was run that a page had written.
    assert [path for path in work.rglob("*") if not FILE_NAME.fullmatch(path.name)] == []
    assert [path for path in tmp_path.rglob("*canary*") if path.is_file()] == []
    assert {path.name for path in work.iterdir()} == {"data"}


# Random bytes in our own files.


SEGMENTS = 12
#: So that segments are closed by the clock, and there are many.
DELAY_SECONDS = 0.1


#: So that no parser commits before it is told to, however long it takes until there are so many segments.
NO_COMMIT = ("--commit-pages=100000", "--commit-interval=86400")


def uncommitted(crawls: Crawls) -> list[Path]:
    """Segments that the parser has claimed and the store knows, but for those that a commit names: it removes them.

    One that has nothing but attempts, whose URLs are back in their queues, is not known to the store: in `open` it is
    removed, damaged or not.
    """
    claimed = sorted((crawls.data / "spool" / "claimed" / "parser-0").glob("*.seg"))
    record = crawls.data / "commit" / "parser-0.json"
    named = msgspec.json.decode(record.read_bytes())["segments"] if record.exists() else []
    return [path for path in claimed if path.relative_to(crawls.data).as_posix() not in named and has_results(path)]


def has_results(segment: Path) -> bool:
    try:
        return any(outcome.result is not Result.RETRY for outcome in read_segment(segment))
    except FileNotFoundError:
        return False  # a commit was quicker


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def is_stopped(pid: int) -> bool:
    """What it was told by the system to do at that moment is done, too."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"T", "Z"}


def kill_in_mid_crawl(crawls: Crawls) -> None:
    """Everything at once, when the parser has claimed some segments that it has not committed."""
    running = crawls.start("--num-fetcher-processes=2", "--num-parser-processes=1", *NO_COMMIT, delay=DELAY_SECONDS)
    while True:
        until(lambda: len(uncommitted(crawls)) >= SEGMENTS, "the crawl does not get on")
        everybody = (running.pid, *processes(crawls).started)
        # The leader has the parser commit when there is nothing to fetch; stopped, it cannot be about to.
        send(everybody, signal.SIGSTOP)
        until(lambda everybody=everybody: all(map(is_stopped, everybody)), "a process does not stop")
        if len(uncommitted(crawls)) >= SEGMENTS:
            break
        send(everybody, signal.SIGCONT)
    send(everybody, signal.SIGKILL)
    running.communicate()


@pytest.fixture
def killed(tmp_path: Path, store: str) -> Iterator[Crawls]:
    web = Web(sites=20, pages=25, links_per_page=20, median_bytes=4_000, crawl_delay_seconds=0.2)
    with crawls_of(web, tmp_path, store) as crawls:
        kill_in_mid_crawl(crawls)
        yield crawls


def test_random_bytes_in_the_spool_are_rejected_and_cost_no_page(killed: Crawls) -> None:
    dice = random.Random(20)
    spool = killed.data / "spool"
    # Any of them could be in any of these places: accepted by the store and not yet published, or not yet claimed.
    damaged = uncommitted(killed)[:SEGMENTS]
    assert len(damaged) == SEGMENTS
    for number, segment in enumerate(damaged):
        length = segment.stat().st_size
        segment.write_bytes(dice.randbytes([length, length // 2, 0, length + 99][number % 4]))
        if number % 3:
            segment.rename(spool / ["open", "ready"][number % 3 - 1] / segment.name)
    (killed.data / "seeds.offset").write_bytes(dice.randbytes(20))
    (spool / "claimed" / "parser-0.note").write_bytes(dice.randbytes(64))
    for stranger in ("open/random", "ready/random.seg", "ready/00001-000-x.1.1.seg", "claimed/parser-0/random"):
        (spool / stranger).write_bytes(dice.randbytes(100))
    summary = killed.resume()
    assert (summary["stop_reason"], summary["queued"]) == ("exhausted", 0)
    assert_each_once(killed.pages(), killed.expected_pages())
    assert sorted(path.name for path in (spool / "quarantine").iterdir()) == [segment.name for segment in damaged]
    assert "goes to quarantine" in killed.logs()
    assert "segments that could not be parsed:" in killed.logs()
    judged = killed.judge(delay=DELAY_SECONDS, repeats=2_000, restarts=1)
    assert judged.is_clean, judged.verdict


def refusal(crawls: Crawls, code: int) -> str:
    failed = crawls.start_again()
    output, errors = failed.communicate(timeout=PATIENCE_SECONDS)
    assert (failed.returncode, output) == (code, ""), errors
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def test_what_cannot_be_recovered_from_random_bytes_is_named_and_nothing_is_lost(killed: Crawls) -> None:
    dice = random.Random(21)
    (killed.data / "commit").mkdir(exist_ok=True)
    for name, code, advice in (
        ("commit/parser-0.json", 1, "move it away"),
        ("spool/serials/000", 1, "remove the file"),
        ("crawl.toml", 2, "cannot be read"),
        ("exclusions", 2, "--exclude-file"),
    ):
        file = killed.data / name
        before = file.read_bytes() if file.exists() else None
        file.write_bytes(b"\xff" + dice.randbytes(200))
        message = refusal(killed, code)
        assert str(file) in message
        assert advice in message
        file.unlink()
        if before is not None:
            file.write_bytes(before)
    assert killed.resume()["stop_reason"] == "exhausted"
    assert_each_once(killed.pages(), killed.expected_pages())
