"""Two processes make the same call at the same moment: one of them was first, and both are told so."""

import asyncio
from collections.abc import Awaitable, Callable

from gossamer.frontier.store import AdmitLimits, Store
from gossamer.records import Destination, Finished, Lease, Move, Reason, Release
from gossamer.testing.stores.suite.trial import DELAY, MOMENT, NO_LIMITS, SLOTS, Trial, link, urls


async def _both(trial: Trial, verb: Callable[[Store], Awaitable[object]], times: int = 3) -> None:
    other = await trial.another()
    await asyncio.gather(*(verb(store) for store in [trial.store, other] * times))


async def _leased(trial: Trial, sites: int) -> list[Lease]:
    await trial.admit(*(link(f"site{number}.example", path) for number in range(sites) for path in "12"))
    await trial.own()
    leases = await trial.lease()
    assert len(leases) == sites
    return leases


async def test_large_batches_that_overlap_are_admitted_once(trial: Trial) -> None:
    """In another order each: no two of them may wait for each other."""
    other = await trial.another()
    candidates = [link(f"site{number % 90}.example", str(number)) for number in range(1_800)]
    offers = [candidates[:1_200], candidates[600:][::-1], candidates[::2] + candidates[1::2], candidates[::-1]]
    answers = await asyncio.gather(
        *(store.admit(offer, NO_LIMITS, now=0.0) for store, offer in zip([trial.store, other] * 2, offers, strict=True))
    )
    new = [
        candidate
        for offer, answer in zip(offers, answers, strict=True)
        for candidate, reason in zip(offer, answer, strict=True)
        if reason is Reason.NEW
    ]
    assert {reason for answer in answers for reason in answer} == {Reason.NEW, Reason.SEEN}
    assert len(new) == len(set(new)) == len(candidates)
    trial.note_admitted(candidates)
    assert (await trial.counts()).queued == len(candidates)


async def test_a_queue_that_several_fill_at_once_is_full_at_its_limit(trial: Trial) -> None:
    other = await trial.another()
    limits = AdmitLimits(site_queue=25)
    offers = [[link("a.example", f"{turn}-{number}") for number in range(10)] for turn in range(8)]
    answers = await asyncio.gather(
        *(store.admit(offer, limits, now=0.0) for store, offer in zip([trial.store, other] * 4, offers, strict=True))
    )
    new = [
        candidate
        for offer, answer in zip(offers, answers, strict=True)
        for candidate, reason in zip(offer, answer, strict=True)
        if reason is Reason.NEW
    ]
    assert len(new) == 25
    trial.note_admitted(new)
    assert (await trial.counts()).queued == 25


async def test_a_call_that_is_repeated_while_it_is_still_made_hides_no_lease(trial: Trial) -> None:
    """Its caller thought it lost. Whatever both of them took, the next answer names it all."""
    await trial.admit(*(link(f"site{number}.example", path) for number in range(40) for path in "12"))
    epochs = await trial.own()

    def lease(store: Store) -> Awaitable[object]:
        return store.lease("lost", epochs, 12, now=trial.at(0), delay_seconds=DELAY, max_pages=0)

    await _both(trial, lease)
    leases = (await trial.ask(call="lost", limit=100)).leases
    assert (await trial.counts()).leased == len(leases) == len({lease.site for lease in leases}) >= 12
    assert await trial.spool(*leases) == set()


async def test_a_url_that_is_spooled_into_two_segments_at_once_is_in_one_of_them(trial: Trial) -> None:
    leases = await _leased(trial, 60)
    await trial.release(*leases)
    other = await trial.another()
    moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases]
    refused = await asyncio.gather(trial.store.spool("one", moves), other.spool("two", moves[::-1]))
    assert refused[0] | refused[1] == {lease.number for lease in leases}
    assert not refused[0] & refused[1]
    assert await trial.store.spooled("one") == refused[1]
    assert await trial.store.spooled("two") == refused[0]
    assert (await trial.counts()).spooled == 60


async def test_a_url_that_goes_back_twice_at_once_is_queued_once(trial: Trial) -> None:
    leases = await _leased(trial, 30)
    await trial.release(*leases)
    moves = [Move(lease, Destination.TAIL, Reason.DNS) for lease in leases]
    await _both(trial, lambda store: store.spool("segment", moves))
    counts = await trial.counts()
    assert (counts.queued, counts.leased, counts.retries) == (60, 0, {Reason.DNS: 30})
    drained = await trial.drain_queue(at=100)
    assert len(urls(drained)) == len(set(urls(drained))) == 60
    assert sum(lease.attempt for lease in drained) == 30


async def test_what_is_finished_by_several_at_once_counts_once(trial: Trial) -> None:
    leases = await _leased(trial, 50)
    await trial.spool(*leases)
    done = [
        Finished("segment", lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 7) for lease in leases
    ]
    await _both(trial, lambda store: store.finish(done))
    counts = await trial.counts()
    assert (counts.finished, counts.pages, counts.received_bytes, counts.spooled) == (50, 50, 350, 0)


async def test_a_site_that_is_given_up_by_several_at_once_is_finished_once(trial: Trial) -> None:
    leases = await _leased(trial, 20)
    releases = [Release(lease, True, trial.at(0), lease.clock, Reason.SITE_FAILING) for lease in leases]
    await _both(trial, lambda store: store.release(releases))
    assert (await trial.counts()).outcomes == {Reason.SITE_FAILING: 20}


async def test_a_segment_that_is_lost_while_it_is_finished_leaves_each_url_in_one_place(trial: Trial) -> None:
    leases = await _leased(trial, 50)
    await trial.release(*leases)
    await trial.spool(*leases)
    other = await trial.another()
    done = [
        Finished("segment", lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 7) for lease in leases
    ]
    await asyncio.gather(trial.store.finish(done), other.unspool("segment"), other.finish(done[::-1]))
    counts = await trial.counts()
    assert counts.spooled == 0
    assert counts.finished == counts.received_bytes // 7
    assert counts.queued == 100 - counts.finished


async def test_a_slot_that_is_taken_while_its_old_owner_spools_leaves_each_url_in_one_place(trial: Trial) -> None:
    leases = await _leased(trial, 60)
    other = await trial.another()
    moves = [Move(lease, Destination.PAGE, Reason.PAGE) for lease in leases]
    refused, owned = await asyncio.gather(
        trial.store.spool("late", moves),
        other.own("heir", range(SLOTS), now=trial.at(5000), until=trial.at(6000), delay_seconds=DELAY),
    )
    assert set(owned) == set(range(SLOTS))
    counts = await trial.counts()
    assert (counts.leased, counts.sites_busy) == (0, 0)
    assert counts.spooled == 60 - len(refused)
    assert await trial.store.spooled("late") == {lease.number for lease in leases} - refused


async def test_a_slot_that_is_taken_while_its_old_owner_leases_leaves_nothing_held_by_it(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example", path) for number in range(40) for path in "12"))
    epochs = await trial.own("old", lasts=10)
    other = await trial.another()
    answers = await asyncio.gather(
        trial.store.lease("late", epochs, 100, now=trial.at(20), delay_seconds=DELAY, max_pages=0),
        other.own("heir", range(SLOTS), now=trial.at(20), until=trial.at(60), delay_seconds=DELAY),
    )
    counts = await trial.counts()
    assert (counts.leased, counts.sites_busy, counts.queued) == (0, 0, 80)
    assert await trial.spool(*answers[0].leases) == {lease.number for lease in answers[0].leases}
    assert all(epochs[slot] != answers[1][slot] for slot in range(SLOTS))
    trial.epochs = answers[1]
    assert len(await trial.lease(at=20 + DELAY + MOMENT)) == 40


async def test_counts_that_are_read_while_others_write_add_up(trial: Trial) -> None:
    other = await trial.another()
    await trial.own()
    batches = [[link(f"site{number}.example", f"{turn}") for number in range(50)] for turn in range(6)]
    writing = [
        store.admit(batch, NO_LIMITS, now=0.0) for store, batch in zip([trial.store, other] * 3, batches, strict=True)
    ]
    reading = [store.counts(now=trial.at(0)) for store in [trial.store, other] * 6]
    _, readings = await asyncio.gather(asyncio.gather(*writing), asyncio.gather(*reading))
    trial.note_admitted([candidate for batch in batches for candidate in batch])
    for counts in readings:
        assert counts.sites <= counts.queued == counts.admitted <= 300
    assert (await trial.counts()).queued == 300
