"""What one network of servers is asked for, with the clock as a number."""

import heapq
import itertools

import pytest

from gossamer.fetch import server_addresses
from gossamer.fetch.server_addresses import ServerAddresses, Turn, network_of

HERE = 1
THERE = 2


def limited(gap: float = 0.5, concurrency: int = 2, share: float = 1.0) -> ServerAddresses:
    return ServerAddresses(gap_seconds=gap, concurrency=concurrency, share=share)


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("192.0.2.1", "192.0.2.254", True),
        ("192.0.2.1", "192.0.3.1", False),
        ("2a00:1450:4001::1", "2a00:1450:4001::ffff:0:1", True),
        ("2a00:1450:4001::1", "2a00:1450:4001:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.9", True),
        ("64:ff9b::192.0.2.1", "192.0.2.9", True),
    ],
)
def test_a_network_is_a_24_of_ipv4_or_a_64_of_ipv6(one: str, other: str, are_same: bool) -> None:
    assert (network_of(one) == network_of(other)) is are_same
    assert network_of(one) is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_this_machine_has_no_limit(address: str) -> None:
    assert network_of(address) is None


def test_visits_to_one_network_begin_a_gap_apart_and_each_site_comes_back_at_its_own_time() -> None:
    addresses = limited(concurrency=0)
    assert [addresses.visit(f"s{site}.test", HERE, 100.0) for site in range(4)] == [0.0, 100.5, 101.0, 101.5]
    # At their time they are let through, in whatever order they come; a newcomer waits behind them.
    assert addresses.visit("s2.test", HERE, 101.0) == 0.0
    assert addresses.visit("new.test", HERE, 101.0) == 102.0
    assert [addresses.visit("s1.test", HERE, 101.5), addresses.visit("s3.test", HERE, 101.9)] == [0.0, 0.0]
    assert addresses.holds == 4


def test_after_a_stall_sites_whose_time_has_come_do_not_all_begin_at_once() -> None:
    addresses = limited(gap=0.1, concurrency=0)
    for site in range(300):
        addresses.visit(f"s{site}.test", HERE, 100.0)
    again = [addresses.visit(f"s{site}.test", HERE, 1000.0) for site in range(1, 300)]
    assert again.count(0.0) == 1
    assert len(set(again)) == len(again)


@pytest.mark.parametrize("sites", [40, 60, 600])
def test_sites_are_visited_at_the_same_pace_also_if_more_wait_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch, sites: int
) -> None:
    monkeypatch.setattr(server_addresses, "RESERVATIONS_KEPT", 50)
    addresses = limited(gap=1.0, concurrency=0)
    due = [(0.0, site) for site in range(sites)]
    heapq.heapify(due)
    begun: list[float] = []
    while (now := due[0][0]) < 2_000:
        _, site = heapq.heappop(due)
        again = addresses.visit(f"s{site}.test", HERE, now)
        if not again:
            begun.append(now)
            addresses.leave(HERE)
        heapq.heappush(due, (again or now + 1.0, site))
    # Half as many as there is time for, at the worst; and never closer together than half a gap.
    assert len([at for at in begun if at >= 1_000]) > 500
    assert min(later - earlier for earlier, later in itertools.pairwise(begun)) >= 0.5


def test_networks_do_not_wait_for_each_other() -> None:
    addresses = limited()
    assert [addresses.visit("a.test", HERE, 1.0), addresses.visit("b.test", THERE, 1.0)] == [0.0, 0.0]


def test_a_network_that_was_left_alone_for_long_saves_nothing_up() -> None:
    addresses = limited(concurrency=0)
    addresses.visit("a.test", HERE, 1.0)
    assert [addresses.visit(f"s{site}.test", HERE, 1000.0) for site in range(2)] == [0.0, 1000.5]


def test_no_more_visits_at_once_than_there_are_places() -> None:
    addresses = limited(gap=0.0, concurrency=2)
    assert [addresses.visit(f"s{site}.test", HERE, 1.0) for site in range(2)] == [0.0, 0.0]
    assert addresses.visit("late.test", HERE, 1.0) > 1.0
    addresses.leave(HERE)
    assert addresses.visit("other.test", HERE, 2.0) == 0.0


def test_sites_that_find_no_place_ask_for_one_no_more_often_than_once_per_gap_together() -> None:
    addresses = limited(gap=0.5, concurrency=1)
    assert addresses.visit("slow.test", HERE, 100.0) == 0.0
    times = {f"s{site}.test": addresses.visit(f"s{site}.test", HERE, 100.0) for site in range(3)}
    assert sorted(times.values()) == [100.5, 101.0, 101.5]
    # Still no place at their time: again a time of their own each, behind all others.
    again = [addresses.visit(site, HERE, at) for site, at in times.items()]
    assert again == [102.0, 102.5, 103.0]
    addresses.leave(HERE)
    assert addresses.visit("s0.test", HERE, 102.0) == 0.0


def test_a_site_that_finds_no_place_waits_for_one_also_without_a_gap() -> None:
    addresses = limited(gap=0.0, concurrency=1)
    assert addresses.visit("slow.test", HERE, 100.0) == 0.0
    assert [addresses.visit(f"s{site}.test", HERE, 100.0) for site in range(2)] == [100.1, pytest.approx(100.2)]


def test_a_site_that_comes_before_its_time_keeps_it() -> None:
    addresses = limited(concurrency=0)
    addresses.visit("a.test", HERE, 100.0)
    assert [addresses.visit("b.test", HERE, now) for now in (100.0, 100.1, 100.5)] == [100.5, 100.5, 0.0]


def test_a_site_whose_name_leads_elsewhere_now_asks_there() -> None:
    addresses = limited(concurrency=0)
    addresses.visit("a.test", HERE, 100.0)
    assert addresses.visit("b.test", HERE, 100.0) == 100.5
    assert addresses.visit("b.test", THERE, 100.5) == 0.0


def test_the_limits_are_divided_by_the_share_of_the_slots() -> None:
    addresses = limited(gap=0.1, concurrency=8, share=0.25)
    assert addresses.visit("a.test", HERE, 100.0) == 0.0
    assert addresses.visit("b.test", HERE, 100.0) == pytest.approx(100.4)
    assert addresses.visit("b.test", HERE, 100.4) == 0.0
    assert addresses.visit("c.test", HERE, 101.0) > 101.0, "two of eight places"


def test_a_turn_within_another_needs_none_at_the_same_network() -> None:
    addresses = limited(gap=600.0, concurrency=1)
    own = Turn(addresses, lambda: 100.0, "a.test")
    assert own("192.0.2.1")
    same, elsewhere = (Turn(addresses, lambda: 100.0, "robots of a.test", own) for _ in range(2))
    assert (same("192.0.2.9"), elsewhere("198.51.100.1")) == (True, True)
    same.end()
    assert not Turn(addresses, lambda: 1000.0, "b.test")("192.0.2.1"), "the visit still has its place"
    elsewhere.end()
    assert Turn(addresses, lambda: 1000.0, "b.test")("198.51.100.1")


def test_memory_is_bounded_and_visits_in_progress_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_addresses, "NETWORKS_KEPT", 2)
    monkeypatch.setattr(server_addresses, "RESERVATIONS_KEPT", 2)
    addresses = limited(gap=10.0, concurrency=1)
    addresses.visit("a.test", 1, 100.0)
    for network in range(2, 9):
        addresses.visit(f"{network}.test", network, 100.0)
        addresses.leave(network)
    assert addresses.visit("b.test", 1, 200.0) > 200.0, "its only place is still taken"
    for site in range(5):
        addresses.visit(f"s{site}.test", 1, 100.0)
    assert len(addresses._networks) == len(addresses._reservations) == 2


def test_a_turn_is_given_back_once_and_only_if_there_was_one() -> None:
    addresses = limited(gap=0.0, concurrency=1)
    first, second = (Turn(addresses, lambda: 100.0, site) for site in ("a.test", "b.test"))
    assert (first("192.0.2.1"), second("192.0.2.2")) == (True, False)
    second.end()
    assert not Turn(addresses, lambda: 101.0, "c.test")("192.0.2.3")
    first.end()
    first.end()
    assert Turn(addresses, lambda: 102.0, "d.test")("192.0.2.3")
    assert not Turn(addresses, lambda: 103.0, "e.test")("192.0.2.3")


def test_without_limits_nothing_is_remembered() -> None:
    addresses = limited(gap=0.0, concurrency=0)
    turn = Turn(addresses, lambda: 100.0, "a.test")
    assert all(turn("192.0.2.1") for _ in range(100))
    assert not addresses._networks


def test_a_visit_that_goes_on_elsewhere_needs_a_turn_there_and_leaves_where_it_was() -> None:
    addresses = limited(gap=0.5, concurrency=1)
    now = 100.0
    turn, other = (Turn(addresses, lambda: now, name) for name in ("a.test", "b.test"))
    assert [turn("192.0.2.1"), turn("192.0.2.9")] == [True, True]
    assert not other("192.0.2.1")
    assert turn("198.51.100.1")
    now = 101.0
    assert other("192.0.2.1")
    assert not Turn(addresses, lambda: now, "c.test")("198.51.100.1")
