"""Where a store's server listens, as the fetchers are told: nothing that is crawled may lead there."""

from pathlib import Path

import pytest

from gossamer.errors import UsageError
from gossamer.frontier.stores.redis_pool import Address
from gossamer.run.data_directory import DataDirectory, Frontier
from gossamer.run.stores import StoreChoice, check_same_kind, store_endpoints


@pytest.mark.parametrize(
    ("url", "endpoints"),
    [
        ("sqlite", set()),
        ("unix:///run/redis.sock", set()),
        ("postgresql:///frontier?host=/run/postgresql", set()),
        ("redis://127.0.0.1:7000/0", {("127.0.0.1", 7000)}),
        ("rediss://user:pass@127.0.0.1/0", {("127.0.0.1", 6379)}),
        ("redis://[::1]:7000", {("::1", 7000)}),
        ("postgresql://user:p%40ss@127.0.0.1/frontier", {("127.0.0.1", 5432)}),
        ("postgresql://u@127.0.0.1:6000,127.0.0.2:6001/x", {("127.0.0.1", 6000), ("127.0.0.2", 6001)}),
        ("postgresql:///frontier?host=127.0.0.1&port=6000", {("127.0.0.1", 6000)}),
        ("postgresql:///x?host=127.0.0.1,127.0.0.2", {("127.0.0.1", 5432), ("127.0.0.2", 5432)}),
        ("postgresql://u@127.0.0.1/x?port=6000", {("127.0.0.1", 6000)}),
        ("redis://no-such-name.invalid/0", set()),
    ],
)
def test_the_places_of_a_store_are_known(url: str, endpoints: set[tuple[str, int]]) -> None:
    assert store_endpoints(url) == endpoints


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:hunter/canary@127.0.0.1/0",
        "redis://u:hunter#canary@127.0.0.1/0",
        "redis://u:canary@127.0.0.1:hunter/0",
        "postgresql://u:hunter@[::1/canary",
        "postgresql://u:hunter@127.0.0.1:99999/x",
    ],
)
def test_an_invalid_address_is_refused_without_any_part_of_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="not a valid store address") as refused:
        store_endpoints(url)
    assert "u:hunter" not in str(refused.value)
    assert "canary@" not in str(refused.value)
    assert "%2F" in str(refused.value)


@pytest.mark.parametrize("url", ["redis://u:hunter/x@127.0.0.1/0", "redis://u:hunter#x@127.0.0.1/0"])
def test_an_invalid_address_of_redis_is_refused_without_any_part_of_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="%2F") as refused:
        Address(url, "me")
    assert "hunter" not in str(refused.value)


REDIS, POSTGRES = "redis://:hidden@127.0.0.1:7000/0", "postgresql://u:hidden@127.0.0.1/x"


def crawl_in(directory: Path, *, is_embedded: bool, is_made: bool = True) -> DataDirectory:
    data = DataDirectory(directory)
    data.record_frontier(Frontier(crawl="c", is_made=is_made))
    if is_embedded:
        data.frontier.touch()
    return data


@pytest.mark.parametrize(
    ("kept", "chosen"),
    [
        ("sqlite", REDIS),
        ("sqlite", POSTGRES),
        (REDIS, "sqlite"),
        (REDIS, POSTGRES),
        (POSTGRES, "sqlite"),
        (POSTGRES, "unix:///run/redis.sock"),
        # What a version before this one has written before it opened the store.
        (REDIS, REDIS),
    ],
)
def test_a_store_of_another_kind_is_refused_with_both_named_and_no_password(
    tmp_path: Path, kept: str, chosen: str
) -> None:
    is_embedded = kept in {"sqlite", chosen}
    with pytest.raises(UsageError) as refused:
        check_same_kind(crawl_in(tmp_path, is_embedded=is_embedded), kept, StoreChoice(chosen, "GOSSAMER_STORE"))
    message = str(refused.value)
    assert "hidden" not in message
    assert "unset GOSSAMER_STORE" in message
    for url in (chosen, "sqlite" if is_embedded else kept):
        assert url.partition(":")[0] in message


@pytest.mark.parametrize(
    ("kept", "chosen", "is_embedded"),
    [
        ("sqlite", "sqlite", True),
        (REDIS, "rediss://10.0.0.5/1", False),
        (REDIS, "unix:///run/redis.sock", False),
        ("postgres://a/x", POSTGRES, False),
        (REDIS, "sqlite", True),
    ],
)
def test_another_address_of_the_same_kind_is_taken(tmp_path: Path, kept: str, chosen: str, is_embedded: bool) -> None:
    check_same_kind(crawl_in(tmp_path, is_embedded=is_embedded), kept, StoreChoice(chosen, "--store"))


def test_before_there_is_a_frontier_any_store_may_be_chosen(tmp_path: Path) -> None:
    data = crawl_in(tmp_path, is_embedded=False, is_made=False)
    check_same_kind(data, "sqlite", StoreChoice(REDIS, "--store"))
