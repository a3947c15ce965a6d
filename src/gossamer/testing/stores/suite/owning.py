"""Slots and their epochs: who may lease, what a dead holder leaves behind, what a late one can no longer do."""

import asyncio

from gossamer.records import Destination, Reason, SiteClock
from gossamer.testing.stores.suite.trial import DELAY, MOMENT, SLOTS, Trial, link, sites_of, urls


async def test_a_slot_has_one_owner_at_a_time(trial: Trial) -> None:
    assert set(await trial.own("first", [0, 1], lasts=100)) == {0, 1}
    assert set(await trial.own("second", range(SLOTS), at=50)) == {2, 3}
    assert set(await trial.own("first", range(SLOTS), at=50)) == {0, 1}


async def test_processes_that_reach_for_the_same_slots_at_once_share_none(trial: Trial) -> None:
    other = await trial.another()
    first, second = await asyncio.gather(
        trial.store.own("first", range(SLOTS), now=trial.at(0), until=trial.at(60), delay_seconds=DELAY),
        other.own("second", range(SLOTS), now=trial.at(0), until=trial.at(60), delay_seconds=DELAY),
    )
    assert not set(first) & set(second)
    assert set(first) | set(second) == set(range(SLOTS))


async def test_renewing_keeps_the_epoch_and_what_is_held(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    epochs = await trial.own(lasts=10)
    lease = await trial.lease_one()
    assert await trial.own(at=5, lasts=10) == epochs
    assert await trial.own("other", at=12) == {}
    await trial.release(lease)
    assert await trial.spool(lease) == set()


async def test_renewing_a_lapsed_slot_that_nobody_took_keeps_its_epoch(trial: Trial) -> None:
    """So that an outage of the store costs no refetch."""
    await trial.admit(link("a.example", "1"))
    epochs = await trial.own(lasts=10)
    lease = await trial.lease_one()
    assert await trial.own(at=500) == epochs
    assert await trial.spool(lease) == set()


async def test_a_lapsed_slot_can_be_taken_and_gets_a_new_epoch(trial: Trial) -> None:
    old = await trial.own("old", lasts=10)
    assert await trial.own("new", at=10 - MOMENT) == {}
    new = await trial.own("new", at=10 + MOMENT)
    assert set(new) == set(old)
    assert all(new[slot] != old[slot] for slot in old)
    assert await trial.own("old", at=20) == {}


async def test_an_epoch_never_comes_back(trial: Trial) -> None:
    seen = set()
    for turn in range(6):
        owner = f"owner {turn % 2}"
        epochs = await trial.own(owner, [0], at=turn)
        seen.add(epochs[0])
        await trial.store.disown(owner)
        await trial.reopen()
    assert len(seen) == 6


async def test_a_disowned_slot_is_free_at_once(trial: Trial) -> None:
    mine = await trial.own("mine", [0, 1])
    await trial.own("theirs", [2])
    await trial.store.disown("mine")
    assert set(await trial.own("next", range(SLOTS), at=1)) == {0, 1, 3}
    await trial.store.disown("next")
    # Even for the one that had it: it has left, so what it held must go back.
    again = await trial.own("mine", [0, 1], at=2)
    assert all(again[slot] != mine[slot] for slot in mine)


async def test_disowning_twice_or_an_unknown_owner_is_harmless(trial: Trial) -> None:
    epochs = await trial.own("mine")
    await trial.store.disown("unknown")
    await trial.store.disown("mine")
    await trial.store.disown("mine")
    taken = await trial.own("next")
    await trial.store.disown("mine")
    assert set(taken) == set(epochs)
    assert await trial.own("next", at=1) == taken


async def test_what_a_disowned_holder_still_holds_it_can_spool_until_the_slot_is_taken(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own("mine")
    lease = await trial.lease_one()
    await trial.store.disown("mine")
    assert (await trial.counts()).leased == 1
    assert await trial.spool(lease) == set()


async def test_a_dead_holder_costs_a_delay_never_a_url_and_never_a_gap(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own("dead", lasts=60)
    lease = await trial.lease_one()
    await trial.own("heir", at=100)
    counts = await trial.counts()
    assert (counts.queued, counts.leased, counts.sites_busy) == (3, 0, 0)
    assert await trial.lease(at=100 + DELAY - MOMENT) == []
    again = await trial.lease_one(at=100 + DELAY + MOMENT)
    assert (again.url, again.attempt, again.returned) == (lease.url, 0, 1)


async def test_what_a_dead_holder_held_waits_for_the_crawl_delay_of_its_site(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own("dead", lasts=60)
    await trial.release(await trial.lease_one(), clock=SiteClock(crawl_delay_seconds=30))
    await trial.lease_one(at=50)
    await trial.own("heir", at=100)
    assert await trial.lease(at=130 - MOMENT) == []
    assert len(await trial.lease(at=130 + MOMENT)) == 1


async def test_a_crawl_delay_that_is_learnt_after_a_death_counts_from_when_the_site_was_taken_back(
    trial: Trial,
) -> None:
    """The dead may have learnt of it, and asked for a page, just before."""
    await trial.admit(link("a.example", "1"), link("b.example", "1"))
    await trial.own("dead", lasts=60)
    one, _ = await trial.lease()
    await trial.release(one, clock=SiteClock(last_request_at=trial.at(200)))
    await trial.own("heir", at=100)
    leases = await trial.lease(at=100 + DELAY + MOMENT)
    assert sorted(lease.clock.last_request_at for lease in leases) == [trial.at(100), trial.at(200)]


async def test_what_a_dead_holder_had_released_and_not_spooled_waits_for_its_delay_too(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own("dead", lasts=60)
    await trial.release(await trial.lease_one())
    await trial.own("heir", at=100)
    assert await trial.lease(at=100 + DELAY - MOMENT) == []
    assert urls(await trial.lease(at=100 + DELAY + MOMENT)) == ["https://a.example/1"]


async def test_a_later_not_before_outlives_a_dead_holder(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own("dead", lasts=60)
    await trial.release(await trial.lease_one(), not_before=500)
    await trial.own("heir", at=100)
    assert await trial.lease(at=500 - MOMENT) == []
    assert len(await trial.lease(at=500 + MOMENT)) == 1


async def test_a_site_whose_holder_died_between_spool_and_release_is_free_again_after_its_delay(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"), link("b.example", "1"))
    await trial.own("dead", lasts=60)
    first, second = sorted(await trial.lease(), key=lambda lease: lease.site)
    await trial.spool(first)
    await trial.spool(second, to=Destination.TAIL, reason=Reason.RESET)
    await trial.own("heir", at=100)
    # Nobody knows when its last request ended: up to the moment in which the slot was taken.
    assert await trial.lease(at=100 + DELAY - MOMENT) == []
    again = await trial.lease(at=100 + DELAY + MOMENT)
    assert sorted(urls(again)) == ["https://a.example/2", "https://b.example/1"]
    assert (await trial.counts()).spooled == 1


async def test_two_urls_of_one_site_come_back_from_a_dead_holder(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "1234"))
    await trial.own("dead", lasts=60)
    await trial.release(await trial.lease_one(at=0))
    await trial.lease_one(at=20)
    await trial.own("heir", at=100)
    drained = await trial.drain_queue(at=200)
    assert sorted(urls(drained[:2])) == ["https://a.example/1", "https://a.example/2"]
    assert [lease.returned for lease in drained] == [1, 1, 0, 0]
    assert urls(drained[2:]) == ["https://a.example/3", "https://a.example/4"]


async def test_every_death_of_a_holder_is_noted_on_the_url(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    for turn in range(6):
        await trial.own(f"owner {turn}", at=100 * turn, lasts=60)
        lease = await trial.lease_one(at=100 * turn + 50)
        assert lease.returned == turn


async def test_taking_a_slot_leaves_other_slots_alone(trial: Trial) -> None:
    names = [next(sites_of(slot)) for slot in range(2)]
    await trial.admit(*(link(name) for name in names))
    await trial.own("dead", [0], lasts=60)
    await trial.lease_one()
    await trial.own("alive", [1])
    kept = await trial.lease_one()
    await trial.own("heir", [0], at=100)
    assert (await trial.counts()).leased == 1
    assert await trial.spool(kept) == set()


async def test_what_is_spooled_stays_spooled_when_its_slot_is_taken(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own("dead", lasts=60)
    lease = await trial.lease_one()
    await trial.spool(lease, segment="kept")
    await trial.own("heir", at=100)
    assert await trial.store.segments() == {"kept": 1}
    assert await trial.spool(lease, segment="kept") == set()
    await trial.finish(lease, segment="kept")
    assert (await trial.counts()).pages == 1


async def test_a_late_call_from_an_old_epoch_changes_nothing_and_is_told_so(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own("old", lasts=60)
    late = await trial.lease_one()
    await trial.own("new", at=100)
    before = await trial.counts()
    for to in Destination:
        assert await trial.spool(late, to=to, reason=Reason.RESET) == {late.number}
    await trial.release(late, not_before=9000, clock=SiteClock(failures=3), dropped=Reason.SITE_FAILING)
    await trial.finish(late)
    assert await trial.counts() == before
    held = await trial.lease_one(at=200)
    assert (held.url, held.clock) == (late.url, SiteClock(last_request_at=trial.at(100)))
    # Neither does it reach the new holder's lease of the same URL.
    assert await trial.spool(late) == {late.number}
    await trial.release(late)
    assert await trial.lease(at=5000) == []
    assert await trial.spool(held) == set()


async def test_a_lost_reply_to_a_live_holder_costs_nothing(trial: Trial) -> None:
    """Every verb once more with the same arguments: the answer is there again, and nothing has moved."""
    await trial.admit(link("a.example", "1"), link("b.example", "1"))
    epochs = await trial.own()
    assert await trial.own() == epochs
    leases = (await trial.ask(call="the call")).leases
    assert set((await trial.ask(call="the call")).leases) == set(leases)
    for _ in range(2):
        await trial.release(*leases)
    for _ in range(2):
        assert await trial.spool(*leases) == set()
    for _ in range(2):
        await trial.finish(*leases)
    counts = await trial.counts()
    assert (counts.finished, counts.pages, counts.received_bytes) == (2, 2, 200)


async def test_a_lost_lease_reply_of_a_holder_that_died_comes_back_with_its_slot(trial: Trial) -> None:
    await trial.admit(*(link(next(sites_of(slot))) for slot in range(2)))
    epochs = await trial.own("mine", [0, 1], lasts=60)
    leases = (await trial.ask(call="lost")).leases
    await trial.own("heir", [1], at=100)
    again = (await trial.ask(call="lost", epochs=epochs, at=100)).leases
    assert again == [lease for lease in leases if lease.slot == 0]
