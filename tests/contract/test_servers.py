"""What tests and benchmarks may expect of a private server, on every Redis and PostgreSQL of this machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gossamer.testing import servers
from gossamer.testing.server_binaries import (
    POSTGRES_VARIABLE,
    REDIS_VARIABLE,
    ServerBinary,
    ServerUnavailable,
    find_postgres_servers,
    find_redis_servers,
)
from gossamer.testing.servers import PostgresServer, RedisServer

ALIVE_CHILD = """
import sys, time
from gossamer.testing.server_binaries import find_postgres_servers, find_redis_servers
from gossamer.testing.servers import PostgresServer, RedisServer
(kind,) = sys.argv[1:]
server = RedisServer(find_redis_servers()[0]) if kind == "redis" else PostgresServer(find_postgres_servers()[0])
with server:
    print(server.pid, server.port, server.directory, flush=True)
    time.sleep(600)
"""


def command(server: RedisServer, *words: str) -> str:
    """One Redis command in RESP and its answer, as far as it fits into one read."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request.encode())
        return connection.recv(65536).decode()


def query(server: PostgresServer, sql: str) -> str:
    psql = server.binary.path.parent / "psql"
    options = ["--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
    done = subprocess.run(
        [psql, server.url, *options, "--command", sql],
        env=server.binary.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def listening_addresses(port: int) -> set[str]:
    """Local addresses (hexadecimal, as the kernel prints them) that listen on this port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if Path(table).exists():
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                address, _, hexadecimal = fields[1].partition(":")
                if fields[3] == "0A" and int(hexadecimal, 16) == port:
                    found.add(address)
    return found


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def process_exists(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def comes_true(condition: Callable[[], bool], seconds: float = 50) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_redis_answers_with_the_settings_that_the_store_insists_on(redis_binary: ServerBinary) -> None:
    with RedisServer(redis_binary) as server:
        assert command(server, "PING") == "+PONG\r\n"
        assert f"process_id:{server.pid}" in command(server, "INFO", "server")
        assert f"_version:{server.version}\r\n" in command(server, "INFO", "server")
        assert "\r\nyes\r\n" in command(server, "CONFIG", "GET", "appendonly")
        assert "\r\nnoeviction\r\n" in command(server, "CONFIG", "GET", "maxmemory-policy")
        assert command(server, "CONFIG", "GET", "save").endswith("$0\r\n\r\n")
        assert server.url == f"redis://127.0.0.1:{server.port}/0"


def test_postgres_answers_in_utc_and_utf8(postgres_binary: ServerBinary) -> None:
    with PostgresServer(postgres_binary) as server:
        assert query(server, "select version()").startswith(f"PostgreSQL {server.version}")
        assert query(server, "show timezone") == "UTC"
        assert query(server, "show server_encoding") == "UTF8"
        assert query(server, "show unix_socket_directories") == ""


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_redis_listens_on_loopback_alone(redis_binary: ServerBinary) -> None:
    with RedisServer(redis_binary) as server:
        assert listening_addresses(server.port) == {"0100007F"}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_postgres_listens_on_loopback_alone(postgres_binary: ServerBinary) -> None:
    with PostgresServer(postgres_binary) as server:
        assert listening_addresses(server.port) == {"0100007F"}


@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_redis_keeps_acknowledged_data_over_a_kill_and_a_restart(redis_binary: ServerBinary, appendfsync: str) -> None:
    with RedisServer(redis_binary, settings={"appendfsync": appendfsync}) as server:
        first, port = server.pid, server.port
        assert command(server, "SET", "key", "value") == "+OK\r\n"
        server.kill()
        assert not process_exists(first)
        assert not is_open(port)
        server.restart()
        assert (server.port, server.pid != first) == (port, True)
        assert command(server, "GET", "key") == "$5\r\nvalue\r\n"
        server.restart()
        assert command(server, "GET", "key") == "$5\r\nvalue\r\n"


def test_postgres_keeps_committed_rows_over_a_kill_and_a_restart(postgres_binary: ServerBinary) -> None:
    with PostgresServer(postgres_binary) as server:
        first, port = server.pid, server.port
        query(server, "create table kept (number integer); insert into kept values (42)")
        server.kill()
        assert not process_exists(first)
        assert not is_open(port)
        server.restart()
        assert (server.port, server.pid != first) == (port, True)
        assert query(server, "select number from kept") == "42"
        server.restart()
        assert query(server, "select number from kept") == "42"


def test_killing_postgres_in_the_middle_of_a_query_leaves_no_backend(postgres_binary: ServerBinary) -> None:
    with PostgresServer(postgres_binary) as server:
        psql = server.binary.path.parent / "psql"
        endless = "select count(*) from generate_series(1, 1000000000000)"
        busy = subprocess.Popen(
            [psql, server.url, "--no-psqlrc", "--command", endless],
            env=server.binary.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Others may be active, too: this very question, autovacuum.
        active = "select pid from pg_stat_activity where state = 'active' and query like 'select count(*)%'"
        assert comes_true(lambda: query(server, active) != "")
        backend = int(query(server, active))
        server.kill()
        assert not process_exists(backend)
        assert busy.wait(60) != 0
        server.restart()
        assert query(server, "select 1") == "1"


def test_redis_leaves_nothing_behind(redis_binary: ServerBinary) -> None:
    with RedisServer(redis_binary) as server:
        pid, port, directory = server.pid, server.port, server.directory
        assert directory.is_dir()
    assert (process_exists(pid), is_open(port), directory.exists()) == (False, False, False)


def test_postgres_leaves_nothing_behind_also_on_an_exception(postgres_binary: ServerBinary) -> None:
    def crash() -> None:
        with server:
            seen.append((server.pid, server.port, server.directory))
            raise ZeroDivisionError

    server = PostgresServer(postgres_binary)
    seen: list[tuple[int, int, Path]] = []
    with pytest.raises(ZeroDivisionError):
        crash()
    ((pid, port, directory),) = seen
    assert (process_exists(pid), is_open(port), directory.exists()) == (False, False, False)


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["redis", "postgresql"])
def test_servers_end_and_their_directories_go_when_the_process_that_started_them_is_killed(kind: str) -> None:
    if not (find_redis_servers() if kind == "redis" else find_postgres_servers()):
        pytest.skip(f"there is no {kind} server")
    child = subprocess.Popen([sys.executable, "-c", ALIVE_CHILD, kind], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid, port, directory = child.stdout.readline().split()
    child.kill()
    child.communicate()
    assert comes_true(lambda: not process_exists(int(pid)))
    assert comes_true(lambda: not Path(directory).exists())
    assert not is_open(int(port))


def test_a_stopped_server_says_that_it_is_down_instead_of_giving_a_pid(redis_binary: ServerBinary) -> None:
    with RedisServer(redis_binary) as server:
        server.kill()
        with pytest.raises(ServerUnavailable, match="not running"):
            _ = server.pid
        server.kill()


@pytest.fixture
def taken_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port that the next server tries first, and that somebody else has."""
    with socket.socket() as rival:
        rival.bind(("127.0.0.1", 0))
        rival.listen()
        taken: int = rival.getsockname()[1]
        ports, free_port = [taken], servers.free_port
        monkeypatch.setattr(servers, "free_port", lambda: ports.pop() if ports else free_port())
        yield taken


def test_a_port_that_is_taken_is_given_up_for_another(redis_binary: ServerBinary, taken_port: int) -> None:
    with RedisServer(redis_binary) as server:
        assert command(server, "PING") == "+PONG\r\n"
        assert server.port != taken_port


def test_a_postgres_port_that_is_taken_is_given_up_for_another(postgres_binary: ServerBinary, taken_port: int) -> None:
    with PostgresServer(postgres_binary) as server:
        assert query(server, "select 1") == "1"
        assert server.port != taken_port


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's process table")
def test_postgres_never_runs_as_root(postgres_binary: ServerBinary) -> None:
    with PostgresServer(postgres_binary) as server:
        owner = Path(f"/proc/{server.pid}").stat().st_uid
        assert owner != 0
        assert os.geteuid() in {0, owner}


def test_postgres_runs_from_a_directory_that_only_its_owner_can_enter(
    postgres_binary: ServerBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = postgres_binary.path.parent.parent
    if installation.is_relative_to("/usr"):
        pytest.skip("the system's installation has parts elsewhere in /usr and is never private")
    # Laid out like a wheel: the package, and its libraries beside it.
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    package = installation.parent
    shutil.copytree(installation, private / package.name / installation.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, private / libraries.name)
    monkeypatch.setenv(POSTGRES_VARIABLE, str(private / package.name / installation.name / "bin"))
    (binary,) = find_postgres_servers()
    assert binary.path.is_relative_to(private)
    with PostgresServer(binary) as server:
        assert query(server, "select 1") == "1"


def test_the_ports_of_system_services_are_never_chosen() -> None:
    assert not {6379, 5432} & set(servers.PORTS)
    assert {servers.free_port() for _ in range(50)} <= set(servers.PORTS)


def test_a_program_that_is_too_old_or_none_at_all_is_not_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "redis-server"
    monkeypatch.setenv(REDIS_VARIABLE, str(program))
    assert find_redis_servers() == []
    for words, usable in (
        ("Redis server v=6.2.9 sha=0", False),
        ("something else", False),
        ("Redis server v=7.0.0", True),
    ):
        program.write_text(f"#!/bin/sh\necho '{words}'\n")
        program.chmod(0o755)
        assert bool(find_redis_servers()) is usable, words


def test_a_server_that_cannot_start_is_an_error_that_repeats_its_words(redis_binary: ServerBinary) -> None:
    server = RedisServer(redis_binary, settings={"appendonly": "perhaps"})
    with pytest.raises(ServerUnavailable, match="appendonly"), server:
        pass
    assert not server.directory.exists()


def test_the_shared_servers_answer(redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    assert command(redis_server, "PING") == "+PONG\r\n"
    assert query(postgres_server, "select 1") == "1"
