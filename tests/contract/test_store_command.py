"""`gossamer store`, as a person types it, against real servers."""

import asyncio
import json
import secrets
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gossamer.cli.main import main
from gossamer.frontier.store import AdmitLimits, Store
from gossamer.frontier.stores.server import Connecting
from gossamer.records import Candidate
from gossamer.testing.server_binaries import ServerBinary
from gossamer.testing.servers import PostgresServer, RedisServer
from gossamer.url import redacted, stable_hash

Said = Callable[..., tuple[int, str]]
URL = "https://a.example/"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*arguments: str) -> tuple[int, str]:
        code = main(["store", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.fixture(params=["redis", "postgresql"])
def server(request: pytest.FixtureRequest) -> RedisServer | PostgresServer:
    found: RedisServer | PostgresServer = request.getfixturevalue(
        "redis_server" if request.param == "redis" else "postgres_server"
    )
    return found


def frontier(url: str, crawl: str, directory: Path) -> Store:
    connecting = Connecting(url=url, crawl=crawl, slots=4, may_create=True, created_by="somebody's host:/crawl")
    store: Store
    if url.startswith("redis"):
        store = import_module("gossamer.frontier.stores.redis").RedisStore(connecting, queues=directory)
    else:
        store = import_module("gossamer.frontier.stores.postgres").PostgresStore(connecting)
    return store


async def admit_one(store: Store) -> None:
    await store.open()
    try:
        await store.admit([Candidate(URL, "a.example", stable_hash(URL))], AdmitLimits(), now=0.0)
    finally:
        await store.close()


def test_check_shows_a_fit_server_and_the_crawls_on_it_and_remove_takes_one_away(
    server: RedisServer | PostgresServer, said: Said, tmp_path: Path
) -> None:
    crawl = secrets.token_hex(6)
    asyncio.run(admit_one(frontier(server.url, crawl, tmp_path)))
    code, text = said("check", server.url)
    assert code == 0
    (line,) = [line for line in text.splitlines() if crawl in line]
    assert "somebody's host:/crawl" in line
    assert "1 URL admitted, 0 finished" in line
    assert text.splitlines()[-1] == f"{redacted(server.url)} is fit for a crawl"
    assert said("remove", server.url, crawl)[0] == 0
    assert crawl not in said("check", server.url)[1]
    code, text = said("remove", server.url, crawl)
    assert (code, crawl in text) == (2, True)


def test_check_prints_findings_as_json(server: RedisServer | PostgresServer, said: Said) -> None:
    code, text = said("check", server.url, "--json")
    findings = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert {"good", "advice"} == {finding["verdict"] for finding in findings}
    assert all(finding["advice"] for finding in findings if finding["verdict"] == "advice")


def test_a_server_that_could_lose_the_frontier_is_not_fit_and_no_crawl_starts_on_it(
    redis_binary: ServerBinary, said: Said, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"appendonly": "no", "maxmemory-policy": "allkeys-lru"}
    with RedisServer(redis_binary, settings) as server:
        code, text = said("check", server.url)
        assert code == 3
        assert "set appendonly yes" in text
        assert "set maxmemory-policy noeviction" in text
        assert text.splitlines()[-1] == f"{server.url} is not fit for a crawl"
        arguments = ["crawl", "a.example", "--email=a@example.org", f"--store={server.url}"]
        assert main([*arguments, f"--data-dir={tmp_path / 'new'}"]) == 3
        refusal = capsys.readouterr().err
        assert "is not fit for a crawl: maxmemory-policy is allkeys-lru" in refusal
        assert "--unsafe-store" in refusal
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "mysql://u:secret@h/"], "'mysql://***@h/': not a store; give sqlite, redis://"),
        (["check", "sqlite", "x"], "only remove takes a crawl"),
        (["remove", "redis://127.0.0.1:1/0"], "which crawl?"),
        (["remove", "sqlite", "x"], "is a file of the data directory"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_says_what_to_do(arguments: list[str], words: str, said: Said) -> None:
    code, text = said(*arguments)
    assert code == 2
    assert words in text


def test_the_embedded_store_is_checked_too(said: Said) -> None:
    code, text = said("check", "sqlite")
    assert code == 0
    assert text.endswith("sqlite is fit for a crawl\n")
