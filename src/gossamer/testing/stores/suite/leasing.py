"""Who is given which URL, and when: order, clocks, the page budget, and replies that were lost."""

import asyncio
import itertools

from gossamer.records import Destination, Lease, Reason, SiteClock
from gossamer.testing.stores.suite.trial import DELAY, MOMENT, SLOTS, Trial, link, sites_of, urls


async def test_a_site_gives_its_urls_in_the_order_they_were_admitted(trial: Trial) -> None:
    """Also over several calls, and over more URLs than any block of a queue holds."""
    paths = [str(number) for number in range(300)]
    for start in range(0, 300, 75):
        await trial.admit(*(link("a.example", path) for path in paths[start : start + 75]))
    await trial.own()
    assert urls(await trial.drain_queue(at=0)) == [link("a.example", path).url for path in paths]


async def test_what_is_admitted_at_the_head_comes_first(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.admit(link("a.example", "redirected", at_head=True))
    await trial.admit(link("a.example", "3"))
    await trial.admit(link("a.example", "again", at_head=True))
    await trial.own()
    expected = [link("a.example", path).url for path in ("again", "redirected", "1", "2", "3")]
    assert urls(await trial.drain_queue(at=0)) == expected


async def test_a_lease_carries_what_was_admitted(trial: Trial) -> None:
    candidate = link("a.example", "1", depth=7, hops=3, is_seed=True)
    await trial.admit(candidate)
    epochs = await trial.own()
    lease = await trial.lease_one()
    assert lease.epoch == epochs[lease.slot]
    assert lease == Lease(
        number=lease.number,
        slot=lease.slot,
        epoch=lease.epoch,
        url=candidate.url,
        site="a.example",
        fingerprint=candidate.fingerprint,
        depth=7,
        hops=3,
        is_seed=True,
        attempt=0,
        returned=0,
        clock=SiteClock(),
    )


async def test_a_site_is_leased_to_at_most_one_holder(trial: Trial) -> None:
    other = await trial.another()
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own()
    lease = await trial.lease_one()
    for store in (trial.store, other):
        assert await trial.lease(at=100 * DELAY, store=store) == []
    # The URL may be spooled first: the site stays with its holder until it is released.
    await trial.spool(lease)
    assert await trial.lease(at=100 * DELAY, store=other) == []
    await trial.release(lease)
    assert len(await trial.lease(at=100 * DELAY)) == 1


async def test_two_processes_that_lease_at_once_never_share_a_site(trial: Trial) -> None:
    other = await trial.another()
    await trial.admit(*(link(f"{letter}.example", path) for letter in "abcdefghij" for path in "123"))
    epochs = await trial.own()
    answers = await asyncio.gather(
        *(
            store.lease(f"{number}", epochs, 4, now=trial.at(0), delay_seconds=DELAY, max_pages=0)
            for number, store in enumerate([trial.store, other] * 3)
        )
    )
    leases = [lease for answer in answers for lease in answer.leases]
    assert len(leases) == len({lease.site for lease in leases}) == 10
    assert len({lease.number for lease in leases}) == 10


async def test_a_site_is_never_leased_before_its_not_before(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    await trial.release(await trial.lease_one(), not_before=50)
    for seconds in (0, DELAY, 50 - MOMENT):
        assert await trial.lease(at=seconds) == []
    assert len(await trial.lease(at=50 + MOMENT)) == 1


async def test_the_lease_itself_closes_the_site_for_its_delay(trial: Trial) -> None:
    """So that a crash after the request opens no gap. An early `not_before` of the release does not undo it."""
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    await trial.release(await trial.lease_one(at=5), not_before=-1000)
    assert await trial.lease(at=5 + DELAY - MOMENT) == []
    assert len(await trial.lease(at=5 + DELAY + MOMENT)) == 1


async def test_a_crawl_delay_raises_the_clock_of_a_lease_and_never_lowers_it(trial: Trial) -> None:
    await trial.admit(*(link(site, path) for site in ("slow.example", "quick.example") for path in "123"))
    await trial.own()
    for lease in await trial.lease():
        crawl_delay = 4 * DELAY if lease.site == "slow.example" else DELAY / 10
        await trial.release(lease, clock=SiteClock(crawl_delay_seconds=crawl_delay))
    start = 100.0
    await trial.release(*await trial.lease(at=start))
    assert await trial.lease(at=start + DELAY - MOMENT) == []
    assert [lease.site for lease in await trial.lease(at=start + DELAY + MOMENT)] == ["quick.example"]
    assert await trial.lease(at=start + 4 * DELAY - MOMENT) == []
    assert [lease.site for lease in await trial.lease(at=start + 4 * DELAY + MOMENT)] == ["slow.example"]


async def test_one_url_each_of_as_many_sites_as_were_asked_for(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example", path) for number in range(30) for path in "12"))
    await trial.own()
    sizes = [len(await trial.lease(limit=12)) for _ in range(4)]
    assert sizes == [12, 12, 6, 0]


async def test_the_site_that_waited_longest_comes_first_within_a_slot(trial: Trial) -> None:
    names = list(itertools.islice(sites_of(1), 5))
    await trial.admit(*(link(name, path) for name in names for path in "12"))
    epochs = await trial.own("owner", [1])
    order = [names[number] for number in (3, 0, 4, 1, 2)]
    for lease in (await trial.ask(epochs=epochs)).leases:
        await trial.release(lease, not_before=100 + order.index(lease.site))
    given = [(await trial.ask(epochs=epochs, at=200, limit=1)).leases[0].site for _ in names]
    assert given == order


async def test_every_slot_that_has_something_due_is_served(trial: Trial) -> None:
    names = [next(sites_of(slot)) for slot in range(SLOTS)]
    await trial.admit(*(link(name) for name in names))
    await trial.own()
    given = [(await trial.lease(limit=1))[0].site for _ in names]
    assert sorted(given) == sorted(names)


async def test_crowded_slots_do_not_keep_an_overdue_site_of_another_slot_waiting(trial: Trial) -> None:
    overdue = [next(sites_of(slot)) for slot in range(SLOTS)]
    crowd = [name for slot in range(SLOTS) for name in itertools.islice(sites_of(slot), 1, 11)]
    await trial.admit(*(link(name) for name in overdue), at=1)
    await trial.admit(*(link(name) for name in crowd), at=2)
    await trial.own()
    given = [(await trial.lease(at=3, limit=1))[0].site for _ in range(SLOTS)]
    assert sorted(given) == sorted(overdue)


async def test_slots_that_were_not_asked_for_give_nothing(trial: Trial) -> None:
    names = [next(sites_of(slot)) for slot in range(SLOTS)]
    await trial.admit(*(link(name) for name in names))
    epochs = await trial.own()
    answer = await trial.ask(epochs={2: epochs[2]})
    assert [lease.site for lease in answer.leases] == [names[2]]
    assert answer.next_due_at is None


async def test_the_same_call_answers_the_same_leases_again(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example", path) for number in range(10) for path in "12"))
    await trial.own()
    first = await trial.ask(call="lost", limit=4)
    await trial.ask(call="another", limit=2)
    other = await trial.another()
    again = await trial.ask(call="lost", limit=4, at=3, store=other)
    assert set(again.leases) == set(first.leases)
    assert (await trial.counts()).leased == 6


async def test_a_repeated_call_moves_no_clock(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    (lease,) = (await trial.ask(call="lost")).leases
    await trial.ask(call="lost", at=1000)
    await trial.release(lease)
    assert len(await trial.lease(at=DELAY + MOMENT)) == 1


async def test_a_repeated_call_answers_only_what_is_still_held(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(4)))
    await trial.own()
    leases = (await trial.ask(call="lost")).leases
    await trial.release(*leases)
    await trial.spool(leases[0])
    await trial.spool(leases[1], to=Destination.TAIL, reason=Reason.DNS)
    again = (await trial.ask(call="lost", limit=4)).leases
    assert {lease.number for lease in again} == {lease.number for lease in leases[2:]}


async def test_a_lease_under_another_epoch_gives_nothing(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(20)))
    old = await trial.own("old", lasts=10)
    new = await trial.own("new", at=20)
    assert (await trial.ask(epochs=old, at=20)).leases == []
    assert (await trial.ask(epochs={slot: epoch + 1 for slot, epoch in new.items()}, at=20)).leases == []
    half = {slot: old[slot] if slot % 2 else new[slot] for slot in new}
    leases = (await trial.ask(epochs=half, at=20)).leases
    assert {lease.slot % 2 for lease in leases} == {0}


async def test_a_number_never_names_two_leases(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("b.example", "1"))
    numbers = []
    for turn in range(4):
        await trial.own(f"owner {turn}", at=100 * turn, lasts=1)
        leases = await trial.lease(at=100 * turn + 50)
        numbers += [lease.number for lease in leases]
        await trial.release(*leases)
        await trial.spool(*leases, to=Destination.HEAD, reason=Reason.BUSY)
        await trial.reopen()
    assert len(numbers) == len(set(numbers)) == 8


async def test_the_answer_says_when_it_is_worth_asking_again(trial: Trial) -> None:
    names = list(itertools.islice(sites_of(0), 3))
    await trial.admit(*(link(name, path) for name in names for path in "12"))
    await trial.own("owner", [0])
    # More are due than were asked for.
    answer = await trial.ask(limit=2)
    assert answer.next_due_at is not None
    assert answer.next_due_at <= trial.at(0)
    (last,) = (await trial.ask()).leases
    # All three are busy, and nobody knows for how long.
    assert (await trial.ask()).next_due_at is None
    for number, lease in enumerate([*answer.leases, last]):
        await trial.release(lease, not_before=40 - number)
    next_due_at = (await trial.ask()).next_due_at
    assert next_due_at is not None
    assert abs(next_due_at - trial.at(38)) < MOMENT


async def test_no_next_time_does_not_mean_that_the_crawl_is_finished(trial: Trial) -> None:
    assert (await trial.ask(epochs=await trial.own())).next_due_at is None
    await trial.admit(link("a.example", "1"))
    answer = await trial.ask()
    assert answer.next_due_at is None
    await trial.release(*answer.leases, not_before=DELAY)
    assert (await trial.ask()).next_due_at is None
    await trial.admit(link("a.example", "2"))
    assert (await trial.ask()).next_due_at is not None


async def test_the_page_budget_is_exact(trial: Trial) -> None:
    """Pages, leased and spooled pages together never exceed it; what fails hands its grant back."""
    await trial.admit(*(link(f"site{number}.example", path) for number in range(20) for path in "12"))
    await trial.own()
    leases = await trial.lease(max_pages=10)
    assert len(leases) == 10
    spent = await trial.ask(max_pages=10)
    assert (spent.leases, spent.next_due_at) == ([], None)
    await trial.release(*leases)
    assert await trial.lease(max_pages=10) == []
    # No page will come of these three.
    await trial.spool(leases[0], to=Destination.OUTCOME, reason=Reason.STATUS)
    await trial.spool(leases[1], to=Destination.TAIL, reason=Reason.TIMEOUT)
    await trial.spool(leases[2], to=Destination.HEAD, reason=Reason.BUSY)
    # These may still become pages, or are pages already.
    await trial.spool(*leases[3:8])
    await trial.finish(*leases[3:6])
    more = await trial.lease(max_pages=10)
    assert len(more) == 3
    assert await trial.lease(max_pages=10) == []
    # Spooled as a page, and it killed its parser: no page after all.
    await trial.finish(leases[6], reason=Reason.PARSE_CRASH)
    assert len(await trial.lease(max_pages=10)) == 1
    # A larger budget, after a resume.
    await trial.reopen()
    assert len(await trial.lease(max_pages=12)) == 2
    assert len(await trial.lease(max_pages=0)) > 2


async def test_a_lost_segment_and_a_dead_holder_hand_their_grants_back(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(6)))
    await trial.own()
    leases = await trial.lease(max_pages=4)
    await trial.release(*leases[:2])
    await trial.spool(*leases[:2], segment="lost")
    await trial.store.unspool("lost")
    assert len(await trial.lease(at=100, max_pages=4)) == 2
    await trial.store.disown("fetcher")
    await trial.own(at=100)
    assert len(await trial.lease(at=200, max_pages=4)) == 4


async def test_two_processes_never_overdraw_the_page_budget_together(trial: Trial) -> None:
    other = await trial.another()
    await trial.admit(*(link(f"site{number}.example") for number in range(40)))
    epochs = await trial.own()
    answers = await asyncio.gather(
        *(
            store.lease(f"{number}", epochs, 4, now=trial.at(0), delay_seconds=DELAY, max_pages=13)
            for number, store in enumerate([trial.store, other] * 4)
        )
    )
    assert sum(len(answer.leases) for answer in answers) == 13
