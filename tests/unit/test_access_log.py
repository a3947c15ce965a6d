"""What the simulated web writes down is read back as it was, whatever the client sent and however the server ended."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.errors import UsageError
from gossamer.testing.web import access_log
from gossamer.testing.web.access_log import Request

ORDINARY = Request(1_000, 2_500, False, "http", "s1.test", "/a?b=c", 200, 512, 40_001, "Gossamer/0.1.0 (+x@y.test)")
#: A server decodes what a client sent as UTF-8 with surrogate escapes or as Latin-1: either way every octet survives.
SENT = st.binary(max_size=40).map(lambda octets: octets.decode(errors="surrogateescape")) | st.text(
    st.characters(max_codepoint=0xFF), max_size=40
)


def written(directory: Path, *requests: Request, name: str = "access.log") -> Path:
    file = directory / name
    file.write_text("".join(f"{access_log.line(request)}\n" for request in requests), encoding="ascii")
    return file


def test_the_format_is_what_it_was() -> None:
    assert access_log.line(ORDINARY) == (
        "1000\t2500\t0\thttp\ts1.test\t/a?b=c\t200\t512\t40001\tGossamer/0.1.0 (+x@y.test)"
    )


def test_what_would_break_a_line_is_encoded() -> None:
    line = access_log.line(ORDINARY._replace(aborted=True, path="/%41\t\n\r\x85é", user_agent=""))
    assert line == "1000\t2500\t1\thttp\ts1.test\t/%2541%09%0A%0D%C2%85%C3%A9\t200\t512\t40001\t"
    assert len(line.splitlines()) == 1


@given(host=SENT, path=SENT, agent=SENT, aborted=st.booleans(), status=st.integers(0, 999))
def test_every_request_is_read_back_as_it_was(host: str, path: str, agent: str, aborted: bool, status: int) -> None:
    request = ORDINARY._replace(host=host, path=path, user_agent=agent, aborted=aborted, status=status)
    line = access_log.line(request)
    assert line.isascii()
    assert line.replace("\t", "").isprintable()
    assert access_log._request(f"{line}\n") == request


def test_the_files_of_several_processes_are_read_one_after_the_other(tmp_path: Path) -> None:
    later = ORDINARY._replace(started_at_ns=5_000, ended_at_ns=6_000)
    files = [written(tmp_path, later, name="0.log"), written(tmp_path, ORDINARY, name="1.log")]
    assert list(access_log.read(files)) == [later, ORDINARY]


@pytest.mark.parametrize("left", [1, 7, 20, 60])
def test_a_torn_last_line_is_left_out(tmp_path: Path, left: int) -> None:
    file = written(tmp_path, ORDINARY, ORDINARY)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:left])
    assert list(access_log.read([file])) == [ORDINARY, ORDINARY]


def test_a_whole_line_without_its_end_is_torn_too(tmp_path: Path) -> None:
    """Its last field may have lost some of its text: nobody can tell."""
    file = written(tmp_path, ORDINARY)
    file.write_bytes(file.read_bytes()[:-1])
    assert list(access_log.read([file])) == []


def test_an_empty_log_has_no_requests(tmp_path: Path) -> None:
    assert list(access_log.read([written(tmp_path)])) == []


@pytest.mark.parametrize("content", [b"GET / HTTP/1.1\n", b"1\t2\n", b"a\tb\t0\th\th\th\t1\t1\t1\t\n", b"\xff\xfe\n"])
def test_another_kind_of_file_is_named_and_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.txt"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"other\.txt: no access log"):
        list(access_log.read([file]))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read '.*gone\.log': No such file"):
        list(access_log.read([tmp_path / "gone.log"]))
