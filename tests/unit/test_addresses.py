"""Which addresses are of the open web."""

import os
import resource
import socket
from ipaddress import ip_address
from types import SimpleNamespace

import pytest

from gossamer.config import FetchSettings
from gossamer.fetch import addresses
from gossamer.fetch.addresses import Address, AddressPolicy, is_forbidden, is_own, ports_of
from gossamer.fetch.translation import reason_for
from gossamer.records import Reason
from gossamer.testing.web.hostile.redirects import PRIVATE_HOSTS, SPELLINGS
from gossamer.testing.web.resolver import PRIVATE_ADDRESSES
from gossamer.url import Url, canonicalise

#: Of the Fetch standard, https://fetch.spec.whatwg.org/#port-blocking.
BAD_PORTS = {
    *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109),
    *(
        110,
        111,
        113,
        115,
        117,
        119,
        123,
        135,
        137,
        139,
        143,
        161,
        179,
        389,
        427,
        465,
        512,
        513,
        514,
        515,
        526,
        530,
        531,
    ),
    *(532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060),
    *(5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
}

#: The first and the last address of what is set aside, each beside its neighbour outside where that is of the web.
BORDERS = [
    ("9.255.255.255", "10.0.0.0"),
    ("11.0.0.0", "10.255.255.255"),
    ("100.63.255.255", "100.64.0.0"),
    ("100.128.0.0", "100.127.255.255"),
    ("126.255.255.255", "127.0.0.0"),
    ("128.0.0.0", "127.255.255.255"),
    ("168.63.129.15", "168.63.129.16"),
    ("168.63.129.17", "168.63.129.16"),
    ("169.253.255.255", "169.254.0.0"),
    ("169.255.0.0", "169.254.255.255"),
    ("172.15.255.255", "172.16.0.0"),
    ("172.32.0.0", "172.31.255.255"),
    ("192.0.1.0", "192.0.0.255"),
    ("192.0.3.0", "192.0.2.1"),
    ("192.88.98.255", "192.88.99.1"),
    ("192.167.255.255", "192.168.0.0"),
    ("192.169.0.0", "192.168.255.255"),
    ("198.17.255.255", "198.18.0.0"),
    ("198.20.0.0", "198.19.255.255"),
    ("198.51.101.0", "198.51.100.7"),
    ("203.0.112.255", "203.0.113.10"),
    ("223.255.255.255", "224.0.0.0"),
    ("8.8.8.8", "240.0.0.1"),
    ("1.0.0.0", "0.255.255.255"),
    ("2606:4700::1111", "::"),
    ("2a00:1450::1", "::1"),
    ("2001:200::1", "2001:1ff::1"),
    ("2001:db7::1", "2001:db8::1"),
    ("3ffe::1", "3fff::1"),
    ("2000::1", "1fff::1"),
    ("3fef::1", "4000::1"),
    ("2400::1", "fc00::1"),
    ("2400::1", "fd00::1"),
    ("2400::1", "fe80::1"),
    ("2400::1", "fec0::1"),
    ("2400::1", "ff02::1"),
    ("2400::1", "100::1"),
    ("2400::1", "64:ff9b:1::808:808"),
    # Carried: mapped, translated, 6to4, Teredo (the client's address is inverted in it); compatible ones are withdrawn.
    ("::ffff:8.8.8.8", "::ffff:10.0.0.1"),
    ("64:ff9b::808:808", "64:ff9b::a9fe:a9fe"),
    ("2002:808:808::1", "2002:c0a8:101::1"),
    ("2001:0:808:808::f7f7:f7f7", "2001:0:808:808::80ff:fffe"),
    ("2001:0:808:808::f7f7:f7f7", "2001:0:7f00:1::f7f7:f7f7"),
    ("2400::1", "::8.8.8.8"),
    # ISATAP, with both of its forms, whatever the prefix; what only ends in such an address is none.
    ("2400::5efe:808:808", "2400::5efe:a00:1"),
    ("2400::200:5efe:808:808", "2400::200:5efe:a9fe:a9fe"),
    ("2400::1:5efe:a00:1", "2400:1:2:3:0:5efe:7f00:1"),
    ("2400::a00:1", "fe80::5efe:808:808"),
    ("2002:808:808::5efe:808:808", "2002:808:808::5efe:a83f:8110"),
]


@pytest.mark.parametrize(("open_web", "forbidden"), BORDERS)
def test_only_global_unicast_is_of_the_open_web(open_web: str, forbidden: str) -> None:
    assert (is_forbidden(ip_address(open_web)), is_forbidden(ip_address(forbidden))) == (False, True)


@pytest.mark.parametrize("host", [*PRIVATE_HOSTS, *SPELLINGS, *PRIVATE_ADDRESSES.values()])
def test_every_private_address_of_the_hostile_table_is_forbidden_in_every_spelling(host: str) -> None:
    url = canonicalise(f"http://{f'[{host}]' if host.count(':') > 1 and host[0] != '[' else host}/")
    assert isinstance(url, Url)
    assert is_forbidden(ip_address(url.host.strip("[]")))
    policy = AddressPolicy(allow_private=False, forbidden_endpoints=())
    assert policy.refuses(url.host.strip("[]"), 80)


def test_private_addresses_can_be_allowed_and_the_open_web_always_is() -> None:
    strict = AddressPolicy(allow_private=False, forbidden_endpoints=())
    open_to_all = AddressPolicy(allow_private=True, forbidden_endpoints=())
    assert (strict.refuses("127.0.0.1", 80), open_to_all.refuses("127.0.0.1", 80)) == (True, False)
    assert (strict.refuses("8.8.8.8", 80), open_to_all.refuses("8.8.8.8", 80)) == (False, False)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("store", ["127.0.0.1", "::1"])
def test_the_own_store_is_out_of_reach_by_all_names_of_this_machine(store: str, address: str) -> None:
    policy = AddressPolicy(allow_private=True, forbidden_endpoints={(store, 6379), ("10.0.0.5", 5432)})
    assert policy.refuses(address, 6379)
    assert not policy.refuses(address, 6380)
    assert policy.refuses("10.0.0.5", 5432)
    assert policy.refuses("::ffff:10.0.0.5", 5432)
    assert not policy.refuses("10.0.0.6", 5432)


def own_address() -> str:
    """An address of this machine that is not loopback, or a test network's where it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
    return address


@pytest.mark.parametrize("form", ["{0}", "::ffff:{0}", "64:ff9b::{0}", "2400::5efe:{0}", "2400::200:5efe:{0}"])
def test_this_machines_own_addresses_are_known_in_every_form(form: str) -> None:
    assert is_own(ip_address(form.format(own_address())))
    assert is_own(ip_address(form.format("127.0.0.1")))
    assert not is_own(ip_address(form.format("192.0.2.1")))


@pytest.mark.parametrize("address", ["2400::7f00:1", "2001:4860:4860::8888", "2400::", "8.8.8.8", "0.0.0.0"])
def test_other_addresses_are_not_this_machines_own(address: str) -> None:
    assert not is_own(ip_address(address))


def test_without_descriptors_an_address_is_neither_allowed_nor_blocked() -> None:
    """The URL goes back, and nobody is charged; it is found out the next time."""
    policy = AddressPolicy(allow_private=False, forbidden_endpoints=())
    addresses._is_own.cache_clear()
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, most))
    try:
        with pytest.raises(OSError, match="Too many open files") as caught:
            policy.refuses("8.8.8.8", 80)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    assert reason_for(caught.value) is Reason.OUR_SHORTAGE
    assert not policy.refuses("8.8.8.8", 80)


def test_an_address_that_becomes_this_machines_own_is_noticed_after_some_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = SimpleNamespace(now=0.0)
    asked: list[Address] = []

    def has_interface(address: Address) -> bool:
        asked.append(address)
        return len(asked) == 3

    monkeypatch.setattr(addresses, "time", SimpleNamespace(monotonic=lambda: played.now))
    monkeypatch.setattr(addresses, "_has_interface", has_interface)
    addresses._is_own.cache_clear()
    policy = AddressPolicy(allow_private=False, forbidden_endpoints=())
    found = []
    for played.now in (0.0, 1.0, 299.0, 301.0, 401.0, 601.0):
        found.append(policy.refuses("8.8.8.8", 80))
    assert (found, len(asked)) == ([False] * 5 + [True], 3)
    addresses._is_own.cache_clear()


def test_ports_are_read_with_their_ranges() -> None:
    assert ports_of("") == frozenset()
    assert ports_of(" 22  6665-6667 ") == {22, 6665, 6666, 6667}
    blocked = ports_of(FetchSettings().blocked_ports)
    assert blocked >= BAD_PORTS
    assert {5432, 6379, 9200, 11211, 2375, 3306, 27017, 5672} <= blocked
    assert not blocked & {80, 81, 443, 591, 3000, 5000, 8000, 8008, 8080, 8081, 8088, 8090, 8443, 8888, 9000, 9443}


def test_a_blocked_port_is_refused_whatever_the_address() -> None:
    policy = AddressPolicy(allow_private=True, forbidden_endpoints=(), blocked_ports=frozenset({22}))
    assert policy.refuses_port(22)
    assert not policy.refuses_port(80)
