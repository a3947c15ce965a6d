"""Batches of thousands: a store may cut them into steps, and nobody can tell from its answers."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import AdmitLimits
from gossamer.records import Candidate, Destination, Lease, Move, Reason, Release
from gossamer.testing.stores.model import ModelStore
from gossamer.testing.stores.suite.trial import DELAY, LATE, MOMENT, NO_LIMITS, SLOTS, Trial, link
from gossamer.url import stable_hash

#: More than any step that a store takes at once.
MANY = 5_000


def _offers(seed: int, sites: int) -> list[Candidate]:
    """Mixed as the links of many pages are: some twice, some seeds, some at the head, some variants of one path."""
    choice = random.Random(seed)  # noqa: S311 (no secret)
    offers = []
    for _ in range(MANY):
        site = f"site{min(choice.randrange(sites), choice.randrange(sites))}.example"
        path = choice.randrange(60)
        url = f"https://{site}/{path}"
        is_seed, at_head = choice.random() < 0.02, choice.random() < 0.05
        path_fingerprint = path % 3 and (1 << 64) - path % 3
        offers.append(Candidate(url, site, stable_hash(url), path, path % 5, is_seed, at_head, path_fingerprint))
    return offers


def _by_site(candidates: Iterable[Candidate | Lease]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for candidate in candidates:
        found[candidate.site].append(candidate.url)
    return found


async def _drained_model(model: ModelStore) -> list[Lease]:
    epochs = await model.own("sweeper", range(SLOTS), now=0, until=LATE, delay_seconds=0)
    drained: list[Lease] = []
    while leases := (await model.lease(f"{len(drained)}", epochs, MANY, now=LATE, delay_seconds=0, max_pages=0)).leases:
        await model.release([Release(lease, True, 0.0, lease.clock) for lease in leases])
        await model.spool("drain", [Move(lease, Destination.OUTCOME, Reason.STATUS) for lease in leases])
        drained += leases
    return drained


async def _admitted_as_by_the_model(trial: Trial, seed: int, sites: int, limits: Sequence[AdmitLimits]) -> None:
    model = ModelStore(SLOTS)
    for turn, limit in enumerate(limits):
        offers = _offers(seed + turn, sites)
        assert await trial.admit(*offers, limits=limit) == await model.admit(offers, limit, now=0.0)
    counts, expected = await trial.counts(), await model.counts(now=0)
    assert (counts.admitted, counts.sites, counts.sites_waiting) == (
        expected.admitted,
        expected.sites,
        expected.sites_waiting,
    )
    await trial.own()
    assert _by_site(await trial.drain_queue(at=0)) == _by_site(await _drained_model(model))


async def test_a_large_batch_is_answered_and_queued_in_its_order(trial: Trial) -> None:
    await _admitted_as_by_the_model(trial, 1, 300, [NO_LIMITS, NO_LIMITS])


async def test_limits_that_cut_in_the_middle_of_a_large_batch_are_exact(trial: Trial) -> None:
    limits = [
        AdmitLimits(site_queue=5),
        AdmitLimits(path_variants=3, site_urls=12, site_queue=9),
        AdmitLimits(only_seeded_sites=True, site_urls=20, path_variants=7),
    ]
    await _admitted_as_by_the_model(trial, 2, 300, limits)


async def test_limits_are_exact_in_a_large_batch_of_few_sites(trial: Trial) -> None:
    limits = [AdmitLimits(site_queue=17), AdmitLimits(path_variants=11, site_urls=40), NO_LIMITS]
    await _admitted_as_by_the_model(trial, 3, 7, limits)


async def test_a_large_batch_goes_all_the_way_in_one_call_of_each_verb(trial: Trial) -> None:
    sites = 2_000
    await trial.admit(*(link(f"site{number}.example", path) for number in range(sites) for path in "12"))
    await trial.own()
    leases = await trial.lease(limit=MANY)
    assert len(leases) == len({lease.number for lease in leases}) == sites
    await trial.release(*leases)
    ways = (Destination.PAGE, Destination.OUTCOME, Destination.LATER, Destination.HEAD)
    moves = [Move(lease, ways[number % 4], Reason.DNS) for number, lease in enumerate(leases)]
    assert await trial.store.spool("large", moves) == set()
    assert await trial.store.segments() == {"large": sites // 2}
    counts = await trial.counts()
    assert (counts.leased, counts.spooled, counts.retries) == (0, sites // 2, {Reason.DNS: sites // 2})
    await trial.finish(*leases, segment="large")
    assert (await trial.counts()).pages == sites // 2
    again = {lease.site: lease for lease in await trial.lease(at=2 * DELAY, limit=MANY)}
    assert len(again) == sites
    for number, lease in enumerate(leases):
        assert (again[lease.site].url == lease.url) == (number % 4 == 3)


async def test_a_large_segment_that_is_lost_and_a_holder_of_much_that_died_lose_nothing(trial: Trial) -> None:
    sites = 1_500
    await trial.admit(*(link(f"site{number}.example", path) for number in range(sites) for path in "12"))
    await trial.own("dead", lasts=60)
    spooled = await trial.lease(limit=MANY)
    await trial.release(*spooled)
    await trial.spool(*spooled, segment="lost")
    held = await trial.lease(at=20, limit=MANY)
    assert len(spooled) == len(held) == sites
    await trial.store.unspool("lost")
    await trial.own("heir", at=100)
    counts = await trial.counts()
    assert (counts.queued, counts.leased, counts.spooled, counts.sites_busy) == (2 * sites, 0, 0, 0)
    drained = await trial.drain_queue(at=200)
    assert [lease.returned for lease in drained] == [1] * 2 * sites


async def test_more_sites_are_due_than_are_asked_for_until_none_is(trial: Trial) -> None:
    """Each answer says when the next one is worth asking for: at once, while there are more."""
    await trial.admit(*(link(f"site{number}.example", path) for number in range(330) for path in "12"))
    await trial.own()
    given: list[Lease] = []
    while len(given) < 330:
        answer = await trial.ask(at=1, limit=100)
        assert len(answer.leases) == min(100, 330 - len(given))
        given += answer.leases
        if len(given) < 330:
            assert answer.next_due_at is not None
            assert answer.next_due_at <= trial.at(1)
        else:
            assert answer.next_due_at is None
    assert len({lease.site for lease in given}) == 330
    opens_at = {lease.site: 100.0 + number * 7 % 330 for number, lease in enumerate(given)}
    for lease in given:
        await trial.store.release([Release(lease, True, trial.at(opens_at[lease.site]), lease.clock)])
    # Half of them are due; within a slot those that opened first come first, whatever the limit.
    left = dict(opens_at)
    by_slot: dict[int, list[float]] = defaultdict(list)
    while left:
        answer = await trial.ask(at=100 + 164.5 if len(left) > 165 else 1000, limit=37)
        for lease in answer.leases:
            by_slot[slot_of(lease.site, SLOTS)].append(left.pop(lease.site))
        if left:
            assert answer.next_due_at is not None
            assert abs(answer.next_due_at - trial.at(min(left.values()))) < MOMENT
        else:
            assert answer.next_due_at is None
    assert all(slot == sorted(slot) for slot in by_slot.values())


async def test_a_large_batch_of_late_calls_is_refused_one_by_one(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(800)))
    await trial.own("old", lasts=60)
    leases = await trial.lease()
    await trial.own("new", range(0, SLOTS, 2), at=100)
    refused = await trial.spool(*leases)
    assert refused == {lease.number for lease in leases if lease.slot % 2 == 0}
    await trial.release(*leases, not_before=9_000)
    counts = await trial.counts()
    assert (counts.spooled, counts.leased, counts.sites_busy) == (800 - len(refused), 0, 0)
