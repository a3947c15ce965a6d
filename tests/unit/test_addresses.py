"""Which addresses are of the open web."""

from ipaddress import ip_address

import pytest

from gossamer.fetch.addresses import AddressPolicy, is_forbidden
from gossamer.testing.web.hostile.redirects import PRIVATE_HOSTS, SPELLINGS
from gossamer.testing.web.resolver import PRIVATE_ADDRESSES
from gossamer.url import Url, canonicalise

#: The first and the last address of what is set aside, each beside its neighbour outside where that is of the web.
BORDERS = [
    ("9.255.255.255", "10.0.0.0"),
    ("11.0.0.0", "10.255.255.255"),
    ("100.63.255.255", "100.64.0.0"),
    ("100.128.0.0", "100.127.255.255"),
    ("126.255.255.255", "127.0.0.0"),
    ("128.0.0.0", "127.255.255.255"),
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
