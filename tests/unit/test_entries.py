"""URLs as they wait in queues."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.frontier.store import LONGEST_VIA
from gossamer.frontier.stores.entries import entries_of, entry_of, lease_of
from gossamer.records import Candidate, Lease, SiteClock

ORIGINS = ["http://a.example/", "https://a.example/", "https://世.example/", f"https://{'long.' * 60}example/", "", "/"]
urls = st.builds(str.__add__, st.sampled_from(ORIGINS), st.text(st.characters(codec="utf-8"), max_size=40))
candidates = st.builds(
    Candidate,
    url=urls,
    site=st.just("a.example"),
    fingerprint=st.integers(0, 2**64 - 1),
    depth=st.integers(0, 2**32 - 1),
    hops=st.integers(0, 20),
    is_seed=st.booleans(),
    via=st.one_of(urls, st.just("x" * (LONGEST_VIA + 1))),
)


def read(entry: bytes) -> Lease:
    return lease_of(entry, number=1, slot=2, epoch=3, site="a.example", clock=SiteClock())


@given(st.lists(candidates, max_size=5))
def test_entries_made_together_say_what_each_would_say_alone(offered: list[Candidate]) -> None:
    leases = [read(entry) for entry in entries_of(offered)]
    assert leases == [read(entry_of(candidate)) for candidate in offered]
    assert [(lease.url, lease.fingerprint, lease.is_seed) for lease in leases] == [
        (candidate.url, candidate.fingerprint, candidate.is_seed) for candidate in offered
    ]
    assert [lease.via for lease in leases] == [
        candidate.via if len(candidate.via) <= LONGEST_VIA else "" for candidate in offered
    ]
