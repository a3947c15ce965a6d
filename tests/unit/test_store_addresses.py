"""Where a store's server listens, as the fetchers are told: nothing that is crawled may lead there."""

import pytest

from gossamer.run.stores import store_endpoints


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
        ("redis://no-such-name.invalid/0", set()),
    ],
)
def test_the_places_of_a_store_are_known(url: str, endpoints: set[tuple[str, int]]) -> None:
    assert store_endpoints(url) == endpoints
